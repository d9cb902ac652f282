"""GRPO with TRL itself: one step of a tiny network whose tool returns pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import bench_grpo
from bench.bench_grpo import Sizes, describe_rollout, measure_rewards, train
from looktwice.extras.request_diff.trajectories import read_trajectories
from looktwice.extras.training import Rollouts
from looktwice.extras.training.environment import make_environment, study_reward
from tests.extras.training.studies import write_study
from tests.extras.training.test_environment import describe, list_tools
from tests.optional import optional

optional("trl")
optional("datasets")

# transformers and TRL warn, and leave files open
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_a_step_of_grpo_is_recorded_and_certified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_grpo, "CALL_WEIGHT", 50.0)  # it calls nearly always
    seen: list[tuple[list[Any], float]] = []

    def reward(prompts: Any, completions: Any, **columns: Any) -> list[float]:
        values = study_reward(completions, **columns)
        whole = [[*asked, *said] for asked, said in zip(prompts, completions, strict=True)]
        seen.extend(zip(whole, values, strict=True))
        return values

    sizes = Sizes(steps=1, every=1, rollouts=8, questions=16, held_out=3, lessons=60)
    before, after = train(tmp_path, sizes, reward)
    assert (before.run.name, after.run.name) == ("step-0", "step-1")
    assert {*before.figures} == {*after.figures}
    assert {"color/full", "color/gain", "color/full over black low"} <= {*after.figures}
    lines = list(read_trajectories(tmp_path / "rollouts"))
    assert len(lines) == len(seen) == 8
    told = [(describe(turns), value) for turns, value in seen]
    for line in lines:
        assert (settle(describe(line["messages"])), line["value"]) in [
            (settle(turns), value) for turns, value in told
        ]
    assert any(turn["role"] == "tool" for line in lines for turn in line["messages"])
    images = {len(line["images"]) for line in lines}
    assert max(images) >= 2, "the tool returns pictures"
    (rewards,) = measure_rewards(tmp_path, 1)
    assert rewards.mean == sum(value for _, value in seen) / 8
    shown = describe_rollout({**lines[0], "images": [f"{n}.png" for n in range(9)]})
    assert "0.png" in shown and "assistant: " in shown


def settle(turns: Sequence[tuple[str, list[str], list[Any]]]) -> list[Any]:
    """Return turns without a last one that says nothing, or whose calls nobody answered, as of a
    reply that was cut off."""
    _, said, calls = turns[-1]
    return list(turns[:-1] if calls or not said else turns)


def test_schemas_have_the_names_and_descriptions_of_the_study(tmp_path: Path) -> None:
    schemas = optional("transformers").utils
    with Rollouts.load(write_study(tmp_path), "full", tmp_path / "run") as rollouts:
        zoom = list_tools(make_environment(rollouts)())["zoom"]
        made: Mapping[str, Any] = schemas.get_json_schema(zoom)["function"]
        (tool,) = rollouts.agent.tool_descriptions if rollouts.agent else ()
    assert (made["name"], made["description"]) == (tool.name, tool.description)
    ours, theirs = tool.parameters["properties"], made["parameters"]["properties"]
    for key in ("type", "description"):
        assert {n: p[key] for n, p in theirs.items()} == {n: p[key] for n, p in ours.items()}
    assert made["parameters"]["required"] == tool.parameters["required"]
