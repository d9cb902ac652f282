"""Questions about a scene whose things are known, each with its choices and its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_uppercase

from numpy.random import Generator

from looktwice.eval.tasks.marked_scenes.scene import COLORS, SHAPES, SYMBOLS, Thing

CELLS = tuple(f"row {row}, column {column}" for row, column in product((1, 2, 3), repeat=2))
SAME_SIZE, SAME_HEIGHT = "they are equally large", "they are equally high up"


@dataclass(frozen=True)
class Question:
    """`answer` is the right one in words; `choices` holds it too, or is empty where the question is
    open."""

    text: str
    answer: str
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The letter of the right choice, or the answer to an open question."""
        return ascii_uppercase[self.choices.index(self.answer)] if self.choices else self.answer


def ask_shape(rng: Generator, thing: Thing, among: Sequence[Thing], at: int) -> Question:
    """What shape a marked thing has; the right choice is number `at`, the wrong ones those of
    things `among` others.

    Where these are too few, words of nothing among them are added.
    """
    there = [peer.shape for peer in among if not peer.symbol]
    return _choose(rng, "What shape is the marked thing?", thing.shape, there, SHAPES, at)


def ask_color(rng: Generator, thing: Thing, among: Sequence[Thing], at: int) -> Question:
    """What colour a marked thing has."""
    there = [peer.color for peer in among]
    return _choose(rng, "What color is the marked thing?", thing.color, there, tuple(COLORS), at)


def ask_symbol(rng: Generator, thing: Thing, among: Sequence[Thing], at: int) -> Question:
    """What a marked tile says."""
    there = [peer.symbol for peer in among if peer.symbol]
    return _choose(
        rng, "Which letter or digit is on the marked tile?", thing.symbol, there, SYMBOLS, at
    )


def ask_larger(a: Thing, b: Thing) -> Question:
    """Which of two things that are marked A and B is larger."""
    answer = SAME_SIZE if a.size == b.size else "A" if a.size > b.size else "B"
    return Question(
        "Which of the two marked things is larger, A or B?", answer, ("A", "B", SAME_SIZE)
    )


def ask_higher(a: Thing, b: Thing) -> Question:
    """Which of two things that are marked A and B is higher up."""
    answer = SAME_HEIGHT if a.y == b.y else "A" if a.y < b.y else "B"
    return Question(
        "Which of the two marked things is higher up in the image, A or B?",
        answer,
        ("A", "B", SAME_HEIGHT),
    )


def ask_count(things: Sequence[Thing], color: str = "", shape: str = "") -> Question:
    """How many things have a colour, a shape, or both."""
    count = sum(color in ("", thing.color) and shape in ("", thing.shape) for thing in things)
    noun = f"{shape}s" if shape and shape != "cross" else "crosses" if shape else "things"
    return Question(f"How many {f'{color} ' if color else ''}{noun} are in the image?", str(count))


def ask_cell(rng: Generator, thing: Thing, among: Sequence[Thing], side: int, at: int) -> Question:
    """In which cell of a grid of three by three a thing lies that is the only one of its name."""
    text = f"Divide the image into three rows and three columns. Where is the {thing.name}?"
    there = [cell_of(peer, side) for peer in among]
    return _choose(rng, text, cell_of(thing, side), there, CELLS, at)


def cell_of(thing: Thing, side: int) -> str:
    """The row and column, from 1, of a thing in an image of `side` pixels that is divided in three
    by three."""
    return f"row {1 + int(3 * thing.y // side)}, column {1 + int(3 * thing.x // side)}"


def ask_present(rng: Generator, thing: Thing, absent: Sequence[str], at: int) -> Question:
    """Which of four things is there; the other three are of the names that are `absent`."""
    return _choose(rng, "Which of these is in the image?", thing.name, absent, (), at, "a ")


def ask_where(thing: Thing, side: int) -> Question:
    """Where a thing lies; the key is its box, left, top, right, bottom, in percent of the image's
    side."""
    box = " ".join(f"{100 * edge / side:.1f}" for edge in thing.box)
    place = "Give the place of its middle as (x, y), in percent of the image's width and height."
    return Question(f"Where is the {thing.name}? {place}", box)


def _choose(
    rng: Generator,
    text: str,
    answer: str,
    there: Sequence[str],
    pool: Sequence[str],
    at: int,
    article: str = "",
) -> Question:
    """Wrong choices are words that are `there`, at random, and where these are too few others of
    the `pool`."""
    near = {*there} - {answer}
    far = {*pool} - near - {answer}
    others = [str(word) for words in (near, far) for word in rng.permutation(sorted(words))][:3]
    others = [str(word) for word in rng.permutation(others)]
    choices = [*others[:at], answer, *others[at:]]
    named = [f"{'an ' if article and word[0] in 'aeiou' else article}{word}" for word in choices]
    return Question(text, named[at], tuple(named))
