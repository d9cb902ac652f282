"""Recorded labels that the reply itself proves wrong, by what it says alone and without the question or the key."""

from __future__ import annotations

from string import ascii_uppercase

from looktwice.eval.readers.claims import Weight, claims_of, sentences_of
from looktwice.eval.readers.clean import plain
from looktwice.eval.readers.mentions import letters_in, named
from looktwice.eval.readers.subtask_words import predicates
from looktwice.eval.replies.files import Recorded


def disproof(recorded: Recorded, label: str | None, answer: str | None) -> str:
    """Why the label (a letter, or None for none) cannot be the reply's answer, or "" where that is not proved.

    Only what needs no judgement counts: a letter beyond the choices; a reply whose every mention is of one other
    choice, which it claims; a reply that names no choice at all; a reply that is a bare letter and got none; a reply
    that plainly claims one other choice, and nowhere the label's in any way.
    """
    choices = recorded.choices
    letters = ascii_uppercase[: len(choices)]
    if label is not None and label not in letters:
        return f"the label is {label}, and there are only {letters[0]} to {letters[-1]}"
    text = plain(recorded.reply)
    written = named(choices)(text)
    held = set(letters_in(written))
    if label is None:
        return f"the reply is {answer} and nothing more" if answer and text.strip("() .") == answer else ""
    if not held and all(choices) and "yes" not in choices:  # a statement may mean yes or no
        return "the reply names no choice"
    if answer is None or answer == label:
        return ""
    if held == {answer}:
        return f"the reply names {answer} alone"
    words = predicates(recorded.subtask)
    claims = [claim for sentence in sentences_of(written) for claim in claims_of(sentence, letters, words)]
    said_for = {claim.letter for claim in claims if not claim.against}
    plainly = {claim.letter for claim in claims if not claim.against and claim.weight >= Weight.PREFERRED}
    return f"the reply claims {answer} and nowhere {label}" if plainly == {answer} and label not in said_for else ""
