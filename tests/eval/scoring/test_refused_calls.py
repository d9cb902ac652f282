"""A run whose tool calls were all refused says so."""

import re
from pathlib import Path
from typing import Any

from looktwice.eval import evaluate
from looktwice.eval.analysis.finding import find
from looktwice.eval.scoring.notes import list_notes
from looktwice.eval.scoring.score import score_run
from looktwice.eval.tasks import MarkedScenes
from looktwice.pipelines import Scripted
from looktwice.pipelines.model import Messages, Reply, ToolCall
from looktwice.prompting.agent import Agent, Zoom
from looktwice.prompting.agent.looks import Look, Outcome
from tests.made_run import MadeRun
from tests.tables import table

WHY = "`box` is missing"


@table
def test_arms_with_only_refused_calls_are_named(
    arms: dict[str, list[list[Outcome]]], said: list[str], made: MadeRun
) -> None:
    made.task("t", "AAA")
    for name, samples in arms.items():
        point = made.point(name, "t")
        for number, outcomes in enumerate(samples):
            notes_of_looks = tuple(
                Look(place, 0, "zoom", outcome, {}, reason=WHY).note
                for place, outcome in enumerate(outcomes, 1)
            )
            ran = sum(outcome != "refused" for outcome in outcomes)
            told: Any = {"notes": notes_of_looks, "measured": {"looks": ran}}
            made.record(point, f"s{number}", answer="A", **(told if outcomes != ["none"] else {}))
    found = [line for line in list_notes(score_run(made.write())) if line.startswith("refused")]
    assert len(found) == bool(said) and all(words in found[0] for words in said)


def make_refused_model(messages: Messages) -> str | Reply:
    """A model that names the wrong argument for as long as it is offered tools."""
    if any(message.role == "tool" for message in messages):
        return "(A)"
    return Reply("", "tool", tool_calls=(ToolCall("c", "zoom", '{"boxes": [1, 2, 3, 4]}'),))


def test_the_table_of_a_run_ends_with_this_note(tmp_path: Path) -> None:
    agents = {"zoomer": Agent({"zoom": Zoom()}), "plain": Agent({"zoom": Zoom()}, corrections=0)}
    model = Scripted(make_refused_model)
    table = evaluate(MarkedScenes("symbol", n=2), agents, model, out=tmp_path / "run")
    for shown in (table, find(table)):
        words = re.sub(r"\s+", " ", str(shown))
        assert "refused: all 4 tool calls of zoomer on" in words and "`box` is missing" in words
    told = [message.text for turns in model.asked for message in turns if message.role == "tool"]
    assert told and all("`box` is missing" in text for text in told)
