"""The encoding of images for the model, and notes on drawings that it cannot see: those smaller
than a patch, and those whose colour is lost in the encoding."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.sample import name_in_errors
from looktwice.pipelines.state import Stage, State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.views.seen import find_layout

Chroma = Literal["4:4:4", "4:2:2", "4:2:0"]
SAMPLING: dict[Chroma, int] = {
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
}
MAX_SIDE = {"jpeg": 65_500, "webp": 16_383}  # pixels a side that the formats' libraries can write
MIN_DRAWN_DIFFERENCE = 24  # minimum difference, in levels of a channel, of a drawn pixel
MIN_CHROMA_SHARE = (
    0.6  # share below which a drawn colour is lost: a one-pixel line in 4:2:0 keeps half
)


@dataclass(frozen=True)
class Encode(Ranged, WithoutModel):
    """Encodes every view with one `codec`; the model is sent these bytes, and later stages see the
    decoded pixels.

    `keep` changes nothing: the source's own bytes are sent if no stage changed them, and a lossless
    PNG otherwise. `png` is lossless at the fast level; a view that would be sent as a PNG anyway is
    passed on. `jpeg` has `quality` 1 to 100 and a `chroma` subsampling; 4:4:4 is the default
    because 4:2:0 smears thin coloured markers over 2 x 2 pixels. `webp` has `quality`, which
    `lossless` ignores; lossy WebP is always 4:2:0, by its format.

    A JPEG source is encoded again, even at the same quality. The map to the sources is kept. Put it
    last before the stage that asks. A note names stages whose drawings keep less than 60 % of their
    colour.
    """

    codec: Literal["keep", "png", "jpeg", "webp"] = "keep"
    quality: int = 90
    chroma: Chroma = "4:4:4"
    lossless: bool = False

    ranges = ("quality >= 1", "quality <= 100")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lossless and self.codec != "webp":
            raise ValueError(
                f"lossless only applies to webp, got codec: {self.codec}; png is always lossless"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with encoded views. Raises ValueError that names the sample if the codec
        cannot hold a view."""
        with name_in_errors(state.sample):
            views = tuple(self.encode(view) for view in state.views)
        drawn = find_drawings(state, {}) if views != state.views else ()
        notes = (
            note
            for drawing, view in product(drawn, views)
            for note in drawing.describe_fading(view)
        )
        return state.replace(views=views).with_notes(*notes)

    def encode(self, view: View) -> View:
        """Return one view with its new bytes and the same parts."""
        if self.codec == "keep":
            return view
        if self.codec == "png":
            if view.picture.payload.media_type == "image/png":
                return view
            return replace(view, picture=Picture(view.pixels))
        width, height = view.size
        if max(width, height) > MAX_SIDE[self.codec]:
            raise ValueError(
                f"{self.codec} holds at most {MAX_SIDE[self.codec]} pixels per side, the view has"
                f" {width} x {height}; make it smaller first (prompting.views.LongestSide)"
            )
        image, file = Image.fromarray(view.pixels), io.BytesIO()
        data = b""
        if self.codec == "jpeg":
            settings = [cv2.IMWRITE_JPEG_QUALITY, self.quality]
            settings += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLING[self.chroma]]
            bgr = cv2.cvtColor(view.pixels, cv2.COLOR_RGB2BGR)
            data = cv2.imencode(".jpg", bgr, settings)[1].tobytes()
        elif self.lossless:  # minimum effort: a twelfth of the time for a quarter more bytes
            image.save(file, "WEBP", lossless=True, quality=0, method=0)
        else:
            image.save(file, "WEBP", quality=self.quality)
        name = f"{self.codec} of {view.picture.name or 'a view'}"
        picture = Picture.encoded(data or file.getvalue(), name, known_to_decode=True)
        return replace(view, picture=picture)


@dataclass(frozen=True, eq=False)
class Drawing:
    """A view before (`before`) and after (`drawn`) the stage in `slot` drew on it."""

    slot: str
    before: View
    drawn: View

    @cached_property
    def cover(self) -> NDArray[np.bool_]:
        """The pixels that differ, HxW."""
        red, green, blue = cv2.split(cv2.absdiff(self.drawn.pixels, self.before.pixels))
        return cv2.max(cv2.max(red, green), blue) >= MIN_DRAWN_DIFFERENCE

    @property
    def longer_side(self) -> int:
        """The longer side of the largest connected part, in pixels of the view."""
        parts = cv2.connectedComponentsWithStats(self.cover.astype(np.uint8), connectivity=8)[2]
        return int(parts[1:, 2:4].max(initial=0))

    def shows_same_image(self, sent: View) -> bool:
        """Return whether the first part of both views shows the same source image."""
        drawn, part = self.drawn.parts[:1], sent.parts[:1]
        return bool(drawn and part and drawn[0].source == part[0].source)

    def describe_fading(self, sent: View) -> Iterator[str]:
        """Yield a note if little of the drawing's colour (its chroma) remains in the view as it is
        sent."""
        lossy = sent.picture.payload.media_type in ("image/jpeg", "image/webp")
        comparable = lossy and self.shows_same_image(sent) and sent.size == self.drawn.size
        if not comparable or not self.cover.any():
            return
        before, drawn, left = (
            cv2.cvtColor(view.pixels, cv2.COLOR_RGB2YCrCb)[self.cover][:, 1:].astype(float)
            for view in (self.before, self.drawn, sent)
        )
        whole, kept = np.abs(drawn - before).mean(), np.abs(left - before).mean()
        if kept < MIN_CHROMA_SHARE * whole:
            yield (
                f"the drawing of stage {self.slot!r} keeps {kept / whole:.0%} of its colour when"
                " sent; draw thicker lines, or encode with `chroma: 4:4:4`"
            )


def describe_lost_drawings(
    state: State, stages: Mapping[str, Stage], sent: Sequence[View], model: str
) -> Iterator[str]:
    """Yield notes on drawings that the model cannot see in the views that it is sent; `state` is
    the state after these `stages`."""
    for drawing, view in product(find_drawings(state, stages), sent):
        layout = find_layout(model, view.size)
        if drawing.shows_same_image(view) and layout and layout.patch and drawing.longer_side:
            scale = view.parts[0].affine.scale / drawing.drawn.parts[0].affine.scale
            scale *= layout.size[0] / view.size[0]
            if (patches := drawing.longer_side * scale / layout.patch) < 1:
                size = f"{patches:.2g} of a patch of {model}"
                yield f"the drawing of stage {drawing.slot!r} covers {size}"
        yield from drawing.describe_fading(view)


def find_drawings(state: State, stages: Mapping[str, Stage]) -> Iterator[Drawing]:
    """Yield each view that a stage changed without changing its size."""
    views = State.start(state.sample).views
    for step in state.trace:
        for before, after in zip(views, step.views, strict=False):
            drew = before.size == after.size and before.picture is not after.picture
            if drew and not isinstance(stages.get(step.slot), Encode):
                yield Drawing(step.slot, before, after)
        views = step.views
