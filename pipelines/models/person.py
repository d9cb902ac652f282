"""A model whose replies a person types at the terminal."""

from __future__ import annotations

import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply


@dataclass(frozen=True)
class Person:
    """Shows each question to the person `name` on the terminal and takes a typed line as the reply.

    Pictures are written to a temporary folder, and their file names are shown with the text. One
    question is shown at a time, whatever the number of workers. An empty line gives no reply; a
    later command asks that question again. People are distinguished only by `name`, so give each
    person a different one. Raises ModelError.
    """

    name: str
    shown_files: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    interactive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError(
                "a person needs a name, which identifies their answers; write `name: anna`, for"
                " example"
            )

    @property
    def identity(self) -> str:
        """The person's name, with a prefix."""
        return f"person: {self.name}"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the typed line. Raises ModelError for an empty line or a closed terminal."""
        lines = [""]
        with self.lock:
            for part in (part for message in messages for part in message.parts):
                if isinstance(part, str):
                    lines.append(part)
                else:
                    lines.append(f"[picture: {self._write(part.picture.payload)}]")
            sys.stdout.write("\n".join([*lines, "> "]))
            sys.stdout.flush()
            typed = sys.stdin.readline().strip()
        if not typed:
            raise ModelError(f"{self.name} gave no reply; the same command asks again")
        return Reply(typed, served_by={"engine": "person", "name": self.name})

    def _write(self, payload: Any) -> Path:
        if not self.shown_files:
            self.shown_files.append(tempfile.mkdtemp(prefix="looktwice-"))
        path = (
            Path(self.shown_files[0])
            / f"{len(self.shown_files)}.{payload.media_type.rpartition('/')[2]}"
        )
        self.shown_files.append(path.name)
        path.write_bytes(payload.data)
        return path
