"""PP-OCR's networks as Hugging Face transformers has them, without its processors, which need torchvision."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.clock import spend
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, WeightsError, from_hub, import_torch, open_shared

Floats = NDArray[np.float32]

FIND, READ = "AutoModelForObjectDetection", "AutoModelForTextRecognition"
STRIDE = 32  # pixels, of which the sides of an image are multiples that text is looked for in
SETTINGS: dict[str, dict[str, Any]] = {  # what transformers takes where a folder does not say
    FIND: {
        "limit_side_len": 960, "limit_type": "max", "max_side_limit": 4000,
        "image_mean": (0.406, 0.456, 0.485), "image_std": (0.225, 0.224, 0.229),
    },
    READ: {
        "size": {"height": 48, "width": 320}, "max_image_width": 3200, "character_list": (),
        "image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5),
    },
}  # fmt: skip


class Part(NamedTuple):
    """One of the two networks, its place, and how it looks at images."""

    network: Any
    place: Place
    settings: dict[str, Any]

    def run(self, image: Any) -> Floats:
        """What the network gives for one image (3, height, width) of red, green and blue in 0..255."""
        torch, (mean, std) = import_torch(), (self.settings["image_mean"], self.settings["image_std"])
        seen = (image.float() / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
        if self.turns:
            seen = seen.flip(0)
        if (lacking := self.settings.get("size", {}).get("width", 0) - seen.shape[2]) > 0:
            seen = torch.nn.functional.pad(seen, (0, lacking))
        with spend("networks"), torch.inference_mode():
            given = self.network(pixel_values=seen[None].to(self.place.device)).last_hidden_state
        return np.asarray(given.float().cpu().numpy())

    @property
    def turns(self) -> bool:
        """Whether blue comes first, as for all but the readers of version 5."""
        kind = str(self.network.config.model_type)
        return not (kind.startswith("pp_ocrv5") and kind.endswith("_rec"))


def find_text(folder: Path, pixels: Pixels) -> Floats:
    """The probability of text in each place of an image, seen whole: (1, 1, rows, columns). Raises WeightsError."""
    part = _open(FIND, folder)
    return part.run(_stretched(pixels, *_size(part.settings, *pixels.shape[:2]), antialias=True))


def read_line(folder: Path, line: Pixels) -> tuple[Floats, tuple[str, ...]]:
    """The probability (1, steps, letters) of each letter in an upright line, and the letters. Raises WeightsError."""
    part = _open(READ, folder)
    letters = tuple(part.settings["character_list"])
    if not letters:
        raise WeightsError(f"{folder}: its preprocessor_config.json names no character_list; give a release's folder")
    high, least = (int(part.settings["size"][side]) for side in ("height", "width"))
    ratio = line.shape[1] / line.shape[0]
    wide = int(high * max(ratio, least / high))
    if wide > part.settings["max_image_width"]:
        wide = int(part.settings["max_image_width"])
    else:
        wide = min(wide, math.ceil(high * ratio))
    return part.run(_stretched(line, high, wide, antialias=not part.turns)), letters


def _open(kind: str, folder: Path) -> Part:
    def open_() -> Part:
        place = Place.of("auto", "float32")
        network = from_hub(kind, str(folder), None, use_safetensors=True).to(place.device).eval()
        if not str(network.config.model_type).startswith("pp_ocr"):
            raise WeightsError(f"{folder} holds a {network.config.model_type}, which is no network of PP-OCR")
        file = folder / "preprocessor_config.json"
        said = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        return Part(network, place, {**SETTINGS[kind], **{name: said[name] for name in SETTINGS[kind] if name in said}})

    return open_shared((kind, str(folder.resolve())), open_)


def _size(settings: dict[str, Any], height: int, width: int) -> tuple[int, int]:
    """The rows and columns at which text is looked for."""
    limit, kind, scale = settings["limit_side_len"], settings["limit_type"], 1.0
    if kind == "max":
        scale = min(1.0, limit / max(height, width))
    elif kind == "min":
        scale = max(1.0, limit / min(height, width))
    else:  # "resize_long"
        scale = limit / max(height, width)
    sides = [int(height * scale), int(width * scale)]
    if settings["max_side_limit"] is not None and max(sides) > settings["max_side_limit"]:
        again = settings["max_side_limit"] / max(sides)
        sides = [int(side * again) for side in sides]
    rows, columns = (max(STRIDE, round(side / STRIDE) * STRIDE) for side in sides)
    return rows, columns


def _stretched(pixels: Pixels, rows: int, columns: int, antialias: bool) -> Any:
    """An image (3, rows, columns); smoothed as floats, or as whole numbers between its nearest pixels."""
    torch = import_torch()
    image = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None]
    image = image.float() if antialias else image
    resize = torch.nn.functional.interpolate
    return resize(image, (rows, columns), mode="bilinear", align_corners=False, antialias=antialias)[0]
