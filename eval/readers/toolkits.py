"""Readers that follow the code of others on multiple choice: BLINK's own, VLMEvalKit's and
lmms-eval's.

Read from their code: VLMEvalKit (`can_infer`, 2026-08) and lmms-eval (`tasks/blink`, 2026-08).
Where they go on to ask a language model or to draw an answer at random, there is no answer here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from looktwice.eval.readers.reader import Reader, Reading, choice_texts
from looktwice.pipelines.state import State


@dataclass(frozen=True)
class BlinkOfficial(Reader):
    """BLINK's own token rule (official `analyze_answer`, without its language model).

    A reply that is exactly a letter A-E, bare or in brackets, counts as it is, also beyond the
    choices. Else the tokens between white space that are exactly "(A)", "(B)" ... are looked at:
    the only one of the last paragraph wins, then the only one of the whole reply. Where the
    official code would go on to ask GPT-3.5, there is no answer here (reason "unread").
    """

    def read(self, state: State) -> Reading:
        return Reading.of(self.rule(state.reply, len(state.sample.choices)))

    @staticmethod
    def rule(reply: str, choices: int) -> str | None:
        """The letter that the rule gives for a reply to a question with so many choices, or
        None."""
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


_REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
    "Failed to obtain answer via API",
)
_PUNCTUATION = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_BOLD = re.compile(r"(?:correct )?answer is \*\*([A-D])\*\*", re.I)
_LAST = 4  # words among which VLMEvalKit looks for the letter


@dataclass(frozen=True)
class Vlmevalkit(Reader):
    """VLMEvalKit's rules for multiple choice; where it would ask a judge or draw at random there is
    no answer.

    Its steps: known refusals; the only choice letter among the words, if it is one of the last
    four; "the answer is **X**"; the only choice whose text occurs in a reply that is at most twice
    as long as all texts together.
    """

    def read(self, state: State) -> Reading:
        return Reading.of(self.rule(state.reply, choice_texts(state)))

    @staticmethod
    def rule(reply: str, choices: Sequence[str]) -> str | None:
        """The letter that the rules give, or None where VLMEvalKit would ask a judge, or says Z."""
        if any(refusal in reply for refusal in _REFUSALS):
            return None
        letters = ascii_uppercase[: len(choices)]
        words = reply.translate(_PUNCTUATION).split()
        mentioned = [letter for letter in letters if letter in words]
        if len(mentioned) == 1 and words.index(mentioned[0]) >= len(words) - _LAST:
            return mentioned[0]
        if not mentioned and "Z" in words:
            return None
        bold = _BOLD.search(reply)
        if bold and bold[1].upper() in letters:
            return bold[1].upper()
        if len(reply) > 2 * sum(map(len, choices)):
            return None
        named = [
            letter
            for letter, text in zip(letters, choices, strict=False)
            if text.lower() in reply.lower()
        ]
        return named[0] if len(named) == 1 else None


_FIRST_LETTER = re.compile(r"[(\s]*([A-Z])[).\s]*", re.I)


@dataclass(frozen=True)
class LmmsEval(Reader):
    """lmms-eval's rule for BLINK in 2026-08: the first letter of the reply, whichever it is.

    "The answer is B" gives T, "answer: C" gives A.
    """

    def read(self, state: State) -> Reading:
        letter = _FIRST_LETTER.match(state.reply.strip())
        return Reading.of(letter[1].upper() if letter else None)
