"""Networks that match two images: what those run via kornia share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.networks.image_size import InputSize, is_one_color
from looktwice.specialists.networks.network import Network
from looktwice.specialists.results import Matches

Pair = tuple[Pixels, Pixels]


@dataclass(frozen=True)
class PairNetwork(Network[Pair, Matches]):
    """A matcher that looks at each image in a size of its own; pairs of the same two sizes go into
    one batch."""

    result = Matches
    half_is_safe = False
    mixed = True

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        """Matches between two images, HxWx3 RGB uint8; none where one is single-coloured.

        Raises WeightsError, and NoEvidence for images too small.
        """
        return self.predict((pixels0, pixels1))

    def prepare(self, given: tuple[Any, ...]) -> Pair:
        """The two images. Raises NoEvidence where one is too small."""
        item = super().prepare(given)
        for pixels in item:
            self.size(pixels)
        return item

    def settle(self, item: Pair) -> Matches | None:
        """No match where an image is single-coloured."""
        return Matches.none() if any(map(is_one_color, item)) else None

    def size(self, pixels: Pixels) -> InputSize:
        """The size at which an image is looked at. Raises NoEvidence where it is too small."""
        raise NotImplementedError

    def batch_key(self, item: Pair) -> Hashable:
        """The sizes at which the two images are looked at."""
        return tuple((size.columns, size.rows) for size in map(self.size, item))
