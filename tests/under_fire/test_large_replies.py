"""Replies and words that are larger than any use of them: a bound that is stated, and nothing that
hangs or dies."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from bench.soak.hostile_server import Answer, Json, completion, hostile_server, http
from looktwice.eval.readers import Vlm2
from looktwice.eval.readers.open_answers import KINDS, read_open
from looktwice.eval.records import Record, RunFolder
from looktwice.pipelines import Message, Sample, State
from looktwice.pipelines.json_input import MOST_VALUES
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.pipelines.models.wire import MOST_CALLS
from looktwice.pipelines.pipeline import NoModel
from tests.first_day.studies import looktwice


def test_millions_of_empty_lists_are_refused_at_once() -> None:
    """A body of 60 MiB of them was taken apart for minutes, while no other thread could do
    anything."""
    body = b"[" + b"[]," * (20 << 20) + b"[]]"
    begun = time.perf_counter()
    with pytest.raises(ModelError, match="more than 8,000,000 values"):
        read_response(HttpResponse(200, {}, body), "http://127.0.0.1/v1", 0.1)
    assert time.perf_counter() - begun < 2


@pytest.mark.parametrize("leak", ["", "sk-fire-7Hq2mVx9Zt41Wb8Q"])
def test_a_text_of_very_many_parts_is_put_together_in_time(
    leak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text so far was copied for each of its parts: 120,000 of them took 52 s, and a body holds
    millions."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-fire-7Hq2mVx9Zt41Wb8Q")
    parts = [*[{"text": "twelve chars"}] * 300_000, {"text": leak}]
    body = json.dumps({"choices": [{"message": {"content": parts}}]}).encode()
    begun = time.perf_counter()
    reply = read_response(HttpResponse(200, {}, body), "http://127.0.0.1/v1", 0.1)
    assert time.perf_counter() - begun < 5
    assert reply.text == "twelve chars" * 300_000 + "***" * bool(leak)


def test_digits_of_another_writing_are_read_in_time() -> None:
    """Where a pattern began anew at each of them, 10,000 took 22 seconds of the one thread that
    runs."""
    begun = time.perf_counter()
    for kind in KINDS:
        read_open("\u0663" * 10_000, kind)
    assert time.perf_counter() - begun < 3


STUDY = """
task: {{use: eval.tasks.Photos, kind: jigsaw, n: 1, quality: 90}}
model: {{use: pipelines.models.ChatAPI, model: tiny, url: "{url}", timeout: 20}}
stages: {{ask: {{use: prompting.turns.Ask}}}}
contestants:
  ask: {{}}
  agent: {{stages: {{ask: {{use: prompting.agent.Agent, tools: {{zoom: {{use: \
prompting.agent.Zoom}}}}}}}}}}
"""


def test_of_twenty_thousand_tool_calls_a_few_are_kept_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them were written into the record and, where a stage goes on, into the next
    request."""
    monkeypatch.chdir(tmp_path)
    calls = [
        {"id": f"c{n}", "function": {"name": "zoom", "arguments": "{}"}} for n in range(20_000)
    ]

    def script(body: Json, before: int) -> Answer:
        if len(body["messages"]) > 2:
            return Answer(http(200, json.dumps(completion("(A)")).encode()))
        choice: dict[str, Any] = {
            "message": {"content": "", "tool_calls": calls},
            "finish_reason": "tool_calls",
        }
        return Answer(http(200, json.dumps(completion(choices=[choice])).encode()))

    with hostile_server(script) as server:
        Path("study.yaml").write_text(STUDY.format(url=server.url))
        result = looktwice("run", "study.yaml")
    assert result.exit_code == 0, result.output
    for record in RunFolder(Path("runs/study")).records().values():
        first = record.replies[0]
        assert (len(first.tool_calls), first.calls_left_out) == (MOST_CALLS, 20_000 - MOST_CALLS)
        assert (
            "a reply had 128 tool calls that were kept, and 19,872 more that were left out"
            in record.notes
        )
        if len(record.calls) > 1:
            assert any(
                "19992 more calls of this reply were not run; at most 8 are" in note
                for note in record.notes
            )
    assert Path("runs/study/records.jsonl").stat().st_size < 200_000
    replayed = looktwice("replay", "runs/study")
    assert replayed.exit_code == 0, replayed.output


@pytest.mark.parametrize("words", ["one hundred and " * 6250, "hundred hundred " * 90_000])
@pytest.mark.parametrize("reader", [Vlm2("count"), Vlm2()])
def test_number_words_without_end_are_no_count(words: str, reader: Any) -> None:
    """The product had more digits than Python writes, and the reader raised ValueError."""
    state = State(
        Sample("s", "How many?", meta={"subtask": "OC-Cnt"}),
        messages=(Message("assistant", (words,)),),
    )
    read = reader(state, NoModel())
    assert (read.answer, read.reason) == (None, "unread")


def test_a_record_that_nobody_could_read_fails_its_own_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several long replies made a line of more than 256 MiB, which every later command on the
    folder refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("looktwice.eval.records.writer.MOST_LINE", 9_000)
    monkeypatch.setattr("looktwice.pipelines.disk.MOST_LINE", 9_000)

    def script(body: Json, before: int) -> Answer:
        return Answer(
            http(
                200,
                json.dumps(completion("(A)" + "x" * 10_000 * ("agent" not in str(body)))).encode(),
            )
        )

    with hostile_server(script) as server:
        study = STUDY.format(url=server.url).replace(
            "ask: {}", "ask: {stages: {ask: {system: agent}}}"
        )
        Path("study.yaml").write_text(study)
        result = looktwice("run", "study.yaml")
    assert result.exit_code == 1 and "1 sample FAILED" in result.output, result.output
    failed = [record for record in RunFolder(Path("runs/study")).records().values() if record.error]
    assert len(failed) == 1 and "bound them with `max_tokens`" in failed[0].error
    assert looktwice("score", "runs/study").exit_code == 0


def test_a_record_of_many_long_replies_is_read_again() -> None:
    """What bounds the values of one response must not bound a record, in which those of many calls
    stand."""
    record = Record("p", "s", "sha", notes=("," * (MOST_VALUES + 1),))
    assert Record.from_line(record.to_line()) == record
