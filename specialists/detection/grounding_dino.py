"""Grounding DINO, and any other text-prompted detector of Hugging Face transformers, by hub id or
folder."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place
from looktwice.specialists.detection.grounding_dino_files import (
    open_grounding_dino,
    open_grounding_dino_package,
)
from looktwice.specialists.detection.network_boxes import asked_words, surest_boxes, to_numbers
from looktwice.specialists.networks.packages import require_float32
from looktwice.specialists.networks.transformers_hub import (
    HubModel,
    HubNetwork,
    first_images,
    require_numbers,
)
from looktwice.specialists.protocols import NoEvidence
from looktwice.specialists.results import Boxes

Item = tuple[Pixels, tuple[str, ...]]


@dataclass(frozen=True)
class GroundingDINO(HubNetwork[Item, Boxes]):
    """Boxes of objects named by text prompts, by Grounding DINO (Liu et al., ECCV 2024) or a
    network like it.

    Any id that Hugging Face transformers opens for zero-shot detection works (MM-Grounding DINO,
    OWLv2 ...). A box is kept where its score is above `threshold`. Its label is the likeliest of
    the asked words, whatever their order, or empty where that word's score is not above
    `text_threshold`. Both defaults are those that Visual Sketchpad took (Hu et al., NeurIPS 2024).
    The surest box comes first, and at most `most` are given. Scores are probabilities. `model` may
    be the authors' file (`groundingdino_swint_ogc.pth`); it lacks its words, which `tokenizer`
    names: the id or folder of its BERT, or a `vocab.txt`. With `package` the authors' own package
    groundingdino, which is to be installed, looks at that file; `tokenizer` is then a folder of
    BERT with its weights, or left out and fetched.
    """

    model: str = "IDEA-Research/grounding-dino-tiny"
    threshold: float = 0.35
    text_threshold: float = 0.25
    most: int = 100
    tokenizer: str = "google-bert/bert-base-uncased"
    package: bool = False

    result = Boxes
    model_class = "AutoModelForZeroShotObjectDetection"
    processor_class = "AutoProcessor"
    half_is_safe = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("threshold", "text_threshold"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name} is a probability, 0 or more and below 1, found {getattr(self, name)}"
                )
        if self.package:
            require_float32(self.dtype)

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """Boxes of these words in an HxWx3 RGB image. Raises NoEvidence without a word,
        WeightsError."""
        return self.predict((pixels, words))

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """The image and its words; a text is one word. Raises NoEvidence without a word."""
        pixels, words = (*given, None)[:2]
        asked = asked_words(words)
        if not asked:
            raise NoEvidence(f"{type(self).__name__} looks for words, and none was given")
        return super().prepare((pixels,))[0], asked

    def open_file(self, path: str) -> HubModel:
        """An original checkpoint. Raises WeightsError."""
        return open_grounding_dino(path, self.tokenizer)

    def open_network(self, place: Place) -> Any:
        """Network and processor, or what the package opens. Raises WeightsError."""
        if self.package:
            return open_grounding_dino_package(self.model, self.tokenizer, place)
        return super().open_network(place)

    def network_key(self) -> Hashable:
        """That of any network, the words, and whose code runs it."""
        return (super().network_key(), self.tokenizer, self.package)

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[Boxes]:
        """The boxes of each image, in its own pixels, clipped to it."""
        if self.package:
            return [self._boxes(network.find(*item, self.threshold), *item) for item in items]
        images, words = first_images(items), [list(item[1]) for item in items]
        inputs = network.inputs(place, images=images, text=words, padding=True)
        outputs = network.model(**inputs)
        require_numbers(outputs.logits, self.model, place.dtype)
        sizes = [image.shape[:2] for image in images]
        process = network.processor.post_process_grounded_object_detection
        detections = process(
            outputs, target_sizes=sizes, text_labels=words, threshold=self.threshold
        )
        if "text_threshold" in signature(process).parameters:
            detections = [
                {
                    **detection,
                    "text_labels": _likeliest(
                        logits, ids, asked, self.threshold, network.processor
                    ),
                }
                for detection, logits, ids, asked in zip(
                    detections, outputs.logits, inputs["input_ids"], words, strict=True
                )
            ]
        return [
            self._boxes(detection, *item) for detection, item in zip(detections, items, strict=True)
        ]

    def _boxes(self, detection: Any, image: Pixels, asked: Sequence[str]) -> Boxes:
        scores = to_numbers(detection["scores"])
        words = [_asked_word(str(label), asked) for label in detection["text_labels"] or ()]
        labels = [
            word if score > self.text_threshold else ""
            for word, score in zip(words, scores, strict=True)
        ]
        return surest_boxes(detection["boxes"], scores, labels, image, self.most)


def _likeliest(
    logits: Any, ids: Any, words: Sequence[str], threshold: float, processor: Any
) -> list[str]:
    """Of each box above the threshold the words of its likeliest token; as in the text, a full stop
    ends them.

    `logits` are (boxes, tokens), `ids` those tokens; probabilities near 1 would be equal.
    """
    tokenizer = processor.tokenizer
    stop = tokenizer.convert_tokens_to_ids(".")
    around = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    # "st. bernard" has two parts
    owners = [word for word in words for _ in range(1 + word.count("."))]
    owner, columns, spoken = 0, list[int](), list[str]()
    for column, token in enumerate(ids.tolist()):
        if token == stop:
            owner += 1
        elif token not in around:  # an unknown token is a word as well
            columns.append(column)
            spoken.append(owners[owner])
    kept = logits[logits.sigmoid().amax(-1) > threshold]
    return [spoken[place] for place in kept[:, columns].argmax(-1).tolist()]


def _asked_word(label: str, asked: Sequence[str]) -> str:
    """The words that were asked for, of which a tokenizer may give a label with other spaces and
    without accents."""
    whole = {_plain(part): word for word in asked for part in (*word.split("."), word)}
    return whole.get(_plain(label), label)


def _plain(text: str) -> str:
    return "".join(
        letter for letter in unicodedata.normalize("NFKD", text.lower()) if letter.isalnum()
    )
