"""From encoded image bytes to what a person would see: upright 8-bit sRGB."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

__all__ = ["Header", "PictureError", "decode", "inspect"]

PASSED_THROUGH = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
BROKEN = (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, EOFError)  # what Pillow may raise
TURNED = {5, 6, 7, 8}  # EXIF orientations that swap width and height
ORIENTATION = 0x0112
SIXTEEN_BIT = {"I;16", "I;16L", "I;16B", "I;16N", "I"}


class PictureError(ValueError):
    """An image that cannot be read; the message names the image, what was found and what to do."""


@dataclass(frozen=True)
class Header:
    """What can be told of an encoded image without decoding its pixels.

    `size` is (width, height) as a person sees it; `changed` says in words why the bytes cannot be sent as
    they are, or is empty where they can.
    """

    size: tuple[int, int]
    media_type: str
    changed: str


def inspect(data: bytes, name: str) -> Header:
    """Read the header alone. Raises PictureError."""
    image = _open(data, name)
    width, height = image.size
    try:
        size = (height, width) if _orientation(image, data) in TURNED else (width, height)
        return Header(size, PASSED_THROUGH.get(image.format or "", ""), _changes(image, data))
    except BROKEN as exc:
        raise PictureError(f"{name}: the image breaks off or is damaged ({exc}); fetch it again") from exc


def decode(data: bytes, name: str) -> NDArray[np.uint8]:
    """Upright sRGB pixels, HxWx3, uint8. Raises PictureError.

    EXIF orientation is applied, ICC profiles and CMYK are converted to sRGB, 16 bit is scaled by its full
    range, and transparency is laid on white.
    """
    image = _open(data, name)
    try:
        upright = ImageOps.exif_transpose(image)
        return np.array(_on_white(_to_srgb(_to_eight_bit(upright, name))))
    except BROKEN as exc:
        if isinstance(exc, PictureError):
            raise
        raise PictureError(f"{name}: the image breaks off or is damaged ({exc}); fetch it again") from exc


def _open(data: bytes, name: str) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data))
    except UnidentifiedImageError as exc:
        raise PictureError(f"{name}: not an image that can be read ({len(data)} bytes, {data[:8]!r} ...)") from exc
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as exc:
        raise PictureError(f"{name}: refused, too many pixels ({exc}); make it smaller first") from exc
    except BROKEN as exc:
        raise PictureError(f"{name}: the image cannot be opened ({exc})") from exc


def _orientation(image: Image.Image, data: bytes) -> int:
    if image.format == "PNG" and not (b"eXIf" in data or b"exif" in data):
        return 1  # Pillow would decode a PNG to its end to look for a late EXIF block
    return int(image.getexif().get(ORIENTATION, 1))


def _profile(image: Image.Image) -> ImageCms.ImageCmsProfile | None:
    """The embedded colour profile where it is another than sRGB; an unreadable profile counts as none."""
    data = image.info.get("icc_profile")
    if not data:
        return None
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        return None if "sRGB" in ImageCms.getProfileDescription(profile) else profile
    except (OSError, ImageCms.PyCMSError):
        return None


def _changes(image: Image.Image, data: bytes) -> str:
    found = {
        f"{image.format} is not sent to models": image.format not in PASSED_THROUGH,
        "EXIF orientation applied": _orientation(image, data) != 1,
        "transparency laid on white": image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info,
        "first frame of several": getattr(image, "n_frames", 1) > 1,
        "16 bit scaled to 8": image.mode in SIXTEEN_BIT or _deep_png(data),
        f"{image.mode} converted to RGB": image.mode in ("CMYK", "P", "1", "YCbCr", "LAB", "HSV", "F"),
        "colour profile converted to sRGB": _profile(image) is not None,
    }
    return ", ".join(reason for reason, so in found.items() if so)


def _deep_png(data: bytes) -> bool:
    """Whether this PNG holds 16 bits a channel, which Pillow shows as 8-bit RGB or RGBA."""
    return data[:8] == b"\x89PNG\r\n\x1a\n" and data[24:25] == b"\x10"


def _to_eight_bit(image: Image.Image, name: str) -> Image.Image:
    if image.mode in SIXTEEN_BIT:
        values = np.asarray(image).astype(np.float64)
        if values.min() < 0 or values.max() > 65535:
            raise PictureError(
                f"{name}: 32-bit values {values.min():.0f} .. {values.max():.0f}; save it with 8 or 16 bit"
            )
        return Image.fromarray(np.rint(values / 257).astype(np.uint8))
    if image.mode == "F":
        raise PictureError(f"{name}: floating-point pixels have no fixed range; save it with 8 or 16 bit")
    return image


def _to_srgb(image: Image.Image) -> Image.Image:
    profile = _profile(image)
    if profile is None or image.mode not in ("RGB", "RGBA", "L", "CMYK"):
        return image
    alpha = image.getchannel("A") if image.mode == "RGBA" else None
    opaque = image.convert("RGB") if alpha else image
    try:
        converted = ImageCms.profileToProfile(opaque, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except ImageCms.PyCMSError:  # a profile made for another kind of pixels: the pixels speak for themselves
        return image
    if converted is None:
        return image
    if alpha:
        converted.putalpha(alpha)
    return converted


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")
