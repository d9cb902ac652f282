"""An image as the model receives it, and the source of each of its parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from looktwice.pipelines.geometry import Affine, Polygon, contains, intersect, rectangle
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.picture import Picture, Pixels

__all__ = ["Part", "View"]


@dataclass(frozen=True)
class Part:
    """A piece of a view that shows source image number `source`.

    `affine` maps source points to view points (pixel centres); `clip` is the area of the view where
    this piece is visible (edge coordinates). `seconds` is the time of a video frame.
    """

    source: int
    affine: Affine
    clip: Polygon
    seconds: float | None = None


@dataclass(frozen=True, eq=False)
class View:
    """A picture with the map back to the sample's images; later parts lie on top."""

    picture: Picture
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, picture: Picture, source: int = 0) -> View:
        """Return a view of the whole source image number `source`, unchanged."""
        whole = rectangle(0, 0, *picture.size)
        return cls(picture, (Part(source, Affine(), whole, picture.seconds),))

    @property
    def pixels(self) -> Pixels:
        """HxWx3 RGB uint8, read-only."""
        return self.picture.pixels

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        return self.picture.size

    @property
    def seconds(self) -> list[float]:
        """The times of the video frames that the view shows, ascending."""
        return sorted({part.seconds for part in self.parts if part.seconds is not None})

    def with_pixels(self, pixels: Pixels) -> View:
        """Return the same view with other pixels of the same size, as a marker does."""
        if pixels.shape[1::-1] != self.size:
            raise ValueError(
                f"drawing must keep the size {self.size}, found {pixels.shape[1::-1]}; "
                "use looktwice.pipelines.transforms to resize, crop or pad, so that the map is kept"
            )
        return replace(self, picture=Picture(pixels))

    def transform(self, picture: Picture, affine: Affine) -> View:
        """Return the view after an affine change of frame: `affine` maps points of this view to
        points of `picture`."""
        frame = rectangle(0, 0, *picture.size)
        moved = (
            replace(p, affine=affine @ p.affine, clip=intersect(affine.map_polygon(p.clip), frame))
            for p in self.parts
        )
        return View(picture, tuple(part for part in moved if part.clip))

    def to_view(self, mark: Mark) -> tuple[Mark, ...]:
        """Map a mark of a source image to this view. A mark may be visible in several parts of the
        view, or in none."""
        marks = []
        for number, part in enumerate(self.parts):
            if part.source != mark.image:
                continue
            mapped = mark.transform(part.affine, part.clip)
            if mapped is not None and not self._is_covered(mapped, number):
                marks.append(mapped)
        return tuple(marks)

    def to_source(self, x: float, y: float) -> tuple[int, float, float] | None:
        """Return the source image number and the source point (x, y) shown at a view point, from
        the topmost part; None if no part is there."""
        for part in reversed(self.parts):
            if contains(part.clip, x + 0.5, y + 0.5):
                sx, sy = part.affine.inverse((x, y))
                return part.source, float(sx), float(sy)
        return None

    def _is_covered(self, mark: Point | Box | Mask, number: int) -> bool:
        """Return whether a later part covers the whole mark (for a mask: its centre)."""
        x, y = mark.center
        corners = rectangle(*mark.xyxy) if isinstance(mark, Box) else ((x + 0.5, y + 0.5),)
        above = [part.clip for part in self.parts[number + 1 :]]
        return any(all(contains(clip, *corner) for corner in corners) for clip in above)
