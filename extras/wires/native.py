"""Models that speak OpenAI's Responses, Anthropic's Messages or Gemini's generateContent protocol;
they are called, cached, rate-limited and priced like `ChatAPI`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from looktwice.extras.wires import gemini, messages, responses
from looktwice.extras.wires.turns import Json, merge_fields
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.chat_api import ChatAPI
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.pipelines.models.wire import (
    PicturePlacement,
    find_error,
    make_wire_messages,
    make_wire_options,
)

RESERVED_FIELDS = {"model", "stream", "tools", "seed", "temperature", "top_p"}
"""The fields of a request that `extra` must not set, because the model's settings fill them or
because they would change the form of the reply."""


@dataclass(frozen=True)
class NativeAPI(ChatAPI):
    """The base class of models that speak a provider's own protocol.

    `server_tools` are tools that the provider runs itself, described in the provider's form; their
    calls do not count as calls of an agent.
    """

    pictures: PicturePlacement = "tool"
    server_tools: tuple[Mapping[str, Any], ...] = ()
    protocol: ClassVar[str] = ""
    dialect: ClassVar[str] = ""
    absent_settings: ClassVar[tuple[str, ...]] = ("choices_as",)
    reply_fields: ClassVar[tuple[str, ...]] = ()
    reserved = RESERVED_FIELDS

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in self.absent_settings if getattr(self, name, None) is not None]
        given += ["token_field"] if self.token_field != "max_tokens" else []
        if given:
            raise ValueError(
                f"{type(self).__name__} has no {', '.join(given)}: {self.protocol} requests have no"
                " such field; leave it out"
            )

    def make_body(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> dict[str, Any]:
        """Build the request in the provider's protocol, with payloads for pictures. Raises
        ModelError for options that the protocol does not have."""
        full = options.fill_from(self)
        given = [name for name in self.absent_settings if getattr(full, name, None) is not None]
        if given:
            raise ModelError(
                f"{', '.join(given)}: {self.protocol} requests have no such field; leave it out"
            )
        if full.seed is not None:
            full = replace(full, seed=full.seed + draw)
        asked = make_wire_options(replace(full, choices=None), "max_tokens", None)
        turns = make_wire_messages(messages, self.system, self.detail, self.pictures)
        own = self.translate({"model": self.model, "messages": turns, **asked}, full)
        if self.server_tools:
            own["tools"] = [*own.get("tools", ()), *map(dict, self.server_tools)]
        return merge_fields(own, self.extra)

    def translate(self, body: Json, options: CallOptions) -> Json:
        """Convert a chat-completions body to the provider's protocol."""
        raise NotImplementedError

    def make_completion(self, data: Json) -> Json:
        """Convert a reply in the provider's protocol to a chat completion."""
        raise NotImplementedError

    def read(self, response: HttpResponse, url: str, seconds: float) -> Reply:
        """Parse the reply in a response. Raises ModelError."""
        try:
            data = read_json(response.body)
        except ValueError:
            data = None
        if response.status != 200 or data is None:
            return read_response(response, url, seconds)
        try:
            if any(name in data for name in self.reply_fields):
                data = self.make_completion(data)
            elif find_error(data) is None:
                raise LookupError(f"none of {', '.join(self.reply_fields)}")
        except (LookupError, TypeError, AttributeError, ValueError) as exc:
            raise ModelError(
                f"{url} did not answer in the {self.protocol} protocol ({exc!r:.200}); check `url`",
                status=200,
                retryable=True,
            ) from exc
        return read_response(response._replace(body=json.dumps(data).encode()), url, seconds)


@dataclass(frozen=True)
class ResponsesAPI(NativeAPI):
    """The model `model` at `url`/responses, by the protocol of OpenAI's reasoning models.

    Results of tools carry their pictures (`pictures`) if the agent leaves them there (its protocol
    `NativeCalls` with `pictures: tool`), and encrypted thoughts go back in later turns; nothing is
    stored at the server. `server_tools` are tools that the provider runs,
    such as `{type: code_interpreter, container: {type: auto}}`. The other settings are those of
    `ChatAPI`; the protocol has no `seed`, `stop` or `top_k`.
    """

    protocol = "Responses"
    dialect = "openai"
    absent_settings = ("choices_as", "seed", "stop", "top_k", "choices")
    reply_fields = ("output",)
    reserved = RESERVED_FIELDS | {
        "input",
        "instructions",
        "store",
        "max_output_tokens",
        "top_logprobs",
    }

    @property
    def path(self) -> str:
        """The path, below `url`, that requests are sent to."""
        return "responses"

    def translate(self, body: Json, options: CallOptions) -> Json:
        """Convert a chat-completions body to the Responses protocol."""
        return responses.make_response_request(body)

    def make_completion(self, data: Json) -> Json:
        """Convert a reply in the Responses protocol to a chat completion."""
        return responses.make_response_completion(data)


def make_messages_headers(key: str | None) -> dict[str, str]:
    """Return the headers for requests to Anthropic."""
    return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})


@dataclass(frozen=True)
class MessagesAPI(NativeAPI):
    """The model `model` at `url`/messages, by the protocol of Anthropic's models.

    Results of tools carry their pictures (`pictures`) if the agent leaves them there (its protocol
    `NativeCalls` with `pictures: tool`), and signed thoughts go back in later turns. It needs
    `max_tokens`. `effort` and a stage's schema are sent as `output_config`; thoughts are asked for
    by `extra: {thinking: {type: adaptive}}`, and the provider's prompt cache by `extra:
    {cache_control: {type: ephemeral}}`. `server_tools` are tools that the provider runs, such as
    `{type: web_search_20250305, name: web_search}`. The other settings are those of `ChatAPI`; the
    protocol has no `seed`, `logprobs` or `detail`, and newer models take no `temperature`, `top_p`
    or `top_k`, which the provider's own client dropped in version 1.
    """

    protocol = "Messages"
    dialect = "anthropic"
    absent_settings = ("choices_as", "seed", "logprobs", "detail", "choices")
    reply_fields = ("content",)
    reserved = RESERVED_FIELDS | {"messages", "system", "max_tokens", "stop_sequences", "top_k"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_tokens is None:
            raise ValueError("MessagesAPI needs max_tokens; set it, such as max_tokens: 4096")

    @property
    def default_url(self) -> str:
        """The URL that is used if none is set."""
        return "https://api.anthropic.com/v1"

    @property
    def path(self) -> str:
        """The path, below `url`, that requests are sent to."""
        return "messages"

    def make_auth_headers(self, key: str | None) -> dict[str, str]:
        """Return the headers with the version of the protocol, and with the key if there is one."""
        return make_messages_headers(key)

    def translate(self, body: Json, options: CallOptions) -> Json:
        """Convert a chat-completions body to the Messages protocol."""
        return messages.make_message_request(body)

    def make_completion(self, data: Json) -> Json:
        """Convert a reply in the Messages protocol to a chat completion."""
        return messages.make_signed_completion(data)


def make_contents_headers(key: str | None) -> dict[str, str]:
    """Return the header that carries the key to Gemini."""
    return {"x-goog-api-key": key} if key else {}


@dataclass(frozen=True)
class GeminiAPI(NativeAPI):
    """The model `model` at `url`/models/NAME:generateContent, by Gemini's protocol.

    Results of tools carry their pictures (`pictures`, which Gemini 3 and later accept) if the agent
    leaves them there (its protocol `NativeCalls` with `pictures: tool`), and thought signatures go
    back in later turns. `detail` low or high is sent as the media resolution of the request,
    `effort` as the thinking level. `CallOptions.choices` is sent as an enumeration. Further fields
    belong in `extra: {generationConfig: {...}}`. `server_tools` are tools that the provider runs,
    such as `{codeExecution: {}}`. The other settings are those of `ChatAPI`.
    """

    protocol = "generateContent"
    dialect = "gemini"
    reply_fields = ("candidates", "promptFeedback", "usageMetadata")
    reserved = RESERVED_FIELDS | {"contents", "systemInstruction"}

    @property
    def default_url(self) -> str:
        """The URL that is used if none is set."""
        return "https://generativelanguage.googleapis.com/v1beta"

    @property
    def path(self) -> str:
        """The path, below `url`, that requests are sent to."""
        return f"models/{self.model.removeprefix('models/')}:generateContent"

    def make_auth_headers(self, key: str | None) -> dict[str, str]:
        """Return the header that carries the key, if there is one."""
        return make_contents_headers(key)

    def translate(self, body: Json, options: CallOptions) -> Json:
        """Convert a chat-completions body to the generateContent protocol."""
        request = gemini.make_content_request(body)
        if options.choices is None:
            return request
        choices: Sequence[str] = list(options.choices)
        form = {
            "responseMimeType": "text/x.enum",
            "responseSchema": {"type": "STRING", "enum": choices},
        }
        return merge_fields(request, {"generationConfig": form})

    def make_completion(self, data: Json) -> Json:
        """Convert a reply in the generateContent protocol to a chat completion."""
        return gemini.make_signed_completion(data)
