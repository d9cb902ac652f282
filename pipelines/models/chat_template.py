"""A conversation as chat templates take it, a reply's text taken apart again, and the processor
that does both."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import Message, Messages, ModelError, Tool, ToolCall
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.hub import from_hub
from looktwice.pipelines.runtime.networks import WeightsError, import_transformers

THOUGHT = re.compile(r"\A\s*<think>(.*?)</think>", re.DOTALL)
CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)


@dataclass(frozen=True)
class Chat:
    """Turns as plain values, the pictures among them in their order, and the tools on offer."""

    turns: Sequence[dict[str, Any]]
    images: Sequence[Pixels] = field(default=(), repr=False)
    tools: Sequence[dict[str, Any]] = ()


def chat_of(
    messages: Messages,
    system: str = "",
    tools: Sequence[Tool] | None = None,
    most: int | None = None,
) -> Chat:
    """The chat of some messages; pictures of more than `most` pixels are shrunk. Raises
    PictureError."""
    opening = (
        [Message("system", (system,))]
        if system and not any(m.role == "system" for m in messages)
        else []
    )
    turns = [_turn(message) for message in (*opening, *messages)]
    images = [_shrunk(view.picture.pixels, most) for message in messages for view in message.views]
    offered = [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
        }
        for t in tools or ()
    ]
    return Chat(turns, images, offered)


def render_template(processor: Any, chat: Chat) -> str:
    """The text that the processor's chat template makes of a chat. Raises ModelError."""
    template = getattr(processor, "chat_template", None) or getattr(
        processor.tokenizer, "chat_template", None
    )
    if not template:
        raise ModelError("this model has no chat template; take its instruction-tuned variant")
    if chat.tools and "tools" not in str(template):
        raise ModelError(
            "this model's chat template knows no tools; let the agent write its calls as text"
        )
    more = {"tools": list(chat.tools)} if chat.tools else {}
    try:
        text: str = processor.apply_chat_template(
            list(chat.turns),
            add_generation_prompt=True,
            tokenize=False,
            chat_template=template,
            **more,
        )
    except Exception as exc:  # jinja's errors, and whatever a template raises by itself
        if type(exc).__module__.partition(".")[0] != "jinja2":
            raise
        raise ModelError(f"the model's chat template refused the conversation: {exc}") from exc
    return text


def reply_text(reply: str, offered: bool = True) -> tuple[str, str, tuple[ToolCall, ...]]:
    """(answer, reasoning, tool calls) of a reply: `<think>` in front and `<tool_call>` blocks are
    taken out.

    Where no tool was `offered`, blocks are words as others: an agent that told of its tools in
    words reads them there.
    """
    thought = THOUGHT.match(reply)
    reasoning, rest = (
        (thought[1].strip(), reply[thought.end() :].strip()) if thought else ("", reply)
    )
    blocks = CALL.findall(rest) if offered else []
    calls = [call for n, block in enumerate(blocks) if (call := _call(n, block)) is not None]
    if not calls:
        return rest, reasoning, ()
    return CALL.sub("", rest).strip(), reasoning, tuple(calls)


def _call(number: int, block: str) -> ToolCall | None:
    """A call written as {"name": ..., "arguments": {...}}; None for anything else, which stays in
    the text."""
    try:
        node = read_json(block)
        return ToolCall(f"call_{number}", str(node["name"]), json.dumps(node.get("arguments", {})))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _turn(message: Message) -> dict[str, Any]:
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}
        for part in message.parts
    ]
    turn: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        called = [
            {"name": call.name, "arguments": _loads(call.arguments)} for call in message.tool_calls
        ]
        turn["tool_calls"] = [{"type": "function", "function": function} for function in called]
    return turn


def _loads(arguments: str) -> Any:
    try:
        return read_json(arguments)
    except ValueError:
        return arguments


def _shrunk(pixels: Pixels, most: int | None) -> Pixels:
    height, width = pixels.shape[:2]
    if most is None or height * width <= most:
        return pixels
    share = (most / (height * width)) ** 0.5
    size = max(1, int(width * share)), max(1, int(height * share))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


WITHOUT_VIDEO = (
    "image processor and tokenizer only: its video processor needs torchvision, so no videos"
)


def open_processor(model: str, revision: str | None) -> tuple[Any, str]:
    """The processor, and a sentence on what it lacks ("" for nothing).

    Families such as Qwen2.5-VL carry a video processor that needs torchvision; where that is
    missing, their own class is put together from the image processor (Pillow) and the tokenizer.
    Raises WeightsError.
    """
    transformers = import_transformers()
    try:
        processor = from_hub("AutoProcessor", model, revision, backend="pil")
    except WeightsError as exc:
        whole: WeightsError | None = exc
    else:
        whole = None
        if hasattr(processor, "image_processor"):
            return processor, ""
    config = from_hub("AutoConfig", model, revision)
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    name: str | None = PROCESSOR_MAPPING_NAMES.get(config.model_type)
    if name is None:
        raise whole or WeightsError(
            f"{model}: transformers has no processor for the family {config.model_type!r}"
        )
    images = from_hub("AutoImageProcessor", model, revision, backend="pil")
    tokenizer = from_hub("AutoTokenizer", model, revision)
    return _assembled(getattr(transformers, name), images, tokenizer, model), WITHOUT_VIDEO


def _assembled(kind: Any, images: Any, tokenizer: Any, model: str) -> Any:
    """A processor of `kind` whose video half is None: its class check for that half is left out."""
    halves = kind.get_attributes()
    spare = [half for half in halves if half not in ("image_processor", "tokenizer")]
    if set(spare) - {"video_processor"}:
        raise WeightsError(
            f"{model}: {kind.__name__} needs {', '.join(spare)}, which cannot be had without"
            " torchvision"
        )

    def lenient(self: Any, name: str, argument: Any) -> Any:
        return (
            type(argument)
            if argument is None
            else kind.check_argument_for_proper_class(self, name, argument)
        )

    loose = type(kind.__name__, (kind,), {"check_argument_for_proper_class": lenient})
    given = {"image_processor": images, "tokenizer": tokenizer} | dict.fromkeys(spare)
    return loose(**given, chat_template=getattr(tokenizer, "chat_template", None))
