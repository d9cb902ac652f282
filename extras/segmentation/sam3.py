"""Segments objects named by words: with SAM 3, or with a detector followed by a segmenter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from looktwice.extras.networks.network import HubModel, HubNetwork, Inputs, refuse_nan
from looktwice.extras.networks.opening import Place, import_torch
from looktwice.extras.networks.tensors import resize, to_array, to_batch
from looktwice.pipelines.picture import Pixels
from looktwice.specialists.protocols import BoxSegmenter, Detector
from looktwice.specialists.results import Masks
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

MAX_WORD_TOKENS = 32  # tokens to which every word is padded

Item = tuple[Pixels, tuple[str, ...]]


@dataclass(frozen=True)
class SAM3(HubNetwork[Item, Masks]):
    """Masks of all objects that words name, by SAM 3 (Carion et al., ICLR 2026): short nouns such
    as `yellow bus`.

    Each of `words` is a separate prompt. A mask is kept if its score, a probability, is above
    `threshold`, by default the authors'. At most `most` masks are returned, highest score first.
    Inside `detection.MaskBoxes` it is a detector, and the words of a question replace `words`.
    """

    model: str = "facebook/sam3"
    words: tuple[str, ...] = ()
    threshold: float = 0.5
    most: int = 100

    result = Masks
    model_class = "Sam3Model"
    processor_class = "AutoTokenizer"
    half_is_safe = False
    image_count = 1
    resizes_to_squares = True
    ranges = ("threshold >= 0", "threshold < 1")

    def __call__(self, pixels: Pixels, /) -> Masks:
        """Return the masks at the size of an HxWx3 RGB image, with words as labels. Raises
        NoEvidence, WeightsError."""
        return self.predict((pixels,))

    def prepare(self, given: Inputs) -> Item:
        """Return the image and the words that name the objects. Raises NoEvidence if there are no
        words."""
        asked = tuple(word.strip().lower() for word in self.words if word.strip())
        if not asked:
            raise NoEvidence("SAM3 needs words to look for, but got none")
        return super().prepare(given)[0], asked

    def forward(self, network: HubModel, place: Place, items: Sequence[Item]) -> list[Masks]:
        """Return the masks of each image: all images are encoded together, and each is prompted
        with its words."""
        side = int(network.config.image_size)
        images = import_torch().cat([resize_to_square(image, side) for image, _ in items])
        seen = network.model.get_vision_features(
            pixel_values=images.to(place.device, place.torch_dtype)
        )
        masks = []
        for n, item in enumerate(items):
            levels = {
                name: tuple(
                    level[n : n + 1].expand(len(item[1]), -1, -1, -1)
                    for level in getattr(seen, name)
                )
                for name in ("fpn_hidden_states", "fpn_position_encoding")
            }
            masks.append(self._segment(network, place, type(seen)(**levels), *item))
        return masks

    def _segment(
        self, network: HubModel, place: Place, seen: Any, image: Pixels, words: tuple[str, ...]
    ) -> Masks:
        """Return the masks of one image; `seen` is its embedding, repeated for each word."""
        text = network.processor(
            list(words),
            padding="max_length",
            max_length=MAX_WORD_TOKENS,
            truncation=True,
            return_tensors="pt",
        ).to(place.device)
        output = network.model(
            vision_embeds=seen, input_ids=text["input_ids"], attention_mask=text["attention_mask"]
        )
        # one row per word
        scores = output.pred_logits.float().sigmoid() * output.presence_logits.float().sigmoid()
        refuse_nan(scores, self.model, place.dtype)
        order = scores.flatten().argsort(descending=True, stable=True)
        kept = order[scores.flatten()[order] > self.threshold][: self.most]
        if not len(kept):
            return Masks.make_empty(*image.shape[:2])
        small = output.pred_masks.float().flatten(0, 1)[kept].sigmoid()
        inside = resize(small[None], image.shape[:2])[0] > 0.5
        labels = [words[n] for n in (kept // scores.shape[1]).tolist()]
        return Masks(inside.cpu().numpy(), to_array(scores.flatten()[kept]), np.array(labels))

    def _serialize_settings(self) -> str:
        """Serialize the settings that affect results, except the words, which items contain."""
        return (
            replace(self, words=())._serialize_settings()
            if self.words
            else super()._serialize_settings()
        )


def resize_to_square(image: Pixels, side: int) -> Any:
    """Preprocess an image for SAM 3 to (1, 3, side, side): stretched, with brightness rounded to
    whole levels, then scaled to -1..1."""
    pixels = to_batch([image], Place("cpu", "float32"))
    return resize(pixels, (side, side), antialias=True).float() / 127.5 - 1


@dataclass(frozen=True)
class GroundedSAM:
    """The objects that `words` name, one mask each (Ren et al., arXiv 2401.14159): a segmenter
    composed of a `detector` and a `segmenter`.

    Scores and labels are the detector's, in its order, highest score first.
    """

    detector: Detector
    segmenter: BoxSegmenter
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not any(word.strip() for word in self.words):
            raise ValueError(
                "`words` must name the objects to find, such as [cat, dog]; found none"
            )

    def __call__(self, pixels: Pixels, /) -> Masks:
        """Return the masks at the size of the image, or zero masks if nothing is detected. Raises
        NoEvidence, WeightsError."""
        boxes = look_once(self.detector, pixels, self.words)
        if not len(boxes):
            return Masks.make_empty(*pixels.shape[:2])
        return Masks(look_once(self.segmenter, pixels, boxes).masks, boxes.scores, boxes.labels)
