"""`--budget` and `--max-requests`: a run stops by itself, says so, and goes on later without asking
anything twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study

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
        config = write_study(tmp_path, server.url, n=20)
        first = looktwice("run", config, "--out", tmp_path, "--max-requests", "7")
        asked = server.stats["requests"]
        assert asked == 7, "none was counted and then not sent"
        assert (
            first.exit_code == 1
            and "7 requests sent, as many as --max-requests allows" in first.output
        )
        assert f"({asked} new" in first.output and "goes on later" in first.output
        second = looktwice("run", config, "--out", tmp_path, "--max-requests", "20")
        assert (
            second.exit_code == 0 and f"({20 - asked} new, {asked} were there" in second.output
        ), second.output
        assert server.stats["requests"] == 20


def test_attempts_that_fail_are_requests_too(tmp_path: Path) -> None:
    with chat_server(None, "--first", "500") as server:
        config = write_study(tmp_path, server.url, n=4)
        result = looktwice(
            "run", config, "--out", tmp_path, "--max-requests", "3", "--workers", "1"
        )
        assert server.stats["requests"] == 3 and "(2 new" in result.output, result.output


def test_a_budget_is_kept_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.02") as server:
        config = priced(tmp_path, server.url, n=40)
        words = "run", config, "--out", tmp_path, "--workers", WORKERS, "--budget"
        first = looktwice(*words, 10 * EACH)
        asked = server.stats["requests"]
        assert asked == 10
        assert first.exit_code == 1 and re.search(
            r"0\.00[34]\S* spent of a --budget of 0\.0032", first.output
        ), first.output
        again = looktwice(*words, 10 * EACH)  # what the first run paid counts
        assert server.stats["requests"] == asked and again.exit_code == 1
        # which a twelfth would exceed: what one costs is remembered
        halfway = looktwice(*words, 11.5 * EACH)
        asked = server.stats["requests"]
        said = "0.00352 spent of a --budget of 0.00368, and a request may cost 0.00032"
        assert asked == 11 and said in halfway.output
        last = looktwice(*words, 100 * EACH)
        assert last.exit_code == 0 and f"({40 - asked} new, {asked} were there" in last.output, (
            last.output
        )
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
            looktwice("run", config, "--out", tmp_path, "--max-requests", most)
        asked = server.stats["requests"]
        assert asked == 9
        spent = float((tmp_path / "study/.spent").read_text().split()[0])
        assert spent == pytest.approx(asked * EACH, abs=2e-6)
        stopped = looktwice("run", config, "--out", tmp_path, "--budget", (asked - 0.5) * EACH)
        assert server.stats["requests"] == asked and "spent of a --budget" in stopped.output


def test_a_server_that_counts_no_tokens_cannot_keep_a_budget(tmp_path: Path) -> None:
    with chat_server(None, "--no-usage") as server:
        config = priced(tmp_path, server.url, n=20)
        result = looktwice("run", config, "--out", tmp_path, "--budget", "1", "--workers", WORKERS)
        assert (
            result.exit_code == 1
            and "counts no tokens" in result.output
            and "use --max-requests" in result.output
        )
        assert server.stats["requests"] <= 2 * WORKERS


def test_replies_from_a_cache_cost_nothing(tmp_path: Path) -> None:
    with chat_server() as server:
        config = priced(tmp_path, server.url, n=8)
        assert looktwice("run", config, "--out", tmp_path).exit_code == 0
        again = looktwice("run", config, "--out", tmp_path, "--fresh", "--budget", EACH / 2)
        assert again.exit_code == 0 and "(8 new" in again.output, again.output
        assert server.stats["requests"] == 8


def test_a_budget_needs_prices(tmp_path: Path) -> None:
    with chat_server() as server:
        result = looktwice(
            "run", write_study(tmp_path, server.url), "--out", tmp_path, "--budget", "1"
        )
        assert (
            result.exit_code == 2
            and "--budget: tiny has no prices; give it `prices: {in: " in result.output
        )
        assert server.stats["requests"] == 0
