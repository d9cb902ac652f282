"""What servers do to a run: they ask to wait, bill what is no reply, break off, send far too much,
refuse a setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from looktwice.pipelines import ChatAPI, Message, Picture, View
from tests.chat_server import chat_server
from tests.first_day.studies import records, run_study, said
from tests.first_day.test_costs import EACH, priced

CHOOSE = "stages.choose={use: prompting.wording.Template, text: '{{ question }} #%s'}"


@pytest.mark.parametrize(
    ("flags", "words", "code", "requests", "tells"),
    [
        # what was refused is asked again, and counted
        (
            ("--first", "429,500,429", "--retry-after", "0.1"),
            (),
            0,
            7,
            "asked to wait 2 times (429), and failed 1 time (500); all were asked again",
        ),
        # no number among the log-probabilities is none and no failure
        ((), (CHOOSE % "null", "model.logprobs=2"), 0, 4, "4 new"),
        # half an answer that a network broke off is none
        ((), (CHOOSE % "network", "--max-requests", 4), 1, 4, "(0 new"),
        ((), (CHOOSE % "novel",), 0, 4, "ended replies with the reason 'ran_dry', not known here"),
    ],
    ids=["wait", "null", "network", "novel"],
)
def test_what_a_server_does_is_told_once(
    tmp_path: Path,
    flags: tuple[str, ...],
    words: tuple[object],
    code: int,
    requests: int,
    tells: str,
) -> None:
    with chat_server(None, *flags) as server:
        output = run_study(tmp_path, server.url, *words, code=code)
        assert server.stats["requests"] == requests
    assert output.count(tells) == 1, output
    assert not [record for record in records(tmp_path) if record.error]


def test_what_is_billed_counts_also_where_it_is_no_reply(tmp_path: Path) -> None:
    with chat_server() as server:
        run = ("run", priced(tmp_path, server.url, 4), CHOOSE % "torn", "--out", tmp_path)
        output = said(*run, "--budget", 2.5 * EACH, code=1)
        assert server.stats["requests"] == 2
        assert "0.00064 spent of a --budget of 0.0008" in output
        assert "2 answers could not be used, and billed all the same: 214 tokens" in output
        assert float((tmp_path / "study/.spent").read_text().split()[0]) == pytest.approx(2 * EACH)
        said(*run, "--budget", 2.5 * EACH, code=1)
        assert server.stats["requests"] == 2, "a later command knows"


def test_the_first_refusals_in_the_same_words_stop_the_run_and_name_the_setting(
    tmp_path: Path,
) -> None:
    with chat_server() as server:
        words = (CHOOSE % "other", "model.max_tokens=9", "--workers", 2)
        output = run_study(tmp_path, server.url, *words, n=30, code=1)
        assert server.stats["requests"] <= 6
    assert "stopped: http" in output and "set `token_field: max_completion_tokens`" in output
    assert "(0 new" in output and not records(tmp_path), "what stopped the run is asked later"


def test_check_asks_once_and_says_what_it_cost(tmp_path: Path) -> None:
    with chat_server() as server:
        config = priced(tmp_path, server.url, 4)
        said("check", config)
        assert server.stats["requests"] == 0
        output = said("check", config, "--ask")
        assert "asked tiny once: '(" in output and server.stats["requests"] == 1
        assert "100 tokens in, 7 out, cost 0.00032" in output
        words = (CHOOSE % "other", "models.tiny.max_tokens=9")
        output = said("check", config, "--ask", *words, code=2)
        assert "1 fault, named at the end" in output and "model 'tiny': http" in output
        assert "set `token_field: max_completion_tokens`" in output
        assert server.stats["requests"] == 2
    assert "1 fault, named at the end" in said("check", config, "--ask", code=2), "it is down now"


def test_several_large_pictures_go_out_without_a_warning() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (700, 700, 3), np.uint8)
    with chat_server() as server:
        model = ChatAPI("tiny", url=server.url)
        reply = model((Message("user", (View.of(Picture(noise)), "Which?")),))
        assert reply.text.startswith("(") and server.stats["requests"] == 1
