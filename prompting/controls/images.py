"""Controls that show how much a result depends on the image, the marks and the zoom: no image, a
blank, shuffled, noisy or other image, and moved marks; and crops of the true region, as an upper
bound, and of random regions."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal

import numpy as np

from looktwice.pipelines import transforms
from looktwice.pipelines.geometry import XY, Affine, Size, measure_overlap, rectangle
from looktwice.pipelines.marks import Box, Mark, Mask, bounding_box
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.ranges import Ranged, check_ranges
from looktwice.pipelines.sample import Item, prefix_errors
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import parse_rgb
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.views.resize import resize_view
from looktwice.prompting.where.sources import Given

MAX_TRIES = 2000  # random places to try for one mark
MAX_CANDIDATES = 64  # maximum number of random places; some may not fit the crop


@dataclass(frozen=True)
class NoImage(WithoutModel):
    """Removes all images, to measure how much can be answered from the text. Put it directly before
    the stage that asks."""

    def __call__(self, state: State, model: Model) -> State:
        """Return the state without views."""
        return state.replace(views=())


@dataclass(frozen=True)
class BlankImage(WithoutModel):
    """Replaces every view with a single-coloured image of the same size, so that the prompt keeps
    its form but the image loses its content.

    `color` is a CSS name, "#rrggbb", or "mean" for each view's own mean. The mapping to the source
    images is kept, so that marks drawn afterwards appear at their places on the blank background;
    put it after the markers to blank them too.
    """

    color: str = "gray"

    def __post_init__(self) -> None:
        if self.color != "mean":
            parse_rgb(self.color)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with blank views."""
        views = []
        for view in state.views:
            pixels = view.pixels
            ground = np.rint(pixels.mean((0, 1))) if self.color == "mean" else parse_rgb(self.color)
            views.append(view.with_pixels(np.full_like(pixels, ground)))
        return state.replace(views=tuple(views))


@dataclass(frozen=True)
class OtherImage(WithoutModel):
    """Replaces the images with those of another sample; the question, choices and marks stay the
    same.

    `task` provides the samples to choose from, usually the task itself (`task: ${task}`). The
    choice is the same in every run with the same seed, sample and draw; another `seed` makes
    another choice. The other sample shares no image with this one and, if possible, has at least as
    many images. `fit` "cover" scales the other image and crops it around its centre to the size of
    the view that it replaces, so that marks drawn afterwards fall inside and the size reveals
    nothing. "stretch" only scales it. "none" sends the other image unchanged, as its original
    bytes, and marks beyond its edges are not drawn. Put it first.
    """

    task: Iterable[Item]
    fit: Literal["cover", "stretch", "none"] = "cover"
    seed: int = 0
    items: list[Item] = field(default_factory=list, init=False, repr=False, compare=False)
    lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with another sample's images. Raises ValueError if the task has no
        suitable sample."""
        if not state.views:
            return state
        chosen, pictures = self._choose_other(state)
        views = []
        for number, view in enumerate(state.views):
            picture = pictures[number % len(pictures)]
            if self.fit == "none":
                views.append(View.of(picture, view.parts[0].source if view.parts else number))
                continue
            (width, height), other = view.size, View.of(picture)
            if self.fit == "cover":
                across, down = other.size
                factor = max(width / across, height / down)
                size = max(width, round(across * factor)), max(height, round(down * factor))
                left, top = (size[0] - width) // 2, (size[1] - height) // 2
                other = resize_view(other, size)
                if size != view.size:
                    other = transforms.crop(other, left, top, left + width, top + height)
            views.append(replace(view, picture=resize_view(other, view.size).picture))
        note = f"shown with the images of sample {chosen}"
        return state.replace(views=tuple(views)).with_notes(note)

    def _choose_other(self, state: State) -> tuple[str, list[Picture]]:
        """Return the id and the images of the first sample, in seeded order, that shares no image
        with this one."""
        sample, own = state.sample, {image.sha for image in state.sample.images}
        with self.lock:
            if not self.items:
                self.items.extend(self.task)
        samples = [item.sample for item in self.items]
        others = [other for other in samples if other.id != sample.id and other.images]
        alike = [s for s in others if len(s.images) >= len(state.views)] or others
        for number in state.rng(f"OtherImage {self.seed}").permutation(len(alike)):
            # copies, so that the list of samples does not keep every decoded image
            pictures = [copy.copy(image) for image in alike[number].images]
            if own.isdisjoint([picture.sha for picture in pictures]):
                return alike[number].id, pictures
        raise ValueError(
            f"sample {sample.id}: the task of {type(self.task).__name__} has no other sample with"
            f" another image ({len(others)} others with images); give `task` one with more samples"
        )


@dataclass(frozen=True)
class ShufflePatches(WithoutModel):
    """Cuts every view into `rows` x `columns` equal patches and puts them in a random order, which
    keeps the colours but not the layout.

    The order is the same in every run with the same seed, sample and draw; another `seed` gives
    another order. Pixels left over at the right and lower edges stay. Put it after the markers to
    shuffle them too.
    """

    rows: int = 4
    columns: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, "rows, columns >= 1")
        if self.rows == self.columns == 1:
            raise ValueError("rows and columns must make at least two patches, got 1 x 1")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with shuffled views. Raises ValueError if a view is too small for its
        patches."""
        rng, views = state.rng(f"ShufflePatches {self.seed}"), []
        for view in state.views:
            width, height = view.size[0] // self.columns, view.size[1] // self.rows
            if not width or not height:
                raise ValueError(
                    f"sample {state.sample.id}: a view of {view.size[0]} x {view.size[1]} pixels"
                    f" cannot be cut into {self.columns} x {self.rows} patches"
                )
            pixels, order = np.array(view.pixels), rng.permutation(self.rows * self.columns)
            whole = pixels[: height * self.rows, : width * self.columns]
            cells = whole.reshape(self.rows, height, self.columns, width, 3).swapaxes(1, 2)
            shuffled = cells.reshape(-1, height, width, 3)[order].reshape(cells.shape)
            whole[:] = shuffled.swapaxes(1, 2).reshape(whole.shape)
            views.append(view.with_pixels(pixels))
        return state.replace(views=tuple(views))


CLIP_MEAN, CLIP_STD = (0.4815, 0.4578, 0.4082), (0.2686, 0.2613, 0.2758)
"""Mean and standard deviation of the colour channels (0..1) in the normalisation of CLIP and LLaVA.
"""


def compute_signal_factor(step: int) -> float:
    """Return the factor that scales the image signal after `step` of VCD's 1,000 noise steps."""
    betas = (0.005 - 1e-5) / (1 + np.exp(-np.linspace(-6, 6, 1000))) + 1e-5
    return float(np.sqrt(np.prod(1 - betas[: step + 1])))


@dataclass(frozen=True)
class Noise(Ranged, WithoutModel):
    """Adds to every view the noise of Visual Contrastive Decoding (VCD, arXiv 2311.16922) at
    diffusion step `step`, 0 to 999.

    VCD adds the noise to the network's normalised input. Here it is added to pixels on CLIP's
    scale, clipped at black and white and rounded. It is the same in every run with the same seed,
    sample and draw; another `seed` gives other noise.
    """

    step: int = 500
    seed: int = 0

    ranges = ("step >= 0", "step <= 999")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with noisy views."""
        rng, kept = state.rng(f"Noise {self.seed}"), compute_signal_factor(self.step)
        views = []
        for view in state.views:
            values = (view.pixels / 255 - CLIP_MEAN) / CLIP_STD
            noise = rng.standard_normal(values.shape) * math.sqrt(1 - kept**2)
            noisy = ((kept * values + noise) * CLIP_STD + CLIP_MEAN) * 255
            views.append(view.with_pixels(np.rint(noisy.clip(0, 255)).astype(np.uint8)))
        return state.replace(views=tuple(views))


@dataclass(frozen=True)
class RandomMarks(Ranged, WithoutModel):
    """Moves the marks to random places of their images, to test whether their positions matter.

    Places are the same in every run with the same seed, sample and draw; another `seed` gives
    others. No mark comes closer than `apart` to a true place or to another new one (between
    centres), and no point closer than `margin` to the edge, both as shares of the image's shorter
    side. Boxes and masks keep their shape and stay whole. Marks with a label in `keep` stay where
    they are. The new marks replace the sample's, so later stages draw them and the record holds
    them. Put it before every stage that draws or names marks; it cannot move marks that are part of
    the pixels.
    """

    apart: float = 0.1
    margin: float = 0.05
    keep: tuple[str, ...] = ()
    seed: int = 0

    ranges = ("apart, margin >= 0", "apart < 1", "margin < 0.5")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its marks moved. Raises ValueError if there are no marks, or no
        room for them."""
        sample = state.sample
        if not any(mark.label not in self.keep for mark in sample.marks):
            raise ValueError(
                f"sample {sample.id} has no marks to move; use a task with marks, or a stage"
                " that adds them"
            )
        rng, new = state.rng(f"RandomMarks {self.seed}"), list(sample.marks)
        for number, mark in enumerate(sample.marks):
            if not 0 <= mark.image < len(sample.images):
                raise ValueError(
                    f"sample {sample.id}: mark {mark.label!r} is on image {mark.image}, which"
                    " does not exist"
                )
            if mark.label not in self.keep:
                others = [m.center for m in (*sample.marks, *new[:number]) if m.image == mark.image]
                with prefix_errors(sample):
                    new[number] = self._move(mark, sample.images[mark.image].size, others, rng)
        return state.replace(sample=replace(sample, marks=tuple(new)))

    def _move(self, mark: Mark, size: Size, others: Sequence[XY], rng: np.random.Generator) -> Mark:
        """Return the mark moved to the first random position that is free."""
        (width, height), shorter, (x0, y0, x1, y1) = size, min(size), bounding_box(mark)
        rim = self.margin * shorter if not isinstance(mark, Box | Mask) else 0.0
        low, high = (rim - x0, rim - y0), (width - rim - x1, height - rim - y1)
        if low[0] > high[0] or low[1] > high[1]:
            raise ValueError(
                f"mark {mark.label!r} is larger than its image of {width} x {height} pixels"
            )
        for shift in rng.uniform(low, high, (MAX_TRIES, 2)):
            dx, dy = np.rint(shift) if isinstance(mark, Mask) else shift
            new = np.add(mark.center, (dx, dy))
            if all(math.dist(new, place) >= self.apart * shorter for place in others):
                frame = rectangle(0, 0, width, height)
                moved = mark.transform(Affine.shift(float(dx), float(dy)), frame)
                if moved is not None:
                    return moved
        raise ValueError(
            f"no room for mark {mark.label!r} in {width} x {height} pixels; make `apart` smaller"
        )


@dataclass(frozen=True)
class OracleCrop(Ranged, Given):
    """Crops each view to the region needed to answer: what a perfect zoom would show.

    `label` or `hint` gives the region, as in `prompting.where.Given`. `crop` sets how it is
    cropped, as in every zoom. Views that do not show the region stay unchanged.

    With `elsewhere` it becomes a placebo: a crop of the same size in the same views, at whichever
    of `tries` random places (1 to 64) overlaps least with the true one. `tries: 1` draws uniformly
    from all places where the crop fits; some show a part of the region; with more tries, the place
    avoids the region. The places are the same in every run with the same seed, sample and draw;
    another `seed` gives others.
    """

    crop: Crop = field(default_factory=Crop)
    elsewhere: bool = False
    tries: int = MAX_CANDIDATES
    seed: int = 0

    ranges = ("tries >= 1", "tries <= 64")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with crops. Raises ValueError if the region is not given or no view
        shows it."""
        places, crop = self.project_region(state), self.crop
        if self.elsewhere:
            rng = state.rng(f"RandomCrop {self.seed}")
            for number, true in places.items():
                places[number] = self._draw_placebo(state.views[number], true, rng)
            # each place is already the whole area of its crop
            crop = replace(crop, padding=0, min_px=0, min_share=0, aspect=None)
        return _crop_places(state, places, crop)

    def _draw_placebo(self, view: View, true: Mark, rng: np.random.Generator) -> Mark:
        """Return a box of the size of the true crop, within one part of the view, or the true crop
        itself if it fits nowhere else."""
        left, top, right, bottom = self.crop.find_areas(view, [true])[0][0]
        exact = Crop(0, min_px=0)
        size = right - left, bottom - top
        drawn = rng.integers(
            (0, 0), np.subtract(view.size, size), (MAX_CANDIDATES, 2), endpoint=True
        )
        fitting: list[Mark] = []
        for x, y in drawn.tolist():
            box = _make_random_box(*size, x, y, true.image)
            if len(fitting) < self.tries and exact.find_areas(view, [box])[0][0] == box.xyxy:
                fitting.append(box)
        own = _make_random_box(*size, left, top, true.image)
        return min(
            fitting, key=lambda box: measure_overlap(own.xyxy, bounding_box(box)), default=own
        )

    def project_region(self, state: State) -> dict[int, Mark]:
        """Map the index of each view that shows the region to the region in that view."""
        region = self.find_region(state)
        seen = {number: view.to_view(region) for number, view in enumerate(state.views)}
        if not any(seen.values()):
            raise ValueError(f"sample {state.sample.id}: no view shows the region {region.label!r}")
        return {number: places[0] for number, places in seen.items() if places}


@dataclass(frozen=True)
class RandomCrop(Ranged, WithoutModel):
    """Crops each view to `share` of its width and height at a random place, to test whether any
    zoom helps.

    The places are the same in every run with the same seed, sample and draw; another `seed` gives
    others. For the placebo of one region, use `OracleCrop` with `elsewhere`.
    """

    share: float = 0.5
    seed: int = 0

    ranges = ("share > 0", "share <= 1")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with crops."""
        rng = state.rng(f"RandomCrop {self.seed}")
        places: dict[int, Mark] = {}
        for number, view in enumerate(state.views):
            width, height = (max(1, round(self.share * side)) for side in view.size)
            left = int(rng.integers(view.size[0] - width + 1))
            top = int(rng.integers(view.size[1] - height + 1))
            places[number] = _make_random_box(width, height, left, top)
        return _crop_places(state, places, Crop(padding=0, min_px=1))


def _crop_places(state: State, places: Mapping[int, Mark], crop: Crop) -> State:
    views, notes = [], []
    for number, view in enumerate(state.views):
        if number in places:
            place = [places[number]]
            shown, remarks = crop.crop_view(state, view, place)
            views += shown
            notes += [
                f"view {number + 1} cropped to {crop.find_areas(view, place)[0][0]}",
                *remarks,
            ]
        else:
            views.append(view)
    return state.replace(views=tuple(views)).with_notes(*notes)


def _make_random_box(width: float, height: float, left: float, top: float, image: int = 0) -> Box:
    return Box("random", left, top, left + width, top + height, image)
