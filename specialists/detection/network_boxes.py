"""What detectors of Hugging Face transformers share: the words they are asked for, and boxes from what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.results import Boxes


def asked_words(words: Sequence[str] | None) -> tuple[str, ...]:
    """The words of a call in small letters, without full stops; a text is one word."""
    every = (words,) if isinstance(words, str) else words or ()
    return tuple(word.strip().lower().rstrip(".") for word in every if word.strip(" ."))


def to_numbers(values: Any) -> NDArray[np.float64]:
    """An array, or a tensor of any precision and place, as an array."""
    return np.asarray(values if isinstance(values, np.ndarray) else values.float().cpu().numpy(), np.float64)


def surest_boxes(xyxy: Any, scores: Any, labels: Sequence[str], image: Pixels, most: int) -> Boxes:
    """The boxes (n, 4) in the image's pixels with scores (n,), clipped to it, the surest `most` first."""
    sure, (height, width) = to_numbers(scores), image.shape[:2]
    edges = to_numbers(xyxy).reshape(-1, 4).clip(0, [width, height, width, height])
    order = np.argsort(-sure, kind="stable")
    kept = order[((edges[:, 2:] - edges[:, :2]) > 0).all(1)[order]][:most]
    return Boxes(edges[kept], sure[kept], np.array(labels, str)[kept])


def lines_with(lines: Boxes, words: Sequence[str]) -> Boxes:
    """The lines of text that hold one of the words, labelled with it, ignoring case; a text is one word."""
    words = (words,) if isinstance(words, str) else words
    kept = [(k, word) for word in words for k, text in enumerate(lines.labels) if word.lower() in text.lower()]
    chosen = lines[[k for k, _ in kept]] if kept else lines[:0]
    return Boxes(chosen.xyxy, chosen.scores, np.array([word for _, word in kept], str))
