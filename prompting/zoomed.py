"""What every zoom does once its regions are known: each view by itself is zoomed, or kept, failed or abstained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from looktwice.pipelines.marks import Mark
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.crops import Crop
from looktwice.prompting.sources import Missing, lack

__all__ = ["Found", "sources_of", "zoomed"]


@dataclass(frozen=True)
class Found:
    """Regions by the number of their source image, and why there are none in others; `sought` names what they are."""

    sought: str
    regions: Mapping[int, Sequence[Mark]] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)

    def places(self, view: View, sources: Sequence[int]) -> list[Mark]:
        """Where the regions are seen in a view, in its own coordinates."""
        return [place for k in sources for region in self.regions.get(k, ()) for place in view.to_view(region)]

    def lack(self, sources: Sequence[int]) -> str:
        """Why a view of these sources shows no region."""
        known = [self.reasons[k] for k in sources if k in self.reasons]
        return "; ".join(known) or f"no {self.sought} is seen"


def zoomed(state: State, found: Found, crop: Crop, missing: Missing, wanted: Sequence[int]) -> State:
    """The state with each view of a wanted source image zoomed, or what `missing` says where one shows no region."""
    views, notes, lacking = list[View](), list[str](), list[str]()
    for number, view in enumerate(state.views, 1):
        sources = sorted({part.source for part in view.parts} & set(wanted))
        places = found.places(view, sources)
        if places:
            marks = [place for mark in state.sample.marks for place in view.to_view(mark)]
            shown, more = _cropped(state.sample, crop, view, places, marks)
            views += shown
            notes += [f"view {number}: {note}" for note in more]
        else:
            views.append(view)
            lacking += [f"view {number}: {found.lack(sources)}"] if sources else []
    if lacking and missing != "keep":
        return lack(state, missing, lacking)
    return state.replace(views=tuple(views)).noted(*notes, *(f"{reason}; kept as it is" for reason in lacking))


def _cropped(
    sample: Sample, crop: Crop, view: View, places: Sequence[Mark], marks: Sequence[Mark]
) -> tuple[list[View], list[str]]:
    try:
        return crop(view, places, marks)
    except ValueError as exc:
        raise ValueError(f"sample {sample.id}: {exc}") from exc


def sources_of(state: State, images: Sequence[int] | None) -> list[int]:
    """The numbers of the wanted source images that a view shows. Raises ValueError for one that is not there."""
    count = len(state.sample.images)
    for number in images or ():
        if not 0 <= number < count:
            raise ValueError(
                f"sample {state.sample.id}: images names {number}, but there are {count} images, counted from 0"
            )
    shown = {part.source for view in state.views for part in view.parts}
    return sorted(shown if images is None else shown & set(images))
