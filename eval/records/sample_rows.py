"""A line of samples.jsonl: a sample of a run by its words and hashes, with its key."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from looktwice.eval.records.checked import SAMPLE, RunError, parse_line
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.model import canonical
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.runtime.stores import SHA256, Blobs
from looktwice.pipelines.sample import Sample

__all__: list[str] = []


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A line of samples.jsonl: a sample's words, marks and hashes, and its key and truth, which
    scoring alone reads."""

    task: str
    sha: str
    answer: str | None
    sample: Mapping[str, Any]
    truth: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The sample's id within its task."""
        return str(self.sample["id"])

    @property
    def meta(self) -> Mapping[str, Any]:
        """The sample's meta fields, for slices and groups."""
        return self.sample["meta"]  # type: ignore[no-any-return]

    @property
    def n_choices(self) -> int:
        """How many choices it has, 0 where it is an open question."""
        return len(self.sample["choices"])

    @property
    def shared(self) -> str:
        """What it has in common with other samples, which makes them dependent: its group, else its
        pictures."""
        return _shared(self.sample)

    def without_pixels(self, blobs: Blobs, asked: Sequence[Any] | None = None) -> Sample:
        """The sample as a reader sees it: images are there by hash, and readable only where they
        were kept.

        `asked` are the choices as a record holds them, where a stage changed them.
        """
        data = self.sample
        said = data["choices"] if asked is None else asked
        choices = tuple(
            [c if isinstance(c, str) else stored_picture(blobs, c["picture"]) for c in said]
        )
        try:
            marks = tuple([mark_from_dict(mark) for mark in data["marks"]])
        except (ValueError, TypeError, OverflowError) as exc:
            raise RunError(
                f"samples.jsonl, sample {self.id}: {exc}; delete its line and run again"
            ) from exc
        images = tuple([stored_picture(blobs, sha) for sha in data["images"]])
        return Sample(self.id, data["question"], images, choices, marks, data["meta"])

    def to_line(self) -> bytes:
        """One line of JSON, the way back of which `StoredSampleRow` is."""
        return canonical({name: getattr(self, name) for name in _SAMPLE_FIELDS}).encode() + b"\n"


_SAMPLE_FIELDS = tuple(each.name for each in fields(SampleRow))


class StoredSampleRow(SampleRow):
    """A row of samples.jsonl that keeps its line, and parses it when something of the sample is
    looked at.

    So a hundred thousand of them take a tenth of the memory. Raises ValueError for a line of
    another shape.
    """

    __slots__ = ("_line", "_sha", "id", "n_choices", "shared")
    id: str
    n_choices: int
    shared: str
    _line: bytes
    _sha: bytes | str

    def __init__(self, line: bytes) -> None:
        held = parse_line(line, SAMPLE)
        sample, answer, keep = held["sample"], held["answer"], object.__setattr__
        keep(self, "task", sys.intern(held["task"]))
        keep(
            self,
            "_sha",
            bytes.fromhex(held["sha"]) if SHA256.fullmatch(held["sha"]) else held["sha"],
        )
        keep(
            self, "answer", sys.intern(answer) if answer and len(answer) <= 8 else answer
        )  # such as letters
        keep(self, "id", sample["id"])
        keep(self, "n_choices", len(sample["choices"]))
        keep(self, "shared", _shared(sample))
        keep(self, "_line", line)

    @property
    def sha(self) -> str:
        return (
            self._sha if isinstance(self._sha, str) else self._sha.hex()
        )  # half as large in bytes

    @property
    def sample(self) -> Mapping[str, Any]:
        return _parsed_sample(self._line)["sample"]  # type: ignore[no-any-return]

    @property
    def truth(self) -> Mapping[str, Any]:
        return _parsed_sample(self._line).get("truth") or {}

    def __reduce__(self) -> tuple[type[StoredSampleRow], tuple[bytes]]:
        return StoredSampleRow, (self._line,)


@lru_cache(maxsize=1024)
def _parsed_sample(line: bytes) -> dict[str, Any]:
    return from_json(line)  # type: ignore[no-any-return]


def _shared(sample: Mapping[str, Any]) -> str:
    group = sample["meta"].get("group")
    return f"group {group}" if group not in (None, "") else " ".join(map(str, sample["images"]))


def stored_picture(blobs: Blobs, sha: str) -> Picture:
    """A picture that a run kept, read when its pixels are needed."""

    def fetch() -> bytes:
        try:
            return blobs.get(sha)
        except (OSError, ValueError) as exc:  # it is gone, or what names it is no sha256
            raise PictureError(str(exc)) from exc

    return Picture.lazy(fetch, f"picture {sha[:12]}")
