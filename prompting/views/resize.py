"""The sizes at which images are sent: fixed sizes, sizes to which a provider would resize them
anyway, and sizes at which all views of an arm cost a given number of tokens.

A new rule is a frozen dataclass with one method, `size`; `SizeRule` does the rest. The mapping to
the source images is kept (`pipelines.transforms.resize`), and a view that already has the target
size is passed on with its original bytes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from looktwice.pipelines import transforms
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.geometry import Affine
from looktwice.pipelines.model import Model
from looktwice.pipelines.models.image_tokens import find_image_rule
from looktwice.pipelines.models.processors.layouts import Filter, Size, compute_qwen_size
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.sample import prefix_errors
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View

MAX_PIXELS = 100_000_000  # of a resized view; a larger one would exhaust the memory
MAX_QWEN_RATIO = (
    200  # the reference refuses images that are longer than this many times their shorter side
)


class SizeRule(Ranged, WithoutModel, ABC):
    """A stage that resizes every view to the size that its one method, `size`, computes."""

    @abstractmethod
    def size(self, width: int, height: int) -> Size:
        """Return the (width, height) to which a picture of `width` x `height` pixels is resized."""

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with views at their new sizes.

        Raises a ValueError that names the sample if a view would exceed 100 megapixels, or if the
        rule refuses it.
        """
        with prefix_errors(state.sample):
            views = tuple(resize_view(view, self.size(*view.size)) for view in state.views)
        return state.replace(views=views)


@dataclass(frozen=True)
class FixedHeight(SizeRule):
    """Makes every view `height` pixels high, with proportional width (VLMEvalKit uses 512 when it
    joins images)."""

    height: int = 512

    ranges = ("height >= 1",)

    def size(self, width: int, height: int) -> Size:
        return max(1, round(width * self.height / height)), self.height


@dataclass(frozen=True)
class LongestSide(SizeRule):
    """Limits the longer side of every view to `pixels`; with `grow`, smaller views are enlarged to
    it."""

    pixels: int = 1024
    grow: bool = False

    ranges = ("pixels >= 1",)

    def size(self, width: int, height: int) -> Size:
        factor = self.pixels / max(width, height)
        return scale_size((width, height), factor if self.grow else min(1.0, factor))


@dataclass(frozen=True)
class MinimumSide(SizeRule):
    """Makes the shorter side of every view at least `pixels`: VLMEvalKit enlarges smaller images
    before sending them."""

    pixels: int = 100

    ranges = ("pixels >= 1",)

    def size(self, width: int, height: int) -> Size:
        factor = self.pixels / min(width, height)
        if factor <= 1:
            return width, height
        # truncated, as in the toolkit
        return int(width * factor), int(height * factor)


@dataclass(frozen=True)
class Megapixels(SizeRule):
    """Limits every view to at most `most` and at least `least` million pixels; proportions are
    kept."""

    most: float = 1.0
    least: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.least <= self.most and self.most > 0):
            raise ValueError(
                f"megapixels need 0 <= least <= most, got least {self.least} and most {self.most}"
            )

    def size(self, width: int, height: int) -> Size:
        now = width * height / 1e6
        wanted = min(max(now, self.least), self.most)
        return scale_size((width, height), math.sqrt(wanted / now))


@dataclass(frozen=True)
class QwenPatches(SizeRule):
    """Makes both sides multiples of `patch`, with `least` to `most` patches in total, as the
    processors of Qwen-VL do.

    Use 28 for Qwen2-VL and Qwen2.5-VL (patches of 14, merged 2 x 2), 32 for Qwen3-VL (patches of
    16). 4 and 16384 patches are the bounds of `qwen_vl_utils` (`smart_resize`) and of the published
    processor files; only transformers' class stops at 1280. An image sent at this size is not
    resampled again, so pixel coordinates of the view are those that the model sees. Proportions
    change by up to half a patch. Views 200 times longer than wide raise ValueError, as in the
    reference.
    """

    patch: int = 28
    least: int = 4
    most: int = 16384

    ranges = ("patch, least, most >= 1",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.least > self.most:
            raise ValueError(
                f"least must not exceed most, got {self.least} and {self.most} patches"
            )

    def size(self, width: int, height: int) -> Size:
        if max(width, height) > MAX_QWEN_RATIO * min(width, height):
            raise ValueError(
                f"a picture of {width} x {height} pixels is more than {MAX_QWEN_RATIO} times longer"
                " than wide, which Qwen's processors refuse; crop it first"
            )
        area = self.patch**2
        return compute_qwen_size((width, height), self.patch, self.least * area, self.most * area)


@dataclass(frozen=True)
class OpenAITiles(SizeRule):
    """OpenAI's rule for `detail: high` with 512-pixel tiles (GPT-4o, GPT-4.1): inside 2048 x 2048,
    short side 768.

    OpenAI, "Images and vision", section on image cost: the image is scaled to `fit` a square of
    2048, then so that its shortest side (`short`) is 768 (4096 x 8192 becomes 768 x 1536). Users
    measured that smaller images are not enlarged; `grow` follows the page literally. For `detail:
    low` use `fit: 512` and `short: 512`.
    """

    fit: int = 2048
    short: int = 768
    grow: bool = False

    ranges = ("fit, short >= 1",)

    def size(self, width: int, height: int) -> Size:
        inside = min(1.0, self.fit / max(width, height))
        short = self.short / (min(width, height) * inside)
        if not self.grow:
            short = min(1.0, short)
        return scale_size((width, height), inside * short)


@dataclass(frozen=True)
class OpenAIPatches(SizeRule):
    """OpenAI's rule for models that count patches (GPT-4.1-mini and -nano, o4-mini): `budget`
    patches of `patch` pixels.

    OpenAI, "Images and vision", section on image cost: an image that needs more patches is shrunk
    by sqrt(budget x 32^2 / (width x height)), and a little more, so that one side is a whole number
    of patches (1800 x 2400 becomes 1056 x 1408, 33 x 44 patches). Other images stay unchanged.
    """

    patch: int = 32
    budget: int = 1536

    ranges = ("patch, budget >= 1",)

    def size(self, width: int, height: int) -> Size:
        if _count_patches((width, height), self.patch) <= self.budget:
            return width, height
        factor = math.sqrt(self.budget * self.patch**2 / (width * height))
        sides = (width * factor / self.patch, height * factor / self.patch)
        whole = min((math.floor(n) / n for n in sides if n >= 1), default=1.0)
        return scale_size((width, height), factor * whole)


@dataclass(frozen=True)
class ClaudePatches(SizeRule):
    """Limits views to Claude's native resolution: at most `edge` pixels on the longer side, and at
    most `budget` patches of `patch` pixels.

    Anthropic, "Vision" and "Coordinates and bounding boxes": an image costs one token for each
    patch of 28 x 28 pixels that it touches, and one that is too large is scaled to the largest size
    that keeps its proportions (1:1 gives 1092 x 1092, 1:2 gives 784 x 1568). The defaults, 1568
    each, fit every size in that page's table; newer models accept more (up to 2576 pixels on the
    longer side), so set both `edge` and `budget` for them. Padding to whole patches is left to the
    server.
    """

    edge: int = 1568
    budget: int = 1568
    patch: int = 28

    ranges = ("edge, budget, patch >= 1",)

    def size(self, width: int, height: int) -> Size:
        most = min(1.0, self.edge / max(width, height))
        steps = range(1, math.ceil(self.edge / self.patch) + 1)
        whole = {n * self.patch / side for n in steps for side in (width, height)}
        for factor in sorted(whole | {most}, reverse=True):
            size = scale_size((width, height), factor)
            if factor <= most and _count_patches(size, self.patch) <= self.budget:
                return size
        return 1, 1


def resize_view(view: View, size: Size, filter: Filter | None = None) -> View:
    """Return the view resized to `size` (width, height), or unchanged if it already has that size.
    With a `filter`, it is resampled by the library that image processors use. Raises ValueError
    above 100 megapixels."""
    if size == view.size:
        return view
    if size[0] * size[1] > MAX_PIXELS:
        raise ValueError(
            f"a picture of {view.size[0]} x {view.size[1]} pixels would become {size[0]} x"
            f" {size[1]}, more than {MAX_PIXELS // 1_000_000} megapixels; crop it first or ask for"
            " less"
        )
    if filter is None:
        return transforms.resize(view, *size)
    if filter == "opencv cubic":  # in floating point, because cubic resampling may leave 0 to 255
        exact = cv2.resize(view.pixels.astype(np.float32), size, interpolation=cv2.INTER_CUBIC)
        pixels = np.rint(np.clip(exact, 0, 255)).astype(np.uint8)
    else:
        pillow = Image.Resampling[filter.upper()]
        pixels = np.asarray(Image.fromarray(view.pixels).resize(size, pillow))
    picture = Picture(pixels)
    return view.transform(picture, Affine.resize(size[0] / view.size[0], size[1] / view.size[1]))


def scale_size(size: Size, factor: float) -> Size:
    """Return the size multiplied by a factor, in whole pixels."""
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def _count_patches(size: Size, patch: int) -> int:
    return math.ceil(size[0] / patch) * math.ceil(size[1] / patch)


SIZE_STEP_COUNT = 64  # sizes to try for a view, each a 64th of its sides smaller


class SizeOption(NamedTuple):
    """A possible size of a view, and its cost in tokens."""

    tokens: int
    size: Size


@dataclass(frozen=True)
class TokenBudget(Ranged, WithoutModel):
    """Resizes all views so that together they cost at most `tokens`, as the model named `model`
    counts images. This gives arms the same cost, whatever they show.

    The most expensive views shrink first, to a common limit, so that a small crop keeps its pixels
    next to a large photograph. Nothing is enlarged, and views that an earlier turn sent keep their
    size. `model: ${model.model}` names the model that is asked; a model whose rule is unknown
    counts one token per 28 x 28 pixels, and a note says so. Put it after all stages that change
    views. It bounds the views that exist at that point. To bound the views that `Verify` adds in
    later turns, use it as the `fit` of `Verify`: views without room are left out, and a note says
    so. It does not bound the images that an agent's tools show. Measures `image_tokens` of all
    views. Raises ValueError if the views of a first turn cost more even at a 64th of their sides.
    """

    tokens: int
    model: str = ""

    ranges = ("tokens >= 1",)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its views at these sizes."""
        rule, options = find_image_rule(self.model), list[list[SizeOption]]()
        sent = {view.picture.sha for message in state.messages for view in message.views}
        for view in state.views:
            last = SIZE_STEP_COUNT if view.picture.sha in sent else 1
            sizes = [
                scale_size(view.size, step / SIZE_STEP_COUNT)
                for step in range(SIZE_STEP_COUNT, last - 1, -1)
            ]
            options.append(
                [SizeOption(rule.count_tokens(size), size) for size in dict.fromkeys(sizes)]
            )
        chosen = self._fit_budget(options)
        kept = tuple(view for view in state.views if view.picture.sha in sent)
        if kept and not chosen:
            return state.replace(views=kept).with_notes(
                "the token budget has no room for more views"
            )
        with prefix_errors(state.sample):
            if len(chosen) < len(options):
                least = sum(min(sizes).tokens for sizes in options)
                raise ValueError(
                    f"{format_count(len(options), 'view')} cost at least {least:,} tokens,"
                    " more than"
                    f" `tokens: {self.tokens}`; show fewer, or join them"
                    " (prompting.views.Concatenate)"
                )
            pairs = zip(state.views, chosen, strict=True)
            views = tuple(resize_view(view, option.size) for view, option in pairs)
        total = sum(option.tokens for option in chosen)
        guess = [] if rule.published else ["the token count of images is an estimate"]
        return state.replace(views=views).measured("image_tokens", total).with_notes(*guess)

    def _fit_budget(self, options: Sequence[Sequence[SizeOption]]) -> list[SizeOption]:
        """Return, for each view, its largest size within a common limit, or else its cheapest size;
        empty if nothing fits."""
        cheapest = [min(sizes, key=attrgetter("tokens")) for sizes in options]
        for most in sorted({option.tokens for sizes in options for option in sizes}, reverse=True):
            chosen = [
                next((option for option in sizes if option.tokens <= most), least)
                for sizes, least in zip(options, cheapest, strict=True)
            ]
            if sum(option.tokens for option in chosen) <= self.tokens:
                return chosen
        return []
