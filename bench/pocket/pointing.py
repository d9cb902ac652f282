"""Attention targets for the words of a question, which are used during training only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.pocket.network import SINKS
from looktwice.eval.tasks.marked_scenes.kinds import Question
from looktwice.eval.tasks.marked_scenes.scene import COLORS, SHAPES
from looktwice.pipelines.models.pocket.network import TOKEN_IDS

POINTING, COUNTING = 0, 1
"""Heads trained to attend to the thing asked about, and to the middle of everything counted."""
# attention to the sinks in the counting head, relative to 1 per thing: more things leave less of it
ON_SINKS = 2.0
FORMS = (*SHAPES, "tile")
NAMED = re.compile(rf"Where is the ({'|'.join(COLORS)}) ({'|'.join(FORMS)})\?")
COUNTED = re.compile(rf"How many (?:({'|'.join(COLORS)}) )?(\w+) are")
NAMES = {(TOKEN_IDS[color], TOKEN_IDS[form]): (color, form) for color in COLORS for form in FORMS}
Shares = NDArray[np.float32]


@dataclass(frozen=True)
class Pointer:
    """A token, by its index in the text, whose `head` should attend to places and sinks with these
    `shares`, which sum to 1.

    The first token of the reply follows the text directly.
    """

    token: int
    head: int
    shares: Shares


def list_pointers(
    words: Sequence[int], question: Question, views: NDArray[np.uint8]
) -> Iterator[Pointer]:
    """Yield the attention targets of a text's tokens, in views whose places have these classes
    (views, CELLS, CELLS, parts)."""
    if "two marked things" in question.text:
        for mark, letter in ((2, "A"), (3, "B")):
            yield Pointer(words.index(TOKEN_IDS[letter]), POINTING, _at(views[..., 3] == mark))
    elif "marked" in question.text:
        word = next(
            number for number in (TOKEN_IDS["marked"], TOKEN_IDS["mark"]) if number in words
        )
        yield from _with_reply(words, word, POINTING, _at(views[..., 3] == 1))
    elif found := NAMED.search(question.text):
        yield from _with_reply(
            words, TOKEN_IDS[found[2]], POINTING, _at(_named(views, found[1], found[2]))
        )
    elif found := COUNTED.match(question.text):
        form = next((form for form in FORMS if found[2].startswith(form)), "")
        middles = _named(views, found[1] or "", form) & (views[..., 5] == 1)
        yield from _with_reply(words, TOKEN_IDS[found[2]], COUNTING, _at(middles, ON_SINKS))
    else:
        for token, pair in enumerate(pairwise(words), 1):
            if pair in NAMES:
                yield Pointer(token, POINTING, _at(_named(views, *NAMES[pair])))


def _with_reply(words: Sequence[int], word: int, head: int, shares: Shares) -> Iterator[Pointer]:
    for token in (words.index(word), len(words)):
        yield Pointer(token, head, shares)


def _named(views: NDArray[np.uint8], color: str, form: str) -> NDArray[np.bool_]:
    right: NDArray[np.bool_] = views[..., 0] > 0
    if form:
        right = right & (views[..., 0] == FORMS.index(form) + 1)
    return right & (views[..., 1] == list(COLORS).index(color) + 1) if color else right


def _at(places: NDArray[np.bool_], on_sinks: float = 0.0) -> Shares:
    """Return equal shares for these places; the sinks together get `on_sinks` times one of them, or
    everything if there is no place."""
    weights = np.concatenate(
        [places.ravel().astype(np.float32), np.full(SINKS, on_sinks / SINKS, np.float32)]
    )
    if not weights.any():
        weights[-SINKS:] = 1
    return np.asarray(weights / weights.sum(), np.float32)
