"""Conversion of a conversation to the form of chat templates, parsing of reply text, and the
processor that does both."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import cv2
import numpy as np

from looktwice.extras.networks.hub import load_from_hub
from looktwice.extras.networks.opening import import_transformers
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import (
    CALLS_AS_TEXT_ADVICE,
    Message,
    Messages,
    ModelError,
    Tool,
    ToolCall,
)
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError

THOUGHT_PATTERN = re.compile(r"\A\s*<think>(.*?)</think>", re.DOTALL)
CALL_PATTERN = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)


@dataclass(frozen=True)
class Chat:
    """A conversation in the form of chat templates: turns as plain values, their pictures in order,
    the tools offered, and the videos in order, each as its frames and times."""

    turns: Sequence[dict[str, Any]]
    images: Sequence[Pixels] = field(default=(), repr=False)
    tools: Sequence[dict[str, Any]] = ()
    videos: Sequence[tuple[Sequence[Pixels], Sequence[float]]] = field(default=(), repr=False)


def build_chat(
    messages: Messages,
    system: str = "",
    tools: Sequence[Tool] | None = None,
    max_pixels: int | None = None,
) -> Chat:
    """Convert messages to a chat, shrinking pictures above `max_pixels` pixels. Raises
    PictureError."""
    if system and "system" not in {message.role for message in messages}:
        messages = [Message("system", (system,)), *messages]
    views = [view for message in messages for view in message.views]
    images = [_shrink_picture(v.picture.pixels, max_pixels) for v in views if not v.picture.frames]
    videos = [
        ([_shrink_picture(pixels, max_pixels) for pixels in v.picture.frames], v.seconds)
        for v in views
        if v.picture.frames
    ]
    offered = [{"type": "function", "function": asdict(tool)} for tool in tools or ()]
    return Chat(list(map(_convert_message, messages)), images, offered, videos)


def _shrink_picture(pixels: Pixels, max_pixels: int | None) -> Pixels:
    height, width = pixels.shape[:2]
    if max_pixels is None or height * width <= max_pixels:
        return pixels
    share = (max_pixels / (height * width)) ** 0.5
    size = max(1, int(width * share)), max(1, int(height * share))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def render_template(processor: Any, chat: Chat) -> str:
    """Render a chat with the processor's chat template. Raises ModelError."""
    template = getattr(processor, "chat_template", None) or getattr(
        processor.tokenizer, "chat_template", None
    )
    if not template:
        raise ModelError("this model has no chat template; use its instruction-tuned variant")
    if chat.tools and "tools" not in str(template):
        raise ModelError(
            f"this model's chat template does not support tools; {CALLS_AS_TEXT_ADVICE}"
        )
    more: dict[str, Any] = {"tools": list(chat.tools)} if chat.tools else {}
    more |= {"add_generation_prompt": True, "tokenize": False, "chat_template": template}
    try:
        return str(processor.apply_chat_template(list(chat.turns), **more))
    except Exception as exc:  # errors of jinja, and of templates themselves
        if type(exc).__module__.partition(".")[0] != "jinja2":
            raise
        raise ModelError(f"the model's chat template refused the conversation: {exc}") from exc


def split_reply(reply: str, offered: bool = True) -> tuple[str, str, tuple[ToolCall, ...]]:
    """Split a reply into (answer, reasoning, tool calls) by its leading `<think>` and its
    `<tool_call>` blocks.

    If no tool was `offered`, tool blocks stay in the text, where an agent that describes its tools
    in the prompt reads them.
    """
    reasoning = ""
    if thought := THOUGHT_PATTERN.match(reply):
        reasoning, reply = thought[1].strip(), reply[thought.end() :].strip()
    calls: list[ToolCall] = []
    for number, block in enumerate(CALL_PATTERN.findall(reply) if offered else ()):
        # anything but {"name": ..., "arguments": {...}} stays in the text
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            node = read_json(block)
            arguments = json.dumps(node.get("arguments", {}))
            calls.append(ToolCall(f"call_{number}", str(node["name"]), arguments))
    return (CALL_PATTERN.sub("", reply).strip() if calls else reply), reasoning, tuple(calls)


def _convert_message(message: Message) -> dict[str, Any]:
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "video" if part.picture.frames else "image"}
        for part in message.parts
    ]
    turn: dict[str, Any] = {"role": message.role, "content": content}
    if thought := message.attached.get("reasoning_content"):
        turn["reasoning_content"] = thought  # the template of a thinking model inserts it
    for call in message.tool_calls:
        arguments: Any = call.arguments
        with suppress(ValueError):
            arguments = read_json(call.arguments)
        function = {"name": call.name, "arguments": arguments}
        turn.setdefault("tool_calls", []).append({"type": "function", "function": function})
    return turn


NO_VIDEO_NOTE = (
    "image processor and tokenizer only: its video processor needs torchvision, so no videos"
)


def open_processor(model: str, revision: str | None) -> tuple[Any, str]:
    """Open the processor; return it with a note about missing features ("" if it is complete).

    Families such as Qwen2.5-VL have a video processor that needs torchvision. Their processor is
    assembled from the image processor (Pillow), the tokenizer and, with torchvision, the video
    processor. Raises WeightsError.
    """
    transformers, fault = import_transformers(), None
    try:
        processor = load_from_hub("AutoProcessor", model, revision, backend="pil")
        if hasattr(processor, "image_processor"):
            return processor, ""
    except WeightsError as exc:
        fault = exc
    config = load_from_hub("AutoConfig", model, revision)
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    name: str | None = PROCESSOR_MAPPING_NAMES.get(config.model_type)
    if name is None:
        raise fault or WeightsError(
            f"{model}: transformers has no processor for the family {config.model_type!r}"
        )
    kind = getattr(transformers, name)
    spare = set(kind.get_attributes()) - {"image_processor", "tokenizer"}
    if others := spare - {"video_processor"}:
        lacking = f"needs {', '.join(sorted(others))}, which requires torchvision"
        raise WeightsError(f"{model}: {name} {lacking}")

    def check_argument(self: Any, name: str, argument: Any) -> Any:
        if argument is None:  # of the video processor, which is left out
            return type(None)
        return kind.check_argument_for_proper_class(self, name, argument)

    loose = type(name, (kind,), {"check_argument_for_proper_class": check_argument})
    images = load_from_hub("AutoImageProcessor", model, revision, backend="pil")
    tokenizer = load_from_hub("AutoTokenizer", model, revision)
    template = getattr(tokenizer, "chat_template", None)
    halves = {"image_processor": images, "tokenizer": tokenizer} | dict.fromkeys(spare)
    with suppress(WeightsError):  # it needs torchvision
        halves |= {name: load_from_hub("AutoVideoProcessor", model, revision) for name in spare}
    note = NO_VIDEO_NOTE if None in halves.values() else ""
    return loose(**halves, chat_template=template), note
