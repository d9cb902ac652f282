"""Encodes views as PNG, JPEG or WebP, to study what a codec and its quality change."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Literal

import cv2
from PIL import Image

from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View

Chroma = Literal["4:4:4", "4:2:2", "4:2:0"]
SAMPLING: dict[Chroma, int] = {
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
}
MAX_SIDE = {"jpeg": 65_500, "webp": 16_383}  # pixels a side that the formats' libraries can write


@dataclass(frozen=True)
class Encode(WithoutModel):
    """Encodes every view with one `codec`; the model is sent these bytes, and later stages see the
    decoded pixels.

    `keep` changes nothing: the source's own bytes are sent where no stage changed them, and a
    lossless PNG otherwise. `png` is lossless at the fast level; a view that would be sent as a PNG
    anyway is passed on. `jpeg` has `quality` 1 to 100 and a `chroma` subsampling; 4:4:4 is the
    default because 4:2:0 smears thin coloured markers over 2 x 2 pixels. `webp` has `quality`, or
    with `lossless` none; lossy WebP is always 4:2:0, by its format.

    A JPEG source is encoded again, also at the same quality. The map to the sources is kept. Put it
    last before the stage that asks.
    """

    codec: Literal["keep", "png", "jpeg", "webp"] = "keep"
    quality: int = 90
    chroma: Chroma = "4:4:4"
    lossless: bool = False

    def __post_init__(self) -> None:
        if self.codec not in ("keep", "png", "jpeg", "webp"):
            raise ValueError(f"codec is keep, png, jpeg or webp, found {self.codec!r}")
        if self.chroma not in SAMPLING:
            raise ValueError(f"chroma is one of {', '.join(SAMPLING)}, found {self.chroma!r}")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality is 1 to 100, found {self.quality}")
        if self.lossless and self.codec != "webp":
            raise ValueError(
                f"lossless is a setting of webp, found it with {self.codec}; png is always lossless"
            )

    def __call__(self, state: State, model: Model) -> State:
        """The views in their new bytes. Raises ValueError that names the sample where the codec
        cannot hold one."""
        try:
            return state.replace(views=tuple(self.encode(view) for view in state.views))
        except ValueError as exc:
            raise ValueError(f"sample {state.sample.id}: {exc}") from exc

    def encode(self, view: View) -> View:
        """One view with its new bytes and the same parts."""
        if self.codec == "keep":
            return view
        if self.codec == "png":
            payload = view.picture.payload
            return (
                view
                if payload.media_type == "image/png"
                else replace(view, picture=Picture(view.pixels))
            )
        width, height = view.size
        if max(width, height) > MAX_SIDE[self.codec]:
            raise ValueError(
                f"{self.codec} holds at most {MAX_SIDE[self.codec]} pixels a side, the view has"
                f" {width} x {height}; make it smaller first (prompting.views.LongestSide)"
            )
        data = self._jpeg(view.pixels) if self.codec == "jpeg" else self._webp(view.pixels)
        name = f"{self.codec} of {view.picture.name or 'a view'}"
        return replace(view, picture=Picture.encoded(data, name, known_to_decode=True))

    def _jpeg(self, pixels: Pixels) -> bytes:
        settings = [
            cv2.IMWRITE_JPEG_QUALITY,
            self.quality,
            cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
            SAMPLING[self.chroma],
        ]
        ok, data = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), settings)
        if not ok:
            raise ValueError(
                f"OpenCV could not write a JPEG of {pixels.shape[1]} x {pixels.shape[0]} pixels"
            )
        return data.tobytes()

    def _webp(self, pixels: Pixels) -> bytes:
        file = io.BytesIO()
        if self.lossless:  # the least effort: a twelfth of the time for a quarter more bytes
            Image.fromarray(pixels).save(file, "WEBP", lossless=True, quality=0, method=0)
        else:
            Image.fromarray(pixels).save(file, "WEBP", quality=self.quality)
        return file.getvalue()
