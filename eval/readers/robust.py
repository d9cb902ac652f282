"""The reader `Robust`: our own rules for free text, which find the choice that a reply claims in
any wording.

How a reply to a question with choices is read, and where to add a rule for each step:

1. `clean`: thoughts, markup and echoes of the question are removed (add a tag, token or markup
   there);
2. `clean`: the decisive words of a reply in another language become English (add a language as a
   table there); if choices are numbers, `numerals` writes counts in digits;
3. `mentions`: each place that names a choice becomes a tag, ⟦B⟧ (add a way to name one; its words
   are in `vocabulary`);
4. `claims`: each sentence is searched for claims about tagged choices, by the wordings in `phrases`
   ("I would go with ⟦B⟧") and by the words that describe the answer of a subtask in `vocabulary`
   ("⟦B⟧ is closer");
5. `prose`: rules for the whole reply (lists, ticks, choices on their own lines), and which claim
   decides; `asides` finds second choices, which do not count, and corrections.

This module has the class, and reads replies that consist of a bare choice, as most do.

`open_answers` reads replies to open questions. Every rule has a line in the tables of
`tests/eval/readers`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import ClassVar, Literal, NamedTuple

from looktwice.eval.readers.clean import clean_text, strip_echo, translate_to_english
from looktwice.eval.readers.mentions import (
    CHOICE_LIST_PATTERN,
    ONLY_CHOICES_PATTERN,
    filter_nameable,
    find_tagged_letters,
    get_tagger,
)
from looktwice.eval.readers.reader import Reading, TextReader, get_choice_texts, get_subtask
from looktwice.eval.readers.vocabulary import (
    Texts,
    begins_without_number,
    has_answer_words,
    pattern,
)
from looktwice.pipelines.sample import Sample

Kind = Literal["auto", "choice", "yes_no", "true_false", "integer", "letters", "text"]


@dataclass(frozen=True)
class Robust(TextReader):
    """looktwice's own rules for free text: finds the choice that a reply claims, in any wording.

    Questions with choices are read with the choices' texts and the words of the subtask
    (`meta["subtask"]`), in this order: a reply that is a bare choice; "MY_ANSWER: X"; what is
    declared last ("the answer is X", "I choose X", a choice on its own line); the choice that the
    reply begins with; plain sentences in the subtask's words ("X is closer"), if they agree; such
    words in the reasoning ("the head beside X looks closer"); a conclusion that names one choice;
    weaker descriptions; the only choice that is named; the only one that is not ruled out. Several
    choices at once, none of them, letters beyond the choices, questions, conditions and refusals
    are not answers and give a reason. A statement may also answer yes or no. A correction ("Oops, I
    misread: ...") replaces the claims before it, and second choices ("Second choice: A") do not
    count next to a first one.

    Open questions are read as a number, yes or no, letters or a text: `kind` "auto" infers this
    from the question. A text answer is the last one that the reply declares ("Answer: red"),
    otherwise the whole reply. The contents of <think> and similar tags are not an answer.
    """

    kind: Kind = "auto"
    version: ClassVar[int] = 7

    def read_text(self, reply: str, sample: Sample) -> Reading:
        subtask = get_subtask(sample)
        if self.kind in ("auto", "choice") and sample.choices:
            return read_choice(reply, get_choice_texts(sample), subtask, sample.question)
        if self.kind == "choice":
            return Reading(None, "unread: the sample has no choices")
        from looktwice.eval.readers.prose import read_without_choices

        return read_without_choices(reply, self.kind, sample.question, subtask)


_BARE_LETTER_PATTERN = pattern(r"[\W_]*([a-z])[\W_]*")
_ASKS_FOR_WRONG_PATTERN = pattern(
    r"\b(?:wrong|incorrect|false|invalid|mistaken|bad|poor|unlikely|not|distractors?)\b|n't\b"
)


def read_choice(
    reply: str, choices: Sequence[str], subtask: str = "", question: str = ""
) -> Reading:
    """Read the letter of the choice that a reply gives, as `Robust` describes; a choice without
    text is "" in `choices`."""
    text = _clean_text(reply)
    if not text:
        return Reading.for_empty_reply(reply)
    own = tuple(choices)
    text, texts = translate_to_english(text, own)
    asked = _describe_question(own, texts, subtask, question)
    if asked.has_numbers:
        from looktwice.eval.readers.numerals import count_list_items, normalize_counts

        listed = count_list_items(text) if asked.asks_for_count else 0
        text = str(listed) if listed else normalize_counts(text, question)
    named = filter_nameable(asked.texts, text)
    return _read_choice(text, named, asked.subtask, asked.question, asked.asks_for_wrong_choice)


class _Question(NamedTuple):
    """The parts of a question with choices that affect how replies are read: `texts` holds the
    choices' texts, with numbers in digits if `has_numbers` is true; `question` is None if its text
    has no effect."""

    texts: Texts
    subtask: str
    question: str | None
    has_numbers: bool
    asks_for_count: bool
    asks_for_wrong_choice: bool


@lru_cache(maxsize=8192)  # a question gets many replies
def _describe_question(own: Texts, texts: Texts, subtask: str, question: str) -> _Question:
    """Describe a question whose choices have the texts `own`, which `texts` holds in English."""
    yes_no = [choice.casefold() for choice in own] == ["yes", "no"]
    counts, has_numbers, asks_for_count = subtask == "Counting" or not texts, False, False
    if not all(map(begins_without_number, texts)):
        from looktwice.eval.readers.numerals import parse_whole_number, write_in_digits

        digits = tuple(map(parse_whole_number, texts))
        counts, has_numbers = counts or all(digits), any(digits)
    if has_numbers:
        from looktwice.eval.readers.open_answers import get_question_kind

        texts = tuple(map(write_in_digits, texts))
        asks_for_count = counts and get_question_kind(question, subtask) == "integer"
        if asks_for_count and not has_answer_words(subtask):
            subtask = "Counting"
    asked = question if yes_no or counts else None
    wrong = _ASKS_FOR_WRONG_PATTERN.search(question) is not None
    return _Question(texts, subtask, asked, has_numbers, asks_for_count, wrong)


_clean_text = lru_cache(maxsize=8192)(clean_text)  # models repeat the same reply


_LOWERCASE_LABEL_PATTERN = re.compile(r"(?<!\w)\(?([a-h])\)")


def _capitalize_label(text: str) -> str:
    """Capitalize the lowercase label of a choice at the beginning of a reply ("b) the ball").
    Several such labels are a list and stay unchanged."""
    found = [*islice(_LOWERCASE_LABEL_PATTERN.finditer(text), 2)]
    if len(found) != 1 or found[0].start() or found[0].end() == len(text):
        return text
    (first,) = found
    return text[: first.start(1)] + first[1].upper() + text[first.end(1) :]


@lru_cache(maxsize=8192)
def _read_choice(
    text: str, choices: Texts, subtask: str, question: str | None, asks_for_wrong_choice: bool
) -> Reading:
    """Read the choice in a cleaned reply. `choices` and `question` are passed only if they affect
    reading, so that the cache reads equal replies once."""
    tagger = get_tagger(choices)
    letters = tagger.letters
    text = _capitalize_label(strip_echo(text, choices))
    tagged = tagger(text)
    mentioned = set(find_tagged_letters(tagged))
    if not text or (len(mentioned) > 1 and CHOICE_LIST_PATTERN.fullmatch(tagged)):
        return Reading.from_letter("", letters)
    if len(mentioned) == 1 and ONLY_CHOICES_PATTERN.fullmatch(tagged):
        return Reading.from_letter(mentioned.pop(), letters)
    if bare := _BARE_LETTER_PATTERN.fullmatch(text):
        return Reading.from_letter(bare[1].upper(), letters)
    from looktwice.eval.readers.prose import (  # most replies are a letter alone
        AskedQuestion,
        read_prose,
    )

    return read_prose(
        text, tagged, AskedQuestion(letters, choices, subtask, question, asks_for_wrong_choice)
    )
