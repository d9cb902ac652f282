"""Custom models, tasks and stages with unrecordable values end in a sentence."""

import os
import sys
from pathlib import Path

import pytest

from looktwice.eval.records import RunFolder
from tests.first_day.studies import looktwice
from tests.optional import needs_extras
from tests.under_fire.scenes import RUN, STUDY, records, run_command, write_questions

MODEL = """
from dataclasses import dataclass
import numpy as np
from looktwice.pipelines import Reply
from looktwice.pipelines.model import Stopped, ToolCall, Usage

@dataclass(frozen=True)
class M:
    how: str = ""
    @property
    def identity(self): return "odd " + self.how
    def __call__(self, messages, draw=0, options=None):
        if "first" not in messages[-1].text:
            return Reply("(A)")
        return {
            "number": Reply(5), "usage": Reply("(A)", usage=Usage("x", 1)),
            "calls": Reply("(A)", tool_calls=("x",)), "half": Reply("(A) " + chr(0xD83D)),
            "numpy": Reply("(A)", usage=Usage(np.int64(5), 1)), "text": "(A)", "nothing": None,
            "object": Reply("(A)", served_by={"a": object()}),
            "nan": Reply("(A)", seconds=float("nan")),
        }[self.how]

class Own(BaseException): pass

@dataclass(frozen=True)
class S:
    how: str = ""
    def __call__(self, state, model):
        raise {"own": Own("mine"), "exit": SystemExit(3), "stopped": Stopped("mine")}[self.how]
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a plugin with a unique name next to two questions."""
    monkeypatch.chdir(tmp_path)
    write_questions({"question": "first"}, {"question": "second"})
    name = f"odd_{abs(hash(tmp_path))}"
    Path(f"{name}.py").write_text(MODEL)
    return name


REPLIES = ("number", "usage", "calls", "numpy", "object", "half", "text", "nothing", "nan")


def test_an_invalid_reply_fails_only_its_sample(plugin: str) -> None:
    models = ", ".join(f"{how}: {{use: {plugin}.M, how: {how}}}" for how in REPLIES)
    asked = "".join(f"  {how}: {{model: {how}}}\n" for how in REPLIES)
    study = STUDY.replace("models: {m:", f"models: {{{models}, m:")
    Path("study.yaml").write_text(f"{study}contestants:\n{asked}")
    command = ("run", "study.yaml", "--plugin", f"{plugin}.py")
    run_command(1, *command)
    folder = RunFolder(RUN)
    for record in folder.records().values():
        how = folder.points[record.point].contestant
        fails = "returned a reply that cannot be recorded" in record.error
        assert fails is (record.sample == "q0") and bool(record.error) is fails, how
    assert len(folder.records()) == 2 * len(REPLIES)
    assert "9 new, 9 existing" in " ".join(run_command(1, *command).split())


@pytest.mark.parametrize(("how", "code"), [("own", 1), ("exit", 1), ("stopped", 2)])
def test_a_stage_that_raises_a_base_exception_ends_no_command(
    plugin: str, how: str, code: int
) -> None:
    stage = f"stages: {{x: {{use: {plugin}.S, how: {how}}}, "
    Path("study.yaml").write_text(STUDY.replace("stages: {", stage))
    assert "FAILED: " in run_command(2, "check", "study.yaml", "--plugin", f"{plugin}.py")
    said = run_command(code, "run", "study.yaml", "--plugin", f"{plugin}.py")
    assert "raise another exception" in said or len(records()) == 2


MIXED = "nel\x85x bell\x07\x1b[31m \U0001f600 'q\" new\nline a: #b \u2028"
ODD_NAMES = [os.fsdecode(b"caf\xe9"), MIXED]


@needs_extras
@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_a_folder_of_any_name_is_printed_legibly(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    photos = "{use: eval.tasks.Photos, kind: jigsaw, n: 4}"
    study = STUDY.replace("{use: eval.tasks.Folder, path: own}", photos)
    (folder / "study.yaml").write_text(study)
    for number in (1, 2):
        shard = ("--out", folder / f"{number}", "--shard", f"{number}/2")
        result = looktwice("run", folder / "study.yaml", *shard)
        assert result.exit_code == 0, (result.output, result.exception)
    for _ in range(2):
        shards = folder / "1/study", folder / "2/study"
        run_command(0, "merge", *shards, "--out", folder / "whole")
    facts = RunFolder(folder / "whole").facts
    shown = name.encode(errors="backslashreplace").decode()
    assert [Path(shard["folder"]).parts[-3] for shard in facts["shards"]] == [shown, shown]
    assert facts["records"] == 4
    run_command(0, "score", folder / "whole", "--report")
