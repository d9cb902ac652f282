"""Plain answers in six languages, claim first and reason first: our reader gets them right, and
never the opposite.

The rules were developed on `sentences.tsv`. `sentences_held_out.tsv` was written before the rules
and first tested after them: 135 of its first 148 sentences and 79 of its other 85 were right then.
A wrong sentence of either table may only be fixed by a rule that holds for more than one sentence.
`-` marks a reply without an answer.
"""

from collections import Counter
from pathlib import Path

import pytest

from looktwice.eval.readers import Robust
from looktwice.eval.replies import CHOICES
from looktwice.pipelines.model import Message
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State

SUBTASKS = {
    "depth": ("Relative_Depth", "Which point is closer to the camera?"),
    "refl": (
        "Relative_Reflectance",
        "Which point has darker surface color, or is it about the same?",
    ),
    "corr": ("Visual_Correspondence", "Which point corresponds to the reference point?"),
    "yn": ("Spatial_Relation", "Is the cup on top of the table?"),
    "fake": ("Forensic_Detection", "Which image is most likely to be a real photograph?"),
    "img": ("Jigsaw", "Which image is the missing part?"),
}
COLOURS = {
    "col": ("red", "green", "blue", "yellow"),
    "farbe": ("rot", "gr\u00fcn", "blau", "gelb"),
    "couleur": ("rouge", "vert", "bleu", "jaune"),
    "color": ("rojo", "verde", "azul", "amarillo"),
    "\u989c\u8272": ("\u7ea2\u8272", "\u7eff\u8272", "\u84dd\u8272", "\u9ec4\u8272"),
    "\u8272": ("\u8d64", "\u7dd1", "\u9752", "\u9ec4\u8272"),
}


def make_sample(question: str) -> Sample:
    """Return the sample of an abbreviated question, for example `count:cups`."""
    kind, _, noun = question.partition(":")
    if kind in SUBTASKS:
        subtask, words = SUBTASKS[kind]
        return Sample("s", words, choices=CHOICES[subtask], meta={"subtask": subtask})
    if kind in ("count", "pick"):
        choices = ("0", "2", "3", "5") if kind == "pick" else ()
        return Sample("s", f"How many {noun} are there in the image?", choices=choices)
    if kind == "yesno":
        return Sample("s", "Is there a dog in the image?")
    return Sample("s", "Which colour is the car?", choices=COLOURS[kind])


@pytest.mark.parametrize("table", ["sentences.tsv", "sentences_held_out.tsv"])
def test_plain_answers_are_read_correctly_and_never_inverted(table: str) -> None:
    lines = (Path(__file__).parent / table).read_text(encoding="utf-8").splitlines()[1:]
    asked, right, inverted = Counter[str](), Counter[str](), []
    for language, question, answer, reply in (line.split("\t") for line in lines):
        message = Message("assistant", (reply.replace("\\n", "\n"),))
        read = Robust()(State(make_sample(question), messages=(message,)), NoModel()).answer or "-"
        asked[language] += 1
        right[language] += read == answer
        if read not in (answer, "-"):
            inverted.append(f"{question}: {reply!r} is {answer} and read as {read}")
    assert not inverted
    assert set(asked) == {"en", "de", "fr", "es", "zh", "ja"} and asked.total() > 200
    assert right.total() >= 0.98 * asked.total()
    assert all(right[language] >= 0.9 * asked[language] for language in asked), right
