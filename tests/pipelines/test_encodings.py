"""Size, pixels and bytes of encoded pictures agree for any rotation, transparency or bit depth."""

from __future__ import annotations

import io
import struct
import zlib
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from looktwice.pipelines.encodings.image_files import ORIENTATION_OPERATIONS
from looktwice.pipelines.picture import Picture
from tests.tables import check_all

STORED = np.dstack([*np.mgrid[:4, :6] * np.array([60, 40])[:, None, None], np.full((4, 6), 90)])
STORED = STORED.astype(np.uint8)
XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF'
    ' xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description'
    ' xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="{}"/></rdf:RDF></x:xmpmeta>'
)
EXACT: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 100, "subsampling": 0},
    "WEBP": {"lossless": True},
    "AVIF": {"quality": 100, "subsampling": "4:4:4"},
}


def rotate_stored(kind: str, orientation: int, where: str) -> bytes:
    """Return STORED with this orientation in its EXIF or its XMP."""
    options, xmp = dict(EXACT.get(kind, {})), XMP.format(orientation)
    if kind == "TIFF":
        tags = ImageFileDirectory_v2()
        tag, value = (0x0112, orientation) if where == "exif" else (700, xmp.encode())
        tags[tag] = value
        if where == "xmp":
            tags.tagtype[700] = 1
        options["tiffinfo"] = tags
    elif where == "exif":
        options["exif"] = exif = Image.Exif()
        exif[0x0112] = orientation
    elif kind == "PNG":
        options["pnginfo"] = info = PngInfo()
        info.add_itxt("XML:com.adobe.xmp", xmp, zip=orientation % 2 == 0)
    else:
        options["xmp"] = xmp.encode()
    out = io.BytesIO()
    Image.fromarray(STORED).save(out, kind, **options)
    return out.getvalue()


def test_a_rotated_picture_is_decoded_in_one_way() -> None:
    cases = product(("JPEG", "PNG", "WEBP", "AVIF", "TIFF"), ("exif", "xmp"), range(10))
    check_all((case, partial(check_turned, *case)) for case in cases)


def check_turned(kind: str, where: str, orientation: int) -> None:
    image = Image.fromarray(STORED)
    upright = (
        image.transpose(ORIENTATION_OPERATIONS[orientation])
        if orientation in ORIENTATION_OPERATIONS
        else image
    )
    picture = Picture.encoded(rotate_stored(kind, orientation, where))
    assert picture.size == upright.size  # before the pixels are read
    payload = picture.payload
    sent = Image.open(io.BytesIO(payload.data)).convert("RGB")
    for seen in (picture.pixels, np.asarray(sent)):
        assert seen.shape[1::-1] == upright.size
        np.testing.assert_allclose(seen.astype(int), np.asarray(upright).astype(int), atol=12)
    assert picture.size == upright.size
    assert ("orientation" in payload.note) == (orientation in ORIENTATION_OPERATIONS)


def profile(space: str) -> bytes:
    """Return a profile of linear light: level 55 is shown as sRGB 128."""

    def xyz(*values: float) -> bytes:
        return b"XYZ \0\0\0\0" + b"".join(struct.pack(">i", round(v * 65536)) for v in values)

    linear = b"curv\0\0\0\0" + struct.pack(">IH", 1, 256) + b"\0\0"
    name = b"desc\0\0\0\0" + struct.pack(">I", 7) + b"linear\0" + bytes(79)
    white = (0.9642, 1.0, 0.8249)
    tags = {b"desc": name, b"cprt": b"text\0\0\0\0none\0", b"wtpt": xyz(*white)}
    if space == "RGB ":
        tags[b"rXYZ"] = xyz(0.43607, 0.22249, 0.01392)
        tags[b"gXYZ"] = xyz(0.38515, 0.71687, 0.09708)
        tags[b"bXYZ"] = xyz(0.14307, 0.06061, 0.7141)
        tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), linear)
    else:
        tags[b"kTRC"] = linear
    table, body, place = struct.pack(">I", len(tags)), b"", 132 + 12 * len(tags)
    for tag, content in tags.items():
        content += bytes(-len(content) % 4)
        table += tag + struct.pack(">II", place + len(body), len(content))
        body += content
    head = struct.pack(
        ">I4sI4s4s4s", place + len(body), b"lcms", 0x02100000, b"mntr", space.encode(), b"XYZ "
    )
    head += bytes(12) + b"acsp" + bytes(28) + xyz(*white)[8:]
    return head.ljust(128, b"\0") + table + body


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


RGB, GREY = (chunk(b"iCCP", b"x\0\0" + zlib.compress(profile(space))) for space in ("RGB ", "GRAY"))
V, DEEP = bytes([55]), struct.pack(">H", 55 * 257)


def png(color: int, depth: int, pixels: list[bytes], *parts: bytes) -> bytes:
    """Return a PNG of one row with these pixel bytes, after a profile, palette or transparent
    colour."""
    width = len(pixels) * 8 // depth if depth < 8 else len(pixels)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, 1, depth, color, 0, 0, 0))
    row = chunk(b"IDAT", zlib.compress(b"\0" + b"".join(pixels)))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(parts) + row + chunk(b"IEND", b"")


def trns(*values: int) -> bytes:
    """Return a transparency chunk from 16-bit values."""
    return chunk(b"tRNS", deep(*values))


def deep(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


CONVERTED = "colour profile converted to sRGB"
WHITE = "transparency laid on white"
RED, SHADES = [V * 3, bytes(3)], [V, b"\0"]
CLEAR, BOTH = trns(0), [CONVERTED, WHITE]
SHOWN: dict[str, tuple[bytes, list[int], list[str]]] = {
    "RGB": (png(2, 8, [V * 3], RGB), [128], [CONVERTED]),
    "grey": (png(0, 8, [V], GREY), [128], [CONVERTED]),
    "palette": (png(3, 8, [b"\0"], RGB, chunk(b"PLTE", V * 3)), [128], [CONVERTED]),
    "grey, alpha": (png(4, 8, [V + b"\xff"], GREY), [128], BOTH),
    "RGBA": (png(6, 8, [V * 3 + b"\xff"], RGB), [128], BOTH),
    "grey 16": (png(0, 16, [DEEP], GREY), [128], [CONVERTED, "16 bit"]),
    "RGB 16": (png(2, 16, [DEEP * 3], RGB), [128], [CONVERTED, "16 bit"]),
    "grey 16, alpha": (png(4, 16, [DEEP + b"\xff\xff"], GREY), [128], [CONVERTED, "16 bit"]),
    "RGBA 16": (png(6, 16, [DEEP * 3 + b"\xff\xff"], RGB), [128], [CONVERTED, "16 bit"]),
    "palette, tRNS": (
        png(3, 8, [b"\0", b"\1"], RGB, chunk(b"PLTE", V * 3 + bytes(3)), chunk(b"tRNS", b"\xff\0")),
        *([128, 255], BOTH),
    ),
    "RGB, tRNS": (png(2, 8, RED, RGB, trns(0, 0, 0)), [128, 255], BOTH),
    "grey, tRNS": (png(0, 8, SHADES, GREY, CLEAR), [128, 255], BOTH),
    "grey 16, tRNS": (png(0, 16, [DEEP, bytes(2)], GREY, CLEAR), [128, 255], BOTH),
    "RGB 16, tRNS": (png(2, 16, [DEEP * 3, bytes(6)], RGB, trns(0, 0, 0)), [128, 255], BOTH),
    "grey 16, near tRNS": (png(0, 16, [deep(301), deep(300)], trns(300)), [1, 255], [WHITE]),
    "RGB 16, near tRNS": (
        png(2, 16, [deep(301, 300, 300), deep(300, 300, 300)], trns(300, 300, 300)),
        *([1, 255], [WHITE]),
    ),
    "plain grey, tRNS": (png(0, 8, SHADES, CLEAR), [55, 255], [WHITE]),
    "grey 4, tRNS": (png(0, 4, [b"\x35"], trns(5)), [51, 255], [WHITE]),
    "grey 2, tRNS": (png(0, 2, [b"\x1b"], trns(3)), [0, 85, 170, 255], [WHITE]),
    "black and white, tRNS": (png(0, 1, [b"\x55"], CLEAR), [255] * 8, [WHITE]),
    "grey, foreign profile": (png(0, 8, [V], RGB), [55], ["colour profile left out"]),
    "plain": (png(2, 8, [V * 3]), [55], []),
}


@pytest.mark.parametrize(("data", "levels", "notes"), SHOWN.values(), ids=SHOWN)
def test_declared_conversions_are_applied(data: bytes, levels: list[int], notes: list[str]) -> None:
    picture = Picture.encoded(data)
    np.testing.assert_allclose(picture.pixels[0, :, 1], levels, atol=1)
    payload = picture.payload
    assert all(note in payload.note for note in notes) and bool(notes) == bool(payload.note)
    assert np.array_equal(Picture.encoded(payload.data).pixels, picture.pixels)


def test_lab_is_converted_to_srgb() -> None:
    image, srgb = Image.new("RGB", (3, 2), (200, 100, 50)), ImageCms.createProfile("sRGB")
    lab = ImageCms.profileToProfile(image, srgb, ImageCms.createProfile("LAB"), outputMode="LAB")
    assert lab is not None
    for _ in range(2):  # with its profile, and without
        out = io.BytesIO()
        lab.save(out, "TIFF")
        seen = Picture.encoded(out.getvalue()).pixels[0, 0]
        np.testing.assert_allclose(seen, (200, 100, 50), atol=2)
        lab.info.pop("icc_profile", None)
