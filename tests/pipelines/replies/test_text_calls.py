"""Tool calls in the text of replies, in the formats of many models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looktwice.eval.readers.reader import CALL_HINT_PATTERN
from looktwice.pipelines.model import Reply
from looktwice.pipelines.models.wire import parse_reply
from looktwice.pipelines.replies.text_calls import read_text_calls, strip_text_calls
from looktwice.prompting.agent import NativeCalls
from tests.tables import table


@table
def test_tool_calls_written_as_text(reply: str, calls: list[list[Any]], words: str) -> None:
    found = [call for call, *_ in read_text_calls(reply)]
    assert [[call.name, json.loads(call.arguments)] for call in found] == calls
    assert [call.id for call in found] == [f"call_{number}" for number in range(len(calls))]
    assert strip_text_calls(reply) == words
    assert words == reply or CALL_HINT_PATTERN.search(
        reply
    )  # otherwise readers would not look for it


def test_calls_in_thoughts_are_ignored_and_those_of_the_server_count() -> None:
    call = '<tool_call>{"name": "zoom", "arguments": {}}</tool_call>'
    kept, count = NativeCalls().read_calls(Reply(f"<think>{call}</think>{call}{call}"), 1)
    assert ([call.name for call in kept], count) == (["zoom"], 2)
    message = {"content": call, "tool_calls": [{"function": {"name": "mark", "arguments": "{}"}}]}
    kept, count = NativeCalls().read_calls(parse_reply({"choices": [{"message": message}]}, 0), 9)
    assert ([call.name for call in kept], count) == (["mark"], 1)


@pytest.mark.parametrize("arguments", ['{"box": [1, 2, 3, 4]}', {"box": [1, 2, 3, 4]}])
def test_the_deprecated_function_call_field_is_read(arguments: Any) -> None:
    message = {"content": None, "function_call": {"name": "zoom", "arguments": arguments}}
    choice = {"message": message, "finish_reason": "function_call"}
    reply = parse_reply({"choices": [choice]}, 0)
    (call,) = reply.tool_calls
    assert (reply.finish, call.name, call.id) == ("tool", "zoom", "call_0")
    assert json.loads(call.arguments) == {"box": [1, 2, 3, 4]}
