"""Compact notation for samples in tables of replies."""

from looktwice.eval.replies import CHOICES
from looktwice.pipelines.model import Message
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State

COUNTING = "How many cups are there?"


def reply_to(choices: str, reply: str, question: str = "Which one?") -> State:
    """Return a state with a reply to choices "a|b", to four points "" or an open question "-"."""
    texts = tuple(choices.split("|")) if choices else CHOICES["Visual_Correspondence"]
    sample = Sample("s", question, choices=() if choices == "-" else texts)
    return State(sample, messages=(Message("assistant", (reply,)),))
