"""Parses a sample's question, and its choices by their text rather than their order."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TypeVar

from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.specialists.rules import Checked, NoEvidence

LABEL_PATTERN = re.compile(r"(?<![\w'])[A-H](?![\w'])")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
ORDINAL_PATTERN = re.compile(rf"\b({'|'.join(ORDINALS)})\b", re.IGNORECASE)
TRUE_WORDS, FALSE_WORDS = ("yes", "true", "t"), ("no", "false", "f")
TRUE_FALSE_LETTERS_PATTERN = re.compile(r"\bT\b|\btrue\b.*\bfalse\b", re.IGNORECASE | re.DOTALL)

MarkType = TypeVar("MarkType", Point, Box)
Decision = tuple[str, float]
"""An answer (a letter if there are choices) and its confidence."""


class AnswerRule(WithoutModel, Checked, ABC):
    """A stage that answers with the result of `decide`, and abstains if that raises NoEvidence."""

    @abstractmethod
    def decide(self, sample: Sample) -> Decision:
        """Return the answer and its confidence. Raises NoEvidence."""

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its answer, or with the reason for abstaining."""
        try:
            answer, confidence = self.decide(state.sample)
        except NoEvidence as exc:
            return state.abstain(str(exc))
        return state.replace(
            answer=answer, reason="", confidence=min(1.0, max(0.0, float(confidence)))
        )


def map_letters_to_labels(sample: Sample) -> dict[str, str]:
    """Map the letters of choices to the labels of marks. The choice "B is closer" refers to mark B,
    whatever its letter; "About the same" refers to no mark.

    If the choices do not name different labels (A to H), each letter refers to the label of the
    same name.
    """
    named = {}
    for letter, text in list_choice_texts(sample).items():
        if len(labels := LABEL_PATTERN.findall(text)) == 1:
            named[letter] = labels[0]
    if len(named) > 1 and len(set(named.values())) == len(named):
        return named
    return {letter: letter for letter in sample.letters}


def map_letters_to_marks(
    sample: Sample, kind: type[MarkType], image: int = 0
) -> dict[str, MarkType]:
    """Map each choice to the point or box of one image that it refers to. Raises NoEvidence if a
    point or box is missing."""
    if len(sample.images) <= image or len(sample.letters) < 2:
        raise NoEvidence(
            f"there are {len(sample.images)} images and {len(sample.letters)} choices; {image + 1}"
            " and 2 are needed"
        )
    marks = {mark.label: mark for mark in sample.list_marks_on(image) if isinstance(mark, kind)}
    wanted = map_letters_to_labels(sample)
    missing = ", ".join(label for label in wanted.values() if label not in marks)
    if missing:
        raise NoEvidence(f"no {kind.__name__.lower()} {missing} on image {image}")
    return {letter: marks[label] for letter, label in wanted.items()}


def map_letters_to_images(sample: Sample) -> dict[str, Picture]:
    """Map each choice to its image: the choice itself if it is a picture, the image that it names
    ("the third image"), or else the images after the first, in order.

    If there are as many images as choices, they are paired in order. Raises NoEvidence if they
    cannot be paired.
    """
    pictures = [choice for choice in sample.choices if isinstance(choice, Picture)]
    if len(pictures) == len(sample.choices) > 1:
        return dict(zip(sample.letters, pictures, strict=True))
    places, count = list[int](), len(sample.choices)
    for text in list_choice_texts(sample).values():
        if len(words := ORDINAL_PATTERN.findall(text)) == 1:
            places.append(ORDINALS.index(words[0].lower()))
    if len(set(places)) < count or len(places) != count:
        behind = len(sample.images) - count
        places = [behind + number for number in range(count)] if behind in (0, 1) else []
    if len(places) < 2 or max(places) >= len(sample.images):
        raise NoEvidence(f"{len(sample.images)} images and {count} choices do not pair up")
    return dict(zip(sample.letters, [sample.images[place] for place in places], strict=True))


def get_only_pixels(sample: Sample, beginning: str) -> Pixels:
    """Return the pixels of the only image, HxWx3. Raises NoEvidence with a message that begins with
    `beginning`."""
    if len(sample.images) != 1:
        raise NoEvidence(f"{beginning}, found {len(sample.images)}")
    return sample.images[0].pixels


def find_choice(sample: Sample, pattern: str) -> str | None:
    """Return the letter of the only choice whose text matches a pattern (ignoring case); None
    unless exactly one matches."""
    texts = list_choice_texts(sample).items()
    letters = [letter for letter, text in texts if re.search(pattern, text, re.IGNORECASE)]
    return letters[0] if len(letters) == 1 else None


def choose_true_or_false(sample: Sample, holds: bool) -> str:
    """Return the choice that means yes or true if `holds`, else no or false. Raises NoEvidence if
    there is no such choice.

    Without choices, return T or F if the question mentions them, else Yes or No.
    """
    if not sample.choices:
        lettered = TRUE_FALSE_LETTERS_PATTERN.search(
            f"{sample.question}\n{sample.meta.get('prompt', '')}"
        )
        return ("T" if holds else "F") if lettered else ("Yes" if holds else "No")
    words, texts = TRUE_WORDS if holds else FALSE_WORDS, list_choice_texts(sample)
    for letter, text in texts.items():
        if text.strip(" .").lower() in words:
            return letter
    raise NoEvidence(
        f"no choice means {words[0]!r}; the choices are {', '.join(texts.values()) or 'pictures'}"
    )


def find_best_choice(scores: dict[str, float], what: str) -> Decision:
    """Return the highest-scoring letter and its lead over the next. Raises NoEvidence on a tie."""
    first, second = sorted(scores, key=lambda letter: -scores[letter])[:2]
    if scores[first] == scores[second]:
        raise NoEvidence(f"{what} {first} and {second} are equal ({scores[first]:.3g})")
    return first, scores[first] - scores[second]


def find_nearest_choice(distances: dict[str, float], what: str, rounding: float = 0) -> Decision:
    """Return the letter with the smallest distance d1, and the confidence 1 - d1 / d2, where d2 is
    the next distance. Raises NoEvidence if the two differ by at most `rounding`."""
    first, second = sorted(distances, key=lambda letter: distances[letter])[:2]
    near, far = distances[first], distances[second]
    if far - near <= rounding:
        raise NoEvidence(f"{what} {first} and {second} are equal ({near:.3g})")
    return first, float(1 - near / far)


def list_choice_texts(sample: Sample) -> dict[str, str]:
    """Return the choices that are texts, by letter."""
    choices = sample.lettered.items()
    return {letter: choice for letter, choice in choices if isinstance(choice, str)}


RELATION_TABLE = """\
left: left of, to the left of, at the left side of, on the left side of, on the left of
right: right of, to the right of, at the right side of, on the right side of, on the right of
above: above, over
on: on, on top of, atop
below: below, beneath, under, underneath
inside: inside, in, within, inside of
outside: outside, outside of
contains: contain, containing, surrounding
touching: touching, attached to, connected to
near: near, next to, beside, by, close to, alongside, adjacent to, at the side of
far: far from, far away from, away from
front: in front of, ahead of
behind: behind, at the back of
"""
RELATIONS: dict[str, list[str]] = {}
"""Relations that can be decided from two boxes (the last two also need depth), with their wordings
in Visual Spatial Reasoning."""
for line in RELATION_TABLE.splitlines():
    kind, _, wordings = line.partition(": ")
    RELATIONS[kind] = wordings.split(", ")

RELATION_BY_WORDING = {
    wording: kind for kind, wordings in RELATIONS.items() for wording in wordings
}
WORDINGS_REGEX = "|".join(sorted(map(re.escape, RELATION_BY_WORDING), key=len, reverse=True))
ARTICLE_REGEX = r"(?:the|an|a)"
RELATION_QUESTION_PATTERN = re.compile(
    rf"^(?:is|are|does|do) {ARTICLE_REGEX} (?P<one>.+?) (?P<relation>{WORDINGS_REGEX})"
    rf" {ARTICLE_REGEX} (?P<two>.+?)\s*\??$",
    re.IGNORECASE,
)
VERBS_REGEX = (
    r"(?:is|are|was|were|does|do|did|can|could|has|have|had|appears?|seen|in total|in"
    r" (?:the|this|these)\b.*)"
)
COUNTED_OBJECT_PATTERN = re.compile(
    r"how many (?:(?:different|distinct|unique|total|of"
    rf" the)\s+)*(?P<what>[^?.]+?)(?:\s+{VERBS_REGEX}\b[^?.]*)?[?.]",
    re.IGNORECASE,
)
TOTAL_COUNT_PATTERN = re.compile(
    r"count the (?:total )?number of (?P<what>[^?.,]+?)(?:\s+(?:in|that|on)\b[^?.]*)?[?.,]",
    re.IGNORECASE,
)
ENCLOSED_OBJECT_PATTERN = re.compile(
    rf"\benclos\w+\s+{ARTICLE_REGEX}\s+(?P<what>[^?]+?)\s*\?", re.IGNORECASE
)
SAMENESS_QUESTION_PATTERN = re.compile(
    r"\b(?:are|is|show|shows)(?P<first>\s+not|n't)?\s+(?:(?:of"
    r"|all)\s+)?(?:the\s+)?(?P<word>same|different)"
    r"(?:\s+(?P<what>[\w -]+?))?(?=\s*(?:[.,?!'\"\u2019\u201d]|$|\s(?:is|are|in)\b))",
    re.IGNORECASE,
)


def parse_count(sample: Sample) -> str:
    """Parse the counted object: `How many blue floats are there?` -> "blue floats", also `Count the
    number of X.` Raises NoEvidence."""
    return _find_object_name(
        sample, "how many there are of something", COUNTED_OBJECT_PATTERN, TOTAL_COUNT_PATTERN
    )


def parse_enclosed(sample: Sample) -> str:
    """Parse the enclosed object: `Which bounding box more accurately localizes and encloses the
    tank top?` -> "tank top". Raises NoEvidence."""
    return _find_object_name(sample, "what a box encloses", ENCLOSED_OBJECT_PATTERN)


def parse_relation(sample: Sample) -> tuple[str, str, str]:
    """Parse a relation of `RELATIONS`: `Is the cat on top of the bed?` -> ("cat", "on", "bed").
    Raises NoEvidence."""
    match = RELATION_QUESTION_PATTERN.match(" ".join(sample.question.split()))
    if match is None:
        raise NoEvidence(
            f"the question asks for no relation that boxes can decide: {sample.question!r}"
        )
    return (
        match["one"].lower(),
        RELATION_BY_WORDING[match["relation"].lower()],
        match["two"].lower(),
    )


def parse_sameness(sample: Sample) -> tuple[bool, str]:
    """Parse a claim of identity and its object: `The bags in these images are not the same bag.` ->
    (False, "bag").

    Raises NoEvidence if the question claims neither that objects are the same nor that they differ.
    """
    match = SAMENESS_QUESTION_PATTERN.search(sample.question)
    if match is None:
        raise NoEvidence(
            "the question claims neither that objects are the same nor that they differ:"
            f" {sample.question!r}"
        )
    same = (match["word"].lower() == "same") != bool(match["first"])
    return same, (match["what"] or "").strip().lower()


def _find_object_name(sample: Sample, what: str, *patterns: re.Pattern[str]) -> str:
    for text in (sample.question, str(sample.meta.get("prompt", ""))):
        for pattern in patterns:
            if match := pattern.search(f"{text}?"):
                return " ".join(match["what"].split())
    raise NoEvidence(f"the question does not ask {what}: {sample.question!r}")
