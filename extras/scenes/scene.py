"""Generated scenes, and types of scenes with their control parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeVar

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.swept import MAX_TRIES, Controls, SceneParameters
from looktwice.pipelines.marks import Marks
from looktwice.pipelines.picture import Pixels

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Scene:
    """A question, its key, and its picture, which `paint` draws.

    `truth` describes the whole picture as plain JSON values; it gives the answer away, and so may
    `marks`. `meta` holds further facts about the question, except for its control parameters.
    `counted_label` is the label, without its number, of the marks to be counted; it is empty if the
    question does not ask for a count.
    """

    question: str
    answer: str
    truth: Mapping[str, Any]
    paint: Callable[[], Pixels]
    marks: Marks = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    counted_label: str = ""

    @property
    def counted_marks(self) -> Marks:
        """The marks that the question asks to count."""
        names = ((mark, mark.label.rpartition(" ")[0]) for mark in self.marks)
        return tuple(
            mark for mark, name in names if self.counted_label and name == self.counted_label
        )


Attempts = Iterator[Scene | None]
"""Attempts to make a scene: None for each attempt that does not meet all requirements."""


@dataclass(frozen=True)
class SceneType:
    """A subtask: the function that draws its scenes, its controls in the official order, and the
    form of its answers.

    `draw` yields attempts, None for each that does not meet the requirements; it ends if none can
    meet them. `flaws` describe the faults of the authors' images, which `official: true`
    reproduces.
    """

    name: str
    form: Literal["integer", "option", "letters", "yes_no"]
    controls: Controls
    draw: Callable[[SceneParameters], Attempts]
    flaws: tuple[str, ...] = ()
    group: str = "2D"


def find_valid_try(tries: Iterable[T | None], name: str, levels: Mapping[str, object]) -> T:
    """Return the first try that is not None. Raises TaskError if the first `MAX_TRIES` tries are
    None."""
    for kept in islice(tries, MAX_TRIES):
        if kept is not None:
            return kept
    asked = ", ".join(f"{control}={value}" for control, value in levels.items())
    raise TaskError(
        f"{name}: no scene with {asked} was found in {MAX_TRIES} tries; choose easier levels in"
        " `controls`"
    )


def number_labels(words: Iterable[str]) -> Iterator[str]:
    """Number the occurrences of each word: "star 1", "cross 1", "star 2"."""
    times: Counter[str] = Counter()
    for word in words:
        times[word] += 1
        yield f"{word} {times[word]}"
