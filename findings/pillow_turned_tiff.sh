#!/usr/bin/env bash
# The size of a TIFF that a scanner or camera stored on its side, in Pillow.
#
# Guess: Image.open gives the stored size, and a program that needs the upright size swaps width
#   and height where the orientation is 5 to 8, as it must for JPEG, PNG and WebP.
# What happens: for TIFF alone the size is upright already when the file is opened, while getexif()
#   still says 6; after load() the tag is gone. Swapping by the tag gives the stored size again, so
#   the same program is right or wrong by what was called before.
# Why it matters: marks, boxes and token counts are computed from the size before pixels are read.
#   With width and height exchanged, a resize squashes the picture and valid marks fall outside.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'pillow==13.0.0'
cd "$folder"
venv/bin/python - <<'PYTHON'
import PIL
from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

stored = Image.new("RGB", (60, 40))
exif = Image.Exif()
exif[0x0112] = 6
tags = ImageFileDirectory_v2()
tags[0x0112] = 6
stored.save("a.jpg", exif=exif)
stored.save("a.png", exif=exif)
stored.save("a.tiff", tiffinfo=tags)
print("Pillow", PIL.__version__)
seen = {}
for name in ("a.jpg", "a.png", "a.tiff"):
    image = Image.open(name)
    opened = image.size, image.getexif().get(0x0112)
    image.load()
    seen[name] = opened, (image.size, image.getexif().get(0x0112))
    print(name, "stored 60 x 40; opened", *opened, "; loaded", *seen[name][1])
assert seen["a.jpg"] == seen["a.png"] == (((60, 40), 6), ((60, 40), 6))
assert seen["a.tiff"] == (((40, 60), 6), ((40, 60), None))
PYTHON
