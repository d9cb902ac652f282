"""Answers from matches and pixels: camera, correspondence, jigsaw, chance, and burnt-in marks."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel, Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.specialists.answers import (
    CameraMotion,
    Chance,
    Count,
    DarkerPoint,
    FaceIdentity,
    Guess,
    MatchedPoint,
    NearerPoint,
    SameIdentity,
    SeamMatcher,
)
from looktwice.specialists.matching import SIFT
from looktwice.specialists.protocols import Matcher
from looktwice.specialists.results import DepthMap, Matches
from tests.burnt_in import draw_as_released
from tests.optional import extension
from tests.specialists.samples import (
    DARK,
    SAME,
    SOME,
    check,
    make_detector,
    make_face_detector,
    make_sample,
)
from tests.specialists.scenes import (
    BLANK,
    FixedMatcher,
    place_candidates,
    run_stage,
    sample,
    texture,
)

burnt_in = extension("burnt_in")
matching = extension("matching")


def chances(count: int, slot: str = "chance", **other: int) -> list[str | None]:
    samples = [sample(choices=4, name=str(n)) for n in range(count)]
    return [run_stage(Chance(slot), each, **other).answer for each in samples]


def test_chance_is_uniform_reproducible_and_differs_by_sample_draw_and_seed() -> None:
    many = chances(800)
    assert all(150 <= many.count(letter) <= 250 for letter in "ABCD")
    assert chances(50) == many[:50]
    for others in (chances(50, seed=1), chances(50, draw=1), chances(50, "else")):
        assert others != many[:50]


def test_chance_needs_choices() -> None:
    state = run_stage(Chance(), sample(choices=0))
    assert (state.answer, state.reason) == (None, "abstained: there are no choices to draw from")


def guess(rule: Stage, sample: Sample, seed: int = 0) -> State:
    return rule(State(sample, seed=seed), NoModel())


def test_a_guess_is_made_and_noted_only_without_evidence() -> None:
    empty, full = Count(make_detector()), Count(make_detector(SOME))
    sample = make_sample("How many cats?", ("1", "2", "3", "4"))
    state = guess(Guess(empty), sample)
    assert state.answer in set("ABCD")
    assert (state.reason, state.confidence) == ("", 0.25)
    assert state.notes == ("guessed: the detector finds no cats",)
    assert guess(Guess(full), sample).answer == guess(full, sample).answer == "A"
    assert guess(Guess(full), sample).notes == ()
    assert guess(Guess(empty, on_empty="abstain"), sample).ended


def test_guesses_are_reproducible_and_uniform() -> None:
    rule = Guess(Count(make_detector()))
    samples = [
        make_sample("How many cats?", ("1", "2", "3", "4"), name=f"s{n}") for n in range(400)
    ]
    first, again, other = ([guess(rule, s, seed).answer for s in samples] for seed in (0, 0, 1))
    assert first == again != other
    assert min(first.count(letter) for letter in "ABCD") > 70


def test_an_open_question_is_guessed_only_among_named_answers() -> None:
    sample = make_sample(SAME, (), 1)
    rule = SameIdentity(FaceIdentity(make_face_detector([])))
    assert guess(Guess(rule), sample).ended
    assert guess(Guess(rule, among=("T", "F")), sample).answer in ("T", "F")


def test_a_guess_cannot_wrap_a_stage_that_asks_a_model() -> None:
    from looktwice.prompting.turns import Ask

    with pytest.raises(ValueError, match="Ask calls the model"):
        Guess(Ask())
    assert Guess(Chance()).on_empty == "guess"


def answer_without_marks(rule: Stage, sample: Sample, **settings: Any) -> State:
    """Run a rule on marks that are recovered from the pixels and then painted over."""
    recover = burnt_in.RecoverMarks(**settings)
    pipeline = Pipeline({"recover": recover, "erase": burnt_in.EraseMarks(), "answer": rule})
    return pipeline(State.start(replace(sample, marks=())))


def test_burnt_in_points_reach_the_rules() -> None:
    """The image is a brightness ramp, which the rules see without the rings."""
    ramp = np.tile(np.linspace(40, 220, 300).astype(np.uint8)[None, :, None], (200, 1, 3))
    points, closer = (Point("A", 220, 120), Point("B", 70, 110)), ("A is closer", "B is closer")
    red = make_sample("Which is closer?", closer, [draw_as_released(ramp, points, (255, 0, 0))])
    near = NearerPoint(lambda image, *_: DepthMap(image.mean(2), True))
    assert answer_without_marks(near, red, colors=("red",)).answer == "A"
    white = make_sample("Which is darker?", DARK, [draw_as_released(ramp, points, (255, 255, 255))])
    state = answer_without_marks(
        DarkerPoint(lambda pixels: (pixels / 255.0) ** 2.2), white, colors=("white",)
    )
    assert state.answer == "B"
    unmarked = make_sample("Which is closer?", closer, [ramp])
    assert answer_without_marks(near, unmarked).reason == "abstained: no point A, B on image 0"


def test_correspondence_is_read_from_two_images() -> None:
    rng = np.random.default_rng(3)
    small = rng.integers(40, 200, (60, 80, 3)).astype(np.uint8)
    ground = np.asarray(cv2.resize(small, (320, 240), interpolation=cv2.INTER_CUBIC), np.uint8)
    places = {"A": (60, 180), "B": (250, 190), "C": (160, 120), "D": (260, 70)}
    reference = draw_as_released(ground, [Point("REF", 160, 120)], (255, 0, 0))
    marked = draw_as_released(
        ground, [Point(label, *xy) for label, xy in places.items()], (255, 0, 0)
    )
    choices = tuple(f"Point {letter}" for letter in "ABCD")
    sample = make_sample("Which point corresponds to REF?", choices, [reference, marked])
    state = answer_without_marks(MatchedPoint(SIFT()), sample, colors=("red",))
    assert state.answer == "C", state.reason


def test_matches_that_fit_no_camera_do_not_decide_its_direction() -> None:
    rng = np.random.default_rng(1)
    xyz = rng.uniform((-1, -1, 2), (1, 1, 4), (60, 3))
    xy0, moved = 300 * xyz[:, :2] / xyz[:, 2:], xyz - (0.2, 0, 0)
    xy1 = 300 * moved[:, :2] / moved[:, 2:]
    xy1[:15] += rng.uniform(200, 900, (15, 2))
    matches = Matches(xy0, xy1, np.ones(60))
    sample = make_sample(choices=("left", "right"), images=2)
    check(CameraMotion(lambda *_: matches, motion="sideways"), sample, "A")
    check(CameraMotion(lambda *_: matches, motion="sideways", flow="inliers"), sample, "B")


@lru_cache
def stereo(name: str, data: Path) -> tuple[Pixels, Pixels]:
    """The left and the right view of a real scene, 240 pixels wide."""
    if name == "motorcycle":
        from skimage.data import stereo_motorcycle

        left, right, _ = stereo_motorcycle()  # type: ignore[no-untyped-call]
    else:
        files = [str(data / "pairs" / f"aloe{side}.jpg") for side in "LR"]
        left, right = (np.asarray(cv2.imread(file))[:, :, ::-1] for file in files)
    size = (240, round(240 * left.shape[0] / left.shape[1]))
    left, right = (cv2.resize(view, size, interpolation=cv2.INTER_AREA) for view in (left, right))
    return left, right


def sideways(data: Path) -> list[tuple[list[Pixels], str]]:
    """Two pairs in both orders, plain and mirrored: eight questions, four of each answer."""
    questions = []
    for name in ("motorcycle", "aloe"):
        for swapped in (False, True):
            for mirrored in (False, True):
                views = stereo(name, data)[:: -1 if swapped else 1]
                images = [
                    np.ascontiguousarray(view[:, ::-1]) if mirrored else view for view in views
                ]
                questions.append((images, "A" if swapped != mirrored else "B"))
    return questions


@pytest.mark.slow
@pytest.mark.parametrize("network", ["sift", "xfeat"])
def test_left_and_right_on_two_real_stereo_pairs(shared_data: Path, network: str) -> None:
    matcher: Matcher = SIFT()
    if network == "xfeat":
        pytest.importorskip("torch")
        matcher = matching.XFeat(keypoints=256)
    kinds: list[Any] = ["mean", "median", "inliers"]
    right = dict.fromkeys(kinds, 0)
    for images, answer in sideways(shared_data):
        matches = matcher(*images)
        sample = make_sample(choices=("left", "right"), images=images)
        for kind in kinds:
            rule = CameraMotion(lambda *_, m=matches: m, flow=kind, motion="sideways")
            right[kind] += rule(State(sample), NoModel()).answer == answer
    assert right == dict.fromkeys(kinds, 8)


def make_moved_matches(warp: Callable[[Any], Any], count: int = 40, wrong: int = 0) -> Matches:
    """Return matches on a grid of image 0 mapped by `warp`; the last `wrong` are random."""
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


def corresponding(
    spots: dict[str, tuple[float, float]], ref: tuple[float, float] = (50, 50)
) -> Sample:
    candidates = (Point(label, *xy, image=1) for label, xy in spots.items())
    marks: tuple[Mark, ...] = (Point("REF", *ref), Box("A", 1, 1, 9, 9, image=1), *candidates)
    return sample(BLANK, BLANK, choices=4, marks=marks)


@pytest.mark.parametrize(("transfer", "wrong"), [("homography", 12), ("affine", 4), ("nearest", 0)])
@pytest.mark.parametrize("warp", [shift, perspective])
@pytest.mark.parametrize("right", "ABCD")
def test_the_reference_point_is_matched_to_its_candidate(
    transfer: Any, warp: Any, wrong: int, right: str
) -> None:
    stage = MatchedPoint(FixedMatcher(make_moved_matches(warp, wrong=wrong)), transfer=transfer)
    state = run_stage(stage, corresponding(place_candidates(warp(np.array([50.0, 50.0])), right)))
    assert state.answer == right
    assert 0.5 < (state.confidence or 0) <= 1


SPOTS = place_candidates((60, 45))


GOOD = make_moved_matches(shift)


HEAP = Matches(np.full((20, 2), 30.0), np.full((20, 2), 40.0), np.ones(20))


@pytest.mark.parametrize(
    ("matches", "spots", "fact"),
    [
        (Matches.make_empty(), SPOTS, "0 matches"),
        (GOOD[slice(0, 5)], SPOTS, "5 matches, at least 6"),
        (make_moved_matches(shift, count=12, wrong=12), SPOTS, "agree on one map"),
        (HEAP, SPOTS, "agree on one map"),
        (GOOD, {k: v for k, v in SPOTS.items() if k in "AC"}, "no point B, D on image 1"),
        (GOOD, {**SPOTS, "A": (60, 45)}, "from (60.0, 45.0)"),
    ],
)
def test_insufficient_evidence_gives_no_answer(matches: Matches, spots: Any, fact: str) -> None:
    for transfer in ("homography", "affine"):
        stage = MatchedPoint(FixedMatcher(matches), transfer=transfer)
        state = run_stage(stage, corresponding(spots))
        assert state.answer is None
        assert state.reason.startswith("abstained: ") and fact in state.reason


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (sample(BLANK, choices=4), "there are 1 images and 4 choices"),
        (sample(BLANK, BLANK, choices=0), "there are 2 images and 0 choices"),
        (sample(BLANK, BLANK, marks=(Point("ref", 1, 1),)), "image 0 has no points 'REF'"),
        (
            sample(BLANK, BLANK, marks=(Point("REF", 1, 1), Point("REF", 2, 2))),
            "image 0 has 2 points 'REF'",
        ),
    ],
)
def test_an_unsupported_sample_gives_no_answer(asked: Sample, reason: str) -> None:
    state = run_stage(MatchedPoint(FixedMatcher(GOOD)), asked)
    assert (state.answer, state.reason.startswith(f"abstained: {reason}")) == (None, True)


def jigsaw(
    row: int, column: int, width: int = 80, height: int = 60, seed: int = 0
) -> tuple[Pixels, Pixels]:
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
def test_the_missing_piece_fits(
    stage: SeamMatcher, size: tuple[int, int], quadrant: tuple[int, int]
) -> None:
    for seed in range(3):
        board, piece = jigsaw(*quadrant, *size, seed=seed)
        others = [texture(piece.shape[1], piece.shape[0], seed + 10, grain=4), piece[::-1]]
        state = run_stage(stage, sample(board, others[0], piece, others[1], choices=3))
        assert state.answer == "B"
        assert 0 < (state.confidence or 0) <= 1


def test_a_piece_of_another_size_is_resized() -> None:
    board, piece = jigsaw(1, 1)
    large = np.asarray(cv2.resize(piece, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC), np.uint8)
    other = texture(80, 60, 5, grain=8)
    assert run_stage(SeamMatcher(), sample(board, large, other)).answer == "A"
    assert run_stage(SeamMatcher(), sample(board, other, large)).answer == "B"


def test_choices_that_are_pictures_are_the_candidates() -> None:
    board, piece = jigsaw(1, 1)
    choices = tuple(Picture(pixels) for pixels in (texture(40, 30, 7), piece))
    assert run_stage(SeamMatcher(), Sample("s1", "", (Picture(board),), choices)).answer == "B"


BOARD, PIECE = jigsaw(1, 1)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (sample(texture(), PIECE, PIECE[::-1]), "no quadrants of the first image are black"),
        (sample(np.zeros_like(BOARD), PIECE, PIECE[::-1]), "4 quadrants of the first image are"),
        (sample(BOARD, PIECE, PIECE), "the costs of A and B are equal"),
        (sample(BOARD, PIECE), "there are 1 candidate images for 2 choices"),
        (sample(BOARD, PIECE, choices=1), "2 images and 1 choices"),
        (sample(), "0 images and 2 choices"),
        (sample(BOARD[:3, :3], PIECE, PIECE), "the first image is too small to have quadrants"),
    ],
)
def test_a_missing_gap_or_equal_pieces_give_no_answer(asked: Sample, reason: str) -> None:
    state = run_stage(SeamMatcher(), asked)
    assert state.answer is None
    assert state.reason.startswith(f"abstained: {reason}")


@pytest.mark.parametrize("stage", [SeamMatcher(), SeamMatcher(gradient=0), SeamMatcher(color=0)])
def test_all_real_jigsaws_are_solved(stage: SeamMatcher, shared_data: Path) -> None:
    import pyarrow.parquet as pq

    folder = shared_data / "blink" / "Jigsaw"
    rows = pq.read_table(folder / "val-00000-of-00001.parquet").to_pylist()
    found = {}
    for row in rows:
        images = tuple(Picture.encoded(row[f"image_{n}"]["bytes"]) for n in (1, 2, 3))
        state = run_stage(stage, Sample(row["idx"], row["question"], images, tuple(row["choices"])))
        found[row["idx"]] = f"({state.answer})"
    assert len(found) == 75
    assert found == {row["idx"]: row["answer"] for row in rows}
