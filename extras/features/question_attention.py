"""The attention from the question's tokens to the image tokens in a language model, and the
positions of the image tokens in the picture."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np

from looktwice.extras.engines.chat_template import Chat
from looktwice.extras.engines.local_vlm import LocalVLM
from looktwice.extras.features.attention import (
    Floats,
    make_marks_mask,
    record_parts,
    register_attention,
    select_marks,
    sum_attention,
)
from looktwice.extras.networks.network import Inputs, Network
from looktwice.extras.networks.opening import Place, import_torch
from looktwice.extras.networks.tensors import to_array
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import Message, Model
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.state import State, WithoutModel
from looktwice.specialists.rules import NoEvidence


@dataclass(frozen=True, eq=False)
class TokenAttention:
    """The attention that each image token receives from a question's tokens, averaged over these:
    `parts` (parts, tokens), one part for each layer, or for each head of one layer.

    All tokens of the prompt together receive 1. `pictures` (tokens,) holds the number of each
    token's picture, `token_boxes` (tokens, 4) the token's place as in `locate_tokens`.
    """

    parts: Floats
    pictures: Any
    token_boxes: Floats

    @property
    def values(self) -> Floats:
        """The mean of all parts, (tokens,)."""
        return np.asarray(self.parts.mean(0))

    def make_map(self, picture: int, height: int, width: int, part: int | None = None) -> Floats:
        """Return the attention that each pixel of a picture receives, at this size, averaged over
        all parts or from one."""
        own, values = self.pictures == picture, self.values if part is None else self.parts[part]
        return spread_over_pixels(values[own], self.token_boxes[own], height, width)


@dataclass(frozen=True)
class QuestionAttention(WithoutModel, Network[Inputs, TokenAttention]):
    """Measures the share of the attention from the question's tokens to the pictures that lies on
    the sample's marks.

    `model`, `revision`, `system`, `max_pixels`, `dtype` and `device` are those of the LocalVLM
    whose language model is examined: LLaVA, LLaVA-NeXT, Qwen2-VL or Qwen2.5-VL. It is opened a
    second time, with attention that can be recorded, and given the conversation up to the user's
    last turn, in the same tokens as when it answers; before any question was asked, it gets the
    views and the prompt. The weights from the tokens of that turn's text to each image token are
    averaged over these tokens, heads and layers, or taken from one `layer` (0 is the first, -1 the
    last). Conversations are run one by one.

    It records `question_attention`, the share of the pictures' attention that lies on the marks;
    `marked_area`, the marks' share of the area; and `image_attention`, the share of all attention
    that image tokens receive. `labels` and `radius` are as in AttentionShare; marks are located in
    the views. `apart` also records `question_attention_layer_0` and so on, or `_head_0` and so on
    for one `layer`. Samples get a note if no view shows such a mark, or if all of the text precedes
    the pictures. Follows Do You See Me, appendix N, which measures the vision encoder instead.
    Raises WeightsError for other families.
    """

    layer: int | None = None
    labels: tuple[str, ...] = ()
    radius: float = 10
    system: str = ""
    max_pixels: int | None = None
    apart: bool = False

    version: ClassVar[int] = 2
    result = TokenAttention

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its measurements, or a note on why there are none."""
        users = [n for n, message in enumerate(state.messages) if message.role == "user"]
        messages = state.messages[: users[-1] + 1] if users else ()
        if not messages:
            prompt = [state.prompt] if state.prompt else []
            messages = (Message("user", (*state.views, *prompt)),)
        views = [view for message in messages for view in message.views]
        kept = select_marks(state.sample.marks, self.labels)
        places = [[place for mark in kept for place in view.to_view(mark)] for view in views]
        try:
            if not any(places):
                raise NoEvidence("no view shows a mark")
            looks = self.predict((messages,))
        except NoEvidence as exc:
            return state.with_notes(f"question attention: {exc}")
        parts = [None, *(range(len(looks.parts)) if self.apart else ())]
        # for each part, attention on the marks and in total; pixels of the marks and in total
        sums, area = np.zeros((2, len(parts))), np.zeros(2)
        for number, (view, marks) in enumerate(zip(views, places, strict=True)):
            width, height = view.size
            covered = make_marks_mask(marks, (height, width), self.radius)
            for place, part in enumerate(parts):
                values = looks.make_map(number, height, width, part)
                sums[:, place] += values[covered].sum(), values.sum()
            area += covered.sum(), covered.size
        shares = sums[0] / sums[1]
        state = state.measured("question_attention", float(shares[0]))
        state = state.measured("marked_area", float(area[0] / area[1]))
        state = state.measured("image_attention", float(looks.values.sum()))
        return record_parts(state, "question_attention", shares[1:], self.layer)

    def prepare(self, given: Inputs) -> Inputs:
        """Return the conversation as plain text, and its pictures. Raises PictureError."""
        chat = self._build_model().make_chat(given[0])
        return write_canonical(list(chat.turns)), *chat.images

    def open_network(self, place: Place) -> Any:
        """Open the network and processor in the same way as the model does. Raises WeightsError."""
        return self._build_model().network(
            attn_implementation={"text_config": register_attention()}
        )

    def get_place(self) -> Place:
        """Return the device and precision of the examined model."""
        return Place.resolve(self.device, self.dtype, half="bfloat16", extra="hf")

    def forward(self, network: Any, place: Place, items: Sequence[Inputs]) -> list[TokenAttention]:
        """Return the attention of the question's tokens in each conversation. Raises NoEvidence if
        no picture precedes them."""
        return [
            self._measure_attention(network, json.loads(turns), images) for turns, *images in items
        ]

    def _measure_attention(
        self, network: Any, turns: list[Any], images: Sequence[Any]
    ) -> TokenAttention:
        torch, model = import_torch(), self._build_model()
        # the turns, with the last one's words removed
        wordless_turns = copy.deepcopy(turns)
        for part in wordless_turns[-1]["content"]:
            if part["type"] != "image":
                part["text"] = ""
        inputs, wordless = (
            model.make_inputs(network, [Chat(chat, images)]) for chat in (turns, wordless_turns)
        )
        places = locate_tokens(network, inputs, [image.shape[:2] for image in images])
        tokens = inputs["input_ids"][0]
        rows = find_text_tokens(tokens.tolist(), wordless["input_ids"][0].tolist())
        (seen,) = torch.where(tokens == network.config.image_token_id)
        if not rows or not len(seen) or rows[-1] < int(seen[0]):
            raise NoEvidence("no word of the question follows a picture")
        asking = torch.zeros(len(tokens), device=tokens.device)
        asking[rows] = 1 / len(rows)
        with sum_attention(asking) as received:
            network.model(**inputs, use_cache=False, logits_to_keep=1)
        parts = to_array(received.stack_parts(self.model, self.layer)[0][:, seen]).astype(
            np.float64
        )
        numbers = np.repeat(np.arange(len(places)), list(map(len, places)))
        return TokenAttention(parts, numbers, np.vstack(places))

    def _build_model(self) -> LocalVLM:
        return LocalVLM(
            self.model,
            self.revision,
            system=self.system,
            max_pixels=self.max_pixels,
            dtype=self.dtype,
            device=self.device,
        )


def find_text_tokens(prompt: list[int], textless: list[int]) -> list[int]:
    """Return the positions of the prompt's tokens that are missing from `textless`, the same prompt
    without the question's text."""
    start = _count_common_start(prompt, textless)
    same = _count_common_start(prompt[::-1], textless[start:][::-1])
    return list(range(start, len(prompt) - same))


def _count_common_start(first: list[int], second: list[int]) -> int:
    """Count the equal numbers at the beginning of two lists."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


SUPPORTED_FAMILIES = ("llava", "llava_next", "qwen2_vl", "qwen2_5_vl")


def locate_tokens(network: Any, inputs: Any, sizes: Sequence[tuple[int, int]]) -> list[Floats]:
    """Return the place of each token in its picture, (tokens, 4) for each picture of the prompt.

    A place is the top, bottom, left and right edge as fractions of the picture's height and width;
    values below 0 or above 1 are padding, and NaN is a token without a place. `sizes` are the
    (height, width) of the images given to the processor. Raises WeightsError for families that are
    not in `SUPPORTED_FAMILIES`, and if the number of tokens does not fit.
    """
    config, family = network.model.config, network.model.config.model_type
    if family not in SUPPORTED_FAMILIES:
        raise WeightsError(
            f"the positions of image tokens are known for {', '.join(SUPPORTED_FAMILIES)},"
            f" not for {family!r}"
        )
    places = []
    if family.startswith("qwen"):
        merge = config.vision_config.spatial_merge_size
        for _, rows, columns in inputs["image_grid_thw"].tolist():
            ys, xs = (np.linspace(0, 1, side // merge + 1) for side in (rows, columns))
            places.append(_list_tiles(ys, xs))
    else:
        place = locate_in_square if family == "llava" else locate_in_tiles
        places = [place(network, height, width) for height, width in sizes]
    found = int((inputs["input_ids"] == config.image_token_id).sum())
    if found != sum(map(len, places)):
        raise WeightsError(f"the prompt has {found} image tokens, expected {sum(map(len, places))}")
    return places


def spread_over_pixels(values: Floats, places: Floats, height: int, width: int) -> Floats:
    """Spread the values of tokens evenly over their parts of the picture and add them up to a map
    (height, width).

    Tokens without a place in the picture are left out.
    """
    ys, xs = (
        _compute_pixel_shares(places[:, 0], places[:, 1], height),
        _compute_pixel_shares(places[:, 2], places[:, 3], width),
    )
    return np.asarray(ys * values @ xs.T, np.float64)


def _compute_pixel_shares(starts: Floats, ends: Floats, pixels: int) -> Floats:
    """Return the share (pixels, tokens) of each token that lies on each pixel, counting only its
    part inside the picture."""
    at = np.arange(pixels)[:, None]
    overlap = np.clip(np.fmin(ends * pixels, at + 1) - np.fmax(starts * pixels, at), 0, None)
    overlap[:, np.isnan(starts)] = 0
    return np.asarray(overlap / np.maximum(overlap.sum(0), 1e-12), np.float64)


def _list_tiles(ys: Floats, xs: Floats) -> Floats:
    """List the tiles (top, bottom, left, right) between these edges, row by row."""
    high = np.repeat(np.column_stack([ys[:-1], ys[1:]]), len(xs) - 1, 0)
    return np.hstack([high, np.tile([xs[:-1], xs[1:]], len(ys) - 1).T])


def locate_in_square(network: Any, height: int, width: int) -> Floats:
    """Locate LLaVA's tokens: a square at the centre of the picture. Raises WeightsError for
    processors that pad pictures to a square."""
    images, side = network.processor.image_processor, _count_side_tokens(network)
    if getattr(images, "do_pad", False):
        raise WeightsError(
            "the positions of image tokens are unknown for pictures that are padded to a square"
        )
    size = images.size
    scaled = [size["height"], size["width"]]
    if shortest := size["shortest_edge"]:
        scaled = [int(shortest * edge / min(height, width)) for edge in (height, width)]
    crop = scaled
    if images.do_center_crop:
        crop = [images.crop_size["height"], images.crop_size["width"]]
    ys, xs = (
        (int((edge - kept) / 2) + np.arange(side + 1) * kept / side) / edge
        for edge, kept in zip(scaled, crop, strict=True)
    )
    # the class token
    first = np.full((int(network.model.config.vision_feature_select_strategy == "full"), 4), np.nan)
    return np.vstack([first, _list_tiles(ys, xs)])


def locate_in_tiles(network: Any, height: int, width: int) -> Floats:
    """Locate LLaVA-NeXT's tokens: a coarse grid of the whole picture, then a finer one without its
    padding, with a newline after each row."""
    from transformers.image_processing_utils import select_best_resolution

    config, side = network.model.config, _count_side_tokens(network)
    if config.vision_feature_select_strategy != "default":
        raise WeightsError(
            "the positions of image tokens in LLaVA-NeXT are known only with"
            " vision_feature_select_strategy: default"
        )
    token = config.vision_config.image_size / side
    tall, wide = select_best_resolution((height, width), config.image_grid_pinpoints)
    rows, columns = round(tall / token), round(wide / token)
    above, left = 0, 0
    if width / height > columns / rows:
        seen = min(math.ceil(height * wide / width), tall), wide
        above = (rows - int(round(height * columns / width, 7))) // 2
    else:
        seen = tall, min(math.ceil(width * tall / height), wide)
        left = (columns - int(round(width * rows / height, 7))) // 2
    ys, xs = (
        (np.arange(cut, count - cut + 1) * token - (whole - kept) // 2) / kept
        for cut, count, whole, kept in (
            (above, rows, tall, seen[0]),
            (left, columns, wide, seen[1]),
        )
    )
    fine = _list_tiles(ys, xs).reshape(len(ys) - 1, len(xs) - 1, 4)
    lines = np.concatenate([fine, np.full((len(fine), 1, 4), np.nan)], 1).reshape(-1, 4)
    edges = np.linspace(0, 1, side + 1)
    return np.vstack([_list_tiles(edges, edges), lines])


def _count_side_tokens(network: Any) -> int:
    """Return the number of tokens along a side of the encoder's square."""
    config = network.model.config.vision_config
    return int(config.image_size // config.patch_size)
