"""A stage of one's own puts into the state what cannot be recorded: that sample fails alone, with a
sentence."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval import Photos, evaluate
from looktwice.eval.report import write_report
from looktwice.pipelines import State
from looktwice.pipelines.model import Model


class Unspeakable(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


WRONG: dict[str, tuple[Any, str]] = {
    "number": ({"answer": 5}, "answer is a text, found 5 (int)"),
    "bytes": ({"answer": b"A"}, "answer is a text"),
    "half": ({"answer": "A \ud83d"}, "answer holds half a surrogate pair"),
    "float32": ({"answer": "A", "confidence": np.float32(0.5)}, "confidence is a float in 0..1"),
    "nan": ({"answer": "A", "confidence": float("nan")}, "confidence is a float in 0..1"),
    "notes": ({"answer": "A", "notes": (3,)}, "notes[0] is a text"),
    "views": ({"answer": "A", "views": None}, "views is a tuple of View"),
    "messages": ({"answer": "A", "messages": ["hello"]}, "messages is a tuple of Message"),
    "raises": ({}, "Unspeakable: (its text cannot be made: RuntimeError)"),
}


@dataclass(frozen=True)
class Answers:
    """Answers A, but puts something wrong into the state of every second question."""

    wrong: str = ""

    def __call__(self, state: State, model: Model) -> State:
        if not self.wrong or state.sample.id.endswith(("0", "2")):
            return state.replace(answer="A")
        if self.wrong == "raises":
            raise Unspeakable
        return replace(state, **WRONG[self.wrong][0])


def test_a_wrong_type_fails_its_own_sample_alone(tmp_path: Path) -> None:
    arms = {"first": Answers(), **{wrong: Answers(wrong) for wrong in WRONG}}
    table = evaluate(Photos("jigsaw", n=4), arms, out=tmp_path / "run")
    page = write_report([tmp_path / "run"], tmp_path / "run").with_suffix(".md")
    text = page.read_text(encoding="utf-8").replace("\\", "")
    for wrong, (_, fault) in WRONG.items():
        (row,) = table.where(contestant=wrong, metric="accuracy", task="jigsaw").rows
        assert (row.failed, (row.right or 0) + (row.wrong or 0)) == (2, 2), wrong
        assert fault.split(",")[0] in text, wrong


def test_a_contestant_that_cannot_be_called_is_refused_before_anything_is_run(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        TypeError, match=r"contestants\['mine'\] is to be a stage .*, but its 'answer' is int"
    ):
        evaluate(Photos("jigsaw", n=4), {"mine": 3}, out=tmp_path / "none")  # type: ignore[dict-item]
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_that_are_floats_are_taken(tmp_path: Path) -> None:
    state = State.start(next(iter(Photos("jigsaw", n=1))).sample)
    assert state.replace(confidence=np.float64(0.5), answer=np.str_("A")).fault() == ""
