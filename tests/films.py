"""Videos made for tests: a red square that moves to the right, on a ground that brightens from
frame to frame."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.optional import optional

av = optional("av")
SIDE = 12  # pixels of the square
SIZE = 96, 64
TOP = 24
RED = 240, 16, 16
VARIABLE = (0.0, 0.1, 0.2, 0.5, 1.0, 1.05, 1.1, 1.5, 2.0, 3.0, 5.0, 6.0)
"""Times of a variable frame rate."""


def constant(seconds: float, fps: int = 30) -> list[float]:
    """Return the times of frames at a constant rate."""
    return [number / fps for number in range(round(seconds * fps))]


def place(number: int, count: int) -> tuple[float, float]:
    """Return the centre of the square in a frame, in pixel-centre coordinates."""
    left = 2 * round((SIZE[0] - SIDE) * number / count / 2)
    return left + (SIDE - 1) / 2, TOP + (SIDE - 1) / 2


def draw(number: int, count: int) -> NDArray[np.uint8]:
    """Return the pixels of one frame."""
    pixels = np.full((SIZE[1], SIZE[0], 3), 40 + 150 * number // count, np.uint8)
    left = round(place(number, count)[0] - (SIDE - 1) / 2)
    pixels[TOP : TOP + SIDE, left : left + SIDE] = RED
    return pixels


def make_film(
    path: Path,
    times: Sequence[float],
    codec: str = "libx264",
    offset: float = 0.0,
    options: Mapping[str, str] = {},
) -> Path:
    """Write a video with frames at these times, with B-frames and a key frame every 15."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tick = Fraction(1, {".mkv": 1000, ".webm": 1000, ".avi": 30}.get(path.suffix, 90_000))
    given = {"bf": "2", "g": "15", "threads": "1", **options}
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=30, options=given)
        stream.width, stream.height = SIZE
        stream.pix_fmt, stream.time_base = "yuv420p", tick
        stream.codec_context.time_base = tick
        for number, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(draw(number, len(times)), format="rgb24")
            frame.pts, frame.time_base = round((time + offset) / tick), tick
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def turn_film(path: Path) -> Path:
    """Make an MP4 show its frames a quarter turn clockwise, by the matrix in its track header."""
    data = bytearray(path.read_bytes())
    start = data.find(b"tkhd") + 4 + 4 + 20 + 16
    quarter = (0, 1 << 16, 0, -1 << 16, 0, 0, SIZE[1] << 16, 0, 1 << 30)
    data[start : start + 36] = b"".join(n.to_bytes(4, "big", signed=True) for n in quarter)
    path.write_bytes(data)
    return path


def decode_film(path: Path) -> list[tuple[float, NDArray[np.uint8]]]:
    """Return (time from the first frame, pixels as stored) of every frame, decoded in order by
    PyAV alone."""
    with av.open(str(path)) as container:
        frames = [
            (f.pts * f.time_base, f.to_ndarray(format="rgb24")) for f in container.decode(video=0)
        ]
    return [(float(time - frames[0][0]), pixels) for time, pixels in frames]


def find_square(pixels: NDArray[np.uint8]) -> tuple[float, float]:
    """Return the centre of the red pixels, in pixel-centre coordinates."""
    red = pixels.astype(int)
    ys, xs = np.nonzero((red[..., 0] > 150) & (red[..., 1] < 90))
    return float(xs.mean()), float(ys.mean())
