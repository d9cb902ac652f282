#!/usr/bin/env bash
# Whether video readers apply the rotation in a file's metadata, as every phone writes it for portrait videos.
#
# Guess: frames of a video are upright, as a player shows them, whichever library decodes it.
# What happens, in OpenCV 5.0, PyAV 18.1 and transformers 5.24: OpenCV turns them; PyAV does not (`frame.rotation` says by how much).
#   So transformers' load_video returns frames of 48 x 64 pixels with backend="opencv" and of 64 x 48, lying on their side, with
#   backend="pyav", from the same file.
# Why it matters: which way is up in the pictures that a model sees depends on the packages that are installed; so do answers about
#   left and right, text in the scene, and coordinates of points and boxes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'transformers==5.24.0' 'av==18.1.0' 'opencv-python-headless==5.0.0.93' \
    'numpy==2.3.5' 'pillow==12.0.0'
FOLDER="$folder" "$folder/venv/bin/python" - <<'PYTHON' 2>&1 | grep -v -e "PyTorch was not found" -e "was deprecated"
import os
import warnings

import av
import cv2
import numpy as np
import transformers
from transformers.video_utils import load_video

warnings.simplefilter("ignore")
path = os.path.join(os.environ["FOLDER"], "film.mp4")
with av.open(path, "w") as container:
    stream = container.add_stream("libx264", rate=10)
    stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
    for _ in range(10):
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")))
    container.mux(stream.encode())
data = bytearray(open(path, "rb").read())
start = data.find(b"tkhd") + 44  # the matrix of the track: a quarter turn
matrix = (0, 1 << 16, 0, -1 << 16, 0, 0, 48 << 16, 0, 1 << 30)
data[start : start + 36] = b"".join(number.to_bytes(4, "big", signed=True) for number in matrix)
open(path, "wb").write(data)

print("OpenCV", cv2.__version__, "PyAV", av.__version__, "transformers", transformers.__version__)
_, bgr = cv2.VideoCapture(path).read()
with av.open(path) as container:
    frame = next(container.decode(video=0))
found = {"OpenCV": bgr.shape[:2], "PyAV": frame.to_ndarray(format="rgb24").shape[:2]}
for backend in ("opencv", "pyav"):
    frames, _ = load_video(path, num_frames=2, backend=backend)
    found[f"transformers, {backend}"] = frames.shape[1:3]
for name, (height, width) in found.items():
    print(f"{name}: {width} x {height} (width x height)")
print("PyAV's frame.rotation:", frame.rotation)
upright, lying = (64, 48), (48, 64)
assert list(found.values()) == [upright, lying, upright, lying] and frame.rotation == -90
PYTHON
