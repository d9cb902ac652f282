"""Permutes the order of the choices or the labels of the marks, and maps answers back.

The accuracy of a model that answers by content rather than by letter does not change. The
permutation is kept in `State.letters` and in the record, as a map from each letter in the permuted
question to the sample's own letter, together with the permuted choices. A reader, in the pipeline
or at scoring, works on the permuted question; scoring then maps the letter that it found back to
the original one and compares it with the correct answer. So no stage needs the correct answer, and
a better reader can re-read these records like any others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from looktwice.pipelines.model import Model
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel

Order = Literal["shuffled", "rotated", "reversed"]


@dataclass(frozen=True)
class _Permutation(WithoutModel):
    """The settings of a permutation: its `order`, and `by`, which sets the distance of a rotation
    or selects another shuffle. The permutation is the same in every run with the same seed, sample
    and draw."""

    order: Order = "shuffled"
    by: int = 1

    def draw_permutation(self, state: State, count: int) -> list[int]:
        """Return the permutation: for each new position, the number of the item that moves
        there."""
        if self.order == "reversed":
            return list(range(count))[::-1]
        if self.order == "rotated":
            return [(number - self.by) % count for number in range(count)]
        shuffled: list[int] = state.rng(f"permute {self.by}").permutation(count).tolist()
        return shuffled


@dataclass(frozen=True)
class PermuteChoices(_Permutation):
    """Puts the choices in another `order`, under the same letters; the answer is mapped back.

    `rotated` moves each choice `by` letters down (A to B), so that a sweep over `by: [0, 1, 2, 3]`
    is a circular evaluation. `shuffled` is random, but the same in every run with the same seed,
    sample and draw; `by` selects another shuffle (with two choices it leaves half the samples
    unchanged). `reversed` swaps the ends. Put it before the stage that writes the choices into the
    prompt. The sample's own `prompt`, which lists the choices in their old order, is removed from
    its fields, so that `prompting.wording.Verbatim` fails instead of asking it.

    Choices that name letters themselves ("Point A", "Point B") raise ValueError: under another
    letter, "C" in a reply could mean either. Use `PermuteLabels` for them. "None of the above" is
    not detected.
    """

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its choices permuted. Raises ValueError as the class describes, and
        if the choices are already in the prompt."""
        sample = state.sample
        _check_position(state)
        texts = [choice for choice in sample.choices if isinstance(choice, str)]
        named = {letter for choice in texts for letter in _find_labels(sample.letters, choice)}
        if len(named) > 1:  # a single A is the article, as in "A dog"
            raise ValueError(
                f"sample {sample.id}: the choices name the letters {', '.join(sorted(named))}"
                " themselves, so an answer could mean a choice's letter or its text; permute the"
                " labels of the marks with PermuteLabels"
            )
        worded, anyway = (all(t in p for t in texts) for p in (state.prompt, sample.question))
        if texts and worded and not anyway:
            raise ValueError(
                f"sample {sample.id}: the choices are already in the prompt; put this stage"
                " before the one that writes them"
            )
        numbers = self.draw_permutation(state, len(sample.choices))
        meant = [sample.letters[number] for number in numbers]
        meta = {key: value for key, value in sample.meta.items() if key != "prompt"}
        choices = tuple(sample.choices[number] for number in numbers)
        asked = replace(sample, choices=choices, meta=meta)
        return _apply_letters(state, asked, dict(zip(sample.letters, meant, strict=True)))


@dataclass(frozen=True)
class PermuteLabels(_Permutation):
    """Permutes the labels of those marks that the choices name; the answer is mapped back.

    With "Point A" and "Point B" as choices, the place that was A is now called B, so the answer "B"
    means the former A. The text stays unchanged, so the benchmark's own prompt may be used. `order`
    and `by` are those of `PermuteChoices`; `rotated` gives each place the label that is `by`
    further on. Put it before every stage that draws or names marks. It cannot change letters that
    are part of the pixels: find and erase those first.

    It is valid only if each choice names at most one label, no two choices name the same one, and
    the question names either none or all of the permuted labels. Other samples raise ValueError,
    and so do samples without such marks. A label must be a whole word, and a single "A" in the
    question counts as the article.
    """

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its marks relabelled."""
        sample = state.sample
        _check_position(state)
        named = self._map_labels(state)
        labels = sorted(named)
        numbers = self.draw_permutation(state, len(labels))
        new = {labels[number]: label for label, number in zip(labels, numbers, strict=True)}
        marks = tuple(replace(mark, label=new.get(mark.label, mark.label)) for mark in sample.marks)
        letters = dict(zip(sample.letters, sample.letters, strict=True))
        letters |= {named[new[old]]: named[old] for old in labels}
        return _apply_letters(state, replace(sample, marks=marks), letters)

    def _map_labels(self, state: State) -> dict[str, str]:
        """Map each label to the letter of the choice that names it. Raises ValueError if a
        permutation would not be valid."""
        sample = state.sample
        mark_labels = sorted({mark.label for mark in sample.marks if mark.label})
        named: dict[str, str] = {}
        for letter, choice in sample.lettered.items():
            labels = _find_labels(mark_labels, choice) if isinstance(choice, str) else []
            if len(labels) > 1 or not named.keys().isdisjoint(labels):
                raise ValueError(
                    f"sample {sample.id}: choice {letter} ({choice!r}) must name exactly one"
                    " label, which no other choice names"
                )
            named |= dict.fromkeys(labels, letter)
        if len(named) < 2:
            raise ValueError(
                f"sample {sample.id}: the choices name {len(named)} of the marks"
                f" {', '.join(mark_labels) or '(none)'}; labels are permuted among marks that"
                " different choices name"
            )
        asked = set(_find_labels(list(named), sample.question))
        if asked - {"A"} and asked != named.keys():
            raise ValueError(
                f"sample {sample.id}: the question names {', '.join(sorted(asked))} but not the"
                " other labels, so permuting the labels would change the question"
            )
        return named


def _check_position(state: State) -> None:
    """Raise ValueError if there is nothing to permute, or if the sample already has an answer or a
    turn."""
    if len(state.sample.choices) < 2:
        raise ValueError(
            f"sample {state.sample.id} has {len(state.sample.choices)} choices, so nothing can be"
            " permuted"
        )
    if state.messages or state.answer is not None:
        raise ValueError(
            f"sample {state.sample.id}: letters must be permuted before the model is asked or"
            " a specialist answers; put this stage first"
        )


def _apply_letters(state: State, sample: Sample, letters: Mapping[str, str]) -> State:
    """Return the state with the permuted sample. The letters are composed with those of an earlier
    permutation."""
    before = state.letters
    own = {shown: before.get(meant, meant) for shown, meant in letters.items()}
    return state.replace(sample=sample, letters=own)


def _find_labels(labels: Sequence[str], text: str) -> list[str]:
    return [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text)]
