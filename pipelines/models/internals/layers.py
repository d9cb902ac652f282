"""A layer of a vision-language model as a place to probe, and the vectors that are found there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Part = Literal["tower", "projector", "decoder"]
Over = Literal["image", "last"]


class Layer(NamedTuple):
    """A layer by its number in its part, from 1; its state is the mean over the image's tokens, or
    the last token's."""

    part: Part
    number: int
    over: Over = "image"

    @property
    def place(self) -> str:
        """What it is called with the other layers of its kind."""
        return self.part if self.part != "decoder" else f"decoder, {PLACES[self.over]}"

    def __str__(self) -> str:
        return (
            self.place
            if self.part == "projector"
            else f"{self.part} {self.number}{self.place[len(self.part) :]}"
        )


PLACES: Mapping[Over, str] = {"image": "image tokens", "last": "last token"}
States = Mapping[Layer, NDArray[np.float32]]
"""The vectors of one question, in the order in which they are computed; only decoders have both
kinds."""


class MeanState:
    """The mean over all tokens that are added."""

    def __init__(self) -> None:
        self._sum: Any = 0.0
        self._count = 0

    def add(self, tokens: NDArray[Any]) -> None:
        """Tokens (count, width)."""
        self._sum = self._sum + tokens.sum(0, dtype=np.float64)
        self._count += len(tokens)

    @property
    def vector(self) -> NDArray[np.float32]:
        """The mean."""
        return np.asarray(self._sum / self._count, np.float32)
