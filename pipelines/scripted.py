"""Models without a network: answers from a function or a list, for tests and for trying a pipeline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from looktwice.pipelines.model import Messages, ModelError, Reply, Want
from looktwice.pipelines.spec import function_name

__all__ = ["Scripted"]


@dataclass(frozen=True)
class Scripted:
    """Answers every call with `answer`: a text, a list of texts in turn, or a function of the messages.

    A function may give a text or a whole Reply. A list that is used up raises ModelError.
    """

    answer: str | Sequence[str | Reply] | Callable[[Messages], str | Reply] = "(A)"
    asked: list[Messages] = field(default_factory=list, init=False, repr=False, compare=False)
    lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    @property
    def identity(self) -> str:
        """The script itself where it is data, else the function's name and code."""
        data = isinstance(self.answer, str | list | tuple)
        return f"scripted: {repr(self.answer) if data else function_name(self.answer)}"

    def __call__(self, messages: Messages, draw: int = 0, want: Want = Want()) -> Reply:
        """The next answer; every call is kept in `asked`."""
        with self.lock:
            number = len(self.asked)
            self.asked.append(messages)
        said = self._said(number, messages)
        return said if isinstance(said, Reply) else Reply(said)

    def _said(self, number: int, messages: Messages) -> str | Reply:
        if isinstance(self.answer, str):
            return self.answer
        if callable(self.answer):
            return self.answer(messages)
        if number >= len(self.answer):
            raise ModelError(f"the script has {len(self.answer)} answers and was asked once more; add one")
        return self.answer[number]
