"""Finds recorded correctness labels that the reply text contradicts, without the question and the
key."""

from __future__ import annotations

from string import ascii_uppercase

from looktwice.eval.readers.claims import Weight, find_claims, split_sentences
from looktwice.eval.readers.clean import clean_text
from looktwice.eval.readers.mentions import tagged_letters, tagger_of
from looktwice.eval.replies.files import RecordedReply


def disprove_label(recorded: RecordedReply, label: str | None, answer: str | None) -> str:
    """Why the label (a letter, or None for none) cannot be the reply's answer, or "" where that is
    not proved.

    Only what needs no judgement counts: a letter beyond the choices; a reply whose every mention is
    of one other choice, which it claims; a reply that names no choice at all; a reply that is a
    bare letter and got none; a reply that claimed_plainly claims one other choice, and nowhere the
    label's in any way.
    """
    choices = recorded.choices
    letters = ascii_uppercase[: len(choices)]
    if label is not None and label not in letters:
        return f"the label is {label}, and there are only {letters[0]} to {letters[-1]}"
    text = clean_text(recorded.reply)
    tagged = tagger_of(choices)(text)
    mentioned = set(tagged_letters(tagged))
    if label is None:
        return (
            f"the reply is {answer} and nothing more"
            if answer and text.strip("() .") == answer
            else ""
        )
    if not mentioned and all(choices) and "yes" not in choices:  # a statement may mean yes or no
        return "the reply names no choice"
    if answer is None or answer == label:
        return ""
    if mentioned == {answer}:
        return f"the reply names {answer} alone"
    claims = [
        claim
        for sentence in split_sentences(tagged)
        for claim in find_claims(sentence, letters, recorded.subtask)
    ]
    supporting = [claim for claim in claims if not claim.against]
    plainly = {claim.letter for claim in supporting if claim.weight >= Weight.PREFERRED}
    proved = plainly == {answer} and label not in {claim.letter for claim in supporting}
    return f"the reply claims {answer} and nowhere {label}" if proved else ""
