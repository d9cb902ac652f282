"""A person at the terminal, who is asked as a model is."""

from __future__ import annotations

import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from looktwice.pipelines.model import CallOptions, Message, Messages, ModelError, Reply


@dataclass(frozen=True)
class Person:
    """Shows each question to the person `name` on the terminal and takes a typed line as the reply.

    Pictures are written into a temporary folder, whose files are named beside the words. One
    question is shown at a time, whatever the number of workers. An empty line gives no reply: that
    question is asked again by a later command. Only the name tells people apart, so give each their
    own. Raises ModelError.
    """

    name: str
    shown: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    types: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError(
                "a person has a name, by which answers are told apart; give `name: anna`"
            )

    @property
    def identity(self) -> str:
        """The name."""
        return f"person: {self.name}"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """The line that is typed. Raises ModelError for an empty one, and where there is no
        terminal any more."""
        with self.lock:
            sys.stdout.write(
                "\n"
                + "\n".join(line for message in messages for line in self._lines(message))
                + "\n> "
            )
            sys.stdout.flush()
            typed = sys.stdin.readline()
        if not typed.strip():
            raise ModelError(f"{self.name} gave no reply; the same command asks again")
        return Reply(typed.strip(), served_by={"engine": "person", "name": self.name})

    def _lines(self, message: Message) -> list[str]:
        return [
            part if isinstance(part, str) else f"[picture: {self._write(part.picture)}]"
            for part in message.parts
        ]

    def _write(self, picture: Any) -> Path:
        if not self.shown:
            self.shown.append(tempfile.mkdtemp(prefix="looktwice-"))
        payload = picture.payload
        path = Path(self.shown[0]) / f"{len(self.shown)}.{payload.media_type.rpartition('/')[2]}"
        self.shown.append(path.name)
        path.write_bytes(payload.data)
        return path
