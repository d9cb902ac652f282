"""The networks of dlib behind face_recognition: where their files lie, and one of each per process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.weights import WeightsError, opened, weights_hash
from looktwice.specialists.checkpoints import packaged_file
from looktwice.specialists.results import Faces

__all__ = ["DlibNetworks", "dlib_file", "dlib_hash", "dlib_networks"]

FILES = {
    "cnn": "mmod_human_face_detector.dat",
    "landmarks": "shape_predictor_5_face_landmarks.dat",
    "identity": "dlib_face_recognition_resnet_model_v1.dat",
}
"""Names in the package face_recognition_models and, unpacked, on dlib's own page of files."""
SIZE = 128  # of an identity


@dataclass(frozen=True, eq=False)
class DlibNetworks:
    """A detector ("hog" brings its weights with dlib), the landmarks that align a face, and its identity.

    dlib's networks are not safe between threads, so one thread looks at a time.
    """

    detector: Any
    landmarks: Any
    identity: Any
    turn: Any = field(default_factory=threading.Lock)

    def find(self, pixels: Pixels, upsample: int, threshold: float, jitters: int) -> Faces:
        """Faces of an HxWx3 RGB image that score above `threshold`, the surest first, clipped to the image."""
        image = np.ascontiguousarray(pixels)
        with self.turn:
            found = [each for each in self._boxes(image, upsample) if each[1] > threshold]
            found.sort(key=lambda each: -each[1])
            vectors = [self._identity(image, box, jitters) for box, _ in found]
        height, width = pixels.shape[:2]
        edges = [(box.left(), box.top(), box.right() + 1, box.bottom() + 1) for box, _ in found]
        xyxy = np.reshape(edges, (-1, 4)).astype(np.float64).clip(0, [width, height, width, height])
        return Faces(xyxy, np.array([score for _, score in found]), np.reshape(vectors, (-1, SIZE)))

    def _boxes(self, image: Pixels, upsample: int) -> list[tuple[Any, float]]:
        if hasattr(self.detector, "run"):  # the histogram detector, which tells its scores here alone
            boxes, scores, _ = self.detector.run(image, upsample, 0.0)
            return list(zip(boxes, scores, strict=True))
        return [(each.rect, each.confidence) for each in self.detector(image, upsample)]

    def _identity(self, image: Pixels, box: Any, jitters: int) -> NDArray[np.float64]:
        return np.array(self.identity.compute_face_descriptor(image, self.landmarks(image, box), jitters))


def dlib_file(part: str, folder: Path | None) -> Path:
    """The file of one network, in `folder` or in the package face_recognition_models. Raises WeightsError."""
    if folder is None:
        return packaged_file("face_recognition_models", "face_recognition_models", "models", FILES[part])
    path = Path(folder).expanduser() / FILES[part]
    if not path.is_file():
        raise WeightsError(f"there is no {FILES[part]} in {path.parent}; type: pip install face_recognition_models")
    return path


def dlib_hash(detector: str, folder: Path | None) -> str:
    """What stands for the weights of a detector and the identities. Raises WeightsError."""
    parts = [part for part in FILES if part != "cnn" or detector == "cnn"]
    return " ".join((_dlib().__version__, *(weights_hash(dlib_file(part, folder)) for part in parts)))


def dlib_networks(detector: str, folder: Path | None) -> DlibNetworks:
    """The networks, opened once per process. Raises WeightsError."""
    return opened(("dlib", detector, folder), lambda: _open(detector, folder))


def _open(detector: str, folder: Path | None) -> DlibNetworks:
    dlib = _dlib()
    files = {part: str(dlib_file(part, folder)) for part in FILES if part != "cnn" or detector == "cnn"}
    try:
        finds = (
            dlib.cnn_face_detection_model_v1(files["cnn"]) if detector == "cnn" else dlib.get_frontal_face_detector()
        )
        landmarks = dlib.shape_predictor(files["landmarks"])
        return DlibNetworks(finds, landmarks, dlib.face_recognition_model_v1(files["identity"]))
    except RuntimeError as exc:
        folder = Path(files["identity"]).parent
        raise WeightsError(f"dlib cannot read its files in {folder} ({exc}); fetch them again") from exc


def _dlib() -> Any:
    try:
        import dlib
    except ImportError as exc:
        raise WeightsError("dlib is not installed; type: pip install 'looktwice[faces]'") from exc
    return dlib
