"""Questions about the positions of objects in drawn scenes, whose boxes and masks are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator

from looktwice.eval.tasks.base import Facts, GeneratedTask, Subset, require_positive
from looktwice.eval.tasks.marked_scenes.scene import (
    COLORS,
    SHAPES,
    Ground,
    Style,
    Thing,
    draw_things,
    place_thing,
)
from looktwice.eval.tasks.marked_scenes.task import TEST_PHOTOS
from looktwice.eval.tasks.photographs import make_rng
from looktwice.extras.grounding.places import Place, format_places
from looktwice.extras.grounding.scorer import PlacesScorer
from looktwice.pipelines.marks import mask_bounds
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

Ask = Literal["box", "point", "boxes", "points"]
Unit = Literal["pixels", "0-1", "0-100", "0-1000"]
UNIT_PHRASES: dict[Unit, str] = {
    "pixels": "in pixels of the image",
    "0-1": "as shares of the image's width and height, from 0 to 1",
    "0-100": "in percent of the image's width and height",
    "0-1000": "in thousandths of the image's width and height, from 0 to 1000",
}
ANSWER_INSTRUCTIONS: dict[Ask, str] = {
    "box": "Give its box as [left, top, right, bottom], {unit}.",
    "point": "Give the place of its middle as (x, y), {unit}.",
    "boxes": 'Reply with a JSON list of {{"bbox_2d": [left, top, right, bottom], "label": name}},'
    " {unit}.",
    "points": 'Reply with a JSON list of {{"point_2d": [x, y], "label": name}}, {unit}.',
}
ASKED_SHAPE_COUNT = 3
SHAPE_SIZE_RANGE = (24.0, 64.0)  # minimum and maximum height of the shapes, in pixels


@dataclass(frozen=True)
class DrawnScenes(GeneratedTask):
    """`n` questions about where objects are in drawn scenes of 320 x 320 pixels.

    `ask` is "box" or "point" for one object, named by its colour and shape, or "boxes" or "points"
    for all objects with one of three shapes, of which some may be absent. `unit` is the unit that
    the question asks for. Scenes hold `things` coloured shapes that do not overlap. An item's truth
    holds the boxes and masks. With "boxes", `mean_ap` reports average precision (the extra `map`).
    Question `i` depends only on `ask`, `things`, `ground`, `seed` and `i`. Raises TaskError.
    """

    ask: Ask = "box"
    n: int = 100
    things: int = 8
    unit: Unit = "0-1000"
    seed: int = 0
    ground: Ground = "plain"
    mean_ap: bool = False
    subset: Subset = Subset()

    def __post_init__(self) -> None:
        require_positive(self.n)
        require_positive(self.things)
        _ = self._scorer

    @property
    def facts(self) -> Facts:
        """The task's facts: that correct answers are known by construction, and how answers are
        scored."""
        return Facts("made", "by construction", note="generated images", scorer=self._scorer)

    @property
    def _scorer(self) -> PlacesScorer:
        return PlacesScorer(self.ask, mean_ap=self.mean_ap)

    def _id(self, number: int) -> str:
        return f"{self.ask}_{number:04}"

    def _item(self, number: int) -> Item:
        rng = make_rng("drawn scenes", self.ask, self.things, self.ground, self.seed, number)
        style = Style(ground=self.ground, photos=TEST_PHOTOS)
        things = self._place_things(rng, style)
        picture = Picture(draw_things(rng, things, style), self._id(number))
        names = tuple[str, ...]()
        if self.ask in ("box", "point"):
            asked = things[:1]
            words = f"Where is the {things[0].name}?"
        else:
            names = tuple(map(str, rng.choice(SHAPES, ASKED_SHAPE_COUNT, replace=False)))
            asked = [thing for thing in things if thing.shape in names]
            words = f"Find every {names[0]}, every {names[1]} and every {names[2]}."
        places = [
            replace(_locate(thing, style.side), label=thing.shape if names else "")
            for thing in asked
        ]
        wanted = ANSWER_INSTRUCTIONS[self.ask].format(unit=UNIT_PHRASES[self.unit])
        meta: dict[str, object] = {"sizes": [[style.side, style.side]]}
        meta |= {"categories": list(names)} if names else {}
        sample = Sample(self._id(number), f"{words} {wanted}", (picture,), (), (), meta)
        truth = {"places": [found.to_truth() for found in places]}
        return Item(sample, format_places(places), truth)

    def _place_things(self, rng: Generator, style: Style) -> Sequence[Thing]:
        """Return objects with different names at random positions."""
        kinds = [(color, shape) for color in COLORS for shape in SHAPES]
        things = list[Thing]()
        for kind in rng.permutation(len(kinds))[: self.things]:
            color, shape = kinds[int(kind)]
            size, tilt = float(rng.uniform(*SHAPE_SIZE_RANGE)), float(rng.uniform(-12, 12))
            things.append(place_thing(rng, Thing(shape, color, 0, 0, size, tilt), things, style))
        return things


def _locate(thing: Thing, side: int) -> Place:
    """Return the box and mask of an object with its rim: the pixels that it covers by half or
    more."""
    on_black, on_white = (np.full((side, side, 3), shade, np.uint8) for shade in (0, 255))
    for pixels in (on_black, on_white):
        thing.draw(pixels)
    mask = (on_white.astype(int) - on_black).max(-1) < 128
    return Place(tuple(map(float, mask_bounds(mask))), mask=mask)
