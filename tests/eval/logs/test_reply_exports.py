"""What is read in recorded replies and runs, exported for others and imported again: the same
items, the same score."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from looktwice.eval.logs.format import export_file
from looktwice.eval.logs.log import Log, make_rows
from looktwice.eval.logs.replies import load_replies, replies_lines
from looktwice.eval.tasks import TaskError
from tests.made_run import MadeRun

TABLES = (".tsv", ".xlsx", ".jsonl")


def figures(line: str) -> dict[str, str]:
    """The figures of a line, without what tells how much of BLINK is in the file."""
    return dict(part.split("=", 1) for part in line.partition(": ")[2].split(", ")) | {"files": ""}


@pytest.fixture(scope="module")
def some_replies(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every ninth recorded reply of one model, of all subtasks, with both splits."""
    out = tmp_path_factory.mktemp("replies") / "model.jsonl"
    with gzip.open(shared_data / "blink_replies/GPT4V.jsonl.gz", "rt", encoding="utf-8") as lines:
        out.write_text(
            "".join(line for number, line in enumerate(lines) if number % 9 == 0), encoding="utf-8"
        )
    return out


@pytest.mark.parametrize("ending", TABLES)
def test_an_export_scores_as_its_source(some_replies: Path, tmp_path: Path, ending: str) -> None:
    """And exported once more it is the same table."""
    if ending == ".xlsx":
        pytest.importorskip("openpyxl")
    out = tmp_path / f"model{ending}"
    more = tmp_path / f"again{ending}"
    first = list(replies_lines([some_replies], "robust", exports=[out]))
    again = list(replies_lines([out], "robust", exports=[more]))
    before, after = figures(first[0]), figures(again[0])
    assert int(before["n"]) == 423
    assert {**before, "agreement": ""} == {**after, "agreement": ""}, (
        "the tables hold no official labels"
    )
    columns = ["sample", "key", "choices", "reply"]
    source, once, twice = (load_replies(path).rows[columns] for path in (some_replies, out, more))
    assert once.equals(source)
    assert twice.equals(once)


def test_what_lmms_eval_logs_beside_is_no_hindrance(tmp_path: Path) -> None:
    sample = {
        "doc_id": 3,
        "doc": {"idx": "val_Counting_1", "answer": "(D)", "choices": ["0", "3", "2", "1"]},
        "target": "(D)",
        "arguments": {"0": "..."},
        "resps": [[" (D) 1"]],
        "filtered_resps": [" (D) 1"],
        "doc_hash": "x",
        "prompt_hash": "y",
        "target_hash": "z",
        "input": "Note: ...",
        "blink_acc": {"id": "val_Counting_1", "gt_content": "D", "pred_parsed": "D"},
    }
    path = tmp_path / "20260801_samples_blink_counting.jsonl"
    path.write_text(json.dumps(sample) + "\n")
    row = load_replies(path).rows.iloc[0]
    assert row[["sample", "key", "reply"]].tolist() == ["val_Counting_1", "D", " (D) 1"]
    assert row["choices"] == ("0", "3", "2", "1")
    assert "accuracy=100.00%" in next(replies_lines([path], "robust"))


def test_an_empty_export_and_an_unknown_ending(tmp_path: Path) -> None:
    assert export_file(Log("m", make_rows([])), tmp_path / "none.tsv") == 0
    assert (tmp_path / "none.tsv").read_text().split("\t")[0] == "index"
    with pytest.raises(TaskError, match="the format follows from the ending"):
        export_file(Log("m", make_rows([])), tmp_path / "x.parquet")


# ---- runs


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    run = MadeRun(tmp_path / "run")
    run.task("jigsaw", ["A", "B", None])
    for number, row in enumerate(run.samples):
        split = "val" if row.answer else "test"
        run.samples[number] = type(row)(
            row.task, row.sha, row.answer, {**row.sample, "id": f"{split}_Jigsaw_{number + 1}"}
        )
    return run


def test_the_predictions_of_a_run_are_exported(made: MadeRun, tmp_path: Path) -> None:
    """Hidden keys: predictions are written and no accuracy is claimed of them."""
    point = made.point("plain", "jigsaw")
    for name, text in (
        ("val_Jigsaw_1", "(A)"),
        ("val_Jigsaw_2", "(A)"),
        ("test_Jigsaw_3", "The answer is (B)."),
    ):
        made.reply(point, name, text)
    folder = made.write().path
    lines = list(
        replies_lines([folder], exports=[tmp_path / "evalai.json", tmp_path / "lmms.jsonl"])
    )
    assert lines[0].startswith(
        "plain: n=3, accuracy=50.00%, coverage=100.00%, macro=50.00%, scored=2"
    )
    assert json.loads((tmp_path / "evalai.json").read_text()) == {"test_Jigsaw_3": "(B)"}
    again = list(replies_lines([tmp_path / "lmms.jsonl"], "robust"))
    assert again[0].partition(": ")[2] == lines[0].partition(": ")[2]


def test_letters_that_were_dealt_anew_are_the_tasks_own_again(
    made: MadeRun, tmp_path: Path
) -> None:
    point = made.point("permuted", "jigsaw")
    made.record(point, "test_Jigsaw_3", answer="A", letters={"A": "B", "B": "A"})
    out = tmp_path / "{name}.json"
    first, *_ = replies_lines([made.write().path], exports=[out])
    # this one's key is hidden
    assert first == "permuted: n=1, coverage=100.00%, subtasks=1/14, missing=2"
    assert json.loads((tmp_path / "permuted.json").read_text()) == {"test_Jigsaw_3": "(B)"}


def test_several_contestants_need_names_of_their_own(made: MadeRun, tmp_path: Path) -> None:
    for name in ("plain", "mark [radius=5]"):
        made.answers(made.point(name, "jigsaw"), ["A", "B", "A"])
    folder = made.write().path
    with pytest.raises(TaskError, match=r"2 contestants need \{name\} in it"):
        list(replies_lines([folder], exports=[tmp_path / "out.json"]))
    lines = list(replies_lines([folder], exports=[tmp_path / "{name}.json"]))
    assert [line.partition(":")[0] for line in lines if "accuracy" in line] == [
        "plain",
        "mark_radius=5",
        "total",
    ]
    assert (tmp_path / "mark_radius=5.json").exists()


def test_an_id_that_begins_with_a_nought_is_a_text_in_excel_too(tmp_path: Path) -> None:
    """ "00" became the number 0, which `compare` found in no other log."""
    pytest.importorskip("openpyxl")
    ids, out = ["00", "7", "10"], tmp_path / "model.xlsx"
    rows = [{"sample": idx, "choices": ("x", "y"), "key": "A", "reply": "A"} for idx in ids]
    export_file(Log("m", make_rows(rows)), out)
    assert load_replies(out).rows["sample"].str.rpartition("_")[2].tolist() == ids
