"""Answers from a score for each image: the image most like the first, and the one most likely to be
real."""

from __future__ import annotations

from dataclasses import dataclass

from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, best_choice, images_by_letter
from looktwice.specialists.networks.image_size import require_colors
from looktwice.specialists.protocols import GeneratedImageDetector, ImageSimilarity, NoEvidence
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class MostReal(AnswerRule):
    """Answers with the choice whose image is least likely to be generated, as in BLINK's forensic
    detection.

    Confidence is the difference of the two lowest probabilities. Abstains where images and choices
    do not pair up, where `detector` cannot process one of them, and at a tie.
    """

    detector: GeneratedImageDetector

    def decide(self, sample: Sample) -> tuple[str, float]:
        images = images_by_letter(sample)
        real = {letter: -look_once(self.detector, image.pixels) for letter, image in images.items()}
        return best_choice(real, "the scores of")


@dataclass(frozen=True)
class MostSimilar(AnswerRule):
    """Answers with the choice whose image is most similar to the first, as in BLINK's visual
    similarity and art style.

    `similarity` says in what: `specialists.features.GlobalSimilarity` in what they show,
    `GramSimilarity` in style. Confidence is the lead over the next image, at most 1. Abstains where
    images and choices do not pair up, where one is single-coloured, where `similarity` cannot
    process one, and at a tie.
    """

    similarity: ImageSimilarity

    def decide(self, sample: Sample) -> tuple[str, float]:
        candidates = images_by_letter(sample)
        if not sample.images:
            raise NoEvidence("there is no image that the choices could be compared with")
        if any(image is sample.images[0] for image in candidates.values()):
            raise NoEvidence(
                "the first image is one of the candidates, so there is nothing to compare them with"
            )
        first = sample.images[0].pixels
        for image in (sample.images[0], *candidates.values()):
            require_colors(image.pixels)
        alike = {
            letter: look_once(self.similarity, first, image.pixels)
            for letter, image in candidates.items()
        }
        return best_choice(alike, "the likenesses of")
