"""A generated scene, the parameters it is drawn from, and the types of scenes with their control
parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.random import Generator

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.row_errors import suggest_name
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.picture import Pixels

Level = int | float | str
TRIES = 300  # scenes that are drawn until one keeps every promise


@dataclass(frozen=True, eq=False)
class Scene:
    """A question, its key, and the picture, which is painted when `paint` is called.

    `truth` is all that is in the picture, as plain JSON values: it gives the answer away, as
    `marks` may; `meta` is what may be known of the question beside its control parameters. `asked`
    is the label, less its number, of the marks that the question asks to count; empty where it asks
    for something else.
    """

    question: str
    answer: str
    truth: Mapping[str, Any]
    paint: Callable[[], Pixels]
    marks: tuple[Mark, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    asked: str = ""

    @property
    def asked_marks(self) -> tuple[Mark, ...]:
        """The marks of what the question asks for."""
        return tuple(
            mark
            for mark in self.marks
            if self.asked and mark.label.rpartition(" ")[0] == self.asked
        )


@dataclass(frozen=True)
class SceneParameters:
    """What a scene is drawn from: random numbers, one level of each control, and whether the
    authors' flaws are kept.

    `deal` gives one of its options so that all of them come equally often over the questions of a
    task.
    """

    rng: Generator
    levels: Mapping[str, Any]
    deal: Callable[[Sequence[Any]], Any]
    official: bool = False

    def pick(self, cards: Sequence[Any]) -> Any:
        """One of them, at random."""
        return cards[int(self.rng.integers(len(cards)))]


@dataclass(frozen=True)
class Control:
    """A control parameter: the paper's levels, and the bounds or words of any other."""

    name: str
    levels: tuple[Level, ...]
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    words: tuple[str, ...] = ()

    def fault(self, value: object) -> str:
        """What is wrong with a level; empty where nothing is."""
        if self.words:
            return (
                ""
                if value in self.words
                else f"{self.name} is one of {', '.join(self.words)}, found {value!r}"
            )
        sort = int if self.whole else (int, float)
        if (
            isinstance(value, sort)
            and not isinstance(value, bool)
            and self.low <= value <= self.high
        ):
            return ""
        kind = "a whole number" if self.whole else "a number"
        return f"{self.name} is {kind} in {self.low:g}..{self.high:g}, found {value!r}"


def all_levels(
    controls: Sequence[Control], given: Mapping[str, Any]
) -> dict[str, tuple[Level, ...]]:
    """The levels of every control: those `given`, one or several, else its own."""
    held = {control.name: given.get(control.name, control.levels) for control in controls}
    return {
        name: tuple(each) if isinstance(each, list | tuple) else (each,)
        for name, each in held.items()
    }


def check_levels(name: str, controls: Sequence[Control], given: Mapping[str, Any]) -> None:
    """Raise TaskError for a control that the kind of question `name` has not, and for levels that
    cannot be."""
    known = {control.name: control for control in controls}
    for other in given:
        if other not in known:
            hint = suggest_name(other, known)
            raise TaskError(f"{name} has no control {other!r}{hint} It has {', '.join(known)}")
    levels = all_levels(controls, given)
    faults = [known[control].fault(level) for control, each in levels.items() for level in each]
    faults += [f"{control} has no level" for control, each in levels.items() if not each]
    if any(faults):
        raise TaskError("controls: " + "; ".join(filter(None, faults)))


@dataclass(frozen=True)
class SceneType:
    """A subtask: how a scene is drawn, its controls in the official order, and the form of its
    answers.

    `flaws` are what is wrong with the authors' own images, which `official: true` draws in the same
    way.
    """

    name: str
    form: Literal["integer", "option", "letters", "yes_no"]
    controls: tuple[Control, ...]
    draw: Callable[[SceneParameters], Scene]
    flaws: tuple[str, ...] = ()
    group: str = "2D"


def no_room_error(name: str, params: SceneParameters) -> TaskError:
    """The error of a scene that could not be drawn."""
    said = ", ".join(f"{control}={value}" for control, value in params.levels.items())
    return TaskError(
        f"{name}: no scene with {said} was found in {TRIES} tries; choose milder levels in"
        " `controls`"
    )
