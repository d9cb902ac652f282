#!/usr/bin/env bash
# Two stacks prepare pictures for Mistral's vision models: transformers, and mistral-common, with which vLLM serves them.
# One would guess: both give the encoder the same picture, up to rounding.
# What happens: both resize to the same size, but mistral-common by OpenCV's cubic filter without smoothing. A black
#   line one pixel wide on a white picture of 3,072 pixels vanishes (darkest pixel 255), or is fully black (0),
#   depending on whether its x is 1536 or 1537; Pillow's bicubic, as in transformers, gives 189 and 170. At 1073 x 1
#   transformers' arithmetic shrinks the shorter side to 0 and refuses, where mistral-common gives 65 tokens.
# Why it matters: a study of thin markers (one-pixel rings, boxes, grids) measured by one stack says little about the
#   other, and whether a model sees a marker depends on its phase.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    mistral-common==1.13.1 transformers==5.24.0 opencv-python-headless==5.0.0.93 pillow==13.0.0 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON' 2>/dev/null
import numpy as np
import transformers
import mistral_common
from mistral_common.protocol.instruct.chunk import ImageChunk
from mistral_common.tokens.tokenizers.image import (
    DATASET_MEAN, DATASET_STD, ImageConfig, ImageEncoder, SpecialImageIDs,
)
from PIL import Image

print("mistral-common", mistral_common.__version__, "transformers", transformers.__version__)
encoder = ImageEncoder(ImageConfig(16, 1024), SpecialImageIDs(1, 2, 3))
processor = transformers.PixtralImageProcessorPil()
found = {}
for x in (1536, 1537):
    pixels = np.full((64, 3072, 3), 255, np.uint8)
    pixels[:, x] = 0
    image = Image.fromarray(pixels)
    sharp = encoder(ImageChunk(image=image)).image * np.reshape(DATASET_STD, (3, 1, 1))
    sharp = (sharp + np.reshape(DATASET_MEAN, (3, 1, 1))) * 255
    smooth = np.asarray(processor(images=image, return_tensors="np")["pixel_values"][0])
    smooth = smooth * np.reshape(processor.image_std, (3, 1, 1))
    smooth = (smooth + np.reshape(processor.image_mean, (3, 1, 1))) * 255
    found[x] = round(float(sharp.min())), round(float(smooth.min()))
    print(f"x {x}: both give {sharp.shape[1:]} = {smooth.shape[1:]}; darkest: "
          f"mistral-common {found[x][0]}, transformers {found[x][1]}")
tokens = len(encoder(ImageChunk(image=Image.new("RGB", (1073, 1)))).tokens)
try:
    processor(images=Image.new("RGB", (1073, 1)), return_tensors="np")
    refused = False
except ValueError as error:
    refused = True
print("1073 x 1: mistral-common", tokens, "tokens; transformers refuses:", refused)
assert found[1536][0] == 255 and found[1537][0] <= 2, found
assert all(120 < smooth < 230 for _, smooth in found.values()), found
assert tokens == 65 and refused
print("still so")
PYTHON
