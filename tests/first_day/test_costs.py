"""What a run costs: prices in its tables, and `--budget` and `--max-requests` that stop it."""

import csv
import re
from pathlib import Path

import pytest

from looktwice.eval import Photos, evaluate
from looktwice.pipelines import ChatAPI
from looktwice.prompting.turns import CaptionThenAnswer
from tests.chat_server import chat_server
from tests.first_day.studies import get_output, run_study, write_study

PRICED = (
    'models: {tiny: {use: pipelines.models.ChatAPI, model: tiny, url: "%s", prices: {in: 2.5, out:'
    " 10}}}\nmodel: tiny\n"
)
EACH = (100 * 2.5 + 7 * 10) / 1e6  # for a question of the test server
WORKERS = 4


def write_priced_study(folder: Path, url: str, n: int) -> Path:
    """A study whose model has prices."""
    path = write_study(folder, url, n)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("model:")]
    path.write_text("\n".join(lines) + "\n" + PRICED % url)
    return path


@pytest.mark.slow
def test_no_more_requests_are_sent_than_allowed(tmp_path: Path) -> None:
    with chat_server() as server:
        first = run_study(tmp_path, server.url, "--max-requests", "7", n=20, code=1)
        assert server.stats["requests"] == 7, "none was counted and then not sent"
        assert "7 requests sent, the limit of --max-requests" in first
        assert "(7 new" in first and "resumes" in first
        second = run_study(tmp_path, server.url, "--max-requests", "20", n=20)
        assert "(13 new, 7 existing" in second and server.stats["requests"] == 20
    with chat_server(None, "--first", "500") as server:  # failed attempts are requests too
        words = ("--max-requests", "3", "--workers", "1")
        assert "(2 new" in run_study(tmp_path / "failed", server.url, *words, code=1)
        assert server.stats["requests"] == 3


@pytest.mark.slow
def test_a_run_keeps_its_budget_and_resumes_with_a_larger_one(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.02") as server:
        config = write_priced_study(tmp_path, server.url, n=40)
        words = "run", config, "--out", tmp_path, "--workers", WORKERS, "--budget"
        first = get_output(*words, 10 * EACH, code=1)
        assert re.search(r"0\.00[34]\S* spent of a --budget of 0\.0032", first)
        assert "raise it to continue" in first and "command resumes\n" not in first
        unfinished = (
            "the same command resumes the run, with a larger --budget if the budget is used up"
        )
        assert unfinished in " ".join(first.split())
        get_output(*words, 10 * EACH, code=1)  # the cost of the first run counts
        assert server.stats["requests"] == 10
        # a twelfth would exceed it: the cost of one request is remembered
        sentence = "0.00352 spent of a --budget of 0.00368, and a request may cost 0.00032"
        assert (
            sentence in get_output(*words, 11.5 * EACH, code=1) and server.stats["requests"] == 11
        )
        assert "(29 new, 11 existing" in get_output(*words, 100 * EACH)
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


def test_the_cost_includes_samples_without_a_record_and_shared_stages(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_priced_study(tmp_path, server.url, n=6)
        head = config.read_text().split("stages:")[0]
        config.write_text(head + PRICED % server.url + TWICE.replace("YesNo", "System, text: Look"))
        for most in (5, 4):
            get_output("run", config, "--out", tmp_path, "--max-requests", most, code=1)
        assert server.stats["requests"] == 9
        spent = float((tmp_path / "study/.spent").read_text().split()[0])
        assert spent == pytest.approx(9 * EACH, abs=2e-6)
        stopped = get_output("run", config, "--out", tmp_path, "--budget", 8.5 * EACH, code=1)
        assert server.stats["requests"] == 9 and "spent of a --budget" in stopped


def test_cached_replies_cost_nothing_and_replies_without_token_counts_stop_a_budget(
    tmp_path: Path,
) -> None:
    with chat_server() as server:
        config = write_priced_study(tmp_path, server.url, n=8)
        get_output("run", config, "--out", tmp_path)
        assert "(8 new" in get_output(
            "run", config, "--out", tmp_path, "--again=all", "--budget", EACH / 2
        )
        assert server.stats["requests"] == 8
        sentence = "--budget: tiny has no prices; add `prices: {in: "
        assert sentence in run_study(tmp_path / "new", server.url, "--budget", "1", code=2)
        assert server.stats["requests"] == 8
    with chat_server(None, "--no-usage") as server:
        config = write_priced_study(tmp_path, server.url, n=20)
        words = ("--again=all", "--budget", "1", "--workers", WORKERS)
        output = get_output("run", config, "--out", tmp_path / "uncounted", *words, code=1)
        assert "reports no token counts" in output and "use --max-requests" in output
        assert server.stats["requests"] <= 2 * WORKERS


# ---- from `prices:` in the YAML to the cost in the terminal, in the report and in report.csv

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


def test_every_table_shows_the_cost(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url)
        lines = [line for line in config.read_text().splitlines() if not line.startswith("model:")]
        config.write_text("\n".join(lines) + BOTH % {"url": server.url})
        first = get_output("run", config, "--out", tmp_path, "--table", "full")
        again = get_output("run", config, "--out", tmp_path, "--again=all", "--table", "full")
    # cached replies are not paid again
    assert "| cost 0.00" in first and "| cost" not in again
    for output in (first, again):
        assert "plain: 400 tokens in, 28 out, cost 0.00128 (list price)" in output
    costs = csv_costs(tmp_path)
    for name, cost in COSTS.items():
        assert costs[name] == ("" if cost is None else f"{cost:g}"), name
    assert float(costs["described"]) > BIG / 10
    for page in ("report.md", "report.html"):
        assert "0.00128" in (tmp_path / "study" / page).read_text()


def csv_costs(folder: Path) -> dict[str, str]:
    rows = csv.DictReader((folder / "study/report.csv").read_text().splitlines())
    return {row["contestant"]: row["cost"] for row in rows if row["task"] == "jigsaw"}


def test_models_inside_stages_have_a_cost_even_without_a_contestant_model(tmp_path: Path) -> None:
    with chat_server() as server:
        model = ChatAPI("m", server.url, prices={"in": 2.5, "out": 10})
        described = CaptionThenAnswer(captioner=model, answerer=model)
        table = evaluate(Photos("jigsaw", n=2), {"described": described}, out=tmp_path / "run")
    (row,) = table.where(metric="accuracy", task="jigsaw", contestant="described").rows
    assert row.tokens_in and row.tokens_out
    assert row.cost == pytest.approx((row.tokens_in * 2.5 + row.tokens_out * 10) / 1e6)


def test_unknown_price_fields_are_a_clear_fault(tmp_path: Path) -> None:
    study = write_study(tmp_path, "http://127.0.0.1:9/v1")
    wrong = ("input: 2.5, output: 10", "in: 2.5", "in: 2.5, out: -1", "in: 1, out: x")
    for prices in ("5", *(f"{{{words}}}" for words in (*wrong, "in: 1, out: 1, date: 5"))):
        output = get_output("check", study, f"model.prices={prices}", code=2)
        assert output.startswith("model") and "price" in output and "Traceback" not in output


NINE = "{in: 9, out: 9}"
LIST = """prices:
  tiny: {in: 2.5, out: 10, cached: 1, currency: USD, date: 2026-08-01, source: "https://h/prices"}
  other: {in: 1, out: 1}
"""


def test_a_price_list_applies_to_every_unpriced_model_with_its_name(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url)
        (tmp_path / "list.yaml").write_text(LIST)
        own = f'use: pipelines.models.ChatAPI, model: tiny, name: own, url: "{server.url}"'
        ask = f"{{use: prompting.turns.CaptionThenAnswer, captioner: {{{own}, prices: {NINE}}}}}"
        config.write_text(
            f"include: list.yaml\n{config.read_text()}contestants: {{plain: {{}}, described:"
            f" {{replace: true, stages: {{ask: {ask}}}}}}}\n"
        )
        checked = get_output("check", config)
        get_output("run", config, "--out", tmp_path, "--budget", "5")
    facts = "(USD, 2026-08-01, https://h/prices)"
    assert f"prices of tiny: 2.5 in, 10 out, 1 cached per million tokens {facts}" in checked
    assert "prices of tiny: 9 in, 9 out per million tokens" in checked and "other" not in checked
    assert "USD, 2026-08-01" in (tmp_path / "study/report.md").read_text()
    costs = csv_costs(tmp_path)
    assert costs["plain"] == f"{BIG:g}" and float(costs["described"]) > BIG
