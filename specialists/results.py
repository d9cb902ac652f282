"""Results of specialists: frozen dataclasses of read-only arrays, indexed by mask, index or
slice."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looktwice.pipelines.marks import mask_bounds

__all__ = ["Boxes", "DepthMap", "Faces", "FeatureGrid", "Masks", "Matches"]

Floats = NDArray[np.float64]
Texts = NDArray[np.str_]
RowIndex = slice | int | NDArray[Any] | list[int] | list[bool]


ROW_FORMATS: dict[str, tuple[Any, ...]] = {
    "xyxy": (np.float64, 4),
    **dict.fromkeys(("xy0", "xy1"), (np.float64, 2)),
    **dict.fromkeys(("scores", "confidence"), (np.float64,)),
    "vectors": (np.float64, None),
    "labels": (str,),
    "masks": (bool, None, None),
}
"""The type of each array and the shape of one row, by the name of the array; None stands for any
size."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Arrays of equal length; row i of each array describes result i."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, index: RowIndex) -> Self:
        """Select rows by a boolean mask, indices, a slice or one index."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))

    def __post_init__(self) -> None:
        """Check the shape of each array and make it read-only."""
        count = None
        for own in fields(self):
            name, (dtype, *shape) = f"{type(self).__name__}.{own.name}", ROW_FORMATS[own.name]
            array: NDArray[Any] = np.array(getattr(self, own.name), dtype)
            if array.size == 0 and array.ndim != len(shape) + 1:
                array = array.reshape(0, *(size or 0 for size in shape))
            count = len(array) if count is None and array.ndim else count
            wanted = (count, *shape)
            if len(wanted) != array.ndim or any(
                size not in (None, length) for size, length in zip(wanted, array.shape, strict=True)
            ):
                sizes = ", ".join("any" if size is None else str(size) for size in wanted)
                raise ValueError(f"{name} must have the shape ({sizes}), found {array.shape}")
            if array.dtype == np.float64 and not np.isfinite(array).all():
                raise ValueError(
                    f"{name} contains numbers that are not finite; drop these rows first"
                )
            array.flags.writeable = False
            object.__setattr__(self, own.name, array)


@dataclass(frozen=True, eq=False)
class Boxes(_Rows):
    """n upright boxes: `xyxy` (n, 4) edges left, top, right, bottom in pixels; `scores` (n,);
    `labels` (n,) strings."""

    xyxy: Floats
    scores: Floats
    labels: Texts

    def __post_init__(self) -> None:
        super().__post_init__()
        turned = np.flatnonzero((self.xyxy[:, 2:] < self.xyxy[:, :2]).any(1))
        if len(turned):
            raise ValueError(
                f"Boxes.xyxy[{turned[0]}] = {self.xyxy[turned[0]].tolist()} has its right edge"
                " before its left edge or its bottom edge above its top edge; the order is left,"
                " top, right, bottom"
            )

    def to_supervision(self) -> Any:
        """Convert to `supervision.Detections`, with the labels in `data["class_name"]`. Raises
        ImportError with the command that installs supervision."""
        try:
            from supervision import Detections
        except ImportError as exc:
            from looktwice.pipelines.runtime.install import format_install

            command = format_install("sv")
            raise ImportError(f"supervision is not installed; type: {command}") from exc
        return Detections(
            xyxy=self.xyxy.astype(np.float32),
            confidence=self.scores.astype(np.float32),
            class_id=np.unique(self.labels, return_inverse=True)[1].astype(int),
            data={"class_name": self.labels.copy()},
        )

    @classmethod
    def from_supervision(cls, detections: Any) -> Boxes:
        """Convert from `supervision.Detections`.

        Missing confidences become 1; labels are the class names, else the class numbers.
        In supervision, a box made from a mask ends at the mask's last pixel; here, one pixel after
        it.
        """
        count, ids = len(detections.xyxy), detections.class_id
        scores = np.ones(count) if detections.confidence is None else detections.confidence
        numbers = [""] * count if ids is None else [str(number) for number in ids]
        xyxy = np.array(detections.xyxy, np.float64)
        for number, mask in enumerate(() if detections.mask is None else detections.mask):
            x0, y0, x1, y1 = mask_bounds(np.asarray(mask, bool))
            if x1 and np.array_equal(xyxy[number], (x0, y0, x1 - 1, y1 - 1)):
                xyxy[number, 2:] = x1, y1
        return cls(xyxy, scores, np.array(detections.data.get("class_name", numbers), str))


@dataclass(frozen=True, eq=False)
class Masks(_Rows):
    """n regions: `masks` (n, height, width) bool in the image's pixels; `scores` (n,); `labels`
    (n,) strings."""

    masks: NDArray[np.bool_]
    scores: Floats
    labels: Texts

    @classmethod
    def make_empty(cls, height: int, width: int) -> Masks:
        """Return an empty set of masks for an image of this size."""
        return cls(np.empty((0, height, width), bool), np.empty(0), np.empty(0, str))


@dataclass(frozen=True, eq=False)
class Matches(_Rows):
    """n matched points: `xy0` and `xy1` (n, 2) pixel centres in images 0 and 1; `confidence` (n,)
    in 0..1."""

    xy0: Floats
    xy1: Floats
    confidence: Floats

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = self.confidence[(self.confidence < 0) | (self.confidence > 1)]
        if len(wrong):
            raise ValueError(f"Matches.confidence must lie in 0..1, found {wrong[0]:g}")

    @classmethod
    def make_empty(cls) -> Matches:
        """Return an empty set of matches."""
        return cls(np.empty((0, 2)), np.empty((0, 2)), np.empty(0))


@dataclass(frozen=True, eq=False)
class Faces(_Rows):
    """n faces: `xyxy` (n, 4) edges in pixels; `scores` (n,); `vectors` (n, d), which identify
    persons, with d = 0 if the method computes none."""

    xyxy: Floats
    scores: Floats
    vectors: Floats


@dataclass(frozen=True, eq=False)
class FeatureGrid:
    """One feature vector for each cell of an image: `values` (rows, columns, d) for `width` x
    `height` pixels.

    The cells tile the image evenly: the centre of cell (row, column) lies at pixel ((column + 0.5)
    * width / columns - 0.5, (row + 0.5) * height / rows - 0.5).
    """

    values: Floats
    width: int
    height: int

    def __post_init__(self) -> None:
        _set_values(self, "(rows, columns, d)")

    def interpolate(self, xy: ArrayLike) -> Floats:
        """Interpolate the vectors (n, d) at points (n, 2) in pixel centres, bilinearly between
        cells; the outer cells are extended."""
        from scipy.ndimage import map_coordinates

        points, (rows, columns, channels) = np.reshape(xy, (-1, 2)) + 0.5, self.values.shape
        x = points[:, :1] * columns / self.width - 0.5
        y = points[:, 1:] * rows / self.height - 0.5
        places = np.broadcast_arrays(y, x, np.arange(channels))
        return map_coordinates(self.values, places, order=1, mode="nearest")

    def compute_centers(self) -> Floats:
        """Return the centres of the cells in pixels, (rows, columns, 2)."""
        rows, columns = self.values.shape[:2]
        x = (np.arange(columns) + 0.5) * self.width / columns - 0.5
        y = (np.arange(rows) + 0.5) * self.height / rows - 0.5
        return np.stack(np.meshgrid(x, y), axis=-1)


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Depth or disparity of every pixel: `values` (height, width), NaN where unknown.

    `larger_is_nearer` is true for disparity and inverse depth, false for distance. The unit depends
    on the method.
    """

    values: Floats
    larger_is_nearer: bool

    def __post_init__(self) -> None:
        _set_values(self, "(height, width)")

    @property
    def nearness(self) -> Floats:
        """The values with their sign changed if needed, so that larger is nearer."""
        return self.values if self.larger_is_nearer else -self.values

    def get_values_around(self, x: float, y: float, window: int) -> Floats:
        """Return the known values (k,), possibly none, in the window x window pixels around a point
        in pixel centres."""
        patch = cut_patch(self.nearness, x, y, window)
        values: Floats = patch[~np.isnan(patch)]
        return values


def argsort_descending(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices that sort values (n,) in descending order; the sort is stable."""
    return np.argsort(-values, kind="stable")


def cut_patch(values: NDArray[Any], x: float, y: float, window: int) -> NDArray[Any]:
    """Return the window x window pixels around a point in pixel centres."""
    column, row, half = round(x), round(y), window // 2
    return values[max(0, row - half) : row + half + 1, max(0, column - half) : column + half + 1]


def _set_values(result: FeatureGrid | DepthMap, shape: str) -> None:
    """Check the values' shape and make them read-only; infinite values become NaN."""
    values = np.array(result.values, np.float64)
    if values.ndim != shape.count(",") + 1 or 0 in values.shape:
        kind = type(result).__name__
        raise ValueError(f"{kind}.values must have the shape {shape}, found {values.shape}")
    values[~np.isfinite(values)] = np.nan
    values.flags.writeable = False
    object.__setattr__(result, "values", values)
