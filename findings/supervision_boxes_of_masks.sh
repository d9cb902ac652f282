#!/usr/bin/env bash
# The boxes that supervision makes of masks.
#
# Guess: mask_to_xyxy gives the edges of a mask, so that cropping or masking by the box keeps all
#   of it, as with boxes of detectors.
# What happens: the right and lower values are the last pixel's numbers, not the edges behind it.
#   crop_image, which reads them as edges, loses the last column and row; the box of a mask of one
#   pixel has no area, and the IoU of a mask's box with the detector's box of the same object is
#   below 1, most of all for small objects.
# Why it matters: zooms, set-of-mark and referring expressions are scored on small objects. One lost
#   row of a mark of 10 pixels is a tenth of it, and an IoU of 0.81 instead of 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'supervision==0.31.2' 'numpy==2.3.5'
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import supervision as sv

mask = np.zeros((1, 40, 40), bool)
mask[0, 10:20, 5:15] = True  # 10 x 10 pixels
box = sv.mask_to_xyxy(mask)
crop = sv.crop_image(mask[0].astype(np.uint8)[..., None].repeat(3, 2), box[0])
iou = sv.box_iou_batch(np.array([[5, 10, 15, 20]]), box)[0, 0]
dot = np.zeros((1, 40, 40), bool)
dot[0, 7, 7] = True
print("supervision", sv.__version__)
print("box of columns 5..14 and rows 10..19:", box[0].tolist())
print("pixels of the mask:", int(mask.sum()), "in the crop:", int(crop[..., 0].sum()))
print("IoU with the box of edges 5, 10, 15, 20:", round(float(iou), 3))
print("box of one pixel:", sv.mask_to_xyxy(dot)[0].tolist())
assert box[0].tolist() == [5, 10, 14, 19]
assert int(crop[..., 0].sum()) == 81
assert abs(iou - 0.81) < 1e-6
PYTHON
