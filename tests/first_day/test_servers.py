"""Servers that are down, refuse or send too much stop a run and fail no sample; and fleets."""

import threading
from pathlib import Path

import numpy as np
import pytest

from looktwice.eval import Photos, evaluate
from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunError, RunFolder
from looktwice.pipelines import ChatAPI, Message, Picture, Pipeline, View
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models import chat_api, wrappers
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.prompting import Ask, MultipleChoice
from tests.chat_server import ChatServer, chat_server
from tests.first_day.studies import do_when, get_output, records, run_study, write_study
from tests.first_day.test_costs import EACH, write_priced_study

CLOSED = "http://127.0.0.1:9/v1"
GOES_ON = "answers so far are kept, and the same command resumes the run"


def test_an_unreachable_server_stops_the_run_before_the_first_request(tmp_path: Path) -> None:
    output = run_study(tmp_path, CLOSED, code=1)
    assert "stopped: http://127.0.0.1:9 cannot be reached" in output and GOES_ON in output
    assert not any(word in output for word in ("the report says why", "accuracy", "ssl:default"))
    assert records(tmp_path) == [] and not (tmp_path / "study/report.html").exists()
    arm = Pipeline({"choose": MultipleChoice(), "ask": Ask()})
    with pytest.raises(RunError, match=r"cannot be reached.* same call resumes later"):
        evaluate(Photos("jigsaw", n=2), {"plain": arm}, ChatAPI("m", CLOSED), out=tmp_path / "run")


@pytest.mark.slow
def test_a_server_that_disappears_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrappers, "MIN_UNREACHED_SECONDS", 0.3)
    monkeypatch.setattr(wrappers, "MAX_UNREACHED_CALLS", 2)
    with (
        chat_server(None, "--delay", "0.1") as server,
        do_when(lambda: server.stats["replies"] >= 3, server.kill),
    ):
        output = run_study(tmp_path, server.url, "--workers", 2, n=40, code=1)
    assert "cannot be reached" in output and GOES_ON in output
    kept = records(tmp_path)
    assert 3 <= len(kept) < 40 and not any(record.error for record in kept)


REFUSALS = {"401": "no key was sent", "402": "credit", "404": "model's name"}


@pytest.mark.parametrize(("status", "limit"), [("401", 40), ("402", 40), ("404", 2)])
def test_a_server_that_refuses_all_requests_ends_the_run(
    tmp_path: Path, status: str, limit: int
) -> None:
    with chat_server(None, "--fail", f"{status}=1") as server:
        words = ("--workers", 2, "--limit", limit)
        output = run_study(tmp_path, server.url, *words, n=40, code=1)
        assert server.stats["requests"] <= wrappers.MAX_EQUAL_FAILURES + 1
    assert all(words in output for words in (f"answered {status}", REFUSALS[status], GOES_ON))
    assert records(tmp_path) == []


def test_an_html_page_instead_of_json_is_a_failure_of_the_endpoint() -> None:
    with pytest.raises(ModelError, match="check that `url` is right") as raised:
        read_response(HttpResponse(200, {}, b"<html>welcome</html>"), CLOSED, 0.1)
    assert wrappers.is_endpoint_fault(raised.value)


@pytest.mark.parametrize(("status", "delay"), [(401, 0.0), (403, 0.0), (200, 0.3)])
def test_a_refused_key_is_noticed_before_the_first_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, delay: float
) -> None:
    monkeypatch.setattr(chat_api, "PROBE_TIMEOUT_SECONDS", 0.2)
    refused = status == 401
    with chat_server(None, "--models", str(status), "--models-delay", str(delay)) as server:
        output = run_study(tmp_path, server.url, code=int(refused))
        assert (server.stats["requests"], server.stats["probes"]) == (0 if refused else 4, 1)
    assert ("no key was sent: keys are sent only to the host" in output) is refused


@pytest.mark.parametrize(("cached", "kept"), [(4, 12), (0, 0)])
def test_refusals_do_not_stop_a_model_whose_replies_are_cached(
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
    if cached:  # nothing is sent if everything is cached
        run_study(tmp_path / "three", server.url, *cache, n=cached)


def test_a_request_that_the_server_rejects_fails_only_its_sample(tmp_path: Path) -> None:
    words = ("model.name=tiny", "--workers", 1)
    with chat_server(None, "--first", "ok,404,404,400,ok,404") as server:
        output = run_study(tmp_path, server.url, *words, n=6, code=1)
    assert "4 samples FAILED; the report says why" in output
    errors = [bool(record.error) for record in records(tmp_path)]
    assert sorted(errors) == [False] * 2 + [True] * 4
    with chat_server(None, "--first", "404,404,404,404") as server:
        # it answered the others before
        assert "4 samples FAILED" in run_study(tmp_path, server.url, *words, n=6, code=1)


def endpoints(folder: Path) -> set[str]:
    """Return the servers that gave the replies of a run."""
    return {reply.served_by["endpoint"] for one in records(folder) for reply in one.replies}


def fleet(*servers: ChatServer) -> str:
    return "model.url=[" + ",".join(server.url for server in servers) + "]"


def test_two_servers_with_one_model_name_are_asked_separately(tmp_path: Path) -> None:
    with chat_server() as first, chat_server() as second:
        for server in (first, second, first):
            output = run_study(tmp_path, first.url, "--again=all", f"model.url={server.url}")
            assert "reused from the cache" not in output
        assert (first.stats["requests"], second.stats["requests"]) == (4, 4)
        sweep = f"sweep={{model.url: ['{first.url}', '{second.url}']}}"
        run_study(tmp_path / "swept", first.url, sweep)
        assert (first.stats["requests"], second.stats["requests"]) == (8, 8)
        rows = score_table(tmp_path / "swept/study").where(task="jigsaw").rows
        names = {row.contestant for row in rows}
        assert {f"plain [model.url={server.url}]" for server in (first, second)} <= names


def test_models_of_two_servers_are_distinguished(tmp_path: Path) -> None:
    model = "{use: pipelines.models.ChatAPI, model: m, url: 'http://h:%s/v1'}"
    more = f"models: {{a: {model % 1}, b: {model % 2}}}\n"
    more += "contestants: {a: {model: a}, b: {model: b}}\n"
    study = write_study(tmp_path, "http://h:1/v1", more=more)
    assert len({arm.id for arm in load_plan(study).points}) == 2
    study = write_study(tmp_path, "http://h:1/v1")
    output = get_output("check", study, "model.url=[http://h:1/v1,http://h:1/v1/]", code=2)
    assert "twice: http://h:1/v1" in output


def test_a_name_makes_a_fleet_one_model_and_records_which_server_replied(tmp_path: Path) -> None:
    with chat_server() as first, chat_server() as second:
        for server in (first, second):
            words = ("--again=all", "model.name=fleet", f"model.url={server.url}")
            output = run_study(tmp_path, first.url, *words)
        assert (first.stats["requests"], second.stats["requests"]) == (4, 0)
        there = first.url.removeprefix("http://")
    whose = f"4 replies of the server at {there} were reused from the cache"
    assert whose in output and endpoints(tmp_path) == {there}


def test_a_run_is_replayed_with_another_server_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        second = "{use: pipelines.models.ChatAPI, model: eyes, prices: {in: 1, out: 1}}"
        asks = f"stages.ask={{use: prompting.turns.CaptionThenAnswer, captioner: {second}}}"
        run_study(tmp_path, server.url, asks, "model.url=null", "model.prices={in: 1, out: 1}")
        asked, run = server.stats["requests"], tmp_path / "study"
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        assert "4 records identical bit for bit" in get_output("replay", run)
        sample = next(iter(RunFolder(run).samples.values())).id
        assert "FAILED" not in get_output("view", run, "--sample", sample)
        assert "(list price)" in get_output("score", run)
        assert server.stats["requests"] == asked


def test_a_dead_server_of_a_fleet_is_skipped(tmp_path: Path) -> None:
    with chat_server() as first, chat_server() as second:
        second.kill()
        output = run_study(tmp_path, first.url, fleet(second, first))
        assert "0 failed" in output and first.stats["requests"] == 4
        assert f"{second.url} could not always be reached, so the other server was" in output
        first.kill()
        words = ("--again=all", fleet(first, second), "model.temperature=1")
        output = run_study(tmp_path, first.url, *words, code=1)
    assert "stopped: http://" in output and "cannot be reached" in output and "0 new" in output


SLOW = ("--delay", "0.2")


@pytest.mark.slow
def test_a_fleet_divides_the_questions(tmp_path: Path) -> None:
    with chat_server(None, *SLOW) as first, chat_server(None, *SLOW) as second:
        run_study(tmp_path, first.url, fleet(first, second), "--workers", "4", n=12)
        asked = [server.stats["requests"] for server in (first, second)]
        assert sum(asked) == 12 and min(asked) > 0
        assert (first.stats["probes"], second.stats["probes"]) == (1, 1)
    assert endpoints(tmp_path) == {server.url.removeprefix("http://") for server in (first, second)}


@pytest.mark.slow
def test_a_server_that_dies_during_a_run_loses_no_question(tmp_path: Path) -> None:
    with chat_server(None, *SLOW) as first, chat_server(None, *SLOW) as second:
        threading.Timer(0.4, second.kill).start()
        output = run_study(tmp_path, first.url, fleet(first, second), "--workers", "4", n=16)
    assert "16 new" in output and "0 failed" in output


CHOOSE = "stages.choose={use: prompting.wording.Template, text: '{{ question }} #%s'}"


TOLD: dict[str, tuple[tuple[str, ...], tuple[object, ...], int, int, str]] = {
    # a refused request is sent again, and counted
    "wait": (("--first", "429,500,429", "--retry-after", "0.1"), (), 0, 7, "2 times (429)"),
    # a null log-probability is skipped and is no failure
    "null": ((), (CHOOSE % "null", "model.logprobs=2"), 0, 4, "4 new"),
    # a response cut off by the network is no reply
    "network": ((), (CHOOSE % "network", "--max-requests", 4), 1, 4, "(0 new"),
    "novel": ((), (CHOOSE % "novel",), 0, 4, "'ran_dry'"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", TOLD)
def test_the_behaviour_of_a_server_is_reported_once(tmp_path: Path, what: str) -> None:
    flags, words, code, requests, tells = TOLD[what]
    with chat_server(None, *flags) as server:
        output = run_study(tmp_path, server.url, *words, code=code)
        assert server.stats["requests"] == requests
    assert output.count(tells) == 1, output
    assert not [record for record in records(tmp_path) if record.error]


def test_billed_responses_without_a_reply_are_counted(tmp_path: Path) -> None:
    with chat_server() as server:
        run = (
            "run",
            write_priced_study(tmp_path, server.url, 4),
            CHOOSE % "torn",
            "--out",
            tmp_path,
        )
        output = get_output(*run, "--budget", 2.5 * EACH, code=1)
        assert server.stats["requests"] == 2
        assert "0.00064 spent of a --budget of 0.0008" in output
        assert "2 answers could not be used, but cost 214 tokens" in output
        assert float((tmp_path / "study/.spent").read_text().split()[0]) == pytest.approx(2 * EACH)
        get_output(*run, "--budget", 2.5 * EACH, code=1)
        assert server.stats["requests"] == 2, "a later command knows"


def test_check_asks_once_and_reports_the_cost(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_priced_study(tmp_path, server.url, 4)
        get_output("check", config)
        assert server.stats["requests"] == 0
        output = get_output("check", config, "--ask")
        assert "asked tiny once: '(" in output and server.stats["requests"] == 1
        assert "100 tokens in, 7 out, cost 0.00032" in output
        words = (CHOOSE % "other", "models.tiny.max_tokens=9")
        output = get_output("check", config, "--ask", *words, code=2)
        assert "1 fault, listed at the end" in output and "model 'tiny': http" in output
        assert "set `token_field: max_completion_tokens`" in output
        assert server.stats["requests"] == 2
    assert "1 fault, listed at the end" in get_output("check", config, "--ask", code=2), (
        "it is down now"
    )


def test_several_large_pictures_are_sent_without_a_warning() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (700, 700, 3), np.uint8)
    with chat_server() as server:
        model = ChatAPI("tiny", url=server.url)
        reply = model((Message("user", (View.of(Picture(noise)), "Which?")),))
        assert reply.text.startswith("(") and server.stats["requests"] == 1
