"""Renders text in TrueType fonts and in BLINK's own letters, with a cache."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB, choose_readable_color
from looktwice.prompting.drawing.shapes import paint_coverage

Coverage = NDArray[np.uint8]
Font = Literal["sans", "blink"] | Path
"""Pillow's own scalable sans serif (Aileron), the letters of BLINK's released images, or a TrueType
file."""

MIN_EM = 6.0  # em in pixels below which letters are illegible
UNSUPPORTED_CHARACTER = "\U0010ffff"  # a character that no font has
BLINK_FONT_SIZE = 15
BLINK_LETTERS = {  # eleven rows from the top
    "A": (
        "....#........#.......###......#.#.....##.##....#...#....#...#...#######..#######..#...."
        ".#.##.....##"
    ),
    "B": "#######.##....#.##....####....####...##.#######.##....#.##....####....####...##.#######.",
    "C": (
        "..#####...##...##.##.....###........#........#........#........#........##.....##.##..."
        "##...#####.."
    ),
    "D": "######..##...##.##....####....####.....###.....###.....###....####....####...##.######..",
    "E": "##########......##......##......##......#####...##......##......##......##......########",
    "F": "##########......##......##......##......#####...##......##......##......##......##......",
    "R": "#######.##....#.##....####....####...##.#######.##..##..##..##..##...##.##...##.##....##",
}
"""A and B as the markers of BLINK's Relative_Depth show them: the median of 55 of each.

They are OpenCV 4's Hershey Duplex letters at scale 0.5, one pixel wide and not smoothed; the others
follow that typeface.
"""


@lru_cache(maxsize=2048)
def render_text(text: str, size: float, font: Font = "sans") -> Coverage:
    """Return the coverage of each pixel by the text, 0..255: HxW, tight around the ink, read-only.
    `size` is the em in pixels.

    "blink" is not smoothed, exists only at size 15 and has the letters A to F and R; its box is one
    pixel wider on each side than the ink, and two pixels taller. Raises ValueError for a letter
    that the font does not have, and for a file that is not a font.
    """
    drawn = (
        _render_blink(text)
        if font == "blink"
        else _render_font(text, size, None if font == "sans" else Path(font))
    )
    drawn.flags.writeable = False
    return drawn


@lru_cache(maxsize=1024)
def render_plate(
    text: str,
    size: float,
    color: RGB = (255, 255, 255),
    ground: RGB = (0, 0, 0),
    padding: int = 2,
    min_width: int = 0,
    font: Font = "sans",
) -> Pixels:
    """Return text centred on a filled rectangle, as read-only HxWx3 RGB; `padding` pixels surround
    the text."""
    ink = render_text(text, size, font)
    width, height = measure_plate(ink, padding, min_width)
    image = np.empty((height, width, 3), np.uint8)
    image[:] = ground
    _blend(image, ink, (width - ink.shape[1]) // 2, padding, color)
    image.flags.writeable = False
    return image


def measure_plate(ink: Coverage, padding: int, min_width: int = 0) -> tuple[int, int]:
    """Return (width, height) of the rectangle around a text."""
    return max(min_width, ink.shape[1] + 2 * padding), ink.shape[0] + 2 * padding


def draw_text(
    pixels: Pixels,
    text: str,
    left: int,
    top: int,
    size: float,
    color: RGB,
    halo: int = 0,
    font: Font = "sans",
) -> None:
    """Write text into the picture, with the top-left pixel of the ink at (left, top); parts outside
    the picture are cut off.

    `halo` pixels around the letters are first painted black or white, whichever makes `color`
    easier to read.
    """
    ink = render_text(text, size, font)
    if halo:
        rim = cv2.copyMakeBorder(ink, halo, halo, halo, halo, cv2.BORDER_CONSTANT, value=0)
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * halo + 1, 2 * halo + 1))
        _blend(
            pixels,
            np.asarray(cv2.dilate(rim, disc), np.uint8),
            left - halo,
            top - halo,
            choose_readable_color(color),
        )
    _blend(pixels, ink, left, top, color)


def _blend(pixels: Pixels, ink: Coverage, left: int, top: int, color: RGB) -> None:
    height, width = pixels.shape[:2]
    paint_coverage(
        pixels,
        (0, 0, width, height),
        left,
        top,
        np.asarray(ink / np.float32(255), np.float32),
        color,
    )


def _render_font(text: str, size: float, file: Path | None) -> Coverage:
    font = _load_font(size, file)
    for sign in sorted(set(text) - {" "}):
        if not _has_glyph(font, sign):
            raise ValueError(
                f"the font has no sign for {sign!r} in the label {text!r}; give label.font_file, a"
                " TrueType file with these letters"
            )
    left, top, right, bottom = font.getbbox(text)
    box = math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)
    image = Image.new("L", (max(1, box[2] - box[0]), max(1, box[3] - box[1])))
    ImageDraw.Draw(image).text((-box[0], -box[1]), text, fill=255, font=font)
    return np.array(image, np.uint8)


@lru_cache(maxsize=64)
def _load_font(size: float, file: Path | None) -> ImageFont.FreeTypeFont:
    try:
        font = ImageFont.load_default(size) if file is None else ImageFont.truetype(str(file), size)
    except OSError as exc:
        raise ValueError(f"{file}: not a TrueType or OpenType font ({exc})") from exc
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise ValueError(
            "this Pillow was built without FreeType and cannot write; install Pillow's own wheel"
        )
    return font


@lru_cache(maxsize=4096)
def _has_glyph(font: ImageFont.FreeTypeFont, sign: str) -> bool:
    missing, drawn = font.getmask(UNSUPPORTED_CHARACTER), font.getmask(sign)
    return (
        sign == UNSUPPORTED_CHARACTER
        or drawn.size != missing.size
        or bytes(drawn) != bytes(missing)
    )


def _render_blink(text: str) -> Coverage:
    unknown = sorted(set(text) - BLINK_LETTERS.keys())
    if unknown:
        raise ValueError(
            f"the letters of BLINK's released images have no sign for {unknown[0]!r} in the label"
            f" {text!r}; there are {' '.join(BLINK_LETTERS)}; set label.font: sans"
        )
    letters = [
        np.array([dot == "#" for dot in BLINK_LETTERS[letter]]).reshape(11, -1) for letter in text
    ]
    padded = np.hstack([np.pad(letter, ((2, 0), (1, 1))) for letter in letters])
    return np.where(padded, np.uint8(255), np.uint8(0))
