"""Models without a network: replies from a file of recorded ones, from a list, or from a
function."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looktwice.pipelines.config.spec import function_name
from looktwice.pipelines.disk import unpacked_lines
from looktwice.pipelines.json_input import read_json_lines
from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply, canonical


@dataclass(frozen=True)
class Recording:
    """A file of replies in memory: sample id -> (line number, what stands in the text field), and
    its sha256."""

    sha: str
    replies: Mapping[str, tuple[int, Any]]


@dataclass(frozen=True)
class Replay:
    """Answers every sample with the one reply that a JSONL file (plain or .gz) holds under its id.

    `path` is the file. Each line is an object with `id_field` and `text_field`. The file is read
    once, when first needed. Errors are ModelErrors that name file and line. The reply is the same
    at every call of a sample, whatever is asked.
    """

    path: Path
    id_field: str = "idx"
    text_field: str = "reply"
    loaded: list[Recording] = field(default_factory=list, init=False, repr=False, compare=False)
    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    @property
    def identity(self) -> str:
        """The file's name, fields and content, not its folder. Raises ModelError."""
        name = Path(self.path).name
        return canonical(
            {
                "replay": name,
                "sha256": self.recording.sha,
                "fields": [self.id_field, self.text_field],
            }
        )

    @property
    def recording(self) -> Recording:
        """What the file holds. Raises ModelError for a file that cannot be read, and for two lines
        of one id."""
        with self.lock:
            if not self.loaded:
                self.loaded.append(_load(Path(self.path), self.id_field, self.text_field))
            return self.loaded[0]

    def of(self, sample: str) -> Recorded:
        """The model of one sample."""
        return Recorded(self, sample)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Raises ModelError: without a sample there is nothing to look up."""
        raise ModelError(
            f"{self.path}: recorded replies go by sample; call `replay.of(sample_id)(messages)`"
        )


@dataclass(frozen=True)
class Recorded:
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
        """The recorded text. Raises ModelError where there is none, and for any draw but the
        first."""
        path, name = self.replay.path, self.replay.text_field
        if draw:
            raise ModelError(
                f"{path} holds one reply a sample, and draw {draw} was asked for; set `draws: 1`"
            )
        recorded = self.replay.recording.replies.get(self.sample)
        if recorded is None:
            raise ModelError(f"{path} holds no reply to sample {self.sample!r}; {self._near()}")
        line, text = recorded
        if not isinstance(text, str):
            raise ModelError(
                f"{path} line {line}: {name!r} of sample {self.sample!r} is {text!r}, not a text"
            )
        return Reply(text, served_by={"engine": "recorded", "file": Path(path).name})

    def _near(self) -> str:
        ids = self.replay.recording.replies
        example = next(iter(ids), None)
        return f"its {len(ids)} ids look like {example!r}" if ids else "the file is empty"


def _load(path: Path, id_field: str, text_field: str) -> Recording:
    digest = hashlib.sha256()
    try:
        rows = list(read_json_lines(path))
        for line in unpacked_lines(path):
            digest.update(line)
    except (OSError, ValueError) as exc:
        raise ModelError(str(exc)) from exc
    replies: dict[str, tuple[int, Any]] = {}
    for number, row in rows:
        missing = [name for name in (id_field, text_field) if name not in row]
        if missing:
            raise ModelError(
                f"{path} line {number} has no field {missing[0]!r}; it has {sorted(row)}"
            )
        identifier = str(row[id_field])
        if identifier in replies:
            raise ModelError(
                f"{path}: sample {identifier!r} stands on line {replies[identifier][0]} and on"
                f" {number}"
            )
        replies[identifier] = (number, row[text_field])
    return Recording(digest.hexdigest(), replies)


@dataclass(frozen=True)
class Scripted:
    """Answers every call with `answer`: a text, a list of texts in turn, or a function of the
    messages.

    A function may give a text or a whole Reply. A list that is used up raises ModelError.
    """

    answer: str | Sequence[str | Reply] | Callable[[Messages], str | Reply] = "(A)"
    asked: list[Messages] = field(default_factory=list, init=False, repr=False, compare=False)
    lock: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    @property
    def identity(self) -> str:
        """The script itself where it is data, else the function's name and code."""
        data = isinstance(self.answer, str | list | tuple)
        return f"scripted: {repr(self.answer) if data else function_name(self.answer)}"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """The next answer; every call is kept in `asked`."""
        with self.lock:
            number = len(self.asked)
            self.asked.append(messages)
        reply = self._said(number, messages)
        return reply if isinstance(reply, Reply) else Reply(reply)

    def _said(self, number: int, messages: Messages) -> str | Reply:
        if isinstance(self.answer, str):
            return self.answer
        if callable(self.answer):
            return self.answer(messages)
        if number >= len(self.answer):
            raise ModelError(
                f"the script has {len(self.answer)} answers and was asked once more; add one"
            )
        return self.answer[number]
