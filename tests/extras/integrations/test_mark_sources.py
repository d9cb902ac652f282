"""Sources of marks in a served request with only a picture and text, and the message if there are
none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from looktwice.eval.tasks import MarkedScenes
from looktwice.extras.burnt_in import MarksFrom, RecoverMarks
from looktwice.pipelines import Picture, Stage, State
from looktwice.pipelines.model import CallOptions, Messages, Reply
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.prompting import Ask, Circles, ReadChoices, Verify, ZoomOnDetections, ZoomOnMarks
from looktwice.prompting.views import Crop
from looktwice.specialists.results import Boxes
from tests.extras.integrations.served import plan_of, serving, turn
from tests.optional import optional
from tests.tables import table

optional("openai")
SAMPLE = next(iter(MarkedScenes("larger", n=1))).sample
RINGED = Circles(radius=14)(State.start(SAMPLE), NoModel()).views[0].picture
ONE = "Which point is larger?\nSelect from the following choices.\n(A) Point A\n(B) Point B"
CROP = Crop(padding=0, min_px=60, show="both")


@dataclass(frozen=True)
class FindsWords:
    """A detector that knows one word and its place."""

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        seen = "point" in (words or ())
        boxes = np.array([[10.0, 10.0, 70.0, 70.0]])[: int(seen)].reshape(-1, 4)
        return Boxes(boxes, np.ones(len(boxes)), np.array(["point"] * len(boxes), str))


@dataclass
class Points:
    """A model that says where it looked, and answers A."""

    identity = "points"

    def __init__(self) -> None:
        self.asked: list[Messages] = []

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        self.asked.append(messages)
        return Reply("(A)\nLOOK: image 1, [0, 0, 300, 300]")


def as_jpeg(picture: Picture) -> str:
    _, data = cv2.imencode(".jpg", picture.pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 75])
    return Picture.encoded(data.tobytes()).payload.data_url


def stages(source: str, folder: Path) -> dict[str, Stage]:
    """Return a pipeline that takes its marks from one source."""
    ask = Ask(images="placed")
    zoom: dict[str, Stage] = {"zoom": ZoomOnMarks(missing="keep", crop=CROP), "ask": ask}
    if source == "burnt in":
        return {"choices": ReadChoices(), "marks": RecoverMarks(), **zoom}
    if source == "burnt in, choices not read":
        return {"marks": RecoverMarks(), **zoom}
    if source == "burnt in, labels demanded":
        return {"marks": RecoverMarks(unlabelled=()), **zoom}
    if source == "known picture":
        (folder / "known.png").write_bytes(RINGED.payload.data)
        line = {"image": "known.png", "marks": [mark.to_dict() for mark in SAMPLE.marks]}
        (folder / "marks.jsonl").write_text(json.dumps(line), encoding="utf-8")
        return {"marks": MarksFrom(folder / "marks.jsonl"), **zoom}
    if source == "detector":
        found = ZoomOnDetections(FindsWords(), words_pattern=r"Which (\w+)", crop=CROP)
        return {"choices": ReadChoices(), "zoom": found, "ask": ask}
    if source == "detector, another word":
        found = ZoomOnDetections(FindsWords(), words_pattern=r"is (\w+)", crop=CROP)
        return {"zoom": found, "ask": ask}
    return {"verify": Verify(ask=ask)}


@table
def test_sources_of_marks(
    tmp_path: Path, source: str, marks: int, views: int, calls: int, note: str
) -> None:
    model = Points()
    plan = plan_of({"arm": stages(source, tmp_path)}, model)
    asked: Any = {"model": "arm", "messages": [turn(as_jpeg(RINGED), ONE)]}
    with serving(plan, tmp_path) as served, served.client as client:
        whole = client.chat.completions.with_raw_response.create(**asked)
    names = ("marks", "views", "calls")
    assert [int(whole.headers[f"x-looktwice-{name}"]) for name in names] == [marks, views, calls]
    (record,) = served.records
    assert any(note in said for said in ("", *record.notes)), record.notes
    said = "\n".join(message.text for messages in model.asked for message in messages)
    assert "<image" not in said


def test_marks_given_by_a_client_are_trusted(tmp_path: Path) -> None:
    zoom = ZoomOnMarks(missing="keep", crop=CROP)
    marks = RecoverMarks(letters=("A",), given="keep")
    plan = plan_of({"arm": {"marks": marks, "zoom": zoom, "ask": Ask(images="placed")}}, Points())
    known = {"looktwice": {"marks": [{"label": "A", "x": 60, "y": 50}]}}
    asked: Any = {"model": "arm", "messages": [turn(as_jpeg(SAMPLE.images[0]), ONE)]}
    with serving(plan, tmp_path) as served, served.client as client:
        whole = client.chat.completions.with_raw_response.create(**asked, extra_body=known)
    assert [whole.headers[f"x-looktwice-{name}"] for name in ("marks", "views")] == ["1", "2"]
    assert not any("no marker" in note for note in served.records[0].notes)
