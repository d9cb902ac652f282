"""The ground, light and camera of Do You See Me's 3D scenes.

The authors place solids into photographs with Blender; here they stand on plain ground in one of
five tints. The fields of the authors' sidecar files are in each item's truth under `sidecar`, with
the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from looktwice.eval.tasks.photographs import make_rng
from looktwice.eval.tasks.swept import SceneParameters
from looktwice.extras.scenes.canvas import RGB
from looktwice.extras.scenes.scene import Scene, number_labels
from looktwice.extras.scenes.scenes3d import (
    Camera,
    Floats,
    Solid,
    View,
    World,
    draw_grain,
    to_linear_color,
)
from looktwice.pipelines.marks import Box

GROUND_COLORS: Mapping[str, RGB] = {
    "street": (110, 112, 116),
    "grassland": (88, 116, 62),
    "beach": (206, 186, 148),
    "hall": (168, 164, 158),
    "garage": (142, 120, 102),
}
LIGHT_POSITIONS = {
    "left": (-7.0, -7.0, 12.0),
    "middle": (0.0, -9.0, 14.0),
    "right": (7.0, -7.0, 12.0),
}
PICTURE_SIZE = (800, 600)  # pixels
COARSE_FACTOR = 4  # picture pixels per coarse pixel; coarse pictures are used to try positions


@dataclass(frozen=True)
class SceneSetup:
    """The ground plane, light and camera for rendering solids."""

    ground: str
    light: str
    grain_seed: int
    camera: Camera

    @classmethod
    def draw(cls, params: SceneParameters, camera: Camera, fixed: bool = False) -> SceneSetup:
        """Draw a random setup; if `fixed`, always return the same one."""
        ground, light = params.pick(tuple(GROUND_COLORS)), params.pick(tuple(LIGHT_POSITIONS))
        grain = params.draw_integer(1, 8)
        return cls("hall", "middle", 0, camera) if fixed else cls(ground, light, grain, camera)

    @property
    def sidecar(self) -> dict[str, str]:
        """The fields of the sidecar that describe the setup."""
        return {"scene": self.ground, "light": self.light}

    def make_view(self, solids: Sequence[Solid]) -> View:
        """Make the camera's view of these solids."""
        grain, tint = (
            draw_grain(make_rng("grain", self.grain_seed)),
            to_linear_color(GROUND_COLORS[self.ground]),
        )
        return View(World(tuple(solids), tint, grain, LIGHT_POSITIONS[self.light]), self.camera)

    def make_scene(
        self,
        solids: Sequence[Solid],
        question: str,
        answer: str,
        sidecar: Mapping[str, Any],
        labels: Sequence[str] = (),
        **rest: Any,
    ) -> Scene:
        """Build a scene. Its marks are boxes around single solids, or around solids that share one
        of the `labels`; the boxes may be too large by up to one coarse pixel."""
        names = labels or list(number_labels(solid.name for solid in solids))
        masks = dict[str, Any]()
        for name, solid in zip(names, solids, strict=True):
            masks[name] = np.isfinite(self.measure_distances(solid)) | masks.get(name, False)
        marks = []
        for name, mask in masks.items():
            places = COARSE_FACTOR * np.argwhere(mask)[:, ::-1].astype(float)
            marks.append(
                Box(name, *places.min(0).tolist(), *(places.max(0) + COARSE_FACTOR).tolist())
            )
        truth = {
            "objects": [solid.to_dict() for solid in solids],
            "camera": self.camera.to_dict(),
            "sidecar": dict(sidecar),
        }
        return Scene(
            question, answer, truth, lambda: self.make_view(solids).pixels, tuple(marks), **rest
        )

    def measure_distances(self, solid: Solid) -> Floats:
        """Return the distance to a solid at each coarse pixel, ignoring occluders."""
        return measure_coarse_distances(self.camera, solid)


@lru_cache(4)
def make_coarse_camera(camera: Camera) -> Camera:
    """Return the camera with coarse pixels, for fast measurements."""
    width, height = camera.size
    return replace(camera, size=(width // COARSE_FACTOR, height // COARSE_FACTOR))


@lru_cache(64)  # the distances of placed solids are used repeatedly
def measure_coarse_distances(camera: Camera, solid: Solid) -> Floats:
    """Return the distance to a solid at each coarse pixel of a camera's picture, ignoring
    occluders."""
    return make_coarse_camera(camera).measure_distances(solid)
