"""The state of one agent run on one sample: its conversation, the images shown, what it has used
up, and its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from looktwice.pipelines.model import Message, Reply
from looktwice.pipelines.state import State, remark
from looktwice.pipelines.view import View
from looktwice.prompting.agent.call_formats import Parts
from looktwice.prompting.agent.record import EpisodeEnd, Look
from looktwice.prompting.coordinates import ShownImage

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
        if self.steps < 0 or self.images < 0 or self.calls < 1:
            raise ValueError(
                f"steps and images are 0 or more and calls is 1 or more, found {self.steps},"
                f" {self.images} and {self.calls}"
            )
        if not (self.megapixels > 0 and self.tokens > 0 and self.seconds > 0):
            raise ValueError(
                f"megapixels, tokens and seconds are more than 0, found {self.megapixels},"
                f" {self.tokens} and {self.seconds}"
            )


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
        whole = (*self.turns, *turns)
        return self.replace(
            turns=tuple(_hide_images(turn, hidden) for turn in whole) if hidden else whole
        )

    def image_parts(self, number: int, frame: str) -> Parts:
        """An image after a line with its number and, if coordinates are in pixels, its size."""
        sent = self.shown[number - 1].sent
        size = f" ({sent.size[0]} x {sent.size[1]} pixels)" if frame == "pixels" else ""
        return f"Image {number}{size}:", sent


def _hide_images(turn: Message, hidden: set[int]) -> Message:
    parts: Sequence[str | View] = [
        IMAGE_WITHDRAWN if id(part) in hidden else part for part in turn.parts
    ]
    return replace(turn, parts=tuple(parts)) if tuple(parts) != turn.parts else turn


def _megapixels(view: View) -> float:
    return view.size[0] * view.size[1] / 1e6
