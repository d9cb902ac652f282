"""The state of one agent run on one sample: its conversation, the images shown, what it has used
up, and its bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from statistics import fmean
from typing import Any, Literal, TypeVar

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import Message, Reply, canonical
from looktwice.pipelines.state import State, remark
from looktwice.pipelines.view import View
from looktwice.prompting.agent.call_formats import Parts
from looktwice.prompting.coordinates import ShownImage
from looktwice.prompting.ranges import check_ranges

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
    shares = []
    for image, left, top, right, bottom in filter(
        None, (r for look in looks for r in look.regions)
    ):
        width, height = state.sample.images[int(image)].size
        shares.append((right - left) * (bottom - top) / (width * height))
    state = state.measured("crop_share", fmean(shares)) if shares else state
    return state.measured("turn_call", (*asked.values(), last))


def read_looks(notes: Iterable[str]) -> list[Look]:
    """The looks among the notes of a record or state, in order."""
    return list(filter(None, (_read_note("look", Look, note) for note in notes)))


def read_end(notes: Iterable[str]) -> EpisodeEnd | None:
    """The last EpisodeEnd among the notes of a record or state."""
    read = (_read_note("ended", EpisodeEnd, note) for note in reversed([*notes]))
    return next(filter(None, read), None)


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


IMAGE_WITHDRAWN = "[this image was taken back]"


@dataclass(frozen=True)
class Bounds:
    """What an agent may use up for one sample; the first bound that is reached ends the tool calls.

    `steps` limits the replies that call tools, and `calls` the tool calls that are run of one
    reply. `images` and `megapixels` limit the images that tools add, at the size at which they are
    sent. `tokens` limits all input and output tokens that the server reports for the sample; a
    server that reports none is limited by the other bounds. `seconds` limits the time that the
    model took for its replies; replies from the cache count with their original time, so a repeated
    run stops at the same place. Tokens and seconds are checked after each reply.
    """

    steps: int = 6
    calls: int = 8
    images: int = 12
    megapixels: float = 20.0
    tokens: int = 200_000
    seconds: float = 900.0

    def __post_init__(self) -> None:
        check_ranges(self, "steps, images >= 0", "calls >= 1", "megapixels, tokens, seconds > 0")


@dataclass(frozen=True, eq=False)
class Episode:
    """One agent run on one sample; every change returns a new one.

    `turns` is the conversation, `shown` all images in the order of their numbers, of which the
    first `first` are the sample's own; `withdrawn` are the numbers of images that were taken back.
    `calls` counts the model calls in the record so far, and `probe` is the number of the last one
    that only asked for a preliminary answer. `done` holds the images that each tool call brought.
    `malformed` counts the replies in a row without a valid call. `answer` is the final answer if a
    tool gave it, and `full` the bound because of which an image was not shown.
    """

    state: State
    turns: tuple[Message, ...]
    shown: tuple[ShownImage, ...]
    first: int
    calls: int
    withdrawn: frozenset[int] = frozenset()
    looks: tuple[Look, ...] = ()
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    malformed: int = 0
    done: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    probe: int | None = None
    answer: str | None = None
    full: str = ""

    def replace(self, **changes: Any) -> Episode:
        """A copy with other fields."""
        return replace(self, **changes)

    @property
    def full_size_state(self) -> State:
        """The state that a tool gets: its views are all images so far, at full size."""
        return self.state.replace(views=tuple(shown.view for shown in self.shown))

    @property
    def megapixels(self) -> float:
        """The megapixels of the images that tools added, as they were sent."""
        return sum(_megapixels(shown.sent) for shown in self.shown[self.first :])

    def reached_bound(self, bounds: Bounds) -> str:
        """The name of the bound that is reached; empty while there is none."""
        used = self.summarize("")
        names = ("steps", "images", "megapixels", "tokens", "seconds")
        return next(
            (name for name in names if getattr(used, name) >= getattr(bounds, name)), self.full
        )

    def bound_for(self, sent: View, bounds: Bounds) -> str:
        """The name of the bound that does not allow this image too; empty if it may be shown."""
        if len(self.shown) - self.first >= bounds.images:
            return "images"
        return "megapixels" if self.megapixels + _megapixels(sent) > bounds.megapixels else ""

    def summarize(self, by: str) -> EpisodeEnd:
        """What was used up, for the record."""
        images = len(self.shown) - self.first
        return EpisodeEnd(
            by, self.steps, images, round(self.megapixels, 4), self.tokens, round(self.seconds, 3)
        )

    def add_usage(self, reply: Reply) -> Episode:
        """Count one more reply with its tokens and time."""
        tokens = reply.usage.tokens_in + reply.usage.tokens_out
        return self.replace(
            calls=self.calls + 1, tokens=self.tokens + tokens, seconds=self.seconds + reply.seconds
        )

    def add_look(self, look: Look) -> Episode:
        """Add a look, and remark it at once, so that the record has it even if the sample fails
        later."""
        remark(look.note)
        return self.replace(looks=(*self.looks, look))

    def add_user_text(self, text: str) -> Episode:
        """Add words of the user: to the last turn if that is the user's, else as a new turn."""
        last = self.turns[-1]
        if last.role == "user":
            return self.replace(turns=(*self.turns[:-1], replace(last, parts=(*last.parts, text))))
        return self.replace(turns=(*self.turns, Message("user", (text,))))

    def add_turns(self, *turns: Message) -> Episode:
        """Add turns, and put a text in place of every image that was taken back."""
        hidden = {id(self.shown[number - 1].sent) for number in self.withdrawn}
        whole = [*self.turns, *turns]
        for number, turn in enumerate(whole):
            if not hidden.isdisjoint(map(id, turn.parts)):
                parts = (IMAGE_WITHDRAWN if id(part) in hidden else part for part in turn.parts)
                whole[number] = replace(turn, parts=tuple(parts))
        return self.replace(turns=tuple(whole))

    def image_parts(self, number: int, frame: str) -> Parts:
        """An image after a line with its number and, if coordinates are in pixels, its size."""
        sent = self.shown[number - 1].sent
        size = f" ({sent.size[0]} x {sent.size[1]} pixels)" if frame == "pixels" else ""
        return f"Image {number}{size}:", sent


def _megapixels(view: View) -> float:
    return view.size[0] * view.size[1] / 1e6
