"""Questions that a test creates, and models that answer them from the text alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from looktwice.eval.tasks import Facts
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample


@dataclass(frozen=True)
class Questions:
    """Questions "No. 0?", "No. 1?" ... with one image each and this many choices."""

    keys: tuple[str, ...]
    choices: int = 2
    meta: tuple[Mapping[str, Any], ...] = ()

    @property
    def facts(self) -> Facts:
        return Facts("made", "by hand")

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Item]:
        for number, key in enumerate(self.keys):
            pixels = np.full((40, 60, 3), 40 + number % 200, np.uint8)
            pixels[:20, :30] = 255 - number % 200
            said = tuple(f"thing {number}.{choice}" for choice in range(self.choices))
            meta = dict(self.meta[number]) if self.meta else {}
            yield Item(
                Sample(
                    f"q{number:04}", f"No. {number}?", (Picture(pixels, "made"),), said, (), meta
                ),
                key,
            )
