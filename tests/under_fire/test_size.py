"""Large runs: what is parsed, kept and compiled for each record is counted, since a clock would not
be the same twice.

Seconds and memory of 100,000 records are measured in `bench/bench_large_run.py`.
"""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from weakref import finalize

import pytest
import yaml
from typer.testing import CliRunner

from bench.large_run import ARMS, make_run
from looktwice.eval.cli import app
from looktwice.eval.display.table import score_table
from looktwice.eval.page import of_runs
from looktwice.eval.readers import robust
from looktwice.eval.records import Record, RunError, RunFolder
from looktwice.eval.report import write_report
from looktwice.eval.runs import Study
from looktwice.eval.runs.show import show_sample
from looktwice.pipelines.config import load_plan

SAMPLES = 12


class Counted:
    """How many lines were parsed as records, and how many records were alive at the same time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parsed = self.alive = self.most = 0
        parse = Record.from_line

        def from_line(line: str | bytes) -> Record:
            record = parse(line)
            finalize(record, self.gone)
            self.parsed, self.alive = self.parsed + 1, self.alive + 1
            self.most = max(self.most, self.alive)
            return record

        monkeypatch.setattr(Record, "from_line", from_line)

    def gone(self) -> None:
        self.alive -= 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_run(tmp_path_factory.mktemp("large"), SAMPLES)


@pytest.fixture
def run(made: tuple[Path, Path], tmp_path: Path) -> Path:
    shutil.copytree(made[1].parent.parent, tmp_path / "large")
    return tmp_path / "large" / "runs" / "large"


def test_scoring_keeps_one_record_at_a_time(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scoring 100,000 records took 0.8 GB, for every record was kept until the last one was
    read."""
    counted = Counted(monkeypatch)
    assert score_table(run).rows[0].n == SAMPLES
    assert counted.parsed == ARMS * SAMPLES
    assert counted.most <= 2


def test_no_cycles_are_looked_for_while_records_are_scored(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, parse = set[bool](), Record.from_line

    def from_line(line: str | bytes) -> Record:
        seen.add(gc.isenabled())
        return parse(line)

    monkeypatch.setattr(Record, "from_line", from_line)
    score_table(run)
    with pytest.raises(RunError):
        score_table(run.parent)
    assert seen == {False} and gc.isenabled()


def test_a_line_that_a_later_one_replaces_is_not_parsed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line was parsed, and those of an earlier attempt thrown away."""
    before = score_table(run).csv
    file = run / "records.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    failed = [line.replace('"error":""', '"error":"KeyError: 1"') for line in lines[:5]]
    file.write_text("".join((*failed, *lines)), encoding="utf-8")
    counted = Counted(monkeypatch)
    assert score_table(run).csv == before
    assert counted.parsed == ARMS * SAMPLES


def test_scoring_reads_no_message_that_its_reader_does_not_look_at(run: Path) -> None:
    """Every message of every conversation was read from its file, 100,000 of them, to look at the
    reply alone."""
    before = score_table(run).csv
    shutil.rmtree(run / "blobs")
    assert score_table(run).csv == before


def test_a_report_parses_no_record_twice_but_those_it_shows(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report parsed all records four times: for its scores, its guesses, its looks and its
    pictures."""
    scored, counted = score_table(run), Counted(monkeypatch)
    monkeypatch.setattr(of_runs, "MOST_ANSWERS", 8 * ARMS)
    write_report(scored, run)
    assert counted.parsed == 8 * ARMS
    assert counted.most <= 2


def test_a_report_opens_the_data_of_its_tasks_for_pictures_alone(tmp_path: Path) -> None:
    """It read all questions again, to know whether there are any; and where one was damaged, there
    was no report."""
    run = make_run(tmp_path, 2)[1]
    (tmp_path / "questions" / "samples.jsonl").write_text("no JSON\n")
    said = CliRunner().invoke(app, ["report", str(run), "--allow", str(tmp_path)])
    assert said.exit_code == 0, said.output


def test_show_parses_the_records_of_its_sample(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`show` took half a minute on a large run."""
    counted = Counted(monkeypatch)
    assert "page:" in list(show_sample(run, "q00003"))[-1]
    assert counted.parsed == ARMS


def test_a_resume_with_nothing_to_do_keeps_no_record(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resume of a finished run kept 0.9 GB of records to know which of them are there."""
    counted = Counted(monkeypatch)
    done = Study(load_plan(run.parent.parent / "large.yaml"), run.parent)()
    assert (done.written, done.kept) == (0, ARMS * SAMPLES)
    assert not counted.parsed


def test_a_reply_that_names_no_choice_by_its_text_is_read_once_for_all_questions() -> None:
    """Four patterns were compiled for every question and reply, which took longer than all the rest
    of scoring."""
    robust._read_choice.cache_clear()
    for number in range(50):
        choices = [f"{colour} thing {number}" for colour in ("red", "green", "blue", "grey")]
        assert (
            robust.read_choice("I would say it is option (B), by its size.", choices).answer == "B"
        )
        assert robust.read_choice(f"It is the green thing {number}.", choices).answer == "B"
    assert robust._read_choice.cache_info().misses == 51


def test_the_made_run_is_as_the_real_writer_leaves_it(run: Path) -> None:
    """What is measured is a run folder like any other."""
    folder = RunFolder(run)
    assert len(folder.records()) == ARMS * SAMPLES
    assert yaml.safe_load((run / "run.yaml").read_text(encoding="utf-8"))["finished"]
    assert [message.role for message in folder.messages(next(folder.last_records()))] == [
        "user",
        "assistant",
    ]
