"""Parsing of chat-completions requests into questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from looktwice.extras.integrations.protocols.questions import (
    EXTENSION_FIELD,
    MAX_REPLIES,
    MAX_VALUES,
    ClientFacts,
    Json,
    Question,
    Text,
    TokenCount,
    choose_tool,
    make_question,
    make_sample,
    read_data_url,
    read_request,
    refuse_unknown,
    refuse_video,
)
from looktwice.pipelines.json_input import ALLOW_EXTRA, FORBID_EXTRA, read_json, write_json
from looktwice.pipelines.model import CallOptions, Message, Role, Tool, ToolCall
from looktwice.pipelines.models.attached import read_call_fields, read_turn_fields
from looktwice.pipelines.view import View

RENAMED_FIELDS = {
    "schema": "response_format",
    "effort": "reasoning_effort",
    "choices": "guided_choice",
}
"""Names of request fields that differ from the field names of `CallOptions`."""
IGNORED_FIELDS = {
    "user",
    "store",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "parallel_tool_calls",
}
"""Fields that do not affect a reply."""
NEUTRAL_VALUES: Mapping[str, Any] = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "length_penalty": 1,
    "min_p": 0,
    "logit_bias": {},
}
"""Values of other fields that have no effect; false and null never have one."""


class Address(BaseModel, **ALLOW_EXTRA):
    """The URL of a picture: a data URL within the request itself."""

    url: str


class Part(BaseModel, **ALLOW_EXTRA):
    """A part of a turn."""

    type: Annotated[Literal["text", "image_url"], BeforeValidator(refuse_video)]
    text: str = ""
    image_url: Annotated[
        Address, BeforeValidator(lambda url: {"url": url} if isinstance(url, str) else url)
    ] = Address(url="")

    def read(self) -> str | View:
        """Return the text or the picture. Raises ValueError; nothing is fetched."""
        if self.type == "text":
            return self.text
        return View.of(read_data_url(self.image_url.url))


class Function(BaseModel, **ALLOW_EXTRA):
    """A function that can be called, or a call of one."""

    name: str
    description: str = ""
    parameters: Json = {}
    arguments: str = "{}"


class ToolEntry(BaseModel, **ALLOW_EXTRA):
    """A tool, or a call of one."""

    id: str = ""
    type: Literal["function"] = "function"
    function: Function

    @property
    def attached(self) -> Json:
        """The fields that a provider attached to the call."""
        return read_call_fields({**(self.model_extra or {}), "function": self.function.model_extra})


class Turn(BaseModel, **ALLOW_EXTRA):
    """A turn of the conversation.

    Where `serve` changes fields of a provider's message, `looktwice` holds their original values; a
    value is null if the provider sent none.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[
        list[Part],
        BeforeValidator(
            lambda text: text if isinstance(text, list) else [{"type": "text", "text": text or ""}]
        ),
    ] = [Part(type="text")]
    tool_calls: list[ToolEntry] | None = None
    tool_call_id: str = ""
    looktwice: Json | None = None

    @model_validator(mode="before")
    @classmethod
    def keep_parts(cls, turn: Any) -> Any:
        """If an assistant's content holds more than texts, such as signed thoughts, copy it to
        `looktwice` and keep only the texts as content."""
        content = turn.get("content") if isinstance(turn, dict) else None
        if not isinstance(content, list) or turn.get("role") != "assistant":
            return turn
        own = turn.get(EXTENSION_FIELD) or {}
        if not (isinstance(own, dict) and all(isinstance(part, dict) for part in content)):
            return turn  # validation reports the fault
        returned = read_turn_fields({"content": content}).get("content", [])
        others = [part for part in returned if part["type"] != "text"]
        if not returned:
            return turn
        texts = [part for part in content if part not in others]
        return {**turn, "content": texts, EXTENSION_FIELD: {"content": returned, **own}}

    def read(self) -> Message:
        """Convert the turn to a message. Raises ValueError."""
        role: Role = "system" if self.role == "developer" else self.role
        calls = tuple(
            ToolCall(call.id, call.function.name, call.function.arguments, call.attached)
            for call in self.tool_calls or ()
        )
        parts = tuple(part.read() for part in self.content)
        return Message(role, parts, calls, self.tool_call_id, self.attached)

    @property
    def attached(self) -> Json:
        """The fields that a provider attached to an assistant's turn."""
        if self.role != "assistant":
            return {}
        own, shown = self.looktwice or {}, self.model_extra or {}
        return read_turn_fields({**shown, **own, "tool_calls": self.tool_calls})


class StructuredOutputs(BaseModel, **FORBID_EXTRA):
    """The `structured_outputs` of vLLM."""

    choice: list[Text] | None = None


class Schema(BaseModel, **ALLOW_EXTRA):
    """A JSON schema with its name."""

    schema_: Json = Field({}, alias="schema")


class ResponseFormat(BaseModel, **ALLOW_EXTRA):
    """The format of the reply."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: Schema | None = None


class StreamOptions(BaseModel, **ALLOW_EXTRA):
    """Options of a streamed response."""

    include_usage: bool | None = None


class ChatRequest(BaseModel, **ALLOW_EXTRA):
    """A chat-completions request, with the fields that looktwice supports."""

    messages: list[Turn] = Field(min_length=1)
    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, ge=0, le=MAX_REPLIES)
    temperature: float | None = Field(None, ge=0, le=1e3)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: TokenCount | None = None
    max_completion_tokens: TokenCount | None = None
    stop: Text | list[Text] | None = None
    top_k: int | None = Field(None, ge=-1, le=10**9)
    seed: int | None = Field(None, ge=-(2**63), le=2**64)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=1000)
    reasoning_effort: str | None = None
    tools: list[ToolEntry] | None = None
    tool_choice: Literal["auto", "none", "required"] | ToolEntry | None = None
    guided_choice: list[Text] | None = None
    structured_outputs: StructuredOutputs | None = None
    response_format: ResponseFormat | None = None
    looktwice: ClientFacts = ClientFacts()

    def make_options(self) -> CallOptions:
        """Make the sampling options of the request. Raises ValueError if it asks for a tool call
        without tools."""
        stop, choices, form = self.stop, self.guided_choice, self.response_format
        if self.structured_outputs:
            choices = choices or self.structured_outputs.choice
        functions = [tool.function for tool in self.tools or ()]
        tools = tuple(Tool(f.name, f.description, f.parameters) for f in functions)
        wanted = self.tool_choice
        called = wanted.function.name if isinstance(wanted, ToolEntry) else wanted
        schema = form.json_schema.schema_ if form and form.json_schema else None
        return CallOptions(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            stop=tuple([stop] if isinstance(stop, str) else stop or ()) or None,
            seed=self.seed,
            tools=tools or None,
            schema={} if form and form.type == "json_object" else schema,
            choices=tuple(choices or ()) or None,
            logprobs=(self.top_logprobs or 1) if self.logprobs else None,
            effort=self.reasoning_effort,
            top_k=self.top_k if self.top_k and self.top_k > 0 else None,
            tool_choice=choose_tool(called, tools),
        )


def read_question(raw: bytes) -> Question:
    """Parse a request. Raises ValueError for an invalid request, and for fields that are not
    supported.

    Pictures must be data URLs; nothing is fetched.
    """
    request = read_request(ChatRequest, raw)
    refuse_unknown(request, IGNORED_FIELDS, NEUTRAL_VALUES)
    return make_question(
        request.model,
        [turn.read() for turn in request.messages],
        request.make_options(),
        request.looktwice,
        reply_count=request.n or 1,
        stream=bool(request.stream),
        wants_usage=bool(request.stream_options and request.stream_options.include_usage),
        field_names=RENAMED_FIELDS,
    )


HANDLED_FIELDS = {"messages", "model", "stream", "stream_options", "n", "looktwice"}
SETTING_FIELDS = set(ChatRequest.model_fields) - HANDLED_FIELDS


def read_foreign_question(raw: bytes) -> Question:
    """Parse a request to another server, which may support more than looktwice: an unknown part is
    replaced by its JSON as text, and unknown fields are stored in `extra_fields`. Raises
    ValueError."""
    body = read_json(raw, MAX_VALUES)
    if not (isinstance(body, dict) and isinstance(body.get("messages"), list)):
        raise ValueError("a request must be a JSON object with messages")
    turns = tuple(map(_read_turn, body["messages"]))
    settings = {name: body[name] for name in SETTING_FIELDS & body.keys()}
    try:
        options = ChatRequest(messages=[Turn(role="user")], **settings).make_options()
    except ValueError:
        options, settings = CallOptions(), {}
    sent = {
        name: write_json(body[name])
        for name in body
        if name not in HANDLED_FIELDS | settings.keys()
    }
    details = set[str]()  # requested levels of detail of pictures
    for content in (turn.get("content") for turn in body["messages"]):
        for part in content if isinstance(content, list) else ():
            url = part.get("image_url") if isinstance(part, dict) else None
            if isinstance(url, dict) and url.get("detail"):
                details.add(str(url["detail"]))
    if details:
        sent["detail"] = write_json(sorted(details))
    sample = make_sample(turns, ClientFacts())
    return Question(str(body.get("model") or ""), turns, sample, options, 1, False, sent)


def _read_turn(turn: Any) -> Message:
    """Convert a turn to a message, with unknown parts as JSON text."""
    try:
        return Turn.model_validate(turn).read()
    except (ValueError, TypeError, AttributeError):
        pass
    if not isinstance(turn, dict):
        raise ValueError("a turn must be an object with a role and content")
    content, role = turn.get("content"), str(turn.get("role"))
    parts = list[str | View]()
    for part in content if isinstance(content, list) else [content or ""]:
        try:
            parts.append(part if isinstance(part, str) else Part.model_validate(part).read())
        except ValueError:
            parts.append(write_json(part))
    roles: dict[str, Role] = {"developer": "system", "assistant": "assistant", "tool": "tool"}
    attached = read_turn_fields({**turn, "content": None}) if role == "assistant" else {}
    return Message(
        roles.get(role, "system" if role == "system" else "user"), tuple(parts), attached=attached
    )
