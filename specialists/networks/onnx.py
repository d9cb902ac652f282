"""Networks in ONNX files, run by OpenCV alone: no torch, no other runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.clock import spend
from looktwice.pipelines.runtime.networks import WeightsError, first_line, open_shared, weights_file
from looktwice.specialists.networks.packages import find_package_file

Floats = NDArray[np.float32]

METADATA = 14  # number of the field of an ONNX model that holds pairs of key and value


class PackageFile(NamedTuple):
    """A file of weights in a package that is never imported: its name on the index, its folder, the
    file, `install`."""

    distribution: str
    folder: str
    parts: tuple[str, ...]
    install: str = ""

    def path(self, own: Path | None) -> Path:
        """The file, or the one that a user gave instead. Raises WeightsError with what to type."""
        if own is not None:
            return weights_file(own)
        return find_package_file(self.distribution, self.folder, *self.parts, install=self.install)


@dataclass(frozen=True, eq=False)
class OnnxNetwork:
    """An opened network. It keeps the shape of its last input, so one thread runs it at a time."""

    file: Path
    network: Any
    turn: Any = field(default_factory=threading.Lock)

    def run(self, images: Floats) -> list[Floats]:
        """All outputs for one batch. Raises WeightsError where the network does not take it."""
        with self.turn, spend("networks"):
            try:
                self.network.setInput(images)
                return [
                    output.copy()
                    for output in self.network.forward(self.network.getUnconnectedOutLayersNames())
                ]
            except cv2.error as exc:
                shape = " x ".join(map(str, images.shape))
                raise WeightsError(
                    f"{self.file} takes no batch of {shape} ({_said(exc)}); give its own file"
                ) from exc


def open_onnx(file: Path, edit: Callable[[bytes], bytes] = bytes) -> OnnxNetwork:
    """The network of a file, opened once per process; `edit` may change its bytes first. Raises
    WeightsError."""
    return open_shared(("onnx", str(file), edit), lambda: _open(file, edit(file.read_bytes())))


def _open(file: Path, content: bytes) -> OnnxNetwork:
    try:
        return OnnxNetwork(file, cv2.dnn.readNetFromONNX(np.frombuffer(content, np.uint8)))
    except cv2.error as exc:
        raise WeightsError(
            f"{file} is no ONNX network that OpenCV {cv2.__version__} reads ({_said(exc)}); fetch"
            " it again"
        ) from exc


def _said(exc: cv2.error) -> str:
    return first_line(exc).rpartition("error: ")[2]


def read_metadata(file: Path) -> dict[str, str]:
    """The texts by key that an ONNX file carries beside its network, which OpenCV does not tell."""
    pairs = [
        dict(_fields(value)) for number, value in _fields(file.read_bytes()) if number == METADATA
    ]
    return {pair[1].decode(): pair.get(2, b"").decode() for pair in pairs}


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of the fields of a protobuf message that have a length; numbers are passed
    over."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        kind = tag & 7
        if kind == 2:
            size, place = _varint(message, place)
            yield tag >> 3, message[place : place + size]
            place += size
        elif kind == 0:
            _, place = _varint(message, place)
        else:
            place += 8 if kind == 1 else 4


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """The number that begins at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[place]
        place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, place
