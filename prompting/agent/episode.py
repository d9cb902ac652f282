"""One sample on its way through an agent: what was said, shown and used up so far, and which bound that reaches."""

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
    """What an agent may use up for one sample; the first bound that is reached ends the looking.

    `steps` counts the replies that ask for tools; of one reply the first `calls` are run. `images` and `megapixels`
    are those that looks bring, as they are sent. `tokens` are all that the server counted for the sample, what was
    sent and what came back; a server that counts none is held by the other bounds. `seconds` are those that the
    model's replies took, in a run from the cache as in the one that asked, so that both stop at the same place; a
    bound that a reply oversteps is noticed after it.
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
                f"steps and images are 0 or more and calls is 1 or more, found {self.steps}, {self.images} and "
                f"{self.calls}"
            )
        if not (self.megapixels > 0 and self.tokens > 0 and self.seconds > 0):
            raise ValueError(
                f"megapixels, tokens and seconds are more than 0, found {self.megapixels}, {self.tokens} and "
                f"{self.seconds}"
            )


@dataclass(frozen=True, eq=False)
class Episode:
    """The conversation of one sample; every change gives a new one.

    `first` is the number of the sample's own images, `gone` the numbers of images taken back, `calls` how many calls
    the record holds so far, `done` the images that each call of a tool brought, and `malformed` how many replies in a
    row asked for nothing that could be run. `answer` is what a tool gave as the final one, and `full` the bound for
    which an image was not shown.
    """

    state: State
    turns: tuple[Message, ...]
    shown: tuple[ShownImage, ...]
    first: int
    calls: int
    gone: frozenset[int] = frozenset()
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

    def with_(self, **changes: Any) -> Episode:
        """A copy with other fields."""
        return replace(self, **changes)

    @property
    def views(self) -> State:
        """The state as a tool finds it: every image so far, at its full size."""
        return self.state.replace(views=tuple(shown.view for shown in self.shown))

    @property
    def megapixels(self) -> float:
        """Of the images that looks brought, as they were sent."""
        return sum(_megapixels(shown.sent) for shown in self.shown[self.first :])

    def over(self, bounds: Bounds) -> str:
        """The bound that is reached, empty where none is."""
        used = self.used("")
        names = ("steps", "images", "megapixels", "tokens", "seconds")
        return next((name for name in names if getattr(used, name) >= getattr(bounds, name)), self.full)

    def held_by(self, sent: View, bounds: Bounds) -> str:
        """The bound that keeps one more image from being shown, empty where none does."""
        if len(self.shown) - self.first >= bounds.images:
            return "images"
        return "megapixels" if self.megapixels + _megapixels(sent) > bounds.megapixels else ""

    def used(self, by: str) -> EpisodeEnd:
        """What was used up, for the record."""
        images = len(self.shown) - self.first
        return EpisodeEnd(by, self.steps, images, round(self.megapixels, 4), self.tokens, round(self.seconds, 3))

    def counted(self, reply: Reply) -> Episode:
        """With what one more reply cost."""
        tokens = reply.usage.tokens_in + reply.usage.tokens_out
        return self.with_(calls=self.calls + 1, tokens=self.tokens + tokens, seconds=self.seconds + reply.seconds)

    def looked(self, look: Look) -> Episode:
        """With one more look, which is remarked at once: the record keeps it where the sample fails after it."""
        remark(look.note)
        return self.with_(looks=(*self.looks, look))

    def told(self, text: str) -> Episode:
        """With these words as the user's, in the user's last turn where that is the last one."""
        last = self.turns[-1]
        if last.role == "user":
            return self.with_(turns=(*self.turns[:-1], replace(last, parts=(*last.parts, text))))
        return self.with_(turns=(*self.turns, Message("user", (text,))))

    def said(self, *turns: Message) -> Episode:
        """With more turns; images that were taken back are named in them and no longer shown."""
        hidden = {id(self.shown[number - 1].sent) for number in self.gone}
        whole = (*self.turns, *turns)
        return self.with_(turns=tuple(_hide_images(turn, hidden) for turn in whole) if hidden else whole)

    def tagged(self, number: int, frame: str) -> Parts:
        """An image behind its number and, where places are told in pixels, its size."""
        sent = self.shown[number - 1].sent
        size = f" ({sent.size[0]} x {sent.size[1]} pixels)" if frame == "pixels" else ""
        return f"Image {number}{size}:", sent


def _hide_images(turn: Message, hidden: set[int]) -> Message:
    parts: Sequence[str | View] = [IMAGE_WITHDRAWN if id(part) in hidden else part for part in turn.parts]
    return replace(turn, parts=tuple(parts)) if tuple(parts) != turn.parts else turn


def _megapixels(view: View) -> float:
    return view.size[0] * view.size[1] / 1e6
