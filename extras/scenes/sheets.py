"""Do You See Me's form constancy and figure-ground: which of four patterns is the target?

Patterns consist of circles, squares, triangles and lines; a sheet shows the target above four
options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.tasks.outlines import XY, make_circle, rotate, translate
from looktwice.eval.tasks.swept import Control, IntegerControl, SceneParameters
from looktwice.extras.do_you_see_me.subtasks import SUBTASKS
from looktwice.extras.scenes.canvas import (
    BLACK,
    SQUARE,
    TRIANGLE,
    fill_outline,
    make_blank,
    stroke_outline,
    write_text,
)
from looktwice.extras.scenes.scene import Attempts, Scene, SceneType, T
from looktwice.pipelines.marks import Box, Marks
from looktwice.pipelines.picture import Pixels

ELEMENTS = ("circle", "square", "triangle", "line")
SHEET_SIZE = (600, 1000)  # pixels of the sheet
FRAME_CORNERS = ((200, 100), (100, 400), (350, 400), (100, 650), (350, 650))
"""The upper left corners of the frames of the target and the four options; elements lie at 10..150
within a frame."""
FRAME_NAMES = ("Target", "Option 1", "Option 2", "Option 3", "Option 4")
CHANGE_COMBINATIONS = ((0, 0), (1, 0), (0, 1), (1, 1))
"""The combinations of two changes that make four options; none of them stands out, whichever is the
target."""
MIN_PIXEL_DIFFERENCE = 25.0  # smallest difference between two options, in black pixels


ELEMENT_CORNERS: Mapping[str, XY] = {
    "square": SQUARE,
    "triangle": TRIANGLE,
    "line": np.array([[0.0, 0], [1, 1]]),
}


@dataclass(frozen=True)
class Element:
    """One shape of a pattern; (x, y) is the centre of a circle, or the upper left corner of another
    shape before its rotation."""

    kind: str
    x: float
    y: float
    size: float
    rotation: float
    aspect: float = 1.0

    def draw(self, pixels: Pixels, left: float, top: float) -> None:
        """Draw the element in a frame whose upper left corner is (left, top)."""
        stroke_outline(pixels, translate(self.points, left, top), 2, closed=self.kind != "line")

    @property
    def points(self) -> XY:
        """The corners. The aspect ratio is height over width for squares and triangles; other kinds
        ignore it."""
        if self.kind == "circle":
            return make_circle(self.size / 2, self.x, self.y)
        box = np.array([self.size, self.size * (1 if self.kind == "line" else self.aspect)])
        turned = rotate(ELEMENT_CORNERS[self.kind] * box, self.rotation, box / 2)
        return translate(turned, self.x, self.y)

    def to_dict(self) -> dict[str, Any]:
        """Return the element in the form of an item's truth."""
        cells = asdict(self).items()
        return {name: round(v, 3) if isinstance(v, float) else v for name, v in cells}


Speck = tuple[str, XY]
"""A line, dot or rectangle, and its corners in the frame."""


Pattern = tuple[Element, ...]


def draw_pattern(params: SceneParameters, count: int) -> Pattern:
    """Draw elements at integer positions, of sizes 30 to 50 and at angles of 10 to 360 degrees."""
    elements = []
    for _ in range(count):
        x, y, size = (
            params.draw_integer(10, 150),
            params.draw_integer(10, 150),
            params.draw_integer(30, 50),
        )
        turn = params.draw_integer(10, 360)
        elements.append(Element(params.pick(ELEMENTS), x, y, size, turn))
    return tuple(elements)


def are_all_different(patterns: Sequence[Pattern]) -> bool:
    """Return whether all patterns look different from each other."""
    inks = []
    for pattern in patterns:
        pixels = make_blank(320, 320)
        for element in pattern:
            element.draw(pixels, 60, 60)
        inks.append(pixels[:, :, 0] / 255)
    return all(np.abs(a - b).sum() >= MIN_PIXEL_DIFFERENCE for a, b in combinations(inks, 2))


def make_sheet(
    name: str,
    title: str,
    choices: Sequence[Pattern],
    place: int,
    noise: Sequence[Sequence[Speck]] = (),
    **meta: Any,
) -> Scene:
    """Make the sheet on which the option with the index `place` is the target; `noise` holds the
    noise beneath each pattern, beginning with that of the target."""
    target = choices[place]
    drawn = [[element.to_dict() for element in choice] for choice in choices]
    truth: dict[str, Any] = {"target": drawn[place], "options": drawn}
    if noise:
        truth["noise"] = list(map(len, noise))

    def paint() -> Pixels:
        pixels = make_blank(*SHEET_SIZE)
        write_text(pixels, title, 300, 40, 24)
        write_text(pixels, "Target Pattern", 300, 80, 18)
        write_text(pixels, "Options", 300, 350, 18)
        for option, (left, top) in zip(FRAME_NAMES[1:], FRAME_CORNERS[1:], strict=True):
            write_text(pixels, option, left + 75, top - 20, 14)
        for specks, frame in zip(noise, FRAME_CORNERS, strict=False):
            for kind, points in specks:
                if kind == "dot":
                    fill_outline(pixels, points + frame, BLACK)
                else:
                    stroke_outline(pixels, points + frame, 1, closed=kind != "line")
        for pattern, frame in zip((target, *choices), FRAME_CORNERS, strict=True):
            for element in pattern:
                element.draw(pixels, *frame)
        return pixels

    question = SUBTASKS["2D"][name].question
    return Scene(question, str(place + 1), truth, paint, SHEET_MARKS, meta)


SHEET_MARKS: Marks = tuple(
    Box(name, x - 30.0, y - 14.0, x + 220.0, y + 222.0)
    for name, (x, y) in zip(FRAME_NAMES, FRAME_CORNERS, strict=True)
)
"""The boxes around the target and the options, the same on every sheet."""


def shuffle_options(params: SceneParameters, options: Sequence[T]) -> tuple[list[T], int]:
    """Return four options in random order, and the index of the target.

    In the official version the target is the first of `options`; otherwise each is the target
    equally often.
    """
    order = params.shuffled(range(4))
    place = order.index(0) if params.official else params.deal(range(4))
    return [options[number] for number in order], place


# ---- form constancy

NEUTRAL_LEVELS = {"rotation": 0, "aspect_ratio": 1, "size": 1, "shape_change": 0}
"""The level of each control at which it changes nothing."""
ROTATION_JITTER = 2  # degrees by which the rotations of a pattern's elements may vary
Change = Callable[[int, Element, int], Element]
"""A function that applies a change several times to an element, given the element's number in its
pattern."""


def draw_constancy(params: SceneParameters) -> Attempts:
    """Yield sheets. In the official version the options are the target itself and three copies with
    all changes, which differ from each other only by the jitter.

    Otherwise the changes of the levels are split into two groups, and the options are their four
    combinations, any of which may be the target. A single change is applied zero to three times.
    So each option resembles the others as much as the target does.
    """
    while params.official or params.levels != NEUTRAL_LEVELS:
        base = draw_pattern(params, params.draw_integer(2, 10))
        options = [base]
        if params.official:
            levels = params.levels
            for _ in range(3):
                changed = []
                for element in base:
                    turn = _draw_direction(params)
                    kind = params.pick(ELEMENTS[1:]) if levels["shape_change"] else element.kind
                    size, aspect = element.size * levels["size"], levels["aspect_ratio"]
                    turned = replace(element, rotation=element.rotation + turn)
                    changed.append(replace(turned, kind=kind, size=size, aspect=aspect))
                options.append(tuple(changed))
        else:
            first, second = _split_changes(params, base)
            corners = CHANGE_COMBINATIONS if second else tuple((times, 0) for times in range(4))
            options = [
                _apply_changes(_apply_changes(base, first, a), second, b) for a, b in corners
            ]
        choices, place = shuffle_options(params, options)
        if params.official or are_all_different(choices):
            title = "Visual Discrimination Test"
            yield make_sheet("form_constancy", title, choices, place, num_shapes=len(base))
        else:
            yield None


def _draw_direction(params: SceneParameters) -> Any:
    return params.levels["rotation"] + params.draw_integer(-ROTATION_JITTER, ROTATION_JITTER)


def _apply_changes(pattern: Pattern, changes: Sequence[Change], times: int) -> Pattern:
    for change in changes:
        pattern = tuple(change(number, element, times) for number, element in enumerate(pattern))
    return pattern


def _split_changes(params: SceneParameters, base: Pattern) -> tuple[list[Change], list[Change]]:
    """Split the changes into two groups, one with rotation and kind, the other with size and aspect
    ratio; if there are only two changes, each is a group."""
    form, scale, levels = list[Change](), list[Change](), params.levels
    size, aspect = levels["size"], levels["aspect_ratio"]
    if levels["rotation"]:
        turns = [_draw_direction(params) for _ in base]
        form.append(lambda n, e, times: replace(e, rotation=e.rotation + times * turns[n]))
    if levels["shape_change"]:  # repeated application leads to one of the remaining kinds
        cycles = []
        for element in base:
            others = [kind for kind in ELEMENTS if kind != element.kind]
            cycles.append([element.kind, *params.shuffled(others)])
        form.append(lambda n, e, times: replace(e, kind=cycles[n][times]))
    if size != 1:
        scale.append(lambda n, e, times: replace(e, size=e.size * size**times))
    if aspect != 1:
        scale.append(lambda n, e, times: replace(e, aspect=e.aspect * aspect**times))
    if form and scale:
        return form, scale
    alone = form or scale
    return alone[:1], alone[1:]


CONSTANCY_TYPE = SceneType(
    "form_constancy",
    "option",
    (
        Control("rotation", (5, 25, 50), -360, 360),
        Control("aspect_ratio", (0.8, 1.1, 1.4), 0.3, 2),
        Control("size", (0.8, 1.1, 1.4), 0.3, 2),
        IntegerControl("shape_change", (0, 1), 0, 1),
    ),
    draw_constancy,
    (
        "the three wrong options are near copies of each other: the answer is the odd one out",
        "with shape_change 1 only the right option can hold circles",
    ),
)

# ---- figure-ground

FRAME_SIDE = 200  # pixels of the square that the noise fills
MIN_SHIFT = 20.0  # smallest shift of a moved element, in pixels


def draw_ground(params: SceneParameters) -> Attempts:
    """Yield sheets. In the official version only the options have noise; two wrong options are
    rotated targets, and the third is moved, rotated or both.

    Otherwise the target has noise too. The options are the four combinations of rotating all
    elements and moving one or two; any of them may be the target, and all look different.
    """
    while True:
        base = draw_pattern(params, params.levels["num_shapes"])
        if params.official:
            moved = list(base)
            for _ in range(params.draw_integer(1, min(2, len(base)))):
                number = params.pick(range(len(base)))  # the same element may move twice
                moved[number] = _move_element(params, moved[number])
            turn = _draw_turn(params) if params.rng.random() > 0.5 else 0
            last = _rotate_all(tuple(moved), turn)
            options = [base, *(_rotate_all(base, _draw_turn(params)) for _ in range(2)), last]
        else:
            turn, pattern = _draw_turn(params), _move_elements(params, base)
            options = [
                _rotate_all((base, pattern)[b], turn if a else 0) for a, b in CHANGE_COMBINATIONS
            ]
        choices, place = shuffle_options(params, options)
        if not params.official and not are_all_different(choices):
            yield None
            continue
        noise = [[] if params.official else _draw_specks(params)]
        noise += [_draw_specks(params) for _ in range(4)]
        title = "Visual Figure Ground Test"
        yield make_sheet("figure_ground", title, choices, place, noise)


def _draw_turn(params: SceneParameters) -> float:
    """Draw a rotation of 15 to 20 degrees, clockwise or counterclockwise."""
    return float(params.rng.uniform(15, 20) * params.rng.choice([-1, 1]))


def _rotate_all(pattern: Pattern, degrees: float) -> Pattern:
    return tuple(replace(element, rotation=element.rotation + degrees) for element in pattern)


def _move_element(params: SceneParameters, element: Element) -> Element:
    return replace(element, x=params.draw_integer(10, 150), y=params.draw_integer(10, 150))


def _move_elements(params: SceneParameters, base: Pattern) -> Pattern:
    count = params.draw_integer(1, min(2, len(base)))
    pattern = list(base)
    for number in set(params.shuffled(range(len(base)))[:count]):
        before = after = base[number]
        while np.hypot(after.x - before.x, after.y - before.y) < MIN_SHIFT:
            after = _move_element(params, before)
        pattern[number] = after
    return tuple(pattern)


def _draw_specks(params: SceneParameters) -> list[Speck]:
    """Draw random lines, dots and rectangles, as many as the level of the density requires."""
    rng = params.rng
    specks = list[Speck]()
    for _ in range(int(FRAME_SIDE * FRAME_SIDE * params.levels["density"] / 100)):
        kind = params.pick(("line", "dot", "rectangle"))
        x, y = params.draw_integer(10, FRAME_SIDE - 20), params.draw_integer(10, FRAME_SIDE - 20)
        if kind == "line":
            length = params.draw_integer(5, 30)
            end = [round(float(start + length * rng.random()), 2) for start in (x, y)]
            points: NDArray[Any] = np.array([[x, y], end])
        elif kind == "dot":
            points = make_circle(params.draw_integer(1, 3), x, y)
        else:
            right, bottom = x + params.draw_integer(3, 15), y + params.draw_integer(3, 15)
            points = np.array([[x, y], [right, y], [right, bottom], [x, bottom]])
        specks.append((kind, points))
    return specks


GROUND_TYPE = SceneType(
    "figure_ground",
    "option",
    (IntegerControl("num_shapes", (2, 6, 10), 1, 40), Control("density", (0.1, 0.3, 0.5), 0, 3)),
    draw_ground,
    (
        "there is noise on the options but not on the target",
        "two wrong options are only rotated, so if all elements are circles they equal the target",
    ),
)
