"""The verdicts that are kept in a run's folder: whatever happens to the table or the run, scores
are those of a run without it, and only what is new is scored."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.readers.reader import Reading, TextReader
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records import Record, RunFolder
from looktwice.eval.records.judgements import (
    UNREADABLE_PASS,
    Judgement,
    append_judgements,
    hash_judged_text,
)
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring import kept, score
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.sample import Sample
from tests.made_run import MadeRun
from tests.tables import table

N = 30
"""The samples of the run; each has three records."""


@pytest.fixture
def run(made: MadeRun, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of two arms, one with two draws, with a measurement, an unreadable and a failed
    reply."""
    monkeypatch.setattr(score, "MIN_STORED_BYTES", 1)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made.path.parent / "config"))
    made.task("t", "AB" * (N // 2), meta=[{"group": f"g{number // 3}"} for number in range(N)])
    one, two = made.point("one", "t", baseline=True), made.point("two", "t", draws=2)
    for number in range(N):
        made.reply(one, f"s{number}", "Answer: A")
        for draw in (0, 1):
            usage = {"tokens_in": 10 + draw, "tokens_out": number}
            text = "I cannot tell." if number == 7 else f"Answer: {'AB'[(number + draw) % 2]}"
            made.reply(two, f"s{number}", text, draw=draw, usage=usage)
    made.record(two, "s3", draw=1, error="ValueError: torn")
    made.record(two, "s4", draw=1, answer="A", confidence=0.25, measured={"overlap": [0.5, None]})
    path = made.write().path
    (path / "run.yaml").write_text("arms: [p0, p1]\nfinished: true\n", encoding="utf-8")
    return path


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The samples whose records are scored, in order."""
    names, score = list[str](), RecordScorer.__call__

    def count(self: RecordScorer, record: Record, row: object) -> ScoredRecord:
        names.append(record.sample)
        return score(self, record, row)  # type: ignore[arg-type]

    monkeypatch.setattr(RecordScorer, "__call__", count)
    yield names


def read(path: Path) -> tuple[str, list[list[ScoredRecord]], tuple[str, ...]]:
    """Return everything that a table of a run shows."""
    shown = score_table(path)
    return shown.csv, [arm.all_records for arm in shown.scores[0].points], shown.notes


def read_anew(path: Path) -> tuple[str, list[list[ScoredRecord]], tuple[str, ...]]:
    """Return what a run without a kept table shows."""
    for name in (kept.VERDICTS_FILE, kept.SEAL_FILE):
        (path / name).unlink(missing_ok=True)
    return read(path)


def record_of(path: Path, sample: str, text: str) -> bytes:
    """Return a record of the first arm with another reply."""
    lines = (path / "records.jsonl").read_bytes().splitlines(keepends=True)
    line = next(line for line in lines if f'"sample":"{sample}"'.encode() in line)
    return line.replace(b"Answer: A", text.encode())


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def test_a_second_look_scores_nothing(run: Path, scored: list[str]) -> None:
    first = read(run)
    assert len(scored) == 3 * N + 2 and (run / kept.VERDICTS_FILE).exists()
    scored.clear()
    assert read(run) == first and not scored
    assert {record.measured["overlap"][0] for record in first[1][1] if record.measured} == {0.5}


def add(path: Path, *lines: bytes) -> None:
    with (path / "records.jsonl").open("ab") as file:
        file.writelines(lines)


@table
def test_only_what_is_new_is_scored(
    run: Path, scored: list[str], case: str, new: list[str]
) -> None:
    read(run)
    scored.clear()
    match case:
        case "a record of another reply":
            add(run, record_of(run, "s5", "Answer: B"))
        case "a torn line":
            add(run, record_of(run, "s5", "Answer: B")[:-9])
        case "a copy with other times":
            os.utime(run / "records.jsonl", (1, 1))
            os.utime(run / "samples.jsonl", (1, 1))
        case "a new sample":
            row = (run / "samples.jsonl").read_bytes().splitlines(keepends=True)[5]
            with (run / "samples.jsonl").open("ab") as file:
                file.write(row.replace(b'"s5"', b'"s99"'))
            add(run, record_of(run, "s5", "Answer: A").replace(b'"s5"', b'"s99"'))
    shown = read(run)
    assert scored == new
    assert shown == read_anew(run)


REPLACED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "a truncated table": (kept.VERDICTS_FILE, lambda data: data[: len(data) // 2]),
    "a changed table": (kept.VERDICTS_FILE, lambda data: data.replace(b"p0", b"p1")),
    "a changed reply": ("records.jsonl", lambda data: data.replace(b": A", b": B", 1)),
    "a shorter file": ("records.jsonl", lambda data: data[: data.rindex(b"\n", 0, -1) + 1]),
    "another correct answer": (
        "samples.jsonl",
        lambda data: data.replace(b'"answer":"A"', b'"answer":"B"', 1),
    ),
    "a replaced sample": (
        "samples.jsonl",
        lambda data: data + data[: data.index(b"\n") + 1].replace(b':"A"', b':"B"'),
    ),
    "another reader of an arm": ("points.yaml", lambda data: data.replace(b"Robust", b"Strict", 1)),
    "fewer draws": ("points.yaml", lambda data: data.replace(b"draws: 2", b"draws: 1")),
}
"""Files of a run, and what becomes of their bytes."""


def judge(run: Path) -> None:
    """Add a judgement of an unreadable reply."""
    words = hash_judged_text(Record.from_line(record_of(run, "s7", "I cannot tell.")))
    append_judgements(
        run, Judgement(UNREADABLE_PASS, "p1", "s7", 0, "judge", "id", words, answer="B")
    )


@table
def test_whatever_differs_is_scored_again(
    run: Path, scored: list[str], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    read(run)
    scored.clear()
    if case in REPLACED:
        name, change = REPLACED[case]
        rewrite(run / name, change)
    else:
        acts: dict[str, Callable[[], object]] = {
            "no table": (run / kept.VERDICTS_FILE).unlink,
            "no seal": (run / kept.SEAL_FILE).unlink,
            "a table of somebody else": lambda: monkeypatch.setenv(
                "XDG_CONFIG_HOME", str(run / "other")
            ),
            "another version of the reader": lambda: monkeypatch.setattr(Robust, "version", 99),
            "other code": lambda: monkeypatch.setattr(kept, "hash_code", lambda: "other"),
            "a judge": lambda: judge(run),
        }
        acts[case]()
    shown = read(run)
    assert len(scored) >= 2 * N, "everything is scored again"
    assert shown == read_anew(run)
    scored.clear()
    assert read(run) == shown and not scored, "the new table is kept"


def test_another_reader_leaves_the_table_alone(run: Path, scored: list[str]) -> None:
    first = read(run)
    before = (run / kept.VERDICTS_FILE).read_bytes()
    score_table(run, Robust(kind="text"))
    assert (run / kept.VERDICTS_FILE).read_bytes() == before
    scored.clear()
    assert read(run) == first and not scored


def test_a_folder_that_cannot_be_written_is_scored(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, data: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(kept, "write_file", refuse)
    shown = read(run)
    assert not (run / kept.VERDICTS_FILE).exists() and len(shown[1][0]) == N


def test_a_damaged_secret_seals_nothing(run: Path) -> None:
    secret = run.parent / "config" / "looktwice" / "seal"
    secret.parent.mkdir(parents=True)
    secret.write_bytes(b"")
    read(run)
    assert not (run / kept.VERDICTS_FILE).exists()


@dataclass(frozen=True)
class FirstLetter(TextReader):
    """A reader of a user's own file."""

    def read_text(self, reply: str, sample: Sample) -> Reading:
        return Reading.from_answer(reply[-1:])


def test_verdicts_of_own_classes_are_not_kept(run: Path) -> None:
    """Their code may change without a trace."""
    folder = RunFolder(run)
    points = list(folder.points.values())

    def find_place(*scorers: RecordScorer) -> kept.StoredVerdicts | None:
        return kept.StoredVerdicts.of(folder, points, scorers, {}, whole=True)

    assert find_place(*[RecordScorer(folder, Robust())] * 2) is not None
    own = RecordScorer(folder, FirstLetter())
    assert own.reads_only_reply
    assert find_place(RecordScorer(folder, Robust()), own) is None


def test_a_file_that_just_changed_is_read_again(run: Path) -> None:
    """A disk with a coarse clock may hide a change within its tick."""
    before = (run / "records.jsonl").stat().st_mtime_ns
    first = read(run)
    rewrite(run / "records.jsonl", lambda data: data.replace(b": A", b": B", 1))
    os.utime(run / "records.jsonl", ns=(before, before))
    assert read(run) != first


def test_a_record_without_a_sample_keeps_nothing(run: Path) -> None:
    add(run, record_of(run, "s5", "Answer: A").replace(b'"s5"', b'"s99"'))
    read(run)
    assert not (run / kept.VERDICTS_FILE).exists()


@table
def test_a_damaged_line_is_reported_unless_it_is_replaced(run: Path, case: str, fault: str) -> None:
    line = json.loads(record_of(run, "s5", "Answer: B"))
    broken = json.dumps(line | {"notes": 5}).encode() + b"\n"
    match case:
        case "replaced":
            add(run, broken, record_of(run, "s5", "Answer: B"))
        case "last of its key":
            add(run, record_of(run, "s5", "Answer: B"), broken)
        case "without a key":
            add(run, b"{}\n", record_of(run, "s5", "Answer: B"))
    if not fault:
        assert score_run(RunFolder(run)).points[0].scored["s5"][0].answer == "B"
        return
    with pytest.raises(RunError, match=fault):
        score_run(RunFolder(run))
