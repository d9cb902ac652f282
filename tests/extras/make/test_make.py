"""Questions made from a user's files: correct by construction, solvable, balanced, and equal in
both formats."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest

from looktwice.eval.tasks import Blink, Columns, Folder, MarkedScenes, Task, TaskError
from looktwice.eval.tasks.photographs import load_photograph, load_stereo_pair
from looktwice.eval.tasks.photos.correspondence import MIN_POINT_DISTANCE
from looktwice.extras.looking import MarkQuestions
from looktwice.extras.make import Correspondence, Jigsaw, Localization, RelativeDepth, Sequences
from looktwice.extras.make.points import read_homography
from looktwice.extras.make.relative_depth import read_map
from looktwice.extras.make.saving import build_tasks, make_questions, save_task
from looktwice.extras.scenes import (
    GeneratedDoYouSeeMe,
    Puzzles,
    RenderedScenes,
    rendered_scenes,
    solid_scenes,
)
from looktwice.extras.vlm2 import PairScorer
from looktwice.pipelines.config import ConfigError
from looktwice.pipelines.marks import Box, Point, mark_from_dict
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.markers import Circles
from looktwice.specialists.answers import MatchedPoint, SeamMatcher
from looktwice.specialists.maps import SGBM
from looktwice.specialists.matching import SIFT
from looktwice.specialists.results import FeatureGrid, Matches
from tests.paths import CONFIGS

SCENES = ("astronaut", "coffee", "chelsea")
TURNED = {  # the homographies from the first view, mild enough to keep most of it visible
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
        photo = load_photograph(name)
        write(root / f"v_{name}" / "1.ppm", photo)
        for number, matrix in TURNED.items():
            seen = cv2.warpPerspective(
                photo, matrix, (photo.shape[1], photo.shape[0]), borderMode=cv2.BORDER_REFLECT
            )
            write(root / f"v_{name}" / f"{number}.ppm", np.asarray(seen))
            np.savetxt(root / f"v_{name}" / f"H_1_{number}", matrix)
    return root


def rgbd(root: Path, scale: float = 1.0) -> Path:
    """The left view of the stereo pair with its depth, 1 over disparity, in 16 bits."""
    left, _, disparity = load_stereo_pair()
    depth = np.where(np.isfinite(disparity), 4e4 * scale / np.maximum(disparity, 1), 0)
    write(root / "images" / "motorcycle.png", left)
    write(root / "maps" / "motorcycle.png", np.clip(depth, 0, 65535).astype(np.uint16))
    return root


def photos(root: Path) -> Path:
    for name in (*SCENES, "rocket", "camera"):
        write(root / f"{name}.png", load_photograph(name))
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


Layer = Callable[[Path], Path]
Sources = Mapping[Layer, Path]
MAKERS: Mapping[str, tuple[Layer, Callable[[Path], Task]]] = {
    "Visual_Correspondence": (hpatches, lambda path: Correspondence(path, n=6)),
    "Relative_Depth": (rgbd, lambda path: RelativeDepth(path, "farther", n=6)),
    "Jigsaw": (photos, Jigsaw),
    "Object_Localization": (coco, Localization),
    "OC-Cpr": (objects, lambda path: Sequences(path, "compare", each=2)),
    "OC-Cnt": (objects, lambda path: Sequences(path, "count", each=2)),
    "OC-Grp": (objects, lambda path: Sequences(path, "group", each=2)),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """One source of each kind, which no test changes."""
    root = tmp_path_factory.mktemp("sources")
    return {lay: lay(root / lay.__name__) for lay in (hpatches, rgbd, photos, coco, objects)}


def make(name: str, sources: Sources) -> Any:
    lay, maker = MAKERS[name]
    return maker(sources[lay])


def points(item: Item, image: int) -> dict[str, Point]:
    return {
        mark.label: mark for mark in item.sample.list_marks_on(image) if isinstance(mark, Point)
    }


def compute_accuracy(stage: Stage, task: Task) -> float:
    """Return the share of questions that a specialist answers correctly."""
    found = [stage(State.start(item.sample), NoModel()).answer == item.answer for item in task]
    return sum(found) / len(found)


@dataclass(frozen=True)
class Once:
    """Matches two images once, for any number of questions about them."""

    matcher: SIFT
    held: dict[tuple[int, int], Matches] = field(default_factory=dict)

    def __call__(self, image: Pixels, other: Pixels, /) -> Matches:
        key = (int(image.sum()), int(other.sum()))
        if key not in self.held:
            self.held[key] = self.matcher(image, other)
        return self.held[key]


# ---- both formats


@pytest.mark.parametrize("name", MAKERS)
def test_both_formats_hold_the_same_questions(tmp_path: Path, sources: Sources, name: str) -> None:
    task = make(name, sources)
    saved = save_task(task, name, tmp_path / "out")
    versions = list(task), list(Folder(saved.folder)), list(Blink(tmp_path / "out", name))
    assert [len(items) for items in versions] == [saved.question_count] * 3 and saved.question_count
    for number, (source, mine, theirs) in enumerate(zip(*versions, strict=True), 1):
        samples = source.sample, mine.sample, theirs.sample
        assert mine.sample.id == theirs.sample.id == f"val_{name}_{number}"
        assert len({sample.question for sample in samples}) == 1
        assert (source.answer, source.sample.choices) == (mine.answer, mine.sample.choices)
        assert source.sample.marks == mine.sample.marks
        lettered = dict(zip(theirs.sample.letters, theirs.sample.choices, strict=True))
        key = theirs.answer if mine.sample.choices else lettered[theirs.answer or ""]
        assert key == mine.answer
        assert len({tuple(p.payload.sha for p in sample.images) for sample in samples}) == 1
        assert mine.sample.meta["prompt"] == source.sample.meta["prompt"]
        assert theirs.sample.meta["prompt"].count("\n(") == len(theirs.sample.choices)
        assert theirs.sample.meta["subtask"] == str(mine.sample.meta["subtask"]).replace("_", " ")


def test_the_parquet_file_has_a_column_of_marks(tmp_path: Path, sources: Sources) -> None:
    task = make("Visual_Correspondence", sources)
    saved = save_task(task, "Visual_Correspondence", tmp_path / "out", "test")
    rows = pq.read_table(saved.parquet).to_pylist()
    for row, item in zip(rows, task, strict=True):
        assert tuple(mark_from_dict(mark) for mark in json.loads(row["marks"])) == item.sample.marks
        assert row["explanation"] == ""
    assert rows[0]["idx"] == "test_Visual_Correspondence_1"
    assert saved.parquet.name == "test-00000-of-00001.parquet"
    assert Columns(saved.parquet, {"id": "idx"}).facts.left_out == ()


@pytest.mark.parametrize("name", MAKERS)
def test_the_seed_decides_everything_and_image_files_stay_unchanged(
    sources: Sources, name: str
) -> None:
    tasks = [make(name, sources), make(name, sources)]
    tasks.append(replace(tasks[0], seed=1))
    first, same, second = ([item.sample.sha for item in task] for task in tasks)
    assert first == same != second
    files = {file.read_bytes() for file in sources[MAKERS[name][0]].parent.rglob("*.*")}
    for item in tasks[0] if name != "Jigsaw" else ():
        for picture in item.sample.images:
            sent = picture.payload
            assert sent.data in files or sent.note == "PPM is not sent to models"


def test_existing_files_are_not_overwritten_and_failures_leave_nothing(
    tmp_path: Path, sources: Sources
) -> None:
    task = make("Jigsaw", sources)
    save_task(task, "Jigsaw", tmp_path / "out")
    (tmp_path / "broken").mkdir()
    for source, name, sentence in (
        (task, "Jigsaw", "exists already; remove it"),
        (task, "../Jigsaw", "becomes a folder"),
        (Folder(tmp_path / "broken"), "broken", "cannot be read"),
    ):
        with pytest.raises(TaskError, match=sentence):
            save_task(source, name, tmp_path / "out")
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["Jigsaw"]


PICTURES = [{"image": "a.png"}, {"image": "b.png"}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"images": ["a.png"] * 5, "choices": ["x", "y"], "answer": "x"}, "has 5 images"),
        ({"image": "a.png", "answer": "long"}, "its key 'long' does not imply any"),
        ({"image": "a.png", "choices": PICTURES, "answer": "B"}, "pictures as choices"),
    ],
)
def test_questions_that_do_not_fit_blink_columns_are_written_only_as_a_folder(
    tmp_path: Path, line: dict[str, Any], said: str
) -> None:
    for name, value in (("a.png", 10), ("b.png", 20)):
        write(tmp_path / "mine" / name, np.full((6, 8, 3), value, np.uint8))
    row = {"id": "1", "question": "Which?", **line}
    (tmp_path / "mine" / "samples.jsonl").write_text(json.dumps(row))
    saved = save_task(Folder(tmp_path / "mine"), "again", tmp_path / "out")
    assert said in saved.no_parquet_reason
    assert not saved.parquet.exists()
    seen = []
    for folder in (tmp_path / "mine", saved.folder):
        (item,) = Folder(folder)
        choices = [c.sha if isinstance(c, Picture) else c for c in item.sample.choices]
        seen.append((item.answer, len(item.sample.images), choices))
    assert seen[0] == seen[1]


# ---- correspondence


def test_candidates_lie_where_the_homography_says_and_their_places_reveal_nothing(
    sources: Sources,
) -> None:
    task = Correspondence(sources[hpatches], n=24)
    assert Counter(item.answer for item in task) == dict.fromkeys("ABCD", 6)
    spots, nearest = set(), 0
    for item in task:
        first, second = item.sample.meta["views"]
        start, found = points(item, 0)["REF"].center, points(item, 1)
        maps = {1: np.eye(3), **TURNED}
        x, y, w = (maps[second] @ np.linalg.inv(maps[first])) @ (*start, 1)
        assert found[item.answer or ""].center == pytest.approx((x / w, y / w), abs=0.02)
        pairs = combinations([point.center for point in found.values()], 2)
        assert min(math.dist(p, q) for p, q in pairs) > MIN_POINT_DISTANCE - 1
        assert item.sample.meta["change"] == "viewpoint"
        nearest += min(found, key=lambda k: math.dist(found[k].center, start)) == item.answer
        spots.add((item.sample.meta["source"], start))
    assert len(spots) == 24, "no spot is asked about twice"
    assert nearest == 6


@pytest.mark.slow
def test_sift_solves_the_generated_questions(tmp_path: Path, sources: Sources) -> None:
    save_task(Correspondence(sources[hpatches], n=8), "Visual_Correspondence", tmp_path)
    task = Folder(tmp_path / "Visual_Correspondence")
    assert compute_accuracy(MatchedPoint(Once(SIFT()), transfer="homography"), task) > 0.8


@pytest.mark.slow
def test_the_graffiti_wall(shared_data: Path) -> None:
    pair = {"first": "graf1.png", "second": "graf3.png", "homography": "H1to3p.xml"}
    task = Correspondence(shared_data / "pairs", n=10, pairs=(pair,))
    assert {item.sample.meta["source"] for item in task} == {"graf1-graf3"}
    matcher = Once(SIFT())
    assert compute_accuracy(MatchedPoint(matcher, transfer="homography"), task) >= 0.9
    assert compute_accuracy(MatchedPoint(matcher, transfer="affine"), task) > 0.5


def test_a_homography_as_text_and_as_xml(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 0 5\n0, 1, 6\n0; 0; 1\n")
    assert read_homography(tmp_path / "a.txt").tolist() == [[1, 0, 5], [0, 1, 6], [0, 0, 1]]
    storage = cv2.FileStorage(str(tmp_path / "a.yml"), cv2.FILE_STORAGE_WRITE)
    storage.write("H", TURNED[2])
    storage.release()
    assert np.allclose(read_homography(tmp_path / "a.yml"), TURNED[2])
    for text, sentence in (
        ("1 2 3", "per line, found 3"),
        ("x", "found none"),
        ("0 " * 9, "inverted"),
    ):
        (tmp_path / "b").write_text(text)
        with pytest.raises(TaskError, match=sentence):
            read_homography(tmp_path / "b")


# ---- depth


def test_the_nearer_point_is_nearer_and_its_place_reveals_nothing(sources: Sources) -> None:
    depth = read_map(sources[rgbd] / "maps" / "motorcycle.png")
    items = list(RelativeDepth(sources[rgbd], "farther", n=24))
    lower = outer = 0
    for item in items:
        found, (width, height) = points(item, 0), item.sample.images[0].size
        value = {label: depth[int(p.y), int(p.x)] for label, p in found.items()}
        near, far = sorted(found, key=lambda label: value[label])
        assert near == item.answer
        assert value[far] / value[near] == pytest.approx(item.sample.meta["ratio"], rel=1e-3)
        assert item.sample.meta["ratio"] >= 1.25
        lower += found[near].y > found[far].y
        away = [math.dist(found[k].center, (width / 2, height / 2)) for k in (near, far)]
        outer += away[0] > away[1]
    assert (lower, outer) == (12, 12)
    assert Counter(item.answer for item in items) == {"A": 12, "B": 12}


@pytest.mark.slow
def test_the_aloe(shared_data: Path) -> None:
    """Agrees with an independent measurement: disparity by block matching of the two views."""
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
    depth = read_map(file)
    assert np.isnan([depth[0, 0], depth[1, 1]]).all()
    assert np.allclose(depth[2:], values[2:])


# ---- jigsaw


@pytest.mark.parametrize("whole", [True, False])
def test_the_seam_matcher_solves_the_jigsaws(sources: Sources, whole: bool) -> None:
    task = Jigsaw(sources[photos], n=None if whole else 12, whole=whole)
    assert len(task) == len(list(task)) == (5 if whole else 12)
    assert compute_accuracy(SeamMatcher(), task) > 0.8
    for item in task:
        board, *pieces = (picture.pixels for picture in item.sample.images)
        height = pieces[0].shape[0]
        assert board.shape == (2 * height, 400, 3)
        assert not board[height:, 200:].any()
        pasted = board.copy()
        pasted[height:, 200:] = pieces["AB".index(item.answer or "")]
        if whole:
            photo = load_photograph(Path(item.sample.meta["source"]).stem)
            kind = cv2.INTER_AREA if photo.shape[1] > 600 else cv2.INTER_CUBIC
            grid = cv2.resize(photo, (600, 3 * height), interpolation=kind)
            assert np.abs(pasted.astype(int) - grid[: 2 * height, :400]).max() == 0


# ---- localisation


def test_the_true_box_and_a_noisy_one(sources: Sources) -> None:
    items = list(Localization(sources[coco]))
    assert Counter(item.answer for item in items) == {"A": 3, "B": 3}
    for number, item in enumerate(items):
        boxes = {mark.label: mark for mark in item.sample.marks if isinstance(mark, Box)}
        true, wrong = boxes.pop(item.answer or ""), next(iter(boxes.values()))
        assert true.xyxy == (60 + number, 50, 150 + number, 130.5)
        assert 0.4 <= item.sample.meta["iou"] <= 0.8
        assert wrong.x0 >= 0 and wrong.y0 >= 0 and wrong.x1 <= 300 and wrong.y1 <= 200
        assert "the bus (vehicle) more exactly" in item.sample.question
    noisy = [item.sample.marks for item in Localization(sources[coco], noise=0.3)]
    widths = [box.x1 - box.x0 for box in chain(*noisy) if isinstance(box, Box)]
    assert max(widths) > 90 > min(widths), "the noisy box is neither always larger nor smaller"


def test_lvis_identifies_its_images_by_url(tmp_path: Path) -> None:
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


# ---- sequences


def test_sequences_follow_their_pattern(sources: Sources) -> None:
    items = list(Sequences(sources[objects], "count", each=4))
    patterns = ("AA", "AB", "AAA", "AAB", "ABC", "AAAA", "AAAB", "AABC", "ABCD")
    assert Counter(item.sample.meta["pattern"] for item in items) == dict.fromkeys(patterns, 4)
    for item in items:
        meta, shown = item.sample.meta, item.sample.images
        things = [name.partition("/")[0] for name in meta["sources"]]
        assert item.answer == str(len(set(things)))
        assert meta["image_len"] == len(shown) == len(meta["pattern"])
        assert len({picture.sha for picture in shown}) == len(shown)
        assert len({*zip(meta["order"], things, strict=True)}) == len({*things})
    assert {item.sample.meta["type"] for item in items} == {"cup", "shoe"}


def test_each_pattern_can_have_its_own_count(sources: Sources) -> None:
    counts = {"AA": 5, "AB": 1, "AAB": 3, "ABCD": 2}

    def made(task: Any) -> dict[str, int]:
        return dict(Counter(item.sample.meta["pattern"] for item in task))

    assert made(Sequences(sources[objects], "count", each=counts)) == counts
    grouped = made(Sequences(sources[objects], "group", each=counts))
    assert grouped == {"AAB": 3, "ABCD": 2}
    some = made(Sequences(sources[objects], "count", each=counts, patterns=("AB", "AA")))
    assert some == {"AB": 1, "AA": 5}
    with pytest.raises(TaskError, match="`each` has none of the patterns AAB, ABC"):
        made(Sequences(sources[objects], "group", each={"AA": 5}))
    every = list(Sequences(sources[objects], "count", each=5))
    twos = [item.sample.id for item in every if item.sample.meta["pattern"] == "AA"]
    same = list(Sequences(sources[objects], "count", each=counts))
    assert [item.sample.id for item in same][:5] == twos


def test_two_statements_are_a_pair(sources: Sources) -> None:
    task = make("OC-Cpr", sources)
    items = list(task)
    assert len(items) == 36
    for first, second in zip(items[::2], items[1::2], strict=True):
        assert (first.answer, second.answer) == ("T", "F")
        assert first.sample.meta["pair"] == second.sample.meta["pair"]
        same = set(first.sample.meta["order"]) == {"A"}
        assert ("'All these images" in first.sample.question) is same
        assert ("'All these images" in second.sample.question) is not same
    assert task.facts.scorer == PairScorer("OC-Cpr")


def test_the_nearest_objects_are_shown_next_to_the_main_one(sources: Sources) -> None:
    def planted(grey: int) -> Any:
        return np.random.default_rng(grey).normal(size=(1, 2, 4))

    def features(pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        return FeatureGrid(planted(int(pixels[-1, 0, 0])), 24, 20)

    def like(shown: tuple[str, ...], other: tuple[str, ...]) -> float:
        greys = (40 * int(thing) + 5 * int(shot[0]) for thing, shot in (shown, other))
        first, second = (planted(grey).mean((0, 1)) for grey in greys)
        return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))

    task = Sequences(sources[objects], "count", each=9, patterns=("AB", "ABC"), nearest=features)
    everything = [(str(thing), f"{shot}.png") for thing in range(5) for shot in range(4)]
    items = list(task)
    assert Counter(item.sample.meta["pattern"] for item in items) == {"AB": 9, "ABC": 9}
    for item in items:
        sources_of = [tuple(name.split("/")) for name in item.sample.meta["sources"]]
        shown = dict(zip(item.sample.meta["order"], sources_of, strict=True))
        used = {shown["A"][0]}
        for letter in sorted(shown)[1:]:
            free = [place for place in everything if place[0] not in used]
            assert shown[letter] == max(free, key=lambda place: like(shown["A"], place))
            used.add(shown[letter][0])
    drawn = list(Sequences(sources[objects], "count", each=9, patterns=("AB", "ABC")))
    assert [item.sample.sha for item in drawn] != [item.sample.sha for item in items]


def test_groups_have_one_correct_choice(sources: Sources) -> None:
    items = list(Sequences(sources[objects], "group", each=8))
    patterns = {item.sample.meta["pattern"] for item in items}
    assert patterns == {"AAB", "ABC", "AAAB", "AABC", "ABCD"}
    for item in items:
        things = [name.partition("/")[0] for name in item.sample.meta["sources"]]
        same = [str(n) for n, thing in enumerate(things, 1) if things.count(thing) > 1]
        right = " and ".join([", ".join(same[:-1]), same[-1]]) if same else "None"
        assert item.sample.choices["ABCD".index(item.answer or "")] == right
        assert len({*item.sample.choices, "None"}) == 4
    assert Counter(item.answer for item in items) == dict.fromkeys("ABCD", 10)


def test_a_flat_folder_and_custom_patterns(sources: Sources) -> None:
    task = Sequences(sources[objects] / "cup", "count", 3, patterns=("AA", "ABC"), thing="mug")
    assert len(list(task)) == 6
    assert all("different mugs" in item.sample.question for item in task)


def _flat(root: Path) -> Task:
    write(photos(root) / "white.png", np.full((300, 400, 3), 255, np.uint8))
    (root / "cut.jpg").write_bytes(b"\xff\xd8 not an image")
    (root / "notes.txt").write_text("not an image either")
    return Jigsaw(root)


def _unmapped(root: Path) -> Task:
    (hpatches(root) / "v_coffee" / "H_1_3").unlink()
    write(root / "holidays" / "beach.jpg", load_photograph("rocket"))
    return Correspondence(root, n=4)


def _missing(root: Path) -> Task:
    file = coco(root)
    (root / "1.jpg").unlink()
    (root / "4.jpg").unlink()
    write(root / "2.jpg", np.full((60, 60, 3), 9, np.uint8))
    return Localization(file)


def _few(root: Path) -> Task:
    return Sequences(objects(root, things=2, shots=2), "count", each=40, patterns=("AA",))


@pytest.mark.parametrize(
    ("build", "left", "said"),
    [
        (_flat, 5, ("2 images left out", "cut.jpg: ", "white.png: ")),
        (_unmapped, 4, ("2 views and scenes", "holidays: it has no", "v_coffee/3.ppm: there is")),
        (_missing, 3, ("3 images left out", "1.jpg: ", "2.jpg: its box", "4.jpg: ")),
        (_few, 4, ("1 images and sequences", "AA: 36 of 40 sequences; no others were found")),
    ],
)
def test_items_that_give_no_question_are_skipped_and_counted(
    tmp_path: Path, build: Callable[[Path], Task], left: int, said: Sequence[str]
) -> None:
    task = build(tmp_path)
    assert len(list(task)) == left
    for reason, beginning in zip(task.facts.left_out, said, strict=True):
        assert reason.startswith(beginning)


# ---- faults


def _maps(root: Path, values: np.ndarray) -> Task:
    write(root / "images" / "a.png", load_photograph("coffee"))
    write(root / "maps" / "a.png", values)
    return RelativeDepth(root, "nearer", n=2)


def _pair(root: Path, **pair: str) -> Task:
    return Correspondence(write(root / "a.png", load_photograph("coffee")).parent, pairs=(pair,))


NO_MAP = {"first": "a.png", "second": "a.png", "homography": "H.txt"}


def _coco(**changes: Any) -> Callable[[Path], Task]:
    return lambda root: Localization(coco(root, **changes))


def _twins(root: Path) -> Path:
    """Write two equal views without room for many questions."""
    for name in ("1.png", "2.png"):
        write(root / name, load_photograph("coffee")[:90, :120])
    (root / "H_1_2").write_text("1 0 0 0 1 0 0 0 1")
    return root


NO_BOX = [{"image_id": 1, "category_id": 7}]
FAULTS: Sequence[tuple[Callable[[Path], Task], str]] = [
    (lambda root: _pair(root, **NO_MAP), r"there is no file .*H\.txt; .* holds a\.png"),
    (lambda root: _pair(root, first="a.png"), "a pair needs first, second and homography .*, got"),
    (lambda root: _pair(root, **{**NO_MAP, "first": "../a.png"}), "leads out of the folder"),
    (Correspondence, r"no folder has views 1\.ppm, 2\.ppm"),
    (lambda root: Jigsaw(root / "none"), "there is no folder .*none; `path` is the folder that"),
    (Jigsaw, "there is no image that can be read"),
    (lambda root: _maps(root, np.full((10, 20), 7, np.uint8)), "is 20x10 but its .* 600x400"),
    (lambda root: RelativeDepth(root, "nearer", pairs=({"image": "a"},)), "a pair needs image and"),
    (lambda root: RelativeDepth(root, "nearer"), "there is no folder .*; `path` must hold images/"),
    (lambda root: _maps(root, load_photograph("coffee")), r"has the shape \(400, 600, 3\)"),
    (lambda root: _maps(root, np.full((400, 600), 7, np.uint8)), "no image has two smooth points"),
    (_coco(annotations=NO_BOX), r"none of its 1 annotations has a box; `bbox` is \[left, top"),
    (lambda root: Localization(coco(root), smallest=500), "a box of 500 px or more"),
    (_coco(annotations="none"), "COCO's JSON needs the lists images, annotations, categories"),
    (_coco(images=[[1]]), r"images\[0\] must be an object with ids"),
    (lambda root: Sequences(objects(root, things=3), "count"), "ABCD needs 4 .*cup has 3, shoe"),
    (lambda root: Sequences(objects(root, shots=2), "count"), "AAA needs 1 .* at least 3 photogra"),
    (lambda root: Sequences(root, "group"), r"no folder with photographs; expected OBJECT/\*\.jpg"),
    (lambda root: Correspondence(_twins(root), n=500), "of 500 cannot be made: no two views share"),
    (lambda root: Jigsaw(_twins(root), n=9), "2 images give only 2 of 9 questions; set `whole: f"),
    (lambda root: Correspondence(root, n=0), "n, the number of questions"),
    (lambda root: Jigsaw(root, n=0), "n, the number of questions"),
    (lambda root: RelativeDepth(root, "nearer", ratio=1), "`ratio` above 1"),
    (lambda root: Localization(root, iou=(0.8, 0.4)), "two rising shares"),
    (lambda root: Sequences(root, "count", patterns=("ABA",)), "got 'ABA'"),
    (lambda root: Sequences(root, "count", each=0), "`each`, the number"),
    (lambda root: Sequences(root, "count", each={}), "`each`, the number"),
    (lambda root: Sequences(root, "count", each={"AA": 0}), "`each`, the number"),
    (lambda root: Sequences(root, "count", each={"PQ": 3}), "got 'PQ'"),
    (
        lambda root: Sequences(root, "count", each={"AA": 3}, patterns=("AA", "AB")),
        "`each` has no number for the pattern AB",
    ),
]


@pytest.mark.parametrize(("faulty", "said"), FAULTS)
def test_unusable_input_is_reported(
    tmp_path: Path, faulty: Callable[[Path], Task], said: str
) -> None:
    with pytest.raises(TaskError, match=said):
        list(faulty(tmp_path))


# ---- tasks that are made without files

LARGE = {"dot_size": 0.14}
DRAWN: Mapping[str, tuple[Task, str]] = {  # and whether they are closed questions
    "views": (RenderedScenes("motion", n=2, seed=77), "closed"),
    "solids": (GeneratedDoYouSeeMe("letter_disambiguation_3d", n=1, controls=LARGE), "open"),
    "puzzles": (Puzzles(n=1), "closed"),
    "scenes": (MarkedScenes("larger", n=2), "closed"),
    "marks": (MarkQuestions(MarkedScenes("shape", n=2), Circles(), "where"), "closed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_generated_questions_are_the_same_when_saved(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On small pictures, as large ones take seconds to render."""
    monkeypatch.setattr(rendered_scenes, "PICTURE_SIZE", (96, 72))
    monkeypatch.setattr(
        solid_scenes, "LEVEL_CAMERA", replace(solid_scenes.LEVEL_CAMERA, size=(200, 150))
    )
    task, form = DRAWN[name]
    save_task(task, name, tmp_path)
    saved = [*Folder(tmp_path / name)]
    for made, read in zip(task, saved, strict=True):
        first, second = made.sample, read.sample
        assert (second.question, second.choices, read.answer) == (
            first.question,
            first.choices,
            made.answer,
        )
        assert second.marks == first.marks and second.meta["made_as"] == first.id
        for before, after in zip(first.images, second.images, strict=True):
            assert (before.pixels == after.pixels).all()
    if form == "closed":
        assert [item.answer for item in Blink(tmp_path, name)] == [item.answer for item in saved]
    assert any((tmp_path / name).glob("*.parquet")) == (form == "closed")


# ---- the command

SHIPPED: Sequence[tuple[str, Layer, Sequence[str]]] = [
    ("make_correspondence", hpatches, ["Visual_Correspondence.n=3"]),
    ("make_depth", rgbd, ["Relative_Depth.n=3"]),
    ("make_jigsaw", photos, ["Jigsaw.n=3"]),
    ("make_localization", coco, ["Object_Localization.n=3"]),
    ("make_sequences", objects, ["OC-Cpr.each=1", "OC-Cnt.each=1", "OC-Grp.each=1"]),
]


@pytest.mark.parametrize(("config", "source", "settings"), SHIPPED)
def test_the_shipped_configurations(
    tmp_path: Path, sources: Sources, config: str, source: Layer, settings: Sequence[str]
) -> None:
    names = [setting.partition(".")[0] for setting in settings]
    words = [f"tasks.{names[0]}.path={sources[source]}"]
    words += [f"tasks.{setting}" for setting in settings]
    lines = make_questions(CONFIGS / f"{config}.yaml", words, out=tmp_path)
    for line, name in zip(lines, names, strict=True):
        assert line.startswith(f"{name}: ")
        assert line.endswith("(samples.jsonl, val-00000-of-00001.parquet)")
        assert len(Folder(tmp_path / name)) == len(Blink(tmp_path, name)) > 0


def test_skipped_items_are_reported(tmp_path: Path) -> None:
    write(photos(tmp_path / "source") / "white.png", np.full((300, 400, 3), 255, np.uint8))
    words = [f"tasks.Jigsaw.path={tmp_path / 'source'}"]
    made, count, reason = make_questions(CONFIGS / "make_jigsaw.yaml", words, out=tmp_path)
    assert made.startswith(f"Jigsaw: 5 questions, 15 images in {tmp_path / 'Jigsaw'} ")
    assert count == "  1 images left out"
    assert reason.startswith("  white.png: the image white.png has no two different pieces")


def test_faults_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("stages: {}\n")
    with pytest.raises(ConfigError, match="tasks: there is no task to make"):
        build_tasks(tmp_path / "study.yaml")
    (tmp_path / "study.yaml").write_text("task: {use: eval.make.Jigsaw, path: none, m: 3}\n")
    with pytest.raises(ConfigError, match="Jigsaw has no setting 'm'"):
        build_tasks(tmp_path / "study.yaml")
    with pytest.raises(TaskError, match="only letters and digits"):
        list(make_questions(tmp_path / "study.yaml", split="my_val"))
