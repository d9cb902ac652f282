"""What servers do to a run: they ask to wait, bill what is no reply, break off, send far too much,
refuse a setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from looktwice.eval.records import RunFolder
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study
from tests.first_day.test_budget import EACH, priced

CHOOSE = "stages.choose={use: prompting.wording.Template, text: '{{ question }} #%s'}"


def errors(folder: Path) -> list[str]:
    return [
        record.error for record in RunFolder(folder / "study").records().values() if record.error
    ]


def test_a_run_says_how_often_the_server_refused(tmp_path: Path) -> None:
    flags = "--first", "429,500,429", "--retry-after", "0.1"
    with chat_server(None, *flags) as server:
        ended = looktwice("run", write_study(tmp_path, server.url), "--out", tmp_path)
    said = "asked to wait 2 times (429), and failed 1 time (500); all were asked again"
    assert ended.exit_code == 0 and said in ended.output, ended.output


def test_no_number_among_the_log_probabilities_is_none_and_no_failure(tmp_path: Path) -> None:
    """A null failed the reply, which was billed and asked for again: 24 requests for 4 samples."""
    with chat_server() as server:
        words = CHOOSE % "null", "model.logprobs=2"
        ended = looktwice("run", write_study(tmp_path, server.url), *words, "--out", tmp_path)
        assert ended.exit_code == 0 and server.stats["requests"] == 4, ended.output


def test_what_is_billed_counts_also_where_it_is_no_reply(tmp_path: Path) -> None:
    """It was asked again outside of the budget, and what had been spent was unknown."""
    with chat_server() as server:
        config = priced(tmp_path, server.url, 4)
        words = CHOOSE % "torn", "--budget", 2.5 * EACH, "--out", tmp_path
        ended = looktwice("run", config, *words)
        assert server.stats["requests"] == 2, ended.output
        assert "0.00064 spent of a --budget of 0.0008" in ended.output
        assert "2 answers could not be used, and billed all the same: 214 tokens" in ended.output
        assert float((tmp_path / "study/.spent").read_text().split()[0]) == pytest.approx(2 * EACH)
        looktwice("run", config, *words)
        assert server.stats["requests"] == 2, "a later command knows"


def test_half_an_answer_that_a_network_broke_off_is_none(tmp_path: Path) -> None:
    """It was scored as an answer."""
    with chat_server() as server:
        words = CHOOSE % "network", "--max-requests", 4, "--out", tmp_path
        ended = looktwice("run", write_study(tmp_path, server.url), *words)
        assert (
            ended.exit_code == 1 and "(0 new" in ended.output and server.stats["requests"] == 4
        ), ended.output


def test_a_reason_that_nobody_knows_is_said_once(tmp_path: Path) -> None:
    with chat_server() as server:
        ended = looktwice(
            "run", write_study(tmp_path, server.url), CHOOSE % "novel", "--out", tmp_path
        )
    assert ended.exit_code == 0 and "4 new" in ended.output
    assert ended.output.count("ended replies with the reason 'ran_dry', not known here") == 1, (
        ended.output
    )


def test_a_reply_of_many_bytes_fails_its_sample_in_a_sentence(tmp_path: Path) -> None:
    """One of 60 MB took a gigabyte of memory, and was asked for six times."""
    with chat_server() as server:
        ended = looktwice(
            "run", write_study(tmp_path, server.url), CHOOSE % "large", "--out", tmp_path
        )
        assert ended.exit_code == 1 and server.stats["requests"] == 4, ended.output
    said = "answered with more than 16 MiB, which is no reply; set `max_tokens`"
    assert len(errors(tmp_path)) == 4 and all(said in error for error in errors(tmp_path))


def test_the_first_refusals_in_the_same_words_stop_the_run_and_name_the_setting(
    tmp_path: Path,
) -> None:
    """A server that wants `max_completion_tokens` failed each of hundreds of samples."""
    with chat_server() as server:
        config = write_study(tmp_path, server.url, n=30)
        words = CHOOSE % "other", "model.max_tokens=9", "--out", tmp_path, "--workers", 2
        ended = looktwice("run", config, *words)
        assert ended.exit_code == 1 and server.stats["requests"] <= 6, ended.output
        assert (
            "stopped: http" in ended.output
            and "set `token_field: max_completion_tokens`" in ended.output
        )
        assert "(0 new" in ended.output and not errors(tmp_path), (
            "what stopped the run is asked later"
        )


def test_check_asks_once_and_says_what_it_cost(tmp_path: Path) -> None:
    with chat_server() as server:
        config = priced(tmp_path, server.url, 4)
        assert looktwice("check", config).exit_code == 0 and server.stats["requests"] == 0
        ended = looktwice("check", config, "--ask")
        assert ended.exit_code == 0 and server.stats["requests"] == 1, ended.output
        assert (
            "asked tiny once: '(" in ended.output
            and "100 tokens in, 7 out, cost 0.00032" in ended.output
        )
        ended = looktwice("check", config, "--ask", CHOOSE % "other", "models.tiny.max_tokens=9")
        assert ended.exit_code == 2 and "1 fault, named at the end" in ended.output, ended.output
        assert (
            "model 'tiny': http" in ended.output
            and "set `token_field: max_completion_tokens`" in ended.output
        )
        assert server.stats["requests"] == 2
