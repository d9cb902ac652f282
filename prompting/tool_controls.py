"""Control arms of a zoom: the same tool to the model's eyes, that shows another place than asked for, or the true one.

Put into the place of `prompting.tool_looks.Zoom` under the same name, they are told to the model in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from looktwice.pipelines.marks import Box
from looktwice.pipelines.state import State
from looktwice.prompting.crops import Crop
from looktwice.prompting.oracle import OracleCrop, RandomCrop
from looktwice.prompting.tool_looks import ASKED, Zoom
from looktwice.prompting.tools import Arguments, OnBox, ToolResult, drawn, looked

__all__ = ["RandomZoom", "TrueZoom"]

ZOOM = Zoom()


@dataclass(frozen=True)
class RandomZoom:
    """The placebo: a crop as large as the one asked for, as far off it as the best of 64 random places.

    `prompting.oracle.RandomCrop` on the box that the model names. Places are the same for every run of one seed,
    sample and draw; `seed` gives others.
    """

    description: str = ZOOM.description
    crop: Crop = ZOOM.crop
    seed: int = 0

    arguments: ClassVar[type[Arguments]] = OnBox

    def __call__(self, state: State, arguments: OnBox) -> ToolResult:
        """The crop, which says nothing of where it lies. Raises ToolError."""
        asked = OracleCrop(ASKED, crop=self.crop)
        elsewhere = RandomCrop(asked, seed=self.seed + len(state.views))
        found = drawn(elsewhere, state, state.views[arguments.image - 1], Box(ASKED, *arguments.box))
        return ToolResult("", found.views)


@dataclass(frozen=True)
class TrueZoom:
    """The oracle: the region that matters, wherever the model asked for.

    `prompting.oracle.OracleCrop` by `label` or `hint`, on the image that the model names, or on the first one that
    shows the region where that one does not.
    """

    description: str = ZOOM.description
    label: str = ""
    hint: str = "region"
    crop: Crop = ZOOM.crop

    arguments: ClassVar[type[Arguments]] = OnBox

    def __call__(self, state: State, arguments: OnBox) -> ToolResult:
        """The crop, which says nothing of where it lies. Raises ValueError where no image shows the region."""
        oracle = OracleCrop(self.label, self.hint, self.crop)
        asked = state.views[arguments.image - 1]
        places = oracle.places(state.replace(views=(asked, *state.views)))
        view = (asked, *state.views)[min(places)]
        return ToolResult("", looked(oracle, state, view).views)
