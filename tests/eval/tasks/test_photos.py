"""The truth of the made questions, checked against the photographs themselves, and that places give
nothing away."""

import io
import math
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval.tasks import (
    GeneratedDoYouSeeMe,
    LettersAndShapes,
    Photos,
    Subset,
    TaskError,
    photographs,
)
from looktwice.eval.tasks.base import MadeTask, find_item
from looktwice.eval.tasks.photos.correspondence import APART, Viewpoint
from looktwice.eval.tasks.photos.stereo import RATIO
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

KINDS = ["jigsaw", "correspondence", "depth"]


@cache
def made(kind: Any, strength: float = 0.0, source: Any = "both", n: int = 24) -> list[Item]:
    """The first questions of a kind, which several tests look at."""
    return list(Photos(kind, n=n, strength=strength, source=source))


def points(sample: Sample) -> dict[str, Point]:
    return {mark.label: mark for mark in sample.marks if isinstance(mark, Point)}


def candidates(item: Item) -> dict[str, Point]:
    return {letter: points(item.sample)[letter] for letter in item.sample.letters}


def patch(item: Item, point: Point, radius: int = 8) -> Any:
    """The grey surroundings of a point, interpolated."""
    gray = cv2.cvtColor(item.sample.images[point.image].pixels, cv2.COLOR_RGB2GRAY)
    side = 2 * radius + 1
    return cv2.getRectSubPix(gray.astype(np.float32), (side, side), (point.x, point.y))


def likeness(item: Item, letter: str) -> float:
    """Normalised cross-correlation of the surroundings of REF and of a candidate."""
    found = points(item.sample)
    return float(
        np.corrcoef(patch(item, found["REF"]).ravel(), patch(item, found[letter]).ravel())[0, 1]
    )


def shipped(name: str) -> Any:
    return Picture.encoded(files("skimage").joinpath("data", name).read_bytes()).pixels


def guessed(items: list[Item], best: Any) -> float:
    """How often the candidate of the smallest value is the true one."""
    right = 0
    for item in items:
        found = candidates(item)
        right += min(found, key=lambda letter: best(item, found[letter])) == item.answer
    return right / len(items)


def from_reference(item: Item, point: Point) -> float:
    reference = points(item.sample)["REF"]
    return math.hypot(point.x - reference.x, point.y - reference.y)


# ---------------------------------------------------------------- what every kind promises


@pytest.mark.parametrize("kind", KINDS)
def test_items_do_not_depend_on_how_many_there_are(kind: Any) -> None:
    few, many = list(Photos(kind, n=3)), list(Photos(kind, n=6))
    assert [item.sample.sha for item in few] == [item.sample.sha for item in many[:3]]
    assert [item.answer for item in few] == [item.answer for item in many[:3]]
    assert [item.sample.id for item in few] == [f"{kind}_{number:04}" for number in range(3)]
    assert len(Photos(kind, n=6)) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_asks_other_questions(kind: Any) -> None:
    one, other = list(Photos(kind, n=4)), list(Photos(kind, n=4, seed=1))
    assert not {item.sample.sha for item in one} & {item.sample.sha for item in other}


@pytest.mark.parametrize("kind", KINDS)
def test_letters_are_dealt_evenly(kind: Any) -> None:
    items = made(kind)
    counts = Counter(item.answer for item in items)
    assert set(counts.values()) == {24 // len(items[0].sample.choices)}
    assert set(counts) == set(items[0].sample.letters)


@pytest.mark.parametrize("kind", KINDS)
def test_what_stages_see_is_plain_and_holds_no_key(kind: Any) -> None:
    item = next(iter(Photos(kind, n=1)))
    assert {"kind", "photo", "source", "strength", "quality"} <= item.sample.meta.keys()
    assert not {"answer", "homography", "disparity", "rank"} & item.sample.meta.keys()
    assert item.sample.to_dict()["meta"]["kind"] == kind


def test_the_first_questions_stay_what_they_are() -> None:
    """A change here is a change of behaviour: raise Photos.version with it."""
    items = list(Photos("correspondence", n=6))
    assert "".join(item.answer or "" for item in items) == "CBADAB"
    assert [item.sample.meta["photo"] for item in items][:4] == [
        "astronaut",
        "coffee",
        "ihc",
        "chelsea",
    ]
    assert getattr(Photos, "version", 1) == 1


@pytest.mark.parametrize(("kind", "scenes"), [("jigsaw", 12), ("correspondence", 14), ("depth", 1)])
def test_many_photographs_are_used_or_the_facts_say_one(kind: Any, scenes: int) -> None:
    items = list(
        Photos(kind, n=2 * scenes, source="photos" if kind == "correspondence" else "both")
    )
    assert len({item.sample.meta["photo"] for item in items}) == scenes
    assert ("one scene" in Photos(kind).facts.note) == (scenes == 1)


def test_subset_by_what_is_known_beforehand() -> None:
    task = Photos("correspondence", n=40, subset=Subset(n=2, per="source"))
    assert Counter(item.sample.meta["source"] for item in task) == {"photos": 2, "stereo": 2}
    assert len(task) == 4
    with pytest.raises(TaskError, match="leaves no question"):
        len(Photos("depth", n=3, subset=Subset(n=0)))


def test_quality_is_that_of_the_bytes_that_are_sent() -> None:
    lossless = next(iter(Photos("jigsaw", n=1))).sample.images[0]
    sizes = []
    for quality in (90, 20):
        image = next(iter(Photos("jigsaw", n=1, quality=quality))).sample.images[0]
        assert (image.payload.media_type, image.payload.note, image.size) == (
            "image/jpeg",
            "",
            lossless.size,
        )
        sizes.append(len(image.payload.data))
    assert sizes[1] < sizes[0] < len(lossless.payload.data)
    assert lossless.payload.media_type == "image/png"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "chess"}, "kind is one of jigsaw, correspondence, depth"),
        ({"kind": "depth", "n": 0}, "1 or more; found 0"),
        ({"kind": "depth", "strength": 1.5}, r"0\.\.1, found 1\.5"),
        ({"kind": "depth", "strength": float("nan")}, "found nan"),
        ({"kind": "depth", "quality": 0}, "found 0"),
        ({"kind": "correspondence", "source": "video"}, "found 'video'"),
        ({"kind": "jigsaw", "source": "stereo"}, "source is a setting of correspondence"),
        ({"kind": "jigsaw", "pair": False}, "pair is a setting of depth"),
    ],
)
def test_nonsense_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        Photos(**settings)


def test_a_wheel_without_its_photographs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(photographs.FILES, "brick", "not_shipped.png")
    photographs.photograph.cache_clear()
    with pytest.raises(TaskError, match=r"not_shipped\.png is not there.*pip install"):
        photographs.photograph("brick")


# ---------------------------------------------------------------- jigsaw


def test_jigsaw_has_the_sizes_of_blink() -> None:
    for item in made("jigsaw"):
        board, *pieces = (image.pixels for image in item.sample.images)
        height = pieces[0].shape[0]
        assert [piece.shape for piece in pieces] == [(height, 200, 3)] * 2
        assert board.shape == (2 * height, 400, 3)
        assert 100 <= height <= 120
        assert not board[height:, 200:].any()
        assert board[:height].any()
        assert board[height:, :200].any()


def test_the_true_piece_pastes_back_into_the_photograph() -> None:
    checked = 0
    for item in made("jigsaw"):
        name = photographs.FILES[item.sample.meta["photo"]]
        photo, (left, top, right, bottom) = shipped(name), item.sample.meta["crop"]
        board, *pieces = (image.pixels for image in item.sample.images)
        height = pieces[0].shape[0]
        crop = photo[top:bottom, left:right]
        kind = cv2.INTER_AREA if right - left > 600 else cv2.INTER_CUBIC
        block = cv2.resize(crop, (600, 3 * height), interpolation=kind)[: 2 * height, :400]
        errors = []
        for piece in pieces:
            pasted = board.copy()
            pasted[height:, 200:] = piece
            errors.append(float(np.abs(pasted.astype(int) - block).mean()))
        assert errors["AB".index(item.answer or "")] < 0.5, item.sample.id
        assert max(errors) > 2
        checked += 1
    assert checked == 24


def test_light_falls_on_the_pieces_alone() -> None:
    plain, changed = (
        next(iter(Photos("jigsaw", n=1, strength=strength))).sample for strength in (0.0, 0.8)
    )
    assert plain.images[0].sha == changed.images[0].sha
    assert all(plain.images[place].sha != changed.images[place].sha for place in (1, 2))
    assert changed.meta["noise"] == 16.0


# ---------------------------------------------------------------- correspondence


@pytest.mark.parametrize("strength", [0.0, 0.1, 0.5, 0.65, 1.0])
@pytest.mark.parametrize("source", ["photos", "stereo"])
def test_candidates_are_inside_and_apart(strength: float, source: Any) -> None:
    for item in made("correspondence", strength, source):
        width, height = item.sample.images[1].size
        found = list(candidates(item).values())
        assert len(found) == 4
        assert [mark.image for mark in item.sample.marks] == [0, 1, 1, 1, 1]
        assert all(8 <= point.x <= width - 9 and 8 <= point.y <= height - 9 for point in found)
        gaps = [math.hypot(p.x - q.x, p.y - q.y) for p in found for q in found if p is not q]
        assert min(gaps) > APART - 2


def test_without_change_the_true_point_has_the_very_same_surroundings() -> None:
    for item in made("correspondence", 0.0, "photos"):
        same = {letter: likeness(item, letter) for letter in "ABCD"}
        assert same[item.answer or ""] > 0.9999, item.sample.id
        assert max(same, key=lambda letter: same[letter]) == item.answer


def test_true_disparity_points_at_the_same_surroundings() -> None:
    items = made("correspondence", 0.0, "stereo")
    alike = [{letter: likeness(item, letter) for letter in "ABCD"} for item in items]
    true = [same[item.answer or ""] for item, same in zip(items, alike, strict=True)]
    best = [max(same, key=lambda letter: same[letter]) for same in alike]
    assert np.mean([one == item.answer for one, item in zip(best, items, strict=True)]) > 0.95
    assert np.median(true) > 0.9


def test_an_independent_matcher_finds_the_true_point() -> None:
    """SIFT and RANSAC know nothing of how the second view was made; where they succeed they land on
    the truth."""
    sift, landed = cv2.SIFT.create(), []
    for item in made("correspondence", 0.5, "photos")[:10]:
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
        found = points(item.sample)
        x, y, w = np.asarray(fit) @ (found["REF"].x, found["REF"].y, 1)
        true = found[item.answer or ""]
        landed.append(math.hypot(x / w - true.x, y / w - true.y))
    assert len(landed) >= 8
    assert np.median(landed) < 0.5
    assert max(landed) < 3


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_a_blob_lands_where_the_homography_says(strength: float) -> None:
    rng = photographs.seeded_rng("blob", int(10 * strength))
    view = Viewpoint.draw(rng, (400, 300), np.array([30.0, 20.0]), (300, 225))
    matrix = view.homography(strength)
    ys, xs = np.mgrid[:300, :400]
    for x, y in rng.uniform((120, 90), (270, 200), (20, 2)):
        blob = np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / (2 * 3**2)).astype(np.float32)
        seen = cv2.warpPerspective(blob, matrix, view.size)
        rows, columns = np.mgrid[: seen.shape[0], : seen.shape[1]]
        u, v, w = matrix @ (x, y, 1)
        if not (15 < u / w < view.size[0] - 15 and 15 < v / w < view.size[1] - 15):
            continue
        centroid = (
            float((seen * columns).sum() / seen.sum()),
            float((seen * rows).sum() / seen.sum()),
        )
        assert centroid == pytest.approx((u / w, v / w), abs=0.1)


def test_a_second_view_is_turned_as_far_as_asked() -> None:
    for turn, strength, most in (
        (40.0, 1.0, 40.0),
        (40.0, 0.5, 20.0),
        (90.0, 1.0, 90.0),
        (0.0, 1.0, 0.0),
    ):
        task = Photos("correspondence", n=6, source="photos", strength=strength, turn=turn)
        assert {abs(item.sample.meta["turn"]) for item in task} == {most}
    with pytest.raises(TaskError, match=r"turn lies in 0\.\.90, found 100"):
        Photos("correspondence", turn=100)


def test_strength_changes_the_second_view_and_not_the_question() -> None:
    series = [
        list(Photos("correspondence", n=10, strength=strength)) for strength in (0.0, 0.4, 1.0)
    ]
    for versions in zip(*series, strict=True):
        assert len({item.answer for item in versions}) == 1
        assert len({item.sample.images[0].sha for item in versions}) == 1
        assert len({item.sample.images[1].sha for item in versions}) == 3
        assert len({str(points(item.sample)["REF"]) for item in versions}) == 1
    assert [round(abs(group[0].sample.meta["turn"])) for group in series] == [0, 16, 40]


@pytest.mark.parametrize("source", ["photos", "stereo"])
@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_places_alone_do_not_tell_the_answer(strength: float, source: Any) -> None:
    """A guess by the distance to where REF was is right for exactly one question in four, at either
    end."""
    items = made("correspondence", strength, source)
    assert guessed(items, from_reference) == 0.25
    assert guessed(items, lambda item, point: -from_reference(item, point)) == 0.25


# ---------------------------------------------------------------- depth


def test_nearer_is_the_larger_true_disparity() -> None:
    with np.load(
        io.BytesIO(files("skimage").joinpath("data", "motorcycle_disp.npz").read_bytes())
    ) as data:
        disparity = data["arr_0"]
    left_view, right_view = shipped("motorcycle_left.png"), shipped("motorcycle_right.png")
    for item in made("depth"):
        left, top = item.sample.meta["window"]
        for image, view in zip(item.sample.images, (left_view, right_view), strict=True):
            assert np.array_equal(image.pixels, view[top : top + 400, left : left + 560])
        value = {
            label: disparity[top + int(p.y), left + int(p.x)]
            for label, p in points(item.sample).items()
        }
        near, far = value[item.answer or ""], min(value.values())
        assert near == max(value.values())
        assert near / far == pytest.approx(item.sample.meta["ratio"], abs=1e-3)
        assert near / far >= RATIO
        for label, point in points(item.sample).items():
            assert 0 <= point.x - value[label] < 560, "the right window must show both points"


def test_the_place_in_the_picture_does_not_tell_depth() -> None:
    items = made("depth")
    assert guessed(items, lambda _, point: -point.y) == 0.5
    assert guessed(items, lambda _, point: math.hypot(point.x - 280, point.y - 200)) == 0.5


def test_one_view_where_no_pair_is_wanted() -> None:
    pair, single = (next(iter(Photos("depth", n=1, pair=pair))).sample for pair in (True, False))
    assert (len(pair.images), len(single.images)) == (2, 1)
    assert pair.images[0].sha == single.images[0].sha
    assert pair.marks == single.marks
    assert "second image" in pair.question
    assert "second image" not in single.question


@pytest.mark.parametrize(
    "task",
    [Photos("jigsaw", n=5), LettersAndShapes(n=5), GeneratedDoYouSeeMe("form_constancy", n=5)],
    ids=lambda task: type(task).__name__,
)
def test_one_question_is_made_without_the_others(task: MadeTask) -> None:
    for item in task:
        assert (found := find_item(task, item.sample.id)) and found.sample.sha == item.sample.sha
    assert find_item(task, "another") is None


def test_to_look_for_many_questions_does_not_go_through_all_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, named, name = LettersAndShapes(n=9), Counter[int](), LettersAndShapes._id

    def count(self: LettersAndShapes, number: int) -> str:
        named[number] += 1
        return name(self, number)

    monkeypatch.setattr(LettersAndShapes, "_id", count)
    assert all(find_item(task, item.sample.id) for item in task)
    assert max(named.values()) == 4  # chosen, listed, and made twice


def test_a_subset_of_less_than_nothing_is_refused() -> None:
    """With -1 all questions but one were asked, without a word."""
    with pytest.raises(TaskError, match=r"subset\.n is how many items are kept"):
        Subset(n=-1)
