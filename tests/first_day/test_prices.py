"""From `prices:` in the YAML to the cost in the terminal, in the report and in report.csv."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from looktwice.eval import Photos, evaluate
from looktwice.pipelines import ChatAPI
from looktwice.prompting.turns import CaptionThenAnswer
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study

BOTH = """
models:
  big: {use: pipelines.models.ChatAPI, model: big, url: "%(url)s", prices: {in: 2.5, out: 10}}
  small: {use: pipelines.models.ChatAPI, model: small, url: "%(url)s", prices: {in: 0.25, out: 1}}
  free: {use: pipelines.models.ChatAPI, model: free, url: "%(url)s"}
model: big
contestants:
  plain: {}
  small: {model: small}
  free: {model: free}
  described: {replace: true, stages: {ask: {use: prompting.turns.CaptionThenAnswer, captioner: \
"${models.small}"}}}
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}
"""
BIG = 4 * (100 * 2.5 + 7 * 10) / 1e6
COSTS = {"plain": BIG, "small": BIG / 10, "free": None, "chance": None}


def test_the_cost_stands_in_every_table(tmp_path: Path) -> None:
    """`prices:` did nothing: the column of costs was empty."""
    with chat_server() as server:
        config = write_study(tmp_path, server.url)
        lines = [line for line in config.read_text().splitlines() if not line.startswith("model:")]
        config.write_text("\n".join(lines) + BOTH % {"url": server.url})
        first = looktwice("run", config, "--out", tmp_path)
        again = looktwice("run", config, "--out", tmp_path, "--fresh")
    assert first.exit_code == again.exit_code == 0, first.output + again.output
    assert "| cost 0.00" in first.output and "| cost" not in again.output, (
        "replies from the cache are not paid again"
    )
    for result in (first, again):
        assert "plain: 400 tokens in, 28 out, cost 0.00128 (list price)" in result.output
    costs = {
        row["contestant"]: row["cost"]
        for row in csv.DictReader((tmp_path / "study/report.csv").read_text().splitlines())
    }
    for name, cost in COSTS.items():
        assert costs[name] == ("" if cost is None else f"{cost:g}"), name
    assert float(costs["described"]) > BIG / 10
    for page in ("report.md", "report.html"):
        assert "0.00128" in (tmp_path / "study" / page).read_text()


def test_models_that_stages_hold_have_a_cost_where_the_contestant_has_no_model(
    tmp_path: Path,
) -> None:
    with chat_server() as server:
        model = ChatAPI("m", server.url, prices={"in": 2.5, "out": 10})
        described = CaptionThenAnswer(captioner=model, answerer=model)
        table = evaluate(Photos("jigsaw", n=2), {"described": described}, out=tmp_path / "run")
    (row,) = table.where(metric="accuracy", task="jigsaw", contestant="described").rows
    assert row.tokens_in and row.tokens_out
    assert row.cost == pytest.approx((row.tokens_in * 2.5 + row.tokens_out * 10) / 1e6)


def test_a_server_that_counts_no_tokens_is_said_to_and_costs_are_not_zero(tmp_path: Path) -> None:
    with chat_server(None, "--no-usage") as server:
        config = write_study(tmp_path, server.url)
        result = looktwice("run", config, "--out", tmp_path, "model.prices={in: 2.5, out: 10}")
    assert (
        "counts no tokens, so there is no cost" in result.output
        and "list price" not in result.output
    )


@pytest.mark.parametrize(
    "prices",
    [
        "{input: 2.5, output: 10}",
        "{in: 2.5}",
        "{in: 2.5, out: -1}",
        "5",
        "{in: 1, out: x}",
        "{in: 1, out: 1, date: 5}",
    ],
)
def test_other_words_for_prices_are_a_fault_with_a_sentence(tmp_path: Path, prices: str) -> None:
    result = looktwice(
        "check", write_study(tmp_path, "http://127.0.0.1:9/v1"), f"model.prices={prices}"
    )
    assert result.exit_code == 2
    assert (
        "model" in result.output and "price" in result.output and "Traceback" not in result.output
    )


LIST = """prices:
  tiny: {in: 2.5, out: 10, cached: 1, currency: USD, date: 2026-08-01, source: "https://h/prices"}
  other: {in: 1, out: 1}
"""


def test_a_list_of_prices_serves_every_model_of_its_name_that_has_none(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url)
        (tmp_path / "list.yaml").write_text(LIST)
        captioner = (
            f'{{use: pipelines.models.ChatAPI, model: tiny, name: own, url: "{server.url}", prices:'
            " {in: 9, out: 9}}"
        )
        described = (
            "{replace: true, stages: {ask: {use: prompting.turns.CaptionThenAnswer, captioner:"
            f" {captioner}}}}}}}"
        )
        config.write_text(
            f"include: list.yaml\n{config.read_text()}contestants: {{plain: {{}}, described:"
            f" {described}}}\n"
        )
        checked = looktwice("check", config).output
        ran = looktwice("run", config, "--out", tmp_path, "--budget", "5")
    assert ran.exit_code == 0, ran.output
    told = (
        "prices of tiny: 2.5 in, 10 out, 1 cached a million tokens (USD, 2026-08-01,"
        " https://h/prices)"
    )
    assert (
        told in checked
        and "prices of tiny: 9 in, 9 out a million tokens" in checked
        and "other" not in checked
    )
    assert "USD, 2026-08-01" in (tmp_path / "study/report.md").read_text()
    rows = csv.DictReader((tmp_path / "study/report.csv").read_text().splitlines())
    costs = {row["contestant"]: row["cost"] for row in rows if row["task"] == "jigsaw"}
    assert costs["plain"] == f"{BIG:g}" and float(costs["described"]) > BIG
