"""The looks of an agent as lines of the record: what was asked for, what it showed, and why the looking ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from looktwice.pipelines.model import canonical

Outcome = Literal["shown", "said", "answered", "repeated", "failed", "refused", "bound"]
"""What became of a call. It brought images, or words alone, or the answer; it was made before; the tool could not do
it; it was refused as malformed and never run; or a bound kept it from being run or shown."""

Note = TypeVar("Note", "Look", "EpisodeEnd")


@dataclass(frozen=True)
class Look:
    """One call of a tool, as a note of the record keeps it.

    `number` counts the calls of the sample from 1; `call` is the place, from 0, of the reply that asked for it among
    the record's calls, and `probe` that of the call just before in which the model was asked what it would answer
    now. `arguments` are in the frame that the model speaks. `images` are the numbers of the images that the look
    brought, and `regions` what each of them shows: (number of the source image, left, top, right, bottom) in its
    pixels, edge coordinates; empty for one that shows the same region as an image before, as a turned one does.
    `reason` says why there is no image.
    """

    number: int
    call: int
    tool: str = ""
    outcome: Outcome = "refused"
    arguments: Any = field(default_factory=dict)
    images: tuple[int, ...] = ()
    regions: tuple[tuple[float, ...], ...] = ()
    reason: str = ""
    probe: int | None = None

    @property
    def note(self) -> str:
        """The line in the record."""
        return _write_note("look", self)


@dataclass(frozen=True)
class EpisodeEnd:
    """Why an agent stopped looking.

    `by` is "reply" (an answer in words), "answer" (the tool), "malformed", or the bound that was reached: "steps",
    "images", "megapixels", "tokens" or "seconds". The other fields are what was used up to the last call.
    """

    by: str
    steps: int = 0
    images: int = 0
    megapixels: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def note(self) -> str:
        """The line in the record."""
        return _write_note("ended", self)


def read_looks(notes: Iterable[str]) -> list[Look]:
    """The looks among the notes of a record or state, in order."""
    return [look for note in notes if (look := _read_note("look", Look, note)) is not None]


def read_end(notes: Iterable[str]) -> EpisodeEnd | None:
    """Why the looking ended, by the last note that says so."""
    found = [ended for note in notes if (ended := _read_note("ended", EpisodeEnd, note)) is not None]
    return found[-1] if found else None


def _write_note(word: str, thing: Look | EpisodeEnd) -> str:
    """The word and the fields that say something, as JSON."""
    plain = {name: value for name, value in asdict(thing).items() if value not in (None, "", (), {})}
    return f"{word} {canonical(plain)}"


def _read_note(word: str, kind: type[Note], note: str) -> Note | None:
    """The thing behind a note, or None where the note is another sentence."""
    if not note.startswith(f"{word} {{"):
        return None
    try:
        data: Mapping[str, Any] = json.loads(note.removeprefix(f"{word} "))
    except ValueError:
        return None
    known = {f.name for f in fields(kind)}
    try:
        return kind(**{name: _as_tuples(value) for name, value in data.items() if name in known})
    except TypeError:  # a sentence of somebody else that begins like one of ours
        return None


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(inner) for inner in value) if isinstance(value, list) else value
