#!/usr/bin/env bash
# Which way up SGLang hands a photograph to a model, next to transformers.
#
# Guess: an engine opens a JPEG as viewers and transformers do: upright, by the EXIF orientation that phones write.
# What happens, in SGLang 0.5.23: the method with which processors load a picture (`_load_single_item` of
#   multimodal/processors/base_processor.py) leaves the stored pixels as they are, on the CPU and with nvJPEG on the GPU: a valid
#   photograph with orientation 6 stays 60 x 40 pixels and lies on its side. Only processors with `smart_rgb_conversion` turn it, one
#   file in this release (glm4v.py). transformers' `load_image` returns 40 x 60 pixels.
# Why it matters: the same weights see the same photograph upright in one harness and lying in the other, so answers about left, right,
#   above and below differ without an error. Compare engines on upright pixels without EXIF.
#
# The two functions run as they stand in the package's files; the modules around them need a GPU's libraries.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip=("$folder/venv/bin/pip" install -q --disable-pip-version-check)
"${pip[@]}" 'transformers==5.24.0' 'numpy==2.3.5' 'pillow==12.0.0' 'pybase64==1.4.2'
"${pip[@]}" --no-deps 'sglang==0.5.23'
"$folder/venv/bin/python" -W ignore - <<'PYTHON' 2>&1 | grep -v "PyTorch was not found"
import __future__
import ast
import io
import re
from importlib.metadata import distribution, version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pybase64
from PIL import Image, ImageOps
from transformers.image_utils import load_image as load_in_transformers

package = Path(distribution("sglang").locate_file("sglang/srt"))


def run(file, names, known):
    """Define functions of a file by their own source."""
    tree = ast.parse((package / file).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in found:
        node.decorator_list = []
    code = compile(ast.Module(found, []), file, "exec", __future__.annotations.compiler_flag)
    exec(code, known)
    return [known[name] for name in names]


shared = ["load_image", "_load_image", "_fully_load_pil_image", "get_image_bytes", "is_jpeg_with_cuda", "smart_to_rgb"]
known = {"Image": Image, "ImageOps": ImageOps, "BytesIO": io.BytesIO, "pybase64": pybase64, "is_cuda": lambda: False}
known |= {"torch": SimpleNamespace(Tensor=()), "ImageData": (), "Modality": SimpleNamespace(IMAGE="image", VIDEO="video", AUDIO="audio")}
known |= {"CLIENT_MEDIA_EXCEPTIONS": (ValueError,)}
run("utils/common.py", shared, known)
(load_single_item,) = run("multimodal/processors/base_processor.py", ["_load_single_item"], known)
processor = SimpleNamespace(_is_preprocessed_input=lambda data: False, gpu_image_decode=True, smart_rgb_conversion=False)
smart = SimpleNamespace(**{**vars(processor), "smart_rgb_conversion": True})
files = sorted((package / "multimodal/processors").glob("*.py"))
turning = [file.name for file in files if re.search(r"^    smart_rgb_conversion\b.*= True", file.read_text(), re.M)]

pixels = np.zeros((40, 60, 3), np.uint8)
pixels[:, :30] = 255, 0, 0  # stored: red on the left; upright: red above
exif, buffer = Image.Exif(), io.BytesIO()
exif[0x0112] = 6
Image.fromarray(pixels).save(buffer, "JPEG", quality=95, exif=exif)
opened = {
    "SGLang": load_single_item(processor, buffer.getvalue(), "image"),
    "SGLang, smart": load_single_item(smart, buffer.getvalue(), "image"),
    "transformers": load_in_transformers(Image.open(buffer)),
}
print("sglang", version("sglang"), "transformers", version("transformers"), "; processors that turn:", turning)
for name, image in opened.items():
    corners = {"left": (2, image.height - 3), "above": (image.width - 3, 2)}
    print(f"{name:14} {image.size[0]} x {image.size[1]}, red:", [side for side, place in corners.items() if image.getpixel(place)[0] > 200])
assert [image.size for image in opened.values()] == [(60, 40), (40, 60), (40, 60)]
assert turning == ["glm4v.py"]
PYTHON
