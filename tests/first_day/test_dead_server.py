"""A server that is not there, goes away or refuses everybody: the run stops with a sentence and
blames no sample."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from looktwice.eval import Photos, evaluate
from looktwice.eval.records import RunError, RunFolder
from looktwice.pipelines import ChatAPI, Pipeline
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models import chat_api, endpoint
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.prompting import Ask, MultipleChoice
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, when, write_study

CLOSED = "http://127.0.0.1:9/v1"
GOES_ON = "what was answered is kept, and the same command goes on later"


def test_nobody_there_stops_the_run_before_the_first_request(tmp_path: Path) -> None:
    """240 requests to a closed port took 8 min 33 s, and ended with "240 failed ... the report says
    why"."""
    start = time.monotonic()
    result = looktwice("run", write_study(tmp_path, CLOSED), "--out", tmp_path)
    assert time.monotonic() - start < 10
    assert result.exit_code == 1
    assert (
        "stopped: http://127.0.0.1:9 cannot be reached" in result.output
        and GOES_ON in result.output
    )
    assert "the report says why" not in result.output and "accuracy" not in result.output
    assert RunFolder(tmp_path / "study").records() == {}
    assert not (tmp_path / "study/report.html").exists()


def test_the_same_in_python_is_an_error(tmp_path: Path) -> None:
    arm = Pipeline({"choose": MultipleChoice(), "ask": Ask()})
    with pytest.raises(RunError, match=r"cannot be reached.* same call goes on later"):
        evaluate(Photos("jigsaw", n=2), {"plain": arm}, ChatAPI("m", CLOSED), out=tmp_path / "run")


def test_a_server_that_goes_away_is_left_within_15_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker notices within ten seconds; here it has less patience."""
    monkeypatch.setattr(endpoint, "SECONDS", 0.3)
    monkeypatch.setattr(endpoint, "UNREACHED", 2)
    with chat_server(None, "--delay", "0.1") as server:
        config = write_study(tmp_path, server.url, n=40)
        start = time.monotonic()
        with when(lambda: server.stats["replies"] >= 3, server.kill):
            result = looktwice("run", config, "--out", tmp_path, "--workers", 2)
        assert time.monotonic() - start < 15
    records = RunFolder(tmp_path / "study").records().values()
    assert (
        result.exit_code == 1 and "cannot be reached" in result.output and GOES_ON in result.output
    )
    assert len(records) >= 3 and not any(record.error for record in records)
    assert "the report says why" not in result.output


REFUSALS = {
    "401": "no key was sent",
    "402": "credit",
    "403": "no key was sent",
    "404": "model's name",
}


@pytest.mark.parametrize(("status", "limit"), [*((status, 40) for status in REFUSALS), ("404", 2)])
def test_a_server_that_refuses_everybody(tmp_path: Path, status: str, limit: int) -> None:
    """Every sample was FAILED, with 0.0 in the table, where the key or the model's name was
    wrong."""
    with chat_server(None, "--fail", f"{status}=1") as server:
        config = write_study(tmp_path, server.url, n=40)
        result = looktwice("run", config, "--out", tmp_path, "--workers", 2, "--limit", limit)
        assert server.stats["requests"] <= endpoint.ALIKE + 1
    assert result.exit_code == 1
    assert (
        f"answered {status}" in result.output
        and REFUSALS[status] in result.output
        and GOES_ON in result.output
    )
    assert RunFolder(tmp_path / "study").records() == {}


def test_a_refused_key_is_noticed_before_any_question(tmp_path: Path) -> None:
    with chat_server(None, "--models", "401") as server:
        result = looktwice("run", write_study(tmp_path, server.url), "--out", tmp_path)
        assert (server.stats["requests"], server.stats["probes"], result.exit_code) == (0, 1, 1)
    assert "no key was sent: keys go only to the host" in result.output


def test_a_web_page_in_place_of_an_api_is_the_endpoint_s_failure() -> None:
    """Samples were asked six times each and FAILED; for a wrong `url` none of them is to blame."""
    with pytest.raises(ModelError, match="check that `url` is right") as raised:
        read_response(HttpResponse(200, {}, b"<html>welcome</html>"), CLOSED, 0.1)
    assert endpoint.is_of_endpoint(raised.value)


@pytest.mark.parametrize(("status", "delay"), [(403, 0.0), (404, 0.0), (500, 0.0), (200, 0.3)])
def test_any_other_answer_is_a_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, delay: float
) -> None:
    """Also an answer that comes late: a server that is busy with its first model need not list it
    in time."""
    monkeypatch.setattr(chat_api, "PROBE_SECONDS", 0.2)
    with chat_server(None, "--models", str(status), "--models-delay", str(delay)) as server:
        result = looktwice("run", write_study(tmp_path, server.url), "--out", tmp_path)
        assert (server.stats["requests"], server.stats["probes"], result.exit_code) == (4, 1, 0), (
            result.output
        )


def test_nobody_is_asked_where_all_is_cached(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url)
        assert looktwice("run", config, "--out", tmp_path).exit_code == 0
    assert looktwice("run", config, "--out", tmp_path, "--fresh").exit_code == 0


@pytest.mark.parametrize(("cached", "kept"), [(4, 12), (0, 0)])
def test_refusals_stop_no_model_whose_replies_lie_in_the_cache(
    tmp_path: Path, cached: int, kept: int
) -> None:
    """A stored reply says that this model can be asked; without one, five refusals of the same
    words are the endpoint's fault."""
    kinds = ["ok"] * cached + ["400"] * 12
    with chat_server(None, "--first", ",".join(kinds)) as server:
        config = write_study(tmp_path, server.url, n=12)
        words = ["run", config, "--cache", tmp_path / "cache", "--workers", 1, "--out"]
        if cached:
            assert looktwice(*words, tmp_path / "first", f"task.n={cached}").exit_code == 0
        result = looktwice(*words, tmp_path / "second")
    records = RunFolder(tmp_path / "second/study").records().values()
    assert len(records) == kept, result.output
    assert sum(not record.error for record in records) == cached
    assert ("stopped: " in result.output) == (cached == 0)


def test_a_sample_that_the_server_cannot_take_is_that_sample_s_failure(tmp_path: Path) -> None:
    """Failures between answers are FAILED as before, also those that might have been the
    endpoint's."""
    with chat_server(None, "--first", "ok,404,404,400,ok,404") as server:
        config = write_study(tmp_path, server.url, n=6)
        config.write_text(config.read_text().replace("model: tiny", "model: tiny, name: tiny"))
        result = looktwice("run", config, "--out", tmp_path, "--workers", 1)
    assert result.exit_code == 1 and "4 samples FAILED; the report says why" in result.output
    records = RunFolder(tmp_path / "study").records().values()
    assert sorted(bool(record.error) for record in records) == [False] * 2 + [True] * 4
    with chat_server(None, "--first", "404,404,404,404") as server:
        again = looktwice("run", config, "--out", tmp_path, f"model.url={server.url}")
    assert again.exit_code == 1 and "4 samples FAILED" in again.output, (
        "it has answered the others before"
    )
