"""Pictures: the model is sent what a person sees, and views are read-only."""

from __future__ import annotations

import hashlib
import io
import operator
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms

from looktwice.pipelines import Sample, State, picture as module
from looktwice.pipelines.encodings.image_files import to_png
from looktwice.pipelines.picture import Picture, PictureError, make_thumbnail_url

RAMP = np.zeros((20, 40, 3), np.uint8)
RAMP[:, 20:] = (200, 100, 50)
RAMP[:5, :5] = 255


NOISE = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)


def encode(pixels: np.ndarray[Any, Any] | Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(out, kind, **options)
    return out.getvalue()


WHOLE_JPEG: dict[str, Any] = {"quality": 100, "subsampling": 0}


def rotated_jpeg() -> bytes:
    """Return RAMP as a rotated camera stores it, with the EXIF tag that rotates it back."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encode(np.rot90(RAMP), "JPEG", **WHOLE_JPEG, exif=exif)


def rgba_png() -> bytes:
    """Return RAMP, bright parts opaque and black ones transparent with garbage behind."""
    alpha = np.where(RAMP.any(axis=2), 255, 0).astype(np.uint8)
    hidden = np.where(alpha[:, :, None] == 0, (1, 222, 3), RAMP).astype(np.uint8)
    return encode(np.dstack([hidden, alpha]), "PNG")


def deep_png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Return a 16-bit PNG."""
    return bytes(cv2.imencode(".png", pixels.astype(np.uint16))[1])


GREY = np.repeat(RAMP[:, :, :1], 3, axis=2)
ON_WHITE = np.where(RAMP.any(axis=2, keepdims=True), RAMP, 255).astype(np.uint8)


SEEN: dict[str, tuple[bytes, np.ndarray[Any, Any], str]] = {
    "png": (encode(RAMP, "PNG"), RAMP, ""),
    "jpeg": (encode(RAMP, "JPEG", **WHOLE_JPEG), RAMP, ""),
    "webp": (encode(RAMP, "WEBP", lossless=True), RAMP, ""),
    "grey": (encode(RAMP[:, :, 0], "PNG"), GREY, ""),
    "exif": (rotated_jpeg(), RAMP, "EXIF"),
    "rgba": (rgba_png(), ON_WHITE, "white"),
    "16bit": (deep_png(RAMP[:, :, 0] * np.uint16(257)), GREY, "16 bit"),
    "16bit-rgb": (deep_png(RAMP[:, :, ::-1] * np.uint16(257)), RAMP, "16 bit"),
    "cmyk": (encode(Image.fromarray(RAMP).convert("CMYK"), "JPEG", **WHOLE_JPEG), RAMP, "CMYK"),
    "palette": (encode(Image.fromarray(RAMP).quantize(16), "PNG"), RAMP, "P converted"),
    **{kind: (encode(RAMP, kind), RAMP, kind) for kind in ("BMP", "TIFF", "GIF")},
}


@pytest.mark.parametrize(("data", "seen", "note"), SEEN.values(), ids=SEEN)
def test_the_sent_bytes_have_the_pixels_of_the_view(
    data: bytes, seen: np.ndarray[Any, Any], note: str
) -> None:
    picture = Picture.encoded(data, "made.img")
    assert picture.size == (40, 20)
    np.testing.assert_allclose(picture.pixels.astype(int), seen.astype(int), atol=12)
    payload = picture.payload
    if note:
        sent = np.asarray(Image.open(io.BytesIO(payload.data)))
        assert note in payload.note and np.array_equal(sent, picture.pixels)
    else:
        assert (payload.data, payload.note) == (data, "")


ENCODED = "f3d19a824a22cf544a03a034c88bb586acc8b263997a8cc2b1c2583758d9aa53"
DRAWN = np.add.outer(np.arange(90), np.arange(120) ** 2 // 50)[..., None] * (1, 2, 3) % 256


@pytest.mark.parametrize("shape", [(90, 120), (1, 120), (90, 1), (1, 1)])
def test_a_png_preserves_every_pixel(shape: tuple[int, int]) -> None:
    pixels = np.ascontiguousarray(DRAWN[: shape[0], : shape[1]]).astype(np.uint8)
    for source in (pixels, NOISE):
        data = to_png(source)
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), source)
        assert Picture(source).payload.data == data


def test_a_png_has_the_same_bytes_on_every_processor() -> None:
    """The bytes are part of cache keys; these are those of x86 with and without SSE."""
    data = to_png(DRAWN.astype(np.uint8))
    assert hashlib.sha256(data).hexdigest() == ENCODED


def test_a_colour_profile_is_converted() -> None:
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
    data = encode(RAMP, "PNG", icc_profile=lab.tobytes())
    assert "profile" in Picture.encoded(data).payload.note
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    data = encode(RAMP, "PNG", icc_profile=srgb.tobytes())
    assert Picture.encoded(data).payload.data == data


def test_writing_into_a_view_is_refused() -> None:
    view = State.start(Sample("s", "?", (Picture(np.zeros((20, 20, 3), np.uint8)),))).views[0]
    with pytest.raises(cv2.error):
        cv2.circle(view.pixels, (5, 5), 3, (255, 0, 0))
    for pixels in (view.pixels, Picture.encoded(encode(RAMP, "PNG")).pixels):
        with pytest.raises(ValueError, match="read-only"):
            pixels[0, 0] = 1


def test_given_pixels_are_copied() -> None:
    mine = np.zeros((4, 4, 3), np.uint8)
    picture = Picture(mine)
    mine[0, 0] = 255
    assert picture.pixels[0, 0].max() == 0
    whole = np.zeros((8, 4, 3), np.uint8)
    part = whole[:4]
    part.flags.writeable = False
    cut = Picture(part)
    whole[:] = 7
    assert cut.pixels.max() == 0


def chunk(kind: bytes, body: bytes) -> bytes:
    """Return a chunk of a PNG with its correct checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_of(*chunks: bytes, width: int = 8, height: int = 4) -> bytes:
    """Return a PNG of RGB pixels with these chunks between header and end."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + chunk(b"IEND", b"")


def idat(rows: bytes) -> bytes:
    return chunk(b"IDAT", zlib.compress(rows))


SPEAKS = encode(NOISE, "PNG").replace(
    b"\0\0\0\0IEND", chunk(b"tEXt", b"exif:Make\0someone") + b"\0\0\0\0IEND"
)
WHOLE = {
    "jpeg": encode(NOISE, "JPEG"),
    "progressive": encode(NOISE, "JPEG", progressive=True),
    "png": encode(NOISE, "PNG"),
    "png that speaks of exif": SPEAKS,
    "webp": encode(NOISE, "WEBP"),
}


def flip_byte(data: bytes) -> bytes:
    """Return a file with one wrong byte in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]


def make_wide_tiff(value: int) -> bytes:
    """Return a TIFF of 32 bits that holds this number and zeros."""
    return encode(np.array([[value, 0], [0, 0]], np.int32), "TIFF")


def test_bad_images_are_named(tmp_path: Path) -> None:
    (tmp_path / "torn.jpg").write_bytes(WHOLE["jpeg"][:-2000])
    bomb = png_of(idat(b"\0"), width=40_000, height=40_000)
    bad: dict[str, tuple[bytes, str]] = {
        "words.jpg": (b"not an image at all", "not a readable image"),
        "empty.jpg": (b"", "not a readable image"),
        "cut.jpg": (WHOLE["jpeg"][:-2000], "truncated"),
        "flipped.png": (flip_byte(WHOLE["png"]), "truncated or corrupt"),
        "bomb.png": (bomb, "too many pixels"),
        "negative.tif": (make_wide_tiff(-1), "values -1"),
        "wide.tif": (make_wide_tiff(70_000), r"values 0 \.\. 70000"),
    }
    made = [(Picture.encoded(data, name), f"{name}.*{says}") for name, (data, says) in bad.items()]
    made += [(Picture.open(tmp_path / "none.png"), "none.png.*cannot be read")]
    made += [(Picture.open(tmp_path / "torn.jpg"), "torn.jpg.*truncated")]
    for picture, says in made:
        with pytest.raises(PictureError, match=says):
            picture.payload  # noqa: B018
    wrong: list[Any] = [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3))]
    for pixels in (*wrong, np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(PictureError, match="HxWx3"):
            Picture(pixels)


def test_nothing_is_decoded_before_it_is_needed() -> None:
    fetched = list[int]()
    picture = Picture.lazy(lambda: fetched.append(1) or encode(RAMP, "PNG"), "lazy")  # type: ignore[func-returns-value]
    Sample("s", "?", (picture,))
    assert fetched == []
    assert picture.size == (40, 20) and "not decoded" in repr(picture)
    assert picture.pixels is picture.pixels
    assert fetched == [1]


def test_equal_content_has_equal_hashes() -> None:
    data = encode(RAMP, "PNG")
    assert Picture.encoded(data).sha == Picture.encoded(data).sha
    assert Picture(RAMP).sha == Picture(RAMP.copy()).sha
    assert Picture(RAMP).sha != Picture(RAMP[:, ::-1]).sha
    assert Picture(RAMP).payload.sha == Picture(RAMP.copy()).payload.sha


def test_a_file_with_a_misleading_extension_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "photo.png"
    for kind in ("EPS", "PDF", "PCX", "SGI", "TGA"):
        Image.new("RGB", (8, 6), "red").save(file, kind)
        with pytest.raises(PictureError, match=r"photo\.png: .* JPEG"):
            _ = Picture.open(file).size


def test_too_many_pixels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKTWICE_MAX_PIXELS", "47")
    data = encode(np.zeros((6, 8, 3), np.uint8), "PNG")
    with pytest.raises(PictureError, match=r"8 x 6 .* 47; .* LOOKTWICE_MAX_PIXELS"):
        _ = Picture.encoded(data, "huge").size
    monkeypatch.setenv("LOOKTWICE_MAX_PIXELS", "48")
    assert Picture.encoded(data, "huge").pixels.shape == (6, 8, 3)


def test_sixteen_bit_values_are_scaled_by_their_full_range_and_rounded() -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    seen = Picture.encoded(deep_png(values), "deep").pixels[:, :, 0]
    assert np.array_equal(seen, np.rint(values / 257).astype(np.uint8))


@pytest.mark.parametrize("kind", WHOLE)
def test_bytes_that_are_sent_unchanged_are_checked_first(kind: str) -> None:
    data = WHOLE[kind]
    assert Picture.encoded(data).payload.data == data
    said = set[str]()
    for looks in (("pixels",), ("payload",), ("size", "payload")):
        with pytest.raises(PictureError) as raised:
            operator.attrgetter(*looks)(Picture.encoded(data[: len(data) * 2 // 3]))
        said.add(str(raised.value))
    assert len(said) == 1


ROW = bytes(25)
BAD_PNGS = {
    "rubbish": png_of(chunk(b"IDAT", b"no zlib at all, though its checksum is right")),
    "rubbish after a row": png_of(chunk(b"IDAT", zlib.compress(ROW * 4)[:12] + bytes(range(40)))),
    "a row too few": png_of(idat(ROW * 3)),
    "no rows": png_of(idat(b"")),
    "an unknown filter": png_of(idat(ROW * 3 + b"\x09" + ROW[1:])),
    "a torn text behind": png_of(idat(ROW * 4), chunk(b"zTXt", b"key\0\x07" + bytes(9))),
}


@pytest.mark.parametrize("data", BAD_PNGS.values(), ids=BAD_PNGS)
def test_a_png_with_garbage_inside_has_one_verdict(data: bytes) -> None:
    verdicts = set[str]()
    for name in ("payload", "pixels"):
        try:
            getattr(Picture.encoded(data, "odd.png"), name)
            verdicts.add("fine")
        except PictureError as exc:
            verdicts.add(str(exc))
    assert len(verdicts) == 1


def test_unusual_but_valid_pngs_are_sent_unchanged() -> None:
    text, rows = chunk(b"tEXt", b"key\0words"), idat(ROW * 4)
    for data in (png_of(rows), png_of(idat(ROW * 4 + b"more")), png_of(rows, text)):
        assert Picture.encoded(data).payload.data == data and not Picture.encoded(data).pixels.any()


def test_pictures_are_checked_once_without_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    data = png_of(idat(ROW * 4), chunk(b"tEXt", b"key\0once"))
    monkeypatch.setattr(module, "decode", lambda data, name: pytest.fail("decoded"))
    for sent in (data, WHOLE["jpeg"], WHOLE["progressive"], WHOLE["png"]):
        assert Picture.encoded(sent).payload.data == sent
    monkeypatch.setattr(Picture, "_check", lambda *_: pytest.fail("checked again"))
    assert Picture.encoded(data).payload.data == data


def test_a_thumbnail_decodes_only_part(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = cv2.resize(NOISE, (640, 320), interpolation=cv2.INTER_CUBIC).astype(np.uint8)
    sized = cv2.resize(pixels, (160, 80), interpolation=cv2.INTER_AREA)
    turned, made = (
        Picture.encoded(rotated_jpeg()).make_thumbnail(20),
        Picture(pixels).make_thumbnail(160),
    )
    with pytest.raises(PictureError):
        make_thumbnail_url(Picture.encoded(Picture(NOISE[:40, :40]).payload.data[:-900]))
    monkeypatch.setattr(module, "decode", lambda data, name: pytest.fail("decoded"))
    whole = Picture.encoded(encode(pixels, "JPEG", quality=95))
    for small in (whole.make_thumbnail(160), made):
        assert small.size == (160, 80)
        assert np.abs(np.asarray(small).astype(int) - sized).mean() < 6
    assert turned.size == (20, 10) and whole.make_thumbnail(900).size == (640, 320)


@pytest.mark.parametrize("progressive", [False, True])
def test_a_truncated_jpeg_is_refused_on_every_path(progressive: bool) -> None:
    photograph = np.kron(NOISE, np.ones((4, 4, 1), np.uint8))
    whole = encode(photograph, "JPEG", quality=92, progressive=progressive)
    looks: list[Callable[[Picture], object]] = [lambda p: p.pixels, lambda p: p.payload]
    looks.append(lambda p: p.make_thumbnail(16))
    for cut in (-1, -2, -100, 700):
        said = set[str]()
        for look in looks:
            with pytest.raises(PictureError, match=r"torn\.jpg") as raised:
                look(Picture.encoded(whole[:cut], "torn.jpg"))
            said.add(str(raised.value))
        assert len(said) == 1, "the words of its decode"


def test_every_format_known_to_pillow_is_opened() -> None:
    code = (
        "from PIL import Image;"
        " from looktwice.pipelines.encodings.image_files import ACCEPTED_FORMATS, _list_formats;"
        " found = _list_formats(); Image.init(); print(len(found), found == tuple("
        "name for name in ACCEPTED_FORMATS if name in Image.OPEN))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout in ("8 True\n", "9 True\n")
