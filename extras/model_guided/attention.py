"""ViCrop: the window of a picture that stands out most in the attention of a network in this
process."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Literal

import cv2
import numpy as np
from PIL import Image
from scipy.ndimage import median_filter

from looktwice.extras.engines.local_vlm import LocalVLM
from looktwice.extras.features.question_attention import locate_tokens
from looktwice.extras.networks.opening import Device, Dtype
from looktwice.pipelines import transforms
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.geometry import PixelRect, Rect, Size
from looktwice.pipelines.marks import Box, Mark
from looktwice.pipelines.model import Message, Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.where.places import PerImageSource
from looktwice.prompting.where.windows import compute_window_sums
from looktwice.prompting.wording.instructions import Text, WithTextFiles, get_text
from looktwice.specialists.results import Floats

WINDOW_RATIOS = (1, 1.2, 1.4, 1.6, 1.8, 2)
TILE_SIDE = 1024  # pixels per side above which a picture is split into tiles
GENERAL_INSTRUCTION = "Write a general description of the image."


def find_sharpest_window(values: Floats, size: Size, base: int) -> Rect:
    """Return ViCrop's box in a picture of size (width, height). For each window size from 1 to 2
    times `base` pixels, the window with the largest sum over the map `values` (rows, columns) is a
    candidate; the box is the candidate that stands out most.

    A window stands out by how much its sum exceeds that of its neighbours, per block of the map.
    Windows smaller than a block, which occur in large pictures, come first, in the upper left
    corner, as in the authors' code.
    """
    blocks = np.divide(size, values.shape[::-1])
    windows, sharpness = list[tuple[Floats, float]](), list[float]()
    for ratio in WINDOW_RATIOS:
        count = np.minimum(np.floor(base * ratio / blocks), values.shape[::-1]).astype(int)
        if (count == values.shape[::-1]).all():
            if ratio == 1:
                return 0.0, 0.0, float(size[0]), float(size[1])
            continue
        wide, high = count.tolist()
        sums = compute_window_sums(values, high, wide)
        x, y = divmod(int(sums.T.argmax()), len(sums))
        rim = np.pad(sums, 1, constant_values=np.nan)
        beside = np.nanmean(rim[[y, y + 2, y + 1, y + 1], [x + 1, x + 1, x, x + 2]])
        with np.errstate(invalid="ignore"):
            sharpness.append(float(np.divide(sums[y, x] - beside, wide * high)))
        half = base * ratio // 2
        windows.append((np.trunc((x, y) * blocks + blocks * count / 2), half))
    center, half = windows[int(np.argmax(sharpness))]
    center = np.minimum(np.maximum(center, half), np.subtract(size, half))
    left, top = np.maximum(center - half, 0).tolist()
    right, bottom = np.minimum(center + half, size).tolist()
    return left, top, right, bottom


def cut_tiles(size: Size) -> list[list[PixelRect]]:
    """Return ViCrop's tiles of a large picture, row by row; the tiles at the end may extend beyond
    its edge."""
    rows = math.ceil(size[1] / TILE_SIDE)
    columns = max(1, rows * size[0] // size[1])  # the authors' code fails on narrow portraits
    wide, high = math.ceil(size[0] / columns), math.ceil(size[1] / rows)
    return [
        [(x * wide, y * high, (x + 1) * wide, (y + 1) * high) for x in range(columns)]
        for y in range(rows)
    ]


def keep_fine_detail(values: Floats, pixels: Pixels, block: int) -> Floats:
    """Return a map of pixels (height, width) averaged over square blocks. Only values where the
    picture has finer detail than its median are kept: ViCrop's high pass.

    Detail is the difference that a 3 x 3 Gaussian blur makes: its norm over the channels, smoothed
    by a median over 7 x 7 pixels.
    """
    high, wide = values.shape
    shown = Image.fromarray(pixels).resize((wide, high), Image.Resampling.BILINEAR)
    colors = np.asarray(shown, np.float64)
    lost = np.linalg.norm(colors - cv2.GaussianBlur(colors, (3, 3), 0.8), axis=2)
    fineness = median_filter(lost, 7)
    kept = values * (fineness > np.median(fineness))
    blocks = kept.reshape(high // block, block, wide // block, block)
    return np.asarray(blocks.mean((1, 3)), np.float64)


@dataclass(frozen=True, kw_only=True)
class UsesLocalModel:
    """The settings of the LocalVLM whose internals are read: `model`, `revision`, `system`,
    `max_pixels`, `dtype` and `device`."""

    model: str
    revision: str | None = None
    system: str = ""
    max_pixels: int | None = None
    dtype: Dtype = "auto"
    device: Device = field(default="auto", metadata=NOT_IDENTITY)

    @property
    def local_model(self) -> LocalVLM:
        """The model with these settings."""
        return LocalVLM(**{f.name: getattr(self, f.name) for f in fields(UsesLocalModel)})

    def measure_attention(
        self, view: View, prompt: str, layer: int, gradient: bool = False
    ) -> Floats:
        """Return the attention, in one layer, from the last token of a prompt to the image tokens
        of a picture, as a map (rows, columns). With `gradient` it is weighted by the positive
        gradient of the most likely next token."""
        by: Literal["attention", ""] = "attention" if gradient else ""
        look = self.local_model.compute_reply_start([Message("user", (view, prompt))], by)
        values = look.attention[layer]
        if look.gradient is not None:
            values = values * np.maximum(look.gradient[layer], 0)
        (places,) = locate_tokens(look.network, look.inputs, look.sizes)
        inside = ~np.isnan(places[:, 0])
        columns = len(np.unique(places[inside, 2]))
        return np.asarray(values.mean(0)[inside].reshape(-1, columns), np.float64)

    def measure_gradient(self, view: View, prompt: str) -> Floats:
        """Return the norm, over the channels, of the gradient of the most likely next token with
        respect to each pixel of the network's input, (height, width). Raises WeightsError if the
        network's input is not a single plane of pixels."""
        look = self.local_model.compute_reply_start([Message("user", (view, prompt))], "pixels")
        if look.gradient is None or look.gradient.ndim != 4 or len(look.gradient) != 1:
            raise WeightsError(
                f"{self.model}: gradients of pixels need a model whose input is a single plane of"
                " pixels, as in LLaVA-1.5; use method: relative"
            )
        return np.asarray(np.linalg.norm(look.gradient[0], axis=0))


@dataclass(frozen=True, kw_only=True)
class ViCrop(WithTextFiles, UsesLocalModel, PerImageSource):
    """ViCrop's window (arXiv 2502.17422): the region to which a network in this process attends as
    it begins to answer the question.

    `method` "relative" takes the attention of one `layer` from the prompt's last token, and divides
    it by the attention for the prompt `general`, unless `general` is empty. "gradient" multiplies
    the attention by the positive gradient of the likeliest token. "pure" takes the gradient with
    respect to the pixels where the picture has fine detail, divided in the same way; it uses no
    `layer`, and needs a model such as LLaVA-1.5. `base` is the side of the vision encoder's input:
    windows are 1 to 2 times as large. With `tiled` a large picture is processed in tiles. The
    authors use layer 14 of LLaVA-1.5-7B and layer 22 of Qwen2.5-VL-3B. `images` are counted from 0;
    None means all.
    """

    method: Literal["relative", "gradient", "pure"] = "relative"
    layer: int = 14
    base: int = 336
    general: Text = GENERAL_INSTRUCTION
    tiled: bool = False
    region_phrase = "window"

    def find_regions(self, state: State, model: Model, number: int) -> list[Mark]:
        """Return the window of one image. Raises WeightsError."""
        view, question = View.of(state.sample.images[number], number), state.sample.question
        values = self._compute_map(view, question)
        if self.tiled:
            values = np.block(
                [
                    [self._compute_map(self._cut_tile(view, box), question) for box in row]
                    for row in cut_tiles(view.size)
                ]
            )
        return [Box("", *find_sharpest_window(values, view.size, self.base), number)]

    def _cut_tile(self, view: View, box: PixelRect) -> View:
        right, bottom = max(0, box[2] - view.size[0]), max(0, box[3] - view.size[1])
        return transforms.crop(transforms.pad(view, right=right, bottom=bottom), *box)

    def _compute_map(self, view: View, question: str) -> Floats:
        """Return the map of one picture, with the rows and columns of its tokens."""
        if self.method == "gradient":
            return self.measure_attention(view, question, self.layer, gradient=True)
        is_pure = self.method == "pure"
        read = (
            self.measure_gradient if is_pure else partial(self.measure_attention, layer=self.layer)
        )
        values = read(view, question)
        if general := get_text(self.general):
            values = values / read(view, general)
        if not is_pure:
            return values
        vision = self.local_model.network(attn_implementation="eager").config.vision_config
        return keep_fine_detail(values, view.pixels, vision.patch_size)
