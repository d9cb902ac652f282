"""The interface of all sources of regions, and the result that they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from looktwice.pipelines.marks import Mark
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State
from looktwice.prompting.evidence import collect_results, list_shown_sources


@dataclass(frozen=True, eq=False)
class Places:
    """The regions to look at: `regions` maps each source image to its regions, in pixels of that
    image, the most important first.

    `region_phrase` describes the regions in words, and `images` lists the images that were
    searched, and `reasons` says why an image has no regions; `notes` are for the record.
    """

    region_phrase: str
    regions: Mapping[int, Sequence[Mark]]
    images: Sequence[int]
    reasons: Mapping[int, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @classmethod
    def search(
        cls,
        region_phrase: str,
        state: State,
        images: Sequence[int] | None,
        look: Callable[[int], Sequence[Mark]],
    ) -> Places:
        """Return the results of `look` for each source image that a view shows, with reasons for
        images without a result."""
        regions, reasons = collect_results(state, images, look)
        return cls(region_phrase, regions, list_shown_sources(state, images), reasons)

    def map_regions(self, change: Callable[[int, Sequence[Mark]], Sequence[Mark]]) -> Places:
        """Return a copy in which `change` has replaced the regions of each image."""
        return replace(self, regions={n: change(n, marks) for n, marks in self.regions.items()})


@dataclass(frozen=True)
class Where:
    """A source of regions; a subclass implements `places`."""

    @property
    def asks(self) -> bool:
        """Return whether the source calls the model; the sample's record then holds these calls."""
        return False

    def places(self, state: State, model: Model) -> Places:
        """Return the regions of the source images that views show."""
        raise NotImplementedError


@dataclass(frozen=True)
class PerImageSource(Where):
    """A source that searches one image at a time; `images` are counted from 0, and None means
    all."""

    images: tuple[int, ...] | None = field(default=None, kw_only=True)
    region_phrase: ClassVar[str] = "region"

    def places(self, state: State, model: Model) -> Places:
        """Return the regions by image."""
        return Places.search(
            self.region_phrase,
            state,
            self.images,
            lambda number: self.find_regions(state, model, number),
        )

    def find_regions(self, state: State, model: Model, number: int) -> Sequence[Mark]:
        """Return the regions of one image. Raises NoEvidence."""
        raise NotImplementedError


class WithSource:
    """A stage or source that asks the model if and only if its source `where` does."""

    where: Where

    @property
    def asks(self) -> bool:
        """Return whether `where` asks the model."""
        return self.where.asks
