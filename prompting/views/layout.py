"""The layout of several views: joined into one image, reordered, and numbered."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from looktwice.pipelines import transforms
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import prefix_errors
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import RGB, parse_rgb
from looktwice.prompting.views.resize import resize_view

_ORDINAL_PATTERN = re.compile(
    r"\b(?:first|second|third|fourth|fifth|sixth|last|left|right|top|bottom)\s+(?:image|picture"
    r"|photo|view)\b"
    r"|\b(?:image|picture|photo)s?\s*#?\d",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Concatenate(WithoutModel):
    """Joins all views into one image: in a row, in a column, or in a grid, depending on
    `direction`.

    The defaults are BLINK's own concatenation for models that accept one image: left to right,
    separated by a `margin` of 10 pixels in the `color` black, centred by `align` (official code,
    `concat_images_horizontally_with_margin`; Table 4). `equal` first enlarges all views to the
    height (or width) of the tallest (widest), so that none loses detail; for a fixed height put
    `prompting.views.FixedHeight` before it. In a grid every column is as wide as its widest view
    and every row as high as its tallest; `columns` None makes it nearly square. A single view, or
    none, is passed on unchanged.
    """

    direction: Literal["horizontal", "vertical", "grid"] = "horizontal"
    margin: int = 10
    color: str = "black"
    equal: Literal["none", "heights", "widths"] = "none"
    align: Literal["start", "center", "end"] = "center"
    columns: int | None = None

    def __post_init__(self) -> None:
        parse_rgb(self.color)
        check_ranges(self, "margin >= 0", "columns >= 1")
        if self.columns is not None and self.direction != "grid":
            raise ValueError(
                f"columns only applies to direction: grid, got direction: {self.direction}"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with one view, whose parts map back to every image."""
        if len(state.views) < 2:
            return state
        with prefix_errors(state.sample):
            return state.replace(views=(self.join(state.views),))

    def join(self, views: Sequence[View]) -> View:
        """Join the views into one. Raises ValueError if a view would become larger than 100
        megapixels."""
        if self.equal != "none":
            side = 1 if self.equal == "heights" else 0
            most, resized = max(view.size[side] for view in views), []
            for view in views:
                width, height = (max(1, round(n * most / view.size[side])) for n in view.size)
                resized.append(resize_view(view, (width, height)))
            views = resized
        count = len(views)
        columns = {"horizontal": count, "vertical": 1}.get(self.direction) or self.columns
        columns = min(count, columns or math.ceil(math.sqrt(count)))
        sizes = np.zeros((2, math.ceil(count / columns), columns), int)  # widths, heights
        for number, view in enumerate(views):
            sizes[:, number // columns, number % columns] = view.size
        widths, heights = sizes[0].max(0), sizes[1].max(1)
        lefts, tops = (np.cumsum([0, *cells + self.margin]) for cells in (widths, heights))
        placed = []
        for number, view in enumerate(views):
            row, column = divmod(number, columns)
            free = np.array([widths[column], heights[row]]) - view.size
            moved = {"start": free * 0, "center": free // 2, "end": free}[self.align]
            placed.append((view, int(lefts[column] + moved[0]), int(tops[row] + moved[1])))
        size = tops[-1] - self.margin, lefts[-1] - self.margin
        canvas = View(Picture(np.full((*size, 3), parse_rgb(self.color), np.uint8)))
        return transforms.paste(canvas, placed)


@dataclass(frozen=True)
class Reorder(WithoutModel):
    """Changes the order of the views: shuffled, reversed, rotated by one, or as listed in `order`,
    counted from 1.

    A shuffle is the same in every run with the same seed, sample and draw; another `seed` gives
    another order within a run, so that `stages.SLOT.seed: [0, 1, 2]` sweeps over orders. Marks
    follow their images.

    The words of the prompt stay unchanged. If the prompt or a choice names an image by its position
    ("the second image", "Image 2"), another order would make the correct answer wrong, so such a
    sample fails unless `words` is "keep". That setting is right if every image shows the number
    that the words refer to: with `tags: "Image {source}:"` in `prompting.turns.Ask`, or
    `prompting.views.IndexTags`, which both number the sample's images.
    """

    order: Literal["shuffled", "reversed", "rotated"] | tuple[int, ...] = "shuffled"
    seed: int = 0
    words: Literal["fail", "keep"] = "fail"

    def __post_init__(self) -> None:
        if not isinstance(self.order, str) and sorted(self.order) != list(
            range(1, len(self.order) + 1)
        ):
            raise ValueError(
                "order must list every image once, counted from 1, as [2, 1], or be shuffled,"
                f" reversed or rotated; got {list(self.order)}"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its views in the new order. Raises ValueError as the class
        describes."""
        if len(state.views) < 2:
            return state
        if self.words == "fail":
            texts = (choice for choice in state.sample.choices if isinstance(choice, str))
            if named := next(
                filter(None, map(_ORDINAL_PATTERN.search, (state.prompt, *texts))), None
            ):
                raise ValueError(
                    f"sample {state.sample.id}: the text names an image by its position"
                    f" ({named[0]!r}), so another order would make the correct answer wrong; number"
                    ' the images with tags: "Image {source}:" in prompting.turns.Ask and set'
                    " words: keep"
                )
        count = len(state.views)
        numbers = [*range(1, count), 0]
        if self.order == "shuffled":
            numbers = state.rng(f"Reorder {self.seed}").permutation(count).tolist()
        elif self.order == "reversed":
            numbers = list(range(count))[::-1]
        elif not isinstance(self.order, str):
            if len(self.order) != count:
                raise ValueError(
                    f"sample {state.sample.id}: order lists {len(self.order)} images, but"
                    f" there are {count}"
                )
            numbers = [number - 1 for number in self.order]
        order = ", ".join(str(number + 1) for number in numbers)
        views = tuple(state.views[number] for number in numbers)
        return state.replace(views=views).with_notes(f"order of images: {order}")


@dataclass(frozen=True)
class IndexTags(WithoutModel):
    """Adds a strip with a line of text above every view, which covers none of its pixels.

    `{source}` in `text` becomes the number of the sample's image that the view shows, counted from
    1; `{n}` becomes the number of the view in their current order. Put it before `Concatenate` to
    tell the joined images apart; for texts between the images of a message, see `tags` of
    `prompting.turns.Ask`. `font_size` is in pixels, `color` is that of the letters, `ground` that
    of the strip.
    """

    text: str = "Image {source}"
    font_size: float = 18
    color: str = "black"
    ground: str = "white"

    def __post_init__(self) -> None:
        parse_rgb(self.color)
        parse_rgb(self.ground)
        check_tag("text", self.text)
        check_ranges(self, "font_size >= 4")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with a strip above each view. Raises ValueError if a text is wider than
        its view."""
        views, ground = [], parse_rgb(self.ground)
        for number, view in enumerate(state.views, 1):
            text = format_tag(self.text, number, view, state.sample.id)
            strip = _draw_strip(text, self.font_size, parse_rgb(self.color), ground)
            height, width = strip.shape[:2]
            if width > view.size[0]:
                raise ValueError(
                    f"sample {state.sample.id}: the tag {text!r} is {width} pixels wide, the view"
                    f" {view.size[0]}; give a shorter text or a smaller font_size"
                )
            wider = transforms.pad(view, top=height, color=ground)
            pixels = np.array(wider.pixels)
            pixels[:height, :width] = strip
            views.append(wider.with_pixels(pixels))
        return state.replace(views=tuple(views))


def format_tag(text: str, number: int, view: View, sample: str) -> str:
    """Return `text` for one view: `{n}` becomes `number`, `{source}` the number of its image in the
    sample, both from 1, and `{seconds}` the time of its video frame.

    Raises ValueError if `text` has `{source}` and the view shows no image of the sample, or
    `{seconds}` and it shows no frame of a video.
    """
    if "{seconds}" in text:
        if not view.seconds:
            raise ValueError(
                f"sample {sample}: view {number} shows no frame of a video, so leave out"
                f" {{seconds}} in {text!r}"
            )
        text = text.replace("{seconds}", " and ".join(f"{time:g}" for time in view.seconds))
    if "{source}" in text:
        sources = sorted({part.source + 1 for part in view.parts})
        if not sources:
            raise ValueError(
                f"sample {sample}: view {number} shows no image of the sample, so use {{n}} in"
                f" {text!r}"
            )
        text = text.replace("{source}", " and ".join(map(str, sources)))
    return text.replace("{n}", str(number))


def check_tag(setting: str, text: str) -> None:
    """Raise ValueError if `text` has fields other than {n}, {source} and {seconds}."""
    unknown = set(re.findall(r"{.*?}", text)) - {"{n}", "{source}", "{seconds}"}
    if unknown:
        raise ValueError(
            f"{setting} has unknown fields {', '.join(sorted(unknown))}; only {{n}},"
            " {source} and {seconds} are filled in"
        )


@lru_cache(maxsize=256)
def _draw_strip(text: str, size: float, color: RGB, ground: RGB) -> Pixels:
    """Render the text on its background, in Pillow's own scalable font, with one height for all
    texts of a font size."""
    font = ImageFont.load_default(size)
    margin = max(2, round(size / 4))
    width, height = math.ceil(font.getlength(text)) + 2 * margin, round(size * 1.25) + 2 * margin
    image = Image.new("RGB", (width, height), ground)
    ImageDraw.Draw(image).text((margin, height // 2), text, fill=color, font=font, anchor="lm")
    return np.asarray(image, np.uint8)
