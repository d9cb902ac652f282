"""Requested waits of a server in headers, error fields and sentences."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

import pytest

from looktwice.pipelines.model import ModelError, Reply
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.refusals.bodies import (
    MAX_SEARCHED_VALUES,
    MAX_TEXT_LENGTH,
    iterate_values,
)
from looktwice.pipelines.models.refusals.waits import read_seconds
from looktwice.pipelines.models.wrappers import Retried
from tests.canned import URL, response
from tests.counted_work import FakeTime
from tests.tables import table

NOW = 1_795_849_200.0  # 2026-11-28 07:00:00 UTC


@pytest.fixture(autouse=True)
def at_seven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)


def wait_of(status: int, headers: Mapping[str, str], body: Any) -> float | None:
    """Return the wait that a refusal requests."""
    with pytest.raises(ModelError) as caught:
        read_response(response(status, body, headers), URL, 0.0)
    assert caught.value.retryable
    return caught.value.retry_after


def expect(seconds: float | None) -> Any:
    return seconds and pytest.approx(seconds, rel=1e-9, abs=1e-6)


@table
def test_waits_in_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_of(429, headers, {"error": {"message": "busy"}}) == expect(seconds)


@table
def test_waits_in_bodies(body: Any, seconds: float | None) -> None:
    assert wait_of(429, {}, body) == expect(seconds)


@table
def test_waits_in_sentences(words: str, seconds: float | None) -> None:
    error = {"message": words, "code": "rate_limit_exceeded"}
    assert wait_of(429, {}, {"error": error}) == wait_of(503, {}, words) == expect(seconds)


@table
def test_which_of_several_waits_counts(
    status: int, headers: dict[str, str], body: Any, seconds: float | None
) -> None:
    assert wait_of(status, headers, body) == expect(seconds)


@table
def test_waits_written_in_seconds(text: str, seconds: float | None) -> None:
    assert read_seconds(text, NOW) == expect(seconds)


def test_a_wait_is_parsed_in_every_documented_unit() -> None:
    rng = random.Random(4)
    for _ in range(300):
        minutes, seconds = rng.randrange(60), rng.randrange(60_000) / 1000
        whole = minutes * 60 + seconds
        for text in (
            f"{minutes}m{seconds}s",
            f"{minutes} min {seconds} sec",
            f"{minutes} minutes and {seconds} seconds",
            f"{whole:.3f}s",
            f"{whole * 1000:.0f}ms",
            f"{NOW + whole:.3f}",
            f"{(NOW + whole) * 1000:.0f}",
        ):
            said = wait_of(429, {"x-ratelimit-reset": text}, {"error": {"message": "no"}})
            assert said == pytest.approx(whole, abs=2e-3), text


@table
def test_the_wait_between_attempts(
    told: float | None, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: low)
    errors = [ModelError("busy", status=429, retryable=True, retry_after=told)] * len(waits)

    def ask() -> Reply:
        if errors:
            raise errors.pop()
        return Reply("(A)")

    stop = FakeTime()
    model = Retried(None, stop=stop)  # type: ignore[arg-type]
    assert model.wrap_call(ask).text == "(A)" and stop.waits == waits


def test_only_a_bounded_part_of_an_error_is_searched() -> None:
    many = [*iterate_values({"message": "wait " * 100_000, "details": ["x"] * 100_000})]
    assert len(many) == MAX_SEARCHED_VALUES
    assert max(len(fact.value) for fact in many if isinstance(fact.value, str)) == MAX_TEXT_LENGTH
    deep: Any = "deep"
    for _ in range(50):
        deep = {"raw": deep}
    assert 1 < len([*iterate_values(deep)]) < 50
