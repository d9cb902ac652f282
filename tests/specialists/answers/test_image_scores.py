"""The most similar and the most real image, on scores that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.answers import MostReal, MostSimilar
from looktwice.specialists.features import DenseSimilarity, GlobalSimilarity, GramSimilarity
from looktwice.specialists.protocols import ImageSimilarity, NoEvidence
from looktwice.specialists.results import FeatureGrid
from tests.specialists.samples import BLANK, asked, check, numbered_image


def grids(*vectors: Sequence[Sequence[float]]) -> Callable[..., FeatureGrid]:
    """A feature map that gives image number n (its corner pixel) the cells `vectors[n]`, one row of
    them."""

    def features(pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        return FeatureGrid(np.array([vectors[int(pixels[0, 0, 0])]], float), *pixels.shape[1::-1])

    return features


LATER = ("the second image", "the third image")


@pytest.mark.parametrize(
    ("similarity", "vectors", "answer"),
    [
        (GlobalSimilarity, ([[1, 0]], [[1, 0.1]], [[0, 1]]), "A"),
        (GlobalSimilarity, ([[1, 0]], [[0, 1]], [[9, 1]]), "B"),
        # a mean sees no texture
        (GlobalSimilarity, ([[3, 0], [0, 3]], [[2, 2], [2, 2]], [[3, 0], [0, 1]]), "A"),
        (DenseSimilarity, ([[3, 0], [0, 3]], [[2, 2], [2, 2]], [[0, 3], [3, 0]]), "B"),
        (GramSimilarity, ([[3, 0], [0, 3]], [[2, 2], [2, 2]], [[0, 3], [3, 0]]), "B"),
    ],
)
def test_the_most_similar_image(
    similarity: Callable[..., ImageSimilarity], vectors: Any, answer: str
) -> None:
    rule = MostSimilar(similarity(grids(*vectors)))
    check(rule, asked(choices=LATER, images=3), answer)
    check(rule, asked(choices=LATER[::-1], images=3), {"A": "B", "B": "A"}[answer])


def nothing(one: Pixels, two: Pixels) -> float:
    raise NoEvidence("the image is too small")


@pytest.mark.parametrize(
    ("similarity", "images", "reason"),
    [
        (lambda one, two: 0.5, 3, "the likenesses of A and B are equal"),
        (nothing, 3, "the image is too small"),
        (lambda one, two: 0.5, 2, "the first image is one of the candidates"),
        (lambda one, two: 0.5, 1, "1 images and 2 choices do not pair up"),
        (
            lambda one, two: 1.0 * two[0, 0, 0],
            [*map(numbered_image, (1, 2)), BLANK],
            "an image is of one colour",
        ),
    ],
)
def test_likeness_without_evidence(similarity: ImageSimilarity, images: Any, reason: str) -> None:
    choices = ("this", "that") if images in (1, 2) else LATER
    check(MostSimilar(similarity), asked(choices=choices, images=images), None, reason)


@pytest.mark.parametrize(
    ("fakes", "answer", "reason"),
    [
        ((0.9, 0.2, 0.8, 0.7), "B", ""),
        ((0.0, 0.2, 0.8, 0.7), "A", ""),
        ((0.9, 0.2, 0.2, 0.7), None, "the scores of B and C are equal"),
    ],
)
def test_the_most_real_image(fakes: Sequence[float], answer: str | None, reason: str) -> None:
    choices = tuple(f"the {name} image" for name in ("first", "second", "third", "fourth"))
    check(
        MostReal(lambda pixels: fakes[pixels[0, 0, 0]]),
        asked(choices=choices, images=4),
        answer,
        reason,
    )
    check(
        MostReal(lambda pixels: 0.5),
        asked(choices=choices, images=2),
        None,
        "2 images and 4 choices",
    )
