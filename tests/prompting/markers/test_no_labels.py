"""`label: null` draws no label for every marker; `check` warns of labels that mislead."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from looktwice.pipelines.config import build
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting import markers
from looktwice.prompting.controls import OracleCrop
from looktwice.prompting.markers import Circles, Label
from looktwice.prompting.markers.base import Marking
from tests.under_fire.scenes import run_command, write_questions

NAMES = [name for name in dir(markers) if issubclass(getattr(markers, name), Marking)]
MARKS = (Point("A", 150, 120), Box("B", 40, 40, 90, 80))


def start() -> State:
    rng = np.random.default_rng(0)
    picture = Picture(rng.integers(0, 255, (240, 320, 3), np.uint8), "made")
    return State.start(Sample("s1", "Which?", (picture,), marks=MARKS))


@pytest.mark.parametrize("name", NAMES)
def test_no_label_is_drawn(name: str) -> None:
    assert len(NAMES) >= 10
    marker: Marking = build({"use": f"prompting.markers.{name}", "label": None})
    lettered = replace(
        marker, label=Label(font="blink") if name == "BlinkReleasedStyle" else Label()
    )
    unlettered = replace(marker, label=Label(placement="none"))
    plain, labelled, none = (
        stage(start(), NoModel()).views[0].pixels for stage in (marker, lettered, unlettered)
    )
    assert (plain == none).all() and (plain != labelled).any()
    assert spec(marker)["label"] is None
    assert lettered.list_labels(MARKS) and not marker.list_labels(MARKS)


def test_a_crop_without_a_label_uses_the_hint() -> None:
    crop = build({"use": "prompting.controls.OracleCrop", "label": None, "crop": {"min_px": 8}})
    state = start()
    state = state.replace(sample=replace(state.sample, meta={"region": "B"}))
    by_label = OracleCrop(label="B", crop=crop.crop)(state, NoModel()).views[0].pixels
    assert (crop(state, NoModel()).views[0].pixels == by_label).all()


STUDY = """
task: {use: eval.tasks.Folder, path: own}
model: {use: pipelines.models.Scripted}
stages: {mark: {use: prompting.markers.Circles}, ask: {use: prompting.turns.Ask}}
"""


@pytest.mark.parametrize(
    ("choices", "confused"),
    [
        (["yes", "no"], "'yes' 'no'"),
        (["point B", "point A"], "'point B' 'point A'"),
        (["point A", "B is closer"], ""),
    ],
)
def test_check_warns_of_labels_that_are_letters_of_other_choices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choices: list[str], confused: str
) -> None:
    monkeypatch.chdir(tmp_path)
    marks = [{"label": "A", "x": 50, "y": 60}, {"label": "B", "x": 150, "y": 60}]
    write_questions({"images": ["0.png"], "marks": marks, "choices": choices}, side=200)
    Path("study.yaml").write_text(STUDY)
    warned = "labels are also letters of choices"
    (line,) = [
        row for row in run_command(0, "check", "study.yaml").splitlines() if warned in row
    ] or [""]
    assert " ".join(re.findall(r"'[^']+'", line)) == confused
    assert bool(line) == bool(confused)
    assert warned not in run_command(0, "check", "study.yaml", "stages.mark.label=null")


def test_wrong_settings_are_named_in_python_and_in_yaml() -> None:
    with pytest.raises(ValueError, match=r"label must be .* got 12"):
        Circles(12)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="radius must be a number, found 'big'"):
        Circles(radius="big")  # type: ignore[arg-type]
    with pytest.raises(PictureError, match=r"found Image; for a file write Picture\.open"):
        Picture(Image.new("RGB", (4, 4)))  # type: ignore[arg-type]
