"""Image placeholders in a prompt, in the formats of benchmarks and models."""

from pathlib import Path

import numpy as np
import pytest

from looktwice.eval.runs.check import check
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.turns import Ask
from tests.prompting.scenes import ScriptedReplies
from tests.tables import table
from tests.under_fire.scenes import write_questions


def send(words: str, images: int, way: str) -> list[str | int]:
    """Return the texts and the numbers of the images in the order in which they are sent."""
    pictures = [Picture(np.full((8, 8 + n, 3), 50, np.uint8)) for n in range(1, images + 1)]
    model = ScriptedReplies()
    ask = Ask(images=way)  # type: ignore[arg-type]
    ask(State.start(Sample("s", words, tuple(pictures))), model)
    turn = model.calls[0][0][-1]
    return [part.size[0] - 8 if isinstance(part, View) else part for part in turn.parts]


@table
def test_an_image_is_sent_at_its_placeholder(
    words: str, images: int, sent: list[str | int]
) -> None:
    assert send(words, images, "inline") == sent
    placed = [
        part.strip() if isinstance(part, str) else part for part in send(words, images, "placed")
    ]
    assert [part for part in placed if part != ""] == sent
    if words and images:
        before = send(words, images, "before")
        assert before == [*range(1, images + 1), words], "no other request changes"


STUDY = """
task: {{use: eval.tasks.Folder, path: own}}
model: {{use: pipelines.models.ChatAPI, model: m, url: "http://127.0.0.1:9/v1"}}
stages:
  ask: {stage}
"""
ASK, INLINE = "{use: prompting.turns.Ask}", "{use: prompting.turns.Ask, images: inline}"
BLIND = "{use: prompting.turns.Ask, images: none}"
AGENT = "{use: prompting.agent.Agent, tools: {zoom: {use: prompting.agent.Zoom}}}"


@pytest.mark.parametrize(
    ("stage", "question", "place"),
    [
        (ASK, "What is in <image1>?", "<image1>"),
        (ASK, "<|image_1|>\nWhich?", "<|image_1|>"),
        (ASK, "<|vision_start|><|image_pad|><|vision_end|>Which?", "<|image_pad|>"),
        (AGENT, "<image>\nWhich?", "<image>"),
        (INLINE, "What is in <image>?", ""),
        (INLINE, "<image 1> and <image 2>?", ""),
        (INLINE, "<image> and <image3>?", "<image3>"),
        (BLIND, "What is in <image1>?", ""),
        (ASK, "What is in image 1, <b>here</b>?", ""),
    ],
)
def test_check_warns_of_placeholders_that_are_sent_as_text(
    stage: str, question: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    both = {"images": ["a.png", "b.png"]}
    write_questions(both, both | {"id": "later", "question": question}, side=64)
    Path("study.yaml").write_text(STUDY.format(stage=stage))
    told = [line for line in check(load_plan(Path("study.yaml"))) if "images: inline" in line]
    assert len(told) == bool(place)
    assert all("sample later" in line and place in line for line in told)
