"""Frames of a video file as pictures with their times, decoded with OpenCV on first use."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from looktwice.pipelines.picture import Picture, PictureError, Pixels


def choose_frames(count: int, rate: float, frames: int | None, fps: float | None) -> list[int]:
    """Return the indices of the frames to show from a video of `count` frames, `rate` per second.

    Choose `frames` frames, evenly spaced from the first to the last, or one frame every 1/`fps`
    seconds from the first on; fewer if the video has fewer. Raises ValueError unless exactly one of
    the two is given.
    """
    if (frames is None) == (fps is None):
        raise ValueError(f"set either frames or fps, found frames={frames} and fps={fps}")
    if count < 1:
        return []
    if frames is not None:
        chosen = np.linspace(0, count - 1, min(frames, count)).round()
    else:
        step = max(rate / (fps or 1.0), 1.0) if rate > 0 else 1.0
        chosen = np.floor(np.arange(0, count, step))
    return sorted({int(number) for number in chosen})


@dataclass(eq=False)
class VideoFrames:
    """The chosen frames of one video: their `times` in seconds, and `pictures`, which are decoded
    together on first use.

    The header gives the number of frames; if fewer can be decoded, the frames are chosen again
    among those. A video that cannot be decoded gives one picture, which raises PictureError when it
    is read. `source` is the path of the file, or a function that returns its bytes, which are
    decoded from a temporary file.
    """

    source: Path | Callable[[], bytes]
    name: str
    frames: int | None = 8
    fps: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    decoded_pictures: list[Picture] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        with self._open_on_disk() as path:
            capture = cv2.VideoCapture(str(path))
            self.count = max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))
            self.rate = float(capture.get(cv2.CAP_PROP_FPS))
            capture.release()
        self.numbers = choose_frames(self.count, self.rate, self.frames, self.fps)

    @property
    def times(self) -> list[float]:
        """The timestamp of each frame in seconds from the start of the video; 0 for all frames if
        the file has no frame rate."""
        return [round(number / self.rate, 3) if self.rate > 0 else 0.0 for number in self.numbers]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The chosen frames; decoding starts when one of them is first read."""
        return tuple(
            Picture.lazy(self._make_decoder(index), f"{self.name} frame {number}")
            for index, number in enumerate(self.numbers or [0])
        )

    def _make_decoder(self, index: int) -> Callable[[], bytes]:
        def fetch() -> bytes:
            with self.lock:
                if self.decoded_pictures is None:
                    self.decoded_pictures = [
                        Picture(pixels, self.name) for pixels in self._decode()
                    ]
                return self.decoded_pictures[index].payload.data

        return fetch

    def _decode(self) -> list[Pixels]:
        if not self.numbers:
            raise PictureError(
                f"{self.name}: the video cannot be decoded (no frames found); download it again"
            )
        with self._open_on_disk() as path:
            frames, seen = _decode_frames(path, self.numbers)
            if seen and len(frames) < len(self.numbers):
                frames, _ = _decode_frames(
                    path, choose_frames(seen, self.rate, len(self.numbers), None)
                )
        if len(frames) < len(self.numbers):
            raise PictureError(
                f"{self.name}: the video ends after {seen} of {self.count} frames, too few to show"
                f" {len(self.numbers)}"
            )
        return frames

    @contextmanager
    def _open_on_disk(self) -> Iterator[Path]:
        if isinstance(self.source, Path):
            yield self.source
            return
        with tempfile.TemporaryDirectory(prefix="looktwice-") as folder:
            path = Path(folder) / Path(self.name).name
            path.write_bytes(self.source())
            yield path


def _decode_frames(path: Path, numbers: Sequence[int]) -> tuple[list[Pixels], int]:
    """Decode the frames with these ascending indices as RGB, in sequence (seeking is not exact);
    also return how many frames the video has up to the last of them."""
    capture, wanted, seen = cv2.VideoCapture(str(path)), set(numbers), 0
    frames: list[Pixels] = []
    try:
        while seen <= max(numbers) and capture.grab():
            if seen in wanted:
                ok, frame = capture.retrieve()
                if not ok or frame is None:
                    break
                frames.append(np.ascontiguousarray(frame[:, :, ::-1], dtype=np.uint8))
            seen += 1
        return frames, seen
    finally:
        capture.release()
