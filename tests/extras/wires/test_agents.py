"""An agent of six turns over each provider's protocol: pictures in tool results, turns sent back
as they came, resumed, replayed, and paid for once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.records import Record
from looktwice.pipelines.model import Reply, Usage
from tests.extras.wires.native_server import NativeServer, native_server
from tests.extras.wires.provider_turns import replies
from tests.first_day.studies import get_output, records

Json = dict[str, Any]
BASES = {"ResponsesAPI": "/v1", "MessagesAPI": "/v1", "GeminiAPI": "/v1beta"}
STUDY = """
tasks: {{letters: {{use: eval.tasks.LettersAndShapes, n: 1}}}}
model: {{use: pipelines.models.{name}, model: m, name: them, url: "{url}", max_tokens: 64}}
prices: {{m: {{in: 1, out: 10, cached: 0.1}}}}
stages:
  agent:
    use: prompting.agent.Agent
    tools: {{zoom: {{use: prompting.agent.ZoomIn}}}}
    protocol: {{use: prompting.agent.NativeCalls, pictures: tool}}
    coordinates: 0-1
    corrections: 2
"""
both = pytest.mark.parametrize("name", BASES)


def write_study(folder: Path, name: str, url: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "study.yaml"
    path.write_text(STUDY.format(name=name, url=url + BASES[name]))
    return path


def run(folder: Path, name: str, server: NativeServer, *words: object, code: int = 0) -> str:
    study = write_study(folder, name, server.url)
    return get_output("run", study, "--out", folder, *words, code=code)


def read_reply(call: Mapping[str, Any]) -> Reply:
    return Reply.from_dict(call["reply"])


def without_seconds(record: Record) -> str:
    """Return a record as a line without what a clock measures."""
    calls = [{**call, "reply": {**call["reply"], "seconds": 0}} for call in record.calls]
    return replace(record, timings={}, calls=tuple(calls)).to_line()


def places_of_pictures(name: str, body: Json) -> list[str]:
    """Return where the pictures of a request are: with the user, or in a result."""
    if name == "ResponsesAPI":
        nodes = [(str(i.get("type") or i["role"]), i) for i in body["input"]]
        mark = "input_image"
    elif name == "MessagesAPI":
        blocks = [block for turn in body["messages"] for block in turn["content"]]
        nodes, mark = [(block["type"], block) for block in blocks], '"image"'
    else:
        parts = [part for turn in body["contents"] for part in turn["parts"]]
        nodes, mark = [(next(iter(part)), part) for part in parts], "inlineData"
    return [kind for kind, node in nodes for _ in range(json.dumps(node).count(mark))]


@both
def test_six_turns_are_asked_stored_and_replayed_bit_for_bit(tmp_path: Path, name: str) -> None:
    with native_server(replies(name)) as server:
        output = run(tmp_path, name, server)
        assert server.refused == [] and len(server.bodies) == 6, output
        assert "plain 0.00264" in output  # 6 x (100 + 400 x 0.1 + 30 x 10) millionths
        (record,) = records(tmp_path)
        answers = [read_reply(call) for call in record.calls]
        assert not record.error and answers[-1].text == "ANSWER: A"
        assert [answer.usage for answer in answers] == [Usage(500, 30, 20, 400)] * 6
        assert [len(answer.tool_calls) for answer in answers] == [1, 1, 1, 2, 1, 0]
        assert answers[0].reasoning == "Too small." and answers[0].served_by["model"] == "m-1"
        last = places_of_pictures(name, json.loads(server.bodies[-1]))
        results = {"ResponsesAPI": "function_call_output", "MessagesAPI": "tool_result"}
        assert last[1:] == [results.get(name, "functionResponse")] * 2
        # a run that lost its record has all replies in the cache, and they are the same
        records_file = tmp_path / "study" / "records.jsonl"
        records_file.write_bytes(b"")
        run(tmp_path, name, server)
        assert len(server.bodies) == 6
        assert without_seconds(records(tmp_path)[0]) == without_seconds(record)
        told = get_output("replay", tmp_path / "study")
        assert "6 replies" in told and "1 record identical bit for bit" in told


@both
def test_the_last_question_at_a_bound_comes_without_tools(tmp_path: Path, name: str) -> None:
    with native_server(replies(name)) as server:
        run(tmp_path, name, server, "stages.agent.bounds={steps: 1}")
        assert server.refused == [] and len(server.bodies) == 2
        last = json.loads(server.bodies[-1])
    # Anthropic refuses a conversation with calls that defines no tools
    assert ("tools" in last) is (name == "MessagesAPI")
    assert name != "MessagesAPI" or last["tool_choice"] == {"type": "none"}


@pytest.mark.slow
@both
def test_a_run_that_was_stopped_continues_with_the_next_turn(tmp_path: Path, name: str) -> None:
    with native_server(replies(name), statuses=[200, 200, 200, 401]) as server:
        run(tmp_path, name, server, code=1)
        run(tmp_path, name, server)
        assert server.refused == [] and len(server.bodies) == 7
        assert server.bodies[3] == server.bodies[4], "the refused request is sent again"
        (record,) = records(tmp_path)
        assert read_reply(record.calls[-1]).text == "ANSWER: A"
