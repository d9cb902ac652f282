"""Videos as inputs of a processor of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from looktwice.pipelines.model import ModelError
from looktwice.pipelines.picture import Pixels

FramesAndTimes = tuple[Sequence[Pixels], Sequence[float]]


def make_inputs(processor: Any, videos: Sequence[FramesAndTimes]) -> dict[str, Any]:
    """Return the arguments that pass videos to a processor, each as its frames and their times in
    seconds, without sampling the frames again. Raises ModelError if the processor takes no videos.

    Times are passed as transformers' `VideoMetadata`: frame indices at the mean frame rate of the
    video, so that index / fps is the time.
    """
    if getattr(processor, "video_processor", None) is None:
        raise ModelError(
            f"{type(processor).__name__} takes no videos here; send frames (`form: frames`), or, if"
            " its family has a video processor, type: pip install torchvision"
        )
    clips = [np.stack(frames) for frames, _ in videos]
    facts = [
        _make_metadata(times, clip.shape) for clip, (_, times) in zip(clips, videos, strict=True)
    ]
    return {"videos": clips, "video_metadata": facts, "do_sample_frames": False}


def _make_metadata(times: Sequence[float], shape: Sequence[int]) -> dict[str, Any]:
    span = times[-1] - times[0]
    fps = (len(times) - 1) / span if span else 1.0
    return {
        "total_num_frames": len(times),
        "fps": fps,
        "frames_indices": [round(time * fps, 6) for time in times],
        "height": shape[1],
        "width": shape[2],
        "duration": len(times) / fps,
    }
