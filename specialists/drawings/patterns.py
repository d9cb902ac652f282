"""Sheets with a target and four options: which option is the target, told from how far their lines
lie apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule
from looktwice.specialists.drawings.contours import color_distance
from looktwice.specialists.protocols import NoEvidence

XY = NDArray[np.float64]
Panel = tuple[float, float, float, float]
"""Left, top, right, bottom in shares of the sheet."""
Sheet = tuple[Panel, ...]
"""The target's panel, then those of the options."""
FAR = 4.0  # pixels; farther off is no worse
ROUNDS = 20  # of bringing lines to lie on one another


ROW: Sheet = (
    (0.03, 0.12, 0.28, 0.5),
    *((0.04 + 0.23 * n, 0.6, 0.27 + 0.23 * n, 1) for n in range(4)),
)
SQUARE: Sheet = tuple(
    (x / 600, y / 1000, (x + 245) / 600, (y + 230) / 1000)
    for x, y in ((190, 86), (90, 386), (340, 386), (90, 636), (340, 636))
)


@dataclass(frozen=True)
class PatternMatcher(AnswerRule):
    """Answers with the number of the option whose lines lie nearest to the target's (chamfer
    distance).

    The three of `kind` are Do You See Me's: in "closure" an option lacks parts, so its ink must lie
    on the target's, after size and place are fitted to it; in "figure_ground" options lie in noise,
    so the target's ink must lie on theirs; in "form_constancy" both. The distance is the mean over
    the ink, in pixels and at most 4. Confidence is how much nearer the best is than the second, in
    0..1. Abstains where a panel is empty, and at a tie.
    """

    kind: Literal["closure", "figure_ground", "form_constancy"]

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The number of the option, and the confidence. Raises NoEvidence."""
        if len(sample.images) != 1:
            raise NoEvidence(f"target and options are on one image, found {len(sample.images)}")
        far = self.distances(sample.images[0].pixels)
        best, second = np.argsort(far, kind="stable")[:2]
        if far[best] == far[second]:
            raise NoEvidence(f"options {best + 1} and {second + 1} are equally near to the target")
        return str(best + 1), float(1 - far[best] / far[second])

    def distances(self, pixels: Pixels) -> list[float]:
        """The mean distance of each option in pixels. Raises NoEvidence."""
        ink = color_distance(pixels) > 0.5
        target, *options = (
            _points(ink, panel) for panel in (ROW if self.kind == "closure" else SQUARE)
        )
        if self.kind == "closure":
            return [_chamfer_distance(_fit(option, target), target) for option in options]
        if self.kind == "figure_ground":
            return [_chamfer_distance(target, option) for option in options]
        return [
            _chamfer_distance(target, option) + _chamfer_distance(option, target)
            for option in options
        ]


def _points(ink: NDArray[np.bool_], panel: Panel) -> XY:
    """The ink of a panel as points (n, 2), x and y from its corner. Raises NoEvidence where it is
    empty."""
    height, width = ink.shape
    left, top, right, bottom = (
        round(share * side) for share, side in zip(panel, (width, height) * 2, strict=True)
    )
    points = np.argwhere(ink[top:bottom, left:right])[:, ::-1].astype(np.float64)
    if len(points) < 10:
        raise NoEvidence(
            f"nothing is drawn at ({left}, {top}) to ({right}, {bottom}), where a pattern should be"
        )
    return points


def _chamfer_distance(points: XY, others: XY) -> float:
    """The mean distance from each point to the nearest of the others, at most `FAR` each."""
    from scipy.spatial import cKDTree

    away, _ = cKDTree(others).query(points, distance_upper_bound=FAR)
    return float(np.minimum(away, FAR).mean())


def _fit(points: XY, target: XY) -> XY:
    """Points moved and scaled to lie on the target's, from the middle of both on (iterated closest
    points)."""
    from scipy.spatial import cKDTree

    tree = cKDTree(target)
    moved: XY = points - (points.min(0) + points.max(0)) / 2 + (target.min(0) + target.max(0)) / 2
    for _ in range(ROUNDS):
        away, nearest = (np.asarray(values) for values in tree.query(moved))
        # bent parts have no say in where the rest lies
        near = away <= max(1.5, float(np.quantile(away, 0.8)))
        source, nearby = moved[near], target[nearest[near]]
        apart = source - source.mean(0)
        scale = float((apart * (nearby - nearby.mean(0))).sum() / max(1e-9, (apart**2).sum()))
        moved = (moved - source.mean(0)) * np.clip(scale, 0.8, 1.25) + nearby.mean(0)
    return moved
