"""A tap between a client and a server changes nothing and records everything."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.recorded.replay import replay
from looktwice.eval.records import RunFolder
from looktwice.extras.integrations.command import make_pocket_plan
from looktwice.extras.integrations.tap import split_choices
from looktwice.pipelines.models.http_client import HttpResponse
from tests.chat_server import chat_server
from tests.extras.integrations.served import post, questions, serving, tapping, turn
from tests.optional import optional

openai = optional("openai")
URL, WORDS = questions(1)[0]
ZOOM = {"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}


def test_the_body_is_forwarded_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_server(tmp_path / "log") as upstream:
        host = upstream.url.split("/")[2]
        monkeypatch.setenv("LOOKTWICE_KEYS", f"{host}=TAP_KEY")
        monkeypatch.setenv("TAP_KEY", "the-servers-own")
        image = {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}
        turns = [{"role": "user", "content": [image, {"type": "text", "text": WORDS}]}]
        body = {"model": "tiny", "messages": turns, "temperature": 0.5, "top_k": 7}
        raw = json.dumps(body | {"vendor": {"a": [1]}}, separators=(" ,", " : ")).encode()
        with tapping(upstream.url, tmp_path) as served:
            direct = post(upstream.url, raw)
            answer = post(served.url, raw, Authorization="Bearer the-clients-own")
        assert (answer.status, answer.text) == (direct.status, direct.text)
        assert (tmp_path / "log").read_bytes() == raw + b"\n" + raw + b"\n"
        assert set(upstream.stats["authorizations"]) == {None, "Bearer the-servers-own"}
    [record] = served.records
    assert record.calls[0]["options"] == {"temperature": 0.5, "top_k": 7}
    sent = {"sent.vendor": '{"a":[1]}', "sent.detail": '["low"]'}
    assert dict(record.measured or {}) == sent
    [point] = RunFolder(served.run).points.values()
    assert point.contestant == "tiny"
    [sample] = served.samples.values()
    assert sample.question == f"<image 1>{WORDS}"
    assert sample.images[0].payload.data_url == URL
    assert replay(served.run).same_count == 1
    files = [file for file in served.run.rglob("*") if file.is_file()]
    assert not any("the-clients-own" in file.read_text(errors="replace") for file in files)


def test_streams_tools_and_draws_are_recorded_unchanged(tmp_path: Path) -> None:
    with serving(make_pocket_plan(), tmp_path) as pocket, tapping(pocket.url, tmp_path) as served:
        create = served.client.chat.completions.create
        asked: Any = {"model": "pocket", "messages": [turn(URL, WORDS)], "n": 2, "logprobs": True}
        whole = create(**asked)
        pieces = ["", ""]
        counted = {"stream_options": {"include_usage": True}}
        chunks = list(create(**asked, **counted, stream=True))
        for choice in (choice for chunk in chunks for choice in chunk.choices):
            pieces[choice.index] += choice.delta.content or ""
        assert pieces == [choice.message.content for choice in whole.choices]
        assert [model.id for model in served.client.models.list()] == ["pocket"]
    replies = [record.replies[0] for record in served.records]
    assert [reply.text for reply in replies] == pieces * 2
    assert [record.calls[0]["draw"] for record in served.records] == [0, 1, 0, 1]
    assert replies[0].logprobs == replies[2].logprobs != ()
    assert replies[0].usage.tokens_in == replies[2].usage.tokens_in == whole.usage.prompt_tokens
    assert replay(served.run).same_count == 4


def test_refusals_of_the_server_are_forwarded_and_recorded(tmp_path: Path) -> None:
    with (
        chat_server(None, "--retry-after", "7") as upstream,
        tapping(upstream.url, tmp_path) as served,
    ):
        for words, status in (("fail:429", 429), ("#400", 400), ("#tool", 200)):
            body = {"model": "m", "messages": [turn(words)], "tools": [ZOOM]}
            answer = post(served.url, body)
            assert answer.status == status
            assert answer.headers.get("Retry-After") == ("7" if status == 429 else None)
    with tapping(upstream.url, tmp_path, "dead") as dead:
        answer = post(dead.url, {"model": "m", "messages": [turn("Well?")]})
        assert answer.status == 502 and "cannot be reached" in answer.error["message"]
    errors = [record.error.splitlines()[:1] for record in served.records]
    assert ["answered 429" in str(error) for error in errors] == [True, False, False]
    assert errors[2] == [] and served.records[2].replies[0].tool_calls[0].name == "zoom"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "audio", "x": 1}]}]}, '"audio"'),
        ({"messages": [turn("http://127.0.0.1:9/x.png")]}, "http://127.0.0.1:9/x.png"),
        ({"messages": [turn("Well?")], "temperature": "hot"}, "Well?"),
    ],
)
def test_unknown_paths_are_forwarded(body: dict[str, Any], words: str, tmp_path: Path) -> None:
    with chat_server(tmp_path / "log") as upstream:
        with tapping(upstream.url, tmp_path) as served:
            post(served.url, {"model": "m"} | body)
            post(served.url, b'["{"]')
        assert upstream.bodies[0]["messages"] == body["messages"]
    [sample] = served.samples.values()
    assert words in sample.question
    [record] = served.records
    if "temperature" in body:
        assert (record.measured or {})["sent.temperature"] == '"hot"'
    [sentence] = served.messages
    assert sentence.startswith("forwarded a request that cannot be recorded")


CHUNK = b'data: {"choices": [{"index": 0, "delta": {"content": "blue"}}]}\n\n'
BODIES = {
    "comments of OpenRouter": (b": OPENROUTER PROCESSING\n\n" + CHUNK, "blue"),
    "events with names": (b"event: message\nid: 1\n" + CHUNK, "blue"),
    "no choices": (b'{"choices": null, "error": {"message": "busy"}}', None),
    "a list as an event": (b"data: [1]\n\n", None),
    "a gateway": (b"Bad gateway", None),
}


@pytest.mark.parametrize(("body", "content"), BODIES.values(), ids=BODIES)
def test_every_body_is_parsed_or_forwarded_whole(body: bytes, content: str | None) -> None:
    came = HttpResponse(200, {}, body)
    [answer] = split_choices(came)
    if content is None:
        assert answer is came
    else:
        assert json.loads(answer.body)["choices"][0]["message"]["content"] == content


@contextmanager
def serve_and_break(head: bytes) -> Iterator[str]:
    """Run a server that sends this and disconnects."""

    def serve() -> None:
        client, _ = server.accept()
        with client:
            client.recv(1 << 16)
            client.sendall(head)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        thread.join()


def test_a_broken_stream_breaks_for_the_client_and_gives_no_answer(tmp_path: Path) -> None:
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    size = b"%x\r\n" % len(CHUNK)
    head = kind + b"Transfer-Encoding: chunked\r\n\r\n" + size + CHUNK + b"\r\n"
    with serve_and_break(head) as url, tapping(url, tmp_path) as served:
        body = {"model": "tiny", "messages": [turn(WORDS)], "stream": True}
        host, port = served.url.split("/")[2].split(":")
        with socket.create_connection((host, int(port)), timeout=5) as client:
            raw = json.dumps(body).encode()
            lines = "POST /v1/chat/completions HTTP/1.1", f"Host: {host}:{port}"
            kinds = "Content-Type: application/json", f"Content-Length: {len(raw)}", "", ""
            client.sendall("\r\n".join((*lines, *kinds)).encode() + raw)
            answer = b""
            while piece := client.recv(1 << 16):
                answer += piece
        assert answer.count(b"HTTP/1.1") == 1
        assert CHUNK in answer
        assert not answer.endswith(b"0\r\n\r\n")
    [record] = served.records
    assert "broke off" in (record.error or "")
