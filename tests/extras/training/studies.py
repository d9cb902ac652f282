"""A study whose agent is trained in the tests, and its three questions."""

from __future__ import annotations

from pathlib import Path

STUDY = """
task: {use: eval.tasks.MarkedScenes, kind: color, n: 3, ground: plain, mark: box}
models: {policy: {use: pipelines.models.Pocket}}
model: policy
stages:
  agent:
    use: prompting.agent.Agent
    tools: {zoom: {use: prompting.agent.Zoom}}
    protocol: {use: prompting.agent.NativeCalls, pictures: tool}
    bounds: {steps: 3}
    fit: {use: prompting.views.LongestSide, pixels: 64, grow: true}
contestants:
  full: {}
  without: {replace: true, stages: {ask: {use: prompting.turns.Ask}}}
  tagged: {stages: {agent: {protocol: {use: prompting.agent.TaggedCalls}}}}
  user: {stages: {agent: {protocol: {pictures: user}}}}
  afresh: {stages: {agent: {afresh: true}}}
  reset: {stages: {agent: {tools: {zoom: null, reset: {use: prompting.agent.Zoom}}}}}
  black: {stages: {agent: {results: {use: prompting.agent.BlackImages}}}}
"""
BOX, SECOND = [4.0, 4.0, 30.0, 30.0], [20.0, 20.0, 60.0, 60.0]


def write_study(folder: Path) -> Path:
    """Write the study, and return its file."""
    path = folder / "study.yaml"
    path.write_text(STUDY)
    return path
