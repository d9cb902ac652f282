"""Similarity of two images in style, global content or local content, computed from any dense
features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.protocols import FeatureExtractor
from looktwice.specialists.results import FeatureGrid, Floats
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class GramSimilarity:
    """Similarity of style: which features occur together anywhere (Gatys et al., CVPR 2016).

    It is 1 - |G0 - G1| / (|G0| + |G1|) in Frobenius norm, where G0 and G1 are the Gram matrices of
    `features`, each the mean of v v^T over the cells; 1 means equal, 0 maximally different.
    """

    features: FeatureExtractor

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> float:
        """Return the similarity, 0..1, of two images, HxWx3 RGB uint8; larger is more similar.
        Raises the errors of the feature extractor."""
        grids = [_rows(look_once(self.features, pixels)) for pixels in (pixels0, pixels1)]
        first, second = (rows.T @ rows / len(rows) for rows in grids)
        most = np.linalg.norm(first) + np.linalg.norm(second)
        return float(1 - np.linalg.norm(first - second) / most) if most > 0 else 1.0


@dataclass(frozen=True)
class GlobalSimilarity:
    """Similarity of global content: the cosine of the mean features.

    For `features` with one vector per image, such as DINOv2's with `part: whole`, it is the cosine
    of these vectors.
    """

    features: FeatureExtractor

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> float:
        """Return the similarity, -1..1, of two images, HxWx3 RGB uint8; larger is more similar.
        Raises the errors of the feature extractor."""
        first, second = (
            _rows(look_once(self.features, pixels)).mean(0, keepdims=True)
            for pixels in (pixels0, pixels1)
        )
        return float(compute_cosines(first, second)[0, 0])


@dataclass(frozen=True)
class DenseSimilarity:
    """Similarity of local `features`, regardless of their position.

    It is the largest cosine of each cell of one image with the cells of the other, averaged over
    the cells and both directions.
    """

    features: FeatureExtractor

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> float:
        """Return the similarity, -1..1, of two images, HxWx3 RGB uint8; larger is more similar.
        Raises the errors of the feature extractor."""
        alike = compute_cosines(
            *(_rows(look_once(self.features, pixels)) for pixels in (pixels0, pixels1))
        )
        return float((alike.max(0).mean() + alike.max(1).mean()) / 2)


def compute_cosines(first: Floats, second: Floats) -> Floats:
    """Compute the cosines (n, m) between vectors (n, d) and (m, d); 0 if a vector is zero."""
    return _normalize_rows(first) @ _normalize_rows(second).T


def _normalize_rows(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))


def _rows(grid: FeatureGrid) -> Floats:
    return grid.values.reshape(-1, grid.values.shape[-1])
