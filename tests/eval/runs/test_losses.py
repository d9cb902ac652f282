"""`looktwice check` warns of marks and crops of which the model sees nothing more."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from looktwice.eval.runs.check import check
from looktwice.pipelines.config import load_plan

STUDY = """
task: {{use: eval.tasks.Folder, path: own}}
model: {{use: pipelines.models.ChatAPI, model: {model}, url: "http://127.0.0.1:9/v1"}}
stages:
  mark: {{use: prompting.markers.Rectangles, thickness: {thickness}, color: "#ff0000", label: null}}
  encode: {{use: prompting.views.Encode, codec: {codec}, chroma: "{chroma}"}}
  ask: {{use: prompting.turns.Ask}}
"""
QWEN, LLAVA = "Qwen2.5-VL-7B-Instruct", "llava-1.5-7b-hf"


@pytest.mark.parametrize(
    ("model", "side", "thickness", "codec", "chroma", "warnings"),
    [
        (QWEN, 60, 4, "jpeg", "4:4:4", []),
        (QWEN, 60, 4, "jpeg", "4:2:0", []),
        (QWEN, 60, 1, "jpeg", "4:4:4", []),
        (QWEN, 60, 1, "jpeg", "4:2:0", ["keeps"]),
        (QWEN, 60, 1, "png", "4:4:4", []),
        (LLAVA, 35, 4, "png", "4:4:4", ["mark A", "covers"]),
        (LLAVA, 60, 4, "png", "4:4:4", []),
        ("some-vlm", 35, 4, "png", "4:4:4", []),
    ],
)
def test_what_is_not_seen_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    side: int,
    thickness: int,
    codec: str,
    chroma: str,
    warnings: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    Image.fromarray(np.full((1008, 1008, 3), (40, 160, 90), np.uint8)).save(tmp_path / "own/a.png")
    mark = {"label": "A", "x0": 500, "y0": 500, "x1": 500 + side, "y1": 500 + side}
    row = {"id": "a", "question": "What is in A?", "answer": "x", "images": ["a.png"]}
    (tmp_path / "own" / "samples.jsonl").write_text(json.dumps(row | {"marks": [mark]}) + "\n")
    (tmp_path / "study.yaml").write_text(
        STUDY.format(model=model, thickness=thickness, codec=codec, chroma=chroma)
    )
    lines = check(load_plan(tmp_path / "study.yaml"))
    told = [line.strip() for line in lines if line.strip().startswith("warning:")]
    assert len(told) == len(warnings), told
    assert all(words in sentence for words, sentence in zip(warnings, told, strict=True)), told


TURNS = """
task: {{use: eval.tasks.MarkedScenes, kind: shape, n: 1}}
model: {{use: pipelines.models.Scripted}}
stages:
  budget: {{use: prompting.views.TokenBudget, tokens: 800}}
  ask: {stage}
"""
AGENT = "{use: prompting.agent.Agent, tools: {zoom: {use: prompting.agent.Zoom}}}"
FIT = "{use: prompting.turns.Verify, fit: {use: prompting.views.TokenBudget, tokens: 1600}}"


@pytest.mark.parametrize(
    ("stage", "warning"),
    [
        ("{use: prompting.turns.Ask}", ""),
        ("{use: prompting.turns.Verify}", "not bound; give it a TokenBudget as its `fit`"),
        (FIT, ""),
        (AGENT, "stage 'ask' may send more views in later turns"),
    ],
)
def test_views_of_later_turns_that_no_budget_bounds_are_told(
    tmp_path: Path, stage: str, warning: str
) -> None:
    (tmp_path / "study.yaml").write_text(TURNS.format(stage=stage))
    lines = [line for line in check(load_plan(tmp_path / "study.yaml")) if "does not bound" in line]
    assert len(lines) == bool(warning) and all(warning in line for line in lines)
