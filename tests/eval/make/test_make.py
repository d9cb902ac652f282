"""Questions made from a user's own files: true by construction, solvable, fair, and the same in
both formats."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest

from looktwice.eval.make import Correspondence, Jigsaw, Localization, RelativeDepth, Sequences
from looktwice.eval.make.command import build_tasks, make_questions, save
from looktwice.eval.make.correspondence import read_homography
from looktwice.eval.make.depth import read_map
from looktwice.eval.tasks import Blink, Columns, Folder, PairScorer, Task, TaskError
from looktwice.eval.tasks.photographs import photograph, stereo_pair
from looktwice.eval.tasks.photos.correspondence import APART
from looktwice.pipelines.config import ConfigError
from looktwice.pipelines.marks import Box, Point, mark_from_dict
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Stage, State
from looktwice.specialists.answers import MatchedPoint, SeamMatcher
from looktwice.specialists.maps import SGBM
from looktwice.specialists.matching import SIFT
from looktwice.specialists.results import Matches
from tests.paths import CONFIGS

SCENES = ("astronaut", "coffee", "chelsea")
TURNED = {  # the maps from the first view, mild enough that most of it stays in sight
    2: np.array([[0.95, -0.08, 20.0], [0.06, 0.97, -8.0], [1e-4, -5e-5, 1.0]]),
    3: np.array([[1.1, 0.1, -40.0], [-0.12, 1.08, 10.0], [-1e-4, 8e-5, 1.0]]),
}


def write(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels[:, :, ::-1] if pixels.ndim == 3 else pixels)
    return path


# ---- small sources


def hpatches(root: Path) -> Path:
    for name in SCENES:
        photo = photograph(name)
        write(root / f"v_{name}" / "1.ppm", photo)
        for number, matrix in TURNED.items():
            seen = cv2.warpPerspective(
                photo, matrix, (photo.shape[1], photo.shape[0]), borderMode=cv2.BORDER_REFLECT
            )
            write(root / f"v_{name}" / f"{number}.ppm", np.asarray(seen))
            np.savetxt(root / f"v_{name}" / f"H_1_{number}", matrix)
    return root


def rgbd(root: Path, scale: float = 1.0) -> Path:
    """The stereo pair's left view with its depth, 1 over disparity, in 16 bit."""
    left, _, disparity = stereo_pair()
    depth = np.where(np.isfinite(disparity), 4e4 * scale / np.maximum(disparity, 1), 0)
    write(root / "images" / "motorcycle.png", left)
    write(root / "maps" / "motorcycle.png", np.clip(depth, 0, 65535).astype(np.uint16))
    return root


def photos(root: Path) -> Path:
    for name in (*SCENES, "rocket", "camera"):
        write(root / f"{name}.png", photograph(name))
    return root


def coco(root: Path, **changes: Any) -> Path:
    rows: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": [], "categories": []}
    rows["categories"] = [{"id": 7, "name": "bus_(vehicle)"}, {"id": 8, "name": "cat"}]
    for number in range(6):
        write(root / f"{number}.jpg", np.full((200, 300, 3), 40 * number, np.uint8))
        rows["images"].append(
            {"id": number, "file_name": f"{number}.jpg", "width": 300, "height": 200}
        )
        for kind, box in ((7, [60 + number, 50, 90, 80.5]), (8, [10, 10, 12, 12])):
            rows["annotations"].append(
                {"id": 2 * number + kind, "image_id": number, "category_id": kind, "bbox": box}
            )
    (root / "instances.json").write_text(json.dumps(rows | changes))
    return root / "instances.json"


def objects(root: Path, things: int = 5, shots: int = 4) -> Path:
    for kind in ("cup", "shoe"):
        for thing in range(things):
            for shot in range(shots):
                pixels = np.full((20, 24, 3), 40 * thing + 5 * shot, np.uint8)
                pixels[:4] = 200 if kind == "cup" else 20
                write(root / kind / f"{thing}" / f"{shot}.png", pixels)
    return root


MAKERS: Mapping[str, Callable[[Path], Task]] = {
    "Visual_Correspondence": lambda root: Correspondence(hpatches(root), n=6),
    "Relative_Depth": lambda root: RelativeDepth(rgbd(root), "farther", n=6),
    "Jigsaw": lambda root: Jigsaw(photos(root)),
    "Object_Localization": lambda root: Localization(coco(root)),
    "OC-Cpr": lambda root: Sequences(objects(root), "compare", each=2),
    "OC-Cnt": lambda root: Sequences(objects(root), "count", each=2),
    "OC-Grp": lambda root: Sequences(objects(root), "group", each=2),
}


def points(item: Item, image: int) -> dict[str, Point]:
    return {mark.label: mark for mark in item.sample.on(image) if isinstance(mark, Point)}


def answered(stage: Stage, task: Task) -> float:
    """The share of questions that a specialist answers right."""
    found = [stage(State.start(item.sample), NoModel()).answer == item.answer for item in task]
    return sum(found) / len(found)


@dataclass(frozen=True)
class Once:
    """Matches two images once, however many questions there are about them."""

    matcher: SIFT
    held: dict[tuple[int, int], Matches] = field(default_factory=dict)

    def __call__(self, image: Pixels, other: Pixels, /) -> Matches:
        key = (int(image.sum()), int(other.sum()))
        if key not in self.held:
            self.held[key] = self.matcher(image, other)
        return self.held[key]


# ---- both formats


@pytest.mark.parametrize("name", MAKERS)
def test_both_formats_hold_the_same_questions(tmp_path: Path, name: str) -> None:
    task = MAKERS[name](tmp_path / "source")
    saved = save(task, name, tmp_path / "out")
    source, folder, blink = (
        list(task),
        list(Folder(saved.folder)),
        list(Blink(tmp_path / "out", name)),
    )
    assert len(source) == len(folder) == len(blink) == saved.questions > 0
    for number, (made_one, mine, theirs) in enumerate(zip(source, folder, blink, strict=True), 1):
        assert mine.sample.id == theirs.sample.id == f"val_{name}_{number}"
        assert made_one.sample.question == mine.sample.question == theirs.sample.question
        assert (made_one.answer, made_one.sample.choices) == (mine.answer, mine.sample.choices)
        assert made_one.sample.marks == mine.sample.marks
        said = dict(zip(theirs.sample.letters, theirs.sample.choices, strict=True))[
            theirs.answer or ""
        ]
        assert (said if not mine.sample.choices else theirs.answer) == mine.answer
        shas = [
            [picture.payload.sha for picture in item.sample.images]
            for item in (made_one, mine, theirs)
        ]
        assert shas[0] == shas[1] == shas[2]
        assert mine.sample.meta["prompt"] == made_one.sample.meta["prompt"]
        assert theirs.sample.meta["prompt"].count("\n(") == len(theirs.sample.choices)
        assert theirs.sample.meta["subtask"] == str(mine.sample.meta["subtask"]).replace("_", " ")


def test_the_marks_of_the_parquet_file_stand_in_a_column_of_their_own(tmp_path: Path) -> None:
    task = MAKERS["Visual_Correspondence"](tmp_path / "source")
    saved = save(task, "Visual_Correspondence", tmp_path / "out", "test")
    rows = pq.read_table(saved.parquet).to_pylist()
    for row, item in zip(rows, task, strict=True):
        assert tuple(mark_from_dict(mark) for mark in json.loads(row["marks"])) == item.sample.marks
        assert row["explanation"] == ""
    assert rows[0]["idx"] == "test_Visual_Correspondence_1"
    assert saved.parquet.name == "test-00000-of-00001.parquet"
    assert Columns(saved.parquet, {"id": "idx"}).facts.left_out == ()


@pytest.mark.parametrize(
    "name", ["Visual_Correspondence", "Relative_Depth", "Object_Localization", "OC-Cnt"]
)
def test_images_carry_no_marks_and_stay_the_files_that_they_were(tmp_path: Path, name: str) -> None:
    task = MAKERS[name](tmp_path / "source")
    files = {file.read_bytes() for file in (tmp_path / "source").rglob("*.*")}
    for item in task:
        for picture in item.sample.images:
            sent = picture.payload
            assert sent.data in files or sent.note == "PPM is not sent to models"


@pytest.mark.parametrize("name", MAKERS)
def test_the_seed_decides_everything(tmp_path: Path, name: str) -> None:
    def shas(**changes: Any) -> list[str]:
        task: Any = replace(MAKERS[name](tmp_path / "source"), **changes)  # type: ignore[type-var]
        return [item.sample.sha for item in task]

    assert shas() == shas()
    assert shas() != shas(seed=1)


def test_what_lies_there_is_not_overwritten_and_what_fails_leaves_nothing(tmp_path: Path) -> None:
    task = MAKERS["Jigsaw"](tmp_path / "source")
    save(task, "Jigsaw", tmp_path / "out")
    with pytest.raises(TaskError, match="is there already; remove it"):
        save(task, "Jigsaw", tmp_path / "out")
    with pytest.raises(TaskError, match=r"names a folder"):
        save(task, "../Jigsaw", tmp_path / "out")
    broken = Folder(tmp_path / "broken")
    (tmp_path / "broken").mkdir()
    with pytest.raises(TaskError, match="cannot be read"):
        save(broken, "broken", tmp_path / "out")
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["Jigsaw"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            {"images": ["a.png"] * 5, "choices": ["x", "y"], "answer": "x"},
            "has 5 images, and BLINK's columns hold one",
        ),
        (
            {"image": "a.png", "answer": "a long text"},
            "has no choices, and its key 'a long text' implies none",
        ),
        (
            {"image": "a.png", "choices": [{"image": "a.png"}, {"image": "b.png"}], "answer": "B"},
            "pictures as choices",
        ),
    ],
)
def test_what_blink_s_columns_cannot_hold_is_a_folder_alone(
    tmp_path: Path, line: dict[str, Any], said: str
) -> None:
    for name, value in (("a.png", 10), ("b.png", 20)):
        write(tmp_path / "mine" / name, np.full((6, 8, 3), value, np.uint8))
    row = {"id": "1", "question": "Which?", **line}
    (tmp_path / "mine" / "samples.jsonl").write_text(json.dumps(row))
    saved = save(Folder(tmp_path / "mine"), "again", tmp_path / "out")
    assert said in saved.no_parquet
    assert not saved.parquet.exists()
    (before,), (after,) = Folder(tmp_path / "mine"), Folder(saved.folder)
    assert (before.answer, len(before.sample.images)) == (after.answer, len(after.sample.images))
    assert [
        choice if isinstance(choice, str) else choice.sha for choice in before.sample.choices
    ] == [choice if isinstance(choice, str) else choice.sha for choice in after.sample.choices]


# ---- correspondence


def test_candidates_lie_where_the_homography_says_and_apart(tmp_path: Path) -> None:
    task = Correspondence(hpatches(tmp_path), n=24)
    assert Counter(item.answer for item in task) == dict.fromkeys("ABCD", 6)
    for item in task:
        one, other = item.sample.meta["views"]
        maps = {1: np.eye(3), **TURNED}
        x, y, w = (maps[other] @ np.linalg.inv(maps[one])) @ (*points(item, 0)["REF"].center, 1)
        found = points(item, 1)
        assert found[item.answer or ""].center == pytest.approx((x / w, y / w), abs=0.02)
        gaps = [
            math.dist(p.center, q.center)
            for p in found.values()
            for q in found.values()
            if p is not q
        ]
        assert min(gaps) > APART - 1
        assert item.sample.meta["change"] == "viewpoint"
    spots = [(item.sample.meta["source"], points(item, 0)["REF"]) for item in task]
    assert len(set(spots)) == 24, "no spot is asked about twice"


def test_the_place_of_the_reference_does_not_tell_the_answer(tmp_path: Path) -> None:
    right = []
    for item in Correspondence(hpatches(tmp_path), n=24):
        start = points(item, 0)["REF"].center
        found = points(item, 1)
        right.append(
            min(found, key=lambda letter: math.dist(found[letter].center, start)) == item.answer
        )
    assert sum(right) == 6


def test_sift_solves_what_was_made(tmp_path: Path) -> None:
    save(Correspondence(hpatches(tmp_path / "source"), n=16), "Visual_Correspondence", tmp_path)
    task = Folder(tmp_path / "Visual_Correspondence")
    assert answered(MatchedPoint(Once(SIFT()), transfer="homography"), task) > 0.8


def test_the_graffiti_wall(shared_data: Path) -> None:
    pair = {"first": "graf1.png", "second": "graf3.png", "homography": "H1to3p.xml"}
    task = Correspondence(shared_data / "pairs", n=20, pairs=(pair,))
    assert {item.sample.meta["source"] for item in task} == {"graf1-graf3"}
    matcher = Once(SIFT())
    assert answered(MatchedPoint(matcher, transfer="homography"), task) >= 0.9
    assert answered(MatchedPoint(matcher, transfer="affine"), task) > 0.5


def test_a_homography_as_text_and_as_xml(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 0 5\n0, 1, 6\n0; 0; 1\n")
    assert read_homography(tmp_path / "a.txt").tolist() == [[1, 0, 5], [0, 1, 6], [0, 0, 1]]
    storage = cv2.FileStorage(str(tmp_path / "a.yml"), cv2.FILE_STORAGE_WRITE)
    storage.write("H", TURNED[2])
    storage.release()
    assert np.allclose(read_homography(tmp_path / "a.yml"), TURNED[2])
    for text, said in (
        ("1 2 3", "nine numbers, three a line, found 3"),
        ("x", "found none"),
        ("0 " * 9, "inverted"),
    ):
        (tmp_path / "b").write_text(text)
        with pytest.raises(TaskError, match=said):
            read_homography(tmp_path / "b")


def test_a_view_without_its_homography_is_left_out_and_counted(tmp_path: Path) -> None:
    (hpatches(tmp_path) / "v_coffee" / "H_1_3").unlink()
    write(tmp_path / "holidays" / "beach.jpg", photograph("rocket"))
    task = Correspondence(tmp_path, n=4)
    count, *reasons = task.facts.left_out
    assert count == "2 views and scenes left out"
    assert reasons[0].startswith("holidays: it has no image named 1")
    assert reasons[1].startswith("v_coffee/3.ppm: there is no file")
    assert len(list(task)) == 4


# ---- depth


def test_the_nearer_point_is_nearer_and_its_place_does_not_tell(tmp_path: Path) -> None:
    depth = read_map(rgbd(tmp_path) / "maps" / "motorcycle.png")
    items = list(RelativeDepth(tmp_path, "farther", n=24))
    lower, outer = 0, 0
    for item in items:
        found = points(item, 0)
        value = {label: depth[int(p.y), int(p.x)] for label, p in found.items()}
        near, far = sorted(value, key=lambda label: value[label])
        assert near == item.answer
        assert value[far] / value[near] == pytest.approx(item.sample.meta["ratio"], rel=1e-3)
        assert item.sample.meta["ratio"] >= 1.25
        lower += found[near].y > found[far].y
        width, height = item.sample.images[0].size
        spread = {label: math.dist(p.center, (width / 2, height / 2)) for label, p in found.items()}
        outer += spread[near] > spread[far]
    assert (lower, outer) == (12, 12)
    assert Counter(item.answer for item in items) == {"A": 12, "B": 12}


def test_the_aloe(shared_data: Path) -> None:
    """An independent measurement agrees: disparity by block matching of the two views."""
    pair = {"image": "aloeL.jpg", "map": "aloeGT.png"}
    task = RelativeDepth(shared_data / "pairs", "nearer", n=20, pairs=(pair,))
    left, right = (Picture.open(shared_data / "pairs" / f"aloe{side}.jpg").pixels for side in "LR")
    disparity = SGBM(disparities=256)(left, right).values
    right_ones, measured = 0, 0
    for item in task:
        value = {label: disparity[int(p.y), int(p.x)] for label, p in points(item, 0).items()}
        if not any(math.isnan(one) for one in value.values()):
            measured += 1
            right_ones += max(value, key=lambda label: value[label]) == item.answer
    assert measured >= 14
    assert right_ones >= 0.9 * measured
    (wrong_way,) = RelativeDepth(shared_data / "pairs", "farther", n=1, pairs=(pair,))
    first = next(iter(task))
    assert wrong_way.sample.images[0].sha == first.sample.images[0].sha


@pytest.mark.parametrize("ending", ["npy", "npz", "pfm", "tif"])
def test_maps_in_other_formats(tmp_path: Path, ending: str) -> None:
    values = np.linspace(1, 4, 48, dtype=np.float32).reshape(6, 8)
    values[0, 0], values[1, 1] = 0, np.inf
    file = tmp_path / f"map.{ending}"
    if ending == "npy":
        np.save(file, values)
    elif ending == "npz":
        np.savez(file, depth=values)
    else:
        cv2.imwrite(str(file), values)
    found = read_map(file)
    assert np.isnan([found[0, 0], found[1, 1]]).all()
    assert np.allclose(found[2:], values[2:])


# ---- jigsaw


@pytest.mark.parametrize("whole", [True, False])
def test_the_seam_matcher_solves_the_jigsaws(tmp_path: Path, whole: bool) -> None:
    task = Jigsaw(photos(tmp_path), n=None if whole else 12, whole=whole)
    assert len(task) == len(list(task)) == (5 if whole else 12)
    assert answered(SeamMatcher(), task) > 0.8
    for item in task:
        board, *pieces = (picture.pixels for picture in item.sample.images)
        height = pieces[0].shape[0]
        assert board.shape == (2 * height, 400, 3)
        assert not board[height:, 200:].any()
        pasted = board.copy()
        pasted[height:, 200:] = pieces["AB".index(item.answer or "")]
        if whole:
            photo = photograph(Path(item.sample.meta["source"]).stem)
            kind = cv2.INTER_AREA if photo.shape[1] > 600 else cv2.INTER_CUBIC
            grid = cv2.resize(photo, (600, 3 * height), interpolation=kind)
            assert np.abs(pasted.astype(int) - grid[: 2 * height, :400]).max() == 0


def test_flat_and_broken_images_are_left_out(tmp_path: Path) -> None:
    photos(tmp_path)
    write(tmp_path / "white.png", np.full((300, 400, 3), 255, np.uint8))
    (tmp_path / "cut.jpg").write_bytes(b"\xff\xd8 not an image")
    (tmp_path / "notes.txt").write_text("not an image either")
    task = Jigsaw(tmp_path)
    assert len(list(task)) == 5
    count, *reasons = task.facts.left_out
    assert count == "2 images left out"
    assert [reason.partition(":")[0] for reason in reasons] == ["cut.jpg", "white.png"]


# ---- localisation


def test_the_true_box_and_a_noisy_one(tmp_path: Path) -> None:
    items = list(Localization(coco(tmp_path)))
    assert Counter(item.answer for item in items) == {"A": 3, "B": 3}
    for number, item in enumerate(items):
        boxes = {mark.label: mark for mark in item.sample.marks if isinstance(mark, Box)}
        true, wrong = boxes[item.answer or ""], boxes["BA"["AB".index(item.answer or "")]]
        assert true.xyxy == (60 + number, 50, 150 + number, 130.5)
        assert 0.4 <= item.sample.meta["iou"] <= 0.8
        assert wrong.x0 >= 0 and wrong.y0 >= 0 and wrong.x1 <= 300 and wrong.y1 <= 200
        assert "the bus (vehicle) more exactly" in item.sample.question
    marks = [mark for item in Localization(coco(tmp_path), noise=0.3) for mark in item.sample.marks]
    widths = [box.x1 - box.x0 for box in marks if isinstance(box, Box)]
    assert max(widths) > 90 > min(widths), (
        "the noisy box is neither always larger nor always smaller"
    )


def test_lvis_names_its_images_by_their_addresses(tmp_path: Path) -> None:
    file = coco(tmp_path)
    rows = json.loads(file.read_text())
    for row in rows["images"]:
        row["coco_url"] = f"http://images.cocodataset.org/val2017/{row.pop('file_name')}"
    file.write_text(json.dumps(rows))
    assert len(Localization(file)) == 6
    for name in range(6):
        (tmp_path / "val2017").mkdir(exist_ok=True)
        (tmp_path / f"{name}.jpg").rename(tmp_path / "val2017" / f"{name}.jpg")
    assert len(Localization(file, images=tmp_path)) == 6


def test_missing_images_are_left_out_and_counted(tmp_path: Path) -> None:
    file = coco(tmp_path)
    for number in (1, 4):
        (tmp_path / f"{number}.jpg").unlink()
    write(tmp_path / "2.jpg", np.full((60, 60, 3), 9, np.uint8))
    task = Localization(file)
    assert [item.sample.meta["source"] for item in task] == ["0.jpg", "3.jpg", "5.jpg"]
    assert task.facts.left_out[0] == "3 images left out"
    assert "lies outside the image of 60x60" in task.facts.left_out[2]


# ---- sequences


def test_sequences_hold_what_their_pattern_says(tmp_path: Path) -> None:
    items = list(Sequences(objects(tmp_path), "count", each=4))
    assert len(items) == 36
    assert Counter(item.sample.meta["pattern"] for item in items) == dict.fromkeys(
        ("AA", "AB", "AAA", "AAB", "ABC", "AAAA", "AAAB", "AABC", "ABCD"), 4
    )
    for item in items:
        things = [name.partition("/")[0] for name in item.sample.meta["sources"]]
        assert item.answer == str(len(set(things)))
        assert (
            item.sample.meta["image_len"]
            == len(item.sample.images)
            == len(item.sample.meta["pattern"])
        )
        assert len({picture.sha for picture in item.sample.images}) == len(item.sample.images)
        groups = Counter(zip(item.sample.meta["order"], things, strict=True))
        assert len(groups) == len(set(things)), "each letter is one thing"
    assert {item.sample.meta["type"] for item in items} == {"cup", "shoe"}


def test_two_statements_are_a_pair(tmp_path: Path) -> None:
    task = Sequences(objects(tmp_path), "compare", each=2)
    items = list(task)
    assert len(items) == 36
    for first, second in zip(items[::2], items[1::2], strict=True):
        assert (first.answer, second.answer) == ("T", "F")
        assert first.sample.meta["pair"] == second.sample.meta["pair"]
        same = set(first.sample.meta["order"]) == {"A"}
        assert ("'All these images" in first.sample.question) is same
        assert ("'All these images" in second.sample.question) is not same
    assert task.facts.scorer == PairScorer("OC-Cpr")


def test_groups_have_one_right_choice(tmp_path: Path) -> None:
    items = list(Sequences(objects(tmp_path), "group", each=8))
    assert Counter(item.sample.meta["pattern"] for item in items).keys() == {
        "AAB",
        "ABC",
        "AAAB",
        "AABC",
        "ABCD",
    }
    for item in items:
        things = [name.partition("/")[0] for name in item.sample.meta["sources"]]
        same = [str(n) for n, thing in enumerate(things, 1) if things.count(thing) > 1]
        right = " and ".join([", ".join(same[:-1]), same[-1]]) if same else "None"
        assert item.sample.choices["ABCD".index(item.answer or "")] == right
        assert len(set(item.sample.choices)) == 4
        assert "None" in item.sample.choices
    assert Counter(item.answer for item in items) == dict.fromkeys("ABCD", 10)


def test_a_flat_folder_and_patterns_of_one_s_own(tmp_path: Path) -> None:
    task = Sequences(
        objects(tmp_path) / "cup", "count", each=3, patterns=("AA", "ABC"), thing="mug"
    )
    assert len(list(task)) == 6
    assert all("different mugs" in item.sample.question for item in task)


def test_few_photographs_give_few_sequences(tmp_path: Path) -> None:
    task = Sequences(objects(tmp_path, things=2, shots=2), "count", each=40, patterns=("AA",))
    assert len(list(task)) == 4
    assert task.facts.left_out[1] == "AA: 36 of 40 sequences; no others were found"


# ---- faults


def _maps(root: Path, values: np.ndarray) -> Task:
    write(root / "images" / "a.png", photograph("coffee"))
    write(root / "maps" / "a.png", values)
    return RelativeDepth(root, "nearer", n=2)


def _pair(root: Path, **pair: str) -> Task:
    return Correspondence(write(root / "a.png", photograph("coffee")).parent, pairs=(pair,))


NO_MAP = {"first": "a.png", "second": "a.png", "homography": "H.txt"}
FAULTS: Sequence[tuple[Callable[[Path], Task], str]] = [
    (lambda root: _pair(root, **NO_MAP), r"there is no file .*H\.txt; .* holds a\.png"),
    (lambda root: _pair(root, first="a.png"), "a pair has first, second and homography .*, found"),
    (lambda root: _pair(root, **{**NO_MAP, "first": "../a.png"}), "leads out of the folder"),
    (Correspondence, r"no folder has views 1\.ppm, 2\.ppm \.\.\. with homographies"),
    (lambda root: Jigsaw(root / "none"), "there is no folder .*none; `path` is the folder that"),
    (Jigsaw, "there is no image that can be read"),
    (
        lambda root: _maps(root, np.full((10, 20), 7, np.uint8)),
        r"a\.png is 20x10 and its image a\.png 600x400; a map has its image's size",
    ),
    (
        lambda root: RelativeDepth(root, "nearer", pairs=({"image": "a.png", "depth": "b.png"},)),
        "a pair has image and map",
    ),
    (
        lambda root: RelativeDepth(write(root / "images/a.png", np.eye(9)).parents[1], "nearer"),
        "there is no folder .*maps; `path` holds images/ and maps/",
    ),
    (
        lambda root: _maps(root, photograph("coffee")),
        r"has the shape \(400, 600, 3\); a map has one value per pixel",
    ),
    (
        lambda root: _maps(root, np.full((400, 600), 7, np.uint8)),
        "no image has two smooth points of which one is .* times nearer",
    ),
    (
        lambda root: Localization(coco(root, annotations=[{"image_id": 1, "category_id": 7}])),
        r"none of its 1 annotations has a box; `bbox` is \[left, top, width, height\]",
    ),
    (
        lambda root: Localization(coco(root), smallest=500),
        "no image has both its file and a box of 500 px or more",
    ),
    (
        lambda root: Localization(coco(root, annotations="none")),
        "COCO's JSON has the lists images, annotations, categories",
    ),
    (
        lambda root: Sequences(objects(root, things=3), "count"),
        r"ABCD needs 4 things of one kind.*\(cup has 3, shoe has 3\)",
    ),
    (
        lambda root: Sequences(objects(root, shots=2), "count"),
        "AAA needs 1 things of one kind, one of them on 3 or more photographs",
    ),
    (
        lambda root: Sequences(root, "group"),
        r"it holds no folder with photographs; expected THING/\*\.jpg",
    ),
]


@pytest.mark.parametrize(("faulty", "said"), FAULTS, ids=[said for _, said in FAULTS])
def test_what_cannot_be_used_is_said(
    tmp_path: Path, faulty: Callable[[Path], Task], said: str
) -> None:
    with pytest.raises(TaskError, match=said):
        list(faulty(tmp_path))


def test_more_questions_than_there_are(tmp_path: Path) -> None:
    write(tmp_path / "1.png", photograph("coffee")[:90, :120])
    write(tmp_path / "2.png", photograph("coffee")[:90, :120])
    (tmp_path / "H_1_2").write_text("1 0 0 0 1 0 0 0 1")
    with pytest.raises(
        TaskError, match=r"question .* of 500 cannot be made: no two views share four more"
    ):
        list(Correspondence(tmp_path, n=500))
    with pytest.raises(TaskError, match="2 images give 2 questions and not 9; say `whole: false`"):
        list(Jigsaw(tmp_path, n=9))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Correspondence(Path(), n=0), "n is how many"),
        (lambda: Jigsaw(Path(), n=0), "n is how many"),
        (lambda: RelativeDepth(Path(), "nearer", ratio=1), "ratio above 1"),
        (lambda: Localization(Path(), iou=(0.8, 0.4)), "two rising shares"),
        (lambda: Sequences(Path(), "count", patterns=("ABA",)), "found 'ABA'"),
        (lambda: Sequences(Path(), "count", each=0), "each is how many"),
    ],
)
def test_settings_that_cannot_be(build: Callable[[], Any], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        build()


# ---- the command

SOURCES: Sequence[tuple[str, Callable[[Path], Path], Sequence[str]]] = [
    ("make_correspondence", hpatches, ["Visual_Correspondence.n=3"]),
    ("make_depth", rgbd, ["Relative_Depth.n=3"]),
    ("make_jigsaw", photos, ["Jigsaw.n=3"]),
    ("make_localization", coco, ["Object_Localization.n=3"]),
    ("make_sequences", objects, ["OC-Cpr.each=1", "OC-Cnt.each=1", "OC-Grp.each=1"]),
]


@pytest.mark.parametrize(
    ("config", "source", "settings"), SOURCES, ids=[name for name, *_ in SOURCES]
)
def test_the_configurations_that_ship(
    tmp_path: Path, config: str, source: Callable[[Path], Path], settings: Sequence[str]
) -> None:
    first = settings[0].partition(".")[0]
    words = [
        f"tasks.{first}.path={source(tmp_path / 'source')}",
        *(f"tasks.{setting}" for setting in settings),
    ]
    lines = list(make_questions(CONFIGS / f"{config}.yaml", words, out=tmp_path / "mine"))
    assert len(lines) == len(settings)
    for line, setting in zip(lines, settings, strict=True):
        name = setting.partition(".")[0]
        assert line.startswith(f"{name}: ")
        assert line.endswith("(samples.jsonl, val-00000-of-00001.parquet)")
        assert len(Folder(tmp_path / "mine" / name)) == len(Blink(tmp_path / "mine", name)) > 0


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    write(photos(tmp_path / "source") / "white.png", np.full((300, 400, 3), 255, np.uint8))
    lines = list(
        make_questions(
            CONFIGS / "make_jigsaw.yaml", [f"tasks.Jigsaw.path={tmp_path / 'source'}"], out=tmp_path
        )
    )
    assert lines[0].startswith(f"Jigsaw: 5 questions, 15 images in {tmp_path / 'Jigsaw'} ")
    assert lines[1] == "  1 images left out"
    assert lines[2].startswith("  white.png: the image white.png has no two pieces that differ")


def test_faults_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("stages: {}\n")
    with pytest.raises(ConfigError, match="tasks: there is none to make"):
        build_tasks(tmp_path / "study.yaml")
    (tmp_path / "study.yaml").write_text("task: {use: eval.make.Jigsaw, path: none, m: 3}\n")
    with pytest.raises(ConfigError, match="Jigsaw has no setting 'm'"):
        build_tasks(tmp_path / "study.yaml")
    with pytest.raises(TaskError, match="letters and digits alone"):
        list(make_questions(tmp_path / "study.yaml", split="my_val"))
