"""Things named in words, each as a mask: by SAM 3, or found by a detector and cut out by a
segmenter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, import_torch
from looktwice.specialists.networks.image_size import resize, to_batch, to_numbers
from looktwice.specialists.networks.network import HubModel, HubNetwork, Inputs, require_numbers
from looktwice.specialists.protocols import BoxSegmenter, Detector
from looktwice.specialists.results import Masks
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

LONGEST = 32  # tokens of a word, which all are filled up to

Item = tuple[Pixels, tuple[str, ...]]


@dataclass(frozen=True)
class SAM3(HubNetwork[Item, Masks]):
    """Masks of all things that words name, by SAM 3 (Carion et al., ICLR 2026): short nouns such as
    `yellow bus`.

    Each of `words` is asked for by itself. A mask is kept where its score is above `threshold`, a
    probability whose default is the authors'; the surest comes first, and at most `most` are given.
    With `detection.MaskBoxes` around it, it is a detector, and then the words of a question take
    the place of `words`.
    """

    model: str = "facebook/sam3"
    words: tuple[str, ...] = ()
    threshold: float = 0.5
    most: int = 100

    result = Masks
    model_class = "Sam3Model"
    processor_class = "AutoTokenizer"
    half_is_safe = False
    images = 1
    squares = True
    ranges = ("threshold >= 0", "threshold < 1")

    def __call__(self, pixels: Pixels, /) -> Masks:
        """The masks at the size of an HxWx3 RGB image, with words as labels. Raises NoEvidence,
        WeightsError."""
        return self.predict((pixels,))

    def prepare(self, given: Inputs) -> Item:
        """The image and the words. Raises NoEvidence without a word."""
        asked = tuple(word.strip().lower() for word in self.words if word.strip())
        if not asked:
            raise NoEvidence("SAM3 looks for words, and none was given")
        return super().prepare(given)[0], asked

    def forward(self, network: HubModel, place: Place, items: Sequence[Item]) -> list[Masks]:
        """The masks of each image: all are seen together, and each is asked for its words."""
        side = int(network.config.image_size)
        images = import_torch().cat([see_square(image, side) for image, _ in items])
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
            masks.append(self._masks(network, place, type(seen)(**levels), *item))
        return masks

    def _masks(
        self, network: HubModel, place: Place, seen: Any, image: Pixels, words: tuple[str, ...]
    ) -> Masks:
        """The masks of one image, which was seen once for each word."""
        text = network.processor(
            list(words),
            padding="max_length",
            max_length=LONGEST,
            truncation=True,
            return_tensors="pt",
        ).to(place.device)
        output = network.model(
            vision_embeds=seen, input_ids=text["input_ids"], attention_mask=text["attention_mask"]
        )
        # a row for each word
        scores = output.pred_logits.float().sigmoid() * output.presence_logits.float().sigmoid()
        require_numbers(scores, self.model, place.dtype)
        order = scores.flatten().argsort(descending=True, stable=True)
        kept = order[scores.flatten()[order] > self.threshold][: self.most]
        if not len(kept):
            return Masks.none(*image.shape[:2])
        small = output.pred_masks.float().flatten(0, 1)[kept].sigmoid()
        inside = resize(small[None], image.shape[:2])[0] > 0.5
        labels = [words[n] for n in (kept // scores.shape[1]).tolist()]
        return Masks(inside.cpu().numpy(), to_numbers(scores.flatten()[kept]), np.array(labels))

    def _settings(self) -> str:
        """The settings that change results; the words are a part of each item."""
        return replace(self, words=())._settings() if self.words else super()._settings()


def see_square(image: Pixels, side: int) -> Any:
    """An image (1, 3, side, side) as SAM 3 sees it: stretched in whole steps of brightness, then
    -1..1."""
    pixels = to_batch([image], Place("cpu", "float32"))
    return resize(pixels, (side, side), antialias=True).float() / 127.5 - 1


@dataclass(frozen=True)
class GroundedSAM:
    """The things that `words` name, each as one mask (Ren et al., arXiv 2401.14159): a segmenter of
    two specialists.

    Scores are the detector's, labels its words, and the surest comes first, as the detector gives
    them.
    """

    detector: Detector
    segmenter: BoxSegmenter
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not any(word.strip() for word in self.words):
            raise ValueError("words names what is looked for, such as [cat, dog]; found none")

    def __call__(self, pixels: Pixels, /) -> Masks:
        """The masks at the size of the image; no find is no mask. Raises NoEvidence,
        WeightsError."""
        boxes = look_once(self.detector, pixels, self.words)
        if not len(boxes):
            return Masks.none(*pixels.shape[:2])
        return Masks(look_once(self.segmenter, pixels, boxes).masks, boxes.scores, boxes.labels)
