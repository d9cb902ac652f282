"""Models whose replies come from a file of recorded replies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from looktwice.pipelines.disk import read_unpacked_lines
from looktwice.pipelines.json_input import read_json_lines, write_canonical
from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply


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
                f"{path} line {line}: {name!r} of sample {self.sample!r} is {text!r}, not a string"
            )
        return Reply(text, served_by={"engine": "recorded", "file": Path(path).name})
