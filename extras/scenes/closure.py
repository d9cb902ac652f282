"""Do You See Me's visual closure: which of four outlines with gaps would match the target if it
were completed? The others have bent corners."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

import numpy as np

from looktwice.eval.tasks.outlines import XY, compute_circle_points, make_regular_polygon, make_star
from looktwice.eval.tasks.swept import Control, IntegerControl, SceneParameters
from looktwice.extras.do_you_see_me.subtasks import CLOSURE_SHAPES, SUBTASKS
from looktwice.extras.scenes.canvas import make_blank, stroke_outline, write_text
from looktwice.extras.scenes.scene import Attempts, Scene, SceneType
from looktwice.extras.scenes.sheets import CHANGE_COMBINATIONS, FRAME_NAMES, shuffle_options
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

SUBTASK_NAME = "visual_closure"
SHEET_SIZE = (1200, 300)  # pixels of the sheet
PANEL_COLUMNS, PANEL_ROWS = (186.0, 462.0, 738.0, 1014.0), (90.0, 232.0)  # centres of the panels
PANEL_CENTRES = dict(
    zip(
        FRAME_NAMES,
        [(PANEL_COLUMNS[0], PANEL_ROWS[0]), *product(PANEL_COLUMNS, PANEL_ROWS[1:])],
        strict=True,
    )
)
TITLE_BASELINES = (28, 171)  # baselines
SHAPE_HEIGHT = 95.7  # pixels from the top to the bottom of a shape
LINE_WIDTH, FONT_SIZE = 100 / 72 * 1.5, 100 / 72 * 12  # pixels: 1.5 and 12 points at 100 dpi
MIN_PIXEL_DIFFERENCE = 8.0  # smallest difference between two options, in black pixels


def make_outline(shape: str, official: bool = False) -> XY:
    """Return the corners of a shape (y up), with subdivided edges, each of which begins at a
    corner.

    The authors repeat some corners, which creates edges of zero length, and the left end of their
    capsule is bent inwards; `official` reproduces both flaws.
    """
    if shape == "capsule":
        right = 0.5 * compute_circle_points(np.linspace(-np.pi / 2, np.pi / 2, 17)) + (0.5, 0)
        if official:
            left = right[::-1] - (1, 0)
            return np.concatenate([left, right[:1], right, left[:1]])
        return np.concatenate([right, -right])
    if shape == "circle":
        return make_regular_polygon(64, 1, 0)
    corners, parts = {
        "star": (make_star(10, 1, 0.5, 0), 2),
        "hexagon": (make_regular_polygon(6, 1, 0), 4),
        "pentagon": (make_regular_polygon(5, 1, 0), 4),
        "rectangle": (make_regular_polygon(4, 1, 0), 2),
        "triangle": (make_regular_polygon(3, 1, 0), 4),
    }[shape]
    shares = np.arange(parts)[None, :, None] / parts
    ends = np.roll(corners, -1, axis=0)[:, None]
    points: XY = (corners[:, None] * (1 - shares) + ends * shares).reshape(-1, 2)
    return np.concatenate([points, points[:1]]) if official else points


def draw_closure(params: SceneParameters) -> Attempts:
    """Yield sheets of a target and four options. In the official version the target is the plain
    shape, it is the only option without bent corners, and every panel is scaled to its own height.

    Otherwise the options are the four combinations of two sets of bent corners. Any of them, drawn
    complete, may be the target; gaps do not overlap, and the drawn part of each option differs
    visibly from every other option, so that it cannot be completed to another one.
    """
    shape, official = str(params.levels["shape"]), params.official
    points = make_outline(shape, official)
    while True:
        gaps = _choose_gaps(params, len(points))
        options = _bend_options(params, points, gaps)
        if not options:
            yield None
            continue
        choices, place = shuffle_options(params, options)
        fair = official or _are_all_different(choices, gaps, shape)
        yield _make_scene(params, choices, place, gaps) if fair else None


Gaps = tuple[list[int], list[int]]
"""The edges that are missing, and the edges whose second half is missing; an edge has the index of
the corner at which it begins."""


def _choose_gaps(params: SceneParameters, count: int) -> Gaps:
    removed, halved = int(params.levels["edges_removed"]), int(params.levels["edges_halved"])
    if (
        params.official
    ):  # two independent draws, so an edge may be in both; the last two edges are never drawn
        first = params.shuffled(range(count - 2))[:halved]
        return params.shuffled(range(count - 2))[:removed], first
    order = params.shuffled(range(count))
    return order[:removed], order[removed : removed + halved]


def _bend_corners(params: SceneParameters, points: XY, corners: Sequence[int]) -> XY:
    """Draw the shift of each corner: for `corners`, the offset with random signs in x and y; for
    others, 0."""
    moves = np.zeros_like(points)
    moves[corners] = params.levels["offset"] * params.rng.choice([-1, 1], (len(corners), 2))
    return moves


def _bend_options(params: SceneParameters, points: XY, gaps: Gaps) -> list[XY]:
    """Return the four options; empty if too few corners are visible.

    In the official version these are the shape and three versions with bent corners. Otherwise they
    are the four combinations of two sets of bent corners: none, either set, or both. Every bent
    corner is at a drawn edge.
    """
    number, count = int(params.levels["edges_distorted"]), len(points)
    cut, short = set(gaps[0]), set(gaps[1])
    if params.official:
        edges = set(range(count - 1)) - cut - short
        seen = sorted(edges | {edge + 1 for edge in edges})
        if len(seen) < number:
            return []
        bent = [_bend_corners(params, points, params.shuffled(seen)[:number]) for _ in range(3)]
        return [points, *(points + moves for moves in bent)]
    seen = [n for n in range(count) if n not in cut or (n - 1) % count not in cut | short]
    if len(seen) < 2 * number:
        return []
    chosen = params.shuffled(seen)
    first = _bend_corners(params, points, chosen[:number])
    second = _bend_corners(params, points, chosen[number : 2 * number])
    return [points + a * first + b * second for a, b in CHANGE_COMBINATIONS]


def _list_segments(points: XY, gaps: Gaps = ([], [])) -> list[XY]:
    removed, halved = gaps
    segments = []
    for number, (start, end) in enumerate(zip(points, np.roll(points, -1, axis=0), strict=True)):
        if number not in removed:
            segments.append(np.array([start, (start + end) / 2 if number in halved else end]))
    return segments


def _draw_segments(
    pixels: Pixels, segments: Sequence[XY], framed: XY, center: tuple[float, float]
) -> None:
    """Draw segments (y up), moved and scaled such that the box around `framed` is centred in the
    panel and as high as a shape."""
    low, high = framed.min(axis=0), framed.max(axis=0)
    middle, scale = (low + high) / 2, float(SHAPE_HEIGHT / (high - low)[1])
    for segment in segments:
        line = (segment - middle) * (scale, -scale) + center
        stroke_outline(pixels, line, LINE_WIDTH, closed=False, cap=LINE_WIDTH / 2)


def _are_all_different(choices: Sequence[XY], gaps: Gaps, shape: str) -> bool:
    """Return whether the drawn part of each option differs from every other complete option, so
    that gaps hide no bend."""

    def draw_ink(segments: Sequence[XY]) -> XY:
        pixels = make_blank(300, 160)
        _draw_segments(pixels, segments, make_outline(shape), (150, 80))
        return 1 - pixels[:, :, 0] / 255

    inks = [
        (draw_ink(_list_segments(points, gaps)), draw_ink(_list_segments(points)))
        for points in choices
    ]
    pairs = permutations(inks, 2)
    return all(np.clip(a[0] - b[1], 0, None).sum() >= MIN_PIXEL_DIFFERENCE for a, b in pairs)


def _make_scene(params: SceneParameters, choices: Sequence[XY], place: int, gaps: Gaps) -> Scene:
    shape, official = str(params.levels["shape"]), params.official
    options = [points.round(4).tolist() for points in choices]
    edges = {"edges_removed": sorted(gaps[0]), "edges_halved": sorted(gaps[1])}
    truth: dict[str, Any] = {"target": options[place], "options": options, **edges}
    marks = [Box(name, x - 120, y - 60, x + 120, y + 60) for name, (x, y) in PANEL_CENTRES.items()]

    def paint() -> Pixels:
        pixels = make_blank(*SHEET_SIZE)
        drawings = [
            _list_segments(choices[place]),
            *(_list_segments(points, gaps) for points in choices),
        ]
        for segments, (name, center) in zip(drawings, PANEL_CENTRES.items(), strict=True):
            title = "Target Shape" if name == "Target" else name
            write_text(pixels, title, center[0], TITLE_BASELINES[name != "Target"], FONT_SIZE)
            framed = np.concatenate(segments) if official else make_outline(shape)
            _draw_segments(pixels, segments, framed, center)
        return pixels

    return Scene(SUBTASKS["2D"][SUBTASK_NAME].question, str(place + 1), truth, paint, tuple(marks))


CLOSURE_TYPE = SceneType(
    SUBTASK_NAME,
    "option",
    (
        Control("shape", CLOSURE_SHAPES),
        Control("offset", (0.1, 0.12, 0.14), 0.02, 0.4),
        IntegerControl("edges_distorted", (1, 3), 1, 10),
        IntegerControl("edges_removed", (1, 3), 0, 10),
        IntegerControl("edges_halved", (1, 3), 0, 10),
    ),
    draw_closure,
    (
        "the answer is the only option without bent corners, so it can be found without the target",
        (
            "a corner may be bent along its own edge, which is invisible, and a gap may lie on"
            " another gap or on an edge of zero length"
        ),
        "the left end of the capsule is bent inwards, and each panel is scaled to its own height",
    ),
)
