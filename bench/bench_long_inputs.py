"""CPU seconds for endless inputs from a hostile or broken model: ten times the input takes at most
about ten times as long.

`python -m pytest -s bench/bench_long_inputs.py` prints the inputs with the fastest growth. The
tests count function calls instead, which misses the time of regular expressions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from string import punctuation
from typing import Any, NamedTuple

import pytest

from looktwice.eval.readers import Marked, Robust, Strict
from looktwice.eval.readers.open_answers import KIND_READERS, read_open
from looktwice.eval.readers.reader import build_reader, map_readers
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.prompting.turns.blind import find_svg
from tests.eval.readers.test_long_replies import OURS, RUNS, SUBTASKS, repeat, state

OUR_RUNS = OURS.split("¦") + [sign + end for sign in punctuation for end in ("", "\n")]
MIN_SECONDS = 0.02  # seconds; less is noise
CHOICES = ("red", "blue", "the left one")
CAT = "the cat is closer than the dog and there are two "


class Growth(NamedTuple):
    """CPU seconds for an input, and for one that is several times as long."""

    name: str
    short: float
    long: float

    @property
    def factor(self) -> float:
        return self.long / max(self.short, MIN_SECONDS)


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def check(grown: Iterator[Growth], most: float) -> None:
    """Print the inputs whose time grows most; fail if one grows by a factor above `most`."""
    worst = sorted(grown, key=lambda one: -one.factor)
    for one in worst[:5]:
        print(f"\n{one.factor:6.1f} times  {one.short:.3f} s, then {one.long:.3f} s  {one.name!r}")
    assert [one for one in worst if one.factor > most] == []


def read(reader: Any, run: str, length: int, choices: tuple[str, ...], subtask: str) -> float:
    asked = state(repeat(run, length), choices, subtask)
    return seconds(lambda: reader(asked, None))


@pytest.mark.parametrize("name", sorted(map_readers()))
def test_a_reader_takes_ten_times_as_long_for_ten_times_the_reply(name: str) -> None:
    def measured() -> Iterator[Growth]:
        for subtask in SUBTASKS.get(name, ("",)):
            for run in RUNS:
                for choices in [CHOICES] + [()] * (name == "robust"):
                    taken = [
                        read(build_reader(name), run, length, choices, subtask)
                        for length in (10_000, 100_000)
                    ]
                    yield Growth(f"{run} {subtask}", *taken)

    check(measured(), 10)


@pytest.mark.parametrize(
    ("choices", "subtask"),
    [(("A is closer", "B is closer"), "Relative_Depth"), ((), "shape_discrimination")],
)
def test_reading_takes_less_than_quadratic_time(choices: tuple[str, ...], subtask: str) -> None:
    """Read replies of four times the words: quadratic time would be 16 times as long. Only the
    beginning and the end of a longer reply are read."""

    def measured() -> Iterator[Growth]:
        for run in OUR_RUNS:
            tries = [  # every text differs, because results are cached
                Growth(
                    run,
                    *(
                        read(Robust(), run, length + attempt * len(run), choices, subtask)
                        for length in (2_400, 9_600)
                    ),
                )
                for attempt in range(3)
            ]
            yield min(tries, key=lambda one: one.factor)

    check(measured(), 8)


def header(length: int) -> None:
    with pytest.raises(PictureError):
        _ = Picture.encoded(b"P6\n" + b"#" * length + b"\n1 1\n255\nabc").size


WORK: dict[str, Callable[[int], object]] = {
    "openings of drawings": lambda n: find_svg("<svg></svg>" + "<svg " * n),
    "space behind a tag": lambda n: strip_thoughts("<tool_call>" + " " * n),
    "the header of a picture": lambda n: header(100 * n),
    **{
        f"digits of another writing, {kind}": lambda n, kind=kind: read_open("\u0663" * n, kind)  # type: ignore[misc]
        for kind in KIND_READERS
    },
    **{
        f"{type(reader).__name__}, {piece!r}": lambda n, reader=reader, piece=piece: reader.read(  # type: ignore[misc]
            state(piece * (6 * n // max(6, len(piece))), ("cat", "dog"), "")
        )
        for reader in (Robust(), Strict(), Marked())
        for piece in ("\n", "---\n", "<think>", "\t \n", CAT)
    },
}


def test_other_work_takes_ten_times_as_long_for_ten_times_the_input() -> None:
    check(
        (
            Growth(name, seconds(lambda: work(4_000)), seconds(lambda: work(40_000)))  # noqa: B023
            for name, work in WORK.items()
        ),
        12,
    )
