"""Object detectors: their common base, Florence-2, RF-DETR and other networks with fixed classes,
and the boxes of a segmenter's masks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from looktwice.extras.networks.checkpoints import refuse_file
from looktwice.extras.networks.hub import load_from_hub
from looktwice.extras.networks.network import HubModel, HubNetwork, Inputs, refuse_nan
from looktwice.extras.networks.opening import Place, import_torch, import_transformers, open_shared
from looktwice.extras.networks.tensors import normalize, resize, to_array, to_batch
from looktwice.pipelines.marks import mask_bounds
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.protocols import Segmenter
from looktwice.specialists.results import Boxes, argsort_descending
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

Words = tuple[str, ...]
Item = tuple[Pixels, Words]


def normalize_words(words: Sequence[str] | None) -> Words:
    """Normalize words: lower case, without full stops; a single string is one word."""
    every = (words,) if isinstance(words, str) else words or ()
    return tuple(word.strip().lower().rstrip(".") for word in every if word.strip(" ."))


def select_boxes(xyxy: Any, scores: Any, labels: Sequence[str], image: Pixels, most: int) -> Boxes:
    """Clip boxes (n, 4) with scores (n,) to the image and return at most `most` of them, highest
    score first."""
    height, width = image.shape[:2]
    edges = np.clip(xyxy, 0, [width, height, width, height])
    order = argsort_descending(scores)
    kept = order[(edges[:, 2:] > edges[:, :2]).all(1)[order]][:most]
    return Boxes(edges[kept], scores[kept], np.array(labels, str)[kept])


def find_lines(lines: Boxes, words: Sequence[str]) -> Boxes:
    """Return the lines of text that contain one of the words, labelled with that word, ignoring
    case; a single string is one word."""
    rows, labels = list[int](), list[str]()
    for word in (words,) if isinstance(words, str) else words:
        holding = [k for k, text in enumerate(lines.labels) if word.lower() in text.lower()]
        rows += holding
        labels += [word] * len(holding)
    kept = lines[np.array(rows, int)]
    return Boxes(kept.xyxy, kept.scores, np.array(labels, str))


class WordDetector(HubNetwork[Item, Boxes]):
    """A network of the `transformers` library that takes an image and words; `check_words`
    validates the words."""

    result = Boxes
    image_count = 1

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """Detect boxes in an HxWx3 RGB image. Raises WeightsError, and NoEvidence if the network
        cannot handle the words or needs words and got none."""
        boxes: Boxes = self.finish((pixels, words), self.predict((pixels, words)))
        return boxes

    def prepare(self, given: Inputs) -> Item:
        """Return the image and its words; a single string is one word. Raises NoEvidence."""
        words = normalize_words((*given, None)[1])
        return super().prepare(given)[0], self.check_words(words)

    def check_words(self, words: Words) -> Words:
        """Return the words to look for. Raises NoEvidence if there are none."""
        if not words:
            raise NoEvidence(f"{type(self).__name__} needs words to look for, but got none")
        return words


class _Query(NamedTuple):
    """One prompt for the network: the task, the words, and the label of the resulting boxes, if
    known."""

    task: str
    words: str = ""
    label: str = ""


@dataclass(frozen=True)
class Florence2(WordDetector):
    """Boxes that Florence-2 (Xiao et al., CVPR 2024) generates as text with coordinates.

    `task` "things" looks for each word separately, and without words for everything that it sees;
    "phrases" looks for all words together, as in one caption; "text" reads lines, whose labels are
    their text; with words, it returns the lines that contain one of them, labelled with that word.
    The network usually returns a box even for an object that is absent. The network gives no
    confidences, so every score is 1. Beam search uses `beams` beams and generates up to `longest`
    tokens; at most `most` boxes are returned.
    """

    model: str = "florence-community/Florence-2-base"
    task: Literal["things", "phrases", "text"] = "things"
    beams: int = 3
    longest: int = 1024
    most: int = 100

    model_class = "Florence2ForConditionalGeneration"
    processor_class = "AutoProcessor"
    ranges = ("beams, longest >= 1",)

    def check_words(self, words: Words) -> Words:
        """Return the words for the prompt; empty for tasks that take no words. Raises NoEvidence if
        the task is "phrases" and there are no words."""
        return (
            super().check_words(words)
            if self.task == "phrases"
            else words * (self.task == "things")
        )

    def finish(self, given: Inputs, result: Boxes) -> Boxes:
        """Return the boxes; if the task is "text" and there are words, only the lines that contain
        one."""
        words = (*given, None)[1]
        return result if self.task != "text" or words is None else find_lines(result, words)

    def get_batch_key(self, item: Item) -> Hashable:
        """Batch images that have the same prompts; their sizes do not matter, because the network
        resizes them to squares."""
        return self._build_queries(item[1])

    def forward(self, network: HubModel, place: Place, items: Sequence[Item]) -> list[Boxes]:
        """Return the boxes of each image, in pixels of that image and clipped to it."""
        images = [image for image, _ in items]
        edges: list[Any] = [[] for _ in items]
        labels: list[list[str]] = [[] for _ in items]
        for query in self._build_queries(items[0][1]):
            for n, answer in enumerate(self._generate(network, place, images, query)):
                if "quad_boxes" in answer:
                    quads = np.reshape(answer["quad_boxes"], (-1, 4, 2))
                    edges[n] += np.hstack((quads.min(1), quads.max(1))).tolist()
                else:
                    edges[n] += answer["bboxes"]
                names = answer.get("labels", answer.get("bboxes_labels"))
                labels[n] += [query.label or name for name in names]
        return [
            select_boxes(np.reshape(xyxy, (-1, 4)), np.ones(len(xyxy)), names, image, self.most)
            for xyxy, names, image in zip(edges, labels, images, strict=True)
        ]

    def _build_queries(self, words: Words) -> tuple[_Query, ...]:
        if self.task == "text":
            return (_Query("<OCR_WITH_REGION>"),)
        if self.task == "phrases":
            return (_Query("<CAPTION_TO_PHRASE_GROUNDING>", ", ".join(words)),)
        return tuple(_Query("<OPEN_VOCABULARY_DETECTION>", word, word) for word in words) or (
            _Query("<OD>"),
        )

    def _generate(
        self, network: HubModel, place: Place, images: list[Pixels], query: _Query
    ) -> list[Any]:
        """Generate text about each image and parse it with the network's processor."""
        text = [query.task + query.words] * len(images)
        written = network.model.generate(
            **network.make_inputs(place, images=images, text=text),
            max_new_tokens=self.longest,
            num_beams=self.beams,
            do_sample=False,
        )
        texts = network.processor.batch_decode(written, skip_special_tokens=False)
        read = network.processor.post_process_generation
        return [
            read(text, task=query.task, image_size=image.shape[1::-1])[query.task]
            for text, image in zip(texts, images, strict=True)
        ]


PLURAL_ENDINGS = (
    ("people", "person"),
    ("men", "man"),
    ("ies", "y"),
    ("ves", "fe"),
    ("es", ""),
    ("s", ""),
)
UNNAMED_LABELS = ("n/a", "none")  # labels of COCO's unused numbers


@dataclass(frozen=True)
class RFDETR(WordDetector):
    """Boxes of the classes that a detector was trained on, by RF-DETR (Robinson et al., ICLR 2026)
    or a similar network.

    `model` is any id that Hugging Face transformers opens for object detection (DETR, RT-DETR,
    D-FINE, YOLOS ...). Words are labels of the network, in the singular or plural; without words,
    boxes of all labels are returned. A box is kept if its score, a probability, is above
    `threshold`. At most `most` boxes are returned, highest score first.
    """

    model: str = "Roboflow/rf-detr-base"
    threshold: float = 0.5
    most: int = 100

    model_class = "AutoModelForObjectDetection"
    half_is_safe = False
    ranges = ("threshold >= 0", "threshold < 1")

    def check_words(self, words: Words) -> Words:
        """Return the words unchanged. Raises NoEvidence for one that is not a label of the
        network."""
        self._select_labels(words)
        return words

    def open_processor(self) -> Any:
        """Open the processor that fits the network, even if its files name another one. Raises
        WeightsError."""
        config = load_from_hub("AutoConfig", self.model, self.revision)
        if getattr(config, "model_type", None) != "rf_detr":
            return super().open_processor()
        settings = load_from_hub("RTDetrImageProcessorPil", self.model, self.revision)
        if not (settings.size.height and settings.size.width):
            raise WeightsError(
                f"{self.model}: RF-DETR needs a fixed image size, but its"
                f" preprocessor_config.json has {dict(settings.size)}; set model: to the id or"
                " folder of a release"
            )
        return _Processor(settings)

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[Boxes]:
        """Return the boxes of each image, in pixels of that image and clipped to it."""
        images = [image for image, _ in items]
        outputs = network.model(**network.make_inputs(place, images=images))
        refuse_nan(outputs.logits, self.model, place.dtype)
        detections = network.processor.post_process_object_detection(
            outputs, threshold=self.threshold, target_sizes=[image.shape[:2] for image in images]
        )
        boxes = []
        for detection, (image, words) in zip(detections, items, strict=True):
            numbers, words_by_label = detection["labels"].tolist(), self._select_labels(words)
            kept = [n for n, number in enumerate(numbers) if number in words_by_label]
            xyxy, scores = (to_array(detection[name][kept]) for name in ("boxes", "scores"))
            labels = [words_by_label[numbers[n]] for n in kept]
            boxes.append(select_boxes(xyxy.reshape(-1, 4), scores, labels, image, self.most))
        return boxes

    def _select_labels(self, words: Words) -> dict[int, str]:
        """Map the index of each requested label to its word; without words, return all labels.
        Raises NoEvidence."""
        labels = open_shared(("labels", self.model, self.revision), self._read_labels)
        if not words:
            return labels
        numbers = {label.lower(): number for number, label in labels.items()}
        chosen, unknown = dict[int, str](), list[str]()
        for word in words:
            singulars = [
                word.removesuffix(s) + end for s, end in PLURAL_ENDINGS if word.endswith(s)
            ]
            label = next((name for name in (word, *singulars) if name in numbers), None)
            if label is None:
                unknown.append(repr(word))
            else:
                chosen[numbers[label]] = word
        if unknown:
            names = ", ".join(name for name in numbers if name not in UNNAMED_LABELS)
            raise NoEvidence(
                f"{self.model} has no label {' or '.join(unknown)}; its labels are {names}"
            )
        return chosen

    def _read_labels(self) -> dict[int, str]:
        """Return the network's labels by number. Raises WeightsError if it is not a detector."""
        refuse_file(self.model)
        config = load_from_hub("AutoConfig", self.model, self.revision)
        if type(config) not in import_transformers().MODEL_FOR_OBJECT_DETECTION_MAPPING:
            raise WeightsError(
                f"{self.model} is a network of the type {config.model_type!r}, which does not"
                " detect objects; set model: to an id or folder of RF-DETR, DETR, RT-DETR, D-FINE"
                " or YOLOS"
            )
        return {int(number): str(label) for number, label in config.id2label.items()}


class _Processor:
    """A processor for RF-DETR that needs no torchvision, unlike the one in transformers; it uses
    RT-DETR's post-processing.

    The files of some releases name DETR's processor, which would smooth images and misread the
    scores.
    """

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.post_process_object_detection = settings.post_process_object_detection

    def __call__(self, images: Sequence[Pixels], return_tensors: str) -> Any:
        """Scale images to 0..1, resize them bilinearly without antialiasing, and normalize them."""
        settings, here = self.settings, Place("cpu", "float32")
        size = settings.size.height, settings.size.width
        batch = []
        for image in images:
            pixels = resize(to_batch([image], here).float() * settings.rescale_factor, size)
            batch.append(normalize(pixels, settings.image_mean, settings.image_std))
        seen = {"pixel_values": import_torch().cat(batch)}
        return import_transformers().BatchFeature(seen, tensor_type=return_tensors)


@dataclass(frozen=True)
class MaskBoxes:
    """Uses a segmenter as a detector by taking the boxes of its masks, for example to zoom in on
    the salient objects of `U2Net`.

    Requested words replace those of a `segmenter` that has words, as `SAM3` and `GroundedSAM` do.
    """

    segmenter: Segmenter

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """Return a box for each mask of an HxWx3 RGB image, with its score and label."""
        segmenter: Any = self.segmenter
        if words and hasattr(segmenter, "words"):
            segmenter = replace(segmenter, words=normalize_words(words))
        masks = look_once(segmenter, pixels)
        masks = masks[masks.masks.any((1, 2))]
        xyxy = [mask_bounds(mask) for mask in masks.masks]
        return Boxes(np.reshape(xyxy, (-1, 4)), masks.scores, masks.labels)
