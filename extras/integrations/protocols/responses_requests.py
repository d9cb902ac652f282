"""Parsing of requests in the Responses protocol of OpenAI into questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from looktwice.pipelines.json_input import ALLOW_EXTRA
from looktwice.pipelines.model import CallOptions, Message, Role, Tool, ToolCall
from looktwice.pipelines.view import View

RENAMED_FIELDS = {"schema": "text.format", "effort": "reasoning.effort", "logprobs": "top_logprobs"}
"""Names of request fields that differ from the field names of `CallOptions`."""
IGNORED_FIELDS = {
    "access_programs",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "stream_options",
    "truncation",
    "user",
}
"""Fields that do not affect a reply. `max_tool_calls` counts only calls of OpenAI's own tools."""
NEUTRAL_VALUES: Mapping[str, Any] = {"context_management": [], "moderation": {}, "image": {}}
STATELESS_ERROR = "no response is stored here; send the whole conversation as `input`"
LOGPROBS_INCLUSION = "message.output_text.logprobs"


class ResponsesPart(BaseModel, **ALLOW_EXTRA):
    """A part of a message, of a tool's output or of a thought."""

    type: Annotated[
        Literal[
            "input_text",
            "output_text",
            "text",
            "refusal",
            "summary_text",
            "reasoning_text",
            "input_image",
        ],
        BeforeValidator(refuse_video),
    ]
    text: str = ""
    refusal: str = ""
    image_url: str | None = None

    def read(self) -> str | View:
        """Return the text or the picture. Raises ValueError; nothing is fetched."""
        if self.type != "input_image":
            return self.text or self.refusal
        if self.image_url is None:
            raise ValueError(
                "an input_image has no image_url; no files are kept here: send a data URL,"
                " data:image/...;base64,..."
            )
        return View.of(read_data_url(self.image_url))


def _convert_to_parts(content: Any) -> Any:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content or []


Parts = Annotated[list[ResponsesPart], BeforeValidator(_convert_to_parts)]


class ResponsesItem(BaseModel, **ALLOW_EXTRA):
    """An item of the input: a message, a call of a tool, its output, or a thought."""

    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: Parts = []
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: Parts = []
    encrypted_content: str | None = None

    def refuse_gaps(self, place: str) -> None:
        """Raise ValueError if the item lacks a field that items of its type need."""
        needed = {"message": "role", "reasoning": "type"}.get(self.type, "call_id")
        missing = [name for name in (needed,) if not getattr(self, name)]
        if self.type == "function_call" and not self.name:
            missing.append("name")
        if missing:
            raise ValueError(f"{place}: an item of type {self.type} needs {' and '.join(missing)}")


@dataclass
class AssistantItems:
    """Neighbouring items that together are one turn of the assistant."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    packed_fields: list[Json] = field(default_factory=list)
    thought: str = ""

    def starts_new_turn(self, item: ResponsesItem) -> bool:
        """Return whether an item starts a new turn: after texts without calls, any item but a call
        does. A text or thought after calls stays in their turn, because results must follow calls
        directly."""
        return bool(self.texts and not self.calls and item.type != "function_call")

    def add(self, item: ResponsesItem) -> None:
        """Add an item. Raises ValueError for a picture, and for a thought that comes from another
        server."""
        parts = [part.read() for part in item.content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise ValueError(
                "an assistant's message can hold texts only; move its images to a user's message"
            )
        if item.type == "function_call":
            self.calls.append(ToolCall(item.call_id, item.name, item.arguments))
        elif item.type == "message":
            self.texts += texts
        elif not item.encrypted_content:
            self.thought = "\n\n".join(filter(None, (self.thought, *texts)))
        else:
            packed = unpack_attached(item.encrypted_content)
            if packed is None:
                raise ValueError(
                    "encrypted_content of another server cannot be read here; leave out its"
                    " reasoning items"
                )
            self.packed_fields.append(packed)

    def read(self) -> Message:
        """Return the turn. Raises ValueError."""
        return make_turn(self.texts, self.calls, self.packed_fields, self.thought)


def read_items(items: Sequence[ResponsesItem]) -> Iterator[Message]:
    """Yield the turns of a conversation. Raises ValueError."""
    turn: AssistantItems | None = None
    for number, item in enumerate(items):
        item.refuse_gaps(f"input[{number}]")
        is_assistant = item.type in ("function_call", "reasoning") or item.role == "assistant"
        if turn is not None and not (is_assistant and not turn.starts_new_turn(item)):
            yield turn.read()
            turn = None
        if is_assistant:
            turn = turn or AssistantItems()
            turn.add(item)
        elif item.type == "function_call_output":
            parts = tuple(part.read() for part in item.output)
            yield Message("tool", parts or ("",), call_id=item.call_id)
        else:
            role: Role = "user" if item.role == "user" else "system"
            yield Message(role, tuple(part.read() for part in item.content) or ("",))
    if turn is not None:
        yield turn.read()


class FunctionTool(BaseModel, **ALLOW_EXTRA):
    """A tool of the client."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: Json | None = None


class ResponsesToolChoice(BaseModel, **ALLOW_EXTRA):
    """The choice of a tool: `auto`, `none` or `required`, or a tool by its name."""

    type: Literal["auto", "none", "required", "function"]
    name: str = ""

    def read(self) -> str:
        """Return the choice in the form of `CallOptions`. Raises ValueError."""
        if self.type == "function" and not self.name:
            raise ValueError("a tool_choice of type `function` needs the field `name`")
        return self.name or self.type


class ReplyFormat(BaseModel, **ALLOW_EXTRA):
    """The format of the reply."""

    type: Literal["text", "json_object", "json_schema"]
    schema_: Json = Field({}, alias="schema")


class ReplyText(BaseModel, **ALLOW_EXTRA):
    """Settings of the reply's text."""

    format: ReplyFormat | None = None
    verbosity: Literal["medium"] | None = None  # others are not honoured


class ReasoningSettings(BaseModel, **ALLOW_EXTRA):
    """Settings of the reasoning; its summary is always sent."""

    effort: str | None = None


def _convert_to_items(given: Any) -> Any:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


class ResponsesRequest(BaseModel, **ALLOW_EXTRA):
    """A Responses request, with the fields that looktwice supports; `seed`, `stop` and `top_k` are
    not part of the protocol, but many servers take them."""

    input: Annotated[list[ResponsesItem], BeforeValidator(_convert_to_items)] = Field(min_length=1)
    model: str = ""
    instructions: str | None = None
    stream: bool | None = None
    temperature: float | None = Field(None, ge=0, le=1e3)
    top_p: float | None = Field(None, gt=0, le=1)
    max_output_tokens: TokenCount | None = None
    top_logprobs: int | None = Field(None, ge=0, le=1000)
    include: list[str] | None = None
    reasoning: ReasoningSettings | None = None
    text: ReplyText | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Annotated[
        ResponsesToolChoice | None,
        BeforeValidator(lambda choice: {"type": choice} if isinstance(choice, str) else choice),
    ] = None
    seed: int | None = Field(None, ge=-(2**63), le=2**64)
    stop: Text | list[Text] | None = None
    top_k: int | None = Field(None, ge=-1, le=10**9)
    looktwice: ClientFacts = ClientFacts()

    def make_options(self) -> CallOptions:
        """Make the sampling options of the request. Raises ValueError."""
        form, stop = self.text and self.text.format, self.stop
        tools = tuple(
            Tool(tool.name, tool.description or "", tool.parameters or {})
            for tool in self.tools or ()
        )
        called = self.tool_choice.read() if self.tool_choice else None
        likely = bool(self.top_logprobs or LOGPROBS_INCLUSION in (self.include or ()))
        schemas = {"json_object": {}, "json_schema": form.schema_ if form else {}}
        return CallOptions(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_output_tokens,
            stop=tuple([stop] if isinstance(stop, str) else stop or ()) or None,
            seed=self.seed,
            tools=tools or None,
            schema=schemas.get(form.type) if form else None,
            logprobs=(self.top_logprobs or 1) if likely else None,
            effort=self.reasoning.effort if self.reasoning else None,
            top_k=self.top_k if self.top_k and self.top_k > 0 else None,
            tool_choice=choose_tool(called, tools),
        )

    def read(self) -> Question:
        """Convert the request to a question. Raises ValueError."""
        extra = self.model_extra or {}
        if stored := [n for n in ("previous_response_id", "conversation") if extra.get(n)]:
            raise ValueError(f"{stored[0]}: {STATELESS_ERROR}")
        refuse_unknown(self, IGNORED_FIELDS, NEUTRAL_VALUES)
        first = [Message("system", (self.instructions,))] if self.instructions else []
        return make_question(
            self.model,
            [*first, *read_items(self.input)],
            self.make_options(),
            self.looktwice,
            stream=bool(self.stream),
            field_names=RENAMED_FIELDS,
        )
