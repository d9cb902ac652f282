"""Safe reading and writing of files and YAML.

Writes are atomic. Pipes and devices are refused because reading them may never end, and so is YAML
that would expand beyond the available memory.
"""

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
from typing import Any, BinaryIO

import yaml

MAX_FILE_BYTES = 1 << 30  # for a file that is read whole; a sparse file may be larger than the disk
MAX_LINE_BYTES = 1 << 28  # bytes; a longer line is damage and is not read into memory
__all__: list[str] = []
MAX_NESTING_DEPTH = 50
MAX_ALIASED_VALUES = 1_000_000
NESTING_ERROR = f"nested more than {MAX_NESTING_DEPTH} levels deep, at line {{}}"
BINARY_TAG = "tag:yaml.org,2002:binary"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError, including for a pipe or a device."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return path.open("rb")


def open_unpacked(path: Path) -> BinaryIO | BufferedIOBase:
    """Open a file like `open_file`, and decompress it if its name ends in `.gz`; reading then may
    also raise EOFError and zlib.error."""
    file = open_file(path)
    if path.suffix != ".gz":
        return file
    file.close()
    return gzip.open(path)


def read_unpacked_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a plain or `.gz` file. Raises OSError that names the file, including when
    it is truncated or a line is too long."""
    try:
        with open_unpacked(path) as file:
            yield from read_lines(file)
    except (OSError, EOFError, ValueError, zlib.error) as exc:
        raise OSError(
            f"{path} cannot be read ({exc}); expected lines of text, plain or .gz"
        ) from exc


def read_file(path: Path) -> bytes:
    """Read a whole file. Raises OSError as `open_file` does, and for more than `MAX_FILE_BYTES`."""
    with open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > MAX_FILE_BYTES:
            fault = f"it has {size:,} bytes, more than the limit of {MAX_FILE_BYTES:,}"
            raise OSError(errno.EINVAL, fault, str(path))
        return file.read()


def read_lines(file: BinaryIO | BufferedIOBase) -> Iterator[bytes]:
    """Yield the lines of an open file. Raises ValueError for a line longer than
    `MAX_LINE_BYTES`."""
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES:
            raise ValueError(f"longer than {MAX_LINE_BYTES >> 20} MiB")
        yield line


def has_text(path: Path, text: bytes) -> bool:
    """Return whether a file contains this text. Raises OSError as `open_file` does."""
    with open_file(path) as file:
        last = b""
        while part := file.read(1 << 20):
            if text in last + part:
                return True
            last = part[-len(text) :]
    return False


def write_file(path: Path, data: bytes | str) -> None:
    r"""Write a file atomically; a lone surrogate in text is written as an escape such as `\udce9`.

    Raises OSError as `open_atomic` does.
    """
    with open_atomic(path) as file:
        file.write(data.encode(errors="backslashreplace") if isinstance(data, str) else data)


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete, even if other threads or
    processes write it at the same time.

    Raises OSError that names the file, for example when the disk is full; no partial file remains.
    """
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        try:
            file = open(draft, "wb")  # noqa: SIM115
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(draft, "wb")  # noqa: SIM115
        with file:
            yield file
        os.replace(draft, path)
    except BaseException as exc:
        with suppress(OSError):  # nothing to remove if a parent of the path is a file
            os.unlink(draft)
        if isinstance(exc, OSError) and exc.filename in (None, draft):
            raise OSError(exc.errno, exc.strerror, str(path)) from exc
        raise


def append_file(path: Path, data: bytes) -> None:
    """Append lines to a file, and drop a partly written line when the disk is full. Raises OSError
    that names the file."""
    # a buffer would be written again when the file is closed
    with path.open("ab", buffering=0) as file:
        end, written = file.tell(), 0
        try:
            while written < len(data):
                written += file.write(data[written:]) or 0
        except OSError as exc:  # half a line would make the whole file unreadable
            file.truncate(end + data.rfind(b"\n", 0, written) + 1)
            raise OSError(exc.errno, exc.strerror, str(path)) from exc


class _Dumper(yaml.SafeDumper):
    """A dumper whose text survives a round trip: PyYAML leaves U+0085 unquoted, and then reads it
    as a line break."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    whole = text.encode(errors="backslashreplace").decode()  # a file name may not be UTF-8
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", whole, style='"' if "\x85" in whole else None
    )


_Dumper.add_representer(str, _represent_text)


def dump_yaml(value: Any, width: int = 80) -> str:
    r"""Dump a value as YAML that `LOADER` can read; lone surrogates, as from `os.fsdecode`,
    become escapes such as `\udce9`."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width)


def _iterate_events(text: str) -> Iterator[Any]:
    """Yield the parser events of a YAML text. PyYAML 6.0.4 rejects deep nesting itself."""
    try:
        yield from yaml.parse(text, Loader=LOADER)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        # a mark past the end is on no line
        line = "".join(text.splitlines()[mark.line : mark.line + 1]) if mark is not None else ""
        if mark is not None and line.startswith("\t", mark.column):
            exc.problem = "found a tab; YAML is indented with spaces"
        if mark is None or "nesting depth" not in str(exc.problem):
            raise
        raise ValueError(NESTING_ERROR.format(mark.line + 1)) from exc


def check_yaml(text: str) -> None:
    """Check that YAML is safe to load. Raises ValueError for more than 50 levels of nesting, for
    !!binary, and for aliases that repeat more than a million values.

    A few lines with aliases of aliases can expand beyond any memory. Raises yaml.YAMLError for
    malformed text.
    """
    values, repeated = 0, 0
    inside: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    for event in _iterate_events(text):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError(
                    f"*{event.anchor} refers to no anchor, or to itself, at line {line}"
                )
            repeated += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            inside.append((event.anchor, values + repeated))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = inside.pop()
            sizes[anchor] = values + repeated - before
        elif isinstance(event, yaml.ScalarEvent):
            if event.tag == BINARY_TAG:
                raise ValueError(
                    f"!!binary is not supported, at line {line}; write the text itself"
                )
            values += 1
            sizes[event.anchor] = 1
        if len(inside) > MAX_NESTING_DEPTH:
            raise ValueError(NESTING_ERROR.format(line))
        if repeated > MAX_ALIASED_VALUES:
            raise ValueError(
                f"aliases repeat more than {MAX_ALIASED_VALUES:,} values, at line {line}"
            )
