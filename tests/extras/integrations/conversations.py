"""Conversations in three protocols, and a model that gives their replies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from looktwice.pipelines.model import CallOptions, Message, Messages, Reply, Usage
from looktwice.pipelines.view import View
from tests.extras.integrations.served import questions
from tests.tables import read_yaml

Json = dict[str, Any]
PATHS = {"chat": "chat/completions", "responses": "responses", "messages": "messages"}
IMAGE = questions(1)[0][0]
ANSWER_FIELDS = {"id", "created", "created_at", "completed_at", "usage", "system_fingerprint"}
"""Fields of a response that differ between two of the same content, or have their own test."""


class Conversation(NamedTuple):
    """A conversation: the model's messages and replies, and the request and response of each
    protocol."""

    turns: list[list[str]]
    options: Json
    reply: Json
    chat: Json
    responses: Json
    messages: Json

    def request(self, protocol: str) -> Json:
        """Return the request of a protocol, without its model."""
        return dict(fill(getattr(self, protocol)["request"]))


@dataclass
class ScriptedModel:
    """A model that gives the replies it was made with, and records the messages it gets."""

    identity = "told"

    def __init__(self, *replies: Reply) -> None:
        self.replies = [*replies]
        self.asked: list[tuple[Messages, CallOptions]] = []

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        self.asked.append((messages, options))
        return self.replies[0] if len(self.replies) == 1 else self.replies.pop(0)


def fill(value: Any) -> Any:
    """Return a value of the YAML file with the picture in it."""
    text = json.dumps(value).replace("DATA_URL", IMAGE)
    return json.loads(text.replace("BASE64", IMAGE.partition(",")[2]))


def list_conversations() -> dict[str, Conversation]:
    """Return the conversations by name."""
    file = Path(__file__).with_name("test_protocols.yaml")
    return {name: Conversation(**case) for name, case in read_yaml(file)["conversations"].items()}


def make_reply(plain: Json) -> Reply:
    """Return a reply of the YAML file, with token counts."""
    reply = Reply.from_dict(plain)
    return Reply(**(vars(reply) | {"usage": Usage(11, 7, 3, 4)}))


def describe_turn(message: Message) -> list[str]:
    """Return a turn as the YAML file describes it: its role, its parts and its calls."""
    parts = ["IMAGE" if isinstance(part, View) else part for part in message.parts]
    calls = [f"{call.name} {call.arguments}" for call in message.tool_calls]
    return [message.role, *parts, *calls]


def list_pictures(messages: Sequence[Message]) -> list[str]:
    """Return the pictures of a conversation as data URLs."""
    return [view.picture.payload.data_url for turn in messages for view in turn.views]


def strip(value: Any) -> Any:
    """Return a response without the fields that differ between two responses of equal content."""
    if isinstance(value, list):
        return [strip(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    is_call = value.get("type") in ("function", "tool_use")
    return {k: strip(v) for k, v in value.items() if k not in ANSWER_FIELDS or is_call}


def read_events(text: str) -> list[Json]:
    """Return the events of a stream; check that the name of an event equals its type."""
    events = list[Json]()
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":")
        if lines and lines["data"] != "[DONE]":
            events.append(json.loads(lines["data"]))
            assert lines.get("event", events[-1].get("type")) == events[-1].get("type")
    return events


def join_message(events: Sequence[Json]) -> Json:
    """Join the events of a stream of Messages."""
    whole: Json = {}
    for event in events:
        kind, index = event["type"], event.get("index")
        if kind == "message_start":
            whole = event["message"]
        elif kind == "content_block_start":
            assert index == len(whole["content"])
            whole["content"].append(event["content_block"] | {"json": ""})
        elif kind == "content_block_delta":
            block, delta = whole["content"][index], event["delta"]
            for name in ("text", "thinking", "signature"):
                if name in delta:
                    block[name] += delta[name]
            block["json"] += delta.get("partial_json", "")
        elif kind == "content_block_stop":
            text = whole["content"][index].pop("json")
            if text:
                whole["content"][index]["input"] = json.loads(text)
        elif kind == "message_delta":
            whole |= event["delta"] | {"usage": event["usage"]}
    assert events[-1]["type"] == "message_stop"
    return whole
