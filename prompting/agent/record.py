"""What an agent did, as notes of the record: one `Look` per tool call, and an `EpisodeEnd` that
says why it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean
from typing import Any, Literal, TypeVar

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import canonical
from looktwice.pipelines.state import State

Outcome = Literal["shown", "said", "answered", "repeated", "failed", "refused", "bound"]
"""What became of a tool call: it "shown" new images; "said" something without one; gave the final
answer ("answered"); was "repeated", as it had been made before; "failed" in the tool; was "refused"
as malformed and not run; or reached a "bound" before it was run or its images were shown."""

Note = TypeVar("Note", "Look", "EpisodeEnd")


@dataclass(frozen=True)
class Look:
    """One tool call of an agent, as a note in the record.

    `number` counts the tool calls of the sample from 1. `call` is the index, from 0, of the model
    call whose reply contained this tool call, and `probe` that of the model call before it that
    asked for a preliminary answer. `arguments` are in the coordinate frame of the model. `images`
    are the numbers of the images that the call added, and `regions` what each of them shows of a
    source image: (number of the source, left, top, right, bottom) in its pixels, edge coordinates;
    empty for an image that shows the same region as an earlier one, such as a rotated copy.
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

    @property
    def words(self) -> str:
        """The look in one line, for people."""
        asked = self.arguments if isinstance(self.arguments, str) else canonical(self.arguments)
        brought = ", ".join(f"image {number}" for number in self.images)
        return f"look {self.number}: {self.tool or 'no tool'} {asked} -> " + ": ".join(
            part for part in (self.outcome, brought, self.reason) if part
        )


@dataclass(frozen=True)
class EpisodeEnd:
    """Why an agent stopped, and what it had used up by then.

    `by` is "reply" (an answer in words), "answer" (the tool of that name), "malformed" (too many
    malformed calls), or the bound that was reached: "steps", "images", "megapixels", "tokens" or
    "seconds".
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


def measure_looks(state: State, looks: Sequence[Look], last: int) -> State:
    """The state with how many looks were run, which share of an image they showed, and the call
    that ended each turn.

    `last` is the call of the final answer.
    """
    asked = {
        look.call: look.call if look.probe is None else look.probe
        for look in looks
        if look.outcome != "answered"
    }
    state = state.measured("looks", sum(look.outcome != "refused" for look in looks))
    shares = [_share(state, *region) for look in looks for region in look.regions if region]
    state = state.measured("crop_share", fmean(shares)) if shares else state
    return state.measured("turn_call", (*asked.values(), last))


def _share(
    state: State, image: float, left: float, top: float, right: float, bottom: float
) -> float:
    width, height = state.sample.images[int(image)].size
    return (right - left) * (bottom - top) / (width * height)


def read_looks(notes: Iterable[str]) -> list[Look]:
    """The looks among the notes of a record or state, in order."""
    return [look for note in notes if (look := _read_note("look", Look, note)) is not None]


def read_end(notes: Iterable[str]) -> EpisodeEnd | None:
    """The last EpisodeEnd among the notes of a record or state."""
    found = [
        ended for note in notes if (ended := _read_note("ended", EpisodeEnd, note)) is not None
    ]
    return found[-1] if found else None


def _write_note(word: str, thing: Look | EpisodeEnd) -> str:
    """The word and the fields that are not empty, as JSON."""
    plain = {
        name: value for name, value in asdict(thing).items() if value not in (None, "", (), {})
    }
    return f"{word} {canonical(plain)}"


def _read_note(word: str, kind: type[Note], note: str) -> Note | None:
    """The object that a note holds, or None for any other note."""
    if not note.startswith(f"{word} {{"):
        return None
    try:
        data: Mapping[str, Any] = read_json(note.removeprefix(f"{word} "))
    except ValueError:
        return None
    known = {f.name for f in fields(kind)}
    try:
        return kind(**{name: _as_tuples(value) for name, value in data.items() if name in known})
    except TypeError:  # another stage wrote a note that begins like ours
        return None


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(inner) for inner in value) if isinstance(value, list) else value
