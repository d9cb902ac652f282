"""Excessively large replies, texts and files: a documented limit, no hang and no crash."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.soak.hostile_server import Answer, Json, completion, hostile_server, http
from looktwice.eval.readers.open_answers import KIND_READERS, read_open
from looktwice.eval.records import Record, RunFolder
from looktwice.pipelines import Message, Sample, State
from looktwice.pipelines.json_input import MAX_VALUES
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.pipelines.models.wire import MAX_TOOL_CALLS
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.pipeline import NoModel
from tests.counted_work import count_calls
from tests.optional import extension
from tests.under_fire.scenes import RUN, STUDY, records, run_command, write_questions

toolkits = extension("toolkits")


def test_millions_of_empty_lists_are_refused() -> None:
    body = b"[" + b"[]," * (20 << 20) + b"[]]"

    def read() -> None:
        with pytest.raises(ModelError, match="more than 8,000,000 values"):
            read_response(HttpResponse(200, {}, body), "http://127.0.0.1/v1", 0.1)

    assert count_calls(read) < 1000, "they are counted before anything is made of them"


@pytest.mark.slow
@pytest.mark.parametrize("leak", ["", "sk-fire-7Hq2mVx9Zt41Wb8Q"])
def test_a_text_of_very_many_parts_is_joined(leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-fire-7Hq2mVx9Zt41Wb8Q")

    def read(count: int) -> str:
        parts = [*[{"text": "twelve chars"}] * count, {"text": leak}]
        body = json.dumps({"choices": [{"message": {"content": parts}}]}).encode()
        return read_response(HttpResponse(200, {}, body), "http://127.0.0.1/v1", 0.1).text

    assert read(120_000) == "twelve chars" * 120_000 + "***" * bool(leak)
    short, long = (count_calls(partial(read, count)) for count in (1_200, 12_000))
    assert long < 11 * short


def test_digits_of_other_scripts_are_read() -> None:
    for kind in KIND_READERS:
        short, long = (
            count_calls(partial(read_open, "\u0663" * length, kind)) for length in (1000, 10_000)
        )
        assert long < 11 * short + 500, kind


@pytest.mark.parametrize("filler", [b"#" * 10_000_000 + b"\n", b" " * 10_000_000])
def test_an_endless_header_is_not_read(filler: bytes) -> None:
    with pytest.raises(PictureError, match="bytes contain no image size"):
        _ = Picture.encoded(b"P6\n" + filler + b"1 1\n255\nabc").size
    assert Picture.encoded(b"P6 # by hand\n1 1\n255\nabc").size == (1, 1)


@pytest.mark.parametrize("words", ["one hundred and " * 6250, "hundred hundred " * 90_000])
@pytest.mark.parametrize("given", [("count",), ()])
def test_endless_number_words_are_not_a_count(words: str, given: tuple[str, ...]) -> None:
    sample = Sample("s", "How many?", meta={"subtask": "OC-Cnt"})
    read = toolkits.Vlm2(*given)(
        State(sample, messages=(Message("assistant", (words,)),)), NoModel()
    )
    assert (read.answer, read.reason) == (None, "unread")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
def test_a_picture_that_is_too_large_fails_its_own_sample() -> None:
    write_questions(*({"images": [f"{number}.png"]} for number in range(3)))
    Path("study.yaml").write_text(STUDY)
    with Path("own/1.png").open("ab") as file:
        file.truncate(20 << 30)  # sparse: it takes no space on the disk
    run_command(1, "run", "study.yaml")
    (failed,) = (record for record in records().values() if record.error)
    assert (
        "1.png: the image file cannot be read (it has 21,474,836,480 bytes, more than"
        in failed.error
    )


AGENT = """
task: {{use: eval.tasks.Photos, kind: jigsaw, n: 1, quality: 90}}
model: {{use: pipelines.models.ChatAPI, model: tiny, url: "{url}", timeout: 20}}
stages: {{ask: {{use: prompting.turns.Ask}}}}
contestants:
  ask: {{stages: {{ask: {{system: long}}}}}}
  agent: {{stages: {{ask: {{use: prompting.agent.Agent, tools: {{zoom: {{use: \
prompting.agent.Zoom}}}}}}}}}}
"""


def run_agent(script: Any, code: int) -> str:
    with hostile_server(script) as server:
        Path("study.yaml").write_text(AGENT.format(url=server.url))
        return run_command(code, "run", "study.yaml")


@pytest.mark.usefixtures("folder")
def test_a_few_of_twenty_thousand_tool_calls_are_kept_and_all_are_counted() -> None:
    names = (f"c{number}" for number in range(20_000))
    calls = [{"id": name, "function": {"name": "zoom", "arguments": "{}"}} for name in names]
    message = {"content": "", "tool_calls": calls}
    choices = [{"message": message, "finish_reason": "tool_calls"}]

    def script(body: Json, before: int) -> Answer:
        reply = completion(choices=choices) if len(body["messages"]) < 3 else completion()
        return Answer(http(200, json.dumps(reply).encode()))

    run_agent(script, 0)
    for record in RunFolder(RUN).records().values():
        first, notes = record.replies[0], " ".join(record.notes)
        assert (len(first.tool_calls), first.calls_left_out) == (
            MAX_TOOL_CALLS,
            20_000 - MAX_TOOL_CALLS,
        )
        assert "had 128 tool calls that were kept, and 19,872 more that were left out" in notes
        assert len(record.calls) == 1 or "19992 more calls of this reply were not run" in notes
    assert (RUN / "records.jsonl").stat().st_size < 200_000
    run_command(0, "replay", RUN)


@pytest.mark.usefixtures("folder")
def test_an_unreadably_large_record_fails_its_own_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("eval.records.writer", "pipelines.disk"):
        monkeypatch.setattr(f"looktwice.{module}.MAX_LINE_BYTES", 9_000)

    def script(body: Json, before: int) -> Answer:
        text = "(A)" + "x" * 10_000 * ("long" in str(body))
        return Answer(http(200, json.dumps(completion(text)).encode()))

    assert "1 sample FAILED" in run_agent(script, 1)
    (failed,) = (record for record in RunFolder(RUN).records().values() if record.error)
    assert "limit them with `max_tokens`" in failed.error
    run_command(0, "score", RUN)


def test_a_record_of_many_long_replies_can_be_read() -> None:
    record = Record("p", "s", "sha", notes=("," * (MAX_VALUES + 1),))
    assert Record.from_line(record.to_line()) == record
