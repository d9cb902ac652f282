"""Rollouts driven turn by turn: they run the study's stages, and become records of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from looktwice.eval.records import RunFolder
from looktwice.eval.scoring.score import score_run
from looktwice.extras.training import Rollout, Rollouts
from looktwice.extras.training.rollouts import STEP_MEASURE
from looktwice.pipelines import Reply, Scripted
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.model import Messages, ToolCall
from tests.extras.training.studies import BOX, write_study

BLIND = "contestants.blind={replace: true, stages: {say: {use: specialists.answers.Chance}}}"


@pytest.fixture
def rollouts(tmp_path: Path) -> Iterator[Rollouts]:
    with Rollouts.load(write_study(tmp_path), "full", tmp_path / "run") as opened:
        yield opened


def call(**arguments: object) -> Reply:
    return Reply("", "tool", tool_calls=(ToolCall("c", "zoom", json.dumps(arguments)),))


def say(text: str, messages: Messages) -> Reply:
    return Reply(text)


def test_a_rollout_shows_pictures_and_is_scored(rollouts: Rollouts) -> None:
    item = next(iter(rollouts.items.values()))
    rollout = Rollout(rollouts, item)
    assert rollout.pending_request and [turn.role for turn in rollout.pending_request.messages] == [
        "system",
        "user",
    ]
    assert [tool.name for tool in rollout.pending_request.options.tools or ()] == ["zoom"]
    asked = rollout.send(call(box=BOX))
    assert asked and asked.messages[-1].role == "tool"
    assert [view.size for view in asked.messages[-1].views] == [(64, 64)]
    rollout.step = 7
    scored = rollout.finish(Reply(f"({item.answer})"))
    assert (scored.score.value, scored.measured[STEP_MEASURE]) == (1.0, 7)
    assert rollout.scored_record == scored
    with pytest.raises(ValueError, match="ended"):
        rollout.send(Reply("A"))


def test_every_attempt_is_a_draw_of_the_run(rollouts: Rollouts) -> None:
    item = next(iter(rollouts.items.values()))
    wrong = next(letter for letter in "ABCD" if letter != item.answer)
    values = list[float]()
    for said in (f"({item.answer})", f"({wrong})", "I cannot tell."):
        values.append(rollouts.run(item, Scripted(partial(say, said))).score.value)
    assert values == [1.0, 0.0, 0.0]
    (arm,) = score_run(RunFolder(rollouts.out)).points
    later = [entry.score.value if entry else None for entry in arm.draws(item.sample.id)]
    assert later == values, "as later commands read the run"


def test_a_closed_rollout_leaves_no_record(rollouts: Rollouts) -> None:
    rollout = Rollout(rollouts, next(iter(rollouts.items.values())))
    rollout.close()
    rollout.close()
    assert (rollout.pending_request, rollout.scored_record) == (None, None)
    assert not RunFolder(rollouts.out).records()
    for go_on in (lambda: rollout.send(Reply("A")), lambda: rollout.finish(Reply("A"))):
        with pytest.raises(ValueError, match=rollout.item.sample.id):
            go_on()


def test_a_failed_stage_is_recorded_and_another_error_is_raised(rollouts: Rollouts) -> None:
    item = next(iter(rollouts.items.values()))

    def break_down(messages: object) -> Reply:
        raise RuntimeError("no memory")

    failed = rollouts.run(item, Scripted(break_down))
    assert (failed.verdict, failed.score.value) == ("failed", 0.0)
    unwritable = replace(item, sample=replace(item.sample, id="other"), truth={"it": object()})
    with pytest.raises(TypeError):
        Rollout(rollouts, unwritable)


def test_stages_that_ask_on_get_the_final_reply_again(rollouts: Rollouts) -> None:
    rollout = Rollout(rollouts, next(iter(rollouts.items.values())))
    scored = rollout.finish(call(box=[900, 900, 901, 901]))
    assert scored.verdict != "right" and rollout.pending_request is None


@pytest.mark.parametrize(
    "contestant, overrides, named",
    [
        ("fulll", (), "full"),
        ("full", ("sweep={stages.agent.bounds.steps: [1, 2]}",), "sweep"),
        ("blind", (BLIND,), "no model"),
    ],
)
def test_contestants_that_cannot_be_trained(
    contestant: str, overrides: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=named):
        Rollouts.load(write_study(tmp_path), contestant, tmp_path / "run", overrides)


def test_rollouts_need_their_folder_open(tmp_path: Path) -> None:
    rollouts = Rollouts.load(write_study(tmp_path), "full", tmp_path / "run")
    item = next(iter(rollouts.items.values()))
    with pytest.raises(ValueError, match="with Rollouts"):
        Rollout(rollouts, item)
    with rollouts:
        assert rollouts.run(item, Scripted(partial(say, f"({item.answer})"))).verdict == "right"
    with pytest.raises(ValueError, match="with Rollouts"):
        rollouts.run(item, Scripted(partial(say, "A")))
    with Rollouts.load(write_study(tmp_path), "full", tmp_path / "run") as again:
        again.run(item, Scripted(partial(say, "no idea")))
    (arm,) = score_run(RunFolder(tmp_path / "run")).points
    assert [entry.verdict for entry in arm.draws(item.sample.id) if entry] == [
        "right",
        "unreadable",
    ]
