"""TFRecord files of `tf.train.Example`, read without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct

from looktwice.eval.tasks.base import TaskError

RECORD_HEADER = Struct("<QI")
"""The header of a record: the record's length in bytes, and a checksum of the length."""
CHECKSUM_BYTES = 4  # bytes after a record
MAX_RECORD_BYTES = 1 << 30  # bytes of a record
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types of protocol buffers' fields."""
Values = list[bytes] | list[int]
"""The values of a feature: byte strings or whole numbers."""
Fields = Iterator[tuple[int, int, bytes | int]]


def find_records(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the offset and the length of every record of a file. Raises TaskError if the file is
    truncated or is not a TFRecord file.

    Checksums are not verified, since computing them takes longer than reading the images.
    """
    total, position = path.stat().st_size, 0
    with path.open("rb") as file:
        while position < total:
            file.seek(position)
            head = file.read(RECORD_HEADER.size)
            length = (
                RECORD_HEADER.unpack(head)[0]
                if len(head) == RECORD_HEADER.size
                else MAX_RECORD_BYTES
            )
            start = position + RECORD_HEADER.size
            position = start + length + CHECKSUM_BYTES
            if length >= MAX_RECORD_BYTES or position > total:
                raise TaskError(
                    f"{path}: the record at byte {start} extends beyond the end of the file; it is"
                    " not a TFRecord file, or the download is incomplete"
                )
            yield start, length


def read_record(path: Path, start: int, length: int) -> bytes:
    """Return the bytes of a record."""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(length)


def parse_example(record: bytes) -> Mapping[str, Values]:
    """Parse the features of a `tf.train.Example`, except for floats. Raises ValueError for other
    bytes."""
    features = dict[str, Values]()
    for content in _select_fields(record, 1):  # Example.features
        for entry in _select_fields(content, 1):  # Features.feature, a map
            name, value = "", b""
            for number, _, part in _iterate_fields(entry):
                if isinstance(part, bytes):
                    name, value = (part.decode(), value) if number == 1 else (name, part)
            features[name] = _parse_feature(value)
    return features


def _parse_feature(feature: bytes) -> Values:
    texts, numbers = list[bytes](), list[int]()
    for kind, _, listed in _iterate_fields(feature):  # 1: BytesList, 2: FloatList, 3: Int64List
        if not isinstance(listed, bytes) or kind == 2:
            continue
        for _, type_, value in _iterate_fields(listed):
            if isinstance(value, int):
                numbers.append(value)
            elif kind == 1:
                texts.append(value)
            elif type_ == BYTES:  # packed
                position = 0
                while position < len(value):
                    number, position = _read_varint(value, position)
                    numbers.append(number)
    return texts or numbers


def _select_fields(message: bytes, wanted: int) -> Iterator[bytes]:
    for number, _, value in _iterate_fields(message):
        if number == wanted and isinstance(value, bytes):
            yield value


def _iterate_fields(message: bytes) -> Fields:
    """Yield the number, wire type and value of every field of a message. Raises ValueError."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = _read_varint(message, position)
            yield tag >> 3, kind, value
            continue
        if kind == BYTES:
            length, position = _read_varint(message, position)
        elif kind in (FIXED32, FIXED64):
            length = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"a field has the unknown type {kind}")
        if position + length > len(message):
            raise ValueError("a field extends beyond the end of its record")
        yield tag >> 3, kind, message[position : position + length]
        position += length


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while position < len(message) and shift < 64:
        byte = message[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number - (1 << 64) if number >> 63 else number, position
    raise ValueError("a number extends beyond the end of its record")
