"""Logs exported for other programs can be read back, and inspect_ai reads them if installed."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pandas
import pytest
import yaml

from looktwice.eval import MarkedScenes, TaskError, evaluate
from looktwice.eval.page.data import PagePicture
from looktwice.eval.page.render import render_page
from looktwice.extras.logs import compare_logs, read_logs
from looktwice.extras.logs.format import export_logs
from looktwice.extras.logs.log import Log
from looktwice.extras.logs.replies import report_replies
from looktwice.extras.logs.report import make_compare_page
from looktwice.pipelines import Pipeline, Scripted
from looktwice.prompting import Ask, Circles, MultipleChoice
from tests.first_day.studies import looktwice
from tests.made_run import MadeRun

SAME = ["task", "sample", "draw", "value", "verdict", "pictures"]
SAME += ["answer", "key", "reply", "choices", "question"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three questions asked with marks: replies that are a letter, no letter, and nothing."""
    path = tmp_path_factory.mktemp("runs") / "study"
    marked = Pipeline({"mark": Circles(), "choose": MultipleChoice(), "ask": Ask()})
    replies = iter(["(A)", "I cannot say <b>why</b>.", ""])
    model = Scripted(lambda _: next(replies))
    evaluate(MarkedScenes("color", n=3), {"marked": marked}, model, out=path, workers=1)
    return path


def plain(log: Log, columns: list[str] = SAME) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = log.whole.rows[columns].to_dict("records")
    return rows


def find_export(logs: Path, form: str, out: Path, ending: str) -> Path:
    """Return the only file with this extension that an export writes."""
    list(export_logs(read_logs(logs), form, out))
    (file,) = out.rglob(f"*{ending}")
    return file


def test_an_exported_log_of_inspect_is_read_back_with_pictures(run: Path, tmp_path: Path) -> None:
    file = find_export(run, "inspect", tmp_path, ".eval")
    (log,), (back,) = read_logs(run), read_logs(file)
    assert back.name == "marked"
    columns = [name for name in SAME if name != "question"]  # inspect_ai stores the text as sent
    assert plain(back, columns) == plain(log, columns)
    assert back.rows["verdict"].tolist()[1:] == ["unreadable", "unreadable"]
    assert log.rows["seconds"].min() > 0
    assert back.rows["seconds"].tolist() == log.rows["seconds"].tolist()
    assert compare_logs([log, back]).contrasts[0].paired.n == 3
    for row in plain(back)[:2]:  # no turn is stored for an empty reply
        sent, kept = log.get_messages(row), back.get_messages(row)
        assert [turn.role for turn in kept] == ["user", "assistant"]
        assert [turn.text for turn in kept] == [turn.text for turn in sent]
        (shown,), (drawn,) = kept[0].views, sent[0].views
        assert shown.picture.payload.sha == drawn.picture.payload.sha
    assert back.get_messages({"task": "", "sample": "none", "draw": 0}) == ()
    with ZipFile(file) as archive:
        name = next(name for name in archive.namelist() if name.startswith("samples/"))
        sample = json.loads(archive.read(name))
        assert "base64" not in archive.read("summaries.json").decode()
        args = json.loads(archive.read("header.json"))["eval"]["task_args"]
    assert (args["use"], args["kind"]) == ("eval.tasks.MarkedScenes", "color")
    (address,) = sample["attachments"].values()
    sha = hashlib.sha256(base64.b64decode(address.partition(",")[2])).hexdigest()
    assert any(sha in path.name for path in (run / "blobs").rglob("*"))
    assert [message["role"] for message in sample["messages"]] == ["user", "assistant"]
    assert [part["type"] for part in sample["messages"][0]["content"]].count("image") == 1


def test_the_page_of_a_comparison_shows_the_requests_of_a_run(run: Path, tmp_path: Path) -> None:
    (log,) = read_logs(run)
    turned = Log("turned", log.rows.assign(value=1 - log.rows["value"], verdict="right"), "b")
    data = make_compare_page(compare_logs([log, turned]))
    turns = data.answers[0, 1][0].turns
    pictures = [part for turn in turns for part in turn.parts if isinstance(part, PagePicture)]
    assert len(pictures) == 1
    assert data.thumbnails[pictures[0].name].startswith("data:image/")
    assert turns[-1].parts == ("I cannot say <b>why</b>.",)
    assert data.answers[1, 1][0].verdict == "right"
    assert "<b>why</b>" not in render_page(data, left_out={})


def test_inspect_reads_an_export_and_its_own_log_is_read(run: Path, tmp_path: Path) -> None:
    inspect_log = pytest.importorskip("inspect_ai.log")
    file = find_export(run, "inspect", tmp_path, ".eval")
    held = inspect_log.read_eval_log(str(file), resolve_attachments=True)
    (log,) = read_logs(run)
    assert [sample.id for sample in held.samples] == log.rows["sample"].tolist()
    assert held.samples[0].input[0].content[0].image.startswith("data:image/png;base64,")
    assert len(inspect_log.read_eval_log_sample_summaries(str(file))) == 3
    inspect_log.write_eval_log(held, str(tmp_path / "theirs.eval"))
    (theirs,) = read_logs(tmp_path / "theirs.eval")
    columns = ["sample", "value", "verdict", "answer", "reply", "key"]
    assert plain(theirs, columns) == plain(log, columns)


def test_an_export_of_every_eval_ever_is_read_back_with_hashes(run: Path, tmp_path: Path) -> None:
    file = find_export(run, "every-eval-ever", tmp_path, ".json")
    details = json.loads(file.read_text())["detailed_evaluation_results"]
    lines = (file.parent / details["file_path"]).read_bytes()
    assert hashlib.sha256(lines).hexdigest() == details["checksum"]
    (log,), (back,) = read_logs(run), read_logs(file)
    assert all(len(sha) == 64 for sha in log.rows["pictures"])
    assert plain(back) == plain(log)
    instances = [json.loads(line) for line in lines.splitlines()]
    assert [instance["evaluation"]["score"] for instance in instances][1:] == [0.0, 0.0]
    assert all(isinstance(value, str) for one in instances for value in one["metadata"].values())


@pytest.mark.parametrize(("form", "ending"), [("inspect", ".eval"), ("every-eval-ever", ".json")])
def test_a_failed_draw_stays_failed(tmp_path: Path, form: str, ending: str) -> None:
    (tmp_path / "a.csv").write_text("id,draw,correct\nq1,0,1\nq1,1,\n")
    file = find_export(tmp_path / "a.csv", form, tmp_path / "out", ending)
    rows = read_logs(file)[0].rows
    assert rows[["draw", "verdict"]].to_numpy().tolist() == [[0, "right"], [1, "failed"]]


def test_results_for_the_hub(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,task,correct\nq1,x,1\nq2,x,0\nq3,y,1\nq4,y,1\n")
    args = "export", tmp_path / "a.csv", "--to", "eval-results", "--out", tmp_path
    refused = looktwice(*args)
    assert refused.exit_code == 2 and "--dataset" in refused.output
    done = looktwice(*args, "--dataset", "org/bench")
    assert done.exit_code == 0, done.output
    entries = yaml.safe_load((tmp_path / ".eval_results/looktwice_a.yaml").read_text())
    assert {entry["dataset"]["id"] for entry in entries} == {"org/bench"}
    values = {entry["dataset"]["task_id"]: entry["value"] for entry in entries}
    assert values == {"x": 50.0, "y": 100.0}
    for name, words in ("html", "inspect, .*, trajectories"), ("trajectory", "'trajectories'"):
        with pytest.raises(TaskError, match=words):
            list(export_logs(read_logs(tmp_path / "a.csv"), name, tmp_path))


def test_an_excel_table_has_the_columns_that_vlmevalkit_reads(tmp_path: Path) -> None:
    """Its scorer asserts that every index is in its own table, if indexes are numbers."""
    pytest.importorskip("openpyxl")
    made = MadeRun(tmp_path / "run")
    made.task("depth", ["A", "B"], meta=[{"category": "depth"}] * 2)
    for number, row in enumerate(made.samples):
        made.samples[number] = replace(row, sample={**row.sample, "id": str(10 + number)})
    made.answers(made.point("one", "depth"), ["A", "A"])
    made.write()
    list(report_replies([tmp_path / "run"], exports=[tmp_path / "one.xlsx"]))
    table = pandas.read_excel(tmp_path / "one.xlsx")
    assert table["index"].tolist() == [10, 11] and table["index"].dtype.kind == "i"
    assert table[["category", "split", "answer"]].iloc[0].tolist() == ["depth", "none", "A"]
