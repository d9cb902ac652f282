"""A JPEG is refused from its first bytes exactly if it is refused as a whole."""

from __future__ import annotations

import io
import random
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from looktwice.pipelines import picture as module
from looktwice.pipelines.encodings.image_files import decode, truncate_scan
from looktwice.pipelines.picture import Picture, PictureError

WRITTEN: dict[str, tuple[str, dict[str, object]]] = {
    "baseline": ("RGB", {}),
    "a colour for every pixel": ("RGB", {"subsampling": 0}),
    "with restarts": ("RGB", {"restart_marker_rows": 1}),
    "grey": ("L", {}),
    "progressive": ("RGB", {"progressive": True}),
}
Damage = Callable[[bytes, random.Random, int], bytes]


def test_padding_bytes_in_a_header_are_skipped() -> None:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 48, 3), np.uint8)).save(
        file, "JPEG"
    )
    data, comment = file.getvalue(), bytearray(65533)
    # a decoder that takes the second byte for a marker would continue here
    comment[65276:65286] = b"\xff\xc0\x00\x02\xff\xda\x00\x02\xff\xd9"
    filled = data[:2] + b"\xff\xff\xfe\xff\xff" + comment + data[2:]
    picture = Picture.encoded(filled)
    assert picture.size == (48, 64) and picture.payload.data == filled
    assert len(truncate_scan(filled) or filled) < len(filled)


def cut(data: bytes, rng: random.Random, scan: int) -> bytes:
    return data[: rng.randrange(20, len(data) - 1)]


def cut_and_ended(data: bytes, rng: random.Random, scan: int) -> bytes:
    return data[: rng.randrange(20, len(data) - 2)] + b"\xff\xd9"


def zeros(data: bytes, rng: random.Random, scan: int) -> bytes:
    place = rng.randrange(20, len(data) - 300)
    return data[:place] + bytes(200) + data[place + 200 :]


def flip_byte(data: bytes, rng: random.Random, scan: int) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 100))):
        changed[rng.randrange(scan + 14, len(data) - 2)] = rng.randrange(256)
    return bytes(changed)


def flipped_header(data: bytes, rng: random.Random, scan: int) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 5))):
        changed[rng.randrange(2, scan + 14)] = rng.randrange(256)
    return bytes(changed)


def insert_bytes(data: bytes, rng: random.Random, scan: int) -> bytes:
    place = rng.randrange(scan + 14, len(data) - 2)
    marker = rng.choice((0xD9, 0xDA, 0xC4, 0xC0, 0xDB, 0xD8, 0xE0, 0x01, 0xFF, 0xD0, 0xD7))
    return data[:place] + bytes((0xFF, marker)) + data[place:]


DAMAGES = [cut, cut_and_ended, zeros, flip_byte, flipped_header, insert_bytes]


def refuses(read: Callable[[], object]) -> bool:
    try:
        read()
    except PictureError:
        return True
    return False


def write_jpeg(kind: str) -> bytes:
    """Return a photograph-like JPEG: smooth noise, so that its scan is some kilobytes long."""
    coarse = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)
    mode, settings = WRITTEN[kind]
    buffer = io.BytesIO()
    image = Image.fromarray(coarse).resize((160, 120), Image.Resampling.BICUBIC)
    image.convert(mode).save(buffer, "JPEG", **settings)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize(
    "damage",
    [cut, cut_and_ended, zeros, flip_byte, flipped_header, insert_bytes],
    ids=lambda d: d.__name__,
)
def test_damaged_files_are_refused(
    kind: str, damage: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, rng, refused = write_jpeg(kind), random.Random(kind + damage.__name__), 0
    for _ in range(40):
        monkeypatch.setattr(module, "_readable_digests", set())
        torn = damage(data, rng, data.index(b"\xff\xda"))
        is_refused = refuses(lambda: decode(torn, "torn"))  # noqa: B023
        assert refuses(lambda: Picture.encoded(torn).payload) == is_refused  # noqa: B023
        refused += is_refused
    assert refused or damage in (cut_and_ended, zeros)


@pytest.mark.parametrize("kind", WRITTEN)
def test_only_a_few_bytes_of_a_baseline_scan_are_read(kind: str) -> None:
    data = write_jpeg(kind)
    short = truncate_scan(data)
    if kind == "progressive":
        assert short is None
    else:
        assert short is not None and len(short) < len(data) / 2
        assert data.startswith(short[:-2]) and short.endswith(b"\xff\xd9")
        assert refuses(lambda: Picture.encoded(data).payload) is False
