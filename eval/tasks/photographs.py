"""The photographs in the scikit-image wheel, changes of light, and seeded random numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.encodings.image_files import decode
from looktwice.pipelines.geometry import Size
from looktwice.pipelines.marks import Marks
from looktwice.pipelines.picture import Pixels

PHOTOGRAPHS = (
    "astronaut",
    "brick",
    "camera",
    "chelsea",
    "coffee",
    "coins",
    "grass",
    "gravel",
    "hubble",
    "ihc",
    "moon",
    "motorcycle",
    "retina",
    "rocket",
)
"""The names of the photographs, one for each scene: places, people, animals, objects, surfaces, a
micrograph and two astronomical pictures."""
PHOTOGRAPH_FILES = {name: f"{name}.png" for name in (*PHOTOGRAPHS, "motorcycle_right")}
PHOTOGRAPH_FILES |= {"hubble": "hubble_deep_field.jpg", "motorcycle": "motorcycle_left.png"}
PHOTOGRAPH_FILES |= {"retina": "retina.jpg", "rocket": "rocket.jpg"}

MAX_SIDE = 1000  # pixels; a larger photograph is halved
DISPARITY_FILE = "motorcycle_disp.npz"


@dataclass(frozen=True, eq=False)
class QuestionImages:
    """The pictures of a question, the marks on them in pixels, and meta fields that state how they
    were made."""

    images: tuple[Pixels, ...]
    marks: Marks = ()
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Light:
    """A photometric change, whose directions are random and whose size depends only on `strength`
    in 0..1.

    At strength 1: gamma 1.6 or its inverse, then gain 1.25 or its inverse, then Gaussian blur of 2
    px, then Gaussian noise of 20 grey levels; exponents, sigma and noise shrink in proportion, so 0
    changes nothing.
    """

    strength: float
    gain_sign: int
    gamma_sign: int

    @classmethod
    def draw(cls, rng: Generator, strength: float) -> Light:
        """Draw a change of this strength in random directions; every strength uses the same random
        numbers."""
        gain_sign, gamma_sign = (int(sign) for sign in rng.choice([-1, 1], 2))
        return cls(strength, gain_sign, gamma_sign)

    @property
    def settings(self) -> dict[str, float]:
        """The gamma, the gain, the sigma of the blur in pixels, and the sigma of the noise in grey
        levels."""
        share = self.strength
        gamma, gain = 1.6 ** (self.gamma_sign * share), 1.25 ** (self.gain_sign * share)
        return {
            "gamma": round(gamma, 4),
            "gain": round(gain, 4),
            "blur": 2 * share,
            "noise": 20 * share,
        }

    def __call__(self, pixels: Pixels, rng: Generator) -> Pixels:
        """Return the changed picture, which has the same shape; `rng` draws the noise."""
        noise = rng.standard_normal(pixels.shape, np.float32)
        if not self.strength:
            return pixels
        settings = self.settings
        table = (
            255
            * settings["gain"]
            * np.power(np.arange(256, dtype=np.float32) / 255, settings["gamma"])
        )
        blurred = cv2.GaussianBlur(cv2.LUT(pixels, table), (0, 0), settings["blur"])
        noise *= settings["noise"]
        noise += blurred
        return np.asarray(np.clip(np.rint(noise, out=noise), 0, 255, out=noise), np.uint8)


@cache
def load_photograph(name: str) -> Pixels:
    """Load a photograph as HxWx3 RGB uint8, read-only, halved if a side exceeds a thousand pixels.
    Raises TaskError."""
    pixels = decode(_read_wheel_file(PHOTOGRAPH_FILES[name]), PHOTOGRAPH_FILES[name])
    if max(pixels.shape) > MAX_SIDE:
        size = (pixels.shape[1] // 2, pixels.shape[0] // 2)
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    pixels.flags.writeable = False
    return pixels


@cache
def load_stereo_pair() -> tuple[Pixels, Pixels, NDArray[np.float64]]:
    """Load the left and right views and the true disparity of the Motorcycle scene (Scharstein et
    al., GCPR 2014).

    A point at (x, y) in the left view is at (x - disparity, y) in the right one. Unknown disparity
    is infinite. Raises TaskError.
    """
    import io

    with np.load(io.BytesIO(_read_wheel_file(DISPARITY_FILE)), allow_pickle=False) as data:
        disparity = data["arr_0"].astype(np.float64)
    disparity.flags.writeable = False
    return load_photograph("motorcycle"), load_photograph("motorcycle_right"), disparity


def _read_wheel_file(file: str) -> bytes:
    """Read a file from the wheel; scikit-image's own loaders would download a missing one."""
    from importlib.resources import files

    try:
        return files("skimage").joinpath("data", file).read_bytes()
    except (ModuleNotFoundError, OSError) as exc:
        raise TaskError(
            f"scikit-image's {file} is missing ({exc}); type: pip install 'scikit-image>=0.25'"
        ) from exc


def make_rng(*words: str | int) -> Generator:
    """Return a random generator that is seeded only with these words and draws the same numbers on
    every machine."""
    digest = hashlib.sha256("\n".join(str(word) for word in words).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16])))


def deal_evenly(number: int, cards: Sequence[Any], *words: str | int) -> Any:
    """Return the card dealt to item `number`: every block of len(cards) items has each card once,
    shuffled."""
    hand, place = divmod(number, len(cards))
    return cards[int(make_rng("deal", hand, *words).permutation(len(cards))[place])]


def draw_corner(rng: Generator, size: Size, window: Size) -> tuple[int, int]:
    """Return the left and top edge of a random window (width, height) inside a frame of `size`
    (width, height)."""
    return int(rng.integers(size[0] - window[0] + 1)), int(rng.integers(size[1] - window[1] + 1))


def cut_window(pixels: Pixels, corner: Sequence[float] | NDArray[np.float64], size: Size) -> Pixels:
    """Return the part of a picture with this upper left `corner` (left, top) and `size` (width,
    height)."""
    left, top = (int(edge) for edge in corner)
    return pixels[top : top + size[1], left : left + size[0]]
