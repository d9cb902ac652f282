"""What of the earlier turns is sent again: with or without images and <think> parts, and how much of long replies."""

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
    """What of the earlier turns is sent with a new one. The state and the record keep the turns unchanged.

    `images` "all" sends every image again, "latest" those of the newest turn that has any (the new one included),
    "none" only those of the new turn; a short text replaces the others, also in few-shot examples. `thoughts` are the
    parts of a reply in <think> and similar tags: "drop" leaves them out, as reasoning models expect; reasoning that
    the server returned separately is never sent. Replies are cut after `longest` characters, in case one repeats
    itself without end.
    """

    images: Literal["all", "latest", "none"] = "all"
    thoughts: Literal["drop", "keep"] = "drop"
    longest: int = 20_000

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise ValueError(f"longest is 1 or more characters, found {self.longest}")

    def __call__(self, messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
        """The messages as they are sent, and a note for each reply that was cut.

        A turn is all messages between two replies; the newest turn is always sent unchanged.
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
