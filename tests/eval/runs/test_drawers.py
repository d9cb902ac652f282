"""Processes that draw: records as without them, also where one is killed or a stage fails."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from looktwice.eval.readers import Robust
from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study, study
from looktwice.eval.runs.walk import build_tree
from looktwice.eval.tasks import Facts
from looktwice.pipelines.config import Plan
from looktwice.pipelines.config.plan import with_id
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.png import bytes_as_before, to_png
from looktwice.pipelines.runtime import drawers as runtime
from looktwice.pipelines.runtime.drawers import SETTING, Drawers
from looktwice.pipelines.runtime.drawing import FromDrawer, OfDrawer
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage, State, WithoutModel
from looktwice.prompting.controls import PermuteChoices
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask
from looktwice.prompting.views import ZoomOnMarks
from looktwice.prompting.wording import MultipleChoice


@dataclass(frozen=True)
class Noise:
    """Pictures of noise, some as pixels and some encoded, with a point; one of them cannot be read,
    and of one the point is so close to the rim that its label has no room."""

    n: int = 6

    @property
    def facts(self) -> Facts:
        return Facts("noise")

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Item]:
        for number in range(self.n):
            side = 14 if number == 3 else 64
            pixels = np.random.default_rng(number).integers(0, 256, (side, side, 3), np.uint8)
            picture = Picture(pixels) if number % 2 else Picture.encoded(to_png(pixels))
            if number == 4:
                picture = Picture.encoded(b"no image", "broken")
            marks = (Point("A", 7.0, 7.0),)
            yield Item(Sample(f"n{number}", "Which?", (picture,), ("one", "two"), marks), "A")


@dataclass(frozen=True)
class Own(WithoutModel):
    """A stage of a user's."""

    def __call__(self, state: State, model: Model) -> State:
        return state.with_notes(f"drawn in {os.getpid()}")


ARMS: dict[str, dict[str, Any]] = {
    "circles": {"mark": Circles()},
    "zoomed": {"mark": Circles(radius=5), "zoom": ZoomOnMarks()},
    "shuffled": {"mark": Circles(), "shuffle": PermuteChoices()},
    "own": {"own": Own(), "mark": Circles()},
    "plain": {},
}


class Seen(Drawers):
    """Notes how many states came of processes; `kill` ends one before it draws."""

    kill = False
    came: list[int] = []  # noqa: RUF012
    said: list[str] = []  # noqa: RUF012

    def __call__(self, *about: Any) -> dict[int, State]:
        if self.kill and self.ready.is_set() and self.drawers:
            self.drawers[0].process.kill()
        states = super().__call__(*about)
        self.came.append(len(states))
        return states


def run(folder: Path, drawers: int, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The records of a run with so many processes, without times, in a fixed order."""
    monkeypatch.setenv(SETTING, str(drawers))
    arms = []
    for name, stages in ARMS.items():
        whole = {**stages, "choose": MultipleChoice(), "ask": Ask()}
        arm = Arm(name, {}, "noise", Noise(), Scripted("(A)"), whole, Robust(), 1, 0)
        arms.append(with_id(arm))
    text = StringIO()
    console, options = Console(file=text, width=200), RunOptions(workers=1)
    Study(Plan("drawn", tuple(arms)), folder, options, console=console)()
    rows = []
    for record in RunFolder(folder / "drawn").last_records():
        row = json.loads(record.to_line())
        row.pop("timings")
        row["error"] = re.sub(r" at 0x\w+", "", row["error"])
        rows.append(row)
    Seen.said.append(text.getvalue())
    return sorted(rows, key=lambda row: (row["point"], row["sample"]))


@pytest.mark.dear
@pytest.mark.parametrize("kill", [False, True])
def test_records_are_as_without_processes(
    kill: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "Drawers", Seen)
    monkeypatch.setattr(Seen, "kill", kill)
    Seen.came.clear()
    alone = run(tmp_path / "alone", 0, monkeypatch)
    assert set(Seen.came) == {0}
    Seen.came.clear()
    assert run(tmp_path / "beside", 2, monkeypatch) == alone
    # the stages of five arms before the first question, but those of one that a user's begins
    assert max(Seen.came) == 8 and (Seen.came[-1] == 0) == kill
    assert ("a process that draws pictures has ended" in Seen.said[-1]) == kill
    names = {
        path.name
        for folder in ("alone", "beside")
        for path in (tmp_path / folder / "drawn" / "blobs").glob("*/*")
    }
    assert names == {path.name for path in (tmp_path / "alone" / "drawn" / "blobs").glob("*/*")}


def test_a_picture_is_what_it_was() -> None:
    given = Picture(np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8), "noise")
    state, file, parts = State.start(next(iter(Noise())).sample), BytesIO(), list[Any]()
    FromDrawer(file, state, parts).dump(given)
    made = OfDrawer(BytesIO(file.getvalue()), state, map(bytes, parts)).load()
    assert (made.payload, made.size, made.name) == (given.payload, given.size, given.name)
    assert made.payload.data_url == given.payload.data_url and made.sha == given.sha
    assert (made.pixels == given.pixels).all()
    with bytes_as_before():
        assert made.payload == given.payload


def test_a_setting_that_names_no_number_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "")
    drawers = Drawers(1000, print)
    state = State.start(next(iter(Noise())).sample)
    stages: dict[str, Stage] = {"mark": Circles(), "ask": Ask()}
    arm = with_id(Arm("a", {}, "noise", Noise(), Scripted("(A)"), stages, None, 1, 0))
    assert drawers(build_tree([arm]), state, lambda node: True) == {}
    drawers.close()


@pytest.mark.dear
@pytest.mark.parametrize("pays", [True, False])
def test_processes_are_begun_where_a_run_is_busy_and_kept_where_they_pay(
    pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)  # by another test
    monkeypatch.setattr(runtime, "WINDOW", 0.0)
    monkeypatch.setattr(runtime, "BUSY", 0.0)
    monkeypatch.setattr(runtime, "PAYS", 0.0 if pays else 1e9)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    stages: dict[str, Stage] = {"mark": Circles(), "ask": Ask()}
    arm = with_id(Arm("a", {}, "noise", Noise(), Scripted("(A)"), stages, None, 1, 0))
    (state, *_) = (State.start(item.sample) for item in Noise(1))
    drawers, came = Drawers(runtime.FEWEST, print), list[int]()
    for _ in range(3):
        came.append(len(drawers(build_tree([arm]), state, lambda node: True)))
    assert drawers.ready.wait(20) and runtime.AT_WORK.wait(20)  # thumbnails wait for their end
    begun = [*drawers.drawers]
    for _ in range(runtime.WINDOWS + 1):
        came.append(len(drawers(build_tree([arm]), state, lambda node: True)))
    assert (came[0], came[-1]) == (0, int(pays))
    drawers.close()
    assert not runtime.AT_WORK.is_set()
    assert begun and all(drawer.process.poll() is not None for drawer in begun)
