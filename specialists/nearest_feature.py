"""Which of the lettered points shows the same place as the reference, told from dense features of the two images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.model import Model
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.specialists.choices import answered
from looktwice.specialists.correspondence import referred
from looktwice.specialists.protocols import FeatureMap, NoEvidence
from looktwice.specialists.results import FeatureGrid
from looktwice.specialists.style import cosines
from looktwice.specialists.working_size import one_color

__all__ = ["NearestFeature"]

SAME = 1e-6  # cosines that differ by less are told apart by rounding alone


@dataclass(frozen=True)
class NearestFeature:
    """Answers the candidate whose feature is most like that of the reference point, by their cosine.

    The candidates are the points on image 1 whose labels the choices name ("Point A"), else those labelled with the
    sample's letters; the reference lies on image 0. `search` "candidates" compares the features at the candidates;
    "everywhere" first takes the most alike cell of the whole of image 1, and then the candidate nearest to it.
    `prompt` is a word for what is seen, for features that take one. Confidence is 1 - d1 / d2 of the nearest and the
    second nearest candidate, by 1 - cosine or by distance. BLINK's paper does not say by which its DIFT rows are.

    Abstains where the reference or a candidate is missing, where an image is of one colour, and at a tie.
    """

    features: FeatureMap
    search: Literal["candidates", "everywhere"] = "candidates"
    prompt: str = ""
    reference: str = "REF"

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """The state with its answer, or the reason why there is none."""
        return answered(state, self.nearest)

    def nearest(self, sample: Sample) -> tuple[str, float]:
        """The letter and the confidence. Raises NoEvidence."""
        reference, candidates = referred(sample, self.reference)
        images = [sample.images[number].pixels for number in (0, 1)]
        for number, pixels in enumerate(images):
            if one_color(pixels):
                raise NoEvidence(f"image {number} is of one color")
        grid0, grid1 = (self.features(pixels, self.prompt) for pixels in images)
        places = np.array([point.center for point in candidates.values()])
        away = self._away(grid0.at(reference), grid1, places)
        order = np.argsort(away, kind="stable")[:2]
        (first, second), (d1, d2) = (list(candidates)[n] for n in order), away[order]
        if d2 - d1 <= SAME:
            raise NoEvidence(f"candidates {first} and {second} are equally like the reference")
        return first, 1 - d1 / d2

    def _away(self, asked: NDArray[np.float64], grid: FeatureGrid, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far each place (n, 2) of image 1 is from what was asked, a vector (1, d)."""
        if self.search == "candidates":
            return np.asarray(np.clip(1 - cosines(asked, grid.at(places))[0], 0, 2))
        alike = cosines(asked, grid.values.reshape(-1, grid.values.shape[-1]))[0]
        landed = grid.centers().reshape(-1, 2)[int(np.argmax(alike))]
        return np.asarray(np.linalg.norm(places - landed, axis=1))
