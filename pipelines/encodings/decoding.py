"""Reads encoded images with Pillow: the upright sRGB pixels that a person would see, and what can
be told without decoding them."""

from __future__ import annotations

import io
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from looktwice.pipelines.encodings.png import speaks_of_exif

__all__: list[str] = []

PASSED_THROUGH = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
# what Pillow may raise
BROKEN = (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, EOFError)
# the EXIF tag, and its values that swap width and height
TURNED, ORIENTATION = ({5, 6, 7, 8}, 0x0112)
SIXTEEN_BIT = {"I;16", "I;16L", "I;16B", "I;16N", "I"}
FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM", "JPEG2000")
"""What is read, whatever a file is called: Pillow would start another program for an EPS named
photo.png."""

# Pillow's own number, from which on it speaks of a decompression bomb
MAX_PIXELS, MOST_HEADER = 89_478_485, 1 << 16
NETPBM = re.compile(rb"P[0-6Ffy]")
NETPBM_HEADER = re.compile(rb"P\w+(?:(?:\s|#[^\r\n]*[\r\n])+[\w.+-]+){2,3}\s")


class PictureError(ValueError):
    """An image that cannot be read; the message names the image, what was found and what to do."""


@dataclass(frozen=True)
class Header:
    """What can be told of an encoded image without decoding its pixels.

    `size` is (width, height) as a person sees it; `changed` says in words why the bytes cannot be
    sent as they are, or is empty where they can.
    """

    size: tuple[int, int]
    media_type: str
    changed: str


def inspect(image: Image.Image, data: bytes, name: str) -> Header:
    """What can be told of an opened image of these bytes. Raises PictureError."""
    try:
        size = image.size[::-1] if _orientation(image, data) in TURNED else image.size
        return Header(size, PASSED_THROUGH.get(image.format or "", ""), _changes(image, data))
    except BROKEN as exc:
        raise _torn(name, exc) from exc


def decode(data: bytes, name: str) -> NDArray[np.uint8]:
    """Upright sRGB pixels, HxWx3, uint8. Raises PictureError.

    EXIF orientation is applied, ICC profiles and CMYK are converted to sRGB, 16 bit is scaled by
    its full range, and transparency is laid on white. The array is read-only.
    """
    image = open_image(data, name)
    try:
        ImageOps.exif_transpose(image, in_place=True)
        image = _to_srgb(_to_eight_bit(image))
        if _is_transparent(image):
            rgba = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
        return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except PictureError as exc:
        raise PictureError(f"{name}: {exc}") from exc
    except BROKEN as exc:
        raise _torn(name, exc) from exc


def _torn(name: str, exc: BaseException) -> PictureError:
    return PictureError(f"{name}: the image is truncated or corrupt ({exc}); fetch it again")


def open_image(data: bytes, name: str) -> Image.Image:
    # Pillow reads comments byte by byte
    if NETPBM.match(data) and not NETPBM_HEADER.match(data, 0, MOST_HEADER):
        raise PictureError(
            f"{name}: not an image that can be read; its first {MOST_HEADER:,} bytes hold no size"
        )
    try:
        image = Image.open(io.BytesIO(data), formats=_formats())
    except UnidentifiedImageError as exc:
        content, formats = f"{len(data)} bytes, {data[:8]!r} ...", ", ".join(_formats())
        raise PictureError(
            f"{name}: not an image that can be read ({content}); save it as one of {formats}"
        ) from exc
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as exc:
        raise PictureError(
            f"{name}: refused, too many pixels ({exc}); make it smaller first"
        ) from exc
    except BROKEN as exc:
        raise PictureError(f"{name}: the image cannot be opened ({exc})") from exc
    limit = os.environ.get("LOOKTWICE_MAX_PIXELS", "")
    most = int(limit) if limit.isdecimal() else MAX_PIXELS
    if image.width * image.height > most:
        raise PictureError(
            f"{name}: refused, {image.width} x {image.height} pixels are more than {most:,}; make"
            " it smaller, or set the environment variable LOOKTWICE_MAX_PIXELS to a larger number"
        )
    return image


@cache
def _formats() -> tuple[str, ...]:
    """Those of FORMATS that the installed Pillow knows; of all that it has, to open the others
    takes a while."""
    with suppress(ImportError):  # of AVIF, which an older Pillow lacks
        for name in ("Jpeg", "Png", "WebP", "Gif", "Bmp", "Tiff", "Ppm", "Jpeg2K", "Avif"):
            __import__(f"PIL.{name}ImagePlugin")
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _orientation(image: Image.Image, data: bytes) -> int:
    if image.format == "PNG" and not speaks_of_exif(data):
        return 1  # Pillow would decode a PNG to its end to look for a late EXIF block
    return int(image.getexif().get(ORIENTATION, 1))


def _profile(image: Image.Image) -> ImageCms.ImageCmsProfile | None:
    """The embedded colour profile where it is another than sRGB; an unreadable profile counts as
    none."""
    data = image.info.get("icc_profile")
    if not data:
        return None
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        return None if "sRGB" in ImageCms.getProfileDescription(profile) else profile
    except (OSError, ImageCms.PyCMSError):
        return None


def _changes(image: Image.Image, data: bytes) -> str:
    # Pillow shows a PNG with 16 bits a channel as 8-bit RGB or RGBA
    deep_png = data[:8] == b"\x89PNG\r\n\x1a\n" and data[24:25] == b"\x10"
    changes = {
        f"{image.format} is not sent to models": image.format not in PASSED_THROUGH,
        "EXIF orientation applied": _orientation(image, data) != 1,
        "transparency laid on white": _is_transparent(image),
        "first frame of several": getattr(image, "is_animated", False),
        "16 bit scaled to 8": image.mode in SIXTEEN_BIT or deep_png,
        f"{image.mode} converted to RGB": (
            image.mode in ("CMYK", "P", "1", "YCbCr", "LAB", "HSV", "F")
        ),
        "colour profile converted to sRGB": _profile(image) is not None,
    }
    return ", ".join(reason for reason, so in changes.items() if so)


def _is_transparent(image: Image.Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info


def _to_eight_bit(image: Image.Image) -> Image.Image:
    advice = "save it with 8 or 16 bit"
    if image.mode == "F":
        raise PictureError(f"floating-point pixels have no fixed range; {advice}")
    if image.mode not in SIXTEEN_BIT:
        return image
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise PictureError(f"32-bit values {values.min()} .. {values.max()}; {advice}")
    # rounds: 257 is odd, so no value lies halfway
    return Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))


def _to_srgb(image: Image.Image) -> Image.Image:
    profile = _profile(image)
    if profile is None or image.mode not in ("RGB", "RGBA", "L", "CMYK"):
        return image
    alpha = image.getchannel("A") if image.mode == "RGBA" else None
    opaque, srgb = image.convert("RGB") if alpha else image, ImageCms.createProfile("sRGB")
    try:
        converted = ImageCms.profileToProfile(opaque, profile, srgb, outputMode="RGB")
    except ImageCms.PyCMSError:  # a profile that does not fit the image's mode is ignored
        return image
    if converted is not None and alpha:
        converted.putalpha(alpha)
    return converted or image
