"""Parsing of requests in the Messages protocol of Anthropic into questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from looktwice.extras.integrations.protocols.questions import (
    ClientFacts,
    Json,
    Question,
    Text,
    TokenCount,
    choose_tool,
    make_question,
    read_data_url,
    refuse_unknown,
    refuse_video,
)
from looktwice.extras.integrations.protocols.thoughts import make_turn, unpack_attached
from looktwice.pipelines.json_input import ALLOW_EXTRA, write_json
from looktwice.pipelines.model import CallOptions, Message, Tool, ToolCall
from looktwice.pipelines.view import View

RENAMED_FIELDS = {"schema": "output_config.format", "effort": "output_config.effort"}
"""Names of request fields that differ from the field names of `CallOptions`."""
IGNORED_FIELDS = {
    "cache_control",
    "diagnostics",
    "inference_geo",
    "metadata",
    "service_tier",
    "speed",
    "user_profile_id",
    "workspace_id",
}
"""Fields that do not affect a reply."""
NEUTRAL_VALUES: Mapping[str, Any] = {"context_management": {"edits": []}, "mcp_servers": []}
INVALID_JSON_FIELD = "INVALID_JSON"
"""The field for the arguments of a call that are not a JSON object, as Anthropic advises."""
ALLOWED_BLOCKS = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
    "system": {"text"},
    "tool_result": {"text", "image"},
}
REQUIRED_FIELDS = {
    "image": ("source",),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}


class ImageSource(BaseModel, **ALLOW_EXTRA):
    """The data of an image."""

    type: Literal["base64", "url"]
    media_type: Text = "image/png"
    data: str = ""
    url: str = ""

    def read(self) -> View:
        """Return the picture. Raises ValueError; nothing is fetched."""
        encoded = f"data:{self.media_type};base64,{self.data}"
        return View.of(read_data_url(self.url if self.type == "url" else encoded))


def _convert_to_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


class MessageBlock(BaseModel, **ALLOW_EXTRA):
    """A block of content."""

    type: Annotated[
        Literal["text", "image", "thinking", "redacted_thinking", "tool_use", "tool_result"],
        BeforeValidator(refuse_video),
    ]
    text: str = ""
    source: ImageSource | None = None
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Json = {}
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Annotated[list[MessageBlock], BeforeValidator(_convert_to_blocks)] = []

    def refuse_misplaced(self, kind: str, place: str) -> None:
        """Raise ValueError for a block that lacks fields or is not allowed in content of this
        `kind`."""
        if self.type not in ALLOWED_BLOCKS[kind]:
            allowed = ", ".join(sorted(ALLOWED_BLOCKS[kind]))
            raise ValueError(f"{place}.type is {self.type!r}; here it can be: {allowed}")
        if missing := [
            name for name in REQUIRED_FIELDS.get(self.type, ()) if not getattr(self, name)
        ]:
            raise ValueError(f"{place}: a block of type {self.type} needs {' and '.join(missing)}")
        for number, inner in enumerate(self.content if self.type == "tool_result" else ()):
            inner.refuse_misplaced(self.type, f"{place}.content[{number}]")

    def read(self) -> str | View:
        """Return the text or the picture. Raises ValueError."""
        return self.source.read() if self.source is not None else self.text

    def read_call(self) -> ToolCall:
        """Return the call of a tool."""
        invalid = self.input.get(INVALID_JSON_FIELD) if len(self.input) == 1 else None
        written = invalid if isinstance(invalid, str) else write_json(self.input)
        return ToolCall(self.id, self.name, written)


Blocks = Annotated[list[MessageBlock], BeforeValidator(_convert_to_blocks)]


class MessageTurn(BaseModel, **ALLOW_EXTRA):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Blocks

    def refuse_misplaced(self, place: str) -> None:
        """Raise ValueError for blocks that are not allowed where they are."""
        for number, block in enumerate(self.content):
            block.refuse_misplaced(self.role, f"{place}.content[{number}]")
        results = [block.type == "tool_result" for block in self.content]
        if results != sorted(results, reverse=True):
            raise ValueError(f"{place}: tool_result blocks must come first in a user's content")


def read_messages(messages: Sequence[MessageTurn]) -> Iterator[Message]:
    """Yield the turns of a conversation; neighbouring messages of one role are one turn, as in the
    protocol. Raises ValueError."""
    for number, message in enumerate(messages):
        message.refuse_misplaced(f"messages[{number}]")
    if messages[-1].role == "assistant":
        raise ValueError(
            "the last message is the assistant's, and continuing it is not supported here; end with"
            " a user's message"
        )
    for role, group in groupby(messages, lambda message: message.role):
        blocks = [block for message in group for block in message.content]
        if role == "assistant":
            yield read_assistant(blocks)
            continue
        for block in (block for block in blocks if block.type == "tool_result"):
            parts = tuple(inner.read() for inner in block.content)
            yield Message("tool", parts or ("",), call_id=block.tool_use_id)
        others = [block.read() for block in blocks if block.type != "tool_result"]
        if others or not blocks:
            yield Message(role, tuple(others) or ("",))


def read_assistant(blocks: Sequence[MessageBlock]) -> Message:
    """Convert the blocks of an assistant's turn. Raises ValueError for thoughts that come from
    another server."""
    packed, thoughts = list[Json](), list[str]()
    for block in blocks:
        opaque = block.signature or block.data
        if block.type == "thinking" and not opaque:  # of a server that signs nothing
            thoughts.append(block.thinking)
        elif block.type in ("thinking", "redacted_thinking"):
            unpacked = unpack_attached(opaque)
            if unpacked is None:
                raise ValueError(
                    f"a {block.type} block of another server cannot be read here; leave it out"
                )
            packed.append(unpacked)
    texts = [block.text for block in blocks if block.type == "text"]
    calls = [block.read_call() for block in blocks if block.type == "tool_use"]
    return make_turn(texts, calls, packed, "\n\n".join(thoughts))


class MessageTool(BaseModel, **ALLOW_EXTRA):
    """A tool of the client."""

    type: Literal["custom"] | None = None
    name: str
    description: str | None = None
    input_schema: Json


class MessageToolChoice(BaseModel, **ALLOW_EXTRA):
    """The choice of a tool."""

    type: Literal["auto", "any", "tool", "none"]
    name: str = ""

    def read(self) -> str:
        """Return the choice in the form of `CallOptions`. Raises ValueError."""
        if self.type != "tool":
            return "required" if self.type == "any" else self.type
        if not self.name:
            raise ValueError("tool_choice of type tool needs name")
        return self.name


class ThoughtDisplay(BaseModel, **ALLOW_EXTRA):
    """The field `thinking`, which only decides whether thoughts are shown. How much a model thinks
    is a setting of its study."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    display: Literal["summarized", "omitted"] | None = None


class MessageFormat(BaseModel, **ALLOW_EXTRA):
    """The format of the reply."""

    type: Literal["json_schema"]
    schema_: Json = Field(alias="schema")


class OutputConfig(BaseModel, **ALLOW_EXTRA):
    """Settings of the reply."""

    effort: str | None = None
    format: MessageFormat | None = None


class MessagesRequest(BaseModel, **ALLOW_EXTRA):
    """A Messages request, with the fields that looktwice supports; `seed` is not part of the
    protocol."""

    messages: list[MessageTurn] = Field(min_length=1)
    max_tokens: TokenCount
    model: str = ""
    system: Blocks = []
    stream: bool | None = None
    temperature: float | None = Field(None, ge=0, le=1e3)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=10**9)
    stop_sequences: list[Text] | None = None
    tools: list[MessageTool] | None = None
    tool_choice: MessageToolChoice | None = None
    thinking: ThoughtDisplay | None = None
    output_config: OutputConfig | None = None
    output_format: MessageFormat | None = None
    seed: int | None = Field(None, ge=-(2**63), le=2**64)
    looktwice: ClientFacts = ClientFacts()

    def make_options(self) -> CallOptions:
        """Make the sampling options of the request. Raises ValueError."""
        tools = tuple(
            Tool(tool.name, tool.description or "", tool.input_schema) for tool in self.tools or ()
        )
        output = self.output_config or OutputConfig()
        form = output.format or self.output_format
        called = self.tool_choice.read() if self.tool_choice else None
        return CallOptions(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            stop=tuple(self.stop_sequences or ()) or None,
            seed=self.seed,
            tools=tools or None,
            schema=form.schema_ if form else None,
            effort=output.effort,
            top_k=self.top_k if self.top_k and self.top_k > 0 else None,
            tool_choice=choose_tool(called, tools),
        )

    def read(self) -> Question:
        """Convert the request to a question. Raises ValueError."""
        refuse_unknown(self, IGNORED_FIELDS, NEUTRAL_VALUES)
        for number, block in enumerate(self.system):
            block.refuse_misplaced("system", f"system[{number}]")
        system = tuple(block.text for block in self.system)
        first = [Message("system", system)] if any(system) else []
        return make_question(
            self.model,
            [*first, *read_messages(self.messages)],
            self.make_options(),
            self.looktwice,
            stream=bool(self.stream),
            extra_fields=self.list_extra_fields(),
            field_names=RENAMED_FIELDS,
        )

    def list_extra_fields(self) -> dict[str, str]:
        """Return the fields that only the record stores, because the internal form lacks them: the
        settings of thinking, and the ids of failed tool calls."""
        thinking = self.thinking.model_dump(exclude_unset=True) if self.thinking else None
        failed = [
            block.tool_use_id
            for message in self.messages
            for block in message.content
            if block.is_error
        ]
        sent = {"thinking": thinking, "is_error": failed}
        return {name: write_json(value) for name, value in sent.items() if value}
