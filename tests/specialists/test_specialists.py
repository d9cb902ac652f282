"""Specialists that need no weights, on cases whose right answer is known by construction."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import pytest
from PIL import Image

from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.specialists.answers import Chance, MatchedPoint, NearerPoint, SeamMatcher
from looktwice.specialists.maps import SGBM
from looktwice.specialists.matching import SIFT
from looktwice.specialists.results import Boxes, DepthMap, Features, Masks, Matches


def answered(stage: Stage, sample: Sample, seed: int = 0, draw: int = 0) -> State:
    return stage(State(sample, seed=seed, draw=draw), NoModel())


def sample(*images: Pixels, choices: int = 2, marks: tuple[Mark, ...] = (), name: str = "s1") -> Sample:
    pictures = tuple(Picture(image) for image in images)
    return Sample(name, "Which?", pictures, tuple("abcdefgh"[:choices]), marks)


def texture(width: int = 160, height: int = 120, seed: int = 0, grain: float = 2.0) -> Pixels:
    """A smooth random image with detail of about `grain` pixels, the full range of grey levels."""
    noise = np.random.default_rng(seed).uniform(0, 1, (height, width, 3)).astype(np.float32)
    smooth = np.asarray(cv2.GaussianBlur(noise, (0, 0), grain))
    return np.asarray(255 * (smooth - smooth.min()) / (smooth.max() - smooth.min()), np.uint8)


# Results


def made(kind: Callable[..., Any], *rows: Any) -> Any:
    return kind(*(np.array(row) for row in rows))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: made(Boxes, [[1, 2, 3]], [1], ["a"]), r"Boxes.xyxy must have the shape \(1, 4\), found \(1, 3\)"),
        (lambda: made(Boxes, [[1, 2, 3, 4]], [1, 1], ["a"]), r"Boxes.scores must have the shape \(1\), found \(2,\)"),
        (lambda: made(Boxes, [[3, 2, 1, 4]], [1], ["a"]), r"Boxes.xyxy\[0\] = \[3.0, 2.0, 1.0, 4.0\] has its right"),
        (lambda: made(Boxes, [[1, 2, np.nan, 4]], [1], ["a"]), "not finite"),
        (lambda: made(Masks, np.ones((4, 5), bool), [1], ["a"]), r"Masks.masks must have the shape \(4, any, any\)"),
        (lambda: made(Matches, [[1, 2]], [[1, 2]], [1.5]), r"Matches.confidence lies in 0..1, found 1.5"),
        (lambda: made(Matches, [[1, 2]], [[1, 2], [3, 4]], [1]), r"Matches.xy1 must have the shape \(1, 2\)"),
        (lambda: made(Features, [[1, 2]], [1, 2, 3], [1]), r"Features.vectors must have the shape \(1, any\)"),
        (lambda: DepthMap(np.ones(4), True), r"DepthMap.values must have the shape \(height, width\), found \(4,\)"),
    ],
)
def test_results_of_the_wrong_shape_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("pick", "left"),
    [(np.array([True, False, True]), "ac"), ([2, 0], "ca"), (slice(1, None), "bc"), (1, "b"), (slice(0, 0), "")],
)
def test_results_are_picked_from(pick: Any, left: str) -> None:
    boxes = Boxes(np.arange(12.0).reshape(3, 4), np.array([0.1, 0.5, 0.9]), np.array(["a", "b", "c"]))
    picked = boxes[pick]
    assert (type(picked), len(picked), "".join(picked.labels)) == (Boxes, len(left), left)
    assert picked.xyxy.shape == (len(left), 4)
    assert [row.tolist() for row in picked.xyxy] == [boxes.xyxy["abc".index(label)].tolist() for label in left]


def test_results_are_copies_that_nobody_can_change() -> None:
    xyxy = np.array([[1.0, 2, 3, 4]])
    boxes = Boxes(xyxy, np.ones(1), np.array(["a"]))
    xyxy[:] = 0
    assert boxes.xyxy.tolist() == [[1, 2, 3, 4]]
    with pytest.raises(ValueError, match="read-only"):
        boxes.xyxy[0, 0] = 9
    with pytest.raises(ValueError, match="read-only"):
        DepthMap(np.ones((2, 2)), True).values[0, 0] = 3


def test_empty_results_keep_their_shape() -> None:
    assert Matches.none().xy0.shape == (0, 2)
    assert len(Boxes(np.array([]), np.array([]), np.array([]))) == 0
    assert Masks(np.empty((0, 5, 6), bool), np.empty(0), np.empty(0, str))[slice(0, 3)].masks.shape == (0, 5, 6)


def test_a_depth_map_knows_which_way_is_near_and_where_it_knows_nothing() -> None:
    values = np.array([[1.0, 2, np.inf], [3, np.nan, 5]])
    assert DepthMap(values, True).around(0, 0, 1).tolist() == [1]
    assert DepthMap(values, False).around(1.4, 0.6, 3).tolist() == [-1, -2, -3, -5]
    assert DepthMap(values, True).around(2, 0, 1).size == 0


def test_boxes_without_supervision_say_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(ImportError, match=r"pip install 'looktwice\[sv\]'"):
        Boxes(np.ones((0, 4)), np.ones(0), np.ones(0, str)).to_supervision()


def test_boxes_to_supervision_and_back() -> None:
    supervision = pytest.importorskip("supervision", exc_type=ImportError)
    boxes = Boxes(np.array([[1, 2, 3, 4], [5, 6, 7.5, 8]]), np.array([0.5, 0.25]), np.array(["dog", "cat"]))
    detections = boxes.to_supervision()
    assert detections[detections.confidence > 0.3].data["class_name"].tolist() == ["dog"]
    back = Boxes.from_supervision(detections)
    assert (back.xyxy == boxes.xyxy).all()
    assert (back.scores.tolist(), back.labels.tolist()) == ([0.5, 0.25], ["dog", "cat"])
    bare = Boxes.from_supervision(supervision.Detections(xyxy=np.array([[1.0, 2, 3, 4]]), class_id=np.array([7])))
    assert (bare.scores.tolist(), bare.labels.tolist()) == ([1.0], ["7"])
    assert len(Boxes.from_supervision(boxes[slice(0, 0)].to_supervision())) == 0


# Chance


def test_chance_is_even_repeatable_and_differs_by_sample_draw_and_seed() -> None:
    many = [answered(Chance(), sample(choices=4, name=str(n))).answer for n in range(800)]
    assert all(150 <= many.count(letter) <= 250 for letter in "ABCD")
    again = [answered(Chance(), sample(choices=4, name=str(n))).answer for n in range(50)]
    assert again == many[:50]
    for other in ({"seed": 1}, {"draw": 1}):
        assert [answered(Chance(), sample(choices=4, name=str(n)), **other).answer for n in range(50)] != again
    assert [answered(Chance("else"), sample(choices=4, name=str(n))).answer for n in range(50)] != again


def test_chance_has_nothing_to_draw_from() -> None:
    state = answered(Chance(), sample(choices=0))
    assert (state.answer, state.reason) == (None, "abstained: there are no choices to draw from")


# Seams


def jigsaw(row: int, column: int, width: int = 80, height: int = 60, seed: int = 0) -> tuple[Pixels, Pixels]:
    """An image without one quadrant (rounded down), and that quadrant."""
    image = texture(width, height, seed, grain=4)
    rows = slice(0, height // 2) if row == 0 else slice(height - height // 2, height)
    columns = slice(0, width // 2) if column == 0 else slice(width - width // 2, width)
    piece = image[rows, columns].copy()
    board = image.copy()
    board[rows, columns] = 0
    return board, piece


@pytest.mark.parametrize("quadrant", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("size", [(80, 60), (81, 61)])
@pytest.mark.parametrize("stage", [SeamMatcher(), SeamMatcher(gradient=0), SeamMatcher(color=0)])
def test_the_piece_that_was_cut_out_fits(stage: SeamMatcher, size: tuple[int, int], quadrant: tuple[int, int]) -> None:
    for seed in range(3):
        board, piece = jigsaw(*quadrant, *size, seed=seed)
        others = [texture(piece.shape[1], piece.shape[0], seed + 10, grain=4), piece[::-1]]
        state = answered(stage, sample(board, others[0], piece, others[1], choices=3))
        assert state.answer == "B"
        assert 0 < (state.confidence or 0) <= 1


def test_a_piece_of_another_size_is_fitted() -> None:
    board, piece = jigsaw(1, 1)
    large = np.asarray(cv2.resize(piece, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC), np.uint8)
    other = texture(80, 60, 5, grain=8)
    assert answered(SeamMatcher(), sample(board, large, other)).answer == "A"
    assert answered(SeamMatcher(), sample(board, other, large)).answer == "B"


def test_choices_that_are_pictures_are_the_candidates() -> None:
    board, piece = jigsaw(1, 1)
    choices = tuple(Picture(pixels) for pixels in (texture(40, 30, 7), piece))
    assert answered(SeamMatcher(), Sample("s1", "", (Picture(board),), choices)).answer == "B"


BOARD, PIECE = jigsaw(1, 1)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (sample(texture(), PIECE, PIECE[::-1]), "no quadrants of the first image are black"),
        (sample(np.zeros_like(BOARD), PIECE, PIECE[::-1]), "4 quadrants of the first image are black"),
        (sample(BOARD, PIECE, PIECE), "two candidates fit equally well"),
        (sample(BOARD, PIECE), "there are 1 candidate images for 2 choices"),
        (sample(BOARD, PIECE, choices=1), "there are 2 images and 1 choices"),
        (sample(), "there are 0 images and 2 choices"),
        (sample(BOARD[:3, :3], PIECE, PIECE), "the first image is too small to have quadrants: 3 x 3"),
    ],
)
def test_no_gap_or_no_difference_is_no_answer(asked: Sample, reason: str) -> None:
    state = answered(SeamMatcher(), asked)
    assert state.answer is None
    assert state.reason.startswith(f"abstained: {reason}")


@pytest.mark.parametrize("settings", [{"color": 0, "gradient": 0}, {"color": -1}])
def test_seam_weights_must_weigh_something(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weights color and gradient"):
        SeamMatcher(**settings)


@pytest.mark.parametrize("stage", [SeamMatcher(), SeamMatcher(gradient=0), SeamMatcher(color=0)])
def test_all_real_jigsaws_are_solved(stage: SeamMatcher, shared_data: Path) -> None:
    import pyarrow.parquet as pq

    rows = pq.read_table(shared_data / "blink" / "Jigsaw" / "val-00000-of-00001.parquet").to_pylist()
    found = {}
    for row in rows:
        images = tuple(Picture.encoded(row[f"image_{n}"]["bytes"]) for n in (1, 2, 3))
        state = answered(stage, Sample(row["idx"], row["question"], images, tuple(row["choices"])))
        found[row["idx"]] = f"({state.answer})"
    assert len(found) == 75
    assert found == {row["idx"]: row["answer"] for row in rows}


# Correspondence


@dataclass(frozen=True)
class Given:
    """A matcher that found these."""

    matches: Matches

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        return self.matches


def moved(warp: Callable[[Any], Any], count: int = 40, wrong: int = 0) -> Matches:
    """Matches on a grid of image 0 carried by `warp`, of which the last `wrong` are nonsense."""
    rng = np.random.default_rng(3)
    xy0 = rng.uniform(5, 95, (count, 2))
    xy1 = np.array([warp(xy) for xy in xy0])
    xy1[count - wrong :] = rng.uniform(0, 100, (wrong, 2))
    return Matches(xy0, xy1, np.full(count, 0.5))


def shift(xy: Any) -> Any:
    return xy + np.array([10.0, -5.0])


def perspective(xy: Any) -> Any:
    x, y, w = np.array([[1, 0.2, 3], [0.1, 1.1, -4], [0.002, 0.001, 1]]) @ (*xy, 1.0)
    return np.array([x / w, y / w])


BLANK = np.zeros((100, 100, 3), np.uint8)


def corresponding(spots: dict[str, tuple[float, float]], ref: tuple[float, float] = (50, 50)) -> Sample:
    candidates = (Point(label, *xy, image=1) for label, xy in spots.items())
    return sample(BLANK, BLANK, choices=4, marks=(Point("REF", *ref), Box("A", 1, 1, 9, 9, image=1), *candidates))


def spread(target: Any, right: str = "C", far: float = 1) -> dict[str, tuple[float, float]]:
    """The right candidate on `target`, the others `far` times 12 to 14 pixels away."""
    around = {letter: (float(target[0] + far * dx), float(target[1] + far * dy)) for letter, (dx, dy) in ASIDE.items()}
    return around | {right: (float(target[0]), float(target[1]))}


ASIDE = {"A": (12, 0), "B": (-9, 9), "C": (0, 14), "D": (8, -10)}


@pytest.mark.parametrize(
    ("transfer", "warp", "wrong"),
    [
        ("homography", shift, 12),
        ("homography", perspective, 12),
        ("affine", shift, 4),
        ("affine", perspective, 4),
        ("nearest", shift, 0),
        ("nearest", perspective, 0),
    ],
)
@pytest.mark.parametrize("right", "ABCD")
def test_the_reference_lands_on_its_own_candidate(transfer: Any, warp: Any, wrong: int, right: str) -> None:
    stage = MatchedPoint(Given(moved(warp, wrong=wrong)), transfer=transfer)
    state = answered(stage, corresponding(spread(warp(np.array([50.0, 50.0])), right)))
    assert state.answer == right
    assert 0.5 < (state.confidence or 0) <= 1


SPOTS = spread((60, 45))
GOOD = moved(shift)


@pytest.mark.parametrize(
    ("matches", "spots", "reason"),
    [
        (Matches.none(), SPOTS, "0 matches, at least 6 are needed"),
        (GOOD[slice(0, 5)], SPOTS, "5 matches, at least 6"),
        (moved(shift, count=12, wrong=12), SPOTS, "matches agree on one map, at least 6"),
        (GOOD, {k: v for k, v in SPOTS.items() if k in "AC"}, "no point B, D on image 1"),
        (GOOD, {**SPOTS, "A": (60, 45)}, "candidates A and C are equally far"),
    ],
)
@pytest.mark.parametrize("transfer", ["homography", "affine"])
def test_too_little_to_go_by_is_no_answer(
    transfer: Literal["homography", "affine"], matches: Matches, spots: dict[str, tuple[float, float]], reason: str
) -> None:
    state = answered(MatchedPoint(Given(matches), transfer=transfer), corresponding(spots))
    assert state.answer is None
    assert state.reason.startswith("abstained: ")
    assert reason in state.reason


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (sample(BLANK, choices=4), "there are 1 images and 4 choices"),
        (sample(BLANK, BLANK, choices=0), "there are 2 images and 0 choices"),
        (sample(BLANK, BLANK, marks=(Point("ref", 1, 1),)), "no points 'REF' are on image 0"),
        (sample(BLANK, BLANK, marks=(Point("REF", 1, 1), Point("REF", 2, 2))), "2 points 'REF' are on image 0"),
    ],
)
def test_a_sample_of_another_kind_is_no_answer(asked: Sample, reason: str) -> None:
    state = answered(MatchedPoint(Given(GOOD)), asked)
    assert (state.answer, state.reason.startswith(f"abstained: {reason}")) == (None, True)


def test_matches_that_all_lie_in_one_place_fit_no_map() -> None:
    heap = Matches(np.full((20, 2), 30.0), np.full((20, 2), 40.0), np.ones(20))
    for transfer in ("homography", "affine"):
        state = answered(MatchedPoint(Given(heap), transfer=transfer), corresponding(SPOTS))
        assert "agree on one map" in state.reason


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transfer": "homography", "min_matches": 3}, "'homography' needs min_matches of 4 or more, found 3"),
        ({"neighbors": 4}, r"neighbors \(4\) must not be fewer than min_matches \(6\)"),
        ({"tolerance": 0}, "tolerance is in pixels"),
    ],
)
def test_settings_that_cannot_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MatchedPoint(SIFT(), **settings)


def test_sift_finds_an_image_again_to_a_fraction_of_a_pixel() -> None:
    image = texture(240, 200)
    affine = np.array([[0.9, 0.2, 10.3], [-0.2, 0.9, 40.6]])
    warped = np.asarray(cv2.warpAffine(image, affine, (240, 240), flags=cv2.INTER_CUBIC), np.uint8)
    matches = SIFT()(image, warped)
    away = np.linalg.norm(matches.xy0 @ affine[:, :2].T + affine[:, 2] - matches.xy1, axis=1)
    assert len(matches) > 60
    assert np.mean(away < 1) > 0.95
    offsets = matches.xy1 - (matches.xy0 @ affine[:, :2].T + affine[:, 2])
    assert np.abs(np.median(offsets, axis=0)).max() < 0.1
    assert (np.diff(matches.confidence) <= 0).all()
    assert len(SIFT(mutual=False)(image, warped)) >= len(matches)


def test_sift_finds_nothing_where_there_is_nothing() -> None:
    assert len(SIFT()(BLANK, texture())) == 0
    assert len(SIFT()(texture(), BLANK)) == 0


@pytest.mark.parametrize("settings", [{"ratio": 0}, {"ratio": 1.2}, {"features": 1}])
def test_sift_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        SIFT(**settings)


# Depth


@dataclass(frozen=True)
class Ramp:
    """A map whose value is the column; `hole` columns from the left are unknown."""

    larger_is_nearer: bool = True
    hole: int = 0
    width: int = 100

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        values = np.tile(np.arange(self.width, dtype=float), (100, 1))
        values[:, : self.hole] = np.nan
        return DepthMap(values, self.larger_is_nearer)


def depths(*points: Point, images: tuple[Pixels, ...] = (BLANK,)) -> Sample:
    return sample(*images, choices=max(2, len(points)), marks=points)


A, B, C = Point("A", 20, 50), Point("B", 70, 50), Point("C", 90, 10)


@pytest.mark.parametrize(
    ("depth", "asked", "answer", "reason"),
    [
        (Ramp(), depths(A, B), "B", ""),
        (Ramp(larger_is_nearer=False), depths(A, B), "A", ""),
        (Ramp(), depths(A, B, C), "C", ""),
        (Ramp(), depths(B, C, A), "C", ""),
        (Ramp(hole=19), depths(A, B), "B", ""),
        (Ramp(hole=23), depths(A, B), None, "no depth is known around point A at (20, 50)"),
        (Ramp(), depths(A, Point("B", 20, 10)), None, "points A and B are equally near"),
        (Ramp(), depths(A), None, "no point B on image 0"),
        (Ramp(), depths(A, Point("B", 70, 50, image=1), images=(BLANK, BLANK)), None, "no point B on image 0"),
        (Ramp(), sample(), None, "there are 0 images and 2 choices"),
        (SGBM(), depths(A, B), None, "stereo needs a left and a right view, found 1 image(s)"),
        (SGBM(), depths(A, B, images=(BLANK, BLANK[:50])), None, "left and right view differ in size"),
        (SGBM(), depths(A, B, images=(BLANK[:, :2],) * 2), None, "an image of 2 x "),
    ],
)
def test_the_nearer_point(depth: Any, asked: Sample, answer: str | None, reason: str) -> None:
    state = answered(NearerPoint(depth), asked)
    assert state.answer == answer
    assert state.reason.startswith(f"abstained: {reason}") if reason else state.reason == ""
    if answer:
        assert 0 < (state.confidence or 0) <= 1


def test_one_wild_pixel_does_not_decide() -> None:
    values = np.full((100, 100), 5.0)
    values[:, 60:] = 6
    values[50, 20] = 100
    state = answered(NearerPoint(lambda *_: DepthMap(values, True)), depths(A, B))
    assert state.answer == "B"


def test_a_map_of_another_size_is_a_fault() -> None:
    with pytest.raises(ValueError, match="the depth map is 50 x 100 pixels, its image 100 x 100"):
        answered(NearerPoint(Ramp(width=50)), depths(A, B))


@pytest.mark.parametrize("disparity", [5, 21])
@pytest.mark.parametrize("mode", ["sgbm", "hh", "3way"])
def test_sgbm_measures_a_shift(mode: Any, disparity: int) -> None:
    wide = texture(232, 120, grain=1)
    left, right = wide[:, :200], wide[:, disparity : 200 + disparity]
    found = SGBM(disparities=32, mode=mode)(left, right)
    assert found.values.shape == (120, 200)
    assert np.nanmedian(found.values[:, disparity:]) == pytest.approx(disparity, abs=0.1)
    assert np.isfinite(found.values[:, disparity + 5 :]).mean() > 0.9
    assert found.larger_is_nearer


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"disparities": 100}, "multiple of 16, found 100"),
        ({"block": 4}, "block is the odd side"),
        ({"smooth_step": 40}, "smooth_jump must be larger than smooth_step"),
    ],
)
def test_sgbm_settings_that_opencv_would_refuse(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SGBM(**settings)


def test_a_window_has_a_middle() -> None:
    with pytest.raises(ValueError, match="window is the odd side"):
        NearerPoint(Ramp(), window=4)


def test_a_real_stereo_pair() -> None:
    """Depth and correspondence against the true disparity of Middlebury's motorcycle (in skimage inf is unknown)."""
    from skimage import data

    left, right, truth = data.stereo_motorcycle()  # type: ignore[no-untyped-call]
    near, matches = SGBM()(left, right), SIFT()(left, right)
    depth, match = NearerPoint(lambda *_: near), MatchedPoint(Given(matches))
    rng, right_of = np.random.default_rng(0), {"depth": 0, "match": 0}
    ys, xs = np.nonzero(np.isfinite(truth) & (np.arange(truth.shape[1]) >= truth))  # what the right view can hold
    for _ in range(150):
        one, two = rng.integers(0, len(xs), 2)
        marks = Point("A", float(xs[one]), float(ys[one])), Point("B", float(xs[two]), float(ys[two]))
        nearer = "A" if truth[ys[one], xs[one]] > truth[ys[two], xs[two]] else "B"
        right_of["depth"] += answered(depth, depths(*marks, images=(left, right))).answer == nearer
        target = (xs[one] - truth[ys[one], xs[one]], ys[one])
        candidates = tuple(Point(label, *xy, image=1) for label, xy in spread(target, "D", 3).items())
        asked = sample(left, right, choices=4, marks=(Point("REF", *marks[0].center), *candidates))
        right_of["match"] += answered(match, asked).answer == "D"
    assert right_of["depth"] >= 0.8 * 150
    assert right_of["match"] >= 0.8 * 150


def test_a_marked_jpeg_goes_through_as_well_as_pixels() -> None:
    board, piece = jigsaw(1, 1, 160, 120)
    encoded = []
    for pixels in (board, piece[::-1], piece):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "JPEG", quality=80)
        encoded.append(Picture.encoded(buffer.getvalue()))
    assert answered(SeamMatcher(), Sample("s1", "", tuple(encoded), ("a", "b"))).answer == "B"
