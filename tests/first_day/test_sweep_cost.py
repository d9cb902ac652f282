"""The cost of a sweep: what its arms share is done once."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from looktwice.eval.runs.from_python import evaluate
from looktwice.eval.tasks import Photos
from looktwice.pipelines import picture
from looktwice.pipelines.encodings import image_files as decoding
from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import CallOptions, Messages, Model, Reply
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.state import State
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask

SAMPLES, POINTS = 5, 12
PASSES: Counter[str] = Counter()


@dataclass(frozen=True)
class Detector:
    """Marks the centre of each image, and counts its calls."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Add the marks to the sample."""
        PASSES["detector"] += 1
        sizes = [image.size for image in state.sample.images]
        marks = tuple(
            Point("A", width / 2, height / 2, number)
            for number, (width, height) in enumerate(sizes)
        )
        return state.replace(sample=replace(state.sample, marks=marks))


@dataclass(frozen=True)
class Counting(Scripted):
    """A model that counts its passes."""

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Count and answer."""
        PASSES["model"] += 1
        return super().__call__(messages, draw, options)


def test_a_sweep_after_a_detector_runs_it_once_and_decodes_each_picture_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = decoding.decode

    def decode(data: bytes, name: str) -> Pixels:
        PASSES["decode"] += 1
        return plain(data, name)

    monkeypatch.setattr(picture, "decode", decode)
    PASSES.clear()
    arms = {
        f"radius {radius}": Pipeline(
            {"find": Detector(), "mark": Circles(radius=radius), "ask": Ask()}
        )
        for radius in range(4, 4 + POINTS)
    }
    task = Photos("jigsaw", n=SAMPLES, quality=90)
    evaluate(task, arms, Counting("(A)"), out=tmp_path / "run", workers=4)
    images = sum(len(item.sample.images) for item in task)
    assert dict(PASSES) == {"detector": SAMPLES, "model": SAMPLES * POINTS, "decode": images}
