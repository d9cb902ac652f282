"""Values from servers or files that could not be written again, and how they are handled."""

import json
from typing import Any

import pytest

from looktwice.pipelines.json_input import MAX_NESTING_DEPTH, read_json, write_canonical
from looktwice.pipelines.model import ModelError, Reply
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse

HALF = "\ud83d"
TOKEN = {"token": HALF, "logprob": -1, "top_logprobs": []}


def test_lone_surrogates_are_replaced_and_valid_characters_kept() -> None:
    halves = '"\\ud83d"', '{"\\uDE00": 1}', '[["a \\ud83d b"]]', f'"{HALF}"', b'"\xed\xa0\xbd"'
    assert all("?" in write_canonical(read_json(half)).encode().decode() for half in halves)
    whole = '"\\ud83d\\ude00"', '"\U0001f600"', '{"a": [1, 2.5, null, true]}', '"\\\\ud83d"'
    assert all(read_json(text) == json.loads(text) for text in whole)


def test_deep_nesting_is_refused() -> None:
    deep = "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500, f"{'[' * 101}1{']' * 101}"
    for text in deep:
        with pytest.raises(ValueError, match=r"100 levels|Expecting"):
            read_json(text)
    assert read_json(f"[{'[],' * 500}[]]") == [[]] * 501
    assert read_json("[" * MAX_NESTING_DEPTH + "]" * MAX_NESTING_DEPTH)


def completion(**changed: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "(A)"}
    choices = [{"message": message, "finish_reason": "stop"}]
    return {"choices": choices, "usage": {}, "model": "m"} | changed


def answer(data: Any) -> Reply:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return read_response(HttpResponse(200, {}, body), "http://127.0.0.1/v1", 0.1)


def test_every_text_of_a_response_can_be_written() -> None:
    choices: list[dict[str, Any]] = [
        {"message": {"content": "(A)"}, "logprobs": {"content": [TOKEN]}},
        {"message": {"content": HALF, "reasoning": HALF, "refusal": HALF}},
        {"message": {"tool_calls": [{"id": HALF, "function": {"name": HALF}}]}},
    ]
    bodies = [completion(choices=[choice]) for choice in choices]
    bodies += [completion(**{name: HALF}) for name in ("model", "system_fingerprint", "provider")]
    assert all(write_canonical(answer(body).to_dict()).encode() for body in bodies)


def test_a_malformed_response_can_be_retried() -> None:
    counted = json.dumps(completion(usage={"prompt_tokens": "N"}))
    negative = {"prompt_tokens": -5, "completion_tokens": 3}
    for body in (
        b"[" * 100_000,
        *(counted.replace('"N"', number).encode() for number in ("1e999", "9" * 5000)),
        json.dumps({"error": {"message": HALF}}).encode(),
        json.dumps(completion(usage=negative)).encode(),
        b"\xff\xfe\x00",
    ):
        with pytest.raises(ModelError) as raised:
            answer(body)
        assert raised.value.retryable and str(raised.value).encode()
