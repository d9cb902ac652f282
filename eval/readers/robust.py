"""The reader `Robust`: our own rules for free words, which find the choice that a reply claims,
however it says so.

How a reply to a question with choices is read, and where a rule of each step goes:

1. `clean`: thoughts, markup and echoes of the question are taken out (a new tag, token or markup
   goes there);
2. `clean`: the telling words of a reply in another language become English (a new language is a
   table there); where choices are numbers, `numerals` writes counts in digits;
3. `mentions`: each place that names a choice becomes a tag, ⟦B⟧ (a new way to name one; words in
   `vocabulary`);
4. `claims`: each sentence is searched for claims about tagged choices, by the turns of phrase in
   `phrases` ("I would go with ⟦B⟧") and by what makes a choice the answer of a subtask in
   `vocabulary` ("⟦B⟧ is closer");
5. `prose`: rules over the whole reply (lists, ticks, lines of their own), and which of the claims
   decides; `asides` finds second choices, which count for nothing, and corrections.

Here stand the class and the replies that are a choice and nothing more, which are most of them.

Open questions are read in `open_answers`. Every rule has a line in the tables of
`tests/eval/readers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from looktwice.eval.readers.clean import clean_text, in_english, strip_echo
from looktwice.eval.readers.mentions import (
    LISTED,
    ONLY_CHOICES,
    nameable,
    tagged_letters,
    tagger_of,
)
from looktwice.eval.readers.numerals import as_digits, count_listed, counted_in_digits, in_digits
from looktwice.eval.readers.reader import Reader, Reading, choice_texts, subtask_of
from looktwice.eval.readers.vocabulary import Texts, has_words, pattern
from looktwice.pipelines.state import State

Kind = Literal["auto", "choice", "yes_no", "true_false", "integer", "letters", "text"]


@dataclass(frozen=True)
class Robust(Reader):
    """Our own rules for free words: the choice that a reply claims, in whatever way it claims it.

    Questions with choices are read with their texts and the words of their subtask
    (`meta["subtask"]`), in this order: a reply that is a choice and nothing more; "MY_ANSWER: X";
    what is declared last ("the answer is X", "I choose X", a line of its own); the choice that the
    reply opens with; what plain sentences say of it in the subtask's words ("X is closer"), where
    they agree; what such words say of it in reasons ("the head beside X looks closer"); a
    conclusion that names one choice; weaker descriptions; the only choice that is named; the only
    one that is not ruled out. Several at once, none of them, letters beyond the choices, questions,
    conditions and refusals are no answer, with the reason. To yes and no, a statement may answer as
    well. A correction ("Oops, I misread: ...") replaces what stands before it, and second choices
    ("Second choice: A") count for nothing beside a first one.

    Open questions are read by what they ask for, a number, yes or no, letters or a text: `kind`
    "auto" tells it from the question. A text is what the reply declares last ("Answer: red"), else
    all of it. What stands in <think> and the like is no answer.
    """

    kind: Kind = "auto"
    version: ClassVar[int] = 6

    def read(self, state: State) -> Reading:
        sample, subtask = state.sample, subtask_of(state)
        if self.kind in ("auto", "choice") and sample.choices:
            return read_choice(state.reply, choice_texts(state), subtask, sample.question)
        if self.kind == "choice":
            return Reading(None, "unread: the sample has no choices")
        from looktwice.eval.readers.prose import read_without_choices

        return read_without_choices(state.reply, self.kind, sample.question, subtask)


_BARE_LETTER = pattern(r"[\W_]*([a-z])[\W_]*")
_WRONG_IS_ASKED = pattern(
    r"\b(?:wrong|incorrect|false|invalid|mistaken|bad|poor|unlikely|not|distractors?)\b|n't\b"
)


def read_choice(
    reply: str, choices: Sequence[str], subtask: str = "", question: str = ""
) -> Reading:
    """The letter of the choice that a reply gives, as `Robust` says; a text in `choices` is empty
    where it is none."""
    text = _clean_text(reply)
    if not text:
        return Reading.without_words(reply)
    yes_no = [choice.casefold() for choice in choices] == ["yes", "no"]
    text, texts = in_english(text, tuple(choices))
    digits = tuple(map(as_digits, texts))
    counts = subtask == "Counting" or all(digits)
    if any(digits):
        texts = tuple(map(in_digits, texts))
        from looktwice.eval.readers.open_answers import kind_of

        is_count = counts and kind_of(question, subtask) == "integer"
        if is_count and not has_words(subtask):
            subtask = "Counting"
        listed = count_listed(text) if is_count else 0
        text = str(listed) if listed else counted_in_digits(text, question)
    return _read_choice(
        text,
        nameable(texts, text),
        subtask,
        question if yes_no or counts else None,
        _WRONG_IS_ASKED.search(question) is not None,
    )


_clean_text = lru_cache(maxsize=8192)(clean_text)  # models say the same of many questions


@lru_cache(maxsize=8192)
def _read_choice(
    text: str, choices: Texts, subtask: str, question: str | None, wrong_is_asked: bool
) -> Reading:
    """As `read_choice` of a cleaned reply; choices and question only where they have a say, to read
    equal ones once."""
    tagger = tagger_of(choices)
    letters = tagger.letters
    text = strip_echo(text, choices)
    tagged = tagger(text)
    mentioned = set(tagged_letters(tagged))
    if not text or (len(mentioned) > 1 and LISTED.fullmatch(tagged)):
        return Reading.of_letter("", letters)
    if len(mentioned) == 1 and ONLY_CHOICES.fullmatch(tagged):
        return Reading.of_letter(mentioned.pop(), letters)
    if bare := _BARE_LETTER.fullmatch(text):
        return Reading.of_letter(bare[1].upper(), letters)
    from looktwice.eval.readers.prose import Asked, read_prose  # most replies are a letter alone

    return read_prose(text, tagged, Asked(letters, choices, subtask, question, wrong_is_asked))
