"""The correct answers of generated questions, checked against the photographs themselves."""

import io
import math
from collections import Counter
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval.tasks import Photos, Subset, TaskError, photographs
from looktwice.eval.tasks.base import find_item
from looktwice.eval.tasks.photos.correspondence import (
    MIN_DISPARITY_RATIO,
    MIN_POINT_DISTANCE,
    Viewpoint,
)
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample
from looktwice.specialists.answers import NearerPoint
from looktwice.specialists.results import DepthMap

KINDS = ["jigsaw", "correspondence", "depth"]


@cache
def make_items(
    kind: Any, strength: float | None = None, source: Any = "both", n: int = 24
) -> list[Item]:
    """Return the first questions of a kind, cached for several tests."""
    return list(Photos(kind, n=n, strength=strength, source=source))


def points(sample: Sample) -> dict[str, Point]:
    return {mark.label: mark for mark in sample.marks if isinstance(mark, Point)}


def candidates(item: Item) -> dict[str, Point]:
    return {letter: points(item.sample)[letter] for letter in item.sample.letters}


def patch(item: Item, point: Point, radius: int = 8) -> Any:
    """Return the interpolated grey surroundings of a point."""
    gray = cv2.cvtColor(item.sample.images[point.image].pixels, cv2.COLOR_RGB2GRAY)
    side = 2 * radius + 1
    return cv2.getRectSubPix(gray.astype(np.float32), (side, side), (point.x, point.y))


def likeness(item: Item, letter: str) -> float:
    """Return the normalised cross-correlation of the surroundings of REF and of a candidate."""
    marks = points(item.sample)
    reference, other = (patch(item, marks[name]).ravel() for name in ("REF", letter))
    return float(np.corrcoef(reference, other)[0, 1])


def shipped(name: str) -> Any:
    return Picture.encoded(files("skimage").joinpath("data", name).read_bytes()).pixels


def guess_share(items: list[Item], best: Any) -> float:
    """Return how often the candidate with the smallest value is the correct one."""
    right = 0
    for item in items:
        marks = candidates(item)
        right += min(marks, key=lambda letter: best(item, marks[letter])) == item.answer
    return right / len(items)


def from_reference(item: Item, point: Point) -> float:
    reference = points(item.sample)["REF"]
    return math.hypot(point.x - reference.x, point.y - reference.y)


# ---------------------------------------------------------------- all kinds


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_items_depend_only_on_their_number_and_the_seed(kind: Any) -> None:
    few, many, other = list(Photos(kind, n=3)), make_items(kind), Photos(kind, n=3, seed=1)
    shas = [item.sample.sha for item in few]
    assert shas == [item.sample.sha for item in many[:3]]
    assert [item.sample.id for item in few] == [f"{kind}_{number:04}" for number in range(3)]
    assert not {*shas} & {item.sample.sha for item in other}
    assert len(many) == len(Photos(kind, n=24))
    counts = Counter(item.answer for item in many)
    letters = few[0].sample.letters
    assert counts == dict.fromkeys(letters, 24 // len(letters))
    meta = few[0].sample.meta
    assert {"kind", "photo", "source", "strength", "quality"} <= meta.keys()
    assert not {"answer", "homography", "disparity", "rank"} & meta.keys()


def test_the_first_questions_never_change() -> None:
    """A change here is a change of behaviour: raise Photos.version with it."""
    items = make_items("correspondence")
    assert "".join(item.answer or "" for item in items[:6]) == "CBADAB"
    scenes = [item.sample.meta["photo"] for item in items[:4]]
    assert scenes == ["astronaut", "coffee", "ihc", "chelsea"]
    assert getattr(Photos, "version", 1) == 1


@pytest.mark.parametrize(("kind", "scenes"), [("jigsaw", 12), ("correspondence", 14), ("depth", 1)])
def test_many_photographs_are_used_or_the_facts_name_the_single_one(kind: Any, scenes: int) -> None:
    task = Photos(kind, n=2 * scenes, source="photos" if kind == "correspondence" else "both")
    plans = [task._get_known_fields(number) for number in range(task.n)]
    assert len({plan["photo"] for plan in plans}) == scenes
    assert ("one scene" in task.facts.note) == (scenes == 1)


def test_subsets_by_fields_known_before_drawing() -> None:
    task = Photos("correspondence", n=40, subset=Subset(n=2, per="source"))
    assert Counter(item.sample.meta["source"] for item in task) == {"photos": 2, "stereo": 2}
    assert len(task) == 4
    with pytest.raises(TaskError, match="keeps none of"):
        len(Photos("depth", n=3, subset=Subset(n=0)))


def test_quality_is_that_of_the_sent_bytes() -> None:
    tasks = [Photos("jigsaw", n=1, quality=quality) for quality in (20, 90, None)]
    images = [next(iter(task)).sample.images[0] for task in tasks]
    assert len({image.size for image in images}) == 1
    kinds = [(image.payload.media_type, image.payload.note) for image in images]
    changed = ("image/png", "made or changed by a stage")
    assert kinds == [("image/jpeg", ""), ("image/jpeg", ""), changed]
    sizes = [len(image.payload.data) for image in images]
    assert sizes == sorted(sizes)


def test_a_wheel_without_its_photographs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(photographs.PHOTOGRAPH_FILES, "brick", "not_shipped.png")
    photographs.load_photograph.cache_clear()
    with pytest.raises(TaskError, match=r"not_shipped\.png is missing.*pip install"):
        photographs.load_photograph("brick")


# ---------------------------------------------------------------- jigsaw


def test_the_correct_piece_completes_the_photograph() -> None:
    for item in make_items("jigsaw"):
        photo = shipped(photographs.PHOTOGRAPH_FILES[item.sample.meta["photo"]])
        left, top, right, bottom = item.sample.meta["crop"]
        board, *pieces = (image.pixels for image in item.sample.images)
        height = pieces[0].shape[0]
        assert [piece.shape for piece in pieces] == [(height, 200, 3)] * 2
        assert board.shape == (2 * height, 400, 3) and 100 <= height <= 120
        assert board[:height].any() and board[height:, :200].any()
        assert not board[height:, 200:].any()
        kind = cv2.INTER_AREA if right - left > 600 else cv2.INTER_CUBIC
        grid = cv2.resize(photo[top:bottom, left:right], (600, 3 * height), interpolation=kind)
        errors = []
        for piece in pieces:
            pasted = board.copy()
            pasted[height:, 200:] = piece
            errors.append(float(np.abs(pasted.astype(int) - grid[: 2 * height, :400]).mean()))
        assert errors["AB".index(item.answer or "")] < 0.5, item.sample.id
        assert max(errors) > 2


def test_lighting_changes_only_the_pieces() -> None:
    changed = next(iter(Photos("jigsaw", n=1, strength=0.8))).sample
    pairs = zip(make_items("jigsaw")[0].sample.images, changed.images, strict=True)
    assert [plain.sha == lit.sha for plain, lit in pairs] == [True, False, False]
    assert changed.meta["noise"] == 16.0


# ---------------------------------------------------------------- correspondence


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.0, 0.1, 0.5, 0.65, 1.0])
@pytest.mark.parametrize("source", ["photos", "stereo"])
def test_candidates_are_apart_and_their_places_reveal_nothing(strength: float, source: Any) -> None:
    """A guess by the distance to REF is right for one in four."""
    items = make_items("correspondence", strength, source)
    for item in items:
        width, height = item.sample.images[1].size
        assert [mark.image for mark in item.sample.marks] == [0, 1, 1, 1, 1]
        places = [point.center for point in candidates(item).values()]
        assert all(8 <= x <= width - 9 and 8 <= y <= height - 9 for x, y in places)
        assert min(math.dist(p, q) for p, q in combinations(places, 2)) > MIN_POINT_DISTANCE - 2
    assert guess_share(items, from_reference) == 0.25
    assert guess_share(items, lambda item, point: -from_reference(item, point)) == 0.25


@pytest.mark.parametrize(
    ("source", "alike", "right"), [("photos", 0.9999, 1), ("stereo", 0.9, 0.95)]
)
def test_without_changes_the_correct_point_looks_the_same(
    source: Any, alike: float, right: float
) -> None:
    true, best = [], []
    for item in make_items("correspondence", 0.0, source):
        same = {letter: likeness(item, letter) for letter in "ABCD"}
        true.append(same[item.answer or ""])
        best.append(max(same, key=lambda letter: same[letter]) == item.answer)
    assert (np.min if source == "photos" else np.median)(true) > alike
    assert np.mean(best) >= right


@pytest.mark.slow
def test_an_independent_matcher_finds_the_correct_point() -> None:
    """SIFT and RANSAC do not know how the second view was made."""
    sift, landed = cv2.SIFT.create(), []
    for item in make_items("correspondence", 0.5, "photos")[:10]:
        (keys0, words0), (keys1, words1) = (
            sift.detectAndCompute(cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY), None)
            for image in item.sample.images
        )
        pairs = cv2.BFMatcher(cv2.NORM_L2, crossCheck=True).match(words0, words1)
        here = np.array([keys0[pair.queryIdx].pt for pair in pairs])
        there = np.array([keys1[pair.trainIdx].pt for pair in pairs])
        fit, agree = cv2.findHomography(here, there, cv2.RANSAC, 2.0)
        if fit is None or agree.sum() < 30:
            continue
        marks = points(item.sample)
        x, y, w = np.asarray(fit) @ (marks["REF"].x, marks["REF"].y, 1)
        true = marks[item.answer or ""]
        landed.append(math.hypot(x / w - true.x, y / w - true.y))
    assert len(landed) >= 8
    assert np.median(landed) < 0.5
    assert max(landed) < 3


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_a_blob_lands_where_the_homography_says(strength: float) -> None:
    rng = photographs.make_rng("blob", int(10 * strength))
    view = Viewpoint.draw(rng, (400, 300), np.array([30.0, 20.0]), (300, 225))
    matrix = view.homography(strength)
    ys, xs = np.mgrid[:300, :400]
    for x, y in rng.uniform((120, 90), (270, 200), (20, 2)):
        blob = np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / (2 * 3**2)).astype(np.float32)
        seen = cv2.warpPerspective(blob, matrix, view.size)
        rows, columns = np.mgrid[: seen.shape[0], : seen.shape[1]]
        u, v, w = matrix @ (x, y, 1)
        if 15 < u / w < view.size[0] - 15 and 15 < v / w < view.size[1] - 15:
            centroid = [float((seen * places).sum() / seen.sum()) for places in (columns, rows)]
            assert centroid == pytest.approx([u / w, v / w], abs=0.1)


@pytest.mark.parametrize(("turn", "strength"), [(40.0, 1.0), (40.0, 0.5), (90.0, 1.0), (0.0, 1.0)])
def test_a_second_view_is_rotated_as_requested(turn: float, strength: float) -> None:
    task = Photos("correspondence", n=6, source="photos", strength=strength, turn=turn)
    assert {abs(item.sample.meta["turn"]) for item in task} == {turn * strength}


def test_strength_changes_only_the_second_view() -> None:
    series = [make_items("correspondence", strength, n=10) for strength in (0.0, 0.4, 1.0)]
    for versions in zip(*series, strict=True):
        shas = ([image.sha for image in item.sample.images] for item in versions)
        assert [len({*view}) for view in zip(*shas, strict=True)] == [1, 3]
        assert len({(item.answer, str(points(item.sample)["REF"])) for item in versions}) == 1
    assert [round(abs(group[0].sample.meta["turn"])) for group in series] == [0, 16, 40]


# ---------------------------------------------------------------- depth


def test_the_nearer_point_has_the_larger_disparity_and_its_place_reveals_nothing() -> None:
    data = files("skimage").joinpath("data", "motorcycle_disp.npz").read_bytes()
    disparity = np.load(io.BytesIO(data))["arr_0"]
    views = [shipped(f"motorcycle_{side}.png") for side in ("left", "right")]
    items = make_items("depth")
    for item in items:
        left, top = item.sample.meta["window"]
        for image, view in zip(item.sample.images, views, strict=True):
            assert np.array_equal(image.pixels, view[top : top + 400, left : left + 560])
        value = {}
        for label, point in points(item.sample).items():
            value[label] = disparity[top + int(point.y), left + int(point.x)]
            assert 0 <= point.x - value[label] < 560, "the right window must show both points"
        near, far = value[item.answer or ""], min(value.values())
        assert near == max(value.values())
        assert near / far == pytest.approx(item.sample.meta["ratio"], abs=1e-3)
        assert near / far >= MIN_DISPARITY_RATIO
    assert guess_share(items, lambda _, point: -point.y) == 0.5
    assert guess_share(items, lambda _, point: math.dist(point.center, (280, 200))) == 0.5


@pytest.mark.parametrize("pair", [True, False])
def test_a_specialist_reads_from_the_question_which_point_is_wanted(pair: bool) -> None:
    item = next(iter(Photos("depth", n=1, pair=pair)))
    rows = np.arange(400)[:, None] + np.zeros((400, 560))  # what is lower is nearer
    answer, _ = NearerPoint(lambda *images: DepthMap(rows, True)).decide(item.sample)
    assert answer == max("AB", key=lambda letter: points(item.sample)[letter].y)


def test_a_single_view_if_no_pair_is_requested() -> None:
    pair, single = (
        make_items("depth")[0].sample,
        next(iter(Photos("depth", n=1, pair=False))).sample,
    )
    assert (len(pair.images), len(single.images)) == (2, 1)
    assert (pair.images[0].sha, pair.marks) == (single.images[0].sha, single.marks)
    assert "second image" in pair.question and "second image" not in single.question


def test_one_question_is_generated_without_the_others() -> None:
    task = Photos("jigsaw", n=5)
    for item in task:
        assert (found := find_item(task, item.sample.id)) and found.sample.sha == item.sample.sha
    assert find_item(task, "another") is None


def test_questions_are_found_without_generating_all(monkeypatch: pytest.MonkeyPatch) -> None:
    task, named, name = Photos("jigsaw", n=9), Counter[int](), Photos._id

    def count(self: Photos, number: int) -> str:
        named[number] += 1
        return name(self, number)

    monkeypatch.setattr(Photos, "_id", count)
    assert all(find_item(task, item.sample.id) for item in task)
    assert max(named.values()) == 4  # chosen, listed, and made twice
