"""Official scores of table benchmarks: replies and their scores under the reference code."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring import Scorer
from looktwice.eval.scoring.run_rows import list_headline_rows
from looktwice.extras.toolkits import BenchmarkScorer
from looktwice.extras.toolkits.scorer import (
    RULES,
    compute_mean_best_iou,
    read_braces,
    read_first_letter,
    read_first_word,
    read_rows_and_columns,
    read_yes_or_no,
)
from looktwice.pipelines.config.spec import spec
from tests.made_run import MadeRun
from tests.tables import table

VERBATIM = {"use": "eval.readers.WholeReply"}


@table
def test_first_word_of_natural_bench(reply: str, words: list[str], value: int) -> None:
    yes, no = words
    assert {yes: 1, no: 0, "": -1}[read_first_word(reply, (yes, no))] == value


@table
def test_yes_or_no_of_vlmevalkit(reply: str, answer: str) -> None:
    assert (read_yes_or_no(reply).capitalize() or "Unknown") == answer


@table
def test_first_letter_of_tree_bench(reply: str, letter: str) -> None:
    assert read_first_letter(reply) == letter


@table
def test_boxes_of_tree_bench(reply: str, targets: list[list[float]], value: float) -> None:
    assert compute_mean_best_iou(reply, targets) == pytest.approx(value, abs=1e-6)


def test_boxes_are_read_from_the_thought() -> None:
    boxes = "<think><box>[0,0,9,9]</box></think><box>[0,0,1,1]</box>"
    assert compute_mean_best_iou(boxes, [[0, 0, 1, 1]]) == pytest.approx(1 / 81)


@table
def test_braces_of_vlms_are_blind(reply: str, inner: str) -> None:
    assert read_braces(reply) == inner


@table
def test_rows_and_columns_of_vlms_are_blind(reply: str, key: str, right: bool) -> None:
    assert (read_rows_and_columns(reply) == tuple(map(int, key.split(",")))) is right


@table
def test_rules(rule: str, reply: str, key: str, task: str, right: bool) -> None:
    row = SampleRow("t", "sha", key, {"id": "s", "meta": {"task": task}})
    assert RULES[rule](reply, row) is right


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one of natural_bench, .*got 'natural'"):
        BenchmarkScorer(rule="natural")


@table
def test_natural_bench_s_groups(made: MadeRun, groups: list[list[int]], wanted: Any) -> None:
    """Expected 1, 0, 0, 1: yes, no, no, yes."""
    words = {1: "Yes.", 0: "No.", -1: "Not sure"}
    replies = [words[value] for group in groups for value in group]
    numbers = range(len(replies))
    meta = [{"group": n // 4, "question": n // 2, "image": str(n % 2)} for n in numbers]
    by = {"q_acc": ["question"], "i_acc": ["group", "image"], "g_acc": ["group"]}
    scorer = BenchmarkScorer(by, rule="natural_bench")
    given = cells(made.path, scorer, ["Yes", "No", "No", "Yes"] * len(groups), meta, replies)
    names = {"Q_Acc": "q_acc", "I_Acc": "i_acc", "G_Acc": "g_acc", "Acc": "accuracy"}
    assert {name: given[ours] for name, ours in names.items()} == pytest.approx(wanted)


@table
def test_scores(made: MadeRun, settings: Any, fields: Any, rows: Any, by: Any, wanted: Any) -> None:
    """A row has the values of the fields and whether the reply is right."""
    meta = [dict(zip(fields, row[:-1], strict=True)) for row in rows]
    (wrong, right), choices = (("No", "Yes"), 0) if settings.get("rule") else (("B", "A"), 4)
    replies = [right if row[-1] else wrong for row in rows]
    scorer = BenchmarkScorer(**settings)
    given = cells(made.path, scorer, [right] * len(rows), meta, replies, choices, by)
    assert {name: given[name] for name in wanted} == pytest.approx(wanted)


def test_boxes_of_whole_replies(tmp_path: Path) -> None:
    """The best box of each of two targets scores 1 and 0; a reply without a box scores 0."""
    scorer = BenchmarkScorer(rule="tree_bench", boxes="targets")
    truth = [{"targets": "[(0, 0, 9, 9), [90, 0, 99, 9]]"}] * 2
    replies = ["<think><box>[0,0,9,9]</box></think><answer>A</answer>", "<answer>B</answer>"]
    given = cells(tmp_path / "1", scorer, "AA", [{}, {}], replies, truth=truth)
    assert (given["accuracy"], given["box_iou"]) == (0.5, 0.25)
    assert "box_iou" not in cells(tmp_path / "2", scorer, "AA", [{}, {}], "AB", truth=truth)


def test_chance(tmp_path: Path) -> None:
    """A pair of four choices each, and one of two: (1/16 + 1/4) / 2; parts of 1/4 and of 1/2."""
    made = MadeRun(tmp_path)
    made.task("t", "AAAA", 4, meta=[{"pair": pair} for pair in "xxyy"])
    for row in made.samples[2:]:
        row.sample["choices"][2:] = []
    samples = {row.id: row for row in made.samples}
    scorer = BenchmarkScorer({"pair_accuracy": ["pair"]}, ("pair",))
    assert scorer.chance(samples) == {"pair_accuracy": 5 / 32, "mean_accuracy": 3 / 8}
    made.samples[0].sample["choices"][:] = []
    assert scorer.chance(samples) == {}


def test_headlines_are_configurable(tmp_path: Path) -> None:
    made = MadeRun(tmp_path)
    made.task("t", "AB", meta=[{"pair": "x"}] * 2)
    settings = {"all_right": {"pair_accuracy": ["pair"]}, "headlines": ["pair_accuracy"]}
    node = {"use": "eval.scoring.BenchmarkScorer", **settings}
    made.answers(made.point("plain", "t", facts={"scorer": node}), ["A", "B"])
    scored = score_table(made.write().path)
    own = [
        row for row in list_headline_rows(scored.scores, scored.rows) if row.contestant == "plain"
    ]
    assert [(row.metric, row.value) for row in own] == [("pair_accuracy", 1.0)]


def cells(
    root: Path,
    scorer: Scorer,
    keys: Sequence[str],
    meta: Sequence[Mapping[str, Any]],
    replies: Sequence[str],
    choices: int = 0,
    by: Sequence[str] = (),
    truth: Sequence[Mapping[str, Any]] = (),
) -> dict[str, float]:
    """Return the values of an arm with these replies, by "metric" or "metric | slice"."""
    made = MadeRun(root)
    made.task("t", keys, choices, meta=meta)
    if truth:
        pairs = zip(made.samples, truth, strict=True)
        made.samples = [replace(sample, truth=dict(boxes)) for sample, boxes in pairs]
    point = made.point("plain", "t", facts={"scorer": spec(scorer)}, read=VERBATIM)
    for number, reply in enumerate(replies):
        made.reply(point, f"s{number}", reply)
    values = {}
    for row in score_table(made.write().path, by=list(by)).where(contestant="plain", task="t"):
        if row.value is not None:
            values[f"{row.metric} | {row.slice}" if row.slice else row.metric] = row.value
    return values
