"""Verdicts of content filters in the format of each provider: one request, and a filtered reply.
Similar replies are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from looktwice.pipelines.model import Message, Model, ModelError, Reply, Usage
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.cache import Cached, Store
from looktwice.pipelines.models.wrappers import Retried
from tests.canned import URL, Canned, response
from tests.tables import table

HELLO = (Message("user", ("hello",)),)
BLANK = {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}
COUNTED = {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}


def wrap_without_waits(canned: Canned, store: Store | None = None) -> Model:
    """Return the model as a run wraps it, without waits between attempts."""
    retried = Retried(canned, initial_delay=1e-6)
    return retried if store is None else Cached(retried, store)


@table
def test_a_filter_verdict_makes_a_reply_filtered(form: str, status: int, body: Any) -> None:
    canned = Canned(responses=(response(status, body),))
    assert wrap_without_waits(canned)(HELLO).finish == "filter"
    assert len(canned.asked) == 1


@table
def test_replies_that_no_filter_blocked(
    form: str, status: int, body: Any, again: bool, said: str
) -> None:
    with pytest.raises(ModelError) as caught:
        read_response(response(status, body), URL, 0.0)
    assert (caught.value.retryable, said in str(caught.value)) == (again, True)


@table
def test_replies_next_to_filter_verdicts_are_read(
    form: str, body: Any, text: str, finish: str
) -> None:
    reply = read_response(response(200, body), URL, 0.0)
    assert (reply.text, reply.finish) == (text, finish)


def test_a_filtered_reply_keeps_its_usage_and_server() -> None:
    verdict = {"finish_reason": "FinishReason.SAFETY", "message": None}
    billed = {"usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    error = {"error": {"code": "content_filter"}}
    bodies: list[dict[str, Any]] = [
        {"model": "m-1", "choices": [verdict], "usage": {"prompt_tokens": 9}},
        {"choices": [error | {"message": {"content": "The"}}], **billed},
        error | billed,
    ]
    first, *others = (read_response(response(200, body), URL, 0.0) for body in bodies)
    assert first == Reply("", "filter", usage=Usage(9, 0), served_by={"model": "m-1"})
    assert others == [Reply("", "filter", usage=Usage(9, 3))] * 2


@table
def test_an_unbilled_empty_reply_is_retried(form: str, message: Any, more: Any) -> None:
    choice = {"message": message, "finish_reason": "stop"} | more.pop("choice", {})
    canned = Canned(responses=(response(200, {"choices": [choice], **more}),))
    with pytest.raises(ModelError, match="empty reply"):
        wrap_without_waits(canned)(HELLO)
    assert len(canned.asked) == 6


@table
def test_an_empty_reply_of_the_model_itself_stays_empty(form: str, message: Any, more: Any) -> None:
    choice = {"message": message, "finish_reason": "stop"} | more.pop("choice", {})
    reply = read_response(response(200, {"choices": [choice], **more}), URL, 0.0)
    assert not reply.text.strip() and not reply.is_blank


def test_a_blank_reply_is_not_cached_and_an_old_one_is_requested_again(tmp_path: Path) -> None:
    store, counted = Store(tmp_path), Canned(responses=(response(200, BLANK | COUNTED),))
    full = {"choices": [{"message": {"content": "(A)"}, "finish_reason": "stop"}], **COUNTED}
    canned = Canned(responses=(response(200, BLANK), response(200, full)))
    assert wrap_without_waits(canned, store)(HELLO).text == "(A)"
    assert len(canned.asked) == 2 and len(store) == 1
    store._run("UPDATE replies SET reply = ?", json.dumps(Reply("").to_dict()))  # as it was stored
    again = Canned(responses=(response(200, full),))
    assert wrap_without_waits(again, store)(HELLO).text == "(A)" and len(again.asked) == 1
    assert wrap_without_waits(again, store)(HELLO).cached and len(again.asked) == 1
    model = wrap_without_waits(
        counted, Store(tmp_path / "counted")
    )  # an empty one with tokens is cached
    assert [model(HELLO).cached for _ in range(2)] == [False, True] and len(counted.asked) == 1
