"""What a large run is read by, the quick way, finds the same as the careful one, or leaves the case
to it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.large_run import make_run
from looktwice.eval.readers.reader import Reader, Reading
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.records.records import Record
from looktwice.eval.runs import Study
from looktwice.eval.scoring.score_run import score_run
from looktwice.eval.scoring.verdict import ScoredRecord, Verdict
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import Model
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.state import State


def test_a_record_has_every_field_and_default() -> None:
    whole = {"point": "p", "sample": "s", "sample_sha": "", "draw": 0, "v": 1}
    call = {"messages": ["m"], "draw": 0, "reply": {"text": "B"}, "options": {"stop": ["x"]}}
    record = Record.from_line(json.dumps(whole | {"calls": [call], "choices": ["x"]}))
    assert record == Record("p", "s", "", calls=(call,), choices=("x",))
    assert Record.from_line(record.to_line()) == record
    with pytest.raises(RunError, match="version 2"):
        Record.from_line(json.dumps(whole | {"v": 2}))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("quick"), 4)[1]


class Wrong(Reader):
    """Reads what is no text."""

    def read(self, state: State) -> Reading:
        return Reading(0)  # type: ignore[arg-type]


class Torn(Reader):
    """Reads half a surrogate pair."""

    def read(self, state: State) -> Reading:
        return Reading("\ud83d")


class Raising(Reader):
    """Always fails."""

    def read(self, state: State) -> Reading:
        raise KeyError("own")


class Looking(Reader):
    """Answers by the question that was asked, which lies in the blobs."""

    def read(self, state: State) -> Reading:
        return Reading(
            "A" if state.messages[0].text.startswith("say3") else None, "refused: not mine"
        )


class Calling(Robust):
    """A stage of its own, of which `read` is only a part."""

    def __call__(self, state: State, model: Model) -> State:
        return state.replace(answer="C")


@dataclass(frozen=True)
class Asking(Reader):
    """Holds a model, which the run would have to know of."""

    model: Scripted = field(default_factory=Scripted)

    def read(self, state: State) -> Reading:
        return Reading("D" if type(self.model).__name__ == "SecondModel" else "A")


def read_with(run: Path, reader: Reader) -> list[ScoredRecord]:
    """Every scored record of the run, read by this reader."""
    return [entry for scores in score_run(RunFolder(run), reader).points for entry in scores.all]


@pytest.mark.parametrize(
    ("reader", "said"),
    [(Wrong(), "answer is a text, found 0"), (Torn(), "half a surrogate"), (Raising(), "'own'")],
)
def test_what_a_reader_of_ones_own_does_wrong_is_said(run: Path, reader: Reader, said: str) -> None:
    """Its answers were checked after each of them, with a record of the step that nobody kept."""
    found = read_with(run, reader)
    assert {entry.verdict for entry in found} == {Verdict.FAILED}
    assert all(said in entry.detail for entry in found)


def test_a_reader_of_ones_own_sees_what_every_stage_sees(run: Path) -> None:
    """One that looks at the question, is called otherwise or holds a model works as it did."""
    assert [entry.answer for entry in read_with(run, Looking())].count("A") == 4
    assert {entry.reason for entry in read_with(run, Looking())} == {"", "refused"}
    assert {entry.answer for entry in read_with(run, Calling())} == {"C"}
    assert {entry.answer for entry in read_with(run, Asking())} == {"D"}


def test_a_resume_reads_no_message(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume with nothing to do opened every message of the run, 100,000 files."""
    blobs = sorted((run / "blobs").glob("*/*"))
    opened: list[str] = []
    real = Blobs.get

    def watched(kept: Blobs, sha: str) -> bytes:
        opened.append(sha)
        return real(kept, sha)

    monkeypatch.setattr(Blobs, "get", watched)

    def again() -> int:
        return Study(load_plan(run.parent.parent / "large.yaml"), run.parent)().written

    assert again() == 0 and not opened
    blobs[0].write_bytes(b"")  # nothing is left of it
    blobs[1].unlink()
    assert again() == 2
    assert again() == 0


def test_a_run_without_a_server_opens_no_client_and_no_statistics(tmp_path: Path) -> None:
    """Half of the second that a run of one question took went into what it never used."""
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "samples.jsonl").write_text(
        '{"id": "q", "question": "Which?", "answer": "A"}\n'
    )
    (tmp_path / "s.yaml").write_text(
        "task: {use: eval.tasks.Folder, path: questions}\nmodel: {use: pipelines.models.Scripted,"
        " answer: A}\nstages: {ask: {use: prompting.turns.Ask}}\n"
    )
    code = (
        "import atexit, sys; from looktwice.eval.cli import main; atexit.register(lambda:"
        " print(*sys.modules)); main()"
    )
    words = ["run", str(tmp_path / "s.yaml"), "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], check=True, capture_output=True, text=True
    )
    said = done.stdout.splitlines()
    assert "1 new" in done.stdout and (tmp_path / "s" / "report.html").exists()
    opened = set(said[-1].split())
    unused = {
        "aiohttp",
        "asyncio",
        "pandas",
        "pyarrow",
        "scipy",
        "skimage",
        "looktwice.prompting.agent.agent",
    }
    assert "numpy" in opened and not unused & opened


def test_scoring_imports_neither_a_client_nor_a_library_of_statistics(run: Path) -> None:
    """`score` imported pandas, statsmodels, scipy.stats and aiohttp: two seconds of five, for any
    run."""
    score = (
        "import sys; from looktwice.eval.display.table import score_table; score_table(sys.argv[1])"
    )
    code = f"{score}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(run)], check=True, capture_output=True, text=True
    )
    assert not {"pandas", "statsmodels", "scipy.stats", "aiohttp"} & set(done.stdout.split())
