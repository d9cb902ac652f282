"""Images that decode on demand, the bytes to send, thumbnails and perceptual hashes."""

from __future__ import annotations

import hashlib
import io
import math
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pybase64 import b64encode

from looktwice.pipelines.clock import track_time
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.encodings.image_files import (
    DECODING_ERRORS,
    Header,
    PictureError as PictureError,
    decode,
    open_image,
    read_header,
    to_png,
    truncate_scan,
)

__all__ = ["Picture", "Pixels"]
JPEG_TYPE, MAX_READABLE_IMAGES = "image/jpeg", 100_000
BASE64_PART_BYTES = (
    3 << 15
)  # bytes; a multiple of 3, so that the parts of a base64 text join without padding

_readable_digests: set[str] = set()
"""The sha256 of each image found readable, so that an image of many questions, arms and draws is
checked only once."""

Pixels = NDArray[np.uint8]
"""Height x width x 3, RGB, uint8."""


@dataclass(frozen=True)
class Payload:
    """The exact bytes to send. `note` says why they differ from the source's, or is empty."""

    data: bytes
    media_type: str
    sha: str
    note: str

    @property
    def text(self) -> bytes:
        """The bytes in base64, whose characters need no escaping in JSON."""
        return b64encode(self.data)

    def __len__(self) -> int:
        """Return the length of `text`."""
        return -(-len(self.data) // 3) * 4

    def __iter__(self) -> Iterator[bytes]:
        """Yield `text` in parts, so that a waiting request need not hold all of it."""
        for start in range(0, len(self.data), BASE64_PART_BYTES):
            yield b64encode(self.data[start : start + BASE64_PART_BYTES])

    @property
    def prefix(self) -> str:
        """The part of a data URL before the base64 of the bytes: `data:image/...;base64,`."""
        return f"data:{self.media_type};base64,"

    @property
    def data_url(self) -> str:
        """The data URL `data:image/...;base64,...` that OpenAI-compatible servers accept."""
        return self.prefix + self.text.decode()


def join_pieces(pieces: Iterable[bytes | Payload]) -> bytes:
    """Join the pieces of a request; pictures become base64 (`Payload.text`)."""
    return b"".join(piece if isinstance(piece, bytes) else piece.text for piece in pieces)


@dataclass(eq=False)
class PixelMemory:
    """A limit on the memory for decoded pixels of all pictures in this process.

    Beyond `max_bytes`, the oldest pixels that can be decoded again, from the source or from the
    encoded PNG, are dropped. `decode_slots` limits the pictures decoded at the same time: pixels
    decoded earlier would only occupy memory until they are drawn on and encoded.
    """

    max_bytes: int = 24 << 20
    size: int = 0
    entries: OrderedDict[weakref.ref[Picture], int] = field(default_factory=OrderedDict)
    decode_slots: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(os.cpu_count() or 1)
    )
    # re-entrant, because a picture may be garbage-collected while it is held
    lock: Any = field(default_factory=threading.RLock)

    def keep(self, picture: Picture, pixels: Pixels, is_next: bool = False) -> None:
        """Register the pixels of a picture, to be dropped first (`is_next`) or last, and make room
        for them."""
        with self.lock:
            reference = weakref.ref(picture, self.drop)
            self.size += pixels.nbytes - self.entries.pop(reference, 0)
            self.entries[reference] = pixels.nbytes
            self.entries.move_to_end(reference, last=not is_next)
            while self.size > self.max_bytes and len(self.entries) > 1:
                self.drop(next(iter(self.entries)))

    def drop(self, reference: weakref.ref[Picture]) -> None:
        """Drop the pixels of a picture."""
        with self.lock:
            self.size -= self.entries.pop(reference, 0)
        if picture := reference():
            picture._pixels = None


PIXEL_MEMORY = PixelMemory()
"""The limit on the decoded pixels of this process."""

Value = TypeVar("Value")


def _cached_property(compute: Callable[[Any], Value]) -> Value:
    """Make a thread-safe property that is computed on first access and stored in `_name`."""
    name = f"_{compute.__name__}"

    def get(picture: Picture) -> Value:
        value: Value | None = getattr(picture, name, None)
        if value is None:
            with picture._lock:
                value = getattr(picture, name, None)
                if value is None:
                    value = compute(picture)
                    setattr(picture, name, value)
        return cast(Value, value)

    return cast(Value, property(get, doc=compute.__doc__))


class Picture:
    """An image, decoded when its pixels are first needed.

    Made from pixels (`Picture(array)`), a file (`Picture.open`), encoded bytes (`Picture.encoded`)
    or a function that fetches the bytes (`Picture.lazy`). `pixels` is HxWx3 RGB uint8 and
    read-only: an in-place drawing call raises, so copy first and make a new Picture. Reading may
    raise PictureError.

    `path` is its file, if there is one. `seconds` is the time of a video frame; `frames` are the
    frames of a picture that is sent as a video.
    """

    _pixels: Pixels | None = None
    _size: tuple[int, int] | None = None
    _payload: Payload | None = None
    _is_released = False
    _fetch: Callable[[], bytes] | None = None
    _is_there: Callable[[], bool] | None = None
    _known_to_decode = False
    _opened: Image.Image | None = None
    path: Path | None = None
    seconds: float | None = None
    frames: Sequence[Pixels] = ()

    def __init__(self, pixels: NDArray[np.uint8], name: str = "") -> None:
        if not isinstance(pixels, np.ndarray):
            raise PictureError(
                "Picture takes pixels, HxWx3 uint8 RGB, found"
                f" {type(pixels).__name__}; for a file write Picture.open(path), for a Pillow image"
                " Picture(np.array(image.convert('RGB')))"
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
        self._size = pixels.shape[1], pixels.shape[0]

    @classmethod
    def lazy(
        cls, fetch: Callable[[], bytes], name: str, is_there: Callable[[], bool] | None = None
    ) -> Picture:
        """Create a picture whose encoded bytes are fetched when first needed. `name` appears in
        error messages; `is_there` returns whether the bytes exist, without reading them."""
        self = cls.__new__(cls)
        self.name, self._fetch, self._lock = name, fetch, threading.RLock()
        self._is_there = is_there
        return self

    @classmethod
    def encoded(
        cls, data: bytes, name: str = "image bytes", known_to_decode: bool = False
    ) -> Picture:
        """Create a picture of exactly these encoded bytes (JPEG, PNG, WebP or anything Pillow
        reads).

        Set `known_to_decode` for bytes that looktwice encoded itself, which need no check before
        they are sent.
        """
        picture = cls.lazy(lambda: data, name)
        picture._known_to_decode = known_to_decode
        return picture

    @classmethod
    def open(cls, path: str | Path) -> Picture:
        """Create a picture from a file, which is read when first needed."""

        def read() -> bytes:
            try:
                return read_file(Path(path))
            except OSError as exc:
                fault = f"{path}: the image file cannot be read ({exc.strerror})"
                raise PictureError(fault) from exc

        picture = cls.lazy(read, str(path), Path(path).is_file)
        picture.path = Path(path)
        return picture

    def is_there(self) -> bool:
        """Return whether the picture's source exists, as far as known without reading it."""
        return self._is_there is None or self._is_there()

    def fetch(self) -> bytes:
        """Read the encoded bytes without keeping them. Raises PictureError."""
        return self.source if self._fetch is None else self._fetch()

    @property
    def is_generated(self) -> bool:
        """True if it was made from pixels and has no encoded source."""
        return self._fetch is None

    @_cached_property
    def pixels(self) -> Pixels:
        """The pixels, HxWx3 RGB uint8, read-only; pixels that `PIXEL_MEMORY` dropped are decoded
        again."""
        data = self.payload.data if self._fetch is None else self.source
        with PIXEL_MEMORY.decode_slots, track_time("decode"):
            pixels = decode(data, self.name)
        pixels.flags.writeable = False
        PIXEL_MEMORY.keep(self, pixels)
        return pixels

    def release(self) -> None:
        """Drop the pixels as soon as they can be decoded again, because they are unlikely to be
        needed."""
        self._is_released = True
        if self._fetch is not None or self._payload is not None:
            PIXEL_MEMORY.drop(weakref.ref(self))

    def make_thumbnail(self, longest: int) -> Image.Image:
        """Return the picture with no side longer than `longest` pixels; a JPEG is decoded only at
        the resolution needed."""
        size = longest, longest
        return self._shrink(lambda image: image.thumbnail(size, reducing_gap=2.0))

    def decode_coarsely(self, longest: int) -> Image.Image:
        """Return the picture; a JPEG is decoded at the smallest size whose longer side has at least
        `longest` pixels."""
        scale = longest / max(self.size)
        size = int(self.size[0] * scale), int(self.size[1] * scale)
        return self._shrink(lambda image: image.draft("", size))

    def _shrink(self, shrink: Callable[[Image.Image], object]) -> Image.Image:
        """Apply `shrink` to the picture, before decoding if possible, and return the result."""
        if self._fetch is not None and self._pixels is None and not self._header.change_note:
            image = open_image(self.source, self.name)
            with suppress(
                *DECODING_ERRORS
            ):  # a damaged file gets the error of its full decode below
                shrink(image)
                image.load()  # `shrink` leaves a small image undecoded
                return image
        image = Image.fromarray(self.pixels)
        shrink(image)
        return image

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels, as a person sees it; from the header alone if possible."""
        return self._size or self._header.size

    @property
    def held_bytes(self) -> int:
        """The memory that its pixels and its encoded bytes occupy now, in bytes."""
        pixels, payload, source = self._pixels, self._payload, getattr(self, "_source", None)
        held = {id(data): len(data) for data in (source, payload and payload.data) if data}
        return sum(held.values()) + (0 if pixels is None else pixels.nbytes)

    @_cached_property
    def sha(self) -> str:
        """The sha256 of the encoded bytes, or of shape and pixels if it was made from pixels."""
        if self._fetch is not None:
            return hashlib.sha256(self.source).hexdigest()
        return hashlib.sha256(repr(self.pixels.shape).encode() + self.pixels.tobytes()).hexdigest()

    @_cached_property
    def payload(self) -> Payload:
        """The bytes to send: the source's own if a model sees the same image, else a lossless
        PNG."""
        made = "made or changed by a stage" if self.seconds is None else "a frame of a video"
        changed = made if self._fetch is None else self._header.change_note
        if changed:
            pixels = self.pixels
            with track_time("encode"):
                data = to_png(pixels)
            if self._is_released:
                PIXEL_MEMORY.drop(weakref.ref(self))
            else:
                PIXEL_MEMORY.keep(self, pixels, is_next=True)
            return Payload(data, "image/png", hashlib.sha256(data).hexdigest(), changed)
        if not self._known_to_decode and self._pixels is None and self.sha not in _readable_digests:
            with track_time("decode"):
                self._check()
        return Payload(self.source, self._header.media_type, self.sha, "")

    def _check(self) -> None:
        """Check that the source decodes, so that no damaged image is sent. Raises PictureError as
        `decode` does. A JPEG is read at an eighth of its size, and mostly only its beginning, which
        is much faster."""
        image, self._opened = self._opened or self._open(), None
        try:
            image.draft("L", (1, 1))
            image.load()
        except DECODING_ERRORS:
            decode(self.source, self.name)
        if len(_readable_digests) < MAX_READABLE_IMAGES:
            _readable_digests.add(self.sha)

    @_cached_property
    def source(self) -> bytes:
        """The encoded bytes. Raises PictureError for a picture that was made from pixels."""
        if self._fetch is None:
            name = self.name or "this picture"
            raise PictureError(f"{name} was made from pixels and has no encoded source")
        return self._fetch()

    @_cached_property
    def _header(self) -> Header:
        """Facts about the encoded source that need no decoding of pixels."""
        self._opened = self._open()
        return read_header(self._opened, self.source, self.name)

    def _open(self) -> Image.Image:
        return open_image(truncate_scan(self.source) or self.source, self.name)

    def __repr__(self) -> str:
        shape = "not decoded yet" if self._pixels is None else "{}x{}".format(*self.size)
        return f"Picture({self.name or 'pixels'}, {shape})"


def make_thumbnail_url(picture: Picture, longest: int = 320, quality: int = 85) -> str:
    """Return a JPEG data URL of the picture with no side longer than `longest` pixels. Chroma is
    not subsampled, so that thin marks keep their colour."""
    import cv2

    pixels = np.asarray(picture.decode_coarsely(longest))
    scale = longest / max(pixels.shape[:2])
    if scale < 1:
        height, width = (max(1, round(side * scale)) for side in pixels.shape[:2])
        # Pillow takes ten times as long
        how = cv2.INTER_LINEAR if scale > 0.5 else cv2.INTER_AREA
        pixels = cv2.resize(pixels, (width, height), interpolation=how)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality, subsampling=0)
    return Payload(buffer.getvalue(), JPEG_TYPE, "", "").data_url


HASH_SIDE, HASH_SQUARE_ASPECT, STEPS_PER_DOUBLING = 8, 1 << 15, 8
MAX_FLAT_STEP = 2  # grey levels; smaller steps are codec noise in an even area


def compute_perceptual_hash(picture: Picture) -> int:
    """Compute a hash that survives re-encoding and resizing (dHash). Raises PictureError.

    Each of the lower 64 bits says whether a grey thumbnail gets brighter from one cell to the next
    on its right; the bits above hold the aspect ratio in eighths of a doubling.
    """
    grey = picture.make_thumbnail(32 * HASH_SIDE).convert("L")
    levels = np.asarray(grey.resize((HASH_SIDE + 1, HASH_SIDE), Image.Resampling.BOX), np.int16)
    brighter = np.packbits(np.diff(levels, axis=1) > MAX_FLAT_STEP).tobytes()
    width, height = picture.size
    aspect = HASH_SQUARE_ASPECT + round(STEPS_PER_DOUBLING * math.log2(width / height))
    return aspect << HASH_SIDE**2 | int.from_bytes(brighter)


def measure_hash_distance(first: int, second: int) -> int:
    """Count the bits in which two perceptual hashes differ, plus the steps between their aspect
    ratios: 0 to 10 for a picture that was re-encoded or resized, about 25 for two different
    photographs."""
    brighter = (1 << HASH_SIDE**2) - 1
    steps = abs((first >> HASH_SIDE**2) - (second >> HASH_SIDE**2))
    return ((first ^ second) & brighter).bit_count() + steps
