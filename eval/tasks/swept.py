"""Control parameters, the random parameters of generated questions, and tasks that deal levels of
control parameters to their questions."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, TypeVar

from numpy.random import Generator

from looktwice.eval.tasks.base import (
    Fields,
    GeneratedTask,
    TaskError,
    require_positive,
    suggest_name,
)
from looktwice.eval.tasks.photographs import deal_evenly

Level = int | float | str
T = TypeVar("T")
MAX_TRIES = 300  # attempts to draw a scene that meets all conditions


@dataclass(frozen=True)
class SceneParameters:
    """The parameters of a generated scene: random numbers and one level of each control; if
    `official` is true, the scene has the flaws of the authors' generator.

    `deal` returns one of its options so that each occurs equally often over the questions of a
    task.
    """

    rng: Generator
    levels: Mapping[str, Any]
    deal: Callable[[Sequence[Any]], Any]
    official: bool = False

    def pick(self, cards: Sequence[T]) -> T:
        """Return one of the cards at random."""
        return cards[int(self.rng.integers(len(cards)))]

    def shuffled(self, cards: Iterable[T]) -> list[T]:
        """Return all cards in random order."""
        cards = list(cards)
        return [cards[int(number)] for number in self.rng.permutation(len(cards))]

    def draw_integer(self, low: int, high: int) -> int:
        """Return a random integer from `low` to `high`."""
        return int(self.rng.integers(low, high, endpoint=True))


@dataclass(frozen=True)
class Control:
    """A control parameter: the levels in the paper, and the range in which other numbers are valid;
    a string must be one of the levels."""

    name: str
    levels: tuple[Level, ...]
    low: float = -math.inf
    high: float = math.inf
    is_integer: bool = False

    def find_fault(self, value: object) -> str:
        """Return why a level is invalid, or "" if it is valid."""
        if isinstance(self.levels[0], str):
            fits, wanted = value in self.levels, f"one of {', '.join(map(str, self.levels))}"
        else:
            sort = int if self.is_integer else (int, float)
            is_within = isinstance(value, sort) and self.low <= value <= self.high
            fits = is_within and not isinstance(value, bool)
            kind = "a whole number" if self.is_integer else "a number"
            wanted = f"{kind} in {self.low:g}..{self.high:g}"
        return "" if fits else f"{self.name} must be {wanted}, found {value!r}"


IntegerControl = partial(Control, is_integer=True)
"""A control parameter of whole numbers."""
Controls = tuple[Control, ...]


KindAndControls = tuple[str, Controls]
"""The name of a kind of question, and its controls."""


class SweptTask(GeneratedTask):
    """A generated task that deals levels of control parameters to its questions.

    In every block of as many questions as there are combinations of levels, each combination occurs
    once.
    """

    seed: int
    controls: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Raise TaskError if `n` is below 1, and for invalid controls."""
        require_positive(self.n)
        _ = self.levels

    @property
    @abstractmethod
    def _kind_and_controls(self) -> KindAndControls:
        """The name of this task's kind of question, and the controls of that kind."""

    @cached_property
    def levels(self) -> dict[str, tuple[Level, ...]]:
        """The levels of every control: one or several levels from `controls`, otherwise the default
        levels.

        Raises TaskError for unknown controls and invalid levels.
        """
        name, controls = self._kind_and_controls
        by_name = {control.name: control for control in controls}
        for unknown in self.controls:
            if unknown not in by_name:
                hint = suggest_name(unknown, by_name)
                raise TaskError(
                    f"{name} has no control {unknown!r}{hint} Its controls: {', '.join(by_name)}"
                )
        levels, faults = {}, []
        for control in controls:
            given = self.controls.get(control.name, control.levels)
            levels[control.name] = tuple(given) if isinstance(given, list | tuple) else (given,)
            faults += [control.find_fault(level) for level in levels[control.name]]
            faults += [] if levels[control.name] else [f"{control.name} has no levels"]
        if any(faults):
            raise TaskError("controls: " + "; ".join(filter(None, faults)))
        return levels

    @cached_property
    def _combinations(self) -> list[tuple[Level, ...]]:
        return list(product(*self.levels.values()))

    def _plan(self, number: int) -> dict[str, Level]:
        """Return the levels of question `number`."""
        levels = deal_evenly(
            number, self._combinations, "levels", self._kind_and_controls[0], self.seed
        )
        return dict(zip(self.levels, levels, strict=True))

    def _deal(self, number: int, cards: Sequence[Any]) -> Any:
        """Return the value dealt to question `number`, independently of its levels."""
        return deal_evenly(number, cards, "answer", self._kind_and_controls[0], self.seed)

    def _get_known_fields(self, number: int) -> Fields:
        return self._plan(number)

    def _id(self, number: int) -> str:
        return f"{self._kind_and_controls[0]}_{number:05}"
