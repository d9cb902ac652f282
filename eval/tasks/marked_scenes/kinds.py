"""The nine kinds of questions: what a scene is made of so that its question has the wanted answer, and the controls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from numpy.random import Generator

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.generated.scene import TRIES, Control, SceneParameters
from looktwice.eval.tasks.marked_scenes import questions
from looktwice.eval.tasks.marked_scenes.questions import Question
from looktwice.eval.tasks.marked_scenes.scene import Style, no_room, place, place_over, random_thing
from looktwice.eval.tasks.marked_scenes.things import COLORS, SHAPES, Thing

SMALLEST, LARGEST = 16.0, 56.0  # pixels of the things that are there beside what is asked about
LETTERED = 0.35  # how often such a thing is a tile
BEGINNINGS = 30  # of a scene, until all of its things find room
EDGE = 0.03  # of the image's side is kept free on both sides of the lines between cells


@dataclass(frozen=True)
class MarkedSceneParameters(SceneParameters):
    """What a scene is drawn from, and how it looks."""

    style: Style = field(default_factory=Style)

    def size(self) -> float:
        """A random height in pixels, any factor being as likely as any other."""
        return SMALLEST * math.exp(float(self.rng.random()) * math.log(LARGEST / SMALLEST))

    def others(self, count: int, wrong: Callable[[Thing], bool] = lambda thing: False) -> list[Thing]:
        """So many random things without a place, none of which is `wrong`."""
        found: list[Thing] = []
        while len(found) < count:
            thing = random_thing(self.rng, self.size(), self.rng.random() < LETTERED)
            if not wrong(thing):
                found.append(thing)
        return found


@dataclass(frozen=True)
class AskedScene:
    """The things of a scene in the order in which they are drawn, those that are marked, and what is asked."""

    things: tuple[Thing, ...]
    marked: tuple[Thing, ...]
    question: Question


@dataclass(frozen=True)
class Kind:
    """A kind of question: how its scenes are made, and its control parameters with their levels."""

    make: Callable[[MarkedSceneParameters], AskedScene]
    controls: tuple[Control, ...]


def _place_all(params: MarkedSceneParameters, *groups: Sequence[Thing]) -> list[Thing]:
    """All things at places of their own, the first ones first, begun anew where the last ones find no room."""
    things = [thing for group in groups for thing in group]
    for _ in range(BEGINNINGS):
        with suppress(TaskError):
            placed: list[Thing] = []
            for thing in things:
                placed.append(place(params.rng, thing, placed, params.style))
            return placed
    raise no_room(params.style, len(things))


def _place_in_pairs(params: MarkedSceneParameters, things: Sequence[Thing], overlap: float) -> list[Thing]:
    """Every second thing covers the one before it by `overlap`, or none another where that is 0."""
    placed: list[Thing] = []
    for number, thing in enumerate(things):
        if overlap and number % 2:
            placed.append(place_over(params.rng, thing, placed[-1], overlap, placed[:-1], params.style))
        else:
            placed.append(place(params.rng, thing, placed, params.style))
    return placed


def _shuffled(params: MarkedSceneParameters, things: Sequence[Thing]) -> tuple[Thing, ...]:
    return tuple(things[int(number)] for number in params.rng.permutation(len(things)))


def make_attribute(
    params: MarkedSceneParameters, ask: Callable[[Generator, Thing, int], Question], lettered: bool = False
) -> AskedScene:
    """One marked thing of a given size among others."""
    target = random_thing(params.rng, float(params.levels["size"]), lettered)
    placed = _place_all(params, [target], params.others(params.levels["things"] - 1))
    return AskedScene(_shuffled(params, placed), (placed[0],), ask(params.rng, placed[0], params.deal(range(4))))


def make_larger(params: MarkedSceneParameters) -> AskedScene:
    """Two marked things of which one is `ratio` times as large as the other, or both are equally large."""
    ratio, answer = float(params.levels["ratio"]), params.deal(("A", "B", "same"))
    small = float(params.rng.uniform(20, 64 / ratio))
    large = small if answer == "same" else small * ratio
    sizes = (large, small) if answer == "A" else (small, large)
    pair = [random_thing(params.rng, size, params.rng.random() < LETTERED) for size in sizes]
    placed = _place_all(params, pair, params.others(3))
    return AskedScene(_shuffled(params, placed), (placed[0], placed[1]), questions.ask_larger(placed[0], placed[1]))


def make_higher(params: MarkedSceneParameters) -> AskedScene:
    """Two marked things of which one lies `drop` pixels above the other, or both at the same height."""
    answer = params.deal(("A", "B", "same"))
    drop = {"A": 1, "B": -1, "same": 0}[answer] * float(params.levels["drop"])
    for _ in range(TRIES):
        one, other = (random_thing(params.rng, float(params.rng.uniform(24, 52))) for _ in range(2))
        one = place(params.rng, one, (), params.style)
        other = place(params.rng, other, (one,), params.style)
        other = replace(other, y=one.y + drop)
        rim = other.size * 0.6 + 4
        if rim < other.y < params.style.side - rim and abs(one.x - other.x) > 0.7 * (one.size + other.size):
            placed = [one, other]
            placed += [place(params.rng, thing, [*placed], params.style) for thing in params.others(2)]
            return AskedScene(_shuffled(params, placed), (one, other), questions.ask_higher(one, other))
    raise TaskError(f"no scene with drop={params.levels['drop']} was found in {TRIES} tries; choose a smaller one")


def make_count(params: MarkedSceneParameters) -> AskedScene:
    """So many things of a colour, a shape or both among `things`, which `overlap` in pairs, the smaller in front."""
    total = int(params.levels["things"])
    count = params.deal(range(min(total, 6) + 1))
    color, shape = str(params.rng.choice(list(COLORS))), str(params.rng.choice(SHAPES))
    by = params.rng.integers(3)
    color, shape = "" if by == 1 else color, "" if by == 0 else shape

    def fits(thing: Thing) -> bool:
        return color in ("", thing.color) and shape in ("", thing.shape)

    drawn = [random_thing(params.rng, params.size()) for _ in range(count)]
    asked = [replace(thing, color=color or thing.color, shape=shape or thing.shape) for thing in drawn]
    sized = [replace(t, size=min(40.0, max(22.0, t.size))) for t in (*asked, *params.others(total - count, fits))]
    placed = _place_in_pairs(params, _shuffled(params, sized), float(params.levels["overlap"]))
    things = tuple(sorted(placed, key=lambda thing: -thing.size))
    return AskedScene(things, (), questions.ask_count(things, color, shape))


def make_named(
    params: MarkedSceneParameters, ask: Callable[[MarkedSceneParameters, Sequence[Thing], Thing], Question]
) -> AskedScene:
    """One thing that is the only one of its colour and shape, of a given size among others."""
    target = random_thing(params.rng, float(params.levels["size"]))
    others = params.others(params.levels["things"] - 1, lambda thing: thing.name == target.name)
    for _ in range(TRIES):
        placed = _place_all(params, [target], others)
        share = [3 * at / params.style.side % 1 for at in (placed[0].x, placed[0].y)]
        if all(3 * EDGE < part < 1 - 3 * EDGE for part in share):
            break
    return AskedScene(_shuffled(params, placed), (), ask(params, placed, placed[0]))


def _ask_cell(params: MarkedSceneParameters, things: Sequence[Thing], thing: Thing) -> Question:
    return questions.ask_cell(params.rng, thing, params.style.side, params.deal(range(4)))


def _ask_present(params: MarkedSceneParameters, things: Sequence[Thing], thing: Thing) -> Question:
    return questions.ask_present(params.rng, things, thing, params.deal(range(4)))


def _ask_where(params: MarkedSceneParameters, things: Sequence[Thing], thing: Thing) -> Question:
    return questions.ask_where(thing, params.style.side)


SIZE = Control("size", (56, 36, 24, 16), 8, 100)
THINGS = Control("things", (3, 6, 10), 1, 40, whole=True)
KINDS: Mapping[str, Kind] = {
    "shape": Kind(lambda params: make_attribute(params, questions.ask_shape), (SIZE, THINGS)),
    "color": Kind(lambda params: make_attribute(params, questions.ask_color), (SIZE, THINGS)),
    "symbol": Kind(lambda params: make_attribute(params, questions.ask_symbol, lettered=True), (SIZE, THINGS)),
    "larger": Kind(make_larger, (Control("ratio", (2.0, 1.5, 1.2), 1.01, 3),)),
    "higher": Kind(make_higher, (Control("drop", (120, 50, 20), 4, 200),)),
    "count": Kind(make_count, (THINGS, Control("overlap", (0.0, 0.3), 0, 0.6))),
    "cell": Kind(lambda params: make_named(params, _ask_cell), (SIZE, THINGS)),
    "present": Kind(lambda params: make_named(params, _ask_present), (SIZE, THINGS)),
    "where": Kind(lambda params: make_named(params, _ask_where), (SIZE, THINGS)),
}
