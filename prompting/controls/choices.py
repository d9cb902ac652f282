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
from looktwice.pipelines.state import State, WithoutModel

Order = Literal["shuffled", "rotated", "reversed"]


@dataclass(frozen=True)
class PermuteChoices(WithoutModel):
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

    order: Order = "shuffled"
    by: int = 1

    def __call__(self, state: State, model: Model) -> State:
        """The state with its choices permuted. Raises ValueError, see the class, and where it comes
        too late."""
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
        if texts and _all_in(texts, state.prompt) and not _all_in(texts, sample.question):
            raise ValueError(
                f"sample {sample.id}: the choices are worded already; put this stage before"
                " that one"
            )
        numbers = _permutation(state, self.order, self.by, len(sample.choices))
        letters = {
            shown: sample.letters[number]
            for shown, number in zip(sample.letters, numbers, strict=True)
        }
        meta = {key: value for key, value in sample.meta.items() if key != "prompt"}
        asked = replace(
            sample, choices=tuple(sample.choices[number] for number in numbers), meta=meta
        )
        return state.replace(sample=asked, letters=_compose(letters, state.letters))


@dataclass(frozen=True)
class PermuteLabels(WithoutModel):
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

    order: Order = "shuffled"
    by: int = 1

    def __call__(self, state: State, model: Model) -> State:
        """The state with its marks relabelled."""
        sample = state.sample
        _check_position(state)
        named = self._named(state)
        labels = sorted(named)
        numbers = _permutation(state, self.order, self.by, len(labels))
        new = {labels[number]: label for label, number in zip(labels, numbers, strict=True)}
        marks = tuple(replace(mark, label=new.get(mark.label, mark.label)) for mark in sample.marks)
        letters = {letter: letter for letter in sample.letters} | {
            named[new[old]]: named[old] for old in labels
        }
        return state.replace(
            sample=replace(sample, marks=marks), letters=_compose(letters, state.letters)
        )

    def _named(self, state: State) -> dict[str, str]:
        """The letter of the choice that names each label. Raises ValueError where a permutation
        would not be sound."""
        sample, mark_labels = (
            state.sample,
            sorted({mark.label for mark in state.sample.marks if mark.label}),
        )
        named: dict[str, str] = {}
        for letter, choice in zip(sample.letters, sample.choices, strict=True):
            labels = _find_labels(mark_labels, choice) if isinstance(choice, str) else []
            if len(labels) > 1 or named.keys() & set(labels):
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


def _permutation(state: State, order: Order, by: int, count: int) -> list[int]:
    """For each place the number of what comes there."""
    if order == "reversed":
        return list(range(count))[::-1]
    if order == "rotated":
        return [(number - by) % count for number in range(count)]
    return [int(number) for number in state.rng(f"permute {by}").permutation(count)]


def _compose(letters: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Letters as asked now to those of the task, through what an earlier stage permuted."""
    return {shown: before.get(meant, meant) for shown, meant in letters.items()}


def _find_labels(labels: Sequence[str], text: str) -> list[str]:
    return [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text)]


def _all_in(choices: Sequence[str], text: str) -> bool:
    return all(choice in text for choice in choices)
