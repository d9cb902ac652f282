"""The words of VPBench's questions, which name how the marks look."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State
from looktwice.prompting.markers.vpbench import DRAWINGS, REFERENCE, Look, VPBenchStyle
from looktwice.prompting.wording.text_file import Text, Wording, fill_in


@dataclass(frozen=True)
class VPBenchPrompt(Wording):
    """Words a question as VPBench does: one sentence on how the points are marked, the question, and its choices.

    `marks` is the stage that draws them, best by reference, so that both always agree: `marks: ${stages.mark}`. With
    its style the words change too: they name shape, colour and labels; where it draws no labels they tell the points
    apart by its `colors`, and where it draws labels alone they name only these. Choices name the points as they are
    drawn, "Point 2" for "Point B"; a line break ends those of a correspondence (a mark REF). The sentences are ours
    with the structure of the authors'; `text` replaces all by your own words, `{file: NAME}` by those of a file, in
    which `{shape}`, `{color}`, `{labels}`, `{question}` and `{choices}` are filled in. Raises ValueError for a sample
    without choices or points, and for points that nothing tells apart.
    """

    marks: VPBenchStyle = field(default_factory=VPBenchStyle)
    text: Text = ""

    def __call__(self, state: State, model: Model) -> State:
        """The state with this prompt in place of the question."""
        sample = state.sample
        points = [mark for mark in sample.marks if isinstance(mark, Point)]
        if not sample.choices or not points:
            raise ValueError(f"sample {sample.id} has no {'points' if sample.choices else 'choices'} to word")
        labels = [point.label for point in points]
        looks = self.marks.looks(labels)
        if not self.marks.labels and len({look.color for look in looks}) < len(looks):
            raise ValueError(f"sample {sample.id}: without labels its points need `colors` of their own")
        named = {label: self._name(look) for label, look in zip(labels, looks, strict=True)}
        choices = "\n".join(
            f"({letter}) {_renamed(str(choice), named)}"
            for letter, choice in zip(sample.letters, sample.choices, strict=True)
        )
        parts = {
            "shape": DRAWINGS[self.marks.style].shape,
            "color": _listed(list(dict.fromkeys(look.color for look in looks))),
            "labels": _listed([look.text for look in looks]),
            "question": state.prompt,
            "choices": choices,
        }
        last = "\n" if REFERENCE in labels else ""
        words = self.text or f"{self._sentence()}\n{{question}}\nSelect from the following choices.\n{{choices}}{last}"
        return state.replace(prompt=fill_in(words, **parts))

    def _sentence(self) -> str:
        if not DRAWINGS[self.marks.style].shape:
            return "Each point bears nothing but its label: {labels}."
        if not self.marks.labels:
            return "Each point is marked with a {shape} of its own colour: {color}."
        return "Each point is marked with a {shape} in {color} and its label beside it: {labels}."

    def _name(self, look: Look) -> str:
        return look.text if self.marks.labels else f"the {look.color} point"


def _renamed(choice: str, names: dict[str, str]) -> str:
    """The choice with each point as it is drawn; a label that stays is not touched, "Point A" may become a colour."""
    changed = {label: name for label, name in names.items() if label != name}
    if not changed:
        return choice
    found = re.compile(rf"(?:(?P<point>[Pp]oint) )?\b(?P<label>{'|'.join(map(re.escape, changed))})\b")

    def rename(match: re.Match[str]) -> str:
        name = changed[match["label"]]
        return name if name.startswith("the ") or not match["point"] else f"{match['point']} {name}"

    return found.sub(rename, choice)


def _listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
