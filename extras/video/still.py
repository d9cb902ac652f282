"""A still picture of a video, for the pages of runs."""

from __future__ import annotations

import math

import cv2
import numpy as np

from looktwice.eval.tasks.base import TaskError
from looktwice.extras.video.video_file import HEAD_BYTES, VideoFile, find_format
from looktwice.pipelines.encodings.image_files import to_png
from looktwice.pipelines.picture import Picture, PictureError, Pixels

MAX_FRAMES = 9  # frames of a still
MAX_FRAME_SIDE = 480  # pixels of a side of a frame in it


def make_still(data: bytes) -> bytes:
    """Return a PNG with up to nine evenly spaced frames of a video, in rows; return other bytes,
    and those of an unreadable video, unchanged."""
    if not find_format(data[:HEAD_BYTES]):
        return data
    try:
        file = VideoFile(Picture.lazy(lambda: data, "a video"))
        numbers = np.linspace(0, len(file.frames) - 1, min(MAX_FRAMES, len(file.frames))).round()
        frames = file.decode([int(number) for number in numbers])
    except (PictureError, TaskError):
        return data
    return to_png(_tile([_shrink_frame(frames[number]) for number in sorted(frames)]))


def _shrink_frame(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    scale = min(1.0, MAX_FRAME_SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def _tile(frames: list[Pixels]) -> Pixels:
    """Tile frames of one size in rows, with white gaps between them."""
    columns = math.ceil(math.sqrt(len(frames)))
    height, width = frames[0].shape[:2]
    rows = math.ceil(len(frames) / columns)
    sheet = np.full((rows * (height + 2) - 2, columns * (width + 2) - 2, 3), 255, np.uint8)
    for number, pixels in enumerate(frames):
        top, left = number // columns * (height + 2), number % columns * (width + 2)
        sheet[top : top + height, left : left + width] = pixels
    return sheet
