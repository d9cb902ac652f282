"""Depth and cameras of two views, and the matches that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.results import Floats, Matches, argsort_descending
from looktwice.specialists.rules import Checked
from looktwice.specialists.sharing import look_once

HALF_PIXEL = 0.5  # from pixel centres to edges


@dataclass(frozen=True, eq=False)
class Views:
    """The geometry of two views on one scale.

    `depth0` and `depth1` (height, width) are distances along the optical axis for every pixel, NaN
    where unknown; `confidence0` and `confidence1` (height, width) lie in 0..1. `intrinsics` (2, 3,
    3) map a camera's space to its image, where (0, 0) is the corner of the upper left pixel;
    `extrinsics` (2, 3, 4) map the space of the scene to that of each camera: x to the right, y
    down, z forward.
    """

    depth0: Floats
    depth1: Floats
    confidence0: Floats
    confidence1: Floats
    intrinsics: Floats
    extrinsics: Floats

    def __post_init__(self) -> None:
        wanted = {
            "confidence0": self.depth0.shape,
            "confidence1": self.depth1.shape,
            "intrinsics": (2, 3, 3),
            "extrinsics": (2, 3, 4),
        }
        for name, shape in wanted.items():
            if (found := getattr(self, name).shape) != shape:
                raise ValueError(f"Views.{name} must have the shape {shape}, found {found}")

    def lift_pixels(self, xy: Floats) -> Floats:
        """Return the points of the scene (n, 3) that pixels (n, 2) of view 0 show, in the space of
        camera 0; NaN where the depth is unknown."""
        rays = (
            np.column_stack([xy + HALF_PIXEL, np.ones(len(xy))])
            @ np.linalg.inv(self.intrinsics[0]).T
        )
        lifted: Floats = rays * _get_nearest(self.depth0, xy)[:, None]
        return lifted

    def move_points(self, points: Floats) -> Floats:
        """Transform points (n, 3) from the space of camera 0 to that of camera 1."""
        (rotation0, rotation1), (shift0, shift1) = (
            self.extrinsics[:, :, :3],
            self.extrinsics[:, :, 3],
        )
        moved: Floats = (points - shift0) @ rotation0 @ rotation1.T + shift1
        return moved

    @property
    def camera_path(self) -> Floats:
        """The position of camera 1 in the space of camera 0, (3,)."""
        (rotation0, rotation1), (shift0, shift1) = (
            self.extrinsics[:, :, :3],
            self.extrinsics[:, :, 3],
        )
        place: Floats = shift0 - rotation0 @ rotation1.T @ shift1
        return place


class ViewEstimator(Protocol):
    """Estimates the geometry of two views of a static scene. Raises NoEvidence for images that it
    cannot process."""

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Views: ...


@dataclass(frozen=True)
class GeometricMatcher(Checked):
    """Matches by reconstruction: pixels of image 0 are lifted by their depth and projected into
    image 1 by the cameras.

    `views` is the network, such as `DepthAnythingViews`. Every `step`-th pixel of image 0 in both
    directions is a candidate. It is a match if it falls into image 1 in front of its camera, and
    its distance from that camera differs from the depth there by at most the share `agreement`;
    otherwise it counts as occluded. The confidence of a match is the smaller of the confidences of
    its two pixels. The scene is assumed to be static.
    """

    views: ViewEstimator
    step: int = 8
    agreement: float = 0.05

    ranges = ("step >= 1", "agreement > 0")

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        """Match two images, highest confidence first."""
        views = look_once(self.views, pixels0, pixels1)
        rows, columns = (np.arange(self.step // 2, n, self.step) for n in views.depth0.shape)
        xy0 = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2).astype(np.float64)
        there = views.move_points(views.lift_pixels(xy0))
        far = there[:, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = there @ views.intrinsics[1].T
            xy1 = seen[:, :2] / seen[:, 2:] - HALF_PIXEL
            height, width = views.depth1.shape
            inside = (xy1 >= -HALF_PIXEL) & (xy1 < np.array([width, height]) - HALF_PIXEL)
            kept = np.flatnonzero((far > 0) & inside.all(1))
        near = _get_nearest(views.depth1, xy1[kept])
        kept = kept[np.abs(near - far[kept]) <= self.agreement * far[kept]]
        sure = np.minimum(
            _get_nearest(views.confidence0, xy0[kept]), _get_nearest(views.confidence1, xy1[kept])
        )
        order = argsort_descending(sure)
        return Matches(xy0[kept][order], xy1[kept][order], sure[order])


def _get_nearest(values: Floats, xy: Floats) -> Floats:
    """Return the values (n,) of a map at the pixels nearest to points (n, 2)."""
    columns, rows = np.rint(xy).astype(np.int64).T
    height, width = values.shape
    found: Floats = values[rows.clip(0, height - 1), columns.clip(0, width - 1)]
    return found
