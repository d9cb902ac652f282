"""What a server or a file may hold that could not be written again, and what becomes of it."""

import json
from typing import Any

import pytest

from looktwice.pipelines.json_input import MOST_DEPTH, read_json
from looktwice.pipelines.model import ModelError, Reply, canonical
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse

HALF = "\ud83d"
TOKEN = {"token": HALF, "logprob": -1, "top_logprobs": []}


@pytest.mark.parametrize(
    "text", ['"\\ud83d"', '{"\\uDE00": 1}', '[["a \\ud83d b"]]', f'"{HALF}"', b'"\xed\xa0\xbd"']
)
def test_half_a_surrogate_pair_is_mended(text: str | bytes) -> None:
    assert "?" in canonical(read_json(text)).encode().decode()


@pytest.mark.parametrize(
    "text", ['"\\ud83d\\ude00"', '"\U0001f600"', '{"a": [1, 2.5, null, true]}', '"\\\\ud83d"']
)
def test_whole_characters_stay(text: str) -> None:
    assert read_json(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 500 + "1" + "}" * 500, f"{'[' * 101}1{']' * 101}"]
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested more than 100 levels|Expecting"):
        read_json(text)


def test_what_is_wide_and_not_deep_is_read() -> None:
    assert read_json(f"[{'[],' * 500}[]]") == [[]] * 501
    assert read_json("[" * MOST_DEPTH + "]" * MOST_DEPTH)


def completion(**changed: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "(A)"}
    return {
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": {},
        "model": "m",
    } | changed


def answer(data: Any, **headers: str) -> Reply:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return read_response(HttpResponse(200, headers, body), "http://127.0.0.1/v1", 0.1)


@pytest.mark.parametrize(
    "data",
    [
        completion(model=HALF),
        completion(system_fingerprint=HALF),
        completion(provider=HALF),
        *(
            completion(choices=[choice])
            for choice in (
                {"message": {"content": "(A)"}, "logprobs": {"content": [TOKEN]}},
                {"message": {"content": HALF, "reasoning": HALF, "refusal": HALF}},
                {"message": {"tool_calls": [{"id": HALF, "function": {"name": HALF}}]}},
            )
        ),
    ],
)
def test_every_text_of_a_response_can_be_written(data: Any) -> None:
    reply = answer(data)
    assert canonical(reply.to_dict()).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        *(
            json.dumps(completion(usage={"prompt_tokens": "N"})).replace('"N"', number).encode()
            for number in ("1e999", "9" * 5000)
        ),
        json.dumps({"error": {"message": HALF}}).encode(),
        json.dumps(completion(usage={"prompt_tokens": -5, "completion_tokens": 3})).encode(),
        b"\xff\xfe\x00",
    ],
)
def test_a_malformed_answer_may_be_asked_for_again(body: bytes) -> None:
    with pytest.raises(ModelError) as raised:
        answer(body)
    assert raised.value.retryable
    assert str(raised.value).encode()
