"""Sends frames as a video, to models that take one."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image
from pybase64 import b64encode

from looktwice.extras.video.frames import Footage, Frame
from looktwice.extras.video.video_file import HEAD, find_format, import_av
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Payload, Picture, Pixels
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View

MEDIA_TYPES = {
    "mp4": "video/mp4",
    "matroska": "video/x-matroska",
    "avi": "video/x-msvideo",
    "mpegts": "video/mp2t",
    "mpeg": "video/mpeg",
    "flv": "video/x-flv",
    "ogg": "video/ogg",
}
CLOCK = 90_000  # ticks of a second in the videos that are written


@dataclass(frozen=True)
class FrameList(Payload):
    """Frames as JPEG images, in base64 and joined by commas, as vLLM reads `video/jpeg`."""

    images: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def text(self) -> bytes:
        """The images in base64, joined by commas."""
        return b",".join(map(b64encode, self.images))


class Clip(Picture):
    """Frames that are sent as one video; its pixels are those of the first."""

    @classmethod
    def from_frames(cls, frames: Sequence[Pixels], payload: Payload) -> Clip:
        """Return the frames with the payload in which they are sent."""
        clip = cls(frames[0], "a video")
        clip.frames, clip._video = tuple(frames), payload
        return clip

    _video: Payload

    @property
    def payload(self) -> Payload:
        """The video's bytes."""
        return self._video

    @property
    def sha(self) -> str:
        """The sha256 of the video's bytes."""
        return self._video.sha


class Scene(NamedTuple):
    """Consecutive views of one video; or of none, if they are not frames."""

    footage: Footage | None
    views: list[View]


@dataclass(frozen=True)
class SendVideo(Ranged, WithoutModel):
    """Sends the frames of each video as one video: `video_url` parts for chat servers that take
    them (vLLM, SGLang, Qwen's own, OpenRouter), the processor's video input for `LocalVLM`. Put it
    right before the stage that asks.

    `form: mp4` encodes the views as they are, with marks, crops and sizes, as H.264 at their own
    times; `crf` is its quality from 0 (best) to 51. `jpeg` sends them as the list of JPEG images of
    quality `jpeg_quality` that vLLM takes as `video/jpeg`, without times. `file` sends the bytes of
    the video file, with all its frames and its sound, and so refuses views that were changed.
    `frames` leaves the views as images, to compare both in one line of `each:`. A server may sample
    a video again: for vLLM, set `extra: {mm_processor_kwargs: {do_sample_frames: false}}` on the
    model. Views that are not frames are sent as they are. Raises ValueError for views of one video
    in several sizes.
    """

    form: Literal["mp4", "jpeg", "file", "frames"] = "mp4"
    crf: int = 18
    jpeg_quality: int = 95
    ranges = ("crf >= 0", "crf <= 51", "jpeg_quality >= 1", "jpeg_quality <= 100")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with a view for each run of frames of one video."""
        if self.form == "frames":
            return state
        views = list[View]()
        for scene in _split_scenes(state):
            if scene.footage is None:
                views += scene.views
            else:
                views.append(self._join(state, scene.views, scene.footage.file.source))
        return state.replace(views=tuple(views))

    def _join(self, state: State, views: Sequence[View], source: Picture) -> View:
        """Return one view of all these frames of a video file. Raises ValueError."""
        who = f"sample {state.sample.id}"
        if len(sizes := {view.size for view in views}) > 1:
            listed = ", ".join(f"{width} x {height}" for width, height in sorted(sizes))
            raise ValueError(
                f"{who}: the views of a video must have one size, found {listed}; crop or resize"
                " them alike before SendVideo"
            )
        frames, times = [view.pixels for view in views], [min(view.seconds) for view in views]
        if self.form == "file":
            if not all(isinstance(view.picture, Frame) for view in views):
                raise ValueError(
                    f"{who}: a stage changed the frames, and the file does not show that; use"
                    " `form: mp4`, or leave out the stages that draw, crop or resize"
                )
            payload = read_file(source)
        elif self.form == "jpeg":
            payload = make_list(frames, self.jpeg_quality)
        else:
            data = encode_mp4(frames, times, self.crf)
            payload = make_payload(data, "video/mp4", "encoded as H.264")
        parts = tuple(part for view in views for part in view.parts)
        return View(Clip.from_frames(frames, payload), parts)


def _split_scenes(state: State) -> list[Scene]:
    """Return the views in order, in runs that show frames of the same video."""
    scenes = list[Scene]()
    for view in state.views:
        shown = [state.sample.images[part.source] for part in view.parts]
        films = [image.footage if isinstance(image, Frame) else None for image in shown]
        is_frame = bool(films) and len(set(map(id, films))) == 1 and len(view.seconds) == 1
        footage = films[0] if is_frame else None
        if scenes and footage is not None and scenes[-1].footage is footage:
            scenes[-1].views.append(view)
        else:
            scenes.append(Scene(footage, [view]))
    return scenes


def make_payload(data: bytes, media_type: str, note: str) -> Payload:
    """Return the payload of a video's bytes."""
    return Payload(data, media_type, hashlib.sha256(data).hexdigest(), note)


def read_file(source: Picture) -> Payload:
    """Return the bytes of a video file. Raises PictureError, and ValueError for a
    format that servers do not take."""
    data = source.fetch()
    kind = find_format(data[:HEAD])
    if kind not in MEDIA_TYPES:
        raise ValueError(f"{source.name}: servers take no {kind} as a video; use `form: mp4`")
    brands = {b"qt": "video/quicktime", b"webm": "video/webm"}  # of MP4 and of Matroska
    own = (name for brand, name in brands.items() if brand in data[8:HEAD].split(b"mvhd")[0])
    return make_payload(data, next(own, MEDIA_TYPES[kind]), "")


def make_list(frames: Sequence[Pixels], quality: int) -> Payload:
    """Return frames as a list of JPEG images."""
    images = tuple(_to_jpeg(pixels, quality) for pixels in frames)
    data = b"".join(images)
    sha = hashlib.sha256(data).hexdigest()
    return FrameList(data, "video/jpeg", sha, "a list of JPEG images", images)


def _to_jpeg(pixels: Pixels, quality: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality, subsampling=0)
    return buffer.getvalue()


def encode_mp4(frames: Sequence[Pixels], times: Sequence[float], crf: int) -> bytes:
    """Encode frames at these ascending times (seconds) as H.264 in MP4; the same bytes at every
    call. An odd side is extended by a copy of its last row or column."""
    av, buffer = import_av(), io.BytesIO()
    height, width = frames[0].shape[:2]
    colours = av.video.reformatter.Colorspace.ITU709
    span = times[-1] - times[0]
    step = round(span / (len(times) - 1) * CLOCK) if span else CLOCK
    with av.open(buffer, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", options={"crf": str(crf), "bf": "0"})
        stream.width, stream.height = width + width % 2, height + height % 2
        stream.pix_fmt, stream.time_base = "yuv420p", Fraction(1, CLOCK)
        context: Any = stream.codec_context
        context.time_base, context.thread_count = stream.time_base, 1
        context.colorspace, context.color_primaries, context.color_trc = colours, 1, 1
        stamp = -1
        for pixels, time in zip(frames, times, strict=True):
            stamp = max(stamp + 1, round((time - times[0]) * CLOCK))
            even = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), "edge")
            frame = av.VideoFrame.from_ndarray(even, format="rgb24")
            frame = frame.reformat(format="yuv420p", dst_colorspace=colours)
            frame.pts, frame.time_base, frame.duration = stamp, stream.time_base, step
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()
