"""Two servers, one model name: two models, unless a `name:` says that they are one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.pipelines.config import load_plan
from tests.chat_server import ChatServer, chat_server
from tests.first_day.studies import records, run_study, said, write_study


def endpoints(folder: Path) -> set[str]:
    """The servers that gave the replies of a run."""
    return {reply.served_by["endpoint"] for one in records(folder) for reply in one.replies}


def fleet(*servers: ChatServer) -> str:
    return "model.url=[" + ",".join(server.url for server in servers) + "]"


def test_two_servers_of_one_model_name_are_asked_apart(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as two:
        for server in (one, two, one):
            output = run_study(tmp_path, one.url, "--fresh", f"model.url={server.url}")
            assert "came from the cache" not in output
        assert (one.stats["requests"], two.stats["requests"]) == (4, 4)
        sweep = f"sweep={{model.url: ['{one.url}', '{two.url}']}}"
        run_study(tmp_path / "swept", one.url, sweep)
        assert (one.stats["requests"], two.stats["requests"]) == (8, 8)
        rows = score_table(tmp_path / "swept/study").where(task="jigsaw").rows
        names = {row.contestant for row in rows}
        assert {f"plain [model.url={server.url}]" for server in (one, two)} <= names


def test_models_of_two_servers_side_by_side_are_not_the_same(tmp_path: Path) -> None:
    model = "{use: pipelines.models.ChatAPI, model: m, url: 'http://h:%s/v1'}"
    more = f"models: {{a: {model % 1}, b: {model % 2}}}\n"
    more += "contestants: {a: {model: a}, b: {model: b}}\n"
    study = write_study(tmp_path, "http://h:1/v1", more=more)
    assert len({arm.id for arm in load_plan(study).points}) == 2
    twice = "model.url=[http://h:1/v1,http://h:1/v1/]"
    assert "names a server twice: http://h:1/v1" in said(
        "check", write_study(tmp_path, "http://h:1/v1"), twice, code=2
    )


def test_a_name_makes_a_fleet_one_model_and_says_whose_replies_they_are(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as two:
        for server in (one, two):
            words = ("--fresh", "model.name=fleet", f"model.url={server.url}")
            output = run_study(tmp_path, one.url, *words)
        assert (one.stats["requests"], two.stats["requests"]) == (4, 0)
        here, there = (server.url.removeprefix("http://") for server in (two, one))
    whose = f"4 replies came from the cache as {there} gave them; the model at {here} has the same"
    assert whose in output and endpoints(tmp_path) == {there}


def test_a_run_is_replayed_where_the_environment_names_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        second = "{use: pipelines.models.ChatAPI, model: eyes, prices: {in: 1, out: 1}}"
        asks = f"stages.ask={{use: prompting.turns.CaptionThenAnswer, captioner: {second}}}"
        run_study(tmp_path, server.url, asks, "model.url=null", "model.prices={in: 1, out: 1}")
        asked, run = server.stats["requests"], tmp_path / "study"
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        assert "4 records the same bit for bit" in said("replay", run)
        sample = next(iter(RunFolder(run).samples.values())).id
        assert "FAILED" not in said("show", run, sample)
        assert "(list price)" in said("score", run)
        assert server.stats["requests"] == asked


def test_a_fleet_shares_the_questions(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.2") as one, chat_server(None, "--delay", "0.2") as two:
        run_study(tmp_path, one.url, fleet(one, two), "--workers", "4", n=12)
        assert (one.stats["requests"], two.stats["requests"]) == (6, 6)
        assert (one.stats["probes"], two.stats["probes"]) == (1, 1)
    assert endpoints(tmp_path) == {server.url.removeprefix("http://") for server in (one, two)}


def test_a_dead_server_of_a_fleet_is_left_alone(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as two:
        two.kill()
        output = run_study(tmp_path, one.url, fleet(two, one))
        assert "0 failed" in output and one.stats["requests"] == 4
        assert f"{two.url} could not always be asked, so the other server was" in output
        one.kill()
        words = ("--fresh", fleet(one, two), "model.temperature=1")
        output = run_study(tmp_path, one.url, *words, code=1)
    assert "stopped: http://" in output and "cannot be reached" in output and "0 new" in output


def test_a_server_that_dies_while_a_run_goes_on_costs_nothing(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.2") as one, chat_server(None, "--delay", "0.2") as two:
        threading.Timer(0.4, two.kill).start()
        output = run_study(tmp_path, one.url, fleet(one, two), "--workers", "4", n=16)
    assert "16 new" in output and "0 failed" in output
