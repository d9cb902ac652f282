"""Readers that follow the code of BLINK, VLMEvalKit, lmms-eval and VLM2-Bench.

Each docstring names the commit whose rules the reader follows. Where the original code would ask a
language model or draw an answer at random, the reader returns no answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar, Literal

from looktwice.eval.readers.numerals import MAX_COUNT, parse_number_words
from looktwice.eval.readers.reader import Reading, TextReader, get_choice_texts, get_subtask
from looktwice.eval.readers.vocabulary import NUMBERS, pattern
from looktwice.pipelines.sample import Sample


@dataclass(frozen=True)
class BlinkOfficial(TextReader):
    """BLINK's own token rule (`analyze_answer` of zeyofu/BLINK_Benchmark at 2d6a779, 2024-07-03,
    without its language model).

    A reply that is exactly one letter A-E, bare or in brackets, is the answer, even if there is no
    such choice. Otherwise only whitespace-separated tokens that are exactly "(A)", "(B)" ... count:
    the answer is the only one of the last paragraph, or else the only one of the whole reply. Where
    the official code would ask GPT-3.5, there is no answer (reason "unread").
    """

    part: ClassVar[Literal["answer", "turn", "reply"]] = "turn"

    def read_text(self, reply: str, sample: Sample) -> Reading:
        return Reading.from_answer(self.apply_rule(reply, len(sample.choices)))

    @staticmethod
    def apply_rule(reply: str, choices: int) -> str | None:
        """Return the letter that the rule finds in a reply to a question with this number of
        choices, or None."""
        exact = re.fullmatch(r"[A-E]|\([A-E]\)", reply)
        if exact:
            return exact[0].strip("()")
        tokens = {f"({letter})": letter for letter in ascii_uppercase[:choices]}
        last = tokens.keys() & set(reply.split("\n\n")[-1].split())
        whole = tokens.keys() & set(reply.split())
        for named in (last, whole):
            if len(named) == 1:
                return tokens[named.pop()]
        return None


_REFUSAL_PHRASES = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_FAILURE_TEXT = "Failed to obtain answer via API"
_PUNCTUATION = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_CLAIM_PATTERN = pattern(r"answer\s+is\s+\**([A-D])")  # no word end: "the answer is difficult" is D
_MAX_WORDS_FROM_END = 4  # words among which VLMEvalKit looks for the letter


@dataclass(frozen=True)
class Vlmevalkit(TextReader):
    """VLMEvalKit's rules for multiple choice (`can_infer` in `vlmeval/utils/matching_util.py`);
    where it would ask a judge or draw at random, there is no answer.

    `form` is the month of the commit that introduced the rules. "2026-06" (a67ace50, and still
    e8e78f05 of 2026-08-18) has these steps: known refusals; the only choice letter among the words,
    if it is one of the last four; the letter A to D after the first "answer is", with or without
    asterisks, even if it begins a word; the only choice whose text occurs in a reply that is at
    most twice as long as all texts together. "2025-08" (c3371551, and the package ms-vlmeval
    0.0.20) lacks "answer is". "2024-02" (98e3733f, and the package nvidia-vlmeval 26.3) also lacks
    both limits: the letter may be anywhere, and the reply may have any length.

    Two differences remain: if the environment variable VERBOSE is set, VLMEvalKit rejects an "A"
    among more than three words; and it ignores choices without text.
    """

    version: ClassVar[int] = 2
    part: ClassVar[Literal["answer", "turn", "reply"]] = "turn"
    form: Literal["2026-06", "2025-08", "2024-02"] = "2026-06"

    def read_text(self, reply: str, sample: Sample) -> Reading:
        choices = get_choice_texts(sample)
        letters = ascii_uppercase[: len(choices)]
        found = None if _FAILURE_TEXT in reply else self._find_letter(reply, letters)
        if found is None:
            found = self._find_choice_by_text(reply, dict(zip(letters, choices, strict=False)))
        return Reading.from_answer(found)

    def _find_letter(self, reply: str, letters: str) -> str | None:
        """Return the letter in the reply, or None; "" for a refusal, so that its text is not
        compared with the choices."""
        words = reply.translate(_PUNCTUATION).split()
        mentioned = [*filter(words.__contains__, letters)]
        if any(refusal in reply for refusal in _REFUSAL_PHRASES) or (
            not mentioned and "Z" in words
        ):
            return ""
        nearest = 0 if self.form == "2024-02" else len(words) - _MAX_WORDS_FROM_END
        if len(mentioned) == 1 and words.index(mentioned[0]) >= nearest:
            return mentioned[0]
        claim = _CLAIM_PATTERN.search(reply) if self.form == "2026-06" else None
        return claim[1].upper() if claim and claim[1].upper() in letters else None

    def _find_choice_by_text(self, reply: str, choices: Mapping[str, str]) -> str | None:
        """Return the only choice whose text occurs in the reply."""
        text = reply.lower()
        if self.form != "2024-02" and len(text) > 2 * sum(map(len, choices.values())):
            return None
        named = [letter for letter, words in choices.items() if words.lower() in text]
        return named[0] if len(named) == 1 else None


_FIRST_LETTER_PATTERN = pattern(r"[(\s]*([A-Z])[).\s]*")


@dataclass(frozen=True)
class LmmsEval(TextReader):
    """lmms-eval's rule for BLINK (`_extract_answer_letter` of `tasks/blink` at 75571cfe,
    2026-08-06): the first letter of the reply, whatever it is.

    "The answer is B" gives T, "answer: C" gives A.
    """

    part: ClassVar[Literal["answer", "turn", "reply"]] = "turn"

    def read_text(self, reply: str, sample: Sample) -> Reading:
        letter = _FIRST_LETTER_PATTERN.match(reply.strip())
        return Reading.from_answer(letter[1].upper() if letter else None)


_COUNTING_WORDS = [word for word in NUMBERS if word.isascii() and word.isalpha() and word != "zero"]
_NUMBER_WORDS_PATTERN = pattern(rf"\b({'|'.join((*_COUNTING_WORDS, 'hundred', 'thousand'))})\b")


@dataclass(frozen=True)
class Vlm2(TextReader):
    """VLM2-Bench's own rules, by kind of subtask.

    `form` "official" (vlm2-bench/VLM2-Bench at 7624b77, 2025-05-24) reads GC as "exact", Cpr as
    "true_false", Cnt as "count", Grp as "grouping"; a video's reply is the description or a judge's
    text ("Score: 1"), which the benchmark's scorer reads. "vlmevalkit" (VLMEvalKit at 09874c7a,
    2026-08-03) reads GC as "true_false", the rest as official; its other difference, the
    denominators, is in the metrics named `..._vlmevalkit`. Both take the subtask from
    `meta["subtask"]`, as `eval.tasks.Vlm2Bench` sets it, and raise ValueError for any other.

    "exact": exactly T or F; "T." and "True" are not answers. "true_false": the only word that is t,
    f, true or false; the t of "don't" is such a word. "count": the only number, where all number
    words are added up to one number: "2 (two)" has two numbers, "one or two" is the number 3,
    "zero" is no number; number words above a trillion are not answers. "grouping": the text before
    the first ")", so "(D)" is not D; no answer if there are several letters in brackets.
    """

    part: ClassVar[Literal["answer", "turn", "reply"]] = "turn"

    form: Literal["official", "vlmevalkit", "exact", "true_false", "count", "grouping"] = "official"

    def read_text(self, reply: str, sample: Sample) -> Reading:
        form, subtask = str(self.form), get_subtask(sample)
        if form == "vlmevalkit" and subtask.startswith("GC-"):
            form = "true_false"
        elif form in ("official", "vlmevalkit"):
            form = _ANSWER_FORMS.get(subtask.rpartition("-")[2], "")
        if not form:
            raise ValueError(
                f"{sample.id}: {subtask or 'no subtask'!r} is not a subtask of VLM2-Bench; "
                "read other tasks with eval.readers.Robust"
            )
        return Reading.from_answer(_read_reply(reply, form))


def _read_reply(reply: str, form: str) -> str:
    """Return the answer in a reply by the rules of one form, or ""."""
    text = reply.strip()
    match form:
        case "exact":
            return text if text in ("T", "F") else ""
        case "true_false":
            words = re.findall(r"\b(t|f|true|false)\b", text, re.I)
            return words[0][0].upper() if len(words) == 1 else ""
        case "count":
            # digits may be of any length
            numbers = [digits.lstrip("0") or "0" for digits in re.findall(r"\d+", text)]
            value = parse_number_words(
                [word.lower() for word in _NUMBER_WORDS_PATTERN.findall(text)]
            )
            numbers += [str(value)] if value else []
            return numbers[0] if len(numbers) == 1 and value <= MAX_COUNT else ""
        case "grouping":
            several = len(re.findall(r"\([A-Z]\)", text)) > 1
            return "" if several else text.partition(")")[0].strip()
    return text


_ANSWER_FORMS = {
    "Mat": "exact",
    "Trk": "exact",
    "Cpr": "true_false",
    "Cnt": "count",
    "Grp": "grouping",
    "VID": "whole",
}
