"""What the providers' own clients send for ten conversations, compared with ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from looktwice.pipelines.models.wire import write_request
from tests.extras.wires.client_types import PACKAGES, find_package, standard_base64
from tests.extras.wires.conversations import Asked, conversations, make_model
from tests.extras.wires.native_server import NativeServer, native_server
from tests.extras.wires.provider_turns import replies

Json = dict[str, Any]
Send = Callable[[Json], Any]


def make_openai(url: str) -> Send:
    client = import_module("openai").OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
    return lambda body: client.responses.create(**body)


def make_anthropic(url: str) -> Send:
    client = import_module("anthropic").Anthropic(api_key="k", base_url=url, max_retries=0)
    return lambda body: client.messages.create(**body)


def make_google(url: str) -> Send:
    genai: Any = import_module("google.genai")
    options = genai.types.HttpOptions(base_url=url)
    client = genai.Client(api_key="k", http_options=options)

    def send(body: Json) -> Any:
        turns = [genai.types.Content.model_validate(turn) for turn in body["contents"]]
        fields = {name: value for name, value in body.items() if name != "contents"}
        fields |= fields.pop("generationConfig", {})
        config = genai.types.GenerateContentConfig.model_validate(fields)
        return client.models.generate_content(model="m", contents=turns, config=config)

    return send


CLIENTS = {"openai": make_openai, "anthropic": make_anthropic, "google.genai": make_google}


def get_both(name: str, server: NativeServer, send: Send, asked: Asked) -> tuple[bytes, bytes]:
    """Return the body that looktwice makes, and the one that the client sends for it."""
    messages, options, settings = asked
    ours = write_request(make_model(name, **settings).make_body(messages, 0, options))
    send(json.loads(ours))
    return ours, server.bodies[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_ten_conversations_reach_the_server_as_the_client_sends_them(name: str) -> None:
    package = find_package(name)
    with native_server(replies(name)) as server:
        server.is_strict = False
        send = CLIENTS[package](server.url)
        both = {title: get_both(name, server, send, a) for title, a in conversations(name).items()}
    values = {title: tuple(map(json.loads, pair)) for title, pair in both.items()}
    if name == "GeminiAPI":
        values = {title: tuple(map(standard_base64, pair)) for title, pair in values.items()}
    differing = [title for title, (ours, theirs) in values.items() if ours != theirs]
    assert len(both) == 10 and differing == []


@pytest.mark.slow
def test_google_s_client_writes_a_picture_with_other_characters() -> None:
    package = find_package("GeminiAPI")
    with native_server(replies("GeminiAPI")) as server:
        server.is_strict = False
        send = CLIENTS[package](server.url)
        asked = conversations("GeminiAPI")["a picture"]
        ours, theirs = map(json.loads, get_both("GeminiAPI", server, send, asked))
    picture, same = (body["contents"][0]["parts"][0]["inlineData"] for body in (ours, theirs))
    assert {"+", "/"} & set(picture["data"]) and {"-", "_"} & set(same["data"])
