"""`looktwice check` warns of marks and crops that the model cannot see."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from looktwice.eval.runs.check import check
from looktwice.pipelines.config import load_plan
from tests.tables import table

STUDY = """
task: {{use: eval.tasks.Folder, path: own}}
model: {{use: pipelines.models.ChatAPI, model: {model}, url: "http://127.0.0.1:9/v1"}}
stages:
  mark: {{use: prompting.markers.Rectangles, thickness: {thickness}, color: "#ff0000", label: null}}
  encode: {{use: prompting.views.Encode, codec: {codec}, chroma: "{chroma}"}}
  ask: {{use: prompting.turns.Ask}}
"""


@table
def test_marks_that_cannot_be_seen_are_reported(
    cwd: Path, model: str, side: int, thickness: int, codec: str, chroma: str, warnings: list[str]
) -> None:
    (cwd / "own").mkdir()
    Image.fromarray(np.full((1008, 1008, 3), (40, 160, 90), np.uint8)).save(cwd / "own/a.png")
    mark = {"label": "A", "x0": 500, "y0": 500, "x1": 500 + side, "y1": 500 + side}
    row = {"id": "a", "question": "What is in A?", "answer": "x", "images": ["a.png"]}
    (cwd / "own" / "samples.jsonl").write_text(json.dumps(row | {"marks": [mark]}) + "\n")
    settings = {"model": model, "thickness": thickness, "codec": codec, "chroma": chroma}
    (cwd / "study.yaml").write_text(STUDY.format(**settings))
    lines = [line.strip() for line in check(load_plan(cwd / "study.yaml"))]
    told = [line for line in lines if line.startswith("warning:")]
    assert len(told) == len(warnings), told
    assert all(words in sentence for words, sentence in zip(warnings, told, strict=True)), told


TURNS = """
task: {{use: eval.tasks.MarkedScenes, kind: shape, n: 1}}
model: {{use: pipelines.models.Scripted}}
stages:
  budget: {{use: prompting.views.TokenBudget, tokens: 800}}
  ask: {stage}
"""


@table
def test_views_of_later_turns_without_a_pixel_budget_are_reported(
    tmp_path: Path, stage: str, warning: str
) -> None:
    (tmp_path / "study.yaml").write_text(TURNS.format(stage=stage))
    lines = [line for line in check(load_plan(tmp_path / "study.yaml")) if "does not limit" in line]
    assert len(lines) == bool(warning) and all(warning in line for line in lines)
