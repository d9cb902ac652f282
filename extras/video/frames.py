"""The setting `video` of tasks, which chooses the frames of a video that a question shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.image_cells import make_broken_picture
from looktwice.eval.tasks.table_task import guess_column, require_known_columns
from looktwice.extras.video.video_file import VideoFile, import_av
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.picture import Picture, PictureError, Pixels
from looktwice.pipelines.sample import Sample

COLUMN_NAMES = "video_path video_file video videos clip video_name"
"""Common names of a column of videos."""


class Moment(NamedTuple):
    """A frame to show: its time in seconds, and its index in the file."""

    time: float
    frame_index: int


@dataclass(eq=False)
class Footage:
    """The frames of one video that a sample shows.

    They are decoded together when one of them is first read. The pixels of each are handed out once
    and not stored here, so that they are freed with their picture.
    """

    file: VideoFile
    moments: Sequence[Moment]
    untaken_pixels: dict[int, Pixels] = field(default_factory=dict, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take_pixels(self, place: int) -> Pixels:
        """Return the pixels of the moment with the index `place`. Raises PictureError."""
        with self.lock:
            if place not in self.untaken_pixels:
                frames = self.file.decode(sorted({moment.frame_index for moment in self.moments}))
                self.untaken_pixels = {n: frames[m.frame_index] for n, m in enumerate(self.moments)}
            return self.untaken_pixels.pop(place)


class Frame(Picture):
    """A frame of a video, decoded when its pixels are first needed."""

    footage: Footage
    moment_index: int

    @classmethod
    def from_footage(cls, footage: Footage, place: int) -> Frame:
        """Return the frame of the moment with the index `place`."""
        seconds = round(footage.moments[place].time, 3)
        frame = cls(np.zeros((1, 1, 3), np.uint8), f"{footage.file.name} at {seconds:g} s")
        frame._pixels, frame.footage, frame.moment_index = None, footage, place
        frame.seconds = seconds
        return frame

    @property
    def pixels(self) -> Pixels:
        """The pixels as read-only HxWx3 RGB uint8."""
        with self._lock:
            if self._pixels is None:
                pixels = self.footage.take_pixels(self.moment_index)
                pixels.flags.writeable = False
                self._pixels = pixels
            return self._pixels

    @property
    def sha(self) -> str:
        """The SHA-256 of the PNG that is sent, by which the frame is found in a run's folder."""
        return self.payload.sha

    @property
    def size(self) -> tuple[int, int]:
        """The width and height of the upright frame in pixels."""
        height, width = self.pixels.shape[:2]
        return width, height

    def _resize(self, shrink: Callable[[Image.Image], object]) -> Image.Image:
        image = Image.fromarray(self.pixels)
        shrink(image)
        return image


@dataclass(frozen=True)
class Video:
    """The choice of a video's frames that a question shows as images, for the setting `video` of
    `Folder`, `Columns` and `Tsv`. Needs PyAV (extra `video`).

    Set one of `frames`, `fps` and `times`. `frames: n` shows n frames, evenly spaced in time: with
    `spread: ends` at i L / (n - 1) seconds for i = 0 ... n - 1, where L is the time of the last
    frame; with `spread: middles` in the middle of n equal parts of the video, at (i + 1/2) D / n,
    where D is its duration. `fps: f` shows a frame every 1 / f seconds, at 0, 1 / f, 2 / f ... up
    to the last frame. `times` are in seconds. A time, counted from the first frame, selects the
    frame that is on screen then by the timestamps in the file, so variable frame rates and
    reordered frames are exact. With `at_marks`, the frames of marks with `seconds` are also shown.
    `column` is the column of the videos in a table (default: `video_path`, `video` and similar
    ones), and `most` the largest number of frames of a video.

    `meta["seconds"]` holds the times shown, and `meta["frame_numbers"]` the indices of their frames
    in the file. A sample fails if its video cannot be read, has no frame at a time or fewer frames
    than requested, or if a mark lies at a time whose frame is not shown. Raises TaskError if PyAV
    is not installed.
    """

    frames: int | None = None
    fps: float | None = None
    times: tuple[float, ...] = ()
    spread: Literal["ends", "middles"] = "ends"
    at_marks: bool = False
    column: str = ""
    most: int = 256

    def __post_init__(self) -> None:
        given = [self.frames is not None, self.fps is not None, bool(self.times)]
        if sum(given) != 1:
            raise TaskError(
                "set one of `frames` (how many), `fps` (per second) and `times` (in seconds), found"
                f" frames={self.frames}, fps={self.fps}, times={list(self.times)}"
            )
        if self.frames is not None and self.frames < 1:
            raise TaskError(f"`frames` must be 1 or more, found {self.frames}")
        if self.fps is not None and not self.fps > 0:
            raise TaskError(f"`fps` must be greater than 0, found {self.fps:g}")
        if wrong := [time for time in self.times if not time >= 0]:
            raise TaskError(f"`times` must be 0 or more seconds, found {wrong[0]:g}")
        if repeated := [time for time in self.times if self.times.count(time) > 1]:
            raise TaskError(f"`times` has {repeated[0]:g} twice; keep one of them")
        if max(self.frames or 0, len(self.times)) > self.most:
            raise TaskError(
                f"{self.frames or len(self.times)} frames are more than `most`, which is"
                f" {self.most}; raise `most` or take fewer frames"
            )

    def find_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the name of the table's column of videos. Raises TaskError."""
        column = self.column or guess_column(COLUMN_NAMES, names)
        if column is None:
            raise TaskError(
                "no column of videos was found; the table has the columns"
                f" {', '.join(names)}. Type: video: {{column: COLUMN}}"
            )
        require_known_columns((column,), names)
        return (column,)

    def read_moments(self, marks: Sequence[Mapping[str, Any]]) -> tuple[float | None, ...]:
        """Return the time of each mark in seconds, or None. Raises ValueError for a time that is
        not a number of 0 or more."""
        moments = tuple(mark.get("seconds") for mark in marks)
        for moment in moments:
            is_number = isinstance(moment, int | float) and not isinstance(moment, bool)
            if moment is not None and not (is_number and moment >= 0):
                raise ValueError(
                    f"`seconds` of a mark must be a time of 0 or more, found {moment!r}"
                )
        return moments

    def show_frames(self, sample: Sample, moments: tuple[float | None, ...]) -> Sample:
        """Replace the videos of a sample by their frames. Raises TaskError if PyAV is not
        installed."""
        import_av()
        try:
            if taken := sample.meta.keys() & {"seconds", "frame_numbers"}:
                raise PictureError(
                    f"sample {sample.id}: its `meta` has the key {min(taken)!r}, which is reserved"
                    " for the shown frames; rename the key"
                )
            footage = [
                Footage(file, self._choose_moments(place, file, sample, moments))
                for place, file in enumerate(map(VideoFile, sample.images))
            ]
            marks = _place_marks(sample, moments, footage)
        except PictureError as exc:
            name, _, why = str(exc).partition(": ")
            return replace(sample, images=(make_broken_picture(name, why),), marks=())
        pictures = tuple(
            Frame.from_footage(part, place)
            for part in footage
            for place, _ in enumerate(part.moments)
        )
        facts = {
            "seconds": [picture.seconds for picture in pictures],
            "frame_numbers": [moment.frame_index for part in footage for moment in part.moments],
        }
        return replace(sample, images=pictures, marks=marks, meta={**sample.meta, **facts})

    def _choose_moments(
        self, place: int, file: VideoFile, sample: Sample, moments: tuple[float | None, ...]
    ) -> list[Moment]:
        """Return the moments to show of the video with the index `place`, in the order of time.
        Raises PictureError."""
        times = self.choose_times(file)
        if len(times) > len(file.frames):
            raise PictureError(
                f"{file.name}: {len(times)} frames are asked for, but the video has only"
                f" {len(file.frames)}; set fewer `frames`, or a smaller `fps`"
            )
        chosen = [Moment(time, file.find_frame(time)) for time in times]
        for mark, time in zip(sample.marks, moments, strict=True) if self.at_marks else ():
            if time is not None and mark.image == place:
                marked = Moment(time, file.find_frame(time))
                is_shown = marked.frame_index in {moment.frame_index for moment in chosen}
                chosen += [] if is_shown else [marked]
        if len(chosen) > self.most:
            raise PictureError(
                f"{file.name}: {len(chosen)} frames are more than `most`, which is {self.most};"
                " set a smaller `fps`, or raise `most`"
            )
        return sorted(chosen)

    def choose_times(self, file: VideoFile) -> list[float]:
        """Return the times of the frames to show, in seconds from the video's first frame."""
        last = file.get_time(len(file.frames) - 1)
        if self.fps is not None:
            count = int(last * self.fps + 1e-6) + 1
            return [min(number / self.fps, last) for number in range(count)]
        if self.frames is None:
            return list(self.times)
        if self.spread == "middles":
            return [(number + 0.5) * file.end / self.frames for number in range(self.frames)]
        return [float(time) for time in np.linspace(0, last, self.frames)]


def _place_marks(
    sample: Sample, moments: tuple[float | None, ...], footage: Sequence[Footage]
) -> tuple[Mark, ...]:
    """Return the marks; each mark that has a time is moved to the image of its frame. Raises
    PictureError."""
    marks = list[Mark]()
    for mark, moment in zip(sample.marks, moments or (None,) * len(sample.marks), strict=True):
        if moment is None:
            marks.append(mark)
            continue
        if not 0 <= mark.image < len(footage):
            raise PictureError(
                f"mark {mark.label!r} is in video {mark.image} (counted from 0), but the sample has"
                f" {format_count(len(footage), 'video')}"
            )
        part = footage[mark.image]
        number, numbers = (
            part.file.find_frame(moment),
            [shown.frame_index for shown in part.moments],
        )
        if number not in numbers:
            times = ", ".join(f"{round(shown.time, 3):g}" for shown in part.moments)
            raise PictureError(
                f"mark {mark.label!r}: its frame at {moment:g} s is not shown, only those at"
                f" {times} s; set `at_marks: true` to show it as well"
            )
        before = sum(len(earlier.moments) for earlier in footage[: mark.image])
        marks.append(replace(mark, image=before + numbers.index(number)))
    return tuple(marks)
