"""The stage that sends frames as one video, for models that take videos."""

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
from looktwice.extras.video.video_file import HEAD_BYTES, find_format, import_av
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
TICKS_PER_SECOND = 90_000  # of the videos that are written


@dataclass(frozen=True)
class FrameList(Payload):
    """Frames as JPEG images, in base64 and joined by commas: the format `video/jpeg` of vLLM."""

    images: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def text(self) -> bytes:
        """The images in base64, joined by commas."""
        return b",".join(map(b64encode, self.images))


class Clip(Picture):
    """Frames that are sent as one video; the pixels are those of the first frame."""

    @classmethod
    def from_frames(cls, frames: Sequence[Pixels], payload: Payload) -> Clip:
        """Build a clip from frames and the payload that is sent for them."""
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


class ViewGroup(NamedTuple):
    """Consecutive views of one video, or views that are not frames (`footage` is None)."""

    footage: Footage | None
    views: list[View]


@dataclass(frozen=True)
class SendVideo(Ranged, WithoutModel):
    """A stage that sends the frames of each video as one video: as `video_url` parts to chat
    servers that accept them (vLLM, SGLang, Qwen's own, OpenRouter), as the processor's video input
    for `LocalVLM`. Put it right before the stage that asks.

    `form: mp4` encodes the views, with their marks, crops and sizes, as H.264 at their times; `crf`
    is its quality from 0 (best) to 51. `jpeg` sends a list of JPEG images of quality
    `jpeg_quality`, without times, which vLLM accepts as `video/jpeg`. `file` sends the bytes of the
    video file, with all its frames and its sound, and refuses views that were changed. `frames`
    leaves the views as images, to compare both in one line of `each:`. A server may sample a video
    again: for vLLM, set `extra: {mm_processor_kwargs: {do_sample_frames: false}}` on the model.
    Views that are not frames are sent unchanged. Raises ValueError for views of one video in
    several sizes.
    """

    form: Literal["mp4", "jpeg", "file", "frames"] = "mp4"
    crf: int = 18
    jpeg_quality: int = 95
    ranges = ("crf >= 0", "crf <= 51", "jpeg_quality >= 1", "jpeg_quality <= 100")

    def __call__(self, state: State, model: Model) -> State:
        """Replace each run of consecutive frames of one video by one view."""
        if self.form == "frames":
            return state
        views = list[View]()
        for scene in _group_views(state):
            if scene.footage is None:
                views += scene.views
            else:
                views.append(self._join_frames(state, scene.views, scene.footage.file.source))
        return state.replace(views=tuple(views))

    def _join_frames(self, state: State, views: Sequence[View], source: Picture) -> View:
        """Join these frames of a video file into one view. Raises ValueError."""
        subject = f"sample {state.sample.id}"
        if len(sizes := {view.size for view in views}) > 1:
            listed = ", ".join(f"{width} x {height}" for width, height in sorted(sizes))
            raise ValueError(
                f"{subject}: the views of a video must have one size, found {listed}; crop or"
                " resize them alike before SendVideo"
            )
        frames, times = [view.pixels for view in views], [min(view.seconds) for view in views]
        if self.form == "file":
            if not all(isinstance(view.picture, Frame) for view in views):
                raise ValueError(
                    f"{subject}: a stage changed the frames, and the file does not show that; use"
                    " `form: mp4`, or leave out the stages that draw, crop or resize"
                )
            payload = read_video_file(source)
        elif self.form == "jpeg":
            payload = make_frame_list(frames, self.jpeg_quality)
        else:
            data = encode_mp4(frames, times, self.crf)
            payload = make_payload(data, "video/mp4", "encoded as H.264")
        parts = tuple(part for view in views for part in view.parts)
        return View(Clip.from_frames(frames, payload), parts)


def _group_views(state: State) -> list[ViewGroup]:
    """Split the views, in order, into runs of frames of the same video."""
    scenes = list[ViewGroup]()
    for view in state.views:
        shown = [state.sample.images[part.source] for part in view.parts]
        films = [image.footage if isinstance(image, Frame) else None for image in shown]
        is_frame = bool(films) and len(set(map(id, films))) == 1 and len(view.seconds) == 1
        footage = films[0] if is_frame else None
        if scenes and footage is not None and scenes[-1].footage is footage:
            scenes[-1].views.append(view)
        else:
            scenes.append(ViewGroup(footage, [view]))
    return scenes


def make_payload(data: bytes, media_type: str, note: str) -> Payload:
    """Wrap a video's bytes in a payload."""
    return Payload(data, media_type, hashlib.sha256(data).hexdigest(), note)


def read_video_file(source: Picture) -> Payload:
    """Read the bytes of a video file. Raises PictureError, and ValueError for a format that servers
    do not accept."""
    data = source.fetch()
    kind = find_format(data[:HEAD_BYTES])
    if kind not in MEDIA_TYPES:
        raise ValueError(f"{source.name}: servers take no {kind} as a video; use `form: mp4`")
    brands = {b"qt": "video/quicktime", b"webm": "video/webm"}  # of MP4 and of Matroska
    own = (name for brand, name in brands.items() if brand in data[8:HEAD_BYTES].split(b"mvhd")[0])
    return make_payload(data, next(own, MEDIA_TYPES[kind]), "")


def make_frame_list(frames: Sequence[Pixels], quality: int) -> Payload:
    """Encode frames as a list of JPEG images."""
    images = tuple(_to_jpeg(pixels, quality) for pixels in frames)
    data = b"".join(images)
    sha = hashlib.sha256(data).hexdigest()
    return FrameList(data, "video/jpeg", sha, "a list of JPEG images", images)


def _to_jpeg(pixels: Pixels, quality: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality, subsampling=0)
    return buffer.getvalue()


def encode_mp4(frames: Sequence[Pixels], times: Sequence[float], crf: int) -> bytes:
    """Encode frames at these ascending times (in seconds) as H.264 in MP4, deterministically.

    An odd width or height is extended by a copy of the last column or row.
    """
    av, buffer = import_av(), io.BytesIO()
    height, width = frames[0].shape[:2]
    colours = av.video.reformatter.Colorspace.ITU709
    span = times[-1] - times[0]
    step = round(span / (len(times) - 1) * TICKS_PER_SECOND) if span else TICKS_PER_SECOND
    with av.open(buffer, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", options={"crf": str(crf), "bf": "0"})
        stream.width, stream.height = width + width % 2, height + height % 2
        stream.pix_fmt, stream.time_base = "yuv420p", Fraction(1, TICKS_PER_SECOND)
        context: Any = stream.codec_context
        context.time_base, context.thread_count = stream.time_base, 1
        context.colorspace, context.color_primaries, context.color_trc = colours, 1, 1
        stamp = -1
        for pixels, time in zip(frames, times, strict=True):
            stamp = max(stamp + 1, round((time - times[0]) * TICKS_PER_SECOND))
            even = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), "edge")
            frame = av.VideoFrame.from_ndarray(even, format="rgb24")
            frame = frame.reformat(format="yuv420p", dst_colorspace=colours)
            frame.pts, frame.time_base, frame.duration = stamp, stream.time_base, step
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()
