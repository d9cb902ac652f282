"""VPBench's styles, compared with the pixels of its own drawing code, and smooth shapes."""

import hashlib
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from skimage import data

from looktwice.extras.toolkits import VPBenchPrompt, VPBenchStyle
from looktwice.extras.toolkits.hershey import draw_hershey, measure_hershey
from looktwice.extras.toolkits.styles import VPBenchStyleName
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.markers import Polygons
from tests import tables
from tests.paths import DATA
from tests.prompting.scenes import NONE, draw_view, plain, start
from tests.tables import read_yaml

CASES = read_yaml(Path(__file__).with_name("vpbench.yaml"))

METHODS = DATA / "methods"
BLOCKS = [("opencv4", True), ("opencv5", True), ("opencv4", False)]


@pytest.mark.slow
@pytest.mark.skipif(not METHODS.exists(), reason="the reference's vectors are not here")
@pytest.mark.parametrize(
    ("style", "letters", "labels"),
    [
        (style, letters, labels)
        for style in (*get_args(VPBenchStyleName)[:17], "no marker text size 1.0")
        for letters, labels in BLOCKS
        if labels or not style.startswith("no marker")  # else nothing is drawn
    ],
)
def test_every_pixel_matches_the_reference(style: Any, letters: Any, labels: bool) -> None:
    vectors = json.loads((METHODS / "vpbench_render.json").read_text())
    photo = np.ascontiguousarray(data.coffee())  # type: ignore[no-untyped-call]
    assert hashlib.sha256(photo.tobytes()).hexdigest() == vectors["image_sha256"]
    block = vectors["captioned"]["cv2_" + letters[-1]] if labels else vectors["no_caption"]
    for layout, case in block[style.replace(" ", "_")].items():
        points = [Point(label, *place) for label, place in vectors["points"][layout].items()]
        pixels = draw_view(VPBenchStyle(style, letters, labels), *points, image=Picture(photo))
        probes = case.get("probes", [])
        assert [[x, y, *map(int, pixels[y, x])] for x, y, *_ in probes] == probes
        assert (pixels != photo).any(-1).sum() == case["changed"]
        assert hashlib.sha256(pixels.tobytes()).hexdigest() == case["sha256"]


@pytest.mark.skipif(not METHODS.exists(), reason="the reference's glyphs are not here")
def test_the_legacy_letters_are_those_of_opencv_4() -> None:
    for name, glyph in json.loads((METHODS / "vpbench_glyphs_cv2_4.json").read_text()).items():
        text, scale = name.split("@")
        width, height = measure_hershey(text, float(scale))
        canvas = np.zeros((60, 90, 3), np.uint8)
        draw_hershey(canvas, text, 10, 10 + height, float(scale), (255, 255, 255))
        ys, xs = np.nonzero(canvas[..., 0])
        rows = [
            "".join(".#"[int(on > 0)] for on in row)
            for row in canvas[10 + glyph["dy"] :, 10 + glyph["dx"] :, 0]
        ]
        assert [width, height] == glyph["size"]
        assert (ys.min() - 10, xs.min() - 10) == (glyph["dy"], glyph["dx"])
        assert [
            row[: len(known)] for row, known in zip(rows, glyph["rows"], strict=False)
        ] == glyph["rows"]


@tables.table
def test_without_a_marker_the_label_is_at_the_point(style: Any, text: str, high: int) -> None:
    ys, xs = np.nonzero((draw_view(VPBenchStyle(style), Point("A", 60, 50)) != 90).any(-1))
    # its upper edge at the point, and a rim of two
    assert (ys.min(), ys.max()) == (50 - 2, 50 + high + 2)
    wide = measure_hershey(text, 0.2 if high == 5 else 0.5)[0]
    assert (xs.min(), xs.max()) == (60 - wide // 2 - 2, 60 - wide // 2 + wide)


def test_marks_with_their_own_colours() -> None:
    stage = VPBenchStyle(labels=False, colors=("yellow", "blue"))
    pixels = draw_view(stage, Point("A", 30, 50), Point("B", 90, 50))
    assert [tuple(pixels[50, x]) for x in (35, 95)] == [(255, 255, 0), (0, 0, 255)]


CORRESPONDENCE = [Point("REF", 60, 50), Point("A", 30, 50), Point("B", 90, 50)]


@pytest.mark.parametrize(("settings", "points", "prompt"), CASES["words"])
def test_the_text_describes_the_look_of_the_marks(settings: Any, points: str, prompt: str) -> None:
    marks = [Point("A", 30, 50), Point("B", 90, 50)] if points == "AB" else CORRESPONDENCE
    sample = Sample(
        "s1",
        "Which?",
        (plain(),),
        ("A is near", "Point B" if "colors" in settings else "B"),
        tuple(marks),
    )
    found = VPBenchPrompt(VPBenchStyle(**settings))(State.start(sample), NoModel()).prompt
    first, *choices = prompt.split("|")
    assert found.split("\n") == [first, "Which?", "Select from the following choices.", *choices]


def test_custom_wording_and_questions_that_cannot_be_worded() -> None:
    sample = Sample(
        "s1", "Which?", (plain(),), ("A", "B"), (Point("A", 30, 50), Point("B", 90, 50))
    )
    stage = VPBenchPrompt(VPBenchStyle("radius 3"), "{shape}, {color}, {labels}: {question}")
    assert stage(State.start(sample), NoModel()).prompt == "circle, red, A and B: Which?"
    with pytest.raises(ValueError, match="need different `colors`"):
        VPBenchPrompt(VPBenchStyle(labels=False))(State.start(sample), NoModel())
    with pytest.raises(ValueError, match="has no choices"):
        VPBenchPrompt()(start(Point("A", 60, 60)), NoModel())


def test_the_record_names_the_letters_and_the_opencv_version() -> None:
    state = VPBenchStyle("text label", "opencv5")(start(Point("A", 60, 60)), NoModel())
    assert state.notes[-1].startswith("VPBench text label: letters of opencv5, drawn by OpenCV 5.")
    assert VPBenchStyle()(start(), NoModel()).notes == (
        "VPBenchStyle: no mark to draw; kept as it is",
    )
    with pytest.raises(
        ValueError, match="sample s1: OpenCV 4's letters are bundled only for A to Z"
    ):
        VPBenchStyle()(start(Point("é", 60, 60)), NoModel())


def test_numbers_keep_ref_and_the_order_of_the_sample() -> None:
    points = [Point("REF", 60, 50), Point("C", 30, 50), Point("A", 90, 50)]
    numbered = draw_view(VPBenchStyle("text label"), *points)
    said = [Point("REF", 60, 50), Point("1", 30, 50), Point("2", 90, 50)]
    assert (numbered == draw_view(VPBenchStyle(), *said)).all()
    one = draw_view(VPBenchStyle("text label", only=("A",)), *points)
    assert (one[20:40, 80:] == numbered[20:40, 80:]).all() and (one[20:40, :45] == 90).all()


@tables.table
def test_a_polygon_has_its_corners(name: Any, on: Any, off: Any) -> None:
    stage = Polygons(shape_name=name, radius=10, thickness=2, label=NONE)
    pixels = draw_view(stage, Point("A", 60, 50))
    assert [tuple(pixels[y, x]) for x, y in on] == [(255, 0, 0)] * len(on)
    assert [tuple(pixels[y, x]) for x, y in off] == [(90, 90, 90)] * len(off)
