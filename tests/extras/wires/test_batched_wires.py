"""Batches of the native protocols: bodies and replies are those of direct requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from looktwice.extras.batches.dialects import DIALECTS, Batch
from looktwice.extras.batches.model import Batched
from looktwice.extras.wires.native import NativeAPI
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.pipelines.models.wire import write_request
from tests.canned import response
from tests.chat_server import chat_server
from tests.extras.wires.conversations import URL, conversations, make_model, read
from tests.extras.wires.provider_turns import replies
from tests.first_day.studies import records, run_study

Json = dict[str, Any]
DIALECT_OF = {"ResponsesAPI": "openai", "MessagesAPI": "anthropic", "GeminiAPI": "gemini"}
every = pytest.mark.parametrize("name", DIALECT_OF)


@every
def test_a_line_of_a_batch_has_the_body_of_the_direct_request(name: str) -> None:
    messages, options, settings = conversations(name)["six turns"]
    model = make_model(name, **settings)
    batched = Batched(model)
    assert (batched.active_dialect, batched.identity) == (DIALECT_OF[name], model.identity)
    body = json.loads(write_request(batched.chat.make_body(messages, 0, options)))
    line = json.loads(DIALECTS[batched.active_dialect](model, URL).format_line("k", body))
    place = {"ResponsesAPI": "body", "MessagesAPI": "params", "GeminiAPI": "request"}[name]
    assert (line["custom_id"], line[place]) == ("k", body)
    assert line.get("url", "/v1/responses") == "/v1/responses"


@dataclass(frozen=True)
class Answers:
    """Stands in for `send` of a model; returns one response."""

    model: NativeAPI
    body: str
    asked: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def send(self, method: str, url: str, path: str, *more: Any) -> HttpResponse:
        self.asked.append(path)
        return response(200, self.body)


def make_results(name: str, reply: Json) -> str:
    """Return a file of results in the provider's format."""
    if name == "ResponsesAPI":
        return json.dumps({"custom_id": "k", "response": {"status_code": 200, "body": reply}})
    if name == "MessagesAPI":
        return json.dumps({"custom_id": "k", "result": {"type": "succeeded", "message": reply}})
    answers = {"inlinedResponses": {"inlinedResponses": [{"response": reply}]}}
    return json.dumps({"name": "b", "metadata": {}, "response": answers})


@every
def test_a_reply_of_a_batch_is_that_of_the_direct_request(name: str) -> None:
    reply = replies(name)[3]
    chat: Any = Answers(make_model(name), make_results(name, reply))
    server = DIALECTS[DIALECT_OF[name]](chat, URL)
    ((key, answered),) = server.yield_responses(Batch("b", True, files=("f",)), ["k"])
    direct = read(name, json.dumps(reply).encode())
    assert key == "k" and len(direct.tool_calls) == 2
    assert replace(chat.model.read(answered, URL, 0.0), seconds=0.0) == direct


@pytest.mark.parametrize("kind", ["MessagesAPI", "GeminiAPI"])
def test_a_run_in_batches_of_a_native_protocol_brings_replies(tmp_path: Path, kind: str) -> None:
    base: Mapping[str, str] = {"MessagesAPI": "/v1", "GeminiAPI": "/v1beta"}
    with chat_server() as server:
        url = server.url.removesuffix("/v1") + base[kind]
        chat = f"{{use: pipelines.models.{kind}, model: tiny, url: '{url}', max_tokens: 50}}"
        word = f"model={{use: pipelines.models.Batched, look: 0.05, chat: {chat}}}"
        output = run_study(tmp_path, url, word, n=2)
        assert "2 new, 0 existing, 0 failed" in output and server.stats["batched"] == 2
        assert all(record.calls[0]["reply"]["text"] for record in records(tmp_path))
