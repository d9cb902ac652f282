"""Ten conversations of the kinds that studies have: pictures, tools, parallel results with
pictures, turns that a provider signed, and every setting."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from looktwice.extras.wires.native import GeminiAPI, MessagesAPI, NativeAPI, ResponsesAPI
from looktwice.pipelines import Message, Picture, View
from looktwice.pipelines.model import CallOptions, Messages, Reply, Tool
from looktwice.pipelines.models.http_client import HttpResponse
from tests.extras.wires.provider_turns import TURNS, replies

BOX = {"type": "array", "items": {"type": "number"}}
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
ZOOM = Tool("zoom", "Look closer.", {"type": "object", "properties": {"box": BOX}})
MODELS: dict[str, type[NativeAPI]] = {
    "ResponsesAPI": ResponsesAPI,
    "MessagesAPI": MessagesAPI,
    "GeminiAPI": GeminiAPI,
}
URL = "http://127.0.0.1:9/v1"


def make_model(name: str, **settings: Any) -> NativeAPI:
    """Return a model of this class."""
    return MODELS[name]("m", **{"url": URL, "max_tokens": 99, **settings})


def make_view(seed: int) -> View:
    """Return a picture of noise, whose base64 has every character."""
    return View.of(Picture(np.random.default_rng(seed).integers(0, 255, (9, 7, 3), np.uint8)))


def read_turn(name: str, number: int) -> Message:
    """Return a turn of the script as the model's reply."""
    body = json.dumps(replies(name)[number]).encode()
    return read(name, body).as_message()


def read(name: str, body: bytes, status: int = 200) -> Reply:
    """Return the reply in a response to a model of this class."""
    return make_model(name).read(HttpResponse(status, {}, body), URL, 0.0)


def answer_turn(turn: Message, number: int) -> list[Message]:
    """Return a turn, and for each of its calls a result with a picture."""
    results = [
        Message("tool", (f"Image {n + 2}:", make_view(10 * number + n)), call_id=call.id)
        for n, call in enumerate(turn.tool_calls)
    ]
    return [turn, *results]


Asked = tuple[Messages, CallOptions, dict[str, Any]]


def conversations(name: str) -> dict[str, Asked]:
    """Return ten conversations by name, with the options of the call and the model's settings."""
    asked = [Message("user", (make_view(0), "Which is nearer?"))]
    signed = [read_turn(name, number) for number in range(len(TURNS))]
    rounds = [message for n in range(5) for message in answer_turn(signed[n], n)]
    agent, plain = CallOptions(tools=(ZOOM,)), CallOptions()
    named = CallOptions(tools=(ZOOM,), tool_choice="zoom")
    needed = CallOptions(tools=(ZOOM,), tool_choice="required")
    # Anthropic's client has had no temperature since its version 1
    sampling = {"stop": ("END",)} if name == "MessagesAPI" else {"temperature": 0.5, "top_p": 0.9}
    system = [Message("system", ("Be brief.",))]
    return {
        "text": ([Message("user", ("Hello \u2603",))], plain, {}),
        "a picture": (asked, plain, sampling),
        "a system": ([*system, *asked], plain, {"system": "Answer."}),
        "a schema": (asked, CallOptions(schema=SCHEMA), {}),
        "effort": (asked, CallOptions(effort="low"), {}),
        "tools": (asked, agent, {}),
        "a named tool": (asked, named, {}),
        "a result": ([*asked, *answer_turn(signed[0], 0)], needed, {}),
        "parallel results": ([*asked, *answer_turn(signed[3], 3)], agent, {"pictures": "user"}),
        "six turns": ([*asked, *rounds, signed[5], *asked], agent, {}),
    }
