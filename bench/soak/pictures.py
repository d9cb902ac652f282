"""Hostile pictures: formats with wrong file extensions, decompression bombs, truncated files,
unusual pixel formats, and paths that are not files."""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from bench.soak.hostile_server import good, hostile_server
from bench.soak.scene import Finding, faults, finding, looktwice, write_study
from looktwice.eval.records import RunFolder

EPS = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(/tmp/soak-was-here) (w) file"
    b" closefile\nshowpage\n"
)


def encoded(mode: str, kind: str, size: tuple[int, int] = (40, 30), **more: object) -> bytes:
    """Encode an image of a mode in a format."""
    buffer = io.BytesIO()
    Image.new(mode, size, 1).save(buffer, kind, **more)
    return buffer.getvalue()


def png(width: int, height: int, depth: int, colour: int, data: bytes) -> bytes:
    """Return a PNG with this header and any data."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d))
        for kind, d in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def files() -> dict[str, bytes]:
    """Return file contents by file name."""
    whole, photo = encoded("RGB", "PNG"), encoded("RGB", "JPEG", (400, 300))
    noise = np.random.default_rng(0).integers(0, 65536, (2000, 2000), np.uint16)
    sixteen = io.BytesIO()
    Image.fromarray(noise).save(sixteen, "PNG")
    frames = io.BytesIO()
    Image.new("P", (9, 9)).save(
        frames, "GIF", save_all=True, append_images=[Image.new("P", (9, 9), 1)] * 20
    )
    return {
        "eps.png": EPS,
        "pdf.png": b"%PDF-1.7\n1 0 obj\n",
        "svg.png": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        "html.jpg": b"<html>",
        "zip.jpg": b"PK\x03\x04" + b"\0" * 99,
        "empty.png": b"",
        "one.png": b"\x89",
        "xbm.png": b"#define x_width 9\n#define x_height 9\nstatic char x_bits[] = {0};",
        "fli.png": b"\0" * 6 + b"\x11\xaf",
        "torn.png": whole[:60],
        "torn.jpg": photo[: len(photo) // 2],
        "flipped.png": whole[:50] + b"\xff" + whole[51:],
        "header.png": png(50_000, 50_000, 8, 2, b""),
        "bomb.png": png(40_000, 40_000, 1, 0, b"\0" * 5001 * 40_000),
        "zero.png": png(0, 0, 8, 2, b""),
        "negative.png": png(2**32 - 1, 9, 8, 2, b""),
        "header.gif": b"GIF89a\xff\xff\xff\xff\x80\0\0" + b"\0" * 20,
        "header.jpg": photo.replace(struct.pack(">HH", 300, 400), b"\xff\xff\xff\xff", 1),
        "tiff.tiff": b"II*\0\x08\0\0\0\xff\xff" + b"\xff" * 200,
        "webp.webp": b"RIFF\xff\xff\xff\xffWEBPVP8X" + b"\xff" * 30,
        "sixteen.png": sixteen.getvalue(),
        "rgb16.png": png(40, 30, 16, 2, b"\0" * 241 * 30),
        "cmyk.jpg": encoded("CMYK", "JPEG"),
        "float.tiff": encoded("F", "TIFF"),
        "int.tiff": encoded("I", "TIFF"),
        "bit.png": encoded("1", "PNG"),
        "la.png": encoded("LA", "PNG"),
        "palette.gif": encoded("P", "GIF"),
        "frames.gif": frames.getvalue(),
        "icc.png": encoded("RGB", "PNG", icc_profile=b"nonsense" * 99),
        "exif.jpg": encoded("RGB", "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\xff" * 99),
        "thin.png": encoded("L", "PNG", (1, 20_000)),
        "flat.png": encoded("L", "PNG", (20_000, 1)),
        "dot.png": encoded("L", "PNG", (1, 1)),
        "good.png": whole,
    }


STRANGE: dict[str, Callable[[Path], object]] = {
    "fifo.png": os.mkfifo,
    "folder.png": Path.mkdir,
    "nowhere.png": lambda path: path.symlink_to("missing"),
    "round.png": lambda path: path.symlink_to(path.name),
    "zeros.png": lambda path: path.symlink_to("/dev/zero"),
    "secret.png": lambda path: path.symlink_to("/etc/hostname"),
}


def pictures(folder: Path) -> Iterator[Finding]:
    """Ask a question about each picture; links to the outside have their own folder."""
    with hostile_server(lambda body, before: good()) as server:
        config = write_study(folder, server.url, ())
        data = folder / "questions"
        for name, content in files().items():
            (data / name).write_bytes(content)
        for name, make in STRANGE.items():
            make(data / name)
        inside = [*files(), "folder.png", "nowhere.png", "fifo.png"]
        write_rows(data, inside)
        ended = looktwice("run", config, "--out", folder / "runs", url=server.url, seconds=100)
        records = (
            RunFolder(folder / "runs/study").records().values()
            if (folder / "runs/study").exists()
            else ()
        )
        failed = sum(bool(record.error) for record in records)
        wrong = faults(ended, {0, 1}) + (
            [] if len(records) == len(inside) else [f"{len(records)} records"]
        )
        wrong += ["Ghostscript was started"] if Path("/tmp/soak-was-here").exists() else []
        figure = (
            f"{len(records) - failed} asked, {failed} failed their sample, {ended.seconds:.0f} s"
        )
        yield finding("pictures", f"{len(inside)} hostile pictures", figure, wrong, ended)
        for line in (["score"], ["score", "--report"], ["view", "--sample", "eps.png"]):
            ended = looktwice(line[0], folder / "runs/study", *line[1:], url=server.url)
            yield finding("pictures", line[0], f"exit {ended.code}", faults(ended, {0}), ended)
        for name in ("round.png", "zeros.png", "secret.png"):
            write_rows(data, [name])
            asked = len(server.exchanges)
            ended = looktwice("run", config, "--out", folder / name, url=server.url, seconds=30)
            wrong = faults(ended, {1, 2}) + (
                ["it was sent"] if len(server.exchanges) > asked else []
            )
            yield finding("pictures", f"a link: {name}", f"exit {ended.code}", wrong, ended)


def write_rows(data: Path, names: list[str]) -> None:
    """Write a question for each picture."""
    rows = [
        {"id": name, "question": "Is it?", "choices": ["yes", "no"], "answer": "A", "image": name}
        for name in names
    ]
    (data / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
