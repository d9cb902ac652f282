"""Do You See Me's form constancy: which of four patterns is the target; the others are turned,
scaled or changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from looktwice.eval.tasks.do_you_see_me.subtasks import SUBTASKS
from looktwice.eval.tasks.generated.patterns import (
    CORNERS,
    ELEMENTS,
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

NAME = "form_constancy"
TITLE = "Visual Discrimination Test"
SAME = {
    "rotation": 0,
    "aspect_ratio": 1,
    "size": 1,
    "shape_change": 0,
}  # levels that change nothing
JITTER = 2  # degrees by which the turns of a pattern's elements may differ
Change = Callable[[Pattern, int], Pattern]
"""A pattern changed so many times over."""


def draw_constancy(params: SceneParameters) -> Scene:
    """A sheet. Official: the target itself and three copies with all changes, which only the jitter
    tells apart.

    Otherwise the changes that the levels ask for are parted into two, the options are the four
    combinations of these, and the target is any of them; where there is one change alone, it is
    made none to three times over. So each option resembles the others as much as the target does.
    """
    if not params.official and all(params.levels[name] == same for name, same in SAME.items()):
        raise no_room_error(NAME, params)
    for _ in range(TRIES):
        base = random_pattern(params.rng, int(params.rng.integers(2, 10, endpoint=True)))
        choices, place = (
            _official_options(params, base) if params.official else _balanced_options(params, base)
        )
        if params.official or all_differ(choices):
            return _make_scene(choices, place)
    raise no_room_error(NAME, params)


def _official_options(params: SceneParameters, base: Pattern) -> tuple[list[Pattern], int]:
    wrong = [tuple(_change_all(params, element) for element in base) for _ in range(3)]
    order = [int(place) for place in params.rng.permutation(4)]
    return [(base, *wrong)[place] for place in order], order.index(0)


def _change_all(params: SceneParameters, element: Element) -> Element:
    levels = params.levels
    turn = levels["rotation"] + int(params.rng.integers(-JITTER, JITTER, endpoint=True))
    kind = params.pick(ELEMENTS[1:]) if levels["shape_change"] else element.kind
    size, aspect = element.size * levels["size"], levels["aspect_ratio"]
    return replace(element, kind=kind, rotation=element.rotation + turn, size=size, aspect=aspect)


def _balanced_options(params: SceneParameters, base: Pattern) -> tuple[list[Pattern], int]:
    first, second = _split_changes(params, base)
    corners = CORNERS if second else tuple((times, 0) for times in range(4))
    made = [_apply(_apply(base, first, one), second, two) for one, two in corners]
    order = [int(place) for place in params.rng.permutation(4)]
    return [made[place] for place in order], params.deal(range(4))


def _apply(elements: Pattern, changes: Sequence[Change], times: int) -> Pattern:
    for change in changes:
        elements = change(elements, times)
    return elements


def _split_changes(params: SceneParameters, base: Pattern) -> tuple[list[Change], list[Change]]:
    """Two groups of changes: turning and other kinds, sizes and proportions, or one each where
    there are but two."""
    levels = params.levels
    form: list[Change] = [_rotation_change(params, base)] if levels["rotation"] else []
    form += [_kind_change(params, base)] if levels["shape_change"] else []
    scale: list[Change] = [_size_change(levels["size"])] if levels["size"] != 1 else []
    scale += [_aspect_change(levels["aspect_ratio"])] if levels["aspect_ratio"] != 1 else []
    if form and scale:
        return form, scale
    alone = form or scale
    return alone[:1], alone[1:]


def _rotation_change(params: SceneParameters, base: Pattern) -> Change:
    turns = [
        params.levels["rotation"] + int(params.rng.integers(-JITTER, JITTER, endpoint=True))
        for _ in base
    ]

    def change(elements: Pattern, times: int) -> Pattern:
        pairs = zip(elements, turns, strict=True)
        return tuple(
            replace(element, rotation=element.rotation + times * turn) for element, turn in pairs
        )

    return change


def _kind_change(params: SceneParameters, base: Pattern) -> Change:
    """Every element becomes one of another kind; a second and third time it becomes one of the
    kinds that are left."""
    cycles = []
    for element in base:
        others = [kind for kind in ELEMENTS if kind != element.kind]
        cycles.append([element.kind, *(str(kind) for kind in params.rng.permutation(others))])

    def change(elements: Pattern, times: int) -> Pattern:
        return tuple(
            replace(element, kind=cycle[times])
            for element, cycle in zip(elements, cycles, strict=True)
        )

    return change


def _size_change(factor: float) -> Change:
    return lambda elements, times: tuple(replace(e, size=e.size * factor**times) for e in elements)


def _aspect_change(factor: float) -> Change:
    return lambda elements, times: tuple(
        replace(e, aspect=e.aspect * factor**times) for e in elements
    )


def _make_scene(choices: list[Pattern], place: int) -> Scene:
    truth: dict[str, Any] = {
        "target": [element.to_dict() for element in choices[place]],
        "options": [[element.to_dict() for element in choice] for choice in choices],
    }
    question, target = SUBTASKS["2D"][NAME].question, choices[place]
    meta = {"num_shapes": len(target)}
    return Scene(
        question,
        str(place + 1),
        truth,
        lambda: draw_sheet(TITLE, target, choices),
        sheet_marks(),
        meta,
    )


KIND = SceneType(
    NAME,
    "option",
    (
        Control("rotation", (5, 25, 50), -360, 360),
        Control("aspect_ratio", (0.8, 1.1, 1.4), 0.3, 2),
        Control("size", (0.8, 1.1, 1.4), 0.3, 2),
        Control("shape_change", (0, 1), 0, 1, whole=True),
    ),
    draw_constancy,
    (
        "the three wrong options are near copies of each other: the answer is the odd one out",
        "with shape_change 1 only the right option can hold circles",
    ),
)
