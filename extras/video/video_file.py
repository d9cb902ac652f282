"""A video file: the time of each frame, read without decoding, and exact frames, decoded with
PyAV."""

from __future__ import annotations

import io
import math
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.picture import Picture, PictureError, Pixels
from looktwice.pipelines.runtime.install import format_install

FORMAT_SIGNATURES = {
    "mp4": (4, (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")),
    "matroska": (0, (b"\x1aE\xdf\xa3",)),
    "avi": (8, (b"AVI ",)),
    "gif": (0, (b"GIF8",)),
    "mpegts": (0, (b"G",)),
    "mpeg": (0, (b"\0\0\1\xba",)),
    "flv": (0, (b"FLV",)),
    "ogg": (0, (b"OggS",)),
}
"""FFmpeg's name of each supported format, and the bytes that identify it at an offset.

Other formats are refused by name and content: a playlist could make FFmpeg open other files."""
PACKET_BYTES = 188  # bytes between the sync bytes of an MPEG transport stream
HEAD_BYTES = PACKET_BYTES + 12  # bytes at the start of a file from which its format is recognised
FORMAT_NAMES = "MP4, MOV, MKV, WebM, AVI, MPEG, FLV, Ogg and GIF"
TIME_TOLERANCE = Fraction(1, 10**6)  # tolerance for times given in decimals, in seconds
MILLISECOND = Fraction(1, 1000)
"""The time base of Matroska, which rounds the times of frames; coarser time bases are exact."""


def find_format(head: bytes) -> str:
    """Return FFmpeg's name of a video file's format, given its first 200 bytes; "" if it is not a
    video."""
    for name, (offset, signatures) in FORMAT_SIGNATURES.items():
        if any(head.startswith(signature, offset) for signature in signatures):
            is_cut = name == "mpegts" and head[PACKET_BYTES : PACKET_BYTES + 1] != b"G"
            is_other = name == "avi" and not head.startswith(b"RIFF")
            if not is_cut and not is_other:
                return name
    return ""


def import_av() -> Any:
    """Import PyAV. Raises TaskError with the command that installs it."""
    try:
        import av
    except ImportError as exc:
        raise TaskError(f"videos need PyAV; install it with: {format_install('video')}") from exc
    return av


class FrameInfo(NamedTuple):
    """One frame: its timestamp in the file, and whether decoding can start there."""

    timestamp: int
    is_key: bool


@dataclass(eq=False)
class VideoFile:
    """A video file, whose bytes are read by the picture `source`.

    Times count from the first frame, whatever its timestamp is, and a frame is on screen until the
    next one. Pixels are upright: the rotation in the file's metadata is applied; they are not
    stretched to a display aspect ratio.
    """

    source: Picture
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._base, self.frames, end = self._scan()
        self.end = float((end - self.frames[0].timestamp) * self._base)

    @property
    def name(self) -> str:
        """The name of the file in error messages."""
        return self.source.name

    def find_frame(self, time: float) -> int:
        """Return the index of the frame that is on screen at a time. Raises PictureError for a time
        outside the video."""
        if not 0 <= time < self.end + TIME_TOLERANCE:
            raise PictureError(
                f"{self.name}: there is no frame at {time:g} s, the video has {self.end:g} s"
            )
        tolerance = min(self._base, MILLISECOND) / 2 + TIME_TOLERANCE
        ticks = self.frames[0].timestamp + math.floor((Fraction(time) + tolerance) / self._base)
        return bisect_right(self.frames, ticks, key=lambda entry: entry.timestamp) - 1

    def get_time(self, number: int) -> float:
        """Return the time of a frame, in seconds from the first."""
        return float((self.frames[number].timestamp - self.frames[0].timestamp) * self._base)

    def decode(self, numbers: Sequence[int]) -> dict[int, Pixels]:
        """Decode the frames with these indices as RGB. Raises PictureError for a frame that cannot
        be decoded."""
        wanted = {self.frames[number].timestamp: number for number in numbers}
        keys = [entry.timestamp for entry in self.frames if entry.is_key]
        found = dict[int, Pixels]()
        for starts in (keys, []):  # decode again without seeking, in case the file's index is wrong
            if lost := sorted(wanted.keys() - found.keys()):
                with self.lock, self._open() as (container, stream):
                    found |= self._decode_from(container, stream, lost, starts)
        if lost := [number for stamp, number in wanted.items() if stamp not in found]:
            raise PictureError(
                f"{self.name}: the frame at {round(self.get_time(min(lost)), 3):g} s cannot be"
                " decoded; the file may be damaged, fetch it again"
            )
        return {wanted[timestamp]: pixels for timestamp, pixels in found.items()}

    def _decode_from(
        self, container: Any, stream: Any, timestamps: Sequence[int], keys: Sequence[int]
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield the undamaged frames with these ascending timestamps; before each, seek to the last
        key frame (of `keys`), or go on from the frame before, whichever is nearer."""
        at, rest = self.frames[0].timestamp - 1, list(timestamps)
        frames = container.decode(stream)
        while rest:
            start = max((key for key in keys if key <= rest[0]), default=at)
            if start > max(at, self.frames[0].timestamp):
                container.seek(start, stream=stream)
                frames = container.decode(stream)
            for frame in frames:
                at = frame.pts if frame.pts is not None else at
                if at >= rest[0]:
                    break
            else:
                return
            if at == rest[0] and not frame.is_corrupt:
                yield at, make_upright(frame)
            rest = [timestamp for timestamp in rest if timestamp > at]

    def _scan(self) -> tuple[Fraction, tuple[FrameInfo, ...], int]:
        """Return the length of a tick in seconds, the frames in the order of their times, and the
        timestamp at which the last frame ends."""
        with self._open() as (container, stream):
            base = stream.time_base
            packets = (p for p in container.demux(stream) if p.size and not p.is_discard)
            stamps = [(p.pts, p.is_keyframe, p.duration or 0) for p in packets]
        if any(pts is None for pts, _, _ in stamps):  # only the decoder knows their order
            with self._open() as (container, stream):
                stamps = [(f.pts, f.key_frame, f.duration or 0) for f in container.decode(stream)]
        known = sorted({s[0]: s for s in stamps if s[0] is not None}.values())
        if not known:
            raise PictureError(f"{self.name}: the video has no frames; fetch the file again")
        first, last = known[0][0], known[-1][0]
        step = known[-1][2] or (last - first) // max(1, len(known) - 1) or 1
        return base, tuple(FrameInfo(pts, key) for pts, key, _ in known), last + step

    @contextmanager
    def _open(self) -> Iterator[tuple[Any, Any]]:
        """Open the container and its video stream; convert FFmpeg's errors to PictureError."""
        av = import_av()
        file: Any = None
        try:
            path = self.source.path
            if path is not None and not path.exists() and not self.source.is_there():
                raise PictureError(f"{self.name}: there is no such video file")
            is_file = path is not None and path.is_file() and self.source.is_there()
            file = path.open("rb") if path and is_file else io.BytesIO(self.source.fetch())
            head = file.read(HEAD_BYTES)
            kind = find_format(head)
            if not kind:
                content = f"it begins with {head[:8]!r}" if head else "it is empty"
                raise PictureError(
                    f"{self.name}: not a video, {content}; the supported formats are {FORMAT_NAMES}"
                )
            file.seek(0)
            with av.open(file, format=kind) as container:
                stream = container.streams.best("video")
                if stream is None:
                    raise PictureError(f"{self.name}: the file has no video stream, only sound")
                yield container, stream
        except (av.FFmpegError, OSError) as exc:
            raise PictureError(
                f"{self.name}: the video is truncated or damaged ({exc.strerror}); fetch it again"
            ) from exc
        finally:
            if file is not None:
                file.close()


def make_upright(frame: Any) -> Pixels:
    """Return the pixels of a PyAV frame as RGB, rotated by the angle in the file's metadata."""
    pixels = frame.to_ndarray(format="rgb24")
    return np.ascontiguousarray(np.rot90(pixels, frame.rotation // 90))
