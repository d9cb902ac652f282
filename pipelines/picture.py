"""A picture: encoded bytes, and the upright 8-bit sRGB pixels that a person would see; the two can
never disagree."""

from __future__ import annotations

import hashlib
import io
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError
from pybase64 import b64encode

from looktwice.pipelines.clock import spend
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.encodings.jpeg import shortened
from looktwice.pipelines.encodings.png import AS_BEFORE, opencv_png, speaks_of_exif, to_png

__all__ = ["Picture", "Pixels"]
JPEG = "image/jpeg"
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
MAX_PIXELS, MOST_HEADER, MOST_READABLE = (89_478_485, 1 << 16, 100_000)
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
    image = _open(data, name)
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


_readable: set[str] = set()
"""The sha256 of what was checked: a picture of many questions, arms and draws is checked once."""


def _open(data: bytes, name: str) -> Image.Image:
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


Pixels = NDArray[np.uint8]
"""Height x width x 3, RGB, uint8."""


@dataclass(frozen=True)
class Payload:
    """Exact bytes to send. `note` says why they are not the source's own bytes, empty where they
    are."""

    data: bytes
    media_type: str
    sha: str
    note: str
    _text: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> bytes:
        """The bytes in base64, without a letter that JSON would escape."""
        return self._text or b64encode(self.data)

    @property
    def data_url(self) -> str:
        """`data:image/...;base64,...`, as OpenAI-compatible servers take it."""
        return f"data:{self.media_type};base64,{self.text.decode()}"


Value = TypeVar("Value")


def _kept_property(compute: Callable[[Any], Value]) -> Value:
    """A property that the first thread to ask computes; `_name` holds what came out."""
    name = f"_{compute.__name__}"

    def get(picture: Picture) -> Value:
        value: Value | None = getattr(picture, name, None)
        if value is None:
            with picture._lock:
                if getattr(picture, name, None) is None:
                    setattr(picture, name, compute(picture))
            value = getattr(picture, name)
        return cast(Value, value)

    return cast(Value, property(get, doc=compute.__doc__))


class Picture:
    """An image, decoded when first looked at.

    Made from pixels (`Picture(array)`), a file (`Picture.open`), encoded bytes (`Picture.encoded`)
    or a function that fetches the bytes (`Picture.lazy`). `pixels` is HxWx3 RGB uint8 and
    read-only: an in-place drawing call raises, so copy first and make a new Picture. Reading may
    raise PictureError.
    """

    _pixels: Pixels | None = None
    _fetch: Callable[[], bytes] | None = None
    _known_to_decode = False
    _opened: Image.Image | None = None

    def __init__(self, pixels: NDArray[np.uint8], name: str = "") -> None:
        if not isinstance(pixels, np.ndarray):
            raise PictureError(
                "Picture takes pixels, HxWx3 uint8 RGB, found"
                f" {type(pixels).__name__}; type Picture.open(path) for a file, and for an image of"
                " Pillow Picture(np.array(image.convert('RGB')))"
            )
        is_rgb = pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3
        if not is_rgb or 0 in pixels.shape:
            raise PictureError(
                f"pixels must be HxWx3 uint8 RGB, found shape {pixels.shape} of {pixels.dtype}"
            )
        if pixels.base is not None or pixels.flags.writeable or not pixels.flags.c_contiguous:
            pixels = np.array(pixels, order="C")
            pixels.flags.writeable = False
        self.name, self._pixels, self._lock = name, pixels, threading.RLock()

    @classmethod
    def lazy(cls, fetch: Callable[[], bytes], name: str) -> Picture:
        """A picture whose encoded bytes are fetched when first needed; `name` stands in error
        messages."""
        self = cls.__new__(cls)
        self.name, self._fetch, self._lock = name, fetch, threading.RLock()
        return self

    @classmethod
    def encoded(
        cls, data: bytes, name: str = "image bytes", known_to_decode: bool = False
    ) -> Picture:
        """A picture of exactly these encoded bytes (JPEG, PNG, WebP or anything Pillow reads).

        `known_to_decode` says that we encoded them ourselves, so that they need no check before
        they are sent.
        """
        picture = cls.lazy(lambda: data, name)
        picture._known_to_decode = known_to_decode
        return picture

    @classmethod
    def open(cls, path: str | Path) -> Picture:
        """A picture file; it is read when first needed."""

        def read() -> bytes:
            try:
                return read_file(Path(path))
            except OSError as exc:
                fault = f"{path}: the image file cannot be read ({exc.strerror})"
                raise PictureError(fault) from exc

        return cls.lazy(read, str(path))

    @_kept_property
    def pixels(self) -> Pixels:
        """HxWx3 RGB uint8, read-only; the same array at every call."""
        data = self._payload.data if self._fetch is None else self.source
        with spend("decode"):
            pixels = decode(data, self.name)
        pixels.flags.writeable = False
        return pixels

    def small(self, longest: int) -> Image.Image:
        """The picture with no side longer than `longest` pixels; of a JPEG no more is decoded than
        that shows."""
        size = longest, longest
        return self._shrunk(lambda image: image.thumbnail(size, reducing_gap=2.0))

    def coarse(self, longest: int) -> Image.Image:
        """The picture; of a JPEG, the smallest that its decoder makes with a side of at least
        `longest` pixels."""
        scale = longest / max(self.size)
        size = int(self.size[0] * scale), int(self.size[1] * scale)
        return self._shrunk(lambda image: image.draft("", size))

    def _shrunk(self, shrink: Callable[[Image.Image], object]) -> Image.Image:
        """What `shrink` leaves of the picture, which need not be decoded before."""
        if self._pixels is None and not self._header.changed:
            image = _open(self.source, self.name)
            with suppress(*BROKEN):  # what is torn is refused in the words of its decode
                shrink(image)
                image.load()  # a small one is as it was, and not decoded yet
                return image
        image = Image.fromarray(self.pixels)
        shrink(image)
        return image

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels, as a person sees it; read from the header alone where it can
        be."""
        if self._pixels is not None:
            return self._pixels.shape[1], self._pixels.shape[0]
        return self._header.size

    @_kept_property
    def sha(self) -> str:
        """The sha256 of what this picture was made from: its encoded bytes, or its shape and
        pixels."""
        if self._fetch is not None:
            return hashlib.sha256(self.source).hexdigest()
        return hashlib.sha256(repr(self.pixels.shape).encode() + self.pixels.tobytes()).hexdigest()

    @property
    def payload(self) -> Payload:
        """The bytes to send: the source's own where a model would see the same, else a lossless
        PNG."""
        return self._payload_before if AS_BEFORE.get() else self._payload

    @_kept_property
    def _payload_before(self) -> Payload:
        note = self._payload.note
        return self._encode(opencv_png, note) if note else self._payload

    def _encode(self, write: Callable[[Pixels], bytes], note: str) -> Payload:
        pixels = self.pixels
        with spend("encode"):
            data = write(pixels)
        return Payload(data, "image/png", hashlib.sha256(data).hexdigest(), note)

    @_kept_property
    def _payload(self) -> Payload:
        changed = "made or changed by a stage" if self._fetch is None else self._header.changed
        if changed:
            return self._encode(to_png, changed)
        if not self._known_to_decode and self._pixels is None and self.sha not in _readable:
            with spend("decode"):
                self._check()
        return Payload(self.source, self._header.media_type, self.sha, "")

    def _check(self) -> None:
        """Raises PictureError as `decode` does, so that nothing torn is sent; a JPEG is read at an
        eighth of its size, and most only begun, in a fraction of the time."""
        image, self._opened = self._opened or self._open(), None
        try:
            image.draft("L", (1, 1))
            image.load()
        except BROKEN:
            decode(self.source, self.name)
        if len(_readable) < MOST_READABLE:
            _readable.add(self.sha)

    @_kept_property
    def source(self) -> bytes:
        """The encoded bytes. Raises PictureError for a picture that was made from pixels."""
        if self._fetch is None:
            name = self.name or "this picture"
            raise PictureError(f"{name} was made from pixels and has no encoded source")
        return self._fetch()

    @_kept_property
    def _header(self) -> Header:
        """What can be told of the encoded source without decoding its pixels."""
        self._opened = self._open()
        return inspect(self._opened, self.source, self.name)

    def _open(self) -> Image.Image:
        return _open(shortened(self.source) or self.source, self.name)

    def __repr__(self) -> str:
        shape = "not decoded yet" if self._pixels is None else "{}x{}".format(*self.size)
        return f"Picture({self.name or 'pixels'}, {shape})"
