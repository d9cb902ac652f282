"""Own models and tasks that give what no record can hold: a sentence says it, and the folder stays
whole."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from looktwice.eval.records import RunFolder
from tests.first_day.studies import looktwice

MODEL = """
from dataclasses import dataclass
import numpy as np
from looktwice.pipelines import Reply
from looktwice.pipelines.model import ToolCall, Usage

@dataclass(frozen=True)
class M:
    how: str = ""
    @property
    def identity(self): return "odd " + self.how
    def __call__(self, messages, draw=0, options=None):
        if "first" not in messages[-1].text:
            return Reply("(A)")
        return {
            "number": Reply(5), "usage": Reply("(A)", usage=Usage("x", 1)), "calls": Reply("(A)", \
tool_calls=("x",)),
            "numpy": Reply("(A)", usage=Usage(np.int64(5), 1)), "object": Reply("(A)", \
served_by={"a": object()}),
            "half": Reply("(A) " + chr(0xD83D)), "text": "(A)", "nothing": None,
            "nan": Reply("(A)", seconds=float("nan")),
        }[self.how]
"""
TASK = """
from dataclasses import dataclass, replace
from looktwice.eval.tasks.base import Facts
from looktwice.pipelines import Sample
from looktwice.pipelines.sample import Item

@dataclass(frozen=True)
class T:
    how: str = ""
    facts = Facts()
    def __len__(self): return {"long": 10**30, "less": -1, "words": "x"}.get(self.how, 2)
    def __iter__(self):
        yield Item(Sample("a", "Which?", choices=("x", "y")), "A")
        odd = Sample("b", "Which?", choices=("x", "y"))
        held = {"nan": {"v": float("nan")}, "set": {"v": {1}}, "half": {"v": chr(0xDFFF)}}
        change = {"id": {"id": 7}, "question": {"question": None}, **{k: {"meta": v} for k, v in \
held.items()}}
        yield {"dict": {"id": "b"}, "truth": Item(odd, "A", {"v": object()})}.get(
            self.how, Item(replace(odd, **change.get(self.how, {})), "A")
        )
"""
PHOTOS = "{use: eval.tasks.Photos, kind: jigsaw, n: 4}"
STUDY = """
task: %s
model: %s
stages: {choose: {use: prompting.wording.MultipleChoice}, ask: {use: prompting.turns.Ask}}
"""


def write(folder: Path, task: str, model: str) -> str:
    """A study and its plugin, whose name is given back: this process loads no two plugins of one
    name."""
    name = f"odd_{abs(hash((task, model)))}"
    (folder / f"{name}.py").write_text(MODEL + TASK)
    (folder / "samples.jsonl").write_text(
        '{"id": "a", "question": "first", "choices": ["x", "y"], "answer": "A"}\n'
        '{"id": "b", "question": "second", "choices": ["x", "y"], "answer": "A"}\n'
    )
    (folder / "study.yaml").write_text((STUDY % (task, model)).replace("odd.", f"{name}."))
    return f"{name}.py"


@pytest.mark.parametrize(
    "how", ["number", "usage", "calls", "numpy", "object", "half", "text", "nothing", "nan"]
)
def test_a_reply_that_is_none_fails_its_sample_alone(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model's `Reply(5)` or a numpy count ended the run in a traceback, and its folder could not
    be read again."""
    monkeypatch.chdir(tmp_path)
    plugin = write(tmp_path, "{use: eval.tasks.Folder, path: .}", f"{{use: odd.M, how: {how}}}")
    result = looktwice("run", "study.yaml", "--plugin", plugin)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.output
    records = {record.sample: record for record in RunFolder(Path("runs/study")).records().values()}
    assert "gave a reply that cannot be recorded" in records["a"].error and not records["b"].error
    again = looktwice("run", "study.yaml", "--plugin", plugin)
    assert again.exit_code == 1 and "1 new, 1 were there" in " ".join(again.output.split())


ODD_NAMES = (
    os.fsdecode(b"caf\xe9"),
    "nel\x85x",
    "bell\x07\x1b[31m",
    "\U0001f600 'q\"",
    "new\nline",
    "a: #b",
    "\u2028",
)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_a_folder_of_any_name_is_written_so_that_it_is_read(name: str, tmp_path: Path) -> None:
    """A name that is no UTF-8 ended a run in a traceback, and made a merged run.yaml that nobody
    could read."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "study.yaml").write_text(
        STUDY % (PHOTOS, "{use: pipelines.models.Scripted, answer: (A)}")
    )
    for number in (1, 2):
        ran = looktwice(
            "run", folder / "study.yaml", "--out", folder / f"{number}", "--shard", f"{number}/2"
        )
        assert ran.exit_code == 0, (ran.output, ran.exception)
    for _ in range(2):
        merged = looktwice(
            "merge", folder / "1/study", folder / "2/study", "--out", folder / "whole"
        )
        assert merged.exit_code == 0, (merged.output, merged.exception)
    facts = RunFolder(folder / "whole").facts
    shown = name.encode(errors="backslashreplace").decode()
    assert [Path(shard["folder"]).parts[-3] for shard in facts["shards"]] == [
        shown,
        shown,
    ] and facts["records"] == 4
    reported = looktwice("report", folder / "whole")
    assert reported.exit_code == 0, (reported.output, reported.exception)
