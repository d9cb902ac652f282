"""A model that never decodes an image: it calls tools like any other, and answers from the words of
the question."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from string import ascii_uppercase

from looktwice.pipelines.config.spec import settings
from looktwice.pipelines.model import CallOptions, Messages, Reply, ToolCall, Usage, canonical

BETWEEN = re.compile(r"between ([A-Z]) and [A-Z] in the alphabet")
OTHERS = re.compile(r"Of the (\d+), (\d+) are not")
CHOICE = re.compile(r"^\(([A-Z])\)", re.M)


@dataclass(frozen=True)
class NeverLooks:
    """Answers questions of `LettersAndShapes` without their images, to test what finds such models
    out.

    Hints in the words, which its task plants with `leak`, give it the answer; else it guesses,
    differently for every question and draw. Where tools are offered it calls `tool` once, for the
    whole image. If it is `careless` it takes the hints in only after a call: tool use then raises
    its accuracy, and no pixel does. It counts a token for every four characters.
    """

    careless: bool = False
    tool: str = "zoom"

    @property
    def identity(self) -> str:
        """Its settings."""
        return canonical(settings(self))

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """A call of the tool, or the answer."""
        called = any(message.tool_calls for message in messages)
        usage = Usage(sum(len(message.text) for message in messages) // 4, 8)
        if not called and any(tool.name == self.tool for tool in options.tools or ()):
            whole = json.dumps({"image": 1, "box": [0, 0, 99, 99]})
            call = ToolCall(f"call_{len(messages)}", self.tool, whole)
            return Reply("Let me look.", "tool", tool_calls=(call,), usage=usage)
        words = next((message.text for message in messages if message.role == "user"), "")
        return Reply(
            f"ANSWER: {self._answer(words, draw, called or not self.careless)}", usage=usage
        )

    def _answer(self, words: str, draw: int, careful: bool) -> str:
        if careful and (found := BETWEEN.search(words)):
            return ascii_uppercase[(ascii_uppercase.index(found[1]) + 1) % 26]
        if careful and (found := OTHERS.search(words)):
            return str(int(found[1]) - int(found[2]))
        kinds: list[str] = CHOICE.findall(words) or (
            [*"12345"] if "How many" in words else [*ascii_uppercase]
        )
        number = int.from_bytes(hashlib.sha256(f"{draw}\n{words}".encode()).digest()[:4], "big")
        return kinds[number % len(kinds)]
