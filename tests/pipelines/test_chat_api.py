"""The endpoint: requests against the openai package's own types, replies and errors of a real
server, keys, stops."""

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from looktwice.pipelines.model import (
    CallOptions,
    Message,
    ModelError,
    Stopped,
    Tool,
    ToolCall,
    Usage,
)
from looktwice.pipelines.models import ChatAPI
from looktwice.pipelines.models.answers import retry_after
from looktwice.pipelines.models.http_client import http_loop
from looktwice.pipelines.models.keys import key_for
from looktwice.pipelines.models.wire import reply_of, wire_messages, wire_options, write_body
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import View
from tests.chat_server import ChatServer, chat_server

PARAMS = TypeAdapter(CompletionCreateParamsNonStreaming)
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
ZOOM = Tool("zoom", "Look closer.", {"type": "object", "properties": {"x": {"type": "integer"}}})


def view(value: int = 0) -> View:
    return View.of(Picture(np.full((4, 6, 3), value, np.uint8)))


def user(*parts: str | View) -> tuple[Message, ...]:
    return (Message("user", parts),)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with chat_server(tmp_path_factory.mktemp("chat") / "log.jsonl") as running:
        yield running


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "LOOKTWICE_KEYS"):
        monkeypatch.delenv(name, raising=False)


def walked(value: Any) -> Any:
    """Plain values; pydantic checks the items of an Iterable only when somebody walks over it."""
    if isinstance(value, Mapping):
        return {name: walked(inner) for name, inner in value.items()}
    return (
        value if isinstance(value, str | int | float | None) else [walked(inner) for inner in value]
    )


LOOK = (
    Message("system", ("Be exact.",)),
    Message("user", ("Left?", view(1), "Or right?", view(2))),
    Message(
        "assistant",
        ("I look closer.",),
        (ToolCall("c1", "zoom", '{"x": 1}'), ToolCall("c2", "zoom", "{}")),
    ),
    Message("tool", ("Here it is.", view(3)), call_id="c1"),
    Message("tool", ("Nothing there.",), call_id="c2"),
)
ASKED: dict[str, tuple[dict[str, Any], tuple[Message, ...], CallOptions]] = {
    "text": ({}, user("What is it?"), CallOptions()),
    "images": (
        {"detail": "high", "system": "You see well."},
        user("Which?", view(), view(9)),
        CallOptions(),
    ),
    "sampling": (
        {"temperature": 0, "top_p": 0.9, "stop": ("\n",)},
        user("a"),
        CallOptions(temperature=1.0, max_tokens=9),
    ),
    "tools": ({"effort": "low"}, LOOK, CallOptions(tools=(ZOOM, Tool("stop", "")), logprobs=2)),
    "schema": (
        {"token_field": "max_completion_tokens", "max_tokens": 5},
        user("a"),
        CallOptions(schema=SCHEMA),
    ),
    "seed": ({"seed": 7, "logprobs": 0}, user("a"), CallOptions(effort="high")),
    "silent turns": (
        {},
        (*user("a"), Message("assistant", ("",), (ToolCall("c", "zoom", "{}"),))),
        CallOptions(),
    ),
    "extra": (
        {"extra": {"min_p": 0.1}, "choices_as": "structured_outputs"},
        user("a"),
        CallOptions(choices=("A", "B")),
    ),
}
BEYOND = {"min_p", "structured_outputs"}


@pytest.mark.parametrize("name", ASKED)
def test_the_wire_agrees_with_openai(server: ChatServer, name: str) -> None:
    settings, messages, options = ASKED[name]
    ChatAPI("m", server.url, **settings)(messages, 2, options)
    sent = server.bodies[-1]
    official = {key: value for key, value in sent.items() if key not in BEYOND}
    assert walked(PARAMS.validate_python(official)) == official, (
        "openai's types drop what they do not know"
    )
    assert sent.keys() & BEYOND == (BEYOND if name == "extra" else set())


CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "zoom", "arguments": '{"x": 1}'}},
    {"id": "c2", "type": "function", "function": {"name": "zoom", "arguments": "{}"}},
]


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        # a single text is no list
        (Message("user", ("Left?",)), {"role": "user", "content": "Left?"}),
        (
            Message("user", ("Left?", "Right?")),
            {
                "role": "user",
                "content": [{"type": "text", "text": "Left?"}, {"type": "text", "text": "Right?"}],
            },
        ),
        (LOOK[2], {"role": "assistant", "content": "I look closer.", "tool_calls": CALLS}),
        (
            Message("assistant", ("",), LOOK[2].tool_calls),
            # servers refuse an empty text there
            {"role": "assistant", "content": None, "tool_calls": CALLS},
        ),
        (Message("assistant", ("",)), {"role": "assistant", "content": ""}),
        (LOOK[4], {"role": "tool", "tool_call_id": "c2", "content": "Nothing there."}),
    ],
)
def test_what_a_turn_looks_like(message: Message, sent: dict[str, Any]) -> None:
    assert wire_messages((message,)) == [sent]


def test_a_schema_is_enforced_to_the_letter() -> None:
    assert wire_options(CallOptions(schema=SCHEMA), "max_tokens", None) == {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
        }
    }


def test_what_is_wanted_overrides_what_is_set() -> None:
    model = ChatAPI(
        "m",
        temperature=0,
        top_p=0.5,
        seed=7,
        stop=("x",),
        max_tokens=3,
        token_field="max_completion_tokens",
    )
    body = model.body(user("a"), 2, CallOptions(temperature=1, logprobs=3, choices=None))
    assert {k: v for k, v in body.items() if k != "messages"} == {
        "model": "m",
        "temperature": 1,
        "top_p": 0.5,
        "seed": 9,
        "stop": ["x"],
        "max_completion_tokens": 3,
        "logprobs": True,
        "top_logprobs": 3,
    }


def test_pictures_are_sent_as_the_kept_bytes_and_a_tools_pictures_follow_it() -> None:
    sent = ChatAPI("m", detail="low").body(LOOK)["messages"]
    assert [turn["role"] for turn in sent] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    shown = LOOK[1].views[0].picture.payload.data_url
    assert sent[1]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": shown, "detail": "low"},
    }
    assert sent[5]["content"][0]["image_url"]["url"] == LOOK[3].views[0].picture.payload.data_url
    with pytest.raises(ModelError, match="user's turn"):
        ChatAPI("m").body((Message("system", (view(),)),))


def test_a_request_is_written_as_json_writes_it() -> None:
    """Pictures are put in after the rest was written; words that look like one stay words."""
    shown = LOOK[1].views[0].picture.payload.data_url
    asked = (
        *LOOK,
        *user(f'"{shown}"\u00e9\n', view(3), shown, '"url":"data:image/png;base64,\u2028"'),
    )
    body = ChatAPI("m", detail="low", system="Speak.", extra={"seen": [shown]}).body(asked)
    assert write_body(body) == json.dumps(body, separators=(",", ":")).encode()
    assert write_body({"model": "m"}) == b'{"model":"m"}'


@pytest.mark.parametrize(
    ("way", "field", "value"),
    [
        ("guided_choice", "guided_choice", ["A+", "B"]),
        ("structured_outputs", "structured_outputs", {"choice": ["A+", "B"]}),
        ("regex", "regex", r"(A\+|B)"),
    ],
)
def test_choices_go_as_the_server_takes_them(way: Any, field: str, value: Any) -> None:
    options = CallOptions(choices=("A+", "B"))
    assert ChatAPI("m", choices_as=way).body(user("a"), 0, options)[field] == value
    with pytest.raises(ModelError, match="choices_as"):
        ChatAPI("m").body(user("a"), 0, options)


REPLIES: dict[str, dict[str, Any]] = {
    "#filter": {"text": "", "finish": "filter"},
    "#400filter": {"text": "", "finish": "filter"},
    "#length": {"text": "It is mostly", "finish": "length"},
    "#empty": {"text": "", "finish": "stop"},
    "#refusal": {"text": "", "finish": "stop", "refusal": "I cannot help with that."},
    "#reasoning": {"reasoning": "Let me look.", "usage": (100, 7, 5, 64)},
    "#openrouter": {"reasoning": "Let me see."},
    "#think": {"text": "<think>hm</think>(A)", "reasoning": ""},
    "#parts": {"text": "(D)", "reasoning": "hm"},
    "#tool": {
        "text": "",
        "finish": "tool",
        "tool_calls": (ToolCall("call_7", "zoom", '{"x": 1}'),),
    },
    "#stoptool": {"finish": "tool", "tool_calls": (ToolCall("call_0", "zoom", '{"x": 1}'),)},
    "#hidden": {"usage": (100, 50, 0, 0)},
    "#half": {"text": "half ?"},
}


@pytest.mark.parametrize("word", REPLIES)
def test_replies_are_read(server: ChatServer, word: str) -> None:
    reply = ChatAPI("m", server.url)(user(word))
    found = {**vars(reply), "usage": tuple(vars(reply.usage).values())}
    assert {name: found[name] for name in REPLIES[word]} == REPLIES[word]
    assert reply.seconds > 0 and not reply.cached and "Python" in reply.served_by["engine"]


def test_a_plain_reply_has_logprobs_and_says_who_served_it(server: ChatServer) -> None:
    reply = ChatAPI("m", server.url)(user("plain"), 0, CallOptions(logprobs=2))
    assert reply.text in {"(A)", "(B)", "(C)", "(D)"} and reply.finish == "stop"
    assert reply.logprobs == ({"(A": -0.5, "(B": -1.0, "(C": -2.0},)
    assert (reply.served_by["model"], reply.served_by["fingerprint"]) == ("m-2026", "fp_test")


def body(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A response body with one choice."""
    logprobs = more.pop("logprobs", None)
    return {
        "choices": [{"message": message, "finish_reason": "stop", "logprobs": logprobs}],
        **more,
    }


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage(0, 0, 0, 0)),
        ({}, Usage(0, 0, 0, 0)),
        (
            {"prompt_tokens": None, "completion_tokens": 3, "completion_tokens_details": {}},
            Usage(0, 3, 0, 0),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}, Usage(10, 3, 0, 0)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 3,
                "total_tokens": 20,
                "completion_tokens_details": {"reasoning_tokens": 7},
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            Usage(10, 10, 7, 4),
        ),
    ],
)
def test_what_a_server_counts(usage: dict[str, Any] | None, expected: Usage) -> None:
    assert reply_of(body({"content": "a"}, usage=usage), 0.0).usage == expected


def test_of_tokens_that_read_alike_the_likeliest_counts() -> None:
    """A token of half a letter may stand there twice, as other bytes; what cannot happen is left
    out."""
    tokens = [("�", -1.0), ("�", -3.0), ("A", -2.0), ("�", -0.5), ("B", float("-inf"))]
    rows = [{"token": token, "logprob": value} for token, value in tokens]
    reply = reply_of(
        body(
            {"content": "a"}, logprobs={"content": [{**rows[0], "top_logprobs": rows[1:]}, rows[2]]}
        ),
        0,
    )
    assert reply.logprobs == ({"�": -0.5, "A": -2.0}, {"A": -2.0})
    assert list(reply.logprobs[0]) == ["�", "A"]


def test_arguments_that_come_as_an_object_are_written_as_they_read() -> None:
    calls = [
        {"function": {"name": "zoom", "arguments": {"on": "Bär"}}},
        {"function": {"name": "stop"}},
    ]
    reply = reply_of(body({"content": None, "tool_calls": calls}), 0.0)
    assert reply.tool_calls == (
        ToolCall("call_0", "zoom", '{"on": "Bär"}'),
        ToolCall("call_1", "stop", "{}"),
    )
    assert (reply.text, reply.finish) == ("", "tool")


def test_an_answer_that_is_no_completion_is_shown_in_200_characters_and_may_be_asked_again() -> (
    None
):
    with pytest.raises(ModelError) as caught:
        reply_of({"détail": "é" * 300}, 0.0)
    shown = '{"détail": "' + "é" * 188
    assert str(caught.value) == f"the answer is no chat completion (KeyError('choices')): {shown}"
    assert caught.value.retryable


ERRORS = {  # word: (status, retryable, what the message holds)
    "#400": (400, False, "Unknown parameter: 'top_k'"),
    "#401": (401, False, "OPENAI_API_KEY"),
    "#404": (404, False, "Not Found; check `url`"),
    "#ollama": (404, False, "try pulling it first"),
    "#gemini": (400, False, "API key not valid"),
    "#quota": (429, False, "quota is used up"),
    "#late": (429, True, "tomorrow"),
    "#inside": (502, True, "Provider returned error"),
    "#redirect": (307, False, "not followed"),
    "#aborted": (200, True, "abort"),
    "fail:429": (429, True, "busy"),
    "fail:500": (500, True, "busy"),
    "fail:408": (408, True, "busy"),
    "fail:reset": (None, True, "broke off"),
    "fail:drop": (None, True, "broke off"),
    "fail:garbage": (None, True, "no JSON"),
}


@pytest.mark.parametrize("word", ERRORS)
def test_errors_say_what_to_do(server: ChatServer, word: str) -> None:
    status, retryable, said = ERRORS[word]
    with pytest.raises(ModelError) as caught:
        ChatAPI("m", server.url)(user(word))
    assert (caught.value.status, caught.value.retryable) == (status, retryable)
    assert caught.value.retry_after == (86400 if word == "#late" else None)
    assert said in str(caught.value) and len(str(caught.value)) < 500


def test_slow_absent_and_unusable_endpoints(server: ChatServer) -> None:
    with (
        chat_server(None, "--delay", "5") as slow,
        pytest.raises(ModelError, match=r"within 0\.2 s") as caught,
    ):
        ChatAPI("m", slow.url, timeout=0.2)(user("a"))
    assert caught.value.retryable
    with pytest.raises(ModelError, match="running"):
        ChatAPI("m", slow.url)(user("a"))
    for url in ("localhost:8000/v1", "file:///etc/passwd", "http://", "http://x/v1?a=b"):
        with pytest.raises(ModelError, match="set `url`"):
            ChatAPI("m", url).check()
    assert ChatAPI("m", f"{server.url}/chat/completions/")(user("a")).text


IN_AN_HOUR = "in an hour"  # said as a date, which the test works out when it runs
WAITS = [
    ({"retry-after": "2"}, 2.0),
    ({"retry-after": "0.25"}, 0.25),
    ({"retry-after": "2", "retry-after-ms": "150"}, 0.15),
    ({"retry-after": formatdate(0, usegmt=True)}, 0.0),
    ({"retry-after": IN_AN_HOUR}, 3600.0),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), WAITS)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    hour = formatdate(time.time() + 3600, usegmt=True)
    headers = {name: hour if value == IN_AN_HOUR else value for name, value in headers.items()}
    assert retry_after(headers) == (
        seconds if not seconds else pytest.approx(seconds, abs=60 if seconds > 60 else 1e-9)
    )


KEYS = [  # (url, OPENAI_BASE_URL, LOOKTWICE_KEYS, key or the words of an error)
    ("https://api.openai.com/v1", "", "", "of-openai"),
    ("https://api.openai.com.evil.example/v1", "", "", None),
    ("https://api.openai.com@evil.example/v1", "", "", "must not hold a user"),
    ("http://api.openai.com/v1", "", "", "use https"),
    ("https://openrouter.ai/api/v1", "", "", "set the environment variable OPENROUTER_API_KEY"),
    ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1", "", "of-openai"),
    ("http://127.0.0.1:8000/v1", "", "", None),
    ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", "", "of-openai"),
    ("http://127.0.0.1:9000/v1", "http://127.0.0.1:8000/v1", "", None),
    ("http://gpu.lab:8000/v1", "http://gpu.lab:8000/v1/", "", "of-openai"),
    ("http://gpu.lab/v1", "https://gpu.lab/v1", "", None),
    ("https://evil.example/v1", "https://gpu.lab/v1", "gpu.lab=MINE", None),
    ("https://gpu.lab/v1", "", "a.b=X, gpu.lab=MINE", "of-mine"),
    ("https://gpu.lab/v1", "", "gpu.lab:8443=MINE", None),
    ("http://gpu.lab/v1", "", "gpu.lab=MINE", "use https"),
    ("http://localhost:1/v1", "", "localhost=MINE", "of-mine"),
    ("https://gpu.lab/v1", "", "gpu.lab=ABSENT", "set the environment variable ABSENT"),
]


@pytest.mark.parametrize(("url", "base", "table", "expected"), KEYS)
def test_a_key_goes_to_its_own_host_alone(
    monkeypatch: pytest.MonkeyPatch, url: str, base: str, table: str, expected: str | None
) -> None:
    keys = {
        "OPENAI_API_KEY": "of-openai\n",
        "MINE": "of-mine",
        "OPENAI_BASE_URL": base,
        "LOOKTWICE_KEYS": table,
    }
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    if expected is None or expected.startswith("of-"):
        assert key_for(url) == expected
    else:
        with pytest.raises(ModelError, match=expected) as caught:
            key_for(url)
        assert not caught.value.retryable and "of-openai" not in str(caught.value)


def test_what_is_really_sent_to_whom(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-openai")
    with chat_server() as foreign, chat_server() as named:
        monkeypatch.setenv("OPENAI_BASE_URL", named.url)
        ChatAPI("m", foreign.url)(user("a"))
        ChatAPI("m")(user("a"))
        with pytest.raises(ModelError, match="provided: \\*\\*\\*") as caught:
            ChatAPI("m")(user("#401"))
        assert "sk-secret" not in str(caught.value)
        assert foreign.stats["authorizations"] == [None]
        assert named.stats["authorizations"] == ["Bearer sk-secret-of-openai"]


def test_identity_holds_what_changes_replies_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")
    plain = ChatAPI("m", "http://127.0.0.1:1/v1", temperature=0)
    same = ChatAPI("m", temperature=0.0, timeout=1, in_flight=2, prices={"in": 1, "out": 2})
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:2/v1")
    assert plain.identity == same.identity and '"endpoint":"127.0.0.1:1/v1"' in plain.identity
    fleet = {ChatAPI("m", f"http://gpu{number}:1/v1", name="fleet").identity for number in (1, 2)}
    assert len(fleet) == 1 and "gpu" not in fleet.pop()
    assert ChatAPI("m", "no url").identity != ChatAPI("m", "none either").identity
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    changes: list[dict[str, Any]] = [
        {"model": "n"},
        {"temperature": 1},
        {"system": "s"},
        {"seed": 0},
        {"detail": "low"},
    ]
    changes += [{"extra": {"min_p": 0.1}}, {"stop": ("a",)}, {"effort": "low"}, {"max_tokens": 1}]
    changes += [{"url": "http://127.0.0.1:2/v1"}, {"url": "http://127.0.0.1:1/v2"}, {"name": "n"}]
    assert (
        len(
            {ChatAPI(**{"model": "m", "temperature": 0, **each}).identity for each in changes}
            | {plain.identity}
        )
        == 13
    )
    with pytest.raises(ValueError, match="stream, temperature"):
        ChatAPI("m", extra={"temperature": 1, "stream": True})


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell lets what it starts in the background ignore interrupts, and children inherit
    that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_or_a_cancel_ends_the_wait_at_once() -> None:
    with chat_server(None, "--delay", "30") as slow:
        main, model = threading.main_thread().ident, ChatAPI("m", slow.url)
        assert main is not None
        start = time.monotonic()
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            model(user("a"))
        threading.Timer(0.3, http_loop().cancel).start()
        with pytest.raises(Stopped):
            model(user("a"))
        assert time.monotonic() - start < 5


def test_a_body_larger_than_any_answer_is_not_read_to_its_end(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("looktwice.pipelines.models.http_client.MOST_BYTES", 100)
    with pytest.raises(ModelError, match="which is no reply") as raised:
        ChatAPI("m", url=server.url)(user("hello"))
    assert not raised.value.retryable, "it was billed, and would be as large again"


def test_half_a_character_in_a_header_becomes_a_question_mark() -> None:
    body = b'{"choices": [{"message": {"content": "(A)"}}]}'
    head = b"HTTP/1.1 200 OK\r\nServer: v\xed\xa0\xbdLLM\r\nContent-Type: application/json\r\n"
    url = serve_once(head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
    reply = ChatAPI("m", url=url)(user("hello"))
    assert reply.text == "(A)"
    assert reply.served_by["engine"].encode()


def serve_once(answer: bytes) -> str:
    """The URL of a server that gives this answer to one request."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        connection.recv(1 << 16)
        connection.sendall(answer)
        connection.close()
        listening.close()

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


SECRET = "sk-a-very-secret-key-0123456789"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, '{"choices": [{"message": {"content": "your key is %s"}}], "model": "%s"}'),
        (401, '{"error": {"message": "Incorrect key: %s"}}'),
        # cut in the middle of the key when it is shortened
        (400, '{"error": {"message": "' + "x" * 285 + ' %s"}}'),
        (500, "%s %s"),
        (307, ""),
    ],
)
def test_a_key_that_a_server_repeats_is_masked(
    status: int, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    data = body.replace("%s", SECRET).encode()
    head = (
        f"HTTP/1.1 {status} X\r\nServer: {SECRET}\r\nLocation:"
        f" http://h/?key={SECRET}\r\nConnection: close\r\n"
    )
    url = serve_once(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    try:
        said = repr(ChatAPI("m", url=url)(user("hello")))
    except ModelError as exc:
        said = str(exc)
    assert SECRET[:12] not in said


@pytest.mark.parametrize(
    "settings", [{"extra": {"api_key": SECRET}}, {"system": f"use {SECRET}"}, {"model": SECRET}]
)
def test_a_key_among_the_settings_is_refused(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with pytest.raises(
        ValueError, match="holds a key, and settings are written into every run"
    ) as raised:
        ChatAPI(**{"model": "m", **settings})
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("entry", ["127.0.0.1={}", "{}", "{}=127.0.0.1", "{}="])
def test_a_key_in_the_table_of_keys_is_named_and_not_repeated(
    entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKTWICE_KEYS", f"other=NAME, {entry.format(SECRET)}")
    with pytest.raises(
        ModelError,
        match=r"LOOKTWICE_KEYS: entry 2 is no HOST=VARIABLE, such as 127\.0\.0\.1=MY_KEY",
    ) as raised:
        ChatAPI("m", url="http://127.0.0.1:1/v1").check()
    assert SECRET not in str(raised.value)


def test_a_refusal_where_no_key_was_sent_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in OPENAI_API_KEY does not go to a server of one's own; to check that key was no
    advice."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    refused = b"HTTP/1.1 401 X\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    url = serve_once(refused)
    with pytest.raises(ModelError, match="no key was sent: keys go only to the host") as raised:
        ChatAPI("m", url=url)(user("hello"))
    advised = str(raised.value).partition("LOOKTWICE_KEYS=")[2].partition(",")[0]
    monkeypatch.setenv("MY_KEY", "another")
    monkeypatch.setenv("LOOKTWICE_KEYS", advised)
    assert key_for(url) == "another"
    monkeypatch.setenv("LOOKTWICE_KEYS", "127.0.0.1=MY_KEY")
    with pytest.raises(ModelError, match="check the key in MY_KEY"):
        ChatAPI("m", url=serve_once(refused))(user("hello"))


def test_a_key_in_the_parts_of_a_refusal_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    parts = ",".join(
        f'{{"type": "refusal", "refusal": "{half}"}}' for half in (SECRET[:9], SECRET[9:])
    )
    body = f'{{"choices": [{{"message": {{"content": [{parts}]}}}}]}}'.encode()
    url = serve_once(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    assert ChatAPI("m", url=url)(user("hello")).refusal == "***"
