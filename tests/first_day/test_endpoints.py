"""Two servers, one model name: two models, unless a `name:` says that they are one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.pipelines.config import load_plan
from tests.chat_server import ChatServer, chat_server
from tests.first_day.studies import looktwice, write_study


def test_two_servers_of_one_model_name_are_asked_apart(tmp_path: Path) -> None:
    """In a shared --out, replies of another server came back from the cache."""
    with chat_server() as one, chat_server() as two:
        config = write_study(tmp_path, one.url)
        for server in (one, two, one):
            result = looktwice(
                "run", config, "--out", tmp_path, "--fresh", f"model.url={server.url}"
            )
            assert result.exit_code == 0 and "came from the cache" not in result.output
        assert (one.stats["requests"], two.stats["requests"]) == (4, 4)


def test_a_sweep_over_urls_is_a_contestant_for_each(tmp_path: Path) -> None:
    """Two URLs in one file were "the same", and one of them was asked alone."""
    with chat_server() as one, chat_server() as two:
        more = f'sweep: {{model.url: ["{one.url}", "{two.url}"]}}\n'
        config = write_study(tmp_path, one.url, more=more)
        assert looktwice("run", config, "--out", tmp_path).exit_code == 0
        assert (one.stats["requests"], two.stats["requests"]) == (4, 4)
        names = {
            row.contestant for row in score_table(tmp_path / "study").where(task="jigsaw").rows
        }
        assert {f"plain [model.url={server.url}]" for server in (one, two)} <= names


def test_models_of_two_servers_side_by_side_are_not_the_same(tmp_path: Path) -> None:
    models = "{a: {use: pipelines.models.ChatAPI, model: m, url: 'http://h:1/v1'}, "
    models += "b: {use: pipelines.models.ChatAPI, model: m, url: 'http://h:2/v1'}}"
    more = f"models: {models}\ncontestants: {{a: {{model: a}}, b: {{model: b}}}}\n"
    assert (
        len({arm.id for arm in load_plan(write_study(tmp_path, "http://h:1/v1", more=more)).points})
        == 2
    )


def test_a_name_makes_a_fleet_one_model_and_says_whose_replies_they_are(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as two:
        config = write_study(tmp_path, one.url)
        for server in (one, two):
            flags = ("model.name=fleet", f"model.url={server.url}")
            result = looktwice("run", config, "--out", tmp_path, "--fresh", *flags)
        assert (one.stats["requests"], two.stats["requests"]) == (4, 0)
        here, there = (server.url.removeprefix("http://") for server in (two, one))
        said = (
            f"4 replies came from the cache as {there} gave them; the model at {here} has the same"
            " `name`"
        )
        assert said in result.output
    replies = [
        reply
        for record in RunFolder(tmp_path / "study").records().values()
        for reply in record.replies
    ]
    assert {reply.served_by["endpoint"] for reply in replies} == {there}


def test_a_run_is_replayed_where_the_environment_names_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The endpoint is part of the identity, and `url` may be left to OPENAI_BASE_URL, also inside a
    stage."""
    with chat_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        config = write_study(tmp_path, server.url)
        held = "{use: pipelines.models.ChatAPI, model: eyes, prices: {in: 1, out: 1}}"
        asks = f"stages.ask={{use: prompting.turns.CaptionThenAnswer, captioner: {held}}}"
        flags = (asks, "model.url=null", "model.prices={in: 1, out: 1}")
        assert looktwice("run", config, "--out", tmp_path, *flags).exit_code == 0
        asked = server.stats["requests"]
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        assert "4 records the same bit for bit" in looktwice("replay", tmp_path / "study").output
        sample = next(iter(RunFolder(tmp_path / "study").samples.values())).id
        shown = looktwice("show", tmp_path / "study", sample)
        assert shown.exit_code == 0 and "FAILED" not in shown.output
        assert "(list price)" in looktwice("score", tmp_path / "study").output
        assert server.stats["requests"] == asked


def fleet(*servers: ChatServer) -> str:
    return "model.url=[" + ",".join(server.url for server in servers) + "]"


def test_a_fleet_shares_the_questions(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.2") as one, chat_server(None, "--delay", "0.2") as two:
        config = write_study(tmp_path, one.url, n=12)
        assert (
            looktwice("run", config, "--out", tmp_path, fleet(one, two), "--workers", "4").exit_code
            == 0
        )
        assert (one.stats["requests"], two.stats["requests"]) == (6, 6)
        assert (one.stats["probes"], two.stats["probes"]) == (1, 1)
    replies = [
        reply
        for record in RunFolder(tmp_path / "study").records().values()
        for reply in record.replies
    ]
    places = {server.url.removeprefix("http://") for server in (one, two)}
    assert {reply.served_by["endpoint"] for reply in replies} == places


def test_a_dead_server_of_a_fleet_is_left_alone(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as two:
        config = write_study(tmp_path, one.url)
        two.kill()
        result = looktwice("run", config, "--out", tmp_path, fleet(two, one))
        assert result.exit_code == 0 and "0 failed" in result.output, result.output
        assert one.stats["requests"] == 4
        assert f"{two.url} could not always be asked, so the other server was" in result.output, (
            result.output
        )
        one.kill()
        result = looktwice(
            "run", config, "--out", tmp_path, "--fresh", fleet(one, two), "model.temperature=1"
        )
    assert result.exit_code == 1 and "stopped: http://" in result.output, result.output
    assert "cannot be reached" in result.output and "0 new" in result.output, result.output


def test_a_server_that_dies_while_a_run_goes_on_costs_nothing(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.3") as one, chat_server(None, "--delay", "0.3") as two:
        config = write_study(tmp_path, one.url, n=16)
        threading.Timer(0.6, two.kill).start()
        result = looktwice("run", config, "--out", tmp_path, fleet(one, two), "--workers", "4")
        assert (
            result.exit_code == 0 and "16 new" in result.output and "0 failed" in result.output
        ), result.output


def test_a_server_that_is_broken_does_not_draw_the_requests(tmp_path: Path) -> None:
    """It answers at once, so it always had the fewest, and every attempt went there."""
    with (
        chat_server(None, "--first", ",".join(["503"] * 60)) as broken,
        chat_server(None, "--delay", "0.2") as whole,
    ):
        config = write_study(tmp_path, broken.url, n=12)
        result = looktwice("run", config, "--out", tmp_path, fleet(broken, whole), "--workers", "6")
        assert (
            result.exit_code == 0 and "12 new" in result.output and "0 failed" in result.output
        ), result.output
        assert broken.stats["requests"] <= 8 and whole.stats["requests"] >= 12


def test_a_server_is_named_once(tmp_path: Path) -> None:
    result = looktwice(
        "check", write_study(tmp_path, "http://h:1/v1"), "model.url=[http://h:1/v1,http://h:1/v1/]"
    )
    assert result.exit_code == 2 and "names a server twice: http://h:1/v1" in result.output, (
        result.output
    )
