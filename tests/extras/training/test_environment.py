"""An agent as an environment, driven as TRL's GRPOTrainer drives it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from looktwice.eval.records import RunFolder
from looktwice.extras.request_diff.trajectories import read_trajectories
from looktwice.extras.training import Rollouts
from looktwice.extras.training.environment import make_environment, make_rows, study_reward
from looktwice.pipelines.config.classes import ConfigError
from tests.extras.training.studies import BOX, SECOND, write_study


@pytest.fixture
def rollouts(tmp_path: Path) -> Iterator[Rollouts]:
    with Rollouts.load(write_study(tmp_path), "full", tmp_path / "run") as opened:
        yield opened


def list_tools(environment: Any) -> dict[str, Any]:
    """Return the tools as TRL finds them."""
    members = inspect.getmembers(type(environment), inspect.isfunction)
    names = [name for name, _ in members if not name.startswith("_") and name != "reset"]
    return {name: getattr(environment, name) for name in names}


Calls = list[tuple[str, dict[str, Any]]]


def play(
    environment: Any, row: dict[str, Any], replies: list[tuple[str, Calls]], answer: str
) -> list[Any]:
    """Return the conversation of one rollout, as TRL builds it."""
    *earlier, last = row["prompt"]
    said = environment.reset(**row)
    turns = [*earlier, {**last, "content": last["content"] + said}]
    for text, calls in replies:
        asked = [
            {"type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
        turns.append({"role": "assistant", "content": text, "tool_calls": asked})
        for name, arguments in calls:
            result = list_tools(environment)[name](**arguments)
            turns.append({"role": "tool", "name": name, "content": result})
    return [*turns, {"role": "assistant", "content": answer}]


def describe(turns: list[Any]) -> list[Any]:
    """Return roles, texts and calls, with "image" for each picture."""
    plain = []
    for turn in turns:
        content = turn["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        shown = [part["text"] if part["type"] == "text" else "image" for part in parts]
        calls = [call["function"] for call in turn.get("tool_calls") or ()]
        said = [
            (c["name"], json.loads(a) if isinstance(a := c["arguments"], str) else a) for c in calls
        ]
        plain.append((turn["role"], [text for text in shown if text], said))
    return plain


def test_rewards_records_and_trajectories_agree(rollouts: Rollouts) -> None:
    rows, make = make_rows(rollouts), make_environment(rollouts)
    environments = [make() for _ in rows]
    answers = [f"({item.answer})" for item in rollouts.items.values()]
    answers[1] = "no idea"
    first, second = ("zoom", {"box": BOX}), ("zoom", {"box": SECOND})
    replies: list[list[tuple[str, Calls]]] = [
        [],
        [("", [first]), ("", [("zoom", {"box": [0]})])],
        [("I look twice.", [first, second])],
    ]
    turns = [play(*given) for given in zip(environments, rows, replies, answers, strict=True)]
    rewards = study_reward(
        [whole[2:] for whole in turns], environments, SimpleNamespace(global_step=3), sample=[]
    )
    assert rewards == [1.0, 0.0, 1.0]
    lines = {line["sample"]: line for line in read_trajectories(rollouts.out)}
    for row, whole, reward in zip(rows, turns, rewards, strict=True):
        line = lines[row["sample"]]
        assert describe(line["messages"]) == describe(whole)
        pictures = [p["image"] for turn in whole for p in turn["content"] if "image" in p]
        assert [image.size for image in pictures] == [(64, 64)] * len(line["images"])
        assert line["value"] == reward
    assert [(line["looks"], line["refused"]) for line in lines.values()] == [(0, 0), (2, 1), (2, 0)]
    records = list(RunFolder(rollouts.out).last_records())
    assert [(record.measured or {})["train_step"] for record in records] == [3, 3, 3]


def test_malformed_calls_are_answered_and_looks_are_bounded(rollouts: Rollouts) -> None:
    environment, (row, *_) = make_environment(rollouts)(), make_rows(rollouts)
    environment.reset(**row)
    told = environment.zoom(bocks=[1])
    assert "error" in told[0]["text"] and "bocks" in told[0]["text"]
    shown = [[part["type"] for part in environment.zoom(box=box)] for box in (BOX, SECOND)]
    assert shown == [["text", "image"], ["text", "image", "text"]], "the bound is announced"
    for _ in range(2):  # the agent abstains, and further calls change nothing
        assert [part["type"] for part in environment.zoom(box=BOX)] == ["text"]
    assert study_reward([[{"role": "assistant", "content": "(A)"}]], [environment]) == [0.0]


@pytest.mark.parametrize(
    "completion",
    [
        [],
        [{"role": "tool", "content": "cut off"}],
        [{"role": "assistant", "content": "(KEY)", "tool_calls": [{"type": "function"}]}],
    ],
)
def test_a_completion_without_an_answer_has_no_value(
    completion: list[Any], rollouts: Rollouts
) -> None:
    environment, (row, *_) = make_environment(rollouts)(), make_rows(rollouts)
    key = rollouts.items[row["sample"]].answer or ""
    environment.reset(**row)
    said = json.loads(json.dumps(completion).replace("KEY", key))
    assert study_reward([said], [environment]) == [0.0]
    (record,) = RunFolder(rollouts.out).last_records()
    assert [(reply.text, reply.tool_calls) for reply in record.replies] == [("", ())]


def test_thoughts_and_blocks_are_read(rollouts: Rollouts) -> None:
    environment, (row, *_) = make_environment(rollouts)(), make_rows(rollouts)
    key = rollouts.items[row["sample"]].answer
    environment.reset(**row)
    blocks = [{"type": "text", "text": f"({key})"}]
    said = {"role": "assistant", "content": blocks, "reasoning_content": "Look."}
    assert study_reward([[said]], [environment]) == [1.0]
    (record,) = RunFolder(rollouts.out).last_records()
    assert record.replies[-1].reasoning == "Look."


def test_an_environment_that_is_reset_drops_its_rollout(rollouts: Rollouts) -> None:
    environment, rows = make_environment(rollouts)(), make_rows(rollouts)
    environment.reset(**rows[0])
    first = environment._rollout
    environment.reset(**rows[1])
    assert first.pending_request is None
    study_reward([[{"role": "assistant", "content": "A"}]], [environment])
    assert [record.sample for record in RunFolder(rollouts.out).last_records()] == [
        rows[1]["sample"]
    ]


def test_signatures_describe_the_tools(rollouts: Rollouts) -> None:
    zoom = list_tools(make_environment(rollouts)())["zoom"]
    parameters = inspect.signature(zoom).parameters
    assert [(name, p.annotation, p.default) for name, p in parameters.items()] == [
        ("box", list[float], inspect.Parameter.empty),
        ("image", int, 0),
    ]
    (tool,) = rollouts.agent.tool_descriptions if rollouts.agent else ()
    doc = inspect.getdoc(zoom) or ""
    for text in (
        tool.description,
        *(p["description"] for p in tool.parameters["properties"].values()),
    ):
        assert text in doc


def test_rows_can_be_limited_to_some_questions(rollouts: Rollouts) -> None:
    name = [*rollouts.items][1]
    assert [row["sample"] for row in make_rows(rollouts, [name])] == [name]
    with pytest.raises(KeyError):
        make_rows(rollouts, ["none of them"])


@pytest.mark.parametrize(
    "contestant, named",
    [
        ("tagged", "TaggedCalls"),
        ("user", "pictures: tool"),
        ("afresh", "afresh"),
        ("reset", "reset"),
    ],
)
def test_agents_that_trl_would_run_differently_are_refused(
    contestant: str, named: str, tmp_path: Path
) -> None:
    with (
        Rollouts.load(write_study(tmp_path), contestant, tmp_path / "run") as rollouts,
        pytest.raises(ConfigError, match=named),
    ):
        make_environment(rollouts)


def test_a_contestant_without_an_agent_has_no_tools(tmp_path: Path) -> None:
    with Rollouts.load(write_study(tmp_path), "without", tmp_path / "run") as rollouts:
        environment, (row, *_) = make_environment(rollouts)(), make_rows(rollouts)
        assert not list_tools(environment)
        turns = play(environment, row, [], f"({rollouts.items[row['sample']].answer})")
        assert study_reward([turns[1:]], [environment]) == [1.0]
