"""Permutes the order of the choices or the labels of the marks, and maps answers back.

A model that answers by content and not by letter is not affected. The permutation is kept in
`State.letters` and in the record (a letter as asked -> the sample's own letter), together with the
choices as asked. A reader, mid-way or at scoring, reads what was really asked; scoring then maps
the letter that it found back and compares it with the key. So no stage needs the key, and a better
reader re-reads these records as any other.
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
    """An `order`, the same for every run of one seed, sample and draw; `by` says how far, or which
    one."""

    order: Order = "shuffled"
    by: int = 1

    def numbers(self, state: State, count: int) -> list[int]:
        """Return the numbers of things in the new order: the first is the one that comes first now.
        """
        if self.order == "reversed":
            return list(range(count))[::-1]
        if self.order == "rotated":
            return [(number - self.by) % count for number in range(count)]
        shuffled: list[int] = state.rng(f"permute {self.by}").permutation(count).tolist()
        return shuffled


@dataclass(frozen=True)
class PermuteChoices(_Permutation):
    """The choices in another `order`, under the same letters; the answer is mapped back.

    `rotated` moves each choice `by` letters down (A to B), so that a sweep over `by: [0, 1, 2, 3]`
    is a circular evaluation; `shuffled` is random, the same for every run of one seed, sample and
    draw, and `by` gives another one (of two choices it leaves half the samples as they are);
    `reversed` swaps the ends. Put it before the stage that words the choices. The sample's own
    `prompt`, which lists the choices in their old order, is dropped from its fields, so that
    `prompting.wording.Verbatim` fails instead of asking it.

    Choices that name letters themselves ("Point A", "Point B") raise ValueError: under another
    letter, "C" in a reply could mean either. `PermuteLabels` is for them. "None of the above" is
    not noticed.
    """

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its choices permuted. Raises ValueError, see the class, and where
        it comes too late."""
        sample = state.sample
        _check_position(state)
        texts = [choice for choice in sample.choices if isinstance(choice, str)]
        named = {letter for choice in texts for letter in _find_labels(sample.letters, choice)}
        if len(named) > 1:  # one alone is the article of "A dog"
            raise ValueError(
                f"sample {sample.id}: the choices name the letters {', '.join(sorted(named))}"
                " themselves, so an answer could mean a choice's letter or its text; permute the"
                " labels of the marks with PermuteLabels"
            )
        worded, anyway = (all(t in p for t in texts) for p in (state.prompt, sample.question))
        if texts and worded and not anyway:
            raise ValueError(
                f"sample {sample.id}: the choices are worded already; put this stage before"
                " that one"
            )
        numbers = self.numbers(state, len(sample.choices))
        meant = [sample.letters[number] for number in numbers]
        meta = {key: value for key, value in sample.meta.items() if key != "prompt"}
        choices = tuple(sample.choices[number] for number in numbers)
        asked = replace(sample, choices=choices, meta=meta)
        return _relettered(state, asked, dict(zip(sample.letters, meant, strict=True)))


@dataclass(frozen=True)
class PermuteLabels(_Permutation):
    """The labels of the marks permuted among the marks that the choices name; the answer is mapped
    back.

    With "Point A" and "Point B" as choices, the place that was A is now called B: who answers "B"
    means the former A. Words stay as they are, so the benchmark's own prompt may be used. `order`
    and `by` as in `PermuteChoices`; `rotated` gives each place the label that is `by` further on.
    Put it before every stage that draws or says marks. It cannot change letters that are part of
    the pixels: find and erase those first.

    It is sound only where each choice names one label at most, no two the same, and the question
    names none of the permuted labels or all of them; other samples raise ValueError, as do those
    without such marks. A label is a whole word here, and an "A" alone in the question counts as the
    article.
    """

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its marks relabelled."""
        sample = state.sample
        _check_position(state)
        named = self._named(state)
        labels = sorted(named)
        numbers = self.numbers(state, len(labels))
        new = {labels[number]: label for label, number in zip(labels, numbers, strict=True)}
        marks = tuple(replace(mark, label=new.get(mark.label, mark.label)) for mark in sample.marks)
        letters = dict(zip(sample.letters, sample.letters, strict=True))
        letters |= {named[new[old]]: named[old] for old in labels}
        return _relettered(state, replace(sample, marks=marks), letters)

    def _named(self, state: State) -> dict[str, str]:
        """Return the letter of the choice that names each label. Raises ValueError where a
        permutation would not be sound."""
        sample = state.sample
        mark_labels = sorted({mark.label for mark in sample.marks if mark.label})
        named: dict[str, str] = {}
        for letter, choice in sample.lettered.items():
            labels = _find_labels(mark_labels, choice) if isinstance(choice, str) else []
            if len(labels) > 1 or not named.keys().isdisjoint(labels):
                raise ValueError(
                    f"sample {sample.id}: choice {letter} ({choice!r}) does not name one label of"
                    " its own"
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
                " other labels, so it would be another question under other labels"
            )
        return named


def _check_position(state: State) -> None:
    """Raises ValueError where there is nothing to permute, or an answer or a turn is there
    already."""
    if len(state.sample.choices) < 2:
        raise ValueError(
            f"sample {state.sample.id} has {len(state.sample.choices)} choices, so nothing can be"
            " permuted"
        )
    if state.messages or state.answer is not None:
        raise ValueError(
            f"sample {state.sample.id}: letters are permuted before the model is asked or a"
            " specialist answers; put this stage first"
        )


def _relettered(state: State, sample: Sample, letters: Mapping[str, str]) -> State:
    """Return the state with its sample as asked now, and these letters through what an earlier
    stage permuted."""
    before = state.letters
    own = {shown: before.get(meant, meant) for shown, meant in letters.items()}
    return state.replace(sample=sample, letters=own)


def _find_labels(labels: Sequence[str], text: str) -> list[str]:
    return [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text)]
