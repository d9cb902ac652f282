"""Coordinates of replies are converted to the source image, from any unit and view."""

import json
from typing import Any

import numpy as np
import pytest

from looktwice.extras.grounding import PlacesInReply
from looktwice.pipelines import Sample, State, transforms
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.view import View
from tests.tables import table


def picture(width: int, height: int) -> Picture:
    return Picture(np.zeros((height, width, 3), np.uint8))


def read(reply: str, sample: Sample, *shown: View, **settings: Any) -> State:
    messages = Message("user", (*shown, "Where?")), Message("assistant", (reply,))
    state = State(sample, views=shown, messages=messages)
    return PlacesInReply(**settings)(state, NoModel())


@table
def test_frames(
    settings: dict[str, Any], original: list[int], sent: list[int], reply: str, numbers: list[float]
) -> None:
    sample = Sample("1", "Where?", (picture(*original),))
    state = read(reply, sample, View(picture(*sent)), **settings)
    (place,) = json.loads(state.answer or "[]")
    assert place.get("box", place.get("point")) == pytest.approx(numbers, abs=0.002)


def test_the_size_comes_from_meta_where_the_picture_is_gone() -> None:
    def lost() -> bytes:
        raise PictureError("gone")

    gone = Picture.lazy(lost, "gone")
    sample = Sample("s7", "Where?", (gone,), meta={"sizes": [[400, 200]]})
    state = read("[0, 0, 50, 100]", sample, View(picture(100, 100)), frame="pixels")
    assert json.loads(state.answer or "") == [{"box": [0, 0, 200, 200]}]
    with pytest.raises(ValueError, match=r"s7.*`sizes`"):
        read("[0, 0, 50, 100]", Sample("s7", "Where?", (gone,)), View(picture(100, 100)))


def test_as_a_stage_it_knows_where_crops_and_joined_views_come_from() -> None:
    sample = Sample("1", "Where?", (picture(400, 200), picture(100, 100)))
    whole, other = (View.of(image, number) for number, image in enumerate(sample.images))
    crop = transforms.crop(whole, 100, 50, 300, 150)
    boxes = '{"image": 1, "bbox": [0, 0, 100, 50]}, {"image": 2, "bbox": [50, 50, 100, 100]}'
    state = read(boxes, sample, crop, other, frame="pixels")
    assert json.loads(state.answer or "") == [
        {"box": [100, 50, 200, 100]},
        {"box": [50, 50, 100, 100], "image": 1},
    ]
    turned = read("[0.25, 0.5, 0.5, 1]", sample, crop, frame="0-1")
    assert json.loads(turned.answer or "") == [{"box": [150, 100, 200, 150]}]
    swapped = read("[100, 50, 0, 0]", sample, crop, frame="pixels")
    assert json.loads(swapped.answer or "") == [{"box": [200, 100, 100, 50]}]
    points = read("(0, 0)", sample, crop, frame="pixels", points=True)
    assert json.loads(points.answer or "") == [{"point": [100, 50]}]


def test_an_image_that_was_not_shown_is_unreadable() -> None:
    sample = Sample("1", "Where?", (picture(400, 200),))
    state = read("Image 3: [1, 2, 3, 4]", sample, View.of(sample.images[0]))
    assert state.answer is None and "image 3" in state.reason


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"frame": "native"}, "got ''.*'0-1000'"),
        ({"frame": "native", "model": "gpt-5"}, "'gpt-5'"),
        ({"frame": "seen", "model": "moondream3"}, "'moondream3'"),
    ],
)
def test_an_unknown_frame_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PlacesInReply(**settings)
