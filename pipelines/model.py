"""The interface of a model: messages in, a reply out. A wrapper is a model around a model."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NotRequired, Protocol

from pydantic import with_config
from typing_extensions import TypedDict

from looktwice.pipelines.json_input import (
    FORBID_EXTRA,
    FiniteObject,
    JsonInteger,
    Number,
    write_canonical,
)
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.view import View

__all__ = [
    "CallOptions",
    "Message",
    "Messages",
    "Model",
    "ModelError",
    "Reply",
    "ToolCall",
    "Usage",
]

SAMPLING_RANGES = ("temperature, top_p, logprobs >= 0", "top_p <= 1", "max_tokens >= 1")
"""Ranges of a call's sampling options, and of the settings of a model that have the same names."""
CALLS_AS_TEXT_ADVICE = (
    "let the agent write its calls as text (`protocol: {use: prompting.agent.PlainCalls}` in its"
    " own node)"
)
"""Advice that ends a message about a model that does not support tools."""
Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "filter", "tool"]


@dataclass(frozen=True)
class ToolCall:
    """A tool call by the model; `arguments` is the JSON text as the model wrote it, not yet
    checked. `attached` holds the provider's own fields of the call, such as a thought signature."""

    id: str
    name: str
    arguments: str
    attached: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the call as plain JSON values; `attached` is left out when empty."""
        return {name: value for name, value in vars(self).items() if value or name != "attached"}


@dataclass(frozen=True)
class Tool:
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Message:
    """One turn of a conversation. `parts` are strings and views in the order in which they are
    sent.

    An assistant's turn may hold `tool_calls`; a tool's turn names the call that it answers in
    `call_id`. `attached` holds the provider's own fields of an assistant's turn, such as reasoning
    or a signature, which are sent back unchanged.
    """

    role: Role
    parts: tuple[str | View, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    attached: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The texts of this turn, joined by line breaks."""
        return "\n".join([part for part in self.parts if isinstance(part, str)])

    @property
    def views(self) -> tuple[View, ...]:
        """The views of this turn."""
        return tuple(part for part in self.parts if isinstance(part, View))


Messages = Sequence[Message]


@dataclass(frozen=True)
class CallOptions(Ranged):
    """Options of one call, which override the model's own settings; None leaves a setting to the
    model.

    `temperature`, `top_p`, `max_tokens`, `stop` (strings that end the reply) and `seed` are those
    of the OpenAI API; `tools` is set by agents. `schema` is a JSON schema that the reply must
    follow (an empty one: any JSON object), `choices` the only replies allowed, `logprobs` the
    number of alternatives per token, `effort` the reasoning effort ("low", "medium", "high").
    `top_k` limits sampling to the most likely tokens. With `tool_choice` "none" the model calls no
    tool, with "required" it calls some tool, and any other value names the tool to call.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    tools: tuple[Tool, ...] | None = None
    schema: Mapping[str, Any] | None = None
    choices: tuple[str, ...] | None = None
    logprobs: int | None = None
    effort: str | None = None
    top_k: int | None = None
    tool_choice: str | None = None
    ranges = (*SAMPLING_RANGES, "top_k >= 1")

    def fill_from(self, model: Any) -> CallOptions:
        """Return the options with unset ones taken from the model's settings of the same names."""
        gaps = {
            name: filling
            for name, value in vars(self).items()
            if value is None and (filling := getattr(model, name, None)) is not None
        }
        return replace(self, **gaps) if gaps else self

    def to_dict(self) -> dict[str, Any]:
        """Return only the options that are set, as plain JSON values."""
        asked = {name: value for name, value in vars(self).items() if value is not None}
        if self.tools is not None:
            asked["tools"] = [asdict(tool) for tool in self.tools]
        return asked


@dataclass(frozen=True)
class Usage:
    """Token counts of one call as the server reported them; `reasoning_tokens` are included in
    `tokens_out`, and `cached_tokens` in `tokens_in`."""

    tokens_in: int = 0
    tokens_out: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0


def find_price_fault(prices: Any) -> str:
    """Describe what is wrong with the list prices of a model; "" if nothing is."""
    if not isinstance(prices, Mapping):
        return f"prices must be a mapping with `in` and `out`, found {prices!r:.100}"
    if not {"in", "out"} <= prices.keys() <= {"in", "out", *PRICE_FACTS, "cached"}:
        may = "cached, currency, date and source"
        return f"prices need `in` and `out`, and may have {may}; found {sorted(map(str, prices))}"
    for price in get_amounts(prices).values():
        if type(price) not in (int, float) or not 0 <= price < math.inf:
            return f"prices must be amounts per million tokens, 0 or more; found {dict(prices)}"
    if all(type(prices.get(name, "")) is str for name in PRICE_FACTS):
        return ""
    return (
        "currency, date and source of prices must be strings (quote a value that looks like a"
        f" number); found {prices}"
    )


PRICE_FACTS = ("currency", "date", "source")


def get_amounts(prices: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the amounts of list prices, without their currency, date and source."""
    return {name: price for name, price in prices.items() if name not in PRICE_FACTS}


def format_prices(prices: Mapping[str, Any]) -> str:
    """Format list prices: "2.5 in, 10 out per million tokens (USD, 2026-08-01, its price page)"."""
    facts = ", ".join(str(prices[name]) for name in PRICE_FACTS if prices.get(name))
    money = ", ".join(f"{price:g} {name}" for name, price in get_amounts(prices).items())
    return f"{money} per million tokens{f' ({facts})' if facts else ''}"


@dataclass(frozen=True)
class Reply:
    """A model's reply. `seconds` is the duration of the original call, even if `cached` is true.

    `logprobs` holds one mapping per token of the reply, from candidate tokens to natural
    log-probabilities. `served_by` is what the server reports about itself: model, fingerprint,
    engine, version. `calls_left_out` counts tool calls that were dropped because the reply had more
    than an agent can run. `attached` holds the provider's own fields of the turn, which are sent
    back in the next request.
    """

    text: str
    finish: FinishReason = "stop"
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    refusal: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    logprobs: tuple[Mapping[str, float], ...] = ()
    cached: bool = False
    served_by: Mapping[str, str] = field(default_factory=dict)
    calls_left_out: int = 0
    attached: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_blank(self) -> bool:
        """True if the reply has no content and no billed token, like that of a server that
        failed without reporting it. An empty reply with billed tokens is the model's own."""
        content = self.text.strip() or self.reasoning.strip() or self.refusal or self.tool_calls
        billed = self.usage.tokens_out or self.usage.reasoning_tokens or self.logprobs
        return self.finish in ("stop", "tool") and not (content or billed)

    def to_dict(self) -> dict[str, Any]:
        """Return the reply as plain JSON values, as in the cache and in records, without empty
        fields."""
        plain = {
            "tool_calls": [call.to_dict() for call in self.tool_calls],
            "usage": dict(vars(self.usage)),
            "logprobs": [dict(token) for token in self.logprobs],
            "served_by": dict(self.served_by),
        }
        return {key: value for key, value in (vars(self) | plain).items() if value or key == "text"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reply:
        """Build a reply from its `to_dict` form."""
        fields = dict(data)
        fields["usage"] = Usage(**fields.get("usage", {}))
        fields["tool_calls"] = tuple(ToolCall(**call) for call in fields.get("tool_calls", ()))
        fields["logprobs"] = tuple(fields.get("logprobs", ()))
        return cls(**fields)

    def as_message(self) -> Message:
        """Return this reply as an assistant's turn of the conversation."""
        return Message("assistant", (self.text,), self.tool_calls, attached=self.attached)


@with_config(FORBID_EXTRA)
class ToolCallNode(TypedDict):
    """The schema of a stored `ToolCall`."""

    id: str
    name: str
    arguments: str
    attached: NotRequired[FiniteObject]


@with_config(FORBID_EXTRA)
class ReplyNode(TypedDict):
    """The schema of `Reply.to_dict`, which a file's content must match."""

    text: str
    finish: NotRequired[str]
    reasoning: NotRequired[str]
    tool_calls: NotRequired[list[ToolCallNode]]
    refusal: NotRequired[str]
    usage: NotRequired[
        dict[Literal["tokens_in", "tokens_out", "reasoning_tokens", "cached_tokens"], JsonInteger]
    ]
    seconds: NotRequired[Number]
    logprobs: NotRequired[list[dict[str, Number | None]]]
    cached: NotRequired[bool]
    served_by: NotRequired[dict[str, str]]
    calls_left_out: NotRequired[JsonInteger]
    attached: NotRequired[FiniteObject]


class Model(Protocol):
    """The interface of a model, which answers messages.
    `identity` names the model and every setting that changes its answers; it is part of cache keys
    and records. `draw` numbers repeated samples of the same prompt: each draw is a separate call.
    Raises ModelError. A model may have a method `missing()` that names what must be set before it
    can be asked, such as a key, and returns "" if nothing is missing. Contestants whose model lacks
    something are left out.
    """

    @property
    def identity(self) -> str: ...

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply: ...


@dataclass(frozen=True)
class ModelWrapper:
    """A wrapper around a model that keeps its identity; subclasses override `wrap_call`."""

    model: Model

    @property
    def identity(self) -> str:
        """The identity of the wrapped model."""
        return self.model.identity

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask the model. Raises what `wrap_call` raises."""
        return self.wrap_call(lambda: self.model(messages, draw, options))

    def wrap_call(self, ask: Callable[[], Reply]) -> Reply:
        """Return the reply of `ask`; each call of `ask` asks the wrapped model once."""
        return ask()

    def close(self) -> None:
        """Close the wrapped model."""
        close_model(self.model)


def close_model(model: Model) -> None:
    """Close a model if it has a `close` method."""
    getattr(model, "close", lambda: None)()


class ModelError(Exception):
    """Raised for a call without a reply. `retryable` says whether the same call may succeed later.

    `status` is the HTTP status, if any; `retry_after` the number of seconds that the server asked
    to wait. `unreached` is true if there was not even a connection. `usage` was billed for a
    response that is not a reply.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        unreached: bool = False,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.retryable, self.retry_after = status, retryable, retry_after
        self.unreached, self.usage = unreached, usage

    def with_message(self, message: str) -> ModelError:
        """Return the same error with another message."""
        error = ModelError(message)
        vars(error).update(vars(self))
        return error


class Stopped(BaseException):
    """Raised when the run is being stopped. Not an Exception, so that no stage swallows it."""


def raise_if_stopped(stopped: bool) -> None:
    """Raise Stopped if `stopped` is true."""
    if stopped:
        raise Stopped("stopped while waiting for the endpoint")


STOP_EVENT: ContextVar[threading.Event | None] = ContextVar("STOP_EVENT", default=None)
"""A stop event of the calling thread; once it is set, the thread sends no further requests."""


class Deferred(Stopped):
    """Raised for a deferred request; its sample runs again once the reply has been collected."""


class RequestQueue(Model, Protocol):
    """The queue that a run calls instead of a deferring model: a call raises Deferred until its
    reply has been collected."""

    def collect_replies(self) -> None:
        """Send the deferred requests, wait for the replies and store them. Raises Stopped."""

    def close(self) -> None:
        """Discard requests that were deferred and not collected."""


class DeferringModel(Model, Protocol):
    """A model whose replies arrive later than its calls, for example from a batch endpoint. A run
    goes through its samples, collects the replies, then repeats the samples that were deferred."""

    def open_queue(
        self,
        store: Any,
        stop: threading.Event,
        say: Callable[[str], None],
        give_up: Callable[[str], None],
    ) -> RequestQueue:
        """Open the queue that a run calls instead of this model; `store` holds its replies.

        Setting `stop` ends a wait. `say` receives progress messages, and `give_up` the reason if
        waiting is futile.
        """


def is_deferring(model: Any) -> bool:
    """Return whether a model, or a class of models, is a `DeferringModel`."""
    return hasattr(model if isinstance(model, type) else type(model), "open_queue")


def make_message_json(message: Message) -> dict[str, Any]:
    """Return a message as plain JSON values, with each picture as the sha256 of its exact bytes."""
    parts = [
        part if isinstance(part, str) else {"picture": part.picture.payload.sha}
        for part in message.parts
    ]
    plain: dict[str, Any] = {"role": message.role, "parts": parts}
    if message.tool_calls:
        plain["tool_calls"] = [call.to_dict() for call in message.tool_calls]
    if message.call_id:
        plain["call_id"] = message.call_id
    if message.attached:
        plain["attached"] = dict(message.attached)
    return plain


def make_request_key(identity: str, messages: Messages, draw: int, options: CallOptions) -> str:
    """Return the cache key of a request: the sha256 of everything that decides its reply."""
    plain = [make_message_json(message) for message in messages]
    request = {"model": identity, "messages": plain, "draw": draw, "options": options.to_dict()}
    return hashlib.sha256(write_canonical(request).encode()).hexdigest()


def get_model_name(model: Any) -> str:
    """Return the name under which a server knows the model, or its class name."""
    return str(getattr(model, "model", "") or type(model).__name__)


def strip_scheme(url: str) -> str:
    """Return a URL without its scheme: host, port and path."""
    return url.partition("://")[2] or url
