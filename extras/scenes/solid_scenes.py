"""Do You See Me's five 3D subtasks: counting solids (two subtasks), letters made of solids, pairs
of groups of solids of which one group may be tilted, and grids of solids."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Literal

import numpy as np

from looktwice.eval.tasks.swept import Control, Controls, IntegerControl, SceneParameters
from looktwice.extras.do_you_see_me.subtasks import SUBTASKS, Form
from looktwice.extras.scenes.grids import (
    DIRECTION_STEPS,
    LETTER_DOTS,
    Cell,
    GridQuestion,
    compute_contrast,
)
from looktwice.extras.scenes.scene import Attempts, Scene, SceneType, number_labels
from looktwice.extras.scenes.scenes3d import (
    COLORS,
    MIN_DISTANCE_FACTOR,
    SHAPES,
    Camera,
    Floats,
    Solid,
    is_fully_visible,
    measure_visible_shares,
)
from looktwice.extras.scenes.stage import GROUND_COLORS, PICTURE_SIZE, SceneSetup

# ---- solids that are counted

MAX_PLACEMENT_TRIES = 50  # positions tried for a solid
HIDDEN_NOTE = "a solid may hide or touch one that was placed earlier"
MIN_SOLID_DISTANCE = 2.0  # minimum distance of two solids' centres
COUNTED_COLORS = ("red", "blue", "yellow", "black", "white")
HIGH_CAMERA = Camera((0.0, -15.0, 8.0), (0.0, 0.5, 0.0), PICTURE_SIZE)


def _place_solids(
    params: SceneParameters, stage: SceneSetup, names: Sequence[tuple[str, str]]
) -> list[Solid]:
    """Place solids of these shapes and colours where there is room, entirely within the picture."""
    placed, reaches = list[Solid](), list[Floats]()
    least = params.levels["min_visibility"]
    for shape, color in names:
        for _ in range(MAX_PLACEMENT_TRIES):
            x, y, size = params.rng.uniform((-7, -5, 0.6), (7, 9, 1.2)).tolist()
            solid = Solid.on_ground(shape, color, x, y, size)
            if not solid.is_separated(
                placed, 0 if params.official else MIN_DISTANCE_FACTOR, MIN_SOLID_DISTANCE
            ):
                continue
            reach = stage.measure_distances(solid)
            shares = measure_visible_shares([*reaches, reach])
            share = shares[-1] if params.official else shares.min()
            if share >= least and is_fully_visible(reach):
                placed.append(solid)
                reaches.append(reach)
                break
    return placed


def draw_counting(colored: bool, params: SceneParameters) -> Attempts:
    """Yield scenes whose question asks for the number of a shape, or, if `colored`, of a shape in
    one colour.

    In the official version all scenes have the same ground and light, solids are placed as long as
    there is room, and the question is about solids that are present. Otherwise the answers are
    balanced: every number from 1 (from 0 for a colour) to `max_instances`.
    """
    levels, most = params.levels, params.levels["max_instances"]
    key = 0 if params.official else params.deal(range(0 if colored else 1, most + 1))
    while True:
        stage = SceneSetup.draw(params, HIGH_CAMERA, params.official)
        shapes = params.shuffled(SHAPES)[: levels["num_shapes"]]
        colors = params.shuffled(COUNTED_COLORS)
        names = list[tuple[str, str]]()
        for shape in shapes if params.official else shapes[1:]:
            names += [(shape, params.pick(colors)) for _ in range(params.draw_integer(1, most))]
        if not params.official:
            asked_color = colors[:1] if colored else colors
            names += [(shapes[0], params.pick(asked_color)) for _ in range(key)]
            more = max(params.draw_integer(1, most) - key, 0) if colored else 0
            names += [(shapes[0], params.pick(colors[1:])) for _ in range(more)]
        solids = _place_solids(params, stage, params.shuffled(names))
        if solids and (params.official or len(solids) == len(names)):
            pairs = sorted({(solid.shape, str(solid.color)) for solid in solids})
            asked = params.pick(pairs) if params.official else (shapes[0], colors[0])
            yield _make_counting_scene(params, stage, solids, asked, colored)
        else:
            yield None


def _make_counting_scene(
    params: SceneParameters,
    stage: SceneSetup,
    solids: Sequence[Solid],
    asked: tuple[str, str],
    colored: bool,
) -> Scene:
    """Build the scene whose question asks for the number of a shape, or of a shape and colour."""
    of_shape = Counter(solid.shape for solid in solids)
    of_pair = Counter((solid.shape, str(solid.color)) for solid in solids)
    sidecar = {
        **stage.sidecar,
        "shape_counts": dict(of_shape),
        "shape_color_counts": {str(pair): count for pair, count in of_pair.items()},
        "min_visibility": params.levels["min_visibility"],
        "num_objects": len(solids),
        "num_shapes": params.levels["num_shapes"],
        "max_instances_per_shape": params.levels["max_instances"],
    }
    shape, color = asked
    if colored:
        question = f"In the scene, how many {color} {shape}'s are there?"
        answer, name = str(of_pair[asked]), f"{color} {shape}"
        return stage.make_scene(solids, question, answer, sidecar, counted_label=name)
    question = f"In the scene, how many {shape}'s are there in total?"
    labels = list(number_labels(solid.shape for solid in solids))
    return stage.make_scene(
        solids, question, str(of_shape[shape]), sidecar, labels, counted_label=shape
    )


COUNTING_CONTROLS = (
    IntegerControl("num_shapes", (1, 2, 3, 4, 5), 1, 5),
    IntegerControl("max_instances", (1, 2, 3), 1, 6),
    Control("min_visibility", (0.7, 0.8, 0.9, 0.99), 0, 1),
)


# ---- letters of solids

DOT_SHAPES = ("sphere", "cube", "cylinder")
SLANT_DEGREES = -10.0  # degrees, away from the camera
MIN_CONTRAST = 2.0  # minimum contrast ratio with the ground (WCAG 2)
LEVEL_CAMERA = Camera((0.0, -8.5, 5.5), (0.0, 0.3, 1.5), PICTURE_SIZE)


def draw_letters(params: SceneParameters) -> Attempts:
    """Yield scenes of random letters of 7 x 5 dots, which may repeat. In the official version they
    have any of eight colours on any ground; otherwise their colour contrasts with the ground."""
    levels, stage = params.levels, SceneSetup.draw(params, LEVEL_CAMERA)
    letters = [params.pick(tuple(LETTER_DOTS)) for _ in range(levels["num_letters"])]
    ground = GROUND_COLORS[stage.ground]
    colors = [name for name in COLORS if name != "white"]
    if not params.official:
        colors = [name for name in colors if compute_contrast(COLORS[name], ground) >= MIN_CONTRAST]
    color, step = params.pick(colors), levels["spacing"]
    lean = math.tan(math.radians(-SLANT_DEGREES))
    solids, labels = list[Solid](), list[str]()
    wide = 6.5 * step * len(letters) - 2.5 * step
    for number, letter in enumerate(letters):
        for (row, bits), column in product(enumerate(LETTER_DOTS[letter]), range(5)):
            if bits >> (4 - column) & 1:
                x, z = (6.5 * number + column) * step - wide / 2 + step / 2, (7 - row) * step
                center = (x, z * lean, z)
                solids.append(Solid(levels["dot_type"], color, center, levels["dot_size"]))
                labels.append(f"letter {number + 1}")
    sidecar = {
        **stage.sidecar,
        **{name: levels[name] for name in ("dot_type", "dot_size", "spacing")},
        "dot_color": color,
        "background_dots": False,
        "letters": letters,
    }
    question = "In the scene, which letters do you see from left to right?"
    yield stage.make_scene(solids, question, "".join(letters), sidecar, labels)


# ---- two groups of solids

FAR_CAMERA = Camera((0.0, -19.0, 9.0), (0.0, 0.0, 0.5), PICTURE_SIZE)
GROUP_CENTRES = (-4.0, 4.0)  # x of the groups' centres
MIN_CHANGED_SHARE = 0.02  # minimum share of a tilted solid's coarse pixels that must change


def draw_constancy(params: SceneParameters) -> Attempts:
    """Yield scenes of two groups of the same solids, of which the right group may be tilted.

    In the official version it is always tilted. Otherwise it is tilted in half of the scenes, no
    solid is a sphere, whose rotation is invisible, and the outline of every tilted solid changes.
    """
    levels = params.levels
    same = False if params.official else params.deal((True, False))
    count, degrees = levels["num_shapes"], float(levels["rotation"])
    while True:
        stage, left, right = (
            SceneSetup.draw(params, FAR_CAMERA, params.official),
            list[Solid](),
            list[Solid](),
        )
        shapes = [name for name in SHAPES if params.official or name != "sphere"]
        for number in range(count):
            shape = params.pick(shapes)
            axis: Literal["x", "y", "z"] = "z"
            if shape not in ("cube", "sphere"):
                axis = "x" if params.rng.random() < 0.5 else "y"
            place = (number % 2 - (count > 1) / 2) * 2.6, number // 2 * 4.4 - (count > 2) * 2.2
            color = params.pick(COUNTED_COLORS)
            base = [
                Solid.on_ground(shape, color, x + place[0], place[1], 1.0) for x in GROUP_CENTRES
            ]
            turn = 0.0 if same else degrees * params.pick((-1, 1))
            left.append(base[0])
            right.append(replace(base[1], axis=axis, degrees=turn))
        changes = [_measure_change(stage, solid) for solid in right]
        if not params.official and not same and min(changes) < MIN_CHANGED_SHARE:
            yield None
            continue
        question = "Do the shapes on the left and right have the same orientation?"
        answer = "Yes" if same else "No"
        sidecar = {
            **stage.sidecar,
            "same_orientation": same,
            "shapes": [solid.shape for solid in left],
            "substitutions": [],
            "question": question,
            "answer": answer,
            "num_shapes": count,
            "noise_amount": levels["rotation"],
        }
        labels = [side for side in ("left group", "right group") for _ in left]
        yield stage.make_scene([*left, *right], question, answer, sidecar, labels)


def _measure_change(stage: SceneSetup, solid: Solid) -> float:
    """Return the share of a solid's coarse pixels that its rotation changes."""
    masks = [np.isfinite(stage.measure_distances(s)) for s in (solid, replace(solid, degrees=0.0))]
    return float((masks[0] != masks[1]).sum() / masks[1].sum())


# ---- grids of solids

GRID_PITCH = 3.0  # distance between the columns and rows of a grid
MIN_VISIBLE_SHARE = 0.3  # minimum visible share of each solid's pixels
WIDE_CAMERA = Camera((0.0, -15.0, 14.0), (0.0, 4.0, 0.0), (960, 540))
DIRECTION_PHRASES = {
    "right": "to the right of",
    "left": "to the left of",
    "down": "behind",
    "up": "in front of",
}
OFFICIAL_DIRECTION_PHRASES = {**DIRECTION_PHRASES, "down": "ahead", "up": "behind"}
ROW_NUMBERING_NOTE = (
    " Rows are counted from 1, beginning with the one nearest to the camera, and columns from 1,"
    " beginning on the left."
)


def draw_grids(params: SceneParameters) -> Attempts:
    """Yield scenes of a grid of solids in rows that recede from the camera.

    In the official version rows and columns count from 0, column 0 is on the right although the
    keys assume that it is on the left, and the question is random. Otherwise columns count from the
    left of the picture, the answer is drawn first, from those possible in the grid, and no solid is
    hidden.
    """
    rows, columns = params.levels["max_row"] + 1, params.levels["max_column"] + 1
    side, colors = -1 if params.official else 1, [name for name in COLORS if name != "white"]
    while True:
        stage, solids, shapes = (
            SceneSetup.draw(params, WIDE_CAMERA),
            list[Solid](),
            dict[Cell, str](),
        )
        for row, column in product(range(rows), range(columns)):
            shapes[row, column] = params.pick(SHAPES)
            x = side * (column - (columns - 1) / 2) * GRID_PITCH
            solid = Solid.on_ground(
                shapes[row, column], params.pick(colors), x, row * GRID_PITCH, 0.8**row
            )
            solids.append(solid)
        shares = measure_visible_shares([stage.measure_distances(solid) for solid in solids])
        if params.official or shares.min() >= MIN_VISIBLE_SHARE:
            yield _make_grid_scene(params, stage, solids, shapes)
        else:
            yield None


def _make_grid_scene(
    params: SceneParameters, stage: SceneSetup, solids: Sequence[Solid], shapes: Mapping[Cell, str]
) -> Scene:
    by_count, grid = (
        defaultdict[int, list[GridQuestion]](list),
        {p: (s, "") for p, s in shapes.items()},
    )
    rows, columns = (number + 1 for number in max(shapes))
    inner = [(r, c) for r, c in shapes if 0 < r < rows - 1 and 0 < c < columns - 1]
    for place, (way, (down, right)), shape in product(shapes, DIRECTION_STEPS.items(), SHAPES):
        asked = GridQuestion(0, place, way, shape, None)
        likely = place in (inner or shapes) and shape != shapes[place]
        if (place[0] + down, place[1] + right) in shapes and (likely or not params.official):
            by_count[asked.count_targets([grid])].append(asked)
    group = params.pick(sorted(by_count))
    if params.official:
        asked = params.pick([asked for group in by_count.values() for asked in group])
    else:
        asked = params.pick(by_count[group])
    first, ways = (0, OFFICIAL_DIRECTION_PHRASES) if params.official else (1, DIRECTION_PHRASES)
    line = "row" if asked.direction in ("left", "right") else "column"
    plural = f"{asked.shape}{'es' if asked.shape == 'torus' and first else 's'}"
    question = (
        f"In grid 0, starting from the {shapes[asked.place]} at position (row"
        f" {asked.place[0] + first}, column {asked.place[1] + first}), how many {plural} are there"
        f" {ways[asked.direction]} it in the same {line}?{ROW_NUMBERING_NOTE * first}"
    )
    sidecar = {f"grid_0_{row}_{column}": shape for (row, column), shape in shapes.items()}
    labels = [f"(row {row + first}, column {column + first})" for row, column in shapes]
    meta = {"direction": asked.direction, "coordinates": f"from {first}"}
    return stage.make_scene(
        solids, question, str(asked.count_targets([grid])), sidecar, labels, meta=meta
    )


def _make_type(
    name: str,
    form: Form,
    draw: Callable[[SceneParameters], Attempts],
    controls: Controls,
    *flaws: str,
) -> SceneType:
    return SceneType(name, form, controls, draw, (*SUBTASKS["3D"][name].errata, *flaws), "3D")


LETTERS_CONTROLS = (
    Control("dot_type", DOT_SHAPES),
    Control("dot_size", (0.05, 0.08, 0.11, 0.14), 0.02, 0.2),
    Control("spacing", (0.4, 0.5), 0.2, 0.6),
    IntegerControl("num_letters", (1, 2), 1, 3),
)
CONSTANCY_CONTROLS = (
    IntegerControl("num_shapes", (1, 2, 3, 4), 1, 4),
    Control("rotation", (5, 7.5, 10, 12.5, 15), 1, 45),
)
GRID_CONTROLS = (
    IntegerControl("max_row", (1, 2, 3, 4), 1, 4),
    IntegerControl("max_column", (1, 2, 3, 4), 1, 4),
)
FAINT_DOTS_NOTE = (
    "the dots' colour is chosen without regard to the ground, so some are hardly visible"
)
SOLID_SCENE_TYPES: dict[str, SceneType] = {
    f"{kind.name}_3d": kind
    for kind in (
        _make_type(
            "shape_discrimination",
            "integer",
            partial(draw_counting, False),
            COUNTING_CONTROLS,
            HIDDEN_NOTE,
        ),
        _make_type(
            "letter_disambiguation", "letters", draw_letters, LETTERS_CONTROLS, FAINT_DOTS_NOTE
        ),
        _make_type(
            "joint_shape_color",
            "integer",
            partial(draw_counting, True),
            COUNTING_CONTROLS,
            HIDDEN_NOTE,
        ),
        _make_type("form_constancy", "yes_no", draw_constancy, CONSTANCY_CONTROLS),
        _make_type("visual_spatial", "integer", draw_grids, GRID_CONTROLS),
    )
}
"""The types of the 3D subtasks, by name."""
