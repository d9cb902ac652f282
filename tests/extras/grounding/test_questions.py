"""Questions about places: from a file in COCO's format, and in drawn scenes."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.verdict import ReadResult, Verdict, compare_with_key
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.grounding import CocoFile, DrawnScenes
from looktwice.extras.grounding.places import read_places
from looktwice.pipelines import Item
from tests.optional import optional

TRIANGLE = [[10, 10, 50, 10, 10, 50]]


def write_coco(folder: Path, **changes: Any) -> Path:
    """Write two images, with two cups and a crowd of dogs, and with nothing."""
    for name in ("a.png", "b.png"):
        cv2.imwrite(str(folder / name), np.zeros((100, 200, 3), np.uint8))
    content = {
        "images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}],
        "categories": [{"id": 5, "name": "cup"}, {"id": 7, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 5, "bbox": [10, 10, 40, 40]}
            | {"segmentation": TRIANGLE, "caption": "the left cup"},
            {"id": 2, "image_id": 1, "category_id": 5, "bbox": [100, 10, 40, 40]}
            | {"sentences": [{"sent": "a cup"}, {"sent": "the right cup"}], "ignore": 1},
            {"id": 3, "image_id": 1, "category_id": 7, "bbox": [0, 60, 200, 40], "iscrowd": 1},
            {
                "id": 4,
                "image_id": 1,
                "category_id": 5,
                "bbox": [150, 10, 40, 40],
                "caption": "a cup",
            },
        ],
    }
    path = folder / "instances.json"
    path.write_text(json.dumps(content | changes))
    return path


def judge(item: Item, task: Any, answer: str) -> float:
    """Return the value of an answer to an item."""
    row = SampleRow("task", "sha", item.answer, item.sample.to_dict(), item.truth)
    score = compare_with_key(ReadResult(answer=answer), row, task.facts.scorer)
    assert score.verdict is not Verdict.UNREADABLE
    return score.value


def test_detection_asks_for_all_objects_of_an_image(tmp_path: Path) -> None:
    task = CocoFile(write_coco(tmp_path))
    (item,) = task  # the other image has nothing to ask for
    assert item.sample.id == "1" and "cup, dog" in item.sample.question
    assert item.sample.meta["categories"] == ["cup", "dog"]
    assert item.sample.meta["sizes"] == [[200, 100]]
    boxes = [tuple(place["box"]) for place in json.loads(item.answer or "")]
    assert boxes == [(10, 10, 50, 50), (100, 10, 140, 50), (150, 10, 190, 50), (0, 60, 200, 100)]
    assert [place.is_optional for place in read_places(item.truth["places"], "xywh")] == [
        False,
        True,
        False,
        True,
    ]
    both = [{"label": "cup", "box": [10, 10, 50, 50]}, {"label": "cup", "box": [150, 10, 190, 50]}]
    assert judge(item, task, json.dumps(both)) == 1
    assert judge(item, task, json.dumps([*both, {"label": "dog", "box": [20, 70, 40, 90]}])) == 1
    assert judge(item, task, json.dumps(both[:1])) == pytest.approx(2 / 3)


def test_listed_categories_are_asked_for_in_every_image(tmp_path: Path) -> None:
    items = list(CocoFile(write_coco(tmp_path), categories=("dog",)))
    assert [item.sample.id for item in items] == ["1", "2"]
    assert [len(json.loads(item.answer or "")) for item in items] == [1, 0]


def test_references_of_one_text_are_alternatives(tmp_path: Path) -> None:
    task = CocoFile(write_coco(tmp_path), ask="box")
    by_words = {item.sample.question.partition("?")[0]: item for item in task}
    assert [*by_words] == [
        "Where is this: the left cup",
        "Where is this: a cup",
        "Where is this: the right cup",
    ]
    either = by_words["Where is this: a cup"]
    assert len(either.truth["places"]) == 2
    for box, value in (([100, 10, 140, 50], 1), ([150, 10, 190, 50], 1), ([10, 10, 50, 50], 0)):
        assert judge(either, task, json.dumps([{"box": box}])) == value


def test_points_must_lie_in_the_mask(tmp_path: Path) -> None:
    task = CocoFile(write_coco(tmp_path), ask="point")
    left = next(item for item in task if "left" in item.sample.question)
    assert judge(left, task, '[{"point": [20, 20]}]') == 1
    assert judge(left, task, '[{"point": [45, 45]}]') == 0  # in its box only


def test_without_texts_single_objects_are_asked_for(tmp_path: Path) -> None:
    rows = [{"image_id": 1, "category_id": 5, "bbox": [1, 2, 3, 4]}]
    rows += [{"image_id": 1, "category_id": 7, "bbox": [1, 2, 3, 4]}] * 2
    (item,) = CocoFile(write_coco(tmp_path, annotations=rows), ask="box")
    assert "Where is this: the cup?" in item.sample.question


def test_compressed_masks_of_coco_are_decoded(tmp_path: Path) -> None:
    library = optional("faster_coco_eval")
    mask = np.zeros((100, 200), np.uint8)
    mask[10:50, 10:20] = 1
    runs = library.mask.encode(np.asfortranarray(mask))
    segmentation = {"size": runs["size"], "counts": runs["counts"].decode()}
    (place,) = read_places([{"segmentation": segmentation}])
    assert place.numbers == (10, 10, 20, 50) and place.area == 400


@pytest.mark.parametrize(
    ("changes", "settings", "words"),
    [
        ({"images": "none"}, {}, "needs the lists images, annotations, categories"),
        ({}, {"categories": ("cat",)}, "no category 'cat'; it has cup, dog"),
        ({"images": [{"id": 1, "file_name": "gone.png"}]}, {}, "gone.png"),
        ({"images": [{"id": 1, "file_name": "../a.png"}]}, {}, "a.png"),
        (
            {"annotations": [{"image_id": 1, "category_id": 5, "bbox": [1, 2]}]},
            {},
            "finite numbers",
        ),
        ({"annotations": []}, {}, "objects to ask for"),
    ],
)
def test_files_that_hold_no_questions_are_named(
    tmp_path: Path, changes: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskError, match=words):
        list(CocoFile(write_coco(tmp_path, **changes), **settings))


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(TaskError, match="cannot be read"):
        list(CocoFile(tmp_path / "x.json"))


@pytest.mark.parametrize("ask", ["box", "point", "boxes", "points"])
def test_drawn_scenes_know_where_things_are(ask: Any) -> None:
    task = DrawnScenes(ask, n=6)
    for item in task:
        assert judge(item, task, item.answer or "") == 1
        pixels = item.sample.images[0].pixels.astype(int)
        ground = pixels[0, 0]
        for place in read_places(item.truth["places"]):
            assert place.region is not None
            differs = (np.abs(pixels - ground).max(-1) > 30).astype(np.uint8)
            mask, near = place.region.astype(np.uint8), np.ones((3, 3), np.uint8)
            rim = cv2.dilate(mask, near, iterations=2) - cv2.dilate(mask, near)
            assert differs[cv2.erode(mask, near) > 0].mean() > 0.2
            assert differs[rim > 0].mean() < 0.05
    again = next(iter(DrawnScenes(ask, n=1)))
    assert again.sample.sha == next(iter(task)).sample.sha
