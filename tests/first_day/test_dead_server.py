"""A server that is not there, goes away or refuses everybody: the run stops with a sentence and
blames no sample."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from looktwice.eval import Photos, evaluate
from looktwice.eval.records import RunError
from looktwice.pipelines import ChatAPI, Pipeline
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models import chat_api, wrappers
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.prompting import Ask, MultipleChoice
from tests.chat_server import chat_server
from tests.first_day.studies import records, run_study, when

CLOSED = "http://127.0.0.1:9/v1"
GOES_ON = "what was answered is kept, and the same command goes on later"


def test_nobody_there_stops_the_run_before_the_first_request(tmp_path: Path) -> None:
    start = time.monotonic()
    output = run_study(tmp_path, CLOSED, code=1)
    assert time.monotonic() - start < 10
    assert "stopped: http://127.0.0.1:9 cannot be reached" in output and GOES_ON in output
    assert not any(word in output for word in ("the report says why", "accuracy", "ssl:default"))
    assert records(tmp_path) == [] and not (tmp_path / "study/report.html").exists()
    arm = Pipeline({"choose": MultipleChoice(), "ask": Ask()})
    with pytest.raises(RunError, match=r"cannot be reached.* same call goes on later"):
        evaluate(Photos("jigsaw", n=2), {"plain": arm}, ChatAPI("m", CLOSED), out=tmp_path / "run")


def test_a_server_that_goes_away_is_left_within_15_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrappers, "SECONDS", 0.3)
    monkeypatch.setattr(wrappers, "UNREACHED", 2)
    with chat_server(None, "--delay", "0.1") as server:
        start = time.monotonic()
        with when(lambda: server.stats["replies"] >= 3, server.kill):
            output = run_study(tmp_path, server.url, "--workers", 2, n=40, code=1)
        assert time.monotonic() - start < 15
    assert "cannot be reached" in output and GOES_ON in output
    assert "the report says why" not in output
    assert len(records(tmp_path)) >= 3 and not any(record.error for record in records(tmp_path))


REFUSALS = {"401": "no key was sent", "402": "credit", "404": "model's name"}


@pytest.mark.parametrize(("status", "limit"), [("401", 40), ("402", 40), ("404", 2)])
def test_a_server_that_refuses_everybody(tmp_path: Path, status: str, limit: int) -> None:
    with chat_server(None, "--fail", f"{status}=1") as server:
        words = ("--workers", 2, "--limit", limit)
        output = run_study(tmp_path, server.url, *words, n=40, code=1)
        assert server.stats["requests"] <= wrappers.ALIKE + 1
    assert all(words in output for words in (f"answered {status}", REFUSALS[status], GOES_ON))
    assert records(tmp_path) == []


def test_a_web_page_in_place_of_an_api_is_the_endpoint_s_failure() -> None:
    with pytest.raises(ModelError, match="check that `url` is right") as raised:
        read_response(HttpResponse(200, {}, b"<html>welcome</html>"), CLOSED, 0.1)
    assert wrappers.is_of_endpoint(raised.value)


@pytest.mark.parametrize(("status", "delay"), [(401, 0.0), (403, 0.0), (200, 0.3)])
def test_a_refused_key_is_noticed_before_any_question_and_any_other_answer_is_a_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, delay: float
) -> None:
    monkeypatch.setattr(chat_api, "PROBE_SECONDS", 0.2)
    refused = status == 401
    with chat_server(None, "--models", str(status), "--models-delay", str(delay)) as server:
        output = run_study(tmp_path, server.url, code=int(refused))
        assert (server.stats["requests"], server.stats["probes"]) == (0 if refused else 4, 1)
    assert ("no key was sent: keys go only to the host" in output) is refused


@pytest.mark.parametrize(("cached", "kept"), [(4, 12), (0, 0)])
def test_refusals_stop_no_model_whose_replies_lie_in_the_cache(
    tmp_path: Path, cached: int, kept: int
) -> None:
    cache = ("--cache", tmp_path / "cache")
    with chat_server(None, "--first", ",".join(["ok"] * cached + ["400"] * 12)) as server:
        if cached:
            run_study(tmp_path / "one", server.url, *cache, "--workers", 1, n=cached)
        output = run_study(tmp_path / "two", server.url, *cache, "--workers", 1, n=12, code=1)
    errors = [record.error for record in records(tmp_path / "two")]
    assert (len(errors), errors.count("")) == (kept, cached), output
    assert ("stopped: " in output) == (cached == 0)
    if cached:  # nobody is asked where all is cached
        run_study(tmp_path / "three", server.url, *cache, n=cached)


def test_a_sample_that_the_server_cannot_take_is_that_sample_s_failure(tmp_path: Path) -> None:
    words = ("model.name=tiny", "--workers", 1)
    with chat_server(None, "--first", "ok,404,404,400,ok,404") as server:
        output = run_study(tmp_path, server.url, *words, n=6, code=1)
    assert "4 samples FAILED; the report says why" in output
    errors = [bool(record.error) for record in records(tmp_path)]
    assert sorted(errors) == [False] * 2 + [True] * 4
    with chat_server(None, "--first", "404,404,404,404") as server:
        # it has answered the others before
        assert "4 samples FAILED" in run_study(tmp_path, server.url, *words, n=6, code=1)
