"""A stand-in for a vision-language model: it compares the pixels around the marked points."""

import re
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.model import CallOptions, Messages, Reply, Usage

Place = tuple[int, int, int]  # x and y in pixels, and the number of the image
PLACE = re.compile(r"^(\w+): x=(\d+), y=(\d+) in image (\d)", re.MULTILINE)
FARTHEST = 0.2  # how far a point of a stereo pair may move, as a share of the width


@dataclass(frozen=True)
class ColorEyes:
    """Answers from the coordinates in the prompt, and from the images as they were sent.

    Of the candidates for REF it chooses the one with the most similar surroundings. Of two points
    in a stereo pair it chooses the one that moves more between the images. It knows nothing else.
    """

    reach: int = 4  # pixels on each side of a point that it compares

    @property
    def identity(self) -> str:
        """The settings."""
        return f"ColorEyes {self.reach}"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the letter of a choice, and the tokens: one for 28 x 28 pixels, or 4 characters."""
        text, views = messages[-1].text, messages[-1].views
        width = [((self.reach, self.reach), (self.reach, self.reach), (0, 0))]
        images = [np.pad(view.pixels.astype(float), *width, mode="edge") for view in views]
        places = {label: (int(x), int(y), int(n)) for label, x, y, n in PLACE.findall(text)}
        ref = places.pop("REF", None)
        if ref is None:
            scores = {label: self._move(images, at) for label, at in places.items() if at[2] == 1}
        else:
            scores = {label: -self._unlike(images, ref, at) for label, at in places.items()}
        sizes = (view.size for view in views)
        tokens = sum(ceil(width / 28) * ceil(height / 28) for width, height in sizes)
        best = max(scores, key=scores.__getitem__)
        return Reply(f"({best})", usage=Usage(tokens + len(text) // 4, 3))

    def _unlike(self, images: list[NDArray[np.float64]], one: Place, other: Place) -> float:
        """Return the mean difference in grey levels between the surroundings of two points."""
        first, second = (self._cut(images, place) for place in (one, other))
        return float(np.abs(first - second).mean())

    def _cut(self, images: list[NDArray[np.float64]], place: Place) -> NDArray[np.float64]:
        x, y, number = place
        side = 2 * self.reach + 1
        return images[number - 1][y : y + side, x : x + side]

    def _move(self, images: list[NDArray[np.float64]], place: Place) -> int:
        """Return how far to the left the most similar place of the second image is, in pixels."""
        x, y, _ = place
        moves = range(min(x, round(FARTHEST * images[0].shape[1])) + 1)
        return min(moves, key=lambda move: self._unlike(images, place, (x - move, y, 2)))
