"""The nine kinds of questions: what a scene is made of so that its question has the wanted answer,
and the controls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, permutations, product

from numpy.random import Generator

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.generated.scene import TRIES, Control, SceneParameters
from looktwice.eval.tasks.marked_scenes import questions
from looktwice.eval.tasks.marked_scenes.questions import Question
from looktwice.eval.tasks.marked_scenes.scene import (
    COLORS,
    MARGIN,
    SHAPES,
    Style,
    Thing,
    no_room,
    place,
    random_thing,
)

# pixels of the things beside two that are compared, and of those that are counted
SMALLEST, LARGEST = (16.0, 56.0)
LETTERED = 0.35  # how often a thing that is not asked about is a tile
PEERS = 4  # things that may be the asked one as well: as many as there are choices
# times smaller or larger than the asked one: the sizes of those that are not its peers
NEAREST, FARTHEST = (1.1, 1.5)
BEGINNINGS = 30  # of a scene, until all of its things find room
EDGE = 0.03  # of the image's side is kept free on both sides of the lines between cells
MOST_COUNTED = 6

Word = Callable[[Thing], str]
"""What is asked of a thing, or what it is named by."""


@dataclass(frozen=True)
class MarkedSceneParameters(SceneParameters):
    """What a scene is drawn from, and how it looks."""

    style: Style = field(default_factory=Style)

    def size(self) -> float:
        """A random height in pixels, any factor being as likely as any other."""
        return SMALLEST * math.exp(float(self.rng.random()) * math.log(LARGEST / SMALLEST))

    def peers(self, word: Word, lettered: bool = False) -> list[Thing]:
        """The asked thing and others that could be it: equally large, each with a `word` of its
        own; no place yet.

        There are `PEERS`, or as many as the level of `things` has room for.
        """
        peers: dict[str, Thing] = {}
        while len(peers) < min(PEERS, self.levels["things"]):
            thing = random_thing(self.rng, float(self.levels["size"]), lettered)
            peers.setdefault(word(thing), thing)
        return list(peers.values())

    def rest(self, count: int, wrong: Callable[[Thing], bool]) -> list[Thing]:
        """So many things, none of which is `wrong`, by turns smaller and larger than the level of
        `size`."""
        rest: list[Thing] = []
        grows = self.rng.random() < 0.5
        while len(rest) < count:
            factor = NEAREST * (FARTHEST / NEAREST) ** float(self.rng.random())
            size = self.levels["size"] * (factor if grows else 1 / factor)
            thing = random_thing(self.rng, size, self.rng.random() < LETTERED)
            if not wrong(thing):
                rest.append(thing)
                grows = not grows
        return rest


@dataclass(frozen=True)
class AskedScene:
    """The things of a scene in the order in which they are drawn, those that are marked, and what
    is asked.

    `possible` is how many answers are equally likely to whoever sees the things, but not what is
    marked or named.
    """

    things: tuple[Thing, ...]
    marked: tuple[Thing, ...]
    question: Question
    possible: int


@dataclass(frozen=True)
class Kind:
    """A kind of question: how its scenes are made, and its control parameters with their levels."""

    make: Callable[[MarkedSceneParameters], AskedScene]
    controls: tuple[Control, ...]


def _place_all(
    params: MarkedSceneParameters,
    things: Sequence[Thing],
    fits: Callable[[int, Thing], bool] = lambda number, thing: True,
) -> list[Thing]:
    """All things at places of their own where the one of this number `fits`.

    The largest find theirs first, and all is begun anew where the last ones find none.
    """
    for _ in range(BEGINNINGS):
        with suppress(TaskError):
            placed: dict[int, Thing] = {}
            for number, thing in sorted(enumerate(things), key=lambda numbered: -numbered[1].size):
                placed[number] = place(
                    params.rng, thing, [*placed.values()], params.style, partial(fits, number)
                )
            return [thing for _, thing in sorted(placed.items())]
    raise no_room(params.style, len(things))


def make_one(
    params: MarkedSceneParameters,
    ask: Callable[[Thing, list[Thing]], Question],
    word: Word,
    lettered: bool = False,
    marked: bool = False,
    in_cells: bool = False,
) -> AskedScene:
    """One asked thing of a given size among others, of which as many as are needed have the words
    of the choices.

    It is marked, or named by the only name of its kind; `in_cells` each cell that is offered holds
    one thing, if there are so many.
    """
    peers = params.peers(word, lettered)
    words = {word(peer) for peer in peers}
    rest = params.rest(params.levels["things"] - len(peers), lambda thing: word(thing) in words)
    own = params.shuffled(questions.CELLS)[: len(peers)] if in_cells else []
    side = params.style.side

    def fits(number: int, thing: Thing) -> bool:
        cell = questions.cell_of(thing, side)
        if number >= len(own):
            return cell not in own
        parts = [3 * at / side % 1 for at in (thing.x, thing.y)]
        return cell == own[number] and all(3 * EDGE < part < 1 - 3 * EDGE for part in parts)

    placed = _place_all(params, [*peers, *rest], fits)
    peers = placed[: len(peers)]
    asked = params.pick(peers)
    question = ask(asked, peers)
    # of an open question every one of the peers may be the asked one
    offered = {*question.choices} or words
    possible = len({*(own or words)} & offered)
    things = tuple(params.shuffled(placed))
    return AskedScene(things, (asked,) if marked else (), question, possible)


def make_attribute(
    ask: Callable[[Generator, Thing, Sequence[Thing], int], Question],
    word: Word,
    lettered: bool,
    params: MarkedSceneParameters,
) -> AskedScene:
    """What a marked thing has."""
    return make_one(
        params,
        lambda asked, peers: ask(params.rng, asked, peers, params.deal(range(4))),
        word,
        lettered,
        marked=True,
    )


def make_cell(params: MarkedSceneParameters) -> AskedScene:
    """One thing that is the only one of its name, in one of nine cells."""
    side = params.style.side
    return make_one(
        params,
        lambda asked, peers: questions.ask_cell(
            params.rng, asked, peers, side, params.deal(range(4))
        ),
        lambda thing: thing.name,
        in_cells=True,
    )


def make_where(params: MarkedSceneParameters) -> AskedScene:
    """One thing that is the only one of its name, of a given size among others, some of which are
    equally large."""
    side = params.style.side
    return make_one(
        params, lambda asked, peers: questions.ask_where(asked, side), lambda thing: thing.name
    )


def _compared(
    params: MarkedSceneParameters,
    placed: Sequence[Thing],
    more: Sequence[Thing],
    less: Sequence[Thing],
    ask: Callable[[Thing, Thing], Question],
) -> AskedScene:
    """A and B are marked: the dealt one is of the two that have `more`, or both are equal."""
    answer = params.deal(("A", "B", "same"))
    if answer == "same":
        a, b = params.shuffled(params.pick((more, less)))
    else:
        a, b = params.pick(more), params.pick(less)
        a, b = (a, b) if answer == "A" else (b, a)
    return AskedScene(tuple(params.shuffled(placed)), (a, b), ask(a, b), 3)


def make_larger(params: MarkedSceneParameters) -> AskedScene:
    """Two marked things of which one is `ratio` times as large as the other, or both are equally
    large.

    There are two things of either size and a fifth, so that the sizes do not tell which two are
    marked.
    """
    ratio = float(params.levels["ratio"])
    small = float(params.rng.uniform(20, 64 / ratio))
    sizes = [small, small, small * ratio, small * ratio, params.size()]
    things = [random_thing(params.rng, size, params.rng.random() < LETTERED) for size in sizes]
    placed = _place_all(params, things)
    return _compared(params, placed, placed[2:4], placed[:2], questions.ask_larger)


def make_higher(params: MarkedSceneParameters) -> AskedScene:
    """Two marked things of which one lies `drop` pixels above the other, or both at the same
    height.

    There are two things at either height, so that the heights do not tell which two are marked.
    """
    drop, side, rng = float(params.levels["drop"]), params.style.side, params.rng
    for _ in range(TRIES):
        things = [random_thing(rng, float(rng.uniform(24, 44))) for _ in range(4)]
        rim = max(thing.size for thing in things) * 0.6 + MARGIN
        upper = float(rng.uniform(rim, side - rim - drop))
        across = rng.uniform(rim, side - rim, 4)
        placed = [
            replace(thing, x=float(x), y=upper + drop * (number // 2))
            for number, (thing, x) in enumerate(zip(things, across, strict=True))
        ]
        if all(abs(a.x - b.x) > 0.7 * (a.size + b.size) for a, b in combinations(placed, 2)):
            return _compared(params, placed, placed[:2], placed[2:], questions.ask_higher)
    raise TaskError(
        f"no scene with drop={params.levels['drop']} was found in {TRIES} tries; choose a"
        " smaller one"
    )


def make_count(params: MarkedSceneParameters) -> AskedScene:
    """So many things of a colour, a shape or both among `things`, which `overlap` in pairs, the
    smaller in front.

    In every scene one such word is of one thing, another of two and so on, as far as there are
    things, and each of these numbers, or none, is asked for equally often: how many of a word there
    are does not tell whether it is asked.
    """
    total, overlap = int(params.levels["things"]), float(params.levels["overlap"])
    most = next(n for n in range(MOST_COUNTED, 0, -1) if n * (n + 1) <= 2 * total)
    count, by = params.deal(range(most + 1)), params.rng.integers(3)
    names = params.shuffled(product(COLORS if by != 1 else [""], SHAPES if by else [""]))
    absent, *groups = names[: most + 2]
    for first, second in permutations(groups, 2):
        if (first[0], second[1]) not in groups:
            absent = first[0], second[1]  # both are there, but not of one thing
            break
    sizes = [*range(1, most + 1), total - most * (most + 1) // 2]
    things = []
    for (color, shape), number in zip(groups, sizes, strict=True):
        for _ in range(number):
            thing = random_thing(params.rng, min(40.0, max(22.0, params.size())))
            things.append(replace(thing, color=color or thing.color, shape=shape or thing.shape))
    placed: list[Thing] = []
    for number, thing in enumerate(params.shuffled(things)):
        over = placed[-1] if overlap and number % 2 else None
        others = placed[:-1] if over else placed
        placed.append(place(params.rng, thing, others, params.style, over=over, overlap=overlap))
    placed.sort(key=lambda thing: -thing.size)
    question = questions.ask_count(placed, *(groups[count - 1] if count else absent))
    return AskedScene(tuple(placed), (), question, most + 1)


def make_present(params: MarkedSceneParameters) -> AskedScene:
    """One of four names is in the image; each of their colours and shapes is there once, if there
    are three things."""
    colors, shapes = params.shuffled(COLORS), params.shuffled(SHAPES)
    size, total = float(params.levels["size"]), params.levels["things"]
    # which color with which shape; the choices are those of 0 and 1
    pairs = [(0, 0), (1, 2), (2, 1)][:total]
    peers = [
        replace(random_thing(params.rng, size), color=colors[c], shape=shapes[s]) for c, s in pairs
    ]
    rest = params.rest(
        total - len(peers), lambda thing: thing.color in colors[:2] or thing.shape in shapes[:2]
    )
    placed = _place_all(params, [*peers, *rest])
    wrong = [f"{colors[c]} {shapes[s]}" for c, s in ((0, 1), (1, 0), (1, 1))]
    question = questions.ask_present(params.rng, placed[0], wrong, params.deal(range(4)))
    tints, forms = {*colors[:2]}, {*shapes[:2]}
    possible = len({t.color for t in placed} & tints) * len({t.shape for t in placed} & forms)
    return AskedScene(tuple(params.shuffled(placed)), (), question, possible)


SIZE = Control("size", (56, 36, 24, 16), 8, 100)
THINGS = Control("things", (3, 6, 10), 1, 40, whole=True)
KINDS: Mapping[str, Kind] = {
    "shape": Kind(
        partial(make_attribute, questions.ask_shape, lambda t: t.shape, False), (SIZE, THINGS)
    ),
    "color": Kind(
        partial(make_attribute, questions.ask_color, lambda t: t.color, False), (SIZE, THINGS)
    ),
    "symbol": Kind(
        partial(make_attribute, questions.ask_symbol, lambda t: t.symbol, True), (SIZE, THINGS)
    ),
    "larger": Kind(make_larger, (Control("ratio", (2.0, 1.5, 1.2), 1.01, 3),)),
    "higher": Kind(make_higher, (Control("drop", (120, 50, 20), 4, 200),)),
    "count": Kind(make_count, (THINGS, Control("overlap", (0.0, 0.3), 0, 0.6))),
    "cell": Kind(make_cell, (SIZE, THINGS)),
    "present": Kind(make_present, (SIZE, THINGS)),
    "where": Kind(make_where, (SIZE, THINGS)),
}
