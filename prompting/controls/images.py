"""Controls that show how much a result depends on the image and the marks: none, blank, another, or
moved ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal

import numpy as np

from looktwice.pipelines import transforms
from looktwice.pipelines.geometry import Affine, rectangle
from looktwice.pipelines.marks import Box, Mark, Mask, bounding_box
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import rgb
from looktwice.prompting.ranges import check_ranges
from looktwice.prompting.views.resize import resize_view

MAX_TRIES = 2000  # random places that are tried for one mark


@dataclass(frozen=True)
class NoImage(WithoutModel):
    """No image at all: how much can be answered from the words. Put it right before the stage that
    asks."""

    def __call__(self, state: State, model: Model) -> State:
        """The state without views."""
        return state.replace(views=())


@dataclass(frozen=True)
class BlankImage(WithoutModel):
    """Replaces every view by a single-coloured one of its size: the same form of prompt without the
    image's content.

    `color` is a CSS name, "#rrggbb", or "mean" for each view's own mean. The map to the sources
    stays, so that marks drawn afterwards stand on the blank ground at their places; put it after
    the markers to blank them too.
    """

    color: str = "gray"

    def __post_init__(self) -> None:
        if self.color != "mean":
            rgb(self.color)

    def __call__(self, state: State, model: Model) -> State:
        """The state with its views blank."""
        views = []
        for view in state.views:
            mean = self.color == "mean"
            ground = np.rint(view.pixels.mean((0, 1))) if mean else rgb(self.color)
            views.append(view.with_pixels(np.full_like(view.pixels, ground)))
        return state.replace(views=tuple(views))


@dataclass(frozen=True)
class OtherImage(WithoutModel):
    """Replaces the images by those of another sample; question, choices and marks stay.

    `task` gives the samples to choose from, usually the task itself (`task: ${task}`). The choice
    is the same for every run of one seed, sample and draw; `seed` gives another one. The other
    sample shares no image with this one, and has at least as many images, if there is such a
    sample. `fit` "cover" scales and crops the other image around its middle to the size of the view
    that it replaces, so that marks drawn afterwards fall inside and the size says nothing;
    "stretch" scales it alone; "none" sends it as it is, in its own bytes, and a mark beyond it is
    not drawn. Put it first.
    """

    task: Iterable[Item]
    fit: Literal["cover", "stretch", "none"] = "cover"
    seed: int = 0
    items: list[Item] = field(default_factory=list, init=False, repr=False, compare=False)
    lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def __call__(self, state: State, model: Model) -> State:
        """The state with another sample's images. Raises ValueError where the task has none that
        may stand in."""
        if not state.views:
            return state
        chosen, pictures = self._other(state)
        pairs = (
            (view, pictures[number % len(pictures)], number)
            for number, view in enumerate(state.views)
        )
        views = tuple(self._fitted(*pair) for pair in pairs)
        return state.replace(views=views).with_notes(f"shown with the images of sample {chosen}")

    def _other(self, state: State) -> tuple[str, list[Picture]]:
        """Id and images of the first other sample, in seeded order, that has none of this one's
        images."""
        sample, own = state.sample, {image.sha for image in state.sample.images}
        with self.lock:
            if not self.items:
                self.items.extend(self.task)
        samples = (item.sample for item in self.items)
        others = [stranger for stranger in samples if stranger.id != sample.id and stranger.images]
        alike = [
            stranger for stranger in others if len(stranger.images) >= len(state.views)
        ] or others
        for number in state.rng(f"OtherImage {self.seed}").permutation(len(alike)):
            # copies, so that the list of samples does not keep every image that was ever decoded
            pictures = [copy.copy(image) for image in alike[number].images]
            if own.isdisjoint(picture.sha for picture in pictures):
                return alike[number].id, pictures
        raise ValueError(
            f"sample {sample.id}: the task of {type(self.task).__name__} has no other sample with"
            f" another image ({len(others)} others with images); give `task` one with more samples"
        )

    def _fitted(self, view: View, picture: Picture, number: int) -> View:
        if self.fit == "none":
            return View.of(picture, view.parts[0].source if view.parts else number)
        (width, height), stranger = view.size, View.of(picture)
        if self.fit == "cover":
            factor = max(width / stranger.size[0], height / stranger.size[1])
            size = (
                max(width, round(stranger.size[0] * factor)),
                max(height, round(stranger.size[1] * factor)),
            )
            large = resize_view(stranger, size)
            left, top = (size[0] - width) // 2, (size[1] - height) // 2
            stranger = (
                large
                if size == view.size
                else transforms.crop(large, left, top, left + width, top + height)
            )
        return replace(view, picture=resize_view(stranger, view.size).picture)


@dataclass(frozen=True)
class ShufflePatches(WithoutModel):
    """Cuts every view into `rows` x `columns` equal patches and puts them in a random order:
    colours without places.

    The order is the same for every run of one seed, sample and draw; `seed` gives another one. What
    is left over at the right and lower edge stays. Put it after the markers to shuffle them too.
    """

    rows: int = 4
    columns: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, "rows, columns >= 1")
        if self.rows == self.columns == 1:
            raise ValueError("rows and columns make at least two patches, found 1 x 1")

    def __call__(self, state: State, model: Model) -> State:
        """The state with its views shuffled. Raises ValueError where a patch would have no
        pixel."""
        rng = state.rng(f"ShufflePatches {self.seed}")
        return state.replace(
            views=tuple(self._shuffled(view, rng, state.sample.id) for view in state.views)
        )

    def _shuffled(self, view: View, rng: np.random.Generator, name: str) -> View:
        width, height = view.size[0] // self.columns, view.size[1] // self.rows
        if not width or not height:
            raise ValueError(
                f"sample {name}: a view of {view.size[0]} x {view.size[1]} pixels has no such"
                " patches"
            )
        pixels, order = np.array(view.pixels), rng.permutation(self.rows * self.columns)
        whole = pixels[: height * self.rows, : width * self.columns]
        cut = (
            whole.reshape(self.rows, height, self.columns, width, 3)
            .swapaxes(1, 2)
            .reshape(-1, height, width, 3)
        )
        put = cut[order].reshape(self.rows, self.columns, height, width, 3).swapaxes(1, 2)
        pixels[: height * self.rows, : width * self.columns] = put.reshape(whole.shape)
        return view.with_pixels(pixels)


@dataclass(frozen=True)
class RandomMarks(WithoutModel):
    """Moves the marks to random places of their images, to test whether it matters where they
    point.

    Places are the same for every run of one seed, sample and draw; `seed` gives others. No mark
    comes nearer than `apart` to a true place or to another new one (between centres), nor a point
    nearer than `margin` to the rim, both as a share of the image's shorter side. Boxes and masks
    keep their shape and stay whole. Labels in `keep` stay where they are. The new marks replace the
    sample's, so later stages draw them and the record holds them. Put it before every stage that
    draws or names marks; it cannot move marks that are part of the pixels.
    """

    apart: float = 0.1
    margin: float = 0.05
    keep: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, "apart, margin >= 0", "apart < 1", "margin < 0.5")

    def __call__(self, state: State, model: Model) -> State:
        """The state with its marks moved. Raises ValueError where there are none, or no room."""
        sample = state.sample
        if not any(mark.label not in self.keep for mark in sample.marks):
            raise ValueError(
                f"sample {sample.id} has no marks to move; it needs a task with marks, or a stage"
            )
        rng, new = state.rng(f"RandomMarks {self.seed}"), list(sample.marks)
        for number, mark in enumerate(sample.marks):
            if not 0 <= mark.image < len(sample.images):
                raise ValueError(
                    f"sample {sample.id}: mark {mark.label!r} is on image {mark.image}, which is"
                    " not there"
                )
            if mark.label not in self.keep:
                others = [m.center for m in (*sample.marks, *new[:number]) if m.image == mark.image]
                try:
                    new[number] = self._moved(mark, sample.images[mark.image].size, others, rng)
                except ValueError as exc:
                    raise ValueError(f"sample {sample.id}: {exc}") from exc
        return state.replace(sample=replace(sample, marks=tuple(new)))

    def _moved(
        self,
        mark: Mark,
        size: tuple[int, int],
        others: Sequence[tuple[float, float]],
        rng: np.random.Generator,
    ) -> Mark:
        """The mark at the first place that is free."""
        shorter, frame = min(size), rectangle(0, 0, *size)
        x0, y0, x1, y1 = bounding_box(mark)
        rim = self.margin * shorter if not isinstance(mark, Box | Mask) else 0.0
        low, high = (
            np.array([rim - x0, rim - y0]),
            np.array([size[0] - rim - x1, size[1] - rim - y1]),
        )
        if (low > high).any():
            raise ValueError(
                f"mark {mark.label!r} is larger than its image of {size[0]} x {size[1]} pixels"
            )
        x, y = mark.center
        for shift in rng.uniform(low, high, (MAX_TRIES, 2)):
            dx, dy = np.rint(shift) if isinstance(mark, Mask) else shift
            distances = (math.hypot(x + dx - a, y + dy - b) for a, b in others)
            if all(distance >= self.apart * shorter for distance in distances):
                moved = mark.transform(Affine.shift(float(dx), float(dy)), frame)
                if moved is not None:
                    return moved
        raise ValueError(
            f"no room for mark {mark.label!r} in {size[0]} x {size[1]} pixels; make `apart` smaller"
        )
