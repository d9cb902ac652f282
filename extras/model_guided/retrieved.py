"""One picture of the regions that any source returns, which keeps their layout and shows as many
regions as the model needs to answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from looktwice.extras.model_guided.search import ask_about_views
from looktwice.pipelines import transforms
from looktwice.pipelines.geometry import PixelRect
from looktwice.pipelines.marks import Mark, bounding_box
from looktwice.pipelines.model import CallOptions, Model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.regions import find_pixel_area
from looktwice.prompting.evidence import MissingAction, handle_missing
from looktwice.prompting.where.places import Where
from looktwice.prompting.wording.instructions import Text, fill_in, read_texts


def keep_layout(view: View, regions: Sequence[Mark]) -> View:
    """Return the regions of a view on black in their relative positions. Rows and columns of pixels
    that no region covers are removed. Regions are in the view's coordinates."""
    boxes, (width, height) = list[PixelRect](), view.size
    across, down = np.zeros(width + 1, int), np.zeros(height + 1, int)
    for region in regions:
        left, top, right, bottom = find_pixel_area(bounding_box(region), 0, (0, 0, width, height))
        boxes.append((left, top, max(right, left + 1), max(bottom, top + 1)))
        across[left + 1 : boxes[-1][2] + 1] = down[top + 1 : boxes[-1][3] + 1] = 1
    lefts, tops = across.cumsum(), down.cumsum()  # columns and rows kept before each edge
    canvas = View(Picture(np.zeros((tops[-1], lefts[-1], 3), np.uint8)))
    pieces = [(transforms.crop(view, *box), int(lefts[box[0]]), int(tops[box[1]])) for box in boxes]
    return transforms.paste(canvas, pieces)


@dataclass(frozen=True)
class RetrievedCrops(Ranged):
    """Replaces each view that shows regions of a source with one picture of these regions in their
    layout: RAP (arXiv 2503.01222).

    `where` is any source; `prompting.where.BestCells` and `AskedCells` retrieve cells of a grid, as
    RAP does. Rows and columns without a region are removed; the space between regions is black.
    `tries` lists how many regions to use, counted from the most important one; 0 means all. If it
    lists several numbers, the model is shown the picture for each in turn and asked `answering`
    ({question} is filled in), to which it replies Yes or No. The first picture for which the
    model's confidence in Yes (-1 to 1, by the likelihoods if the model gives them) is at least
    `enough` is kept, or else the picture with the highest confidence. With `whole` the view itself
    is kept before the picture. `fit` is a stage that resizes the images of these questions, and
    `options` are passed to the model. `missing` is as in `Look`. Measures `crops_kept`.
    """

    where: Where
    tries: tuple[int, ...] = (0,)
    enough: float = 0.6
    answering: Text = "{question}\nDoes this image show enough to answer? Answer Yes or No."
    whole: bool = False
    fit: Stage | None = None
    options: CallOptions = field(default_factory=lambda: CallOptions(logprobs=20))
    missing: MissingAction = "keep"

    ranges = ("enough >= -1", "enough <= 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        read_texts(self)
        if not self.tries or min(self.tries) < 0:
            raise ValueError(f"tries must be numbers of regions, 0 for all, got {[*self.tries]}")

    @property
    def asks(self) -> bool:
        """Return whether the model is asked: by the source, or because several numbers of regions
        are tried."""
        return self.where.asks or len(self.tries) > 1

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the pictures. Raises ModelError."""
        places = self.where.places(state, model)
        state = state.with_notes(*places.notes)
        if not any(places.regions.values()):
            reasons = [*places.reasons.values()] or [f"no {places.region_phrase} is seen"]
            return handle_missing(state, self.missing, reasons)
        surest, best = -2.0, state
        for count in self.tries:
            chosen = {n: marks[: count or None] for n, marks in places.regions.items()}
            views = chain.from_iterable(self._show_regions(view, chosen) for view in state.views)
            shown = state.replace(views=tuple(views))
            shown = shown.measured("crops_kept", sum(map(len, chosen.values())))
            if len(self.tries) == 1:
                return shown
            text = fill_in(self.answering, question=state.sample.question)
            sure = ask_about_views(self, shown, model, [*shown.views], text)
            if sure > surest:
                surest, best = sure, shown
            if sure >= self.enough:
                break
        return best

    def _show_regions(self, view: View, chosen: dict[int, Sequence[Mark]]) -> list[View]:
        sources = sorted({part.source for part in view.parts} & chosen.keys())
        marks = [place for source in sources for m in chosen[source] for place in view.to_view(m)]
        kept = [view] if self.whole or not marks else []
        return [*kept, keep_layout(view, marks)] if marks else kept
