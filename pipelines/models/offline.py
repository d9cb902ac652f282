"""Models without a network: replies from a recorded file, from a list, from a function, or from a
person at the terminal."""

from __future__ import annotations

import hashlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from looktwice.pipelines.config.spec import get_function_name
from looktwice.pipelines.disk import read_unpacked_lines
from looktwice.pipelines.json_input import read_json_lines
from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply, write_canonical

KEPT_CALLS = 16  # calls whose messages a scripted model keeps


class Recording(NamedTuple):
    """The content of a file of replies, sample id -> (line number, value of the text field), and
    its sha256."""

    sha: str
    replies: Mapping[str, tuple[int, Any]]


@dataclass(frozen=True)
class Replay:
    """Answers each sample with the reply that a JSONL file (plain or .gz) holds under its id.

    `path` is the file. Each line is an object with `id_field` and `text_field`. The file is read
    when first needed. Errors are ModelErrors that name file and line. Every call for a sample gets
    the same reply, whatever is asked.
    """

    path: Path
    id_field: str = "idx"
    text_field: str = "reply"

    @property
    def identity(self) -> str:
        """The file's name, fields and content, but not its folder. Raises ModelError."""
        fields = [self.id_field, self.text_field]
        facts = {"replay": Path(self.path).name, "sha256": self.recording.sha, "fields": fields}
        return write_canonical(facts)

    @cached_property
    def recording(self) -> Recording:
        """The content of the file. Raises ModelError if it is unreadable or repeats an id."""
        path, digest = Path(self.path), hashlib.sha256()
        replies: dict[str, tuple[int, Any]] = {}
        try:
            for number, row in read_json_lines(path):
                for name in (self.id_field, self.text_field):
                    if name not in row:
                        raise ModelError(
                            f"{path} line {number} has no field {name!r}; it has {sorted(row)}"
                        )
                identifier = str(row[self.id_field])
                first, _ = replies.setdefault(identifier, (number, row[self.text_field]))
                if first != number:
                    raise ModelError(
                        f"{path}: sample {identifier!r} is on line {first} and on line {number}"
                    )
            for line in read_unpacked_lines(path):
                digest.update(line)
        except (OSError, ValueError) as exc:
            raise ModelError(str(exc)) from exc
        return Recording(digest.hexdigest(), replies)

    def for_sample(self, sample: str) -> RecordedReply:
        """Return the model of one sample."""
        return RecordedReply(self, sample)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Raise ModelError: without a sample there is nothing to look up."""
        raise ModelError(
            f"{self.path}: replies are recorded by sample; call `replay.for_sample(id)(messages)`"
        )


@dataclass(frozen=True)
class RecordedReply:
    """The recorded reply to one sample, as a model."""

    replay: Replay
    sample: str

    @property
    def identity(self) -> str:
        """The identity of the recording."""
        return self.replay.identity

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the recorded text. Raises ModelError if there is none, and for later draws."""
        path, name = self.replay.path, self.replay.text_field
        if draw:
            raise ModelError(
                f"{path} holds one reply per sample, but draw {draw} was requested; set `draws: 1`"
            )
        replies = self.replay.recording.replies
        if self.sample not in replies:
            example = next(iter(replies), None)
            ids = f"its {len(replies)} ids look like {example!r}" if replies else "it is empty"
            raise ModelError(f"{path} has no reply to sample {self.sample!r}; {ids}")
        line, text = replies[self.sample]
        if not isinstance(text, str):
            raise ModelError(
                f"{path} line {line}: {name!r} of sample {self.sample!r} is {text!r}, not a text"
            )
        return Reply(text, served_by={"engine": "recorded", "file": Path(path).name})


@dataclass(frozen=True)
class Scripted:
    """Answers every call with `answer`: a text, a list of texts in turn, or a function of the
    messages.

    A function may return a text or a whole Reply. An exhausted list raises ModelError. `asked`
    holds the messages of the last 16 calls: those of a whole run could fill the memory.
    """

    answer: str | Sequence[str | Reply] | Callable[[Messages], str | Reply] = "(A)"
    asked: list[Messages] = field(default_factory=list, init=False, repr=False, compare=False)
    calls: Iterator[int] = field(default_factory=count, init=False, repr=False, compare=False)
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
            number = next(self.calls)
            self.asked.append(messages)
            del self.asked[:-KEPT_CALLS]
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


@dataclass(frozen=True)
class Person:
    """Shows each question to the person `name` on the terminal and takes a typed line as the reply.

    Pictures are written to a temporary folder, and their file names are shown with the text. One
    question is shown at a time, whatever the number of workers. An empty line gives no reply; a
    later command asks that question again. People are distinguished only by `name`, so give each
    their own. Raises ModelError.
    """

    name: str
    shown: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
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
        if not self.shown:
            self.shown.append(tempfile.mkdtemp(prefix="looktwice-"))
        path = Path(self.shown[0]) / f"{len(self.shown)}.{payload.media_type.rpartition('/')[2]}"
        self.shown.append(path.name)
        path.write_bytes(payload.data)
        return path
