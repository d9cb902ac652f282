"""Samples with textures, fixed matches and maps."""

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from skimage import data

from looktwice.pipelines.marks import Mark, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.specialists.results import Matches


def photograph(name: str) -> Pixels:
    """Return a colour photograph of scikit-image."""
    pixels = np.asarray(getattr(data, name)(), np.uint8)
    return np.ascontiguousarray(pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, 2))


def noise(size: tuple[int, int], seed: int = 0) -> Pixels:
    """Return random levels with this many rows and columns."""
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)


def run_stage(stage: Stage, sample: Sample, seed: int = 0, draw: int = 0) -> State:
    return stage(State(sample, seed=seed, draw=draw), NoModel())


def sample(
    *images: Pixels, choices: int = 2, marks: tuple[Mark, ...] = (), name: str = "s1"
) -> Sample:
    pictures = tuple(Picture(image) for image in images)
    return Sample(name, "Which?", pictures, tuple("abcdefgh"[:choices]), marks)


def texture(width: int = 160, height: int = 120, seed: int = 0, grain: float = 2.0) -> Pixels:
    """Return a smooth random image with detail of about `grain` pixels and the full range of grey
    levels."""
    noise = np.random.default_rng(seed).uniform(0, 1, (height, width, 3)).astype(np.float32)
    smooth = np.asarray(cv2.GaussianBlur(noise, (0, 0), grain))
    return np.asarray(255 * (smooth - smooth.min()) / (smooth.max() - smooth.min()), np.uint8)


@dataclass(frozen=True)
class FixedMatcher:
    """A matcher with fixed matches."""

    matches: Matches

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        return self.matches


BLANK = np.zeros((100, 100, 3), np.uint8)


def place_candidates(
    target: Any, right: str = "C", far: float = 1
) -> dict[str, tuple[float, float]]:
    """Place the right candidate on `target` and the others `far` times 12 to 14 pixels away."""
    around = {
        letter: (float(target[0] + far * dx), float(target[1] + far * dy))
        for letter, (dx, dy) in ASIDE.items()
    }
    return around | {right: (float(target[0]), float(target[1]))}


ASIDE = {"A": (12, 0), "B": (-9, 9), "C": (0, 14), "D": (8, -10)}


def depths(*points: Point, images: tuple[Pixels, ...] = (BLANK,)) -> Sample:
    question = "Which point is closer to the camera?"
    return replace(sample(*images, choices=max(2, len(points)), marks=points), question=question)
