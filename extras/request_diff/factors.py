"""Differences between two sides' requests, factor by factor: pictures, words, choices and settings,
with the number of pairs that differ and the values on either side."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import groupby, product, starmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from looktwice.extras.request_diff.looks import get_appearance, measure_level_distance
from looktwice.extras.request_diff.requests import Pairing, Request, Requests, pair_requests
from looktwice.pipelines.picture import Picture, measure_hash_distance
from looktwice.prompting.wording.read_choices import ListedChoices, find_choices

ValuePair = tuple[str, str]
MAX_CODEC_DIFFERENCE, MAX_SHRINKING_DIFFERENCE = 40, 70
"""The largest difference between two thumbnails, in levels from 0 to 255, that another codec can
cause: the first if the pictures' heights differ by at most a factor of 2, otherwise the second."""
FACTORS = (
    "codec",
    "size",
    "number of pictures",
    "order of pictures",
    "what pictures show",
    "place of pictures",
    "system words",
    "earlier turns",
    "template",
    "form of the choices",
    "order of the choices",
    "texts of the choices",
    "model",
    "temperature",
    "max_tokens",
)
"""The factors that are always compared, including the most common settings."""
CHOICES_PLACEHOLDER, NOT_SET, NO_VALUE = "<choices>", "not set", "none"


class Example(NamedTuple):
    """The two values of a factor in one pair of requests."""

    sample: str
    partner: str
    value: str
    other: str


@dataclass(frozen=True)
class Difference:
    """A factor in which requests differ: `examples` holds the pairs that differ, `pair_count` is
    the number of all pairs."""

    factor: str
    examples: tuple[Example, ...]
    pair_count: int

    @property
    def most_frequent(self) -> tuple[ValuePair, int]:
        """The most frequent pair of values, and its number of examples."""
        return Counter((e.value, e.other) for e in self.examples).most_common(1)[0]


@dataclass(frozen=True)
class RequestComparison:
    """The requests of two sides, the pairs that ask the same question, and their differences."""

    base: Requests
    rival: Requests
    pairing: Pairing

    @property
    def unpaired_samples(self) -> Iterator[tuple[Requests, Requests, list[tuple[str, str]]]]:
        """For each side: the side, the other side, and the side's samples without a partner, each
        with the reason."""
        base, rival, (_, own, others) = self.base, self.rival, self.pairing
        for side, other, indices in ((base, rival, own), (rival, base, others)):
            yield side, other, [(side.requests[index].sample, why) for index, why in indices]

    @cached_property
    def factors(self) -> list[dict[str, ValuePair]]:
        """For each pair, the factors in which it differs, with their values on both sides."""
        mine, theirs = self.base.requests, self.rival.requests
        return [
            {name: v for name, v in _list_factors(mine[row], theirs[column]) if v[0] != v[1]}
            for row, column in self.pairing.pairs
        ]

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The factors that differ in any pair, most frequent first."""
        examples = defaultdict[str, list[Example]](list)
        for (row, column), factors in zip(self.pairing.pairs, self.factors, strict=True):
            names = self.base.requests[row].sample, self.rival.requests[column].sample
            for factor, values in factors.items():
                examples[factor].append(Example(*names, *values))
        order = sorted(examples, key=lambda factor: -len(examples[factor]))
        return tuple(Difference(f, tuple(examples[f]), len(self.factors)) for f in order)

    @cached_property
    def changed_words(self) -> list[tuple[ValuePair, int]]:
        """The replaced, added and removed words: for each change the words on both sides and the
        number of pairs in which it occurs, most frequent first.

        Changes in nearly all pairs belong to the template.
        """
        counts = Counter[ValuePair]()
        for row, column in self.pairing.pairs:
            sides = self.base.requests[row], self.rival.requests[column]
            words = [Prompt.from_request(request).words for request in sides]
            counts.update([*dict.fromkeys(find_changed_words(*words))])
        return counts.most_common()


def compare_requests(base: Requests, rival: Requests) -> RequestComparison:
    """Pair the requests of two sides and compare them."""
    is_one_run = base.path == rival.path != Path()
    return RequestComparison(base, rival, pair_requests(base.requests, rival.requests, is_one_run))


def _list_factors(mine: Request, theirs: Request) -> Iterator[tuple[str, ValuePair]]:
    """Yield each factor with its values in two requests that ask the same question."""
    yield from _list_picture_factors(mine.pictures, theirs.pictures)
    first, second = Prompt.from_request(mine), Prompt.from_request(theirs)
    for factor in ("place of pictures", "system words", "earlier turns"):
        name = factor.replace(" ", "_")
        yield factor, (getattr(first, name), getattr(second, name))
    yield "form of the choices", (first.form, second.form)
    if first.choice_list and second.choice_list:
        texts = first.choice_list.texts, second.choice_list.texts
        same = sorted(texts[0]) == sorted(texts[1])
        name = "order of the choices" if same else "texts of the choices"
        yield name, (" | ".join(texts[0]), " | ".join(texts[1]))
    changed = find_changed_words(first.words, second.words)
    if changed:
        old, new = map(" … ".join, zip(*changed, strict=True))
        yield "template", (old, new)
    elif not first.choice_list:
        yield "white space", (repr(first.text), repr(second.text))
    yield "calls of the sample", (str(mine.call_count), str(theirs.call_count))
    for name in sorted({*mine.settings, *theirs.settings}):
        yield name, (str(mine.settings.get(name, NOT_SET)), str(theirs.settings.get(name, NOT_SET)))


@dataclass(frozen=True)
class Prompt:
    """The parts of a request's text. `text` is the user's last turn, and `choice_list` the choices
    in it."""

    text: str
    choice_list: ListedChoices | None
    system_words: str
    earlier_turns: str
    place_of_pictures: str

    @classmethod
    def from_request(cls, request: Request) -> Prompt:
        """Split the text of a request into its parts."""
        asked = request.last_user_turn
        text = "\n".join(part.strip("\n") for part in asked.parts if isinstance(part, str))
        system, earlier = list[str](), list[str]()
        for message in request.messages:
            if message.role == "system":
                system.append(message.text)
            elif message is not asked:
                earlier.append(f"{message.role}: {message.text}")
        runs = groupby(asked.parts, lambda part: "words" if isinstance(part, str) else "picture")
        return cls(
            text,
            find_choices(text),
            "\n".join(system) or NO_VALUE,
            "\n".join(earlier) or NO_VALUE,
            ", ".join(kind for kind, _ in runs) or NO_VALUE,
        )

    @property
    def words(self) -> list[str]:
        """The words of the user's turn, with a placeholder for the list of choices.

        References to choices ("A", "(A)", "A.") are written in one style, so that styles compare
        as equal.
        """
        if self.choice_list is None:
            return self.text.split()
        before, after = self.restyle("<A>")
        return [*before.split(), CHOICES_PLACEHOLDER, *after.split()]

    def restyle(self, style: str) -> tuple[str, str]:
        """Return the texts before and after the list of choices, with references to choices
        rewritten in another `style`, such as "A."."""
        if self.choice_list is None:
            return self.text, ""
        label = rf"(?<!\w){re.escape(self.choice_list.style).replace('A', '([A-Z])')}"
        # "A." can also end a sentence, so only several in a row count as references
        several = rf"{label}(?:(?:[\s,/]|or|and)+{label})+"
        named = label if self.choice_list.style[0] != "A" else several
        letter = style.replace("A", r"\1")
        before, after = (
            re.sub(named, lambda run: re.sub(label, letter, run[0]), words)
            for words in (self.text[: self.choice_list.start], self.text[self.choice_list.end :])
        )
        return before, after

    @cached_property
    def choice_prefixes(self) -> ValuePair:
        """The texts that precede the first and the second choice, such as "(A) " and "\\n(B) "."""
        if self.choice_list is None:
            return "", ""
        block = self.text[self.choice_list.start : self.choice_list.end]
        pieces = list[str]()
        for letter, choice in zip("AB", self.choice_list.texts, strict=False):
            label = re.escape(self.choice_list.style.replace("A", letter))
            pieces.append(rf"(.*?{label}\s*){re.escape(choice)}")
        listed = re.match("".join(pieces), block, re.S)
        return (listed[1], listed[2]) if listed else (self.choice_list.style, "")

    @property
    def form(self) -> str:
        """The form of the choices, such as "(A) …⏎(B) …"."""
        if self.choice_list is None:
            return "not listed"
        return "".join(f"{unit}…" for unit in self.choice_prefixes).replace("\n", "⏎")


def find_changed_words(mine: Sequence[str], theirs: Sequence[str]) -> list[ValuePair]:
    """Return the differences between two texts; each difference is a pair of the words in the first
    text and the words that replace them in the second."""
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    return [
        (" ".join(mine[start:end]), " ".join(theirs[first:last]))
        for kind, start, end, first, last in matcher.get_opcodes()
        if kind != "equal"
    ]


def find_picture_partners(mine: Sequence[Picture], theirs: Sequence[Picture]) -> dict[int, int]:
    """Match the pictures of two requests by content: map the number of each picture to the number
    of its counterpart."""
    pairs = product(map(get_appearance, mine), map(get_appearance, theirs))
    distances = np.array(
        [
            measure_hash_distance(a.hash, b.hash) + measure_level_distance(a, b) / 16
            for a, b in pairs
        ]
    )
    rows, columns = linear_sum_assignment(distances.reshape(len(mine), len(theirs)))
    return dict(zip(rows.tolist(), columns.tolist(), strict=True))


def _list_picture_factors(
    mine: Sequence[Picture], theirs: Sequence[Picture]
) -> Iterator[tuple[str, ValuePair]]:
    yield "number of pictures", (str(len(mine)), str(len(theirs)))
    if not (mine and theirs):
        return
    partners = find_picture_partners(mine, theirs)
    rows, columns = list(partners), list(partners.values())
    if columns != sorted(columns):
        left, right = (", ".join(str(index + 1) for index in order) for order in (rows, columns))
        yield "order of pictures", (left, right)
    pairs = [
        (get_appearance(mine[row]), get_appearance(theirs[column]))
        for row, column in partners.items()
    ]
    for factor in ("codec", "size"):
        values = dict.fromkeys((getattr(a, factor), getattr(b, factor)) for a, b in pairs)
        if differing := [*filter(lambda sides: sides[0] != sides[1], values)]:
            left, right = map(", ".join, zip(*differing, strict=True))
            yield factor, (left, right)
    difference, limit = max(starmap(measure_level_distance, pairs)), MAX_CODEC_DIFFERENCE
    for mine_seen, theirs_seen in pairs:
        if mine_seen.hash and theirs_seen.hash:
            low, high = sorted(look.picture.size[1] for look in (mine_seen, theirs_seen))
            limit = MAX_SHRINKING_DIFFERENCE if 2 * low < high else limit
    # views that no lossy codec has changed
    exact = [(a, b) for a, b in pairs if a.size == b.size and a.is_lossless and b.is_lossless]
    if difference > limit or any(a.pixel_digest != b.pixel_digest for a, b in exact):
        yield "what pictures show", ("as here", f"up to {difference:.0f} of 255 levels apart")
