"""Reads the choices from the prompt, for requests from programs that list them only there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from string import ascii_uppercase
from typing import Literal, NamedTuple

from looktwice.pipelines.counted import format_count
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting.evidence import MissingAction, handle_missing

HEADER_REGEX = r"(?i:\b(?:options|choices)|\u9009\u9879)[ \t]*[:\uff1a]"
# in ASCII and in full width, as in Chinese texts
LEFT_PUNCTUATION_REGEX, RIGHT_PUNCTUATION_REGEX = (
    r"[(\[\uff08\u3010]",
    r"[)\].:\uff09\u3011\uff0e\uff1a\u3001]",
)
LABEL_REGEX = (
    rf"(?P<left>{LEFT_PUNCTUATION_REGEX}?)(?P<letter>[A-Z])(?P<right>{RIGHT_PUNCTUATION_REGEX})"
)
CHOICE_LINE_PATTERN = re.compile(
    rf"^[ \t]*(?:{HEADER_REGEX}[ \t]*|[-*][ \t]+)?{LABEL_REGEX}[ \t]*(?P<text>\S.*)$", re.M
)
INLINE_CHOICE_PATTERN = re.compile(
    rf"(?:(?P<header>{HEADER_REGEX})[ \t]*|(?<!\w)){LABEL_REGEX}[ \t]*(?=\S)"
)
LIST_OPENING_PATTERN = re.compile(
    rf"(?:(?:^|\n)[ \t]*|\bThere are several )"
    rf"(?:{HEADER_REGEX}|(?i:select from the following (?:choices|options)\.?))\s*\Z"
)


PICTURES_BELOW_PATTERN = re.compile(r"(?<=[^\s>])(?:\s*<image \d+>)+\s*\Z")


class ListedChoices(NamedTuple):
    """The choices in a text, the style of the letter A, and where their list begins and ends."""

    texts: tuple[str, ...]
    style: str
    start: int
    end: int


def find_choices(text: str) -> ListedChoices | None:
    """Return the last list of choices A, B and so on in a text, or None.

    Each choice has its own line, such as "(A) x", "A. x", "A) x", "A: x" or "[A] x", or all share
    one line, as in "(A) x (B) y" or "Options: A: x, B: y".
    """
    lists = [*_find_in_lines(text), *_find_in_one_line(text)]
    return max(lists, key=lambda choices: choices.start, default=None)


def _find_in_lines(text: str) -> Iterator[ListedChoices]:
    for run in _find_label_runs(CHOICE_LINE_PATTERN.finditer(text)):
        gaps = (text[label.end() : below.start()] for label, below in pairwise(run))
        if not "".join(gaps).strip():
            yield _make_listed_choices(text, run, [label.span("text") for label in run])


def _find_in_one_line(text: str) -> Iterator[ListedChoices]:
    for line in re.finditer(r".+", text):
        for run in _find_label_runs(INLINE_CHOICE_PATTERN.finditer(text, *line.span())):
            if run[0]["left"] or run[0]["header"]:
                ends = [*(label.start() for label in run[1:]), line.end()]
                spans = [(label.end(), end) for label, end in zip(run, ends, strict=True)]
                listed = _make_listed_choices(text, run, spans)
                # an instruction such as "answer (A), (B) or (C)." is not a list
                if all(choice.strip(".") for choice in listed.texts):
                    yield listed


def _make_listed_choices(
    text: str, run: Sequence[re.Match[str]], spans: Sequence[tuple[int, int]]
) -> ListedChoices:
    """Return the choices at these positions; image placeholders after the last choice are not part
    of it."""
    texts = [text[start:end] for start, end in spans]
    texts[-1] = PICTURES_BELOW_PATTERN.sub("", texts[-1])
    end = spans[-1][0] + len(texts[-1])
    return ListedChoices(
        tuple(choice.strip(" \t\r,;") for choice in texts), _get_style(run[0]), run[0].start(), end
    )


def _find_label_runs(labels: Iterable[re.Match[str]]) -> list[list[re.Match[str]]]:
    """Return the runs of two or more consecutive labels A, B, C ... in one style."""
    runs: list[list[re.Match[str]]] = []
    latest: dict[str, list[re.Match[str]]] = {}
    for label in labels:
        style, letter = _get_style(label), label["letter"]
        if letter == "A":
            latest[style] = [label]
            runs.append(latest[style])
        elif style in latest and letter == ascii_uppercase[len(latest[style]) % 26]:
            latest[style].append(label)
    return [run for run in runs if len(run) > 1]


def _get_style(label: re.Match[str]) -> str:
    return f"{label['left']}A{label['right']}"


@dataclass(frozen=True)
class ReadChoices(WithoutModel):
    """Reads the choices from the prompt of a sample that has none, and notes how they were written.
    Use it for requests of other programs, which send only text and images.

    It reads the last list of letters from A on, one choice per line ("(A) x", "A. x", "A) x", "A:
    x") or all in one line ("(A) x (B) y", "Options: A: x, B: y"), as inspect_ai, evalscope,
    VLMEvalKit, lmms-eval and BLINK write it. `words` "keep" leaves the prompt unchanged; "drop"
    removes the list and the line that announces it, so that a later stage can list the choices in
    another way. In both cases the list is removed from the sample's question.

    If the prompt lists no choices, `missing` decides whether to "keep" the sample with a note in
    the record, "fail" it, or "abstain".
    """

    words: Literal["keep", "drop"] = "keep"
    missing: MissingAction = "keep"

    def __call__(self, state: State, model: Model) -> State:
        """Return the state whose sample has the choices that its prompt lists."""
        if state.sample.choices:
            return state
        listed = find_choices(state.prompt)
        if listed is None:
            return handle_missing(state, self.missing, ["the prompt lists no choices A, B ..."])
        before, after = state.prompt[: listed.start], state.prompt[listed.end :]
        bare = f"{LIST_OPENING_PATTERN.sub('', before).rstrip()}\n{after.lstrip()}".strip()
        sample = replace(state.sample, question=bare, choices=listed.texts)
        prompt = bare if self.words == "drop" else state.prompt
        note = (
            f"{format_count(len(listed.texts), 'choice')} read from the prompt, written"
            f" {listed.style}"
        )
        return state.replace(sample=sample, prompt=prompt).with_notes(note)
