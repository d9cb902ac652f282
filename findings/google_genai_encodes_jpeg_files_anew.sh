#!/usr/bin/env bash
# Google's Python client for Gemini, a photograph that is passed as a PIL image.
#
# Guess: `contents=[Image.open("photo.jpg"), "Which way is up?"]`, the form in the client's own
#   examples, sends the file, or at least its pixels with its orientation.
# What happens: the client saves the image as a JPEG again, with the file's quantization tables but
#   without its EXIF: nearly every pixel of a file with subsampled color changes, here by up to some
#   50 of 255 levels, and a photograph that a phone took upright, whose orientation is a tag, is
#   sent lying on its side. `Part.from_bytes` sends the file as it is. The JSON has the bytes
#   in URL-safe base64.
# Why it matters: two harnesses that ask Gemini about the same file show it different pictures.
#   Questions about fine lines, colors, or what is left and above change their answers, and the
#   sha256 of the file does not name what the model saw.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "google-genai==3.6.1" "pillow==12.0.0"
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import io
import json
import random
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path

from google import genai
from PIL import Image, ImageChops, ImageOps

print("google-genai", version("google-genai"), "pillow", version("pillow"))

source = random.Random(0)
noise = Image.frombytes("RGB", (96, 64), source.randbytes(96 * 64 * 3))
tag = Image.Exif()
tag[274] = 6  # the camera was turned: show it rotated by a quarter
noise.resize((192, 128), Image.Resampling.BICUBIC).save("photo.jpg", quality=90, exif=tag)
file = Path("photo.jpg").read_bytes()
bodies = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        data = b'{"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
options = genai.types.HttpOptions(base_url=f"http://127.0.0.1:{server.server_address[1]}")
client = genai.Client(api_key="none", http_options=options)


def sent(picture):
    """Return the base64 that the client sends for a picture, and its bytes."""
    from base64 import urlsafe_b64decode

    client.models.generate_content(model="m", contents=[picture, "Which way is up?"])
    parts = [part for content in bodies[-1]["contents"] for part in content["parts"]]
    text = next(part["inlineData"]["data"] for part in parts if "inlineData" in part)
    return text, urlsafe_b64decode(text)


text, data = sent(Image.open("photo.jpg"))
first, second = Image.open("photo.jpg"), Image.open(io.BytesIO(data))
change = ImageChops.difference(first.convert("RGB"), second.convert("RGB"))
most = max(high for low, high in change.getextrema())
equal = sum(pixel == (0, 0, 0) for pixel in change.getdata()) / (192 * 128)
print("the same bytes:", data == file, "| pixels that are equal:", round(equal, 3), "| most:", most)
print("orientation in the file:", first.getexif().get(274), "| sent:", second.getexif().get(274))
print("shown upright:", ImageOps.exif_transpose(first).size, "| sent:", second.size)
print("characters of the base64 beyond letters and digits:", sorted(set(text) & set("+/-_")))
assert data != file and equal < 0.1 and most > 20
assert (first.getexif().get(274), second.getexif().get(274)) == (6, None)
assert set(text) & set("-_") and not set(text) & set("+/")

_, whole = sent(genai.types.Part.from_bytes(data=file, mime_type="image/jpeg"))
print("Part.from_bytes sends the file:", whole == file)
assert whole == file
PYTHON
