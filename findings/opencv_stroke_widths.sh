#!/usr/bin/env bash
# How wide OpenCV draws a line of a given thickness.
#
# Guess: cv2.line with thickness t draws t pixels, and with thickness 4 more than with thickness 3.
# What happens, in OpenCV 4.12 and 5.0 alike: with the default line type, lines of thickness 1 to 9 are 1, 3, 5, 5, 7,
#   7, 9, 9 and 11 pixels wide; 3 and 4, 5 and 6, 7 and 8 give the same bytes.
# Why it matters: ablations of visual prompts sweep the stroke of circles, boxes and lines. Two arms
#   of such a sweep can be the same picture, and neither is as wide as its paper states.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'opencv-python-headless==5.0.0.93' 'numpy==2.3.5'
"$folder/venv/bin/python" - <<'PYTHON'
import cv2
import numpy as np

widths, pictures = [], []
for thickness in range(1, 10):
    pixels = np.zeros((60, 100), np.uint8)
    cv2.line(pixels, (10, 30), (90, 30), 255, thickness)
    widths.append(int(np.count_nonzero(pixels[:, 50])))
    pictures.append(pixels.tobytes())
same = [n + 1 for n in range(8) if pictures[n] == pictures[n + 1]]
print("OpenCV", cv2.__version__)
print("width of thickness 1 to 9:", widths)
print("equal to the next thickness:", same)
assert widths == [1, 3, 5, 5, 7, 7, 9, 9, 11] and same == [3, 5, 7]
PYTHON
