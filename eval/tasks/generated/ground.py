"""Do You See Me's figure-ground subtask: which of four patterns among small noise is the target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from looktwice.eval.tasks.do_you_see_me.subtasks import SUBTASKS
from looktwice.eval.tasks.generated.canvas import BLACK, circle, fill, stroke
from looktwice.eval.tasks.generated.patterns import (
    CORNERS,
    Element,
    Pattern,
    all_differ,
    draw_sheet,
    random_pattern,
    sheet_marks,
)
from looktwice.eval.tasks.generated.scene import (
    TRIES,
    Control,
    Scene,
    SceneParameters,
    SceneType,
    no_room_error,
)
from looktwice.pipelines.picture import Pixels

NAME = "figure_ground"
TITLE = "Visual Figure Ground Test"
FRAME = 200  # pixels of the square that the noise fills
FARTHER = 20.0  # pixels by which a moved element has moved, at least

Speck = tuple[str, float, float, float, float]
"""What it is, its (x, y), and the end of a line, the radius of a dot or the sides of a
rectangle."""


def draw_ground(params: SceneParameters) -> Scene:
    """A sheet. Official: noise on the options alone; two wrong ones are the target turned, one is
    moved or both.

    Otherwise noise lies on the target too, the options are the four combinations of turning all
    elements and moving one or two, the target is any of them, and no two options look alike.
    """
    for _ in range(TRIES):
        base = random_pattern(params.rng, params.levels["num_shapes"])
        if params.official:
            choices, place = _official_options(params, base)
        else:
            made = _balanced_options(params, base)
            choices, place = (
                [made[int(n)] for n in params.rng.permutation(4)],
                params.deal(range(4)),
            )
        if params.official or all_differ(choices):
            noise = [
                _random_specks(params) if number or not params.official else []
                for number in range(5)
            ]
            return _make_scene(choices, place, noise)
    raise no_room_error(NAME, params)


def _balanced_options(params: SceneParameters, base: Pattern) -> list[Pattern]:
    """The pattern as it is, turned, moved, and both."""
    turn, moved = _random_turn(params), _move_some(params, base)
    return [_rotate_all(moved if move else base, turn if turns else 0) for turns, move in CORNERS]


def _official_options(params: SceneParameters, base: Pattern) -> tuple[list[Pattern], int]:
    moved = list(base)
    for _ in range(int(params.rng.integers(1, min(2, len(base)), endpoint=True))):
        number = int(params.rng.integers(len(base)))  # perhaps the same one twice
        moved[number] = _move(params, moved[number])
    last = _rotate_all(tuple(moved), _random_turn(params) if params.rng.random() > 0.5 else 0)
    made = [
        base,
        _rotate_all(base, _random_turn(params)),
        _rotate_all(base, _random_turn(params)),
        last,
    ]
    order = [int(place) for place in params.rng.permutation(4)]
    return [made[place] for place in order], order.index(0)


def _random_turn(params: SceneParameters) -> float:
    """15 to 20 degrees to either side."""
    return float(params.rng.uniform(15, 20) * params.rng.choice([-1, 1]))


def _rotate_all(elements: Pattern, degrees: float) -> Pattern:
    return tuple(replace(element, rotation=element.rotation + degrees) for element in elements)


def _move(params: SceneParameters, element: Element) -> Element:
    x, y = params.rng.integers(10, 150, 2, endpoint=True)
    return replace(element, x=int(x), y=int(y))


def _move_some(params: SceneParameters, base: Pattern) -> Pattern:
    count = int(params.rng.integers(1, min(2, len(base)), endpoint=True))
    chosen = {int(number) for number in params.rng.permutation(len(base))[:count]}
    found = list(base)
    for number in chosen:
        while (
            np.hypot(found[number].x - base[number].x, found[number].y - base[number].y) < FARTHER
        ):
            found[number] = _move(params, base[number])
    return tuple(found)


def _random_specks(params: SceneParameters) -> list[Speck]:
    """As many lines, dots and rectangles as the density asks for."""
    rng = params.rng
    found: list[Speck] = []
    for _ in range(int(FRAME * FRAME * params.levels["density"] / 100)):
        kind = params.pick(("line", "dot", "rectangle"))
        x, y = (int(place) for place in rng.integers(10, FRAME - 20, 2, endpoint=True))
        if kind == "line":
            length = int(rng.integers(5, 30, endpoint=True))
            more = (x + length * rng.random(), y + length * rng.random())
        elif kind == "dot":
            more = (float(rng.integers(1, 3, endpoint=True)), 0.0)
        else:
            more = (
                float(rng.integers(3, 15, endpoint=True)),
                float(rng.integers(3, 15, endpoint=True)),
            )
        found.append((kind, x, y, round(float(more[0]), 2), round(float(more[1]), 2)))
    return found


def _draw_specks(pixels: Pixels, specks: list[Speck], corner: tuple[int, int]) -> None:
    for kind, x, y, more, last in specks:
        if kind == "line":
            stroke(pixels, np.array([[x, y], [more, last]]) + corner, 1, closed=False)
        elif kind == "dot":
            fill(pixels, circle(more, x, y) + corner, BLACK)
        else:
            stroke(
                pixels,
                np.array([[x, y], [x + more, y], [x + more, y + last], [x, y + last]]) + corner,
                1,
            )


def _make_scene(choices: list[Pattern], place: int, noise: list[list[Speck]]) -> Scene:
    target = choices[place]
    truth: dict[str, Any] = {
        "target": [element.to_dict() for element in target],
        "options": [[element.to_dict() for element in choice] for choice in choices],
        "noise": [len(specks) for specks in noise],
    }

    def paint() -> Pixels:
        return draw_sheet(
            TITLE,
            target,
            choices,
            lambda pixels, number, corner: _draw_specks(pixels, noise[number], corner),
        )

    return Scene(SUBTASKS["2D"][NAME].question, str(place + 1), truth, paint, sheet_marks())


KIND = SceneType(
    NAME,
    "option",
    (
        Control("num_shapes", (2, 6, 10), 1, 40, whole=True),
        Control("density", (0.1, 0.3, 0.5), 0, 3),
    ),
    draw_ground,
    (
        "noise lies on the options and not on the target",
        "two wrong options differ by their turn alone, so with circles only they equal the target",
    ),
)
