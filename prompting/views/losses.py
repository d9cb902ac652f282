"""What a model cannot see of what stages drew: marks below a patch, and marks whose colour is lost
in the encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.views.resize import Encode
from looktwice.prompting.views.seen import layout_of

DRAWN = 24  # levels of a channel by which a pixel that was drawn differs at least
KEPT = 0.6  # of a drawn colour, below which it is lost: a line of one pixel in 4:2:0 keeps half


@dataclass(frozen=True, eq=False)
class Drawing:
    """What the stage in `slot` drew on a view: the view `before` and after it (`drawn`)."""

    slot: str
    before: View
    drawn: View

    @property
    def cover(self) -> NDArray[np.bool_]:
        """The pixels HxW that differ."""
        off = np.subtract(self.drawn.pixels, self.before.pixels, dtype=np.int16)
        covered: NDArray[np.bool_] = np.abs(off).max(axis=2) >= DRAWN
        return covered

    @property
    def longer_side(self) -> int:
        """The longer side of the largest connected part, in pixels of the view."""
        parts = cv2.connectedComponentsWithStats(self.cover.astype(np.uint8), connectivity=8)[2]
        return int(parts[1:, 2:4].max(initial=0))

    def colour_kept(self, sent: View) -> float:
        """The share of the drawn colour, of its chroma alone, that is left in the view as it is
        sent."""
        before, drawn, left = (
            cv2.cvtColor(view.pixels, cv2.COLOR_RGB2YCrCb)[self.cover][:, 1:].astype(float)
            for view in (self.before, self.drawn, sent)
        )
        whole = np.abs(drawn - before).mean()
        return float(np.abs(left - before).mean() / whole) if whole else 1.0


def say_lost_drawings(
    state: State, stages: Mapping[str, Stage], sent: Sequence[View], model: str
) -> Iterator[str]:
    """What the model cannot see, in the views that it is sent, of what the stages drew; the state
    is the one behind them."""
    for drawing in _drawings(state, stages):
        for view in sent:
            yield from _say_drawing(drawing, view, model)


def _drawings(state: State, stages: Mapping[str, Stage]) -> Iterator[Drawing]:
    """The views that a stage changed and left as large as they were."""
    views = State.start(state.sample).views
    for step in state.trace:
        for before, after in zip(views, step.views, strict=False):
            drew = before.size == after.size and before.picture is not after.picture
            if drew and not isinstance(stages.get(step.slot), Encode):
                yield Drawing(step.slot, before, after)
        views = step.views


def _say_drawing(drawing: Drawing, sent: View, model: str) -> Iterator[str]:
    """Whether what was drawn is seen smaller than a patch, or has lost its colour on the way."""
    drawn, part = drawing.drawn.parts[:1], sent.parts[:1]
    if not (drawn and part and drawn[0].source == part[0].source):
        return
    layout = layout_of(model, sent.size)
    if layout and layout.patch and drawing.longer_side:
        scale = part[0].affine.scale / drawn[0].affine.scale * layout.size[0] / sent.size[0]
        if (patches := drawing.longer_side * scale / layout.patch) < 1:
            yield f"what stage {drawing.slot!r} draws covers {patches:.2g} of a patch of {model}"
    lossy = sent.picture.payload.media_type in ("image/jpeg", "image/webp")
    if not lossy or sent.size != drawing.drawn.size or not drawing.cover.any():
        return
    if (kept := drawing.colour_kept(sent)) < KEPT:
        yield (
            f"what stage {drawing.slot!r} draws keeps {kept:.0%} of its colour as it is sent; draw"
            " thicker lines, or encode with `chroma: 4:4:4`"
        )
