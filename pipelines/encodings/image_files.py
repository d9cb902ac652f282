"""Decodes images with Pillow to upright sRGB pixels, reads their headers without decoding, and
encodes pixels as PNG."""

from __future__ import annotations

import io
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache

import fpng
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageCms, ImageOps, UnidentifiedImageError

__all__: list[str] = []

PASSED_THROUGH_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
# what Pillow may raise
DECODING_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    EOFError,
)
# the EXIF tag, its values that turn or mirror, and those that swap width and height
ORIENTATION_TAG, CHANGED_ORIENTATIONS, SWAPPED_ORIENTATIONS = 0x0112, range(2, 9), range(5, 9)
TIFF_SIZE_TAGS = 256, 257  # the tags of width and height as stored
ORIENTATION_OPERATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Maps a stored orientation to the operation that turns its pixels upright."""
ALPHA_MODES = ("RGBA", "LA", "PA")
# offsets in a PNG of the bits per channel and the colour type, and the grey colour types
PNG_DEPTH_OFFSET, PNG_COLOR_TYPE_OFFSET, PNG_GREY_TYPES = 24, 25, (0, 4)
SIXTEEN_BIT_MODES = {"I;16", "I;16L", "I;16B", "I;16N", "I"}
ACCEPTED_FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM", "JPEG2000")
"""The accepted formats, whatever the file name: for an EPS named photo.png, Pillow would start
another program."""

# Pillow's own limit, above which it warns of a decompression bomb
MAX_PIXELS, MAX_HEADER_BYTES = 89_478_485, 1 << 16
NETPBM_PATTERN = re.compile(rb"P[0-6Ffy]")
NETPBM_HEADER_PATTERN = re.compile(rb"P\w+(?:(?:\s|#[^\r\n]*[\r\n])+[\w.+-]+){2,3}\s")
BASELINE_MARKERS, SCAN_MARKER, END_MARKER = {0xC0, 0xC1}, 0xDA, b"\xff\xd9"
MARKERS_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD8)}  # markers without a length
FILL_BYTE = 0xFF  # any number of these may precede a marker
SCAN_END_PATTERN = re.compile(rb"\xff[^\x00\xd0-\xd7]")
"""Bytes that no scan contains: their first occurrence after the start of a scan ends it."""
BAND_PIXELS = 1 << 15  # pixels copied at a time
MIN_SCAN_BYTES = 256  # bytes of a scan, enough for the decoder to use each of its tables


class PictureError(ValueError):
    """Raised for an unreadable image; the message names the image, what was found and what to
    do."""


@dataclass(frozen=True)
class Header:
    """Facts about an encoded image that need no decoding of its pixels.

    `size` is (width, height) as a person sees it; `change_note` says why the bytes cannot be sent
    as they are, or is empty.
    """

    size: tuple[int, int]
    media_type: str
    change_note: str


def read_header(image: Image.Image, data: bytes, name: str) -> Header:
    """Return the header of an image that was opened from these bytes. Raises PictureError."""
    try:
        size = image.size
        if image.format == "TIFF":  # Pillow may have swapped the sides already
            width, height = (image.tag_v2[tag] for tag in TIFF_SIZE_TAGS)  # type: ignore[attr-defined]
            size = int(width), int(height)
        if _read_orientation(image, data) in SWAPPED_ORIENTATIONS:
            size = size[::-1]
        return Header(
            size, PASSED_THROUGH_TYPES.get(image.format or "", ""), _list_changes(image, data)
        )
    except DECODING_ERRORS as exc:
        raise _make_damage_error(name, exc) from exc


def decode(data: bytes, name: str) -> NDArray[np.uint8]:
    """Decode to upright sRGB pixels, HxWx3, uint8. Raises PictureError.

    EXIF orientation is applied, ICC profiles and CMYK are converted to sRGB, 16 bit is scaled from
    its full range, and transparency is composited on white. The array is read-only.
    """
    image = open_image(data, name)
    try:
        orientation = _read_orientation(image, data)
        ImageOps.exif_transpose(image, in_place=True)
        alpha = _extract_alpha(image, data, orientation)
        image = _to_srgb(_remove_alpha(image, data), image.info.get("icc_profile"))
        if alpha:
            image.putalpha(alpha)
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        return _copy_pixels(image if image.mode == "RGB" else image.convert("RGB"))
    except PictureError as exc:
        raise PictureError(f"{name}: {exc}") from exc
    except DECODING_ERRORS as exc:
        raise _make_damage_error(name, exc) from exc


def _copy_pixels(image: Image.Image) -> NDArray[np.uint8]:
    """Return the pixels of an RGB image, copied in bands; Pillow would hold them three times."""
    width, height = image.size
    pixels, rows = np.empty((height, width, 3), np.uint8), 1 + BAND_PIXELS // width
    for top in range(0, height, rows):
        band = image.crop((0, top, width, min(top + rows, height)))
        pixels[top : top + rows] = np.asarray(band)
    return pixels


def _make_damage_error(name: str, exc: BaseException) -> PictureError:
    return PictureError(f"{name}: the image is truncated or corrupt ({exc}); fetch it again")


def open_image(data: bytes, name: str) -> Image.Image:
    # Pillow reads comments byte by byte
    if NETPBM_PATTERN.match(data) and not NETPBM_HEADER_PATTERN.match(data, 0, MAX_HEADER_BYTES):
        raise PictureError(
            f"{name}: not a readable image; its first {MAX_HEADER_BYTES:,} bytes"
            " contain no image size"
        )
    try:
        image = Image.open(io.BytesIO(data), formats=_list_formats())
    except UnidentifiedImageError as exc:
        content, formats = f"{len(data)} bytes, {data[:8]!r} ...", ", ".join(_list_formats())
        raise PictureError(
            f"{name}: not a readable image ({content}); save it as one of {formats}"
        ) from exc
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as exc:
        raise PictureError(
            f"{name}: refused, too many pixels ({exc}); make it smaller first"
        ) from exc
    except DECODING_ERRORS as exc:
        raise PictureError(f"{name}: the image cannot be opened ({exc})") from exc
    limit = os.environ.get("LOOKTWICE_MAX_PIXELS", "")
    most = int(limit) if limit.isdecimal() else MAX_PIXELS
    if image.width * image.height > most:
        raise PictureError(
            f"{name}: refused, {image.width} x {image.height} pixels exceed {most:,}; make"
            " it smaller, or set the environment variable LOOKTWICE_MAX_PIXELS to a larger number"
        )
    return image


@cache
def _list_formats() -> tuple[str, ...]:
    """Return the members of ACCEPTED_FORMATS that the installed Pillow supports. Loading only their
    plugins is faster than loading all."""
    with suppress(ImportError):  # an older Pillow lacks AVIF
        for name in ("Jpeg", "Png", "WebP", "Gif", "Bmp", "Tiff", "Ppm", "Jpeg2K", "Avif"):
            __import__(f"PIL.{name}ImagePlugin")
    return tuple(name for name in ACCEPTED_FORMATS if name in Image.OPEN)


def _read_orientation(image: Image.Image, data: bytes) -> int:
    """Return the EXIF orientation of the stored pixels, 2 to 8 if they are rotated or mirrored; 1
    if they are upright or the number is invalid."""
    if image.format == "PNG" and not may_hold_orientation(data):
        return 1  # Pillow would decode a PNG to its end to look for a late EXIF block
    orientation = image.getexif().get(ORIENTATION_TAG, 1)
    return orientation if orientation in CHANGED_ORIENTATIONS else 1


@lru_cache(maxsize=64)
def _describe_profile(data: bytes | None, mode: str) -> str:
    """Describe what happens to an embedded colour profile of an image with this colour mode; "" for
    sRGB and for an unreadable profile, which is ignored."""
    if not data:
        return ""
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        if "sRGB" in ImageCms.getProfileDescription(profile):
            return ""
    except (OSError, ImageCms.PyCMSError):
        return ""
    if _make_srgb_transform(data, mode) is None:
        return f"colour profile left out, which does not fit {mode}"
    return "colour profile converted to sRGB"


def _make_srgb_transform(data: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Return the colour transform from an embedded profile to sRGB, for this colour mode; None if
    the profile does not fit the mode."""
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        srgb = ImageCms.createProfile("sRGB")
        return ImageCms.buildTransform(profile, srgb, mode, "RGB")
    except (OSError, ImageCms.PyCMSError):
        return None


def _list_changes(image: Image.Image, data: bytes) -> str:
    # Pillow presents a PNG with 16 bits per channel as 8-bit RGB or RGBA
    deep_png = image.format == "PNG" and data[PNG_DEPTH_OFFSET] == 16
    profile = _describe_profile(image.info.get("icc_profile"), _get_color_mode(image, data))
    changes = {
        f"{image.format} is not sent to models": image.format not in PASSED_THROUGH_TYPES,
        "EXIF orientation applied": _read_orientation(image, data) != 1,
        "transparency laid on white": _is_transparent(image),
        "first frame of several": getattr(image, "is_animated", False),
        "16 bit scaled to 8": image.mode in SIXTEEN_BIT_MODES or deep_png,
        f"{image.mode} converted to RGB": (
            image.mode in ("CMYK", "P", "1", "YCbCr", "LAB", "HSV", "F")
        ),
        profile: bool(profile),
    }
    return ", ".join(reason for reason, so in changes.items() if so)


def _is_transparent(image: Image.Image) -> bool:
    return image.mode in ALPHA_MODES or "transparency" in image.info


def _extract_alpha(image: Image.Image, data: bytes, orientation: int) -> Image.Image | None:
    """Return the opacity of the pixels of an upright image, 0 to 255; None if all are opaque.
    `orientation` is that of the encoded pixels."""
    if not _is_transparent(image):
        return None
    key = image.info.get("transparency")
    if image.mode in ALPHA_MODES:
        return image.getchannel("A")
    if image.mode == "P":
        return image.convert("RGBA").getchannel("A")
    depth, values = data[PNG_DEPTH_OFFSET] if image.format == "PNG" else 8, np.asarray(image)
    if depth == 16 and image.mode == "RGB":
        hidden = Image.fromarray((_decode_deep_rgb(data) == key).all(-1))
        if orientation in ORIENTATION_OPERATIONS:
            hidden = hidden.transpose(ORIENTATION_OPERATIONS[orientation])
        return ImageChops.invert(hidden.convert("L"))
    if depth < 8 and image.mode == "L":  # Pillow scales only the pixels
        key = int(key or 0) * 255 // (2**depth - 1)
    hidden_pixels = values == np.asarray(key)
    shown = ~(hidden_pixels.all(-1) if values.ndim == 3 else hidden_pixels)
    return Image.fromarray(shown.astype(np.uint8) * np.uint8(255))


def _decode_deep_rgb(data: bytes) -> NDArray[np.int64]:
    """Return the 16-bit RGB values of a PNG; Pillow decodes only their upper 8 bits."""
    import cv2

    flags = cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if bgr is None:
        raise OSError("OpenCV cannot read its pixels")
    return np.asarray(bgr[..., 2::-1], np.int64)


def _get_color_mode(image: Image.Image, data: bytes) -> str:
    """Return the 8-bit colour mode of an image, ignoring transparency: L, RGB, CMYK or LAB."""
    if image.format == "PNG" and data[PNG_COLOR_TYPE_OFFSET] in PNG_GREY_TYPES:
        return "L"
    if image.mode in ("L", "LA", "1", *SIXTEEN_BIT_MODES):
        return "L"
    return image.mode if image.mode in ("CMYK", "LAB") else "RGB"


def _remove_alpha(image: Image.Image, data: bytes) -> Image.Image:
    """Return the colours without transparency, in the mode given by `_get_color_mode`."""
    mode = _get_color_mode(image, data)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    elif image.mode in SIXTEEN_BIT_MODES or image.mode == "F":
        image = _to_eight_bit(image)
    return image if image.mode == mode else image.convert(mode)


def _to_eight_bit(image: Image.Image) -> Image.Image:
    advice = "save it with 8 or 16 bits"
    if image.mode == "F":
        raise PictureError(f"floating-point pixels have no fixed range; {advice}")
    if image.mode not in SIXTEEN_BIT_MODES:
        return image
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise PictureError(f"32-bit values {values.min()} .. {values.max()}; {advice}")
    # rounds: 257 is odd, so no value lies halfway
    return Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))


def _to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Convert the colours (L, RGB, CMYK or LAB) to sRGB, by their embedded profile if it fits."""
    transform = None
    if _describe_profile(profile, image.mode) and profile:
        transform = _make_srgb_transform(profile, image.mode)
    elif image.mode == "LAB":
        lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
        transform = _make_srgb_transform(lab.tobytes(), "LAB")
    converted = transform.apply(image) if transform else None
    return converted or (image if image.mode == "RGB" else image.convert("RGB"))


def truncate_scan(data: bytes) -> bytes | None:
    """Truncate a baseline JPEG with one complete scan to the first bytes of that scan; None for any
    other file.

    A decoder rejects damage only in the header, or a marker inside a scan; any other damage, and a
    scan that ends too early, only gives it wrong pixels. So if it reads the truncated file, it also
    reads the complete one.
    """
    place, is_baseline = 2, False
    while data[place : place + 1] == b"\xff":
        marker = data[place + 1] if place + 1 < len(data) else 0
        if marker in MARKERS_WITHOUT_LENGTH:
            place += 2
            continue
        if marker == FILL_BYTE:
            place += 1
            continue
        is_baseline = is_baseline or marker in BASELINE_MARKERS
        place += 2 + int.from_bytes(data[place + 2 : place + 4])
        if marker == SCAN_MARKER:
            end = SCAN_END_PATTERN.search(data, place)
            if is_baseline and end and end[0] == END_MARKER:
                return data[: min(place + MIN_SCAN_BYTES, end.start())] + END_MARKER
            return None
    return None


def to_png(pixels: NDArray[np.uint8]) -> bytes:
    """Write pixels (height, width, 3), RGB, as PNG, with the same bytes on every processor. Takes a
    sixth of OpenCV's time, for a tenth more bytes on photographs. Raises ValueError."""
    data: bytes = fpng.from_ndarray(pixels)
    if not data:  # fpng accepts no side of more than 2 ** 24 pixels
        raise ValueError(f"cannot write a PNG of shape {pixels.shape}")
    return data


def may_hold_orientation(data: bytes) -> bool:
    """Return whether a PNG chunk other than the pixels contains EXIF or XMP."""
    place = 8
    while place < len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4])
        chunk = b"" if data[place + 4 : place + 8] == b"IDAT" else data[place:end].lower()
        if b"exif" in chunk or b".xmp" in chunk:
            return True
        place = end
    return False
