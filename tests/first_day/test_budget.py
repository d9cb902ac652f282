"""`--budget` and `--max-requests`: a run stops by itself, says so, and goes on later without asking
anything twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chat_server import chat_server
from tests.first_day.studies import run_study, said, write_study

PRICED = (
    'models: {tiny: {use: pipelines.models.ChatAPI, model: tiny, url: "%s", prices: {in: 2.5, out:'
    " 10}}}\nmodel: tiny\n"
)
EACH = (100 * 2.5 + 7 * 10) / 1e6  # of a question of the test server
WORKERS = 4


def priced(folder: Path, url: str, n: int) -> Path:
    """A study whose model has prices."""
    path = write_study(folder, url, n)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("model:")]
    path.write_text("\n".join(lines) + "\n" + PRICED % url)
    return path


def test_no_more_requests_are_sent_than_allowed(tmp_path: Path) -> None:
    with chat_server() as server:
        first = run_study(tmp_path, server.url, "--max-requests", "7", n=20, code=1)
        assert server.stats["requests"] == 7, "none was counted and then not sent"
        assert "7 requests sent, as many as --max-requests allows" in first
        assert "(7 new" in first and "goes on later" in first
        second = run_study(tmp_path, server.url, "--max-requests", "20", n=20)
        assert "(13 new, 7 were there" in second and server.stats["requests"] == 20
    with chat_server(None, "--first", "500") as server:  # attempts that fail are requests too
        words = ("--max-requests", "3", "--workers", "1")
        assert "(2 new" in run_study(tmp_path / "failed", server.url, *words, code=1)
        assert server.stats["requests"] == 3


def test_a_budget_is_kept_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.02") as server:
        config = priced(tmp_path, server.url, n=40)
        words = "run", config, "--out", tmp_path, "--workers", WORKERS, "--budget"
        first = said(*words, 10 * EACH, code=1)
        assert re.search(r"0\.00[34]\S* spent of a --budget of 0\.0032", first)
        said(*words, 10 * EACH, code=1)  # what the first run paid counts
        assert server.stats["requests"] == 10
        # which a twelfth would exceed: what one costs is remembered
        told = "0.00352 spent of a --budget of 0.00368, and a request may cost 0.00032"
        assert told in said(*words, 11.5 * EACH, code=1) and server.stats["requests"] == 11
        assert "(29 new, 11 were there" in said(*words, 100 * EACH)
        assert server.stats["requests"] == 40


TWICE = """
stages:
  choose: {use: prompting.wording.MultipleChoice}
  first: {use: prompting.turns.Ask}
  ask: {use: prompting.turns.Ask}
contestants:
  plain: {}
  other: {stages: {add: {use: prompting.wording.YesNo, after: first}}}
"""


def test_what_was_paid_counts_also_for_samples_without_a_record_and_stages_that_are_shared(
    tmp_path: Path,
) -> None:
    with chat_server() as server:
        config = priced(tmp_path, server.url, n=6)
        head = config.read_text().split("stages:")[0]
        config.write_text(head + PRICED % server.url + TWICE.replace("YesNo", "System, text: Look"))
        for most in (5, 4):
            said("run", config, "--out", tmp_path, "--max-requests", most, code=1)
        assert server.stats["requests"] == 9
        spent = float((tmp_path / "study/.spent").read_text().split()[0])
        assert spent == pytest.approx(9 * EACH, abs=2e-6)
        stopped = said("run", config, "--out", tmp_path, "--budget", 8.5 * EACH, code=1)
        assert server.stats["requests"] == 9 and "spent of a --budget" in stopped


def test_replies_from_a_cache_cost_nothing_and_uncounted_ones_keep_no_budget(
    tmp_path: Path,
) -> None:
    with chat_server() as server:
        config = priced(tmp_path, server.url, n=8)
        said("run", config, "--out", tmp_path)
        assert "(8 new" in said("run", config, "--out", tmp_path, "--fresh", "--budget", EACH / 2)
        assert server.stats["requests"] == 8
        told = "--budget: tiny has no prices; give it `prices: {in: "
        assert told in run_study(tmp_path / "new", server.url, "--budget", "1", code=2)
        assert server.stats["requests"] == 8
    with chat_server(None, "--no-usage") as server:
        config = priced(tmp_path, server.url, n=20)
        words = ("--fresh", "--budget", "1", "--workers", WORKERS)
        output = said("run", config, "--out", tmp_path / "uncounted", *words, code=1)
        assert "counts no tokens" in output and "use --max-requests" in output
        assert server.stats["requests"] <= 2 * WORKERS
