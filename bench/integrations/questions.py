"""The questions that every program asks: the ring is drawn in the picture, and no field mentions
it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from looktwice.eval import MarkedScenes
from looktwice.pipelines import State
from looktwice.pipelines.pipeline import NoModel
from looktwice.prompting import Circles

STUDY = """\
tasks:
  scenes: {use: eval.tasks.Folder, path: .}
models:
  pocket: {use: pipelines.models.Pocket}
stages:
  choices: {use: prompting.wording.ReadChoices}
  marks: {use: prompting.burnt_in.RecoverMarks, letters: [A], radii: [4, 32], given: keep}
  zoom:
    use: prompting.views.ZoomOnMarks
    missing: keep
    crop: {min_px: 72, upscale: 256, show: both}
  ask: {use: prompting.turns.Ask, images: placed}
contestants:
  plain: {stages: {choices: null, marks: null, zoom: null}}
  zoomed: {}
"""


@dataclass(frozen=True)
class Question:
    """A question, the path of its picture, its choices, and the letter of the correct one."""

    id: str
    image: str
    question: str
    choices: tuple[str, ...]
    answer: str

    @property
    def lettered(self) -> str:
        """The question and choices, as BLINK writes them."""
        lines = [f"({a}) {text}" for a, text in zip("ABCD", self.choices, strict=True)]
        return "\n".join([self.question, "Select from the following choices.", *lines])


def write_questions(folder: Path, n: int) -> Sequence[Question]:
    """Write `n` questions about small lettered tiles to `samples.jsonl` with their pictures, and
    the study of both contestants."""
    draw, questions = Circles(radius=16, color="red"), list[Question]()
    for item in MarkedScenes("symbol", n=n, controls={"size": [16, 24]}):
        view = draw(State.start(item.sample), NoModel()).views[0]
        path = folder / f"{item.sample.id}.png".replace("/", "-")
        path.write_bytes(view.picture.payload.data)
        choices = tuple(map(str, item.sample.choices))
        key = item.answer or ""
        questions.append(Question(item.sample.id, str(path), item.sample.question, choices, key))
    rows = [asdict(question) | {"image": Path(question.image).name} for question in questions]
    lines = "\n".join(map(json.dumps, rows))
    (folder / "samples.jsonl").write_text(lines, encoding="utf-8")
    (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
    return questions
