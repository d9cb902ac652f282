"""Files as they are read and written: a file appears whole or not at all, and a pipe or device is
refused, because its content may never come or never end."""

from __future__ import annotations

import errno
import gzip
import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 1 << 30  # of a file that is read whole: a hole in it takes no room on the disk
MOST_LINE = 1 << 28  # bytes; a longer line is damage, and is not read into memory
__all__: list[str] = []


def open_file(path: Path) -> BinaryIO:
    """A file to read. Raises OSError, also for a pipe or a device."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return path.open("rb")


def open_unpacked(path: Path) -> BinaryIO | BufferedIOBase:
    """As `open_file`; a file that ends with `.gz` is unpacked, and reading it also raises EOFError
    and zlib.error."""
    file = open_file(path)
    if path.suffix != ".gz":
        return file
    file.close()
    return gzip.open(path)


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
    """The content of a file. Raises OSError as `open_file` does, and for more than `MOST_BYTES`."""
    with open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > MOST_BYTES:
            fault = f"it has {size:,} bytes; {MOST_BYTES:,} are the most"
            raise OSError(errno.EINVAL, fault, str(path))
        return file.read()


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
    with whole_file(path) as file:
        file.write(data.encode(errors="backslashreplace") if isinstance(data, str) else data)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears at the end, whichever thread or process writes it too.

    Raises OSError that names it, such as where the disk is full; nothing half-written stays behind.
    """
    draft = Path(f"{path}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            yield file
        draft.replace(path)
    except BaseException as exc:
        with suppress(OSError):  # where a folder of its path is a file, there is nothing to remove
            draft.unlink()
        if isinstance(exc, OSError) and exc.filename in (None, str(draft)):
            raise OSError(exc.errno, exc.strerror, str(path)) from exc
        raise


def append_file(path: Path, data: bytes) -> None:
    """Write lines behind what is in a file: as many whole ones as there is room for. Raises OSError
    that names it."""
    # a buffer would be written again when the file is closed
    with path.open("ab", buffering=0) as file:
        end, written = file.tell(), 0
        try:
            while written < len(data):
                written += file.write(data[written:]) or 0
        except OSError as exc:  # half a line would make the whole file unreadable
            file.truncate(end + data.rfind(b"\n", 0, written) + 1)
            raise OSError(exc.errno, exc.strerror, str(path)) from exc
