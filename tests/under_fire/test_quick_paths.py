"""Large runs: counts what is parsed, stored and opened for each record."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import finalize

import pytest

from bench.large_run import ARMS, make_run
from looktwice.eval.display.table import score_table
from looktwice.eval.readers.reader import Reader, Reading
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.records.records import Record
from looktwice.eval.runs import Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import ScoredRecord, Verdict
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.disk import has_text
from looktwice.pipelines.model import Model
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.pipeline import RecordingModel, run_stage
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.paths import ROOT
from tests.under_fire.scenes import STUDY, write_questions

SAMPLES = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("large"), SAMPLES)[1]


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made.parent.parent, tmp_path / "large")
    return tmp_path / "large" / "runs" / "large"


def test_scoring_holds_one_record_in_memory_at_a_time(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse, alive, counts = Record.from_line, set[int](), list[int]()

    def from_line(line: str | bytes) -> Record:
        record, number = parse(line), len(counts)
        finalize(record, alive.discard, number)
        alive.add(number)
        counts.append(len(alive))
        return record

    monkeypatch.setattr(Record, "from_line", from_line)
    assert score_table(run).rows[0].n == SAMPLES
    assert len(counts) == ARMS * SAMPLES and max(counts) <= 2


def test_scoring_reads_no_message_that_its_reader_does_not_need(run: Path) -> None:
    before = score_table(run).csv
    shutil.rmtree(run / "blobs")
    assert score_table(run).csv == before


def test_a_record_has_every_field_with_its_default_and_another_version_is_refused(
    run: Path,
) -> None:
    whole = {"point": "p", "sample": "s", "sample_sha": "", "draw": 0, "v": 1}
    call = {"messages": ["m"], "draw": 0, "reply": {"text": "B"}, "options": {"stop": ["x"]}}
    record = Record.from_line(json.dumps(whole | {"calls": [call], "choices": ["x"]}))
    assert record == Record("p", "s", "", calls=(call,), choices=("x",))
    assert Record.from_line(record.to_line()) == record
    lines = (run / "records.jsonl").read_text().replace('"v":1', '"v":2')
    (run / "records.jsonl").write_text(lines)
    with pytest.raises(RunError, match=r"line 1: .*version 2") as refused:
        RunFolder(run).records()
    assert "delete" not in str(refused.value)


@dataclass(frozen=True)
class Own(Reader):
    """Gives a reading, an invalid reading, or fails."""

    reading: Reading | Exception

    def read(self, state: State) -> Reading:
        if isinstance(self.reading, Exception):
            raise self.reading
        return self.reading


class Looking(Reader):
    """Answers from the question that was asked, which is stored in the blobs."""

    def read(self, state: State) -> Reading:
        is_mine = state.messages[0].text.startswith("say3")
        return Reading("A" if is_mine else None, "refused: not mine")


class Calling(Robust):
    """A custom stage, of which `read` is only a part."""

    def __call__(self, state: State, model: Model) -> State:
        return state.replace(answer="C")


class ReadingStates(Robust):
    """A custom reader that uses more than the reply, though its parent does not."""

    def read(self, state: State) -> Reading:
        return Reading("C" if len(state.messages) == 2 else None)


class ReadingMasked(Robust):
    def read_masked(self, state: State, keys: Sequence[str] | None = None) -> Reading:
        return Reading("C" if len(state.messages) == 2 else None)


class ReadingText(Robust):
    def read_text(self, reply: str, sample: Sample) -> Reading:
        return Reading("C")


@dataclass(frozen=True)
class Asking(Reader):
    """Holds a model that the run must know of."""

    model: Scripted = field(default_factory=Scripted)

    def read(self, state: State) -> Reading:
        return Reading("D" if type(self.model).__name__ == "SecondModel" else "A")


@dataclass
class Late:
    """Creates a model at its first call; `kinds` are the model classes it was given."""

    model: Model | None = None
    kinds: list[str] = field(default_factory=list)

    def __call__(self, state: State, model: Model) -> State:
        self.kinds.append(type(self.model).__name__)
        self.model = Scripted()
        return state.replace(answer="A")


def test_calls_of_a_model_created_later_by_a_stage_are_recorded() -> None:
    late, state = Late(), State.start(Sample("s1", "Which?"))
    for _ in range(3):
        run_stage("late", late, state, RecordingModel(Scripted(), "s1"))
    assert late.kinds == ["NoneType", "SecondModel", "SecondModel"]


class OwnState(State):
    """A custom state."""


def test_a_state_is_copied_completely_without_additional_fields() -> None:
    for kind in (State, OwnState):
        state = kind(Sample("s1", "Which?"), prompt="Which?", notes=("first",))
        other = state.replace(prompt="Why?", draw=2)
        assert type(other) is kind and state.prompt == "Which?"
        assert vars(other) == vars(state) | {"prompt": "Why?", "draw": 2}
        with pytest.raises(TypeError, match="promt"):
            state.replace(promt="Why?")


def read_with(run: Path, reader: Reader) -> list[ScoredRecord]:
    """Return every scored record of the run, read by this reader."""
    return [
        entry for scores in score_run(RunFolder(run), reader).points for entry in scores.all_records
    ]


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (Reading(0), "answer must be a string, found 0"),  # type: ignore[arg-type]
        (Reading("\ud83d"), "a lone surrogate"),
        (KeyError("own"), "'own'"),
    ],
)
def test_mistakes_of_a_custom_reader_are_reported(
    made: Path, reading: Reading | Exception, said: str
) -> None:
    for entry in read_with(made, Own(reading)):
        assert entry.verdict == Verdict.FAILED and said in entry.detail


def test_a_custom_reader_sees_what_every_stage_sees(made: Path) -> None:
    looked = read_with(made, Looking())
    assert [entry.answer for entry in looked].count("A") == 4
    assert {entry.reason for entry in looked} == {"", "refused"}
    for reader in (Calling(), ReadingStates(), ReadingMasked(), ReadingText()):
        assert {entry.answer for entry in read_with(made, reader)} == {"C"}
    assert {entry.answer for entry in read_with(made, Asking())} == {"D"}


@pytest.mark.parametrize("begin", [0, 1, (1 << 20) - 7, (1 << 20) - 1, 1 << 20, (2 << 20) - 3])
def test_a_text_is_found_wherever_it_stands_in_a_file(tmp_path: Path, begin: int) -> None:
    """Files are read in parts of a mebibyte."""
    file = tmp_path / "records.jsonl"
    file.write_bytes(b"x" * begin + b'"letters"' + b"x" * 5)
    assert has_text(file, b'"letters"')
    assert not has_text(file, b'"letters" ')


def test_a_resume_reads_no_message(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = sorted((run / "blobs").glob("*/*"))
    opened, real = list[str](), Blobs.get

    def get(kept: Blobs, sha: str) -> bytes:
        opened.append(sha)
        return real(kept, sha)

    monkeypatch.setattr(Blobs, "get", get)

    def again() -> int:
        return Study(load_plan(run.parent.parent / "large.yaml"), run.parent)().written_count

    assert again() == 0 and not opened
    blobs[0].write_bytes(b"")  # truncated to nothing
    blobs[1].unlink()
    assert (again(), again()) == (2, 0)


STEPS = """
import sys
import looktwice.eval.cli as cli
def show(step): print("after", step, *sys.modules)
show("help")
run, sys.argv = sys.argv[1], ["", "run", "s.yaml"]
try: cli.main()
except SystemExit: pass
show("run")
from looktwice.eval.display.table import score_table
score_table(run)
show("score")
from looktwice.eval.listing import KIND_DESCRIPTIONS, list_kind
for kind in KIND_DESCRIPTIONS: list(list_kind(kind, ()))
show("list")
"""
SLOW = {"aiohttp", "pandas", "statsmodels", "torch", "transformers", "kornia", "skimage"}
UNUSED = {
    "help": {"cv2", "numpy", "pydantic"},
    "run": {"asyncio", "pyarrow", "scipy", "looktwice.prompting.agent.agent"},
    "score": {"scipy.stats"},
    "list": {"scipy.optimize"},
}


@pytest.mark.slow
def test_no_command_imports_a_library_that_it_does_not_use(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "typings"))
    write_questions({})
    Path("s.yaml").write_text(STUDY)
    command = [sys.executable, "-c", STEPS, str(made)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    steps = dict[str, set[str]]()
    for line in done.stdout.splitlines():
        if line.startswith("after "):
            _, step, *modules = line.split()
            steps[step] = set(modules)
    assert "numpy" in steps["run"] and steps.keys() == UNUSED.keys()
    for step, opened in steps.items():
        assert (SLOW | UNUSED[step]) & opened == set(), step
