"""A stage that puts unrecordable values into the state fails only its sample."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval import Facts, Photos, evaluate
from looktwice.eval.readers import Robust
from looktwice.eval.records.records import RunError
from looktwice.eval.report import write_report
from looktwice.eval.tasks import TaskError
from looktwice.eval.tasks.base import check_items
from looktwice.pipelines import ChatAPI, Item, Pipeline, Sample, State
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.model import CallOptions, Model
from looktwice.pipelines.models import Pocket
from looktwice.prompting import Ask, Circles
from looktwice.specialists import Chance


class Unspeakable(Exception):
    """An exception whose text cannot be computed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


WRONG: dict[str, tuple[Any, str]] = {
    "number": ({"answer": 5}, "answer must be a string, found 5 (int)"),
    "bytes": ({"answer": b"A"}, "answer must be a string"),
    "half": ({"answer": "A \ud83d"}, "answer holds a lone surrogate"),
    "float32": (
        {"answer": "A", "confidence": np.float32(0.5)},
        "confidence must be a float in 0..1",
    ),
    "nan": ({"answer": "A", "confidence": float("nan")}, "confidence must be a float in 0..1"),
    "notes": ({"answer": "A", "notes": (3,)}, "notes[0] must be a string"),
    "views": ({"answer": "A", "views": None}, "views must be a tuple of View"),
    "messages": ({"answer": "A", "messages": ["hello"]}, "messages must be a tuple of Message"),
    "raises": ({}, "Unspeakable: (its message cannot be formatted: RuntimeError)"),
}


@dataclass(frozen=True)
class Answers:
    """Answers A, but puts an invalid value into the state of every second question."""

    wrong: str = ""

    def __call__(self, state: State, model: Model) -> State:
        if not self.wrong or state.sample.id.endswith(("0", "2")):
            return state.replace(answer="A")
        if self.wrong == "raises":
            raise Unspeakable
        return replace(state, **WRONG[self.wrong][0])


def test_a_wrong_type_fails_only_its_own_sample(tmp_path: Path) -> None:
    arms = {"first": Answers(), **{wrong: Answers(wrong) for wrong in WRONG}}
    table = evaluate(Photos("jigsaw", n=4), arms, out=tmp_path / "run")
    page = write_report([tmp_path / "run"], tmp_path / "run").with_suffix(".md")
    text = page.read_text(encoding="utf-8").replace("\\", "")
    for wrong, (_, fault) in WRONG.items():
        (row,) = table.where(contestant=wrong, metric="accuracy", task="jigsaw").rows
        assert (row.failed, (row.right or 0) + (row.wrong or 0)) == (2, 2), wrong
        assert fault.split(",")[0] in text, wrong


PHOTOS, ASK, CHANCE = Photos("jigsaw", n=4), Pipeline({"a": Ask()}), {"c": Chance()}
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (evaluate, (PHOTOS, {"mine": 3}), {}, "contestants['mine'] must be a stage"),
    (evaluate, (PHOTOS, {"c": Chance}), {}, "is the class Chance; write Chance("),
    (evaluate, (PHOTOS, [ASK]), {}, "`contestants` must be a mapping"),
    (evaluate, (PHOTOS, {"c": ASK}, "gpt"), {}, "`model` must be a model such as"),
    (evaluate, (PHOTOS, {"c": ASK}, Pocket), {}, "model is the class Pocket"),
    (evaluate, (PHOTOS, {"c": ASK}), {}, "contestants['c']: its stage 'a' calls a model, but none"),
    (evaluate, ("mine", CHANCE), {}, "`task` must be a task such as Folder("),
    (evaluate, ([PHOTOS], CHANCE), {}, "`task` must be a task such as Folder("),
    (evaluate, (PHOTOS, CHANCE), {"reader": Robust}, "reader is the class Robust"),
    (evaluate, (PHOTOS, CHANCE), {"draws": 0}, "`draws` must be a whole number of at least 1"),
    (evaluate, (PHOTOS, CHANCE), {"limit": "3"}, "limit must be a number, found '3'"),
    (evaluate, (PHOTOS, CHANCE), {"sweep": {"radius": [9]}}, "no contestant has the stage of 'r"),
    (spec, (object(),), {}, "a class of your own needs `@dataclass(frozen=True)` above it"),
    (Pipeline, ([Ask()],), {}, "stages must be a mapping of named stages"),
    (Pipeline, ({"a": Ask},), {}, "stages['a'] is the class Ask"),
    (ASK, ("a question",), {}, "a stage takes a State, such as State.start(sample), found str"),
    (State.start, (next(iter(PHOTOS)),), {}, "takes a Sample, such as an Item's `sample`"),
    (Circles, (), {"radius": "x"}, "radius must be a number, found 'x'"),
    (Circles, (), {"color": 3}, "3 is not a colour"),
    (ChatAPI, ("m",), {"temperature": "hot"}, "temperature must be a number, found 'hot'"),
    (ChatAPI, ("m",), {"max_tokens": -3}, "max_tokens must be at least 1, got -3"),
    (CallOptions, (), {"temperature": -1}, "temperature must be at least 0"),
    (Photos, ("jigsaw",), {"n": "4"}, "1 or more; found '4'"),
]


@pytest.mark.parametrize(("call", "given", "named", "said"), CALLS)
def test_a_call_with_a_wrong_type_names_the_expected_type_before_running(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Any,
    given: tuple[Any, ...],
    named: dict[str, Any],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError, TaskError, RunError), match=re.escape(said)):
        call(*given, **named)
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class NumberKeys:
    facts = Facts("made", "mine")

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Item]:
        sample = Sample("s0", "Which?", choices=("near", "far"))
        yield Item(sample, 1)  # type: ignore[arg-type]


def test_a_numeric_answer_key_ends_check_and_run_with_the_same_fault(tmp_path: Path) -> None:
    sentence = "sample s0: its answer must be a string, or None if hidden, found 1"
    with pytest.raises(TaskError, match=sentence):
        evaluate(NumberKeys(), CHANCE, out=tmp_path / "run")
    with pytest.raises(TaskError, match=sentence):
        next(check_items(NumberKeys()))


def test_numpy_floats_are_accepted(tmp_path: Path) -> None:
    state = State.start(next(iter(Photos("jigsaw", n=1))).sample)
    assert state.replace(confidence=np.float64(0.5), answer=np.str_("A")).find_fault() == ""
