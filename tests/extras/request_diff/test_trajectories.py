"""Fine-tuning data: conversations of an agent, some with malformed calls, read back by common
loaders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import json as arrow_json
from pyarrow.parquet import read_table

from looktwice.eval import evaluate
from looktwice.eval.records import RunError
from looktwice.extras.request_diff.trajectories import is_placebo, read_trajectories
from looktwice.extras.scenes import LettersAndShapes
from looktwice.pipelines import Picture, Pipeline, Reply, Scripted
from looktwice.pipelines.model import Messages, ToolCall
from looktwice.prompting import Ask
from looktwice.prompting.agent import Agent, Magnify, Zoom
from tests.first_day.studies import looktwice

CALLS = (
    '{"image": 1, "box": [0, 0, 400, 300]}',
    '{"image": 1, "box": [0, 0',
    "[1, 2]",
    '"zoom"',
    "",
)
"""Arguments as models write them: an object, a broken one, a list, a text, nothing."""


def answer(messages: Messages) -> Reply:
    """Request a zoom in each of these ways in turn, then another tool, and answer."""
    turn = sum(message.role == "assistant" for message in messages)
    if messages[0].role != "system" or turn > len(CALLS):
        return Reply("3")
    if turn == len(CALLS):
        call = ToolCall("m", "magnify", '{"point": [10.5, 20], "factor": "3"}')
    else:
        call = ToolCall(f"c{turn}", "zoom", CALLS[turn])
    return Reply("", "tool", tool_calls=(call,))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain question next to an agent whose model makes malformed calls."""
    folder = tmp_path_factory.mktemp("runs") / "mixed"
    agent = Agent({"zoom": Zoom(), "magnify": Magnify()}, corrections=9)
    arms = {"plain": Pipeline({"ask": Ask()}), "agent": Pipeline({"agent": agent})}
    evaluate(
        LettersAndShapes(n=2, width=480, height=360, largest=30), arms, Scripted(answer), out=folder
    )
    return folder


def write_trajectories(run: Path, out: Path) -> Path:
    words = ["export", str(run), "--to", "trajectories", "--out", str(out)]
    result = looktwice(*words)
    assert result.exit_code == 0 and result.output.startswith("4 conversations"), result.output
    return out


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_loaders_read_malformed_calls(run: Path, tmp_path: Path) -> None:
    out = write_trajectories(run, tmp_path / "t.jsonl")
    table = arrow_json.read_json(out, arrow_json.ReadOptions(block_size=1 << 12))
    lines = lines_of(out)
    assert table.to_pylist() == lines
    assert {tuple(line) for line in lines} == {tuple(lines[0])}
    names = {tuple(turn) for line in lines for turn in line["messages"]}
    assert names == {("role", "content", "tool_calls", "tool_call_id")}
    first = arrow_json.read_json(pa.BufferReader(out.read_bytes().splitlines(keepends=True)[0]))
    assert first.schema == table.schema, "readers that take the types from the beginning"
    said = [call for turn in lines[0]["messages"] for call in turn["tool_calls"] or ()]
    assert [call["function"]["arguments"] for call in said[:3]] == list(CALLS[:3])
    tools = {tool["function"]["name"] for tool in json.loads(lines[0]["tools"])}
    assert tools == {"zoom", "magnify"}
    assert all((out.parent / path).is_file() for line in lines for path in line["images"])


def test_parquet_holds_the_same_rows_with_their_images(run: Path, tmp_path: Path) -> None:
    table = read_table(write_trajectories(run, tmp_path / "t.parquet"))
    assert not (tmp_path / "t.parquet_images").exists()
    rows: dict[str, dict[str, Any]] = {row["id"]: row for row in table.to_pylist()}
    for line in lines_of(write_trajectories(run, tmp_path / "t.jsonl")):
        row = rows[line["id"]]
        assert row | {"images": line["images"]} == line
        names = [Path(path).name for path in line["images"]]
        assert [image["path"] for image in row["images"]] == names
        parts = [part["type"] for turn in line["messages"] for part in turn["content"]]
        assert parts.count("image") == len(names)
        assert all(Picture.encoded(image["bytes"]).size for image in row["images"])


def test_an_empty_export_leaves_no_file(run: Path, tmp_path: Path) -> None:
    for name, verdict, words in (
        ("none.jsonl", "hidden", "no conversation that matches"),
        ("all.csv", "right", ".jsonl or .parquet"),
    ):
        args = ["export", str(run), "--as", "trajectories", "--out", str(tmp_path / name)]
        result = looktwice(*args, "--only", verdict)
        assert result.exit_code == 2 and words in result.output
        assert not (tmp_path / name).exists()


def test_a_placebo_is_written_only_if_named(run: Path, tmp_path: Path) -> None:
    def who(*names: str) -> set[str]:
        return {line["contestant"] for line in read_trajectories(run, contestants=names)}

    assert who() == {"plain", "agent"}
    assert who("agent") == {"agent"}
    with pytest.raises(RunError, match=r"--contestant agnt: .*; did you mean 'agent'"):
        who("agnt")
    blind = {"agent": {"results": {"use": "prompting.agent.BlackImages"}}}
    assert is_placebo(blind) and is_placebo({"zoom": [{"crop": {"elsewhere": True}}]})
    assert not is_placebo({"zoom": {"elsewhere": False, "use": "prompting.agent.Zoom"}})
