"""The interface of everything that says where to look, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from looktwice.pipelines.marks import Mark
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State
from looktwice.prompting.evidence import collect, shown_sources


@dataclass(frozen=True, eq=False)
class Places:
    """Where to look: `regions` of source images in their pixels, by image, the most important
    first.

    `sought` says in words what they are, `images` which images were searched, `reasons` why one of
    these has none; `notes` are for the record.
    """

    sought: str
    regions: Mapping[int, Sequence[Mark]]
    images: Sequence[int]
    reasons: Mapping[int, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @classmethod
    def found(
        cls,
        sought: str,
        state: State,
        images: Sequence[int] | None,
        look: Callable[[int], Sequence[Mark]],
    ) -> Places:
        """What `look` finds in each source image that a view shows, or the reason why nothing."""
        regions, reasons = collect(state, images, look)
        return cls(sought, regions, shown_sources(state, images), reasons)

    def changed(self, change: Callable[[int, Sequence[Mark]], Sequence[Mark]]) -> Places:
        """Return the same with other regions in each image."""
        return replace(self, regions={n: change(n, marks) for n, marks in self.regions.items()})


@dataclass(frozen=True)
class Where:
    """What says where to look; a subclass has `places`."""

    @property
    def asks(self) -> bool:
        """Return whether it calls the model, whose calls the sample's record then holds."""
        return False

    def places(self, state: State, model: Model) -> Places:
        """Return the regions of the source images that views show."""
        raise NotImplementedError


@dataclass(frozen=True)
class InImages(Where):
    """A source that looks at one image after another; `images` are counted from 0, None means
    all."""

    images: tuple[int, ...] | None = field(default=None, kw_only=True)
    sought: ClassVar[str] = "region"

    def places(self, state: State, model: Model) -> Places:
        """Return the regions by their images."""
        return Places.found(
            self.sought, state, self.images, lambda number: self.look(state, model, number)
        )

    def look(self, state: State, model: Model, number: int) -> Sequence[Mark]:
        """Return the regions of one image. Raises NoEvidence."""
        raise NotImplementedError


class AsksAsWhere:
    """What asks the model exactly where its source `where` does."""

    where: Where

    @property
    def asks(self) -> bool:
        """Return whether `where` asks the model."""
        return self.where.asks
