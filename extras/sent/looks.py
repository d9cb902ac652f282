"""A picture as it was sent: its codec and quality, its size, and what it shows, so that two can be
compared whatever a program did to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from looktwice.pipelines.encodings.image_files import decode
from looktwice.pipelines.picture import Picture, PictureError, perceptual_hash

SIDE = 32
"""Pixels a side of the thumbnails."""
CHROMA = {0: "4:4:4", 1: "4:2:2", 2: "4:2:0"}
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Look:
    """What a picture shows: its hash, 0 where it cannot be read, and the RGB of its thumbnail,
    (SIDE * SIDE * 3,)."""

    picture: Picture = field(repr=False)
    hash: int
    small: NDArray[np.float32] = field(repr=False)

    @cached_property
    def size(self) -> str:
        """Width and height in words."""
        return "{} x {}".format(*self.picture.size) if self.hash else UNREADABLE

    @cached_property
    def codec(self) -> str:
        """The codec, and whether a WebP loses anything; of a JPEG the chroma, and the quality at
        which libjpeg makes its table of luminance, "about" where none gives it exactly."""
        if not self.hash:
            return UNREADABLE
        data = self.picture.payload.data
        image = Image.open(BytesIO(data))
        if isinstance(image, JpegImagePlugin.JpegImageFile):
            chroma = CHROMA.get(JpegImagePlugin.get_sampling(image), "")
            luminance = image.quantization[0]
            gaps = [np.abs(np.subtract(usual, luminance)).sum() for usual in libjpeg_tables()]
            best = int(np.argmin(gaps))
            return f"JPEG {'about ' if gaps[best] else ''}{best + 1} {chroma}".strip()
        lossy = {"WEBP": "WebP lossless" if b"VP8L" in data[:64] else "WebP lossy"}
        return lossy.get(image.format or "", image.format or "")

    @cached_property
    def is_lossless(self) -> bool:
        """Whether its codec keeps every pixel."""
        return self.codec in ("PNG", "WebP lossless")

    @cached_property
    def pixels(self) -> str:
        """The sha256 of its pixels, which are not kept."""
        pixels = decode(self.picture.payload.data, self.picture.name)
        return hashlib.sha256(pixels.tobytes()).hexdigest()


def levels(mine: Look, theirs: Look) -> float:
    """By how many of 255 levels two thumbnails differ at most. In 40 drawings codecs and sizes down
    to two thirds made up to 29, JPEGs of quality 30 among them, thin rings of 6 pixels over 40."""
    return float(np.abs(mine.small - theirs.small).max())


_looks: dict[str, Look] = {}
"""By the sha256 of the picture: one of many questions and sides is looked at once."""


def look_at(picture: Picture) -> Look:
    """The look of a picture; one that cannot be read is black."""
    if picture.sha not in _looks:
        small, code = np.zeros(SIDE * SIDE * 3, np.float32), 0
        try:
            # means of areas: other resampling would alias, and differ from size to size
            image = picture.small(32 * SIDE).convert("RGB")
            image = image.resize((SIDE, SIDE), Image.Resampling.BOX)
            small, code = np.asarray(image, np.float32).ravel(), perceptual_hash(picture)
        except PictureError:
            pass
        _looks[picture.sha] = Look(picture, code, small)
    return _looks[picture.sha]


@lru_cache(maxsize=1)
def libjpeg_tables() -> list[list[int]]:
    """The tables of luminance at the qualities 1 to 100, read from pictures that are so encoded."""
    tables = []
    for quality in range(1, 101):
        file = BytesIO()
        Image.new("L", (8, 8)).save(file, "JPEG", quality=quality)
        image = Image.open(file)
        tables.append(list(image.quantization[0]))  # type: ignore[attr-defined]
    return tables
