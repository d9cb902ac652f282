"""Equivalent formats of servers: tokens, log-probabilities, and errors next to partial text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.answers import make_refusal, read_response
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.pipelines.models.wire import parse_reply
from tests.tables import table

Json = dict[str, Any]
URL = "http://127.0.0.1:9/v1"


@table
def test_tokens_are_counted_in_every_documented_field(body: Json, counts: list[int]) -> None:
    message = {"content": "(A)"}
    choice, rest = body.get("choice", {}), {k: v for k, v in body.items() if k != "choice"}
    usage = parse_reply({"choices": [{"message": message, **choice}], **rest}, 0.0).usage
    assert [*vars(usage).values()] == counts


@table
def test_invalid_token_counts_are_not_a_reply(usage: Json) -> None:
    with pytest.raises(ModelError) as caught:
        parse_reply({"choices": [{"message": {"content": "(A)"}}], "usage": usage}, 0.0)
    assert caught.value.retryable


@table
def test_log_probabilities_are_read_in_both_formats(logprobs: Any, read: list[list[Any]]) -> None:
    reply = parse_reply({"choices": [{"message": {"content": "(A)"}, "logprobs": logprobs}]}, 0.0)
    assert [[[*pair] for pair in token.items()] for token in reply.logprobs] == read


@table
def test_errors_next_to_a_partial_text(choice: Json, status: int, again: bool, said: str) -> None:
    half = {"message": {"content": "It is (A), because"}, **choice}
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    body = json.dumps({"choices": [half], "usage": usage}).encode()
    with pytest.raises(ModelError) as caught:
        read_response(HttpResponse(200, {}, body), URL, 0.0)
    assert (caught.value.status, caught.value.retryable) == (status, again)
    assert said in str(caught.value)
    assert caught.value.usage is not None and caught.value.usage.tokens_out == 4, "it is billed"


@table
def test_harmless_error_fields_leave_a_reply_intact(choice: Json, finish: str) -> None:
    whole = {"message": {"content": "(A)"}, **choice}
    body = json.dumps({"choices": [whole, {"error": {"message": "of another"}}]}).encode()
    reply = read_response(HttpResponse(200, {}, body), URL, 0.0)
    assert (reply.text, reply.finish) == ("(A)" if finish == "stop" else "", finish)


@table
def test_a_refusal_about_attached_fields_gives_advice(message: str, said: str) -> None:
    exc = make_refusal(HttpResponse(400, {}, b""), URL, {"message": message})
    assert said in str(exc) and not exc.retryable


@table
def test_text_and_thoughts_are_separated(message: Json, text: str, reasoning: str) -> None:
    reply = parse_reply({"choices": [{"message": message, "finish_reason": "stop"}]}, 0.0)
    assert (reply.text, reply.reasoning) == (text, reasoning)


@table
def test_harmless_top_level_error_fields_leave_a_reply_intact(error: Any) -> None:
    body = json.dumps({"choices": [{"message": {"content": "(A)"}}], "error": error}).encode()
    assert read_response(HttpResponse(200, {}, body), URL, 0.0).text == "(A)"
