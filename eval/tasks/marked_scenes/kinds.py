"""The nine kinds of questions about drawn scenes: their texts, their scenes for a given answer, and
their control parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, permutations, product
from operator import attrgetter
from string import ascii_uppercase

from numpy.random import Generator

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.marked_scenes.scene import (
    COLORS,
    MIN_BORDER_DISTANCE,
    SHAPES,
    SYMBOLS,
    Style,
    Thing,
    Things,
    draw_random_thing,
    make_no_room_error,
    place_thing,
)
from looktwice.eval.tasks.swept import MAX_TRIES, Control, Controls, IntegerControl, SceneParameters

# height in pixels of counted things, and of those beside two compared ones
MIN_THING_SIZE, MAX_THING_SIZE = (16.0, 56.0)
TILE_SHARE = 0.35  # share of tiles among things that are not asked about
CANDIDATE_COUNT = 4  # candidates for the thing asked about: as many as there are choices
# factors by which things other than its peers are smaller or larger than the thing asked about
MIN_SIZE_RATIO, MAX_SIZE_RATIO = (1.1, 1.5)
MAX_PLACEMENT_ATTEMPTS = 30  # attempts to place all things of a scene
# share of the image's side kept free on both sides of the lines between cells
CELL_MARGIN_SHARE = 0.03
MAX_COUNTED_OBJECTS = 6
CELL_NAMES = tuple(f"row {row}, column {column}" for row, column in product((1, 2, 3), repeat=2))
SAME_SIZE_ANSWER, SAME_HEIGHT_ANSWER = "they are equally large", "they are equally high up"
ATTRIBUTES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "shape": ("What shape is the marked thing?", SHAPES),
    "color": ("What color is the marked thing?", tuple(COLORS)),
    "symbol": ("Which letter or digit is on the marked tile?", SYMBOLS),
}
"""The question about each attribute of a marked object, and the possible answers."""

WordGetter = Callable[[Thing], str]
"""A function that returns an object's attribute or name."""


@dataclass(frozen=True)
class Question:
    """A question with its correct `answer`, which is one of `choices`; an open question has no
    choices."""

    text: str
    answer: str
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The letter of the correct choice, or the answer to an open question."""
        return ascii_uppercase[self.choices.index(self.answer)] if self.choices else self.answer


def ask_attribute(rng: Generator, name: str, thing: Thing, among: Things, at: int) -> Question:
    """Ask for an attribute of a marked object; the correct choice is number `at`, and the wrong
    ones are attributes of the other objects in `among`.

    If these are too few, attributes that none of these objects has are added.
    """
    text, pool = ATTRIBUTES[name]
    word = attrgetter(name)
    present = [word(peer) for peer in among if word(peer) in pool]
    return _make_choice_question(rng, text, word(thing), present, pool, at)


def ask_larger(a: Thing, b: Thing) -> Question:
    """Ask which of two objects marked A and B is larger."""
    return _format_comparison("larger", a.size - b.size, SAME_SIZE_ANSWER)


def ask_higher(a: Thing, b: Thing) -> Question:
    """Ask which of two objects marked A and B is higher up."""
    return _format_comparison("higher up in the image", b.y - a.y, SAME_HEIGHT_ANSWER)


def _format_comparison(how: str, lead: float, same: str) -> Question:
    answer = ("A" if lead > 0 else "B") if lead else same
    return Question(f"Which of the two marked things is {how}, A or B?", answer, ("A", "B", same))


def ask_count(things: Things, color: str = "", shape: str = "") -> Question:
    """Ask how many objects have a colour, a shape, or both."""
    count = sum(color in ("", thing.color) and shape in ("", thing.shape) for thing in things)
    noun = {"": "things", "cross": "crosses"}.get(shape, f"{shape}s")
    return Question(f"How many {f'{color} {noun}'.strip()} are in the image?", str(count))


def ask_cell(rng: Generator, thing: Thing, among: Things, side: int, at: int) -> Question:
    """Ask in which cell of a three by three grid the only object of its name is."""
    text = f"Divide the image into three rows and three columns. Where is the {thing.name}?"
    present = [get_cell(peer, side) for peer in among]
    return _make_choice_question(rng, text, get_cell(thing, side), present, CELL_NAMES, at)


def get_cell(thing: Thing, side: int) -> str:
    """Return the row and column, counted from 1, of an object in an image of `side` pixels that is
    divided three by three."""
    return f"row {1 + int(3 * thing.y // side)}, column {1 + int(3 * thing.x // side)}"


def ask_present(rng: Generator, thing: Thing, absent: Sequence[str], at: int) -> Question:
    """Ask which of four objects is present; the names of the other three are in `absent`."""
    asked = _make_choice_question(
        rng, "Which of these is in the image?", thing.name, absent, (), at
    )
    named = tuple(f"{'an' if word[0] in 'aeiou' else 'a'} {word}" for word in asked.choices)
    return replace(asked, answer=named[at], choices=named)


def ask_where(thing: Thing, side: int) -> Question:
    """Ask where an object is; the correct answer is its box (left, top, right, bottom) in percent
    of the image's side."""
    box = " ".join(f"{100 * edge / side:.1f}" for edge in thing.box)
    place = "Give the place of its middle as (x, y), in percent of the image's width and height."
    return Question(f"Where is the {thing.name}? {place}", box)


def _make_choice_question(
    rng: Generator, text: str, answer: str, present: Sequence[str], pool: Sequence[str], at: int
) -> Question:
    """Return a question whose wrong choices are drawn from the texts `present` in the scene and, if
    these are too few, from the `pool`."""
    near = {*present} - {answer}
    far = {*pool} - near - {answer}
    others = [*rng.permutation(sorted(near)), *rng.permutation(sorted(far))][:3]
    choices = list(map(str, rng.permutation(others)))
    choices.insert(at, answer)
    return Question(text, answer, tuple(choices))


@dataclass(frozen=True)
class MarkedSceneParameters(SceneParameters):
    """The random parameters of a scene, and its style."""

    style: Style = Style()

    def draw_size(self) -> float:
        """Draw a height in pixels from a log-uniform distribution."""
        return MIN_THING_SIZE * math.exp(
            float(self.rng.random()) * math.log(MAX_THING_SIZE / MIN_THING_SIZE)
        )

    def draw_peers(self, word: WordGetter, lettered: bool = False) -> list[Thing]:
        """Return candidates for the object asked about, which are equally large, have different
        words (`word`), and are not placed yet.

        There are `CANDIDATE_COUNT` candidates, or as many as the level of `things` allows.
        """
        peers: dict[str, Thing] = {}
        while len(peers) < min(CANDIDATE_COUNT, self.levels["things"]):
            thing = draw_random_thing(self.rng, float(self.levels["size"]), lettered)
            peers.setdefault(word(thing), thing)
        return list(peers.values())

    def draw_other_objects(self, count: int, wrong: Callable[[Thing], bool]) -> list[Thing]:
        """Return `count` other objects for which `wrong` is false, alternately smaller and larger
        than the level of `size`."""
        rest: list[Thing] = []
        grows = self.rng.random() < 0.5
        while len(rest) < count:
            factor = MIN_SIZE_RATIO * (MAX_SIZE_RATIO / MIN_SIZE_RATIO) ** float(self.rng.random())
            size = self.levels["size"] * (factor if grows else 1 / factor)
            thing = draw_random_thing(self.rng, size, self.rng.random() < TILE_SHARE)
            if not wrong(thing):
                rest.append(thing)
                grows = not grows
        return rest


@dataclass(frozen=True)
class AskedScene:
    """The objects of a scene in drawing order, which of them are marked, and the question.

    `possible_answer_count` is the number of answers that are equally likely to someone who sees the
    objects without marks and question.
    """

    things: tuple[Thing, ...]
    marked_things: tuple[Thing, ...]
    question: Question
    possible_answer_count: int


@dataclass(frozen=True)
class Kind:
    """A kind of question: a function that makes its scenes, and its control parameters with their
    levels."""

    make: Callable[[MarkedSceneParameters], AskedScene]
    controls: Controls


def _place_all(
    params: MarkedSceneParameters,
    things: Things,
    fits: Callable[[int, Thing], bool] = lambda number, thing: True,
) -> list[Thing]:
    """Place all objects without overlap, each at a position where it `fits`.

    The largest are placed first; if there is no room for the last ones, placing starts again.
    """
    order = sorted(range(len(things)), key=lambda number: -things[number].size)
    for _ in range(MAX_PLACEMENT_ATTEMPTS):
        with suppress(TaskError):
            placed: dict[int, Thing] = {}
            for number in order:
                others, fit = [*placed.values()], partial(fits, number)
                placed[number] = place_thing(params.rng, things[number], others, params.style, fit)
            return [placed[number] for number in range(len(things))]
    raise make_no_room_error(params.style, len(things))


def make_single_object_scene(name: str, params: MarkedSceneParameters) -> AskedScene:
    """Make a scene with a question about one object of a given size; the other objects have the
    attributes of the wrong choices, as far as there are enough objects.

    Either the object is marked and the question asks for an attribute, or its name is unique and
    the question asks for its position. For "cell", each cell among the choices holds one object, as
    far as there are enough objects.
    """
    side, is_marked = params.style.side, name in ATTRIBUTES
    word: WordGetter = attrgetter(name if is_marked else "name")
    peers = params.draw_peers(word, name == "symbol")
    words = {word(peer) for peer in peers}
    rest = params.draw_other_objects(
        params.levels["things"] - len(peers), lambda thing: word(thing) in words
    )
    own = params.shuffled(CELL_NAMES)[: len(peers)] if name == "cell" else []

    def fits(number: int, thing: Thing) -> bool:
        cell = get_cell(thing, side)
        if number >= len(own):
            return cell not in own
        parts = [3 * at / side % 1 for at in (thing.x, thing.y)]
        return (
            cell == own[number]
            and min(parts) > 3 * CELL_MARGIN_SHARE
            and max(parts) < 1 - 3 * CELL_MARGIN_SHARE
        )

    placed = _place_all(params, [*peers, *rest], fits)
    peers = placed[: len(peers)]
    asked = params.pick(peers)
    if is_marked:
        question = ask_attribute(params.rng, name, asked, peers, params.deal(range(4)))
    elif name == "cell":
        question = ask_cell(params.rng, asked, peers, side, params.deal(range(4)))
    else:
        question = ask_where(asked, side)
    # an open question may be about any of the peers
    possible = len({*(own or words)} & {*(question.choices or words)})
    things = tuple(params.shuffled(placed))
    return AskedScene(things, (asked,) if is_marked else (), question, possible)


def _make_comparison(
    params: MarkedSceneParameters,
    placed: Things,
    more: Things,
    less: Things,
    ask: Callable[[Thing, Thing], Question],
) -> AskedScene:
    """Mark two objects as A and B and ask which has more. The answer is dealt: if it is A or B,
    that object is from `more` and the other one from `less`; if it is "same", both are from the
    same group."""
    answer = params.deal(("A", "B", "same"))
    if answer == "same":
        a, b = params.shuffled(params.pick((more, less)))
    else:
        a, b = params.pick(more), params.pick(less)
        a, b = (a, b) if answer == "A" else (b, a)
    return AskedScene(tuple(params.shuffled(placed)), (a, b), ask(a, b), 3)


def make_larger_scene(params: MarkedSceneParameters) -> AskedScene:
    """Make a scene with two marked objects, one `ratio` times as large as the other, or both
    equally large.

    There are two objects of each size, and a fifth object, so that sizes do not reveal which two
    are marked.
    """
    ratio = float(params.levels["ratio"])
    small = float(params.rng.uniform(20, 64 / ratio))
    sizes = [small, small, small * ratio, small * ratio, params.draw_size()]
    things = [
        draw_random_thing(params.rng, size, params.rng.random() < TILE_SHARE) for size in sizes
    ]
    placed = _place_all(params, things)
    return _make_comparison(params, placed, placed[2:4], placed[:2], ask_larger)


def make_higher_scene(params: MarkedSceneParameters) -> AskedScene:
    """Make a scene with two marked objects, one `drop` pixels above the other, or both at the same
    height.

    There are two objects at each height, so that heights do not reveal which two are marked.
    """
    drop, side, rng = float(params.levels["drop"]), params.style.side, params.rng
    for _ in range(MAX_TRIES):
        things = [draw_random_thing(rng, float(rng.uniform(24, 44))) for _ in range(4)]
        rim = max(thing.size for thing in things) * 0.6 + MIN_BORDER_DISTANCE
        upper = float(rng.uniform(rim, side - rim - drop))
        placed = []
        for number, x in enumerate(rng.uniform(rim, side - rim, 4)):
            placed.append(replace(things[number], x=float(x), y=upper + drop * (number // 2)))
        if all(abs(a.x - b.x) > 0.7 * (a.size + b.size) for a, b in combinations(placed, 2)):
            return _make_comparison(params, placed, placed[:2], placed[2:], ask_higher)
    raise TaskError(
        f"no scene with drop={params.levels['drop']} was found in {MAX_TRIES} attempts; choose a"
        " smaller drop"
    )


def make_count_scene(params: MarkedSceneParameters) -> AskedScene:
    """Make a scene with a question about the number of objects with a colour, a shape or both,
    among `things` objects that `overlap` in pairs, the smaller in front.

    In every scene, one such description applies to one object, another one to two, and so on, until
    no objects are left. Each of these numbers, and zero, is the answer equally often, so that the
    number of objects does not reveal which description the question uses.
    """
    total, overlap = int(params.levels["things"]), float(params.levels["overlap"])
    most = next(n for n in range(MAX_COUNTED_OBJECTS, 0, -1) if n * (n + 1) <= 2 * total)
    count, by = params.deal(range(most + 1)), params.rng.integers(3)
    names = params.shuffled(product(COLORS if by != 1 else [""], SHAPES if by else [""]))
    absent, *groups = names[: most + 2]
    for (color, _), (_, shape) in permutations(groups, 2):
        if (color, shape) not in groups:
            absent = color, shape  # both occur, but not in one thing
            break
    sizes = [*range(1, most + 1), total - most * (most + 1) // 2]
    things = []
    for (color, shape), number in zip(groups, sizes, strict=True):
        for _ in range(number):
            thing = draw_random_thing(params.rng, min(40.0, max(22.0, params.draw_size())))
            things.append(replace(thing, color=color or thing.color, shape=shape or thing.shape))
    placed: list[Thing] = []
    for number, thing in enumerate(params.shuffled(things)):
        over = placed[-1] if overlap and number % 2 else None
        others = placed[:-1] if over else placed
        placed.append(
            place_thing(params.rng, thing, others, params.style, over=over, overlap=overlap)
        )
    placed.sort(key=lambda thing: -thing.size)
    question = ask_count(placed, *(groups[count - 1] if count else absent))
    return AskedScene(tuple(placed), (), question, most + 1)


def make_present_scene(params: MarkedSceneParameters) -> AskedScene:
    """Make a scene that contains one of four named objects; if there are three objects, each colour
    and shape in the names occurs once."""
    colors, shapes = params.shuffled(COLORS), params.shuffled(SHAPES)
    size, total = float(params.levels["size"]), params.levels["things"]
    tints, forms = {*colors[:2]}, {*shapes[:2]}
    peers = []
    # indices of color and shape; the choices combine 0 and 1
    for c, s in [(0, 0), (1, 2), (2, 1)][:total]:
        peers.append(replace(draw_random_thing(params.rng, size), color=colors[c], shape=shapes[s]))
    rest = params.draw_other_objects(
        total - len(peers), lambda thing: thing.color in tints or thing.shape in forms
    )
    placed = _place_all(params, [*peers, *rest])
    wrong = [f"{colors[c]} {shapes[s]}" for c, s in ((0, 1), (1, 0), (1, 1))]
    question = ask_present(params.rng, placed[0], wrong, params.deal(range(4)))
    possible = len(tints.intersection(thing.color for thing in placed))
    possible *= len(forms.intersection(thing.shape for thing in placed))
    return AskedScene(tuple(params.shuffled(placed)), (), question, possible)


SIZE_CONTROL = Control("size", (56, 36, 24, 16), 8, 100)
THINGS_CONTROL = IntegerControl("things", (3, 6, 10), 1, 40)
KINDS: Mapping[str, Kind] = {
    name: Kind(partial(make_single_object_scene, name), (SIZE_CONTROL, THINGS_CONTROL))
    for name in (*ATTRIBUTES, "cell", "where")
} | {
    "larger": Kind(make_larger_scene, (Control("ratio", (2.0, 1.5, 1.2), 1.01, 3),)),
    "higher": Kind(make_higher_scene, (Control("drop", (120, 50, 20), 4, 200),)),
    "count": Kind(make_count_scene, (THINGS_CONTROL, Control("overlap", (0.0, 0.3), 0, 0.6))),
    "present": Kind(make_present_scene, (SIZE_CONTROL, THINGS_CONTROL)),
}
