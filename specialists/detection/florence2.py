"""Florence-2: boxes of things, of phrases or of lines of text, which a small language model writes
down."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place
from looktwice.specialists.detection.network_boxes import asked_words, lines_with, surest_boxes
from looktwice.specialists.networks.transformers_hub import HubModel, HubNetwork
from looktwice.specialists.protocols import NoEvidence
from looktwice.specialists.results import Boxes

Item = tuple[Pixels, tuple[str, ...]]


class _Asked(NamedTuple):
    """One thing that the network is asked: its task, the words behind it, and the label of what is
    found, if known."""

    task: str
    words: str = ""
    label: str = ""


@dataclass(frozen=True)
class Florence2(HubNetwork[Item, Boxes]):
    """Boxes that Florence-2 (Xiao et al., CVPR 2024) writes down as words and places.

    `task` "things" looks for each word by itself, and without words for all that it sees; "phrases"
    looks for words together, as for those of one caption; "text" reads lines, whose labels are what
    they say: with words, the lines that hold one, labelled with it. A word for a thing that is not
    there is mostly given a box too. It says how sure it is of nothing, so that every score is 1.
    `beams` texts are tried at a time, of up to `longest` tokens; at most `most` boxes are given.
    """

    model: str = "florence-community/Florence-2-base"
    task: Literal["things", "phrases", "text"] = "things"
    beams: int = 3
    longest: int = 1024
    most: int = 100

    result = Boxes
    model_class = "Florence2ForConditionalGeneration"
    processor_class = "AutoProcessor"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beams < 1 or self.longest < 1:
            raise ValueError(
                f"beams and longest are 1 or more, found {self.beams} and {self.longest}"
            )

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """Boxes in an HxWx3 RGB image. Raises NoEvidence for phrases without words,
        WeightsError."""
        return self.finish((pixels, words), self.predict((pixels, words)))

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """The image and its words, which text is read without; a text is one word."""
        pixels, words = super().prepare(given[:1])[0], asked_words((*given, None)[1])
        if self.task == "phrases" and not words:
            raise NoEvidence("Florence2 looks for phrases, and none was given")
        return pixels, words if self.task != "text" else ()

    def finish(self, given: tuple[Any, ...], result: Boxes) -> Boxes:
        """What was found; of text, the lines that hold a word."""
        words = (*given, None)[1]
        return result if self.task != "text" or words is None else lines_with(result, words)

    def batch_key(self, item: Item) -> Hashable:
        """Images of all sizes go together, for the network looks at squares, where as much is asked
        of them."""
        return self._asked(item[1])

    def forward(self, network: HubModel, place: Place, items: Sequence[Item]) -> list[Boxes]:
        """The boxes of each image, in its own pixels, clipped to it."""
        asked = self._asked(items[0][1])
        replies = [
            self._write(network, place, [image for image, _ in items], question)
            for question in asked
        ]
        return [
            self._boxes(
                [(question, answers[n]) for question, answers in zip(asked, replies, strict=True)],
                image,
            )
            for n, (image, _) in enumerate(items)
        ]

    def _asked(self, words: tuple[str, ...]) -> tuple[_Asked, ...]:
        if self.task == "text":
            return (_Asked("<OCR_WITH_REGION>"),)
        if self.task == "phrases":
            return (_Asked("<CAPTION_TO_PHRASE_GROUNDING>", ", ".join(words)),)
        return tuple(_Asked("<OPEN_VOCABULARY_DETECTION>", word, word) for word in words) or (
            _Asked("<OD>"),
        )

    def _write(
        self, network: HubModel, place: Place, images: Sequence[Pixels], asked: _Asked
    ) -> list[Any]:
        """What the network writes about each image, as its own processor reads it."""
        processor = network.processor
        inputs = network.inputs(
            place, images=list(images), text=[asked.task + asked.words] * len(images)
        )
        written = network.model.generate(
            **inputs, max_new_tokens=self.longest, num_beams=self.beams, do_sample=False
        )
        texts = processor.batch_decode(written, skip_special_tokens=False)
        return [
            processor.post_process_generation(text, task=asked.task, image_size=image.shape[1::-1])[
                asked.task
            ]
            for text, image in zip(texts, images, strict=True)
        ]

    def _boxes(self, answers: Sequence[tuple[_Asked, Any]], image: Pixels) -> Boxes:
        edges, labels = list[Any](), list[str]()
        for asked, answer in answers:
            if "quad_boxes" in answer:
                quads = np.reshape(answer["quad_boxes"], (-1, 4, 2))
                edges += np.hstack((quads.min(1), quads.max(1))).tolist()
            else:
                edges += answer["bboxes"]
            names = answer.get("labels", answer.get("bboxes_labels"))
            labels += [asked.label or name for name in names]
        return surest_boxes(
            np.reshape(edges, (-1, 4)), np.ones(len(edges)), labels, image, self.most
        )
