"""Notes in a record about an agent: each of its tool calls, and the reason why it stopped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self

from looktwice.pipelines.json_input import read_json, write_canonical

Outcome = Literal["shown", "said", "answered", "repeated", "failed", "refused", "bound"]
"""The outcome of a tool call: "shown" (new images), "said" (text without images), "answered" (the
final answer), "repeated" (the same call was made before), "failed" (an error in the tool),
"refused" (malformed, not run) or "bound" (a bound was reached before the call was run or its images
were shown)."""


@dataclass(frozen=True)
class _Note:
    """A note in the record: the `word` that identifies its kind, followed by its non-empty fields
    as JSON."""

    word: ClassVar[str]

    @property
    def note(self) -> str:
        """The text of the note in the record."""
        plain = {
            name: value for name, value in asdict(self).items() if value not in (None, "", (), {})
        }
        return f"{self.word} {write_canonical(plain)}"

    @classmethod
    def read(cls, notes: Iterable[str]) -> list[Self]:
        """Return the notes of this class among the notes of a record or state, in order. Notes of
        other stages that begin with the same word are skipped."""
        own, names = [], {setting.name for setting in fields(cls)}
        for note in notes:
            if note.startswith(f"{cls.word} {{"):
                try:
                    data: dict[str, Any] = read_json(note.removeprefix(cls.word))
                    own.append(cls(**{k: _convert_lists(data[k]) for k in names & data.keys()}))
                except (ValueError, TypeError):
                    continue
        return own


def _convert_lists(value: Any) -> Any:
    return tuple(_convert_lists(inner) for inner in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Look(_Note):
    """One tool call of an agent, as a note in the record.

    `number` counts the tool calls of the sample from 1. `call` is the index, from 0, of the model
    call whose reply contained this tool call, and `probe` the index of the preceding model call
    that asked for a preliminary answer. `arguments` are in the coordinate frame of the model.
    `images` are the numbers of the images that the call added. `regions` gives, for each of them,
    the part of a source image that it shows: (number of the source, left, top, right, bottom) in
    the source's pixels, edge coordinates; it is empty for an image that shows the same region as an
    earlier one, such as a rotated copy. `reason` says why there is no image, or notes that the box
    was clipped to its image.
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

    word = "look"

    @property
    def summary(self) -> str:
        """The tool call and its outcome in one readable line."""
        asked = (
            self.arguments if isinstance(self.arguments, str) else write_canonical(self.arguments)
        )
        brought = ", ".join(f"image {number}" for number in self.images)
        result = ": ".join(filter(None, (self.outcome, brought, self.reason)))
        return f"look {self.number}: {self.tool or 'no tool'} {asked} -> {result}"


@dataclass(frozen=True)
class EpisodeEnd(_Note):
    """The reason why an agent stopped, and its usage until then.

    `by` is "reply" (an answer in a reply), "answer" (the tool of that name), "malformed" (too many
    malformed calls), or the bound that was reached: "steps", "images", "megapixels", "tokens" or
    "seconds".
    """

    by: str
    steps: int = 0
    images: int = 0
    megapixels: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    word = "ended"


def read_looks(notes: Iterable[str]) -> list[Look]:
    """Return the looks among the notes of a record or state, in order."""
    return Look.read(notes)


def read_episode_end(notes: Iterable[str]) -> EpisodeEnd | None:
    """Return the last EpisodeEnd among the notes of a record or state."""
    return next(reversed(EpisodeEnd.read(notes)), None)
