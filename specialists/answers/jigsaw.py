"""The missing quadrant of an image, by how well each candidate continues it across the seams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.transforms import resample
from looktwice.specialists.protocols import NoEvidence

Signed = NDArray[np.float64]
BLACK = 2.0  # grey levels; the mean of a missing quadrant is at most this


@dataclass(frozen=True)
class SeamMatcher(WithoutModel):
    """Answers with the candidate that fits the blacked-out quadrant of the first image, as in
    BLINK's jigsaw task.

    The cost of a candidate is `color` times the mean step across both seams plus `gradient` times
    the mean change of slope there, in grey levels; the gradient term is that of jigsaw solvers
    (Gallagher, CVPR 2012, section 3.1) without its covariance. A quadrant counts as missing where
    its mean is at most 2 grey levels. Candidates are the choices where these are pictures, else the
    images after the first. Confidence is how much cheaper the best candidate is than the second, in
    0..1. Abstains where not exactly one quadrant is missing, where candidates and choices do not
    pair up, and at a tie.
    """

    color: float = 1.0
    gradient: float = 1.0

    def __post_init__(self) -> None:
        if min(self.color, self.gradient) < 0 or self.color + self.gradient == 0:
            raise ValueError(
                f"the weights color and gradient are 0 or more and not both 0, found {self.color},"
                f" {self.gradient}"
            )

    def __call__(self, state: State, model: Model) -> State:
        """The state with its answer, or the reason why there is none."""
        try:
            costs = self.costs(state.sample)
        except NoEvidence as exc:
            return state.abstain(str(exc))
        best, second = np.argsort(costs)[:2]
        if costs[best] == costs[second]:
            return state.abstain(f"two candidates fit equally well (cost {costs[best]:.3g})")
        margin = (costs[second] - costs[best]) / costs[second]
        return state.replace(answer=state.sample.letters[best], reason="", confidence=float(margin))

    def costs(self, sample: Sample) -> list[float]:
        """The cost of each candidate, in the order of the choices. Raises NoEvidence."""
        pieces = _candidates(sample)
        board = sample.images[0].pixels
        row, column = self._missing(board)
        # Mirrored so that the gap is always at the lower right: then the seams are its left and its
        # top edge.
        board = _mirror(board, row, column)
        return [
            self._cost(board, _mirror(_fit(piece.pixels, board), row, column)) for piece in pieces
        ]

    def _missing(self, board: Pixels) -> tuple[int, int]:
        """Row and column, 0 or 1, of the black quadrant."""
        height, width = board.shape[0] // 2, board.shape[1] // 2
        if min(height, width) < 2:
            raise NoEvidence(
                f"the first image is too small to have quadrants: {board.shape[1]} x"
                f" {board.shape[0]} pixels"
            )
        rows, columns = (slice(height), slice(-height, None)), (slice(width), slice(-width, None))
        quadrants = [
            (r, c) for r in (0, 1) for c in (0, 1) if board[rows[r], columns[c]].mean() <= BLACK
        ]
        if len(quadrants) != 1:
            raise NoEvidence(
                f"{len(quadrants) or 'no'} quadrants of the first image are black, one should be"
            )
        return quadrants[0]

    def _cost(self, board: Pixels, piece: Pixels) -> float:
        top, left = board.shape[0] - piece.shape[0], board.shape[1] - piece.shape[1]
        outside, inside = board.astype(np.float64), piece.astype(np.float64)
        above = outside[top - 2 : top, left:]
        beside = outside[top:, left - 2 : left].swapaxes(0, 1)
        seams = [self._seam(above, inside[:2]), self._seam(beside, inside[:, :2].swapaxes(0, 1))]
        return float(np.concatenate(seams).mean())

    def _seam(self, outer: Signed, inner: Signed) -> Signed:
        """Cost of each pixel along a seam; `outer` and `inner` are the two lines (2, n, 3) on
        either side of it."""
        step = inner[0] - outer[1]
        slope = (outer[1] - outer[0] + inner[1] - inner[0]) / 2
        cost: Signed = (self.color * np.abs(step) + self.gradient * np.abs(step - slope)).mean(-1)
        return cost


def _candidates(sample: Sample) -> Sequence[Picture]:
    if len(sample.choices) < 2 or not sample.images:
        raise NoEvidence(
            f"there are {len(sample.images)} images and {len(sample.choices)} choices to decide"
            " between"
        )
    pictures = [
        choice for choice in sample.choices if isinstance(choice, Picture)
    ] or sample.images[1:]
    if len(pictures) != len(sample.choices):
        raise NoEvidence(
            f"there are {len(pictures)} candidate images for {len(sample.choices)} choices"
        )
    return pictures


def _mirror(pixels: Pixels, row: int, column: int) -> Pixels:
    return pixels[:: 1 if row else -1, :: 1 if column else -1]


def _fit(piece: Pixels, board: Pixels) -> Pixels:
    """The candidate at the size of the gap. Of a board of odd size the gap may be the smaller or
    the larger half."""
    height, width = board.shape[:2]
    if abs(2 * piece.shape[0] - height) <= 1 and abs(2 * piece.shape[1] - width) <= 1:
        return piece
    return resample(piece, width - width // 2, height - height // 2)
