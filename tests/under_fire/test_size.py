"""Large runs: what is parsed, kept and compiled for each record is counted, since a clock would not
be the same twice.

Seconds and memory of 100,000 records are measured in `bench/bench_large_run.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from weakref import finalize

import pytest
import yaml

from bench.large_run import ARMS, make_run
from looktwice.eval.display.table import score_table
from looktwice.eval.records import Record, RunFolder

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


def test_scoring_reads_no_message_that_its_reader_does_not_look_at(run: Path) -> None:
    """Every message of every conversation was read from its file, 100,000 of them, to look at the
    reply alone."""
    before = score_table(run).csv
    shutil.rmtree(run / "blobs")
    assert score_table(run).csv == before


def test_the_made_run_is_as_the_real_writer_leaves_it(run: Path) -> None:
    """What is measured is a run folder like any other."""
    folder = RunFolder(run)
    assert len(folder.records()) == ARMS * SAMPLES
    assert yaml.safe_load((run / "run.yaml").read_text(encoding="utf-8"))["finished"]
    assert [message.role for message in folder.messages(next(folder.last_records()))] == [
        "user",
        "assistant",
    ]
