"""A YuNet of one layer, written as an ONNX file by hand."""

from pathlib import Path

import numpy as np

STRIDES = (8, 16, 32)
CHANNELS = {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
FLOAT, INT64 = 1, 7  # of ONNX's element types


def yunet(path: Path) -> Path:
    """Write a network whose score for a cell of 8 x 8 pixels is sigmoid(mean level - 127.5)."""
    nodes, weights, outputs = [], [], []
    for kind, channels in CHANNELS.items():
        for stride in STRIDES:
            name = f"{kind}_{stride}"
            kernel = np.zeros((channels, 3, stride, stride), np.float32)
            bias = np.zeros(channels, np.float32)
            if kind in ("cls", "obj"):
                kernel[:] = 1 / kernel[0].size if stride == 8 else 0
                bias[:] = -127.5
            if kind == "bbox":
                # of the stride: its centre, and the logarithm of its size
                bias[:] = (0.5, 0.5, np.log(2), np.log(2))
            weights += [_tensor(f"{name}_w", kernel), _tensor(f"{name}_b", bias)]
            weights.append(_tensor(f"{name}_s", np.array([1, -1, channels], np.int64)))
            squash = "Sigmoid" if kind in ("cls", "obj") else "Identity"
            given, strides = ["input", f"{name}_w", f"{name}_b"], _ints("strides", [stride] * 2)
            nodes += [
                _node("Conv", given, f"{name}_c", strides),
                _node(squash, [f"{name}_c"], f"{name}_v"),
                _node("Transpose", [f"{name}_v"], f"{name}_t", _ints("perm", [0, 2, 3, 1])),
                _node("Reshape", [f"{name}_t", f"{name}_s"], name),
            ]
            outputs.append(_value(name, [1, "cells", channels]))
    graph = b"".join(_part(1, node) for node in nodes) + _part(2, b"tiny")
    graph += b"".join(_part(5, each) for each in weights)
    graph += _part(11, _value("input", [1, 3, "height", "width"]))
    graph += b"".join(_part(12, each) for each in outputs)
    path.write_bytes(_number(1, 8) + _part(7, graph) + _part(8, _part(1, b"") + _number(2, 13)))
    return path


def _varint(value: int) -> bytes:
    found = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _number(place: int, value: int) -> bytes:
    return _varint(place << 3) + _varint(value)


def _part(place: int, content: bytes) -> bytes:
    return _varint(place << 3 | 2) + _varint(len(content)) + content


def _tensor(name: str, values: np.ndarray) -> bytes:
    kind = INT64 if values.dtype == np.int64 else FLOAT
    sizes = b"".join(_number(1, size) for size in values.shape)
    return sizes + _number(2, kind) + _part(8, name.encode()) + _part(9, values.tobytes())


def _ints(name: str, values: list[int]) -> bytes:
    numbers = b"".join(_number(8, value) for value in values)
    return _part(1, name.encode()) + numbers + _number(20, 7)


def _node(kind: str, inputs: list[str], output: str, *attributes: bytes) -> bytes:
    node = b"".join(_part(1, name.encode()) for name in inputs)
    node += _part(2, output.encode()) + _part(3, output.encode()) + _part(4, kind.encode())
    return node + b"".join(_part(5, attribute) for attribute in attributes)


def _value(name: str, sizes: list[int | str]) -> bytes:
    shape = b"".join(
        _part(1, _number(1, size) if isinstance(size, int) else _part(2, size.encode()))
        for size in sizes
    )
    return _part(1, name.encode()) + _part(2, _part(1, _number(1, FLOAT) + _part(2, shape)))
