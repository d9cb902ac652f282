"""A custom model that defers: a run collects, then repeats the samples that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from looktwice.eval.readers import Robust
from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.pipelines.config.plan import Plan, add_id
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import (
    CallOptions,
    Deferred,
    Messages,
    ModelError,
    Reply,
    make_request_key,
)
from looktwice.prompting.turns import CaptionThenAnswer
from tests.questions_in_memory import Questions


@dataclass(eq=False)
class Gathered:
    """Waiting and collected requests; `rounds` counts the collections."""

    identity: ClassVar[str] = "patient"
    waiting: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    rounds: int = 0
    closed: bool = False

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        key = make_request_key(self.identity, messages, draw, options)
        if key not in self.known:
            self.waiting.add(key)
            raise Deferred("it waits")
        return Reply("(A)")

    def collect_replies(self) -> None:
        self.known |= self.waiting
        self.waiting.clear()
        self.rounds += 1

    def close(self) -> None:
        self.closed = True


@dataclass(frozen=True)
class Patient:
    """Answers once it has been collected; `opened` lists the queues that runs opened."""

    remote: ClassVar[bool] = True
    place: ClassVar[str] = "nowhere"
    prices: ClassVar[Any] = None
    opened: list[Gathered] = field(default_factory=list, compare=False)

    @property
    def identity(self) -> str:
        return "patient"

    def check(self) -> None:
        """Find no fault."""

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        raise ModelError("only a run collects")

    def open_queue(
        self,
        store: Any,
        stop: threading.Event,
        say: Callable[[str], None],
        give_up: Callable[[str], None],
    ) -> Gathered:
        self.opened.append(Gathered())
        return self.opened[-1]


def test_a_run_collects_deferred_samples_and_repeats_them(tmp_path: Path) -> None:
    model, stages = Patient(), {"ask": CaptionThenAnswer()}
    task = Questions(("A", "B", "A"))
    arm = Arm("a", {}, "made", task, model, stages, Robust(), 1, 0, True, "", "")
    study = Study(Plan("test", (add_id(arm),)), tmp_path, RunOptions(workers=2))
    summary = study()
    (queue,) = model.opened
    assert (summary.written_count, queue.rounds, queue.closed) == (3, 2, True), (
        "a round for each turn"
    )
    found = RunFolder(study.folder).records().values()
    assert [len(record.replies) for record in found] == [2, 2, 2]
    assert study().written_count == 0
