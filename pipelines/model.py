"""The interface of a model: messages in, a reply out. A wrapper is a model around a model."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NotRequired, Protocol

from pydantic import with_config
from typing_extensions import TypedDict

from looktwice.pipelines.json_input import CLOSED, Finite, Number, Whole
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

SAMPLING = ("temperature, top_p, logprobs >= 0", "top_p <= 1", "max_tokens >= 1")
"""The ranges of what is asked for in a call, and of a model's settings of these names."""
CALLS_AS_TEXT = (
    "let the agent write its calls as text (`protocol: {use: prompting.agent.PlainCalls}` in its"
    " own node)"
)
"""The end of a sentence about a model that takes no tools."""
Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "filter", "tool"]


@dataclass(frozen=True)
class ToolCall:
    """A tool that the model asks for; `arguments` is the JSON text as the model wrote it, not yet
    checked. `attached` are the provider's own fields of the call, such as a thought signature."""

    id: str
    name: str
    arguments: str
    attached: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """The call as plain JSON values; without `attached` where nothing is."""
        return {name: value for name, value in vars(self).items() if value or name != "attached"}


@dataclass(frozen=True)
class Tool:
    """A tool that the model may ask for; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Message:
    """One turn. `parts` are texts and views in the order in which they are sent.

    An assistant's turn may hold `tool_calls`, a tool's turn names the call that it answers in
    `call_id`. `attached` are the provider's own fields of an assistant's turn, such as reasoning or
    a signature, which go back to it as they came.
    """

    role: Role
    parts: tuple[str | View, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    attached: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The texts of this turn, one below the other."""
        return "\n".join([part for part in self.parts if isinstance(part, str)])

    @property
    def views(self) -> tuple[View, ...]:
        """The views of this turn."""
        return tuple(part for part in self.parts if isinstance(part, View))


Messages = Sequence[Message]


@dataclass(frozen=True)
class CallOptions(Ranged):
    """What one call asks for beyond the model's own settings; None leaves a setting to the model.

    `temperature`, `top_p`, `max_tokens`, `stop` (texts that end the reply) and `seed` are those of
    the OpenAI API; `tools` is set by agents. `schema` is a JSON schema that the reply must follow
    (an empty one: any JSON object), `choices` the only texts allowed, `logprobs` the number of
    alternatives per token, `effort` the reasoning effort ("low", "medium", "high"). `top_k` limits
    sampling to the likeliest tokens; of `tools` none is called where `tool_choice` is "none", some
    one where it is "required", and otherwise the one that it names.
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
    ranges = (*SAMPLING, "top_k >= 1")

    def filled_from(self, model: Any) -> CallOptions:
        """The same with what is None taken from the model's settings of the same names, where it
        has them."""
        gaps = {
            name: filling
            for name, value in vars(self).items()
            if value is None and (filling := getattr(model, name, None)) is not None
        }
        return replace(self, **gaps) if gaps else self

    def given(self) -> dict[str, Any]:
        """Only what is asked for, as plain JSON values."""
        asked = {name: value for name, value in vars(self).items() if value is not None}
        if self.tools is not None:
            asked["tools"] = [asdict(tool) for tool in self.tools]
        return asked


@dataclass(frozen=True)
class Usage:
    """Tokens of one call as the server counted them; reasoning and cached tokens are part of the
    other two."""

    tokens_in: int = 0
    tokens_out: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0


def price_fault(prices: Any) -> str:
    """What is wrong with the list prices of a model, in words; empty where nothing is."""
    if not isinstance(prices, Mapping):
        return f"prices is a mapping with `in` and `out`, found {prices!r:.100}"
    if not {"in", "out"} <= prices.keys() <= {"in", "out", *PRICE_FACTS, "cached"}:
        may = "cached, currency, date and source"
        return f"prices need `in` and `out` and may name {may}, found {sorted(map(str, prices))}"
    for price in amounts(prices).values():
        if type(price) not in (int, float) or not 0 <= price < math.inf:
            return f"prices are money per million tokens, 0 or more; found {dict(prices)}"
    if all(type(prices.get(name, "")) is str for name in PRICE_FACTS):
        return ""
    return (
        "currency, date and source of prices are texts, in quotes where they look like a"
        f" number; found {prices}"
    )


PRICE_FACTS = ("currency", "date", "source")


def amounts(prices: Mapping[str, Any]) -> Mapping[str, float]:
    """The money of list prices, without where and when they were read."""
    return {name: price for name, price in prices.items() if name not in PRICE_FACTS}


def say_prices(prices: Mapping[str, Any]) -> str:
    """List prices in words: "2.5 in, 10 out a million tokens (USD, 2026-08-01, its price page)"."""
    facts = ", ".join(str(prices[name]) for name in PRICE_FACTS if prices.get(name))
    money = ", ".join(f"{price:g} {name}" for name, price in amounts(prices).items())
    return f"{money} a million tokens{f' ({facts})' if facts else ''}"


@dataclass(frozen=True)
class Reply:
    """What came back. `seconds` is the time of the call that was really made, also where `cached`
    is true.

    `logprobs` holds, per token of the reply, the mapping of candidate texts to natural
    log-probabilities. `served_by` holds what the server says of itself: model, fingerprint, engine,
    version. `calls_left_out` counts the tool calls that are not kept, because a reply had more than
    any agent runs. `attached` are the provider's own fields of the turn, which go back to it in the
    next request.
    """

    text: str
    finish: Finish = "stop"
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
        """Whether it says nothing and no token of it was billed, as of a server that failed and did
        not say so. An empty reply with tokens is the model's own."""
        said = self.text.strip() or self.reasoning.strip() or self.refusal or self.tool_calls
        made = self.usage.tokens_out or self.usage.reasoning_tokens or self.logprobs
        return self.finish in ("stop", "tool") and not (said or made)

    def to_dict(self) -> dict[str, Any]:
        """As the cache and the records hold it; what is empty is left out."""
        plain = {
            "tool_calls": [call.to_dict() for call in self.tool_calls],
            "usage": dict(vars(self.usage)),
            "logprobs": [dict(token) for token in self.logprobs],
            "served_by": dict(self.served_by),
        }
        return {key: value for key, value in (vars(self) | plain).items() if value or key == "text"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reply:
        """The way back from `to_dict`."""
        fields = dict(data)
        fields["usage"] = Usage(**fields.get("usage", {}))
        fields["tool_calls"] = tuple(ToolCall(**call) for call in fields.get("tool_calls", ()))
        fields["logprobs"] = tuple(fields.get("logprobs", ()))
        return cls(**fields)

    def as_message(self) -> Message:
        """The assistant's turn that this reply is in the conversation."""
        return Message("assistant", (self.text,), self.tool_calls, attached=self.attached)


@with_config(CLOSED)
class ToolCallNode(TypedDict):
    """A `ToolCall` in a file."""

    id: str
    name: str
    arguments: str
    attached: NotRequired[Finite]


@with_config(CLOSED)
class ReplyNode(TypedDict):
    """What `Reply.to_dict` writes, for what was read from a file before `Reply.from_dict` gets
    it."""

    text: str
    finish: NotRequired[str]
    reasoning: NotRequired[str]
    tool_calls: NotRequired[list[ToolCallNode]]
    refusal: NotRequired[str]
    usage: NotRequired[
        dict[Literal["tokens_in", "tokens_out", "reasoning_tokens", "cached_tokens"], Whole]
    ]
    seconds: NotRequired[Number]
    logprobs: NotRequired[list[dict[str, Number | None]]]
    cached: NotRequired[bool]
    served_by: NotRequired[dict[str, str]]
    calls_left_out: NotRequired[Whole]
    attached: NotRequired[Finite]


class Model(Protocol):
    """Anything that answers messages.

    `identity` names the model and every setting that changes its answers; it is part of cache keys
    and records. `draw` numbers repeated samples of the same prompt: another draw is another call.
    Raises ModelError. A model may have a method `missing()` that says in a few words what has to be
    set before it can be asked, such as a key, and is empty where nothing is: contestants with that
    model are left out until it is there.
    """

    @property
    def identity(self) -> str: ...

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply: ...


@dataclass(frozen=True)
class Around:
    """What is wrapped around a model, and has its identity; `around` says what it does."""

    model: Model

    @property
    def identity(self) -> str:
        """The identity of the wrapped model."""
        return self.model.identity

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask. Raises what `around` raises."""
        return self.around(lambda: self.model(messages, draw, options))

    def around(self, ask: Callable[[], Reply]) -> Reply:
        """The reply of `ask`, which asks the wrapped model once each time."""
        return ask()

    def close(self) -> None:
        """Close the wrapped model."""
        close_model(self.model)


def close_model(model: Model) -> None:
    """Close a model that can be closed."""
    getattr(model, "close", lambda: None)()


class ModelError(Exception):
    """A call that brought no reply. `retryable` says whether the same call may succeed later.

    `status` is the HTTP status where there is one, `retry_after` the seconds that the server asked
    to wait, `unreached` says that there was not even a connection, and `usage` what is billed for
    an answer that is no reply.
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

    def in_words(self, message: str) -> ModelError:
        """The same error with another message."""
        error = ModelError(message)
        vars(error).update(vars(self))
        return error


class Stopped(BaseException):
    """The run is being stopped; not an Exception, so that no stage's `except Exception` swallows
    it."""


STOPPING: ContextVar[threading.Event | None] = ContextVar("STOPPING", default=None)
"""An event of the caller's thread; once it is set, none of its requests leaves any more."""


class Deferred(Stopped):
    """A request was put off; its sample is run again once the reply has been collected."""


class RequestQueue(Model, Protocol):
    """What a run asks in place of a model that defers: a call raises Deferred until its reply has
    been collected."""

    def collect(self) -> None:
        """Ask what was deferred, wait for it, and keep the replies. Raises Stopped."""

    def close(self) -> None:
        """Let go of what was deferred and not collected."""


class DeferringModel(Model, Protocol):
    """A model whose replies come later than its calls, such as one that is asked in batches: a run
    goes through its samples, collects, and goes again through those that were deferred."""

    def open_queue(
        self,
        store: Any,
        stop: threading.Event,
        say: Callable[[str], None],
        give_up: Callable[[str], None],
    ) -> RequestQueue:
        """What a run asks in place of this model, with the store of its replies. Setting `stop`
        ends a wait; `say` is told how far it is, and `give_up` why there is no use in waiting."""


def defers(model: Any) -> bool:
    """Whether a model, or a class of models, is a `DeferringModel`."""
    return hasattr(model if isinstance(model, type) else type(model), "open_queue")


def message_json(message: Message) -> dict[str, Any]:
    """A message as plain JSON values, with every picture as the sha256 of its exact bytes."""
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


def request_key(identity: str, messages: Messages, draw: int, options: CallOptions) -> str:
    """The sha256 under which the reply to this very request is cached: of everything that decides
    it, as canonical JSON."""
    plain = [message_json(message) for message in messages]
    request = {"model": identity, "messages": plain, "draw": draw, "options": options.given()}
    return hashlib.sha256(canonical(request).encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces; refuses NaN and anything that is not plain JSON."""
    return _CANONICAL.encode(value)


_CANONICAL = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
)


def name_of(model: Any) -> str:
    """The name under which a server knows the model, or else its class."""
    return str(getattr(model, "model", "") or type(model).__name__)


def place_of(url: str) -> str:
    """Host, port and path of a URL."""
    return url.partition("://")[2] or url
