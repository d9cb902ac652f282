"""The colours of marks: given by a CSS name or "#rrggbb", chosen to contrast with the surrounding
pixels, or different for each number."""

from __future__ import annotations

import colorsys
import math
import re
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import ImageColor

from looktwice.pipelines.config.classes import suggest_names
from looktwice.pipelines.geometry import Rect
from looktwice.pipelines.picture import Pixels

RGB = tuple[int, int, int]

GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
HALF_BRIGHTNESS = 382.5  # half of the largest R + G + B
BLACK_AND_WHITE: tuple[RGB, ...] = ((0, 0, 0), (255, 255, 255))
VIVID_COLORS: tuple[RGB, ...] = (
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (255, 255, 0),
    (255, 0, 255),
    (0, 255, 255),
)
LOCAL_COLORS = {"contrast": VIVID_COLORS, "black-or-white": BLACK_AND_WHITE}
"""The palettes of those values of a colour setting that choose a colour by the surrounding
pixels."""
DISTINCT_COLORS: tuple[RGB, ...] = (
    (230, 25, 75),
    (60, 180, 75),
    (0, 130, 200),
    (255, 225, 25),
    (145, 30, 180),
    (245, 130, 48),
    (70, 240, 240),
    (240, 50, 230),
    (128, 128, 0),
    (0, 128, 128),
    (170, 110, 40),
    (0, 0, 128),
)


@lru_cache(maxsize=256)
def parse_rgb(color: str) -> RGB:
    """Return the RGB value of a CSS name or "#rrggbb". Raises a ValueError that suggests similar
    names."""
    check_color(color)
    red, green, blue = ImageColor.getrgb(color.lower())[:3]
    return red, green, blue


def check_color(color: str, *words: str, name: str = "") -> None:
    """Raise ValueError unless `color` is a CSS name, "#rrggbb", or one of the other `words` that
    the setting allows."""
    lower = str(color).lower()
    if lower in ImageColor.colormap or re.fullmatch(r"#[0-9a-f]{6}", lower) or color in words:
        return
    also = "".join(f", or {word}" for word in words)
    advice = f'; give a CSS name such as red, or "#rrggbb"{also}'
    hint = suggest_names(color, [*words, *ImageColor.colormap], limit=3) or advice
    raise ValueError(f"{name + ': ' if name else ''}{color!r} is not a colour{hint}")


def choose_contrasting_color(
    pixels: Pixels, x: float, y: float, reach: float, palette: tuple[RGB, ...] = VIVID_COLORS
) -> RGB:
    """Return the colour of `palette` that stands out best from the pixels within `reach` of the
    point (x, y).

    The best colour has the largest CIELAB distance (CIE 1976) that nine tenths of these pixels
    exceed; the first wins a tie. Pixels outside the picture are ignored; a point whose surroundings
    all lie outside gets the first colour of the palette.
    """
    left, top = max(0, math.floor(x - reach)), max(0, math.floor(y - reach))
    right, bottom = max(0, math.ceil(x + reach) + 1), max(0, math.ceil(y + reach) + 1)
    patch = pixels[top:bottom, left:right]
    if not patch.size:
        return palette[0]
    step = max(1, round(max(patch.shape[:2]) / 32))  # about a thousand pixels suffice
    seen = _to_lab(np.ascontiguousarray(patch[::step, ::step]).reshape(-1, 3))
    distances = np.linalg.norm(seen[:, None] - _to_lab(np.array(palette, np.uint8))[None], axis=2)
    return palette[int(np.percentile(distances, 10, axis=0).argmax())]


def choose_readable_color(ground: RGB) -> RGB:
    """Return black or white, whichever is easier to read on the background `ground` (contrast ratio
    of WCAG 2.2)."""
    parts = (value / 255 for value in ground)
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else (255, 255, 255)


def choose_distinct_color(number: int) -> RGB:
    """Return a colour for mark `number`, counted from 0: one of twelve colours that are easy to
    tell apart, repeated from the first."""
    return DISTINCT_COLORS[number % len(DISTINCT_COLORS)]


def choose_golden_ratio_color(number: int) -> RGB:
    """Return colour `number` of a fixed, endless sequence of bright colours. Hues advance by the
    golden ratio, so that each differs clearly from those just before it."""
    return convert_hue_to_rgb((number * GOLDEN_RATIO) % 1, 0.85)


def convert_hue_to_rgb(hue: float, saturation: float = 1.0) -> RGB:
    """Return the brightest colour of a hue, which is given as a share of the colour circle, counted
    from red."""
    red, green, blue = colorsys.hsv_to_rgb(hue, saturation, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)


def choose_black_or_white(pixels: Pixels, threshold: float = HALF_BRIGHTNESS) -> RGB:
    """Return black for bright pixels, and white for dark ones or if there are none. Pixels are
    bright if their mean R + G + B is at least `threshold`."""
    bright = pixels.size > 0 and pixels.reshape(-1, 3).sum(1, dtype=np.int64).mean() >= threshold
    return (0, 0, 0) if bright else (255, 255, 255)


def resolve_color(
    color: str, pixels: Pixels, x: float, y: float, reach: float, number: int = 0
) -> RGB:
    """Resolve a colour setting at a point: the values in `LOCAL_COLORS` depend on the pixels around
    it, "distinct" on the number."""
    if color in LOCAL_COLORS:
        return choose_contrasting_color(pixels, x, y, reach, LOCAL_COLORS[color])
    return choose_distinct_color(number) if color == "distinct" else parse_rgb(color)


def choose_region_color(
    color: str, pixels: Pixels, region: Rect, number: int = 0, rim: float = 0
) -> RGB:
    """Resolve a colour setting for a region (xyxy), from its pixels and those within `rim` pixels
    around it."""
    left, top, right, bottom = region
    reach = max(right - left, bottom - top) / 2 + rim
    middle = (left + right - 1) / 2, (top + bottom - 1) / 2
    return resolve_color(color, pixels, *middle, reach, number)


def _to_lab(colors: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.asarray(
        cv2.cvtColor((colors / np.float32(255))[None].astype(np.float32), cv2.COLOR_RGB2LAB)[0]
    )
