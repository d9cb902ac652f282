"""Known pictures get their marks after encoding and resizing, and other pictures get none."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from looktwice.eval.tasks import MarkedScenes
from looktwice.extras.burnt_in import MarksFrom
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.tables import table

SAMPLES = [item.sample for item in MarkedScenes("symbol", n=12)]


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """A file with every second scene and its mark; the last one has a second mark."""
    lines: list[dict[str, Any]] = []
    for number, sample in enumerate(SAMPLES[::2]):
        Image.fromarray(sample.images[0].pixels).save(tmp_path / f"{number}.png")
        mark = sample.marks[0].to_dict()
        lines.append({"image": f"{number}.png", "question": "What is it?", "marks": [mark]})
    box = Box("B", 10, 20, 30, 60).to_dict()
    lines.append({"image": f"{number}.png", "question": "What is left?", "marks": [box]})
    path = tmp_path / "marks.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def sent(sample: Sample, kind: str = "PNG", side: int = 320, **settings: int) -> Picture:
    buffer = io.BytesIO()
    image = Image.fromarray(sample.images[0].pixels).resize((side, side))
    image.save(buffer, kind, **settings)
    return Picture.encoded(buffer.getvalue())


def state_of(*images: Picture, words: str = "?", marks: tuple[Mark, ...] = ()) -> State:
    return State.start(Sample("s1", words, images, marks=marks))


@table
def test_marks_find_their_picture(
    known: Path, kind: str, side: int, settings: dict[str, int]
) -> None:
    stage = MarksFrom(known)
    for number, sample in enumerate(SAMPLES[:-2]):
        after = stage(state_of(sent(sample, kind, side, **settings)), NoModel())
        if number % 2:
            assert after.sample.marks == ()
            assert after.notes == ("image 1 matches no picture of marks.jsonl; kept as it is",)
            continue
        (point,), (mark,) = after.sample.marks, sample.marks
        assert isinstance(mark, Point) and isinstance(point, Point)
        scale = side / 320
        moved = (mark.x + 0.5) * scale - 0.5, (mark.y + 0.5) * scale - 0.5
        assert (point.x, point.y) == pytest.approx(moved)
        assert after.notes[0].startswith(f"image 1 has the marks of line {number // 2 + 1} of")


def test_marks_are_placed_on_known_images_and_existing_ones_stay(known: Path) -> None:
    own, first = Point("Z", 1, 2, 1), sent(SAMPLES[0])
    after = MarksFrom(known)(state_of(sent(SAMPLES[1]), first, first, marks=(own,)), NoModel())
    assert [(mark.label, mark.image) for mark in after.sample.marks] == [("Z", 1), ("A", 2)]


def test_the_question_distinguishes_lines_of_one_picture(known: Path) -> None:
    stage, image = MarksFrom(known), sent(SAMPLES[-2])
    left = stage(state_of(image, words="Look. What is left?\n(A) x"), NoModel())
    assert left.sample.marks == (Box("B", 10, 20, 30, 60),)
    unclear = stage(state_of(image), NoModel())
    (note,) = unclear.notes
    assert unclear.sample.marks == () and "line 6 and line 7 of marks.jsonl" in note
    assert MarksFrom(known, missing="abstain")(state_of(image), NoModel()).ended


def test_the_file_is_part_of_the_identity_and_must_not_change(known: Path) -> None:
    stage = MarksFrom(known)
    assert MarksFrom(known, sha=stage.sha) == stage
    lines = known.read_text(encoding="utf-8").replace("What is left?", "Left?")
    known.write_text(lines, encoding="utf-8")
    with pytest.raises(ValueError, match=r"marks\.jsonl or its images have changed"):
        MarksFrom(known, sha=stage.sha)


def test_invalid_lines_and_a_uniformly_grey_picture(known: Path) -> None:
    flat = Picture(np.full((40, 40, 3), 90, np.uint8))
    assert MarksFrom(known)(state_of(flat), NoModel()).sample.marks == ()
    for line, fact in (
        ('{"marks": []}', "line 1: .*image or images"),
        ('{"image": "../0.png"}', "lies outside"),
        ('{"image": "0.png", "marks": [{"label": "A"}]}', "not a mark"),
    ):
        known.write_text(line, encoding="utf-8")
        with pytest.raises(ValueError, match=fact):
            MarksFrom(known)
