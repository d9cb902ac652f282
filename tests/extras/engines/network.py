"""The network behind both stand-ins: it echoes its inputs, with one token per character."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

THOUGHT_END, THOUGHT_TOKEN, BOS = "</think>", 1_200_000, 1_200_001
IMAGE_TOKENS = 3


class Tokenizer:
    """A token for each character, and one for the end of a thought."""

    chat_template = "{# tools #}"

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return tokens."""
        parts = text.split(THOUGHT_END)
        tokens = [*map(ord, parts[0])]
        for part in parts[1:]:
            tokens += [THOUGHT_TOKEN, *map(ord, part)]
        return [BOS, *tokens] if add_special_tokens else tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return text."""
        return "".join(THOUGHT_END if n == THOUGHT_TOKEN else chr(n) for n in tokens)

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        chat_template: str | None = None,
        **variables: Any,
    ) -> str:
        """Render turns, each part in its place."""
        assert chat_template == self.chat_template and not tokenize
        rows = [f"[{tool['function']['name']}]" for tool in tools or ()]
        rows += [f"[{name}={value}]" for name, value in variables.items()]
        for turn in conversation:
            said = "".join(map(show_part, turn["content"]))
            thought = turn.get("reasoning") or turn.get("reasoning_content")
            calls = [call["function"]["name"] for call in turn.get("tool_calls", ())]
            rows.append(f"{turn['role']}: {thought or ''}{said}{''.join(calls)}")
        return "\n".join([*rows, "assistant: "] if add_generation_prompt else rows)


def show_part(part: str | Mapping[str, Any]) -> str:
    """Return a part of a message's content as text of the prompt."""
    if isinstance(part, str):
        return part
    kind = part["type"].partition("_")[0]
    return part["text"] if kind == "text" else f"<{kind}>"


@dataclass(frozen=True, eq=False)
class Seen:
    """The inputs of one request."""

    prompt: str
    images: Sequence[NDArray[np.uint8]]
    sampling: Any
    videos: Sequence[str] = ()


def name_pictures(seen: Seen) -> str:
    """Reply with the first letters of the digest of each picture."""
    return " ".join(hashlib.sha256(image.tobytes()).hexdigest()[:8] for image in seen.images)


@dataclass
class Network:
    """Settings of the stand-ins, and the requests they got; a fixture makes a new one for each
    test."""

    reply: Callable[[Seen], str] = name_pictures
    has_gpu: bool = True
    sees: bool = True
    context: int = 2000
    opening_fault: BaseException | None = None
    dies_of: BaseException | None = None
    reason: str = ""  # instead of the true reason for the end
    seen: list[Seen] = field(default_factory=list)
    arguments: list[Mapping[str, Any]] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    over: list[Seen] = field(default_factory=list)
    most: int = 0
    closed: int = 0
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def open(self, arguments: Mapping[str, Any]) -> None:
        """Store the arguments of an engine. Raises the error that a test has set."""
        self.arguments.append(arguments)
        if self.opening_fault is not None:
            raise self.opening_fault

    def begin(self, seen: Seen) -> str:
        """Return the whole reply to a request, which runs from now on."""
        self.seen.append(seen)
        self.running.add(id(seen))
        self.most = max(self.most, len(self.running))
        return self.reply(seen)

    def end(self, seen: Seen) -> None:
        """Count a request as finished."""
        self.running.discard(id(seen))
        self.over.append(seen)


NETWORK = Network()


def use_network(network: Network) -> None:
    """Let the stand-ins use another network."""
    vars(NETWORK).clear()
    vars(NETWORK).update(vars(network))


def read_pixels(image: Any) -> NDArray[np.uint8]:
    """Return the pixels of a Pillow image, which both engines take as they are."""
    assert isinstance(image, Image.Image), f"pictures must be handed over as pixels: {image!r:.40}"
    assert image.mode == "RGB"
    return np.asarray(image)


def cut(whole: str, stops: Sequence[str], most: int) -> tuple[str, str, int]:
    """Return the text of a reply, the reason for its end, and the number of its tokens; a text of
    `stops` is left out of the text, and counts as generated."""
    tokens = Tokenizer().encode(whole, add_special_tokens=False)
    text, reason = Tokenizer().decode(tokens[:most]), "length" if len(tokens) > most else "stop"
    found = [text.index(stop) + len(stop) for stop in stops if stop in text]
    if found:
        ended = next(stop for stop in stops if text[: min(found)].endswith(stop))
        kept = text[: min(found)]
        return kept[: -len(ended)], "stop", min(found)
    return text, reason, min(len(tokens), most)
