"""A model whose replies come from a string, a list or a function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from looktwice.pipelines.config.spec import get_function_name
from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply
from looktwice.pipelines.picture import Picture

MAX_KEPT_CALLS = 16  # calls whose messages a scripted model keeps
MAX_KEPT_BYTES = 4 << 20  # and the bytes of their pictures in all


@dataclass(frozen=True)
class Scripted:
    """Answers every call with `answer`: a string, the next entry of a list, or the result of a
    function of the messages.

    Entries and results are strings or Replies. An exhausted list raises ModelError. `asked` holds
    the messages of the last call and of up to 15 before it, as long as their pictures occupy at
    most 4 MiB, because those of a whole run could fill the memory.
    """

    answer: str | Sequence[str | Reply] | Callable[[Messages], str | Reply] = "(A)"
    asked: list[Messages] = field(default_factory=list, init=False, repr=False, compare=False)
    call_numbers: Iterator[int] = field(
        default_factory=count, init=False, repr=False, compare=False
    )
    lock: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    @property
    def identity(self) -> str:
        """The script itself if it is data, else the function's name and code."""
        data = isinstance(self.answer, str | list | tuple)
        return f"scripted: {repr(self.answer) if data else get_function_name(self.answer)}"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the next answer, and record the call in `asked`."""
        with self.lock:
            number = next(self.call_numbers)
            self._keep(messages)
        if callable(self.answer):
            reply = self.answer(messages)
        elif isinstance(self.answer, str):
            reply = self.answer
        elif number < len(self.answer):
            reply = self.answer[number]
        else:
            raise ModelError(
                f"the script has {len(self.answer)} answers and was asked once more; add one"
            )
        return reply if isinstance(reply, Reply) else Reply(reply)

    def _keep(self, messages: Messages) -> None:
        """Append the messages of a call to `asked`; drop the oldest beyond the limits."""
        self.asked.append(messages)
        pictures: set[Picture] = set()
        size = 0
        for kept, call in enumerate(reversed(self.asked)):
            added = {view.picture for message in call for view in message.views} - pictures
            pictures |= added
            size += sum(picture.held_bytes for picture in added)
            if kept == MAX_KEPT_CALLS or (kept and size > MAX_KEPT_BYTES):
                del self.asked[:-kept]
                break
