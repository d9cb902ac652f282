"""Logs of other harnesses: failed samples, differing scorers, filters and epochs."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

from looktwice.eval import Robust, TaskError
from looktwice.eval.cli import app
from looktwice.extras.logs import compare_logs, read_logs
from looktwice.extras.logs.failures import classify_replacement
from looktwice.extras.logs.log import Log, make_rows
from looktwice.extras.logs.replies import report_replies
from looktwice.extras.logs.report import summarize_comparison
from tests.tables import table

FAILED = "Failed to obtain answer via API."
RIGHT = {"choice": 3, "match": 9, "other": 6, "strict": 3, "relaxed": 9}
"""How many of twelve samples a scorer counts as right."""


def inspect_log(path: Path, scores: Sequence[Mapping[str, Any]], epochs: int = 1) -> Path:
    """Write a log with a sample for each of `scores`, epoch by epoch."""
    sample = {"choices": ["near", "far"], "target": "A", "output": {"completion": "I cannot say"}}
    samples = []
    for number, score in enumerate(scores):
        about = {"id": f"s{number // epochs}", "epoch": number % epochs + 1}
        samples.append(about | {"input": f"Which, {number // epochs}?", **sample, "scores": score})
    head = {"version": 2, "eval": {"task": "depth", "model": "m/one"}}
    path.write_text(json.dumps({**head, "samples": samples}))
    return path


def write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def scored_log(folder: Path, kind: str, name: str, scorers: Sequence[str]) -> Path:
    """Write a log of twelve samples with the same reply, in the format of the harness."""
    if kind.startswith("inspect"):
        scores = []
        for number in range(12):
            grades = {s: {"value": "IC"[number < RIGHT[s]], "answer": "A"} for s in scorers}
            marked = {"marked": {"value": {"a": 0, "b": 1}}} if len(scorers) > 1 else {}
            scores.append(grades | marked)
        return inspect_log(folder / f"{name}.json", scores)
    lines = list[dict[str, Any]]()
    for number in range(12):
        line = {"doc_id": number, "target": "A", "resps": [["It is (A)"]], "doc_hash": str(number)}
        right = {scorer: float(number < RIGHT[scorer]) for scorer in scorers}
        lines += [line | right] if kind == "lmms_eval" else []
        for scorer in scorers if kind != "lmms_eval" else ():
            more = {"filtered_resps": [scorer], "exact_match": right[scorer]}
            named = {"filter": scorer, "metrics": ["exact_match"]} if kind == "lm_eval" else {}
            lines.append(line | named | more)
    if kind != "lmms_eval":  # one filter after the other, as the harness writes them
        lines = [line for start in range(len(scorers)) for line in lines[start :: len(scorers)]]
    return write_lines(folder / f"{name}_samples_depth.jsonl", lines)


@table
def test_an_error_message_in_the_reply_field_is_not_a_reply(reply: str, kind: str) -> None:
    assert classify_replacement(reply) == kind


def vlmevalkit(path: Path, replies: Sequence[str], hits: Sequence[int] = ()) -> Path:
    header = ["index", "question", "A", "B", "answer", "prediction", *["hit"] * bool(hits)]
    rows = [[str(n), f"Which, {n}?", "near", "far", "A", reply] for n, reply in enumerate(replies)]
    rows = [row + [str(hit) for hit in hits[n : n + 1]] for n, row in enumerate(rows)]
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([header, *rows])
    return path


@pytest.mark.parametrize("scored", [True, False])
def test_failed_samples_are_excluded_from_differences(tmp_path: Path, scored: bool) -> None:
    replies = ["A"] * 6 + [FAILED] * 4
    first = vlmevalkit(tmp_path / "a.tsv", replies, [1] * 6 + [0] * 4 if scored else ())
    second = vlmevalkit(tmp_path / "b.tsv", ["A"] * 10, [1] * 10 if scored else ())
    logs = [log for path in (first, second) for log in read_logs(path)]
    assert logs[0].rows["verdict"].tolist() == ["right"] * 6 + ["failed"] * 4
    (contrast,) = compare_logs(logs).contrasts
    assert (contrast.paired.value, contrast.paired.n, contrast.fell_out) == (0, 6, 4)
    line, *_ = report_replies([first])
    assert "failed=4" in line and "coverage=60.00%" in line
    if not scored:
        assert logs[0].reader_name == "Robust", "the log scored none"


def test_failed_samples_stay_failed_with_any_reader(tmp_path: Path) -> None:
    path = vlmevalkit(tmp_path / "a.tsv", ["A", FAILED, "[SAFETY_BLOCKED:SAFETY]"])
    (log,) = read_logs(path, reader=Robust())
    assert log.rows["verdict"].tolist() == ["right", "failed", "unreadable"]
    line, *_ = report_replies([path], "vlmevalkit")
    assert "coverage=33.33%" in line and "failed=1" in line


def test_recorded_labels_count_as_published(tmp_path: Path) -> None:
    """BLINK's authors scored failures as wrong: `score` repeats that, and `compare` does not."""
    about = {"idx": "val_Jigsaw_1", "answer": "(A)", "reply": FAILED, "official_label": "(Z)"}
    other = about | {"idx": "val_Jigsaw_2", "reply": "(A)", "official_label": "(A)"}
    path = write_lines(tmp_path / "m.jsonl", [about, other])
    line, *_ = report_replies([path])
    assert line == "m: n=2, macro=50.00, micro=50.00, coverage=50.00, subtasks=1/14"
    assert read_logs(path)[0].rows["verdict"].tolist() == ["failed", "right"]


@table
def test_grades_of_inspect(tmp_path: Path, score: dict[str, Any], verdict: str) -> None:
    path = inspect_log(tmp_path / "a.json", [{"own": score}])
    (log,) = read_logs(path)
    assert log.rows["verdict"].tolist() == [verdict]
    line, *_ = report_replies([path])
    assert f"coverage={100.0 * (verdict in ('right', 'wrong')):.2f}%" in line


@pytest.mark.slow
@table
def test_logs_of_one_harness_are_compared_by_a_shared_scorer(
    tmp_path: Path,
    kind: str,
    first: list[str],
    second: list[str],
    by: str | None,
    difference: float | None,
) -> None:
    pairs, out = (("a", first), ("b", second)), tmp_path / "out"
    files = [str(scored_log(tmp_path, kind, name, names)) for name, names in pairs]
    words = ["compare", *files, "--out", str(out)]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    if by is None:
        assert done.exit_code != 0 and not out.exists()
        return
    assert done.exit_code == 0, done.output
    (contrast,) = pandas.read_csv(out / "compare.csv").to_dict("records")
    assert (contrast["difference"], contrast["n"], contrast["scorer"]) == (difference, 12, by)
    items = pandas.read_csv(out / "items.csv")
    assert [set(items[name]) for name in items if name.endswith(": scorer")] == [{by}] * 2
    for said in (done.output, (out / "compare.md").read_text()):
        assert f"scored by {by}" in said


@table
def test_a_scorer_with_other_settings_is_a_different_scorer(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], by: str | None
) -> None:
    logs, named = list[Log](), list[Log]()
    for name, options in (("a", first), ("b", second)):
        path = scored_log(tmp_path, "inspect", name, ["match"])
        data = json.loads(path.read_text())
        data["eval"]["scorers"] = [{"name": "match", "options": options}]
        path.write_text(json.dumps(data))
        logs += read_logs(path)
        named += read_logs(path, {"value": "match"})
    assert {*compare_logs(named).units[1]["scorer"]} == {"match"}
    if by is None:
        with pytest.raises(TaskError, match="cannot be compared"):
            compare_logs(logs)
    else:
        assert {*compare_logs(logs).units[1]["scorer"]} == {by}


@table
def test_the_scorer_is_named(tmp_path: Path, kind: str, name: str, share: float | None) -> None:
    scorers = ["choice", "match"] if kind == "inspect" else ["strict", "relaxed"]
    path = scored_log(tmp_path, kind, "a", scorers)
    if share is None:
        with pytest.raises(TaskError, match=name.partition("/")[0]):
            read_logs(path, {"value": name})
        return
    (log,) = read_logs(path, {"value": name})
    assert len(log.rows) == 12 and log.rows["value"].mean() == share


def test_logs_with_other_scorers_are_named_or_refused(tmp_path: Path) -> None:
    scorers = {"a": ["choice", "match"], "b": ["match"], "c": ["other"]}
    files = [scored_log(tmp_path, "inspect", name, names) for name, names in scorers.items()]
    compared = compare_logs([log for file in files for log in read_logs(file)])
    assert [(c.contestant, c.paired.value) for c in compared.contrasts] == [("m/one (b.json)", 0)]
    (line,) = [
        line for line in summarize_comparison(compared) if line.startswith("m/one (c.json): m/one")
    ]
    assert "other" in line
    files = [files[2], vlmevalkit(tmp_path / "d.tsv", ["B"] * 12, [1] * 12)]
    lines = list(summarize_comparison(compare_logs([log for f in files for log in read_logs(f)])))
    assert [line.partition(": ")[0] for line in lines[:2]] == ["m/one", "d"]
    assert [line.rpartition(" ")[2] for line in lines[:2]] == ["other", "hit"]


@table
def test_identical_replies_allow_no_claim_about_models(
    first: dict[str, Any], second: dict[str, Any], harness: str, claims: bool
) -> None:
    """After permuted choices a letter can name different choices; then answers are compared."""
    logs = []
    for name, cells, value in (("a", first, 1.0), ("b", second, 0.0)):
        rows = [{"sample": f"s{n}", "value": value, "reply": "", **cells} for n in range(12)]
        logs.append(Log(name, make_rows(rows), harness=harness))
    compared = compare_logs(logs)
    assert compared.contrasts[0].p_holm < 0.05
    said = "\n".join(summarize_comparison(compared))
    assert (", significant (p" in said) == claims
    assert ("12 of 12 flips are on identical replies" in said) != claims


def test_score_reads_several_epochs_as_compare_does(tmp_path: Path) -> None:
    grades = [{"choice": {"value": value, "answer": "A"}} for value in "CCICII"]
    grades[4] = {"choice": {"value": "I", "answer": ""}}
    path = inspect_log(tmp_path / "a.json", grades, epochs=3)
    assert read_logs(path)[0].units["value"].tolist() == pytest.approx([2 / 3, 1 / 3])
    out = tmp_path / "out.tsv"
    line, said, _ = report_replies([path], exports=[out])
    assert "n=2, accuracy=50.00%, coverage=83.33%" in line and "as_recorded=6" in line
    assert said == f"exported: 2 in {out}"


def test_draws_are_scored_and_a_duplicate_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("id,draw,correct,key,reply\nq,0,1,A,A\nq,1,0,A,B\n")
    assert "n=1, accuracy=50.00%" in next(iter(report_replies([path])))
    path.write_text("id,correct,key,reply\nq,1,A,A\nq,0,A,B\n")
    with pytest.raises(TaskError, match="twice"):
        list(report_replies([path]))
    lines = [
        {"doc_id": 0, "target": "A", "filter": "none", "resps": [[reply]], "exact_match": value}
        for reply, value in (("A", 1), ("B", 0), ("so A", 1))
    ]
    (log,) = read_logs(write_lines(tmp_path / "m_samples_x.jsonl", lines))
    assert log.rows["draw"].tolist() == [0, 1, 2]
    assert log.units["value"].tolist() == pytest.approx([2 / 3])


def test_a_filter_without_a_match_gives_no_answer(tmp_path: Path) -> None:
    line = {"doc_id": 0, "target": "A", "resps": [["who knows"]], "exact_match": 0.0}
    lines = [
        line | {"filter": "strict-match", "filtered_resps": ["[invalid]"]},
        line | {"filter": "flexible-extract", "filtered_resps": ["knows"]},
    ]
    path = write_lines(tmp_path / "m_samples_x.jsonl", lines)
    for name, verdict in ("exact_match", "unreadable"), ("exact_match,flexible-extract", "wrong"):
        (log,) = read_logs(path, {"value": name})
        assert log.rows["verdict"].tolist() == [verdict]


@table
def test_an_empty_reply_of_lmms_eval_without_tokens_is_a_failure(
    tmp_path: Path, reply: str | None, tokens: Any, others: Any, verdict: str
) -> None:
    lines = [
        {"doc_id": number, "target": "A", "resps": [[text]], "token_counts": counts, "acc": value}
        for number, (text, counts, value) in enumerate(((reply, tokens, 0.0), ("A", others, 1.0)))
    ]
    (log,) = read_logs(write_lines(tmp_path / "m_samples_x.jsonl", lines))
    assert log.rows["verdict"].tolist() == [verdict, "right"]


def test_an_empty_answer_is_unreadable_if_others_in_the_table_were_read(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("id,correct,answer\nq,1,A\nr,0,\ns,0,B\n")
    assert read_logs(path)[0].rows["verdict"].tolist() == ["right", "unreadable", "wrong"]
    path.write_text("id,correct,answer\nq,1,\nr,0,\n")
    assert read_logs(path)[0].rows["verdict"].tolist() == ["right", "wrong"]


def test_a_compressed_table_is_named_without_its_endings(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl.gz").write_bytes(gzip.compress(b'{"id": "q", "correct": 1}\n'))
    assert read_logs(tmp_path / "m.jsonl.gz")[0].name == "m"


@table
def test_a_file_name_gives_task_and_model(tmp_path: Path, file: str, task: str, model: str) -> None:
    folder = tmp_path / "org__model"
    folder.mkdir()
    path = write_lines(folder / file, [{"doc_id": 0, "target": "A", "resps": [["A"]], "acc": 1}])
    for source in (path, folder) if model != task else (path,):
        (log,) = read_logs(source)
        assert (log.name, log.rows["task"].tolist()) == (model, [task])


@table
def test_a_random_answer_counts_as_none(tmp_path: Path, log: str, hit: int, verdict: str) -> None:
    path = vlmevalkit(tmp_path / "m.tsv", ["It is near.", "A"], [hit, 1])
    lines = path.read_text().splitlines()
    for number, text in enumerate(("log", log, "Match Log: A. ")):
        lines[number] += f"\t{text}"
    path.write_text("\n".join(lines))
    (read,) = read_logs(path)
    assert read.rows["verdict"].tolist() == [verdict, "right"]
    assert read.rows["value"].tolist() == [float(verdict == "right"), 1.0]
