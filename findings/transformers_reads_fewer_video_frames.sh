#!/usr/bin/env bash
# How many frames transformers' video reader returns, and at which times it says they are.
#
# Guess: load_video(file, num_frames=4) returns four frames from the beginning to the end of the video, whichever decoder reads it,
#   and its metadata give their times.
# What happens, in transformers 5.24: of a valid WebM file with 12 frames in six seconds, as browsers and screen recorders write it,
#   the OpenCV backend returns one frame without an error, because OpenCV multiplies the duration by 30 and promises 181 frames; the
#   metadata still list four. The PyAV backend refuses the file: the header counts no frames. Of the same frames in MP4 both return
#   four, none from the last half of the time, and `timestamps`, which assume a constant rate, are wrong by up to 0.6 s.
# Why it matters: a model that is tested on such clips answers about a single frame, scores at chance, and looks as if it could not
#   see motion; models whose prompts state the times of frames (Qwen3-VL) receive wrong ones.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'transformers==5.24.0' 'av==18.1.0' 'opencv-python-headless==5.0.0.93' \
    'numpy==2.3.5' 'pillow==12.0.0'
FOLDER="$folder" "$folder/venv/bin/python" - <<'PYTHON' 2>&1 | grep -v -e "PyTorch was not found" -e "was deprecated"
import os
import warnings
from fractions import Fraction

import av
import numpy as np
import transformers
from transformers.video_utils import load_video

warnings.simplefilter("ignore")
TIMES = [0, 0.1, 0.2, 0.5, 1.0, 1.05, 1.1, 1.5, 2.0, 3.0, 5.0, 6.0]


def make(name, codec):
    path = os.path.join(os.environ["FOLDER"], name)
    with av.open(path, "w") as container:
        stream = container.add_stream(codec, rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(TIMES):
            pixels = np.full((48, 64, 3), 20 * number, np.uint8)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = round(1000 * time), stream.time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


print("transformers", transformers.__version__, "PyAV", av.__version__)
films, counts = {"webm": make("film.webm", "libvpx-vp9"), "mp4": make("film.mp4", "libx264")}, {}
for kind, path in films.items():
    for backend in ("opencv", "pyav"):
        try:
            frames, facts = load_video(path, num_frames=4, backend=backend)
        except ValueError as exc:
            counts[kind, backend] = "refused"
            print(kind, backend, "refuses:", str(exc)[:120])
            continue
        shown = [round(float(frame.mean()) / 20) for frame in frames]
        counts[kind, backend] = len(frames)
        said = [round(float(time), 2) for time in facts.timestamps]
        print(kind, backend, "frames", shown, "at", [TIMES[n] for n in shown], "; said: frames", list(map(int, facts.frames_indices)), "at", said)
assert counts == {("webm", "opencv"): 1, ("webm", "pyav"): "refused", ("mp4", "opencv"): 4, ("mp4", "pyav"): 4}, counts
assert shown == [0, 3, 6, 9] and max(abs(a - TIMES[n]) for a, n in zip(said, shown)) > 0.5, (shown, said)
PYTHON
