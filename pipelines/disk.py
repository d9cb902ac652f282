"""Files as they are read and written: what never ends is refused, and a file appears whole or not
at all.

And what can be told of the bytes of a JPEG or PNG without decoding them.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import stat
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = (
    1 << 30
)  # of a file that is read whole; a hole in a file takes no room on the disk and fills any memory
MOST_LINE = 1 << 28  # bytes; a longer line is damage, and is not read into memory
DQT, DHT, DRI, SOF0, SOS, EOI = 0xDB, 0xC4, 0xDD, 0xC0, 0xDA, b"\xff\xd9"
MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7]")  # within a scan: neither a byte of it nor a restart
PNG_CHANNELS = {0: 1, 2: 3}  # of grey and RGB; the others are decoded to be sent
__all__: list[str] = []


def open_file(path: Path) -> BinaryIO:
    """A file to read. Raises OSError, also for a pipe or a device, whose content may never come or
    never end."""
    _size_of(path)
    return path.open("rb")


def open_unpacked(path: Path) -> BinaryIO | BufferedIOBase:
    """As `open_file`; a file that ends with `.gz` is unpacked, and reading it also raises EOFError
    and zlib.error."""
    _size_of(path)
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def unpacked_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, plain or `.gz`. Raises OSError that names it, also where it is torn or a
    line too long."""
    try:
        with open_unpacked(path) as file:
            yield from read_lines(file)
    except (OSError, EOFError, ValueError, zlib.error) as exc:
        raise OSError(
            f"{path} cannot be read ({exc}); expected lines of text, plain or .gz"
        ) from exc


def read_file(path: Path) -> bytes:
    """The content of a file. Raises OSError as `open_file` does, and for more than `MOST_BYTES`.

    In few system calls: threads that each make many of them wait for each other.
    """
    if (size := _size_of(path)) > MOST_BYTES:
        raise OSError(
            errno.EINVAL, f"it has {size:,} bytes; {MOST_BYTES:,} are the most", str(path)
        )
    with open(path, "rb", buffering=0) as file:
        data = file.read(size + 1)
        return data if len(data) == size else data + file.readall()


def _size_of(path: Path) -> int:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return found.st_size


def read_lines(file: BinaryIO | BufferedIOBase) -> Iterator[bytes]:
    """The lines of an open file. Raises ValueError for one that is longer than `MOST_LINE`."""
    while line := file.readline(MOST_LINE):
        if len(line) == MOST_LINE:
            raise ValueError(f"longer than {MOST_LINE >> 20} MiB")
        yield line


def write_file(path: Path, data: bytes | str) -> None:
    r"""Write a file that appears whole or not at all; half a character of a text as `\udce9`.

    Raises OSError as `whole_file` does.
    """
    with whole_file(path, buffering=0) as file:
        _write_all(file, data.encode(errors="backslashreplace") if isinstance(data, str) else data)


@contextmanager
def whole_file(path: Path, buffering: int = -1) -> Iterator[BinaryIO]:
    """A file to write that appears at the end, whichever thread or process writes it too.

    Raises OSError that names it, such as where the disk is full; nothing half-written stays behind.
    """
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with _create(draft, buffering) as file:
            yield file
        os.replace(draft, path)
    except BaseException as exc:
        with suppress(OSError):  # where a folder of its path is a file, there is nothing to remove
            os.unlink(draft)
        if isinstance(exc, OSError) and exc.filename in (None, draft):
            raise OSError(exc.errno, exc.strerror, str(path)) from exc
        raise


def _create(path: str, buffering: int) -> Any:
    try:
        return open(path, "wb", buffering)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return open(path, "wb", buffering)


def _write_all(file: BinaryIO | RawIOBase, data: bytes) -> None:
    """Into an unbuffered file, which takes as much at once as it will."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def append_file(path: Path, data: bytes) -> None:
    """Write lines behind what is in a file: as many whole ones as there is room for. Raises OSError
    that names it."""
    with path.open(
        "ab", buffering=0
    ) as file:  # a buffer would be written again when the file is closed
        end = file.tell()
        try:
            _write_all(file, data)
        except OSError as exc:  # half a line would make the whole file unreadable
            written = file.tell() - end
            file.truncate(end + data.rfind(b"\n", 0, written) + 1)
            raise OSError(exc.errno, exc.strerror, str(path)) from exc


def unpack_rows(data: bytes) -> None:
    """Raises ValueError or zlib.error unless a PNG surely decodes: checksums are also right around
    rubbish.

    That is where its data hold all rows, each by a known filter, in one pass, and the end follows.
    """
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    row = 1 + (width * depth * PNG_CHANNELS[colour] + 7) // 8
    packed, at = list[memoryview](), 8
    while at < len(data) and ((kind := data[at + 4 : at + 8]) == b"IDAT" or not packed):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        packed += [memoryview(data)[at + 8 : end]] if kind == b"IDAT" else []
        at = end + 4
    rows = zlib.decompressobj().decompress(b"".join(packed), height * row)
    if (
        interlaced
        or data[at + 4 : at + 8] != b"IEND"
        or len(rows) != height * row
        or max(rows[::row]) > 4
    ):
        raise ValueError("to be decoded, to be sure")


def jpeg_tables(data: bytes) -> bytes:
    """All by which a JPEG of one whole baseline scan is read, but its size; nothing for one that is
    built otherwise.

    libjpeg reads on over wrong bits within a scan and raises only for what stands before it, or for
    its missing end.
    """
    at, found = 2, b""
    while data[at : at + 1] == b"\xff" and at + 4 <= len(data):
        kind, end = data[at + 1], at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        part = data[at + 1 : end]
        if kind in (DQT, DHT, DRI, SOF0, SOS):
            found += part[:4] + part[8:] if kind == SOF0 else part
        elif not (0xE0 <= kind <= 0xEF or kind == 0xFE):  # what programs and people noted
            return b""
        if kind == SOS:
            last = MARKER.search(data, end)
            return found if last and last.start() == len(data) - 2 and last[0] == EOI else b""
        at = end
    return b""
