"""How earlier turns of a conversation are sent again: with or without their images, thoughts and endless words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from looktwice.pipelines.model import Message, strip_thoughts
from looktwice.pipelines.view import View

IMAGE_OMITTED = "[an image was shown here]"
NO_REPLY = "[no reply]"


@dataclass(frozen=True)
class History:
    """What of the earlier turns is sent with a new one. The state and the record keep the turns as they were.

    `images`: "all" sends every image again, "latest" those of the newest turn that has any (the new one included),
    "none" those of the new turn alone; in place of the others, those of few-shot examples included, it says that an
    image was shown. `thoughts` are what a
    reply says in <think> and the like: "drop" sends the rest alone, as reasoning models expect it; reasoning that the
    server kept apart is never sent. Of a reply longer than `longest` characters, as of one that repeats itself
    without end, the beginning is sent.
    """

    images: Literal["all", "latest", "none"] = "all"
    thoughts: Literal["drop", "keep"] = "drop"
    longest: int = 20_000

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise ValueError(f"longest is 1 or more characters, found {self.longest}")

    def __call__(self, messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
        """The messages as they are sent, and a note for each reply that was cut.

        A turn is what stands between two replies; the newest is sent as it is.
        """
        said = [message for message in messages if message.role == "assistant"]
        notes = [note for message in said for note in self._cut(self._words(message))[1]]
        turns = list(accumulate((message.role == "assistant" for message in messages), initial=0))[:-1]
        seen = {turns[-1]} if messages else set()
        if self.images == "latest":
            seen = {max((turn for turn, message in zip(turns, messages, strict=True) if message.views), default=0)}
        sent = [
            message if self.images == "all" or turn in seen else _without_images(message)
            for turn, message in zip(turns, messages, strict=True)
        ]
        return tuple(map(self._spoken, sent)), tuple(notes)

    def _spoken(self, message: Message) -> Message:
        if message.role != "assistant":
            return message
        text = self._cut(self._words(message))[0]
        if not text.strip() and not message.tool_calls:
            text = NO_REPLY  # several servers refuse an empty turn
        return message if text == message.text else replace(message, parts=(text,))

    def _words(self, message: Message) -> str:
        return strip_thoughts(message.text) if self.thoughts == "drop" else message.text

    def _cut(self, text: str) -> tuple[str, list[str]]:
        if len(text) <= self.longest:
            return text, []
        note = f"of an earlier reply of {len(text)} characters the first {self.longest} were sent on"
        return text[: self.longest] + " [...]", [note]


def _without_images(message: Message) -> Message:
    if not message.views:
        return message
    return replace(message, parts=tuple(IMAGE_OMITTED if isinstance(part, View) else part for part in message.parts))
