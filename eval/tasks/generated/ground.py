"""Do You See Me's figure-ground subtask: which of four patterns among small noise is the target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from looktwice.eval.tasks.do_you_see_me.subtasks import SUBTASKS
from looktwice.eval.tasks.generated.canvas import BLACK, circle, fill, stroke
from looktwice.eval.tasks.generated.patterns import CORNERS, Element, Pattern, apart, pattern, sheet, sheet_marks
from looktwice.eval.tasks.generated.scene import TRIES, Control, Draw, Kind, Scene, no_room
from looktwice.pipelines.picture import Pixels

NAME = "figure_ground"
TITLE = "Visual Figure Ground Test"
FRAME = 200  # pixels of the square that the noise fills
FARTHER = 20.0  # pixels by which a moved element has moved, at least

Speck = tuple[str, float, float, float, float]
"""What it is, its (x, y), and the end of a line, the radius of a dot or the sides of a rectangle."""


def draw_ground(draw: Draw) -> Scene:
    """A sheet. Official: noise on the options alone; two wrong ones are the target turned, one is moved or both.

    Otherwise noise lies on the target too, the options are the four combinations of turning all elements and moving
    one or two, the target is any of them, and no two options look alike.
    """
    for _ in range(TRIES):
        base = pattern(draw.rng, draw.levels["num_shapes"])
        if draw.official:
            choices, place = _official(draw, base)
        else:
            made = _combined(draw, base)
            choices, place = [made[int(n)] for n in draw.rng.permutation(4)], draw.deal(range(4))
        if draw.official or apart(choices):
            noise = [_specks(draw) if number or not draw.official else [] for number in range(5)]
            return _scene(choices, place, noise)
    raise no_room(NAME, draw)


def _combined(draw: Draw, base: Pattern) -> list[Pattern]:
    """The pattern as it is, turned, moved, and both."""
    turn, moved = _turn(draw), _moved(draw, base)
    return [_turned(moved if move else base, turn if turns else 0) for turns, move in CORNERS]


def _official(draw: Draw, base: Pattern) -> tuple[list[Pattern], int]:
    moved = list(base)
    for _ in range(int(draw.rng.integers(1, min(2, len(base)), endpoint=True))):
        number = int(draw.rng.integers(len(base)))  # perhaps the same one twice
        moved[number] = _elsewhere(draw, moved[number])
    last = _turned(tuple(moved), _turn(draw) if draw.rng.random() > 0.5 else 0)
    made = [base, _turned(base, _turn(draw)), _turned(base, _turn(draw)), last]
    order = [int(place) for place in draw.rng.permutation(4)]
    return [made[place] for place in order], order.index(0)


def _turn(draw: Draw) -> float:
    """15 to 20 degrees to either side."""
    return float(draw.rng.uniform(15, 20) * draw.rng.choice([-1, 1]))


def _turned(elements: Pattern, degrees: float) -> Pattern:
    return tuple(replace(element, rotation=element.rotation + degrees) for element in elements)


def _elsewhere(draw: Draw, element: Element) -> Element:
    x, y = draw.rng.integers(10, 150, 2, endpoint=True)
    return replace(element, x=int(x), y=int(y))


def _moved(draw: Draw, base: Pattern) -> Pattern:
    count = int(draw.rng.integers(1, min(2, len(base)), endpoint=True))
    chosen = {int(number) for number in draw.rng.permutation(len(base))[:count]}
    found = list(base)
    for number in chosen:
        while np.hypot(found[number].x - base[number].x, found[number].y - base[number].y) < FARTHER:
            found[number] = _elsewhere(draw, base[number])
    return tuple(found)


def _specks(draw: Draw) -> list[Speck]:
    """As many lines, dots and rectangles as the density asks for."""
    rng = draw.rng
    found: list[Speck] = []
    for _ in range(int(FRAME * FRAME * draw.levels["density"] / 100)):
        kind = draw.pick(("line", "dot", "rectangle"))
        x, y = (int(place) for place in rng.integers(10, FRAME - 20, 2, endpoint=True))
        if kind == "line":
            length = int(rng.integers(5, 30, endpoint=True))
            more = (x + length * rng.random(), y + length * rng.random())
        elif kind == "dot":
            more = (float(rng.integers(1, 3, endpoint=True)), 0.0)
        else:
            more = (float(rng.integers(3, 15, endpoint=True)), float(rng.integers(3, 15, endpoint=True)))
        found.append((kind, x, y, round(float(more[0]), 2), round(float(more[1]), 2)))
    return found


def _strewn(pixels: Pixels, specks: list[Speck], corner: tuple[int, int]) -> None:
    for kind, x, y, more, last in specks:
        if kind == "line":
            stroke(pixels, np.array([[x, y], [more, last]]) + corner, 1, closed=False)
        elif kind == "dot":
            fill(pixels, circle(more, x, y) + corner, BLACK)
        else:
            stroke(pixels, np.array([[x, y], [x + more, y], [x + more, y + last], [x, y + last]]) + corner, 1)


def _scene(choices: list[Pattern], place: int, noise: list[list[Speck]]) -> Scene:
    target = choices[place]
    truth: dict[str, Any] = {
        "target": [element.to_dict() for element in target],
        "options": [[element.to_dict() for element in choice] for choice in choices],
        "noise": [len(specks) for specks in noise],
    }

    def painted() -> Pixels:
        return sheet(TITLE, target, choices, lambda pixels, number, corner: _strewn(pixels, noise[number], corner))

    return Scene(SUBTASKS["2D"][NAME].question, str(place + 1), truth, painted, sheet_marks())


KIND = Kind(
    NAME,
    "option",
    (Control("num_shapes", (2, 6, 10), 1, 40, whole=True), Control("density", (0.1, 0.3, 0.5), 0, 3)),
    draw_ground,
    (
        "noise lies on the options and not on the target",
        "two wrong options differ by their turn alone, so with circles only they equal the target",
    ),
)
