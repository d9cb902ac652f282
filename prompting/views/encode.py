"""The encoding of images for the model."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Literal

import cv2
from PIL import Image

from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.sample import prefix_errors
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.views.seen import find_drawings

Chroma = Literal["4:4:4", "4:2:2", "4:2:0"]
CHROMA_SAMPLING_FACTORS: dict[Chroma, int] = {
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
}
MAX_SIDES = {"jpeg": 65_500, "webp": 16_383}  # pixels a side that the formats' libraries can write


@dataclass(frozen=True)
class Encode(Ranged, WithoutModel):
    """Encodes every view with one `codec`; the model is sent these bytes, and later stages see the
    decoded pixels.

    `keep` changes nothing: the source's own bytes are sent if no stage changed them, and a lossless
    PNG otherwise. `png` is lossless, at a fast compression level; a view that would be sent as a
    PNG anyway is passed on. `jpeg` has `quality` 1 to 100 and a `chroma` subsampling; 4:4:4 is the
    default because 4:2:0 smears thin coloured markers over 2 x 2 pixels. `webp` has `quality`,
    which has no effect with `lossless`; lossy WebP is always 4:2:0, by its format.

    A JPEG source is encoded again, even at the same quality. The mapping to the source images is
    kept. Put it last before the stage that asks. A note names the stages whose drawings keep less
    than 60 % of their colour.
    """

    codec: Literal["keep", "png", "jpeg", "webp"] = "keep"
    quality: int = 90
    chroma: Chroma = "4:4:4"
    lossless: bool = False

    encodes: ClassVar[bool] = True
    ranges = ("quality >= 1", "quality <= 100")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lossless and self.codec != "webp":
            raise ValueError(
                f"lossless only applies to webp, got codec: {self.codec}; png is always lossless"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with encoded views. Raises ValueError, which names the sample, if the
        codec cannot hold a view."""
        with prefix_errors(state.sample):
            views = tuple(self.encode(view) for view in state.views)
        drawn = find_drawings(state, {}) if views != state.views else ()
        notes = (
            note
            for drawing, view in product(drawn, views)
            for note in drawing.describe_fading(view)
        )
        return state.replace(views=views).with_notes(*notes)

    def encode(self, view: View) -> View:
        """Return one view with newly encoded bytes and the same parts."""
        if self.codec == "keep":
            return view
        if self.codec == "png":
            if view.picture.payload.media_type == "image/png":
                return view
            return replace(view, picture=Picture(view.pixels))
        width, height = view.size
        if max(width, height) > MAX_SIDES[self.codec]:
            raise ValueError(
                f"{self.codec} holds at most {MAX_SIDES[self.codec]} pixels per side, the view has"
                f" {width} x {height}; make it smaller first (prompting.views.LongestSide)"
            )
        image, file = Image.fromarray(view.pixels), io.BytesIO()
        data = b""
        if self.codec == "jpeg":
            settings = [cv2.IMWRITE_JPEG_QUALITY, self.quality]
            settings += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, CHROMA_SAMPLING_FACTORS[self.chroma]]
            bgr = cv2.cvtColor(view.pixels, cv2.COLOR_RGB2BGR)
            data = cv2.imencode(".jpg", bgr, settings)[1].tobytes()
        elif self.lossless:  # minimum effort: a twelfth of the time for a quarter more bytes
            image.save(file, "WEBP", lossless=True, quality=0, method=0)
        else:
            image.save(file, "WEBP", quality=self.quality)
        name = f"{self.codec} of {view.picture.name or 'a view'}"
        picture = Picture.encoded(data or file.getvalue(), name, known_to_decode=True)
        return replace(view, picture=picture)
