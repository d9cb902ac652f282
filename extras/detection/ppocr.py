"""PP-OCR: detects and reads lines of text in a photograph with two small networks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.extras.detection.boxes import find_lines
from looktwice.extras.networks.hub import load_from_hub
from looktwice.extras.networks.opening import Place, import_torch, open_shared
from looktwice.extras.networks.packages import Floats, PackageFile, open_onnx
from looktwice.extras.networks.tensors import normalize, resize, to_array, to_batch
from looktwice.pipelines.clock import track_time
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.results import Boxes
from looktwice.specialists.rules import Checked
from looktwice.specialists.sharing import look_once

DETECTOR_CLASS, RECOGNIZER_CLASS = "AutoModelForObjectDetection", "AutoModelForTextRecognition"
SIDE_MULTIPLE = 32  # pixels; the sides of the detector's input are multiples of it
DEFAULT_SETTINGS: dict[str, dict[str, Any]] = {  # transformers' defaults for missing settings
    DETECTOR_CLASS: {
        "limit_side_len": 960,
        "limit_type": "max",
        "max_side_limit": 4000,
        "image_mean": (0.406, 0.456, 0.485),
        "image_std": (0.225, 0.224, 0.229),
    },
    RECOGNIZER_CLASS: {
        "size": {"height": 48, "width": 320},
        "max_image_width": 3200,
        "character_list": (),
        "image_mean": (0.5, 0.5, 0.5),
        "image_std": (0.5, 0.5, 0.5),
    },
}


class OpenedPart(NamedTuple):
    """A detector or recognizer opened by transformers, its device, and its image settings."""

    network: Any
    place: Place
    settings: dict[str, Any]

    def run(self, pixels: Pixels, rows: int, columns: int, min_width: int = 0) -> Floats:
        """Run the network on an image resized to `rows` x `columns`, padded to a width of at least
        `min_width`.

        Recognizers of version 5 take RGB, all other networks BGR. Recognizers of other versions get
        images that were resized by plain bilinear interpolation with integer values, all other
        networks antialiased floats.
        """
        torch, kind = import_torch(), str(self.network.config.model_type)
        reads, version_5 = kind.endswith("_rec"), kind.startswith("pp_ocrv5")
        image = to_batch([pixels], Place("cpu", "float32"))
        smooth = version_5 or not reads
        image = resize(image.float() if smooth else image, (rows, columns), smooth).float()
        seen = normalize(image / 255, self.settings["image_mean"], self.settings["image_std"])
        if not (reads and version_5):
            seen = seen.flip(1)
        seen = torch.nn.functional.pad(seen, (0, max(0, min_width - columns)))
        with track_time("networks"), torch.inference_mode():
            given = self.network(pixel_values=seen.to(self.place.device)).last_hidden_state
        return to_array(given)


def compute_text_map(folder: Path, pixels: Pixels) -> Floats:
    """Compute the probability of text at each position of a whole image: (1, 1, rows, columns).
    Raises WeightsError."""
    part = _open_part(DETECTOR_CLASS, folder)
    height, width = pixels.shape[:2]
    limit, most = part.settings["limit_side_len"], part.settings["max_side_limit"]
    scales = {
        "max": min(1.0, limit / max(height, width)),
        "min": max(1.0, limit / min(height, width)),
        "resize_long": limit / max(height, width),
    }
    scale = scales[part.settings["limit_type"]]
    sides = [int(height * scale), int(width * scale)]
    if most is not None and max(sides) > most:
        again = most / max(sides)
        sides = [int(side * again) for side in sides]
    rows, columns = (
        max(SIDE_MULTIPLE, round(side / SIDE_MULTIPLE) * SIDE_MULTIPLE) for side in sides
    )
    return part.run(pixels, rows, columns)


def compute_letter_scores(folder: Path, line: Pixels) -> tuple[Floats, tuple[str, ...]]:
    """Compute the probability (1, steps, letters) of each letter in an upright line; return it with
    the letters. Raises WeightsError."""
    part = _open_part(RECOGNIZER_CLASS, folder)
    letters = tuple(part.settings["character_list"])
    if not letters:
        raise WeightsError(
            f"{folder}: its preprocessor_config.json has no character_list; use the folder of a"
            " release"
        )
    high, least = (int(part.settings["size"][side]) for side in ("height", "width"))
    most, ratio = int(part.settings["max_image_width"]), line.shape[1] / line.shape[0]
    wide = int(high * max(ratio, least / high))
    wide = most if wide > most else min(wide, math.ceil(high * ratio))
    return part.run(line, high, wide, least), letters


def _open_part(kind: str, folder: Path) -> OpenedPart:
    def open_() -> OpenedPart:
        place = Place.resolve("auto", "float32")
        network = (
            load_from_hub(kind, str(folder), None, use_safetensors=True).to(place.device).eval()
        )
        if not str(network.config.model_type).startswith("pp_ocr"):
            raise WeightsError(
                f"{folder} contains a {network.config.model_type}, which is not a PP-OCR network"
            )
        file = folder / "preprocessor_config.json"
        values = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        return OpenedPart(network, place, DEFAULT_SETTINGS[kind] | values)

    return open_shared((kind, str(folder.resolve())), open_)


Quad = NDArray[np.float32]  # (4, 2) corners x, y: upper left, upper right, lower right, lower left
NETWORK_FILES = {
    part: PackageFile("rapidocr", "rapidocr", ("models", f"PP-OCRv6_{part}_small.onnx"), "eyes")
    for part in ("det", "rec")
}
# pixels: limits of the sides of the first network's input
MIN_SIDE, MAX_SIDE = 736, 4096
# the threshold of text, and the growth of a region as a multiple of area over perimeter
TEXT_THRESHOLD, UNCLIP_RATIO = 0.3, 1.6
# an image gets a black margin if it is wider than SLIM_RATIO times its height, or lower than
# LOW_HEIGHT
SLIM_RATIO, LOW_HEIGHT = 8, 30
LINE_HEIGHT, MIN_LINE_WIDTH = (
    48,
    320,
)  # pixels of the second network's input; the width is a minimum
MAX_UPRIGHT_RATIO = 1.5  # a line this many times higher than wide is rotated by 90 degrees


@dataclass(frozen=True)
class PPOCR(Checked):
    """A detector of text: each box is a line, its label the text, its score the confidence of the
    reading.

    The small networks of PP-OCRv6 are used (Cui et al., arXiv 2507.05595, describes its
    predecessor). Differentiable binarization (Liao et al., AAAI 2020, section 3) finds regions,
    which become lines if their mean probability is above `box_threshold`; each is straightened and
    read by connectionist temporal classification. A tall line is read downwards and upwards, and
    the more confident reading is kept. Lines whose letters have a mean probability below
    `threshold` are dropped. Chinese, Japanese, English and other Latin scripts are read;
    upside-down text is not. If the longer side of an image has more than `longest` pixels, text is
    detected in a smaller copy and read at full size.

    With words, it returns the lines that contain one, labelled with the word, ignoring case. Boxes
    come in reading order: row by row, each from left to right. The networks are files of the
    package rapidocr, which is not imported; `detector` and `recognizer` are other files in its
    format, or folders of PP-OCRv5 or v6 networks saved by Hugging Face transformers, which take the
    image size from their own configuration and ignore `longest`.
    """

    threshold: float = 0.5
    box_threshold: float = 0.5
    longest: int = 2000
    detector: Path | None = None
    recognizer: Path | None = None

    version: ClassVar[int] = 2
    ranges = (
        "threshold, box_threshold >= 0",
        "threshold, box_threshold <= 1",
        f"longest >= {SIDE_MULTIPLE}",
    )

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """Return the lines of an HxWx3 RGB image, or those with one of the words. Raises
        WeightsError."""
        if words is not None:
            return find_lines(look_once(self, pixels), words)
        pixels = require_pixels(pixels)
        detector, recognizer = self.files()
        xyxy, scores, texts = list[Floats](), list[float](), list[str]()
        for quad in sort_lines(self._find(pixels, detector)):
            readings = [recognize_line(line, recognizer) for line in straighten_line(pixels, quad)]
            text, sure = max(readings, key=itemgetter(1))
            if text and sure >= self.threshold:
                xyxy.append(np.concatenate((quad.min(0), quad.max(0))))
                scores.append(sure)
                texts.append(text)
        return Boxes(np.reshape(xyxy, (-1, 4)), np.array(scores), np.array(texts, str))

    def files(self) -> list[Path]:
        """Return the files or folders of the two networks. Raises WeightsError."""
        own = {"det": self.detector, "rec": self.recognizer}
        files = {part: path and path.expanduser() for part, path in own.items()}
        return [
            path if path and path.is_dir() else NETWORK_FILES[part].path(path)
            for part, path in files.items()
        ]

    def _find(self, pixels: Pixels, file: Path) -> list[Quad]:
        """Return the corners of each line in pixels of the image, unsorted."""
        shown, margin = pixels, 0
        if file.is_dir():
            text_map = compute_text_map(file, pixels)
        else:
            small = _resize(pixels, min(1.0, self.longest / max(pixels.shape[:2])))
            shown, margin = add_margin(small)
            grown = max(1.0, min(MIN_SIDE / min(shown.shape[:2]), MAX_SIDE / max(shown.shape[:2])))
            text_map = open_onnx(file).run(build_batch(_resize(shown, grown, SIDE_MULTIPLE)))[0]
        if text_map.ndim != 4 or text_map.shape[1] != 1:
            raise WeightsError(
                f"{file} returns an array of shape {text_map.shape}, which is not a text map; set"
                " detector: to a PP-OCR network"
            )
        size, cells = np.array(pixels.shape[1::-1]), np.array(text_map.shape[:1:-1])
        # pixels of the image per pixel of the resized one
        back = size / (shown.shape[1], shown.shape[0] - 2 * margin)
        scale, shift = back * shown.shape[1::-1] / cells, back * (0, margin)
        lines = [(quad * scale - shift).clip(0, size) for quad in self._find_quads(text_map[0, 0])]
        quads = [np.asarray(line, np.float32) for line in lines]
        return [quad for quad in quads if min(_measure_sides(quad)) > 3]

    def _find_quads(self, probabilities: Floats) -> list[Quad]:
        """Find the lines in a text probability map (height, width), and grow them to the extent of
        their letters."""
        mask = cv2.dilate(
            (probabilities > TEXT_THRESHOLD).astype(np.uint8), np.ones((2, 2), np.uint8)
        )
        outlines, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
        quads = list[Quad]()
        for outline in outlines:
            (x, y), (width, height), angle = cv2.minAreaRect(outline)
            corners = cv2.boxPoints(((x, y), (width, height), angle))
            if (
                min(width, height) < 3
                or average_inside(probabilities, corners) < self.box_threshold
            ):
                continue
            reach = UNCLIP_RATIO * width * height / (width + height)  # of both sides together
            grown = cv2.boxPoints(((x, y), (width + reach, height + reach), angle))
            # clockwise from the upper left corner: a line begins with the two corners on the left
            by_x = grown[np.argsort(grown[:, 0], kind="stable")]
            (a, d), (b, c) = (
                pair[np.argsort(pair[:, 1], kind="stable")] for pair in (by_x[:2], by_x[2:])
            )
            quads.append(np.array([a, b, c, d], np.float32))
        return quads


def _resize(pixels: Pixels, scale: float, stride: int = 1) -> Pixels:
    """Resize the image by a factor, with sides that are multiples of `stride`."""
    height, width = (
        max(stride, round(side * scale / stride) * stride) for side in pixels.shape[:2]
    )
    if (height, width) == pixels.shape[:2]:
        return pixels
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)


def add_margin(pixels: Pixels) -> tuple[Pixels, int]:
    """Add black above and below a low or slim image, such as a line; return the image and the
    margin."""
    height, width = pixels.shape[:2]
    if height > LOW_HEIGHT and width <= SLIM_RATIO * height:
        return pixels, 0
    margin = max(0, 2 * max(width // SLIM_RATIO, LOW_HEIGHT) - height) // 2
    return np.pad(pixels, ((margin, margin), (0, 0), (0, 0))), margin


def build_batch(pixels: Pixels) -> Floats:
    """Convert an image to the input (1, 3, height, width) of the networks: -1..1, BGR."""
    return np.ascontiguousarray(
        (pixels[None, ..., ::-1].astype(np.float32) / 127.5 - 1).transpose(0, 3, 1, 2)
    )


def average_inside(probabilities: Floats, corners: Any) -> float:
    """Return the mean of a map (height, width) within four corners (x, y)."""
    most = probabilities.shape[1] - 1, probabilities.shape[0] - 1
    low = np.floor(corners.min(0)).astype(int).clip(0, most)
    high = np.ceil(corners.max(0)).astype(int).clip(0, most)
    part = probabilities[low[1] : high[1] + 1, low[0] : high[0] + 1]
    mask = np.zeros(part.shape, np.uint8)
    cv2.fillPoly(mask, [(corners - low).astype(np.int32)], (1,))
    return float(cv2.mean(part, mask)[0])


def _measure_sides(quad: Quad) -> tuple[float, float]:
    """Return the width and height of a line in pixels."""
    edges = quad - np.roll(quad, -1, 0)
    top, right, bottom, left = (float(np.linalg.norm(edge)) for edge in edges)
    return max(top, bottom), max(left, right)


def sort_lines(quads: Sequence[Quad]) -> list[Quad]:
    """Sort lines row by row, each from left to right; a new row begins half a line's height below
    the previous line."""
    down = sorted(quads, key=lambda quad: float(quad[0, 1]))
    row, places = 0, list[tuple[int, float, int]]()
    for k, quad in enumerate(down):
        row += bool(k) and float(quad[0, 1] - down[k - 1][0, 1]) > min(_measure_sides(quad)) / 2
        places.append((row, float(quad[0, 0]), k))
    return [down[k] for *_, k in sorted(places)]


def straighten_line(pixels: Pixels, quad: Quad) -> list[Pixels]:
    """Warp a line to an upright image; return two for a tall line, which may run down or up."""
    width, height = map(int, _measure_sides(quad))
    goal = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)
    change = cv2.getPerspectiveTransform(quad, goal)
    line = cv2.warpPerspective(
        pixels, change, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    turns = (1, -1) if height >= MAX_UPRIGHT_RATIO * width else (0,)
    return [np.ascontiguousarray(np.rot90(line, turn), np.uint8) for turn in turns]


def recognize_line(line: Pixels, file: Path) -> tuple[str, float]:
    """Read an upright line; return its text and its letters' mean probability. Raises
    WeightsError."""
    if file.is_dir():
        scores, letters = compute_letter_scores(file, line)
    else:
        ratio, letters = line.shape[1] / line.shape[0], _read_letters(file)
        least = max(MIN_LINE_WIDTH, int(LINE_HEIGHT * ratio))
        wide = min(math.ceil(LINE_HEIGHT * ratio), least)
        shown = cv2.resize(line, (wide, LINE_HEIGHT), interpolation=cv2.INTER_LINEAR)
        batch = build_batch(np.asarray(shown, np.uint8))
        batch = np.pad(batch, ((0, 0), (0, 0), (0, 0), (0, least - wide)))
        scores = open_onnx(file).run(batch)[0]
    if scores.ndim != 3 or scores.shape[-1] != len(letters):
        raise WeightsError(
            f"{file} returns an array of shape {scores.shape} for {len(letters)} letters; set"
            " recognizer: to a file that contains its letters, as those of rapidocr do"
        )
    best = scores[0].argmax(1)
    # 0 is no letter, and repeated predictions count once
    new = (best > 0) & (np.diff(best, prepend=0) != 0)
    text = "".join(letters[k] for k in best[new]).strip()
    return text, float(scores[0].max(1)[new].mean()) if new.any() else 0.0


@lru_cache(maxsize=4)
def _read_letters(file: Path) -> tuple[str, ...]:
    """Read the network's alphabet, where index 0 stands for no letter, from the ONNX file's
    metadata, which OpenCV does not expose."""
    # a protobuf pair: the field (1, 2) and type (2) of each text, its length, and its bytes
    content = file.read_bytes()
    match = re.search(rb"\n\tcharacter\x12([\x80-\xff]*[\x00-\x7f])", content)
    if match is None:
        return ("", " ")
    size = sum((byte & 127) << 7 * place for place, byte in enumerate(match[1]))
    return ("", *content[match.end() :][:size].decode().splitlines(), " ")
