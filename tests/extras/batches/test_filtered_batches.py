"""Verdicts of content filters in the batches of each provider give filtered replies."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from looktwice.extras.batches.dialects import DIALECTS, Batch
from looktwice.extras.wires import gemini
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.wire import parse_reply
from tests.canned import URL, Canned, response
from tests.paths import ROOT
from tests.tables import check_all, read_yaml, table


def check_verdict(status: int, body: Any) -> None:
    row = json.dumps({"custom_id": "k", "response": {"status_code": status, "body": body}})
    batches = DIALECTS["openai"](Canned(responses=(response(200, row),)), URL)
    ((key, answer),) = batches.yield_responses(Batch("b", True, files=("f",)), ["k"])
    assert (key, read_response(answer, URL, 0.0).finish) == ("k", "filter")


def test_a_filter_verdict_is_the_same_in_a_batch() -> None:
    direct = read_yaml(ROOT / "tests" / "pipelines" / "test_filters.yaml")
    _, *rows = direct["test_a_filter_verdict_makes_a_reply_filtered"]
    check_all((form, partial(check_verdict, status, body)) for form, status, body in rows)


@table
def test_filter_verdicts_in_the_batches_of_providers(dialect: str, row: Any, status: int) -> None:
    if dialect == "gemini":
        answered = {"inlinedResponses": {"inlinedResponses": [row]}}
        row = {"name": "b", "metadata": {}, "response": answered}
    batches = DIALECTS[dialect](Canned(responses=(response(200, json.dumps(row)),)), URL)
    ((key, answer),) = batches.yield_responses(Batch("b", True), ["k"])
    assert (key, answer.status) == ("k", status)
    assert read_response(answer, URL, 0.0).finish == "filter"


def test_a_batch_result_without_candidate_or_verdict_is_repeated() -> None:
    with pytest.raises(ModelError) as caught:
        parse_reply(gemini.make_content_completion({"usageMetadata": {"promptTokenCount": 3}}), 0.0)
    assert caught.value.retryable
