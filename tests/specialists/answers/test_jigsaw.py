"""The missing quadrant of an image, cut out by the tests or real."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers import SeamMatcher
from tests.specialists.scenes import run_stage, sample, texture


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
def test_the_piece_that_was_cut_out_fits(
    stage: SeamMatcher, size: tuple[int, int], quadrant: tuple[int, int]
) -> None:
    for seed in range(3):
        board, piece = jigsaw(*quadrant, *size, seed=seed)
        others = [texture(piece.shape[1], piece.shape[0], seed + 10, grain=4), piece[::-1]]
        state = run_stage(stage, sample(board, others[0], piece, others[1], choices=3))
        assert state.answer == "B"
        assert 0 < (state.confidence or 0) <= 1


def test_a_piece_of_another_size_is_fitted() -> None:
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
        (sample(BOARD, PIECE, choices=1), "there are 2 images and 1 choices"),
        (sample(), "there are 0 images and 2 choices"),
        (sample(BOARD[:3, :3], PIECE, PIECE), "the first image is too small to have quadrants"),
    ],
)
def test_no_gap_or_no_difference_is_no_answer(asked: Sample, reason: str) -> None:
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
