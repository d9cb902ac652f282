"""The endpoint: requests against the openai package's own types, replies and errors of a real
server, keys, stops."""

import json
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines import CallOptions, ChatAPI, Message, Picture, View
from looktwice.pipelines.model import ModelError, Stopped, Tool, ToolCall, Usage
from looktwice.pipelines.models.http_client import get_http_loop
from looktwice.pipelines.models.keys import find_key
from looktwice.pipelines.models.wire import (
    make_wire_messages,
    make_wire_options,
    parse_reply,
    write_request,
)
from tests.chat_server import ChatServer, chat_server
from tests.paths import rows

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
ZOOM = Tool("zoom", "Look closer.", {"type": "object", "properties": {"x": {"type": "integer"}}})
SECRET = "sk-a-very-secret-key-0123456789"


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


@cache
def openai_request() -> Any:
    """The type of a request in OpenAI's own client."""
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    return TypeAdapter(CompletionCreateParamsNonStreaming)


def to_plain(value: Any) -> Any:
    """Return plain values; pydantic checks the items of an Iterable only during iteration."""
    if isinstance(value, Mapping):
        return {name: to_plain(inner) for name, inner in value.items()}
    is_plain = isinstance(value, str | int | float | None)
    return value if is_plain else [to_plain(inner) for inner in value]


TWO_CALLS = (ToolCall("c1", "zoom", '{"x": 1}'), ToolCall("c2", "zoom", "{}"))
LOOK = (
    Message("system", ("Be exact.",)),
    Message("user", ("Left?", view(1), "Or right?", view(2))),
    Message("assistant", ("I look closer.",), TWO_CALLS),
    Message("tool", ("Here it is.", view(3)), call_id="c1"),
    Message("tool", ("Nothing there.",), call_id="c2"),
)
SILENT = (*user("a"), Message("assistant", ("",), (ToolCall("c", "zoom", "{}"),)))
TOOLS = CallOptions(tools=(ZOOM, Tool("stop", "")), logprobs=2)
NEW_FIELD = {"token_field": "max_completion_tokens", "max_tokens": 5}
EXTRA = {"extra": {"min_p": 0.1}, "choices_as": "structured_outputs"}
ASKED: list[tuple[dict[str, Any], tuple[Message, ...], CallOptions]] = [
    ({}, user("What is it?"), CallOptions()),
    ({"detail": "high", "system": "See."}, user("Which?", view(), view(9)), CallOptions()),
    ({"temperature": 0, "top_p": 0.9, "stop": ("\n",)}, user("a"), CallOptions(1.0, max_tokens=9)),
    ({"effort": "low"}, LOOK, TOOLS),
    (NEW_FIELD, user("a"), CallOptions(schema=SCHEMA)),
    ({"seed": 7, "logprobs": 0}, user("a"), CallOptions(effort="high")),
    ({}, SILENT, CallOptions()),
    (EXTRA, user("a"), CallOptions(choices=("A", "B"))),
]
BEYOND = {"min_p", "structured_outputs"}


def test_the_wire_agrees_with_openai(server: ChatServer) -> None:
    for settings, messages, options in ASKED:
        ChatAPI("m", server.url, **settings)(messages, 2, options)
        sent = server.bodies[-1]
        official = {key: value for key, value in sent.items() if key not in BEYOND}
        # openai's types drop unknown fields
        assert to_plain(openai_request().validate_python(official)) == official
        assert sent.keys() & BEYOND == (BEYOND if settings is EXTRA else set())


CALLS = [
    {"id": call.id, "type": "function", "function": {"name": "zoom", "arguments": call.arguments}}
    for call in TWO_CALLS
]
TEXTS = [{"type": "text", "text": "Left?"}, {"type": "text", "text": "Right?"}]


def test_the_format_of_a_turn() -> None:
    turns: dict[Message, dict[str, Any]] = {
        Message("user", ("Left?",)): {"content": "Left?"},  # a single text is not a list
        Message("user", ("Left?", "Right?")): {"content": TEXTS},
        LOOK[2]: {"content": "I look closer.", "tool_calls": CALLS},
        # servers refuse an empty text there
        Message("assistant", ("",), TWO_CALLS): {"content": None, "tool_calls": CALLS},
        Message("assistant", ("",)): {"content": ""},
        LOOK[4]: {"tool_call_id": "c2", "content": "Nothing there."},
    }
    for message, sent in turns.items():
        assert make_wire_messages((message,)) == [{"role": message.role, **sent}]


def test_pictures_of_results_are_sent_where_the_setting_says() -> None:
    result = Message("tool", ("Image 2:", view(), "Done."), call_id="c1")
    data = view().picture.payload
    image = {"type": "image_url", "image_url": {"url": data}}
    texts = [{"type": "text", "text": text} for text in ("Image 2:", "Done.")]
    inside = {"role": "tool", "tool_call_id": "c1", "content": [texts[0], image, texts[1]]}
    plain = inside | {"content": "Image 2:\nDone."}
    after = {"role": "user", "content": [image]}
    sent = {"user": [plain, after], "tool": [inside], "both": [inside, after]}
    for pictures, turns in sent.items():
        model = ChatAPI("m", pictures=pictures)  # type: ignore[arg-type]
        assert model.make_body((result,))["messages"] == turns
        assert (model.identity == ChatAPI("m").identity) is (pictures == "user")


def test_schemas_are_strict_and_tools_can_be_required_or_named() -> None:
    (form,) = make_wire_options(CallOptions(schema=SCHEMA), "max_tokens", None).values()
    schema = {"name": "reply", "schema": SCHEMA, "strict": True}
    assert form == {"type": "json_schema", "json_schema": schema}
    named = {"type": "function", "function": {"name": "zoom"}}
    for called, choice in ((None, "auto"), ("none",) * 2, ("required",) * 2, ("zoom", named)):
        options = CallOptions(tools=(Tool("zoom", "crops"),), tool_choice=called)
        assert make_wire_options(options, "max_tokens", None)["tool_choice"] == choice


def test_arguments_of_a_call_override_settings() -> None:
    settings = {"temperature": 0, "top_p": 0.5, "seed": 7, "stop": ("x",), **NEW_FIELD}
    wanted = CallOptions(temperature=1, logprobs=3, schema={}, top_k=5)
    model = ChatAPI("m", extra={"top_k": 9}, **settings)  # type: ignore[arg-type]
    body = model.make_body(user("a"), 2, wanted)
    del body["messages"]
    assert body == {
        "model": "m",
        "temperature": 1,
        "top_p": 0.5,
        "seed": 9,
        "stop": ["x"],
        "max_completion_tokens": 5,
        "logprobs": True,
        "top_logprobs": 3,
        "top_k": 5,
        "response_format": {"type": "json_object"},
    }


def test_pictures_are_sent_as_stored_bytes_and_after_their_tool_turn() -> None:
    sent = ChatAPI("m", detail="low").make_body(LOOK)["messages"]
    roles = [turn["role"] for turn in sent]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    for part, shown in ((sent[1]["content"][1], LOOK[1]), (sent[5]["content"][0], LOOK[3])):
        image = {"url": shown.views[0].picture.payload, "detail": "low"}
        assert part == {"type": "image_url", "image_url": image}
    with pytest.raises(ModelError, match="user's turn"):
        ChatAPI("m").make_body((Message("system", (view(),)),))


def test_a_request_body_is_valid_json_with_any_pictures() -> None:
    words = 'say "data:image/png;base64,A" \\ \u00e9\n' * 300
    body = ChatAPI("m", extra={"x": [1, {"y": None}]}).make_body((*LOOK, *user(words)))
    urls = attrgetter("data_url")
    assert write_request(body) == json.dumps(body, separators=(",", ":"), default=urls).encode()


def test_choices_are_sent_in_the_form_that_the_server_accepts() -> None:
    options, ways = CallOptions(choices=("A+", "B")), {"guided_choice": ["A+", "B"]}
    forms = ways | {"structured_outputs": {"choice": ["A+", "B"]}, "regex": r"(A\+|B)"}
    for way, value in forms.items():
        assert ChatAPI("m", choices_as=way).make_body(user("a"), 0, options)[way] == value  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="choices_as"):
        ChatAPI("m").make_body(user("a"), 0, options)


ZOOMED = {"finish": "tool", "tool_calls": (ToolCall("call_0", "zoom", '{"x": 1}'),)}
REPLIES: dict[str, dict[str, Any]] = {
    "#filter": {"text": "", "finish": "filter"},
    "#400filter": {"text": "", "finish": "filter"},
    "#length": {"text": "It is mostly", "finish": "length"},
    "#empty": {"text": "", "finish": "stop"},
    "#refusal": {"text": "", "finish": "stop", "refusal": "I cannot help with that."},
    "#reasoning": {"reasoning": "Let me look.", "usage": Usage(100, 7, 5, 64)},
    "#openrouter": {"reasoning": "Let me see."},
    "#think": {"text": "<think>hm</think>(A)", "reasoning": ""},
    "#parts": {"text": "(D)", "reasoning": "hm"},
    "#tool": ZOOMED | {"text": "", "tool_calls": (ToolCall("call_7", "zoom", '{"x": 1}'),)},
    "#stoptool": ZOOMED,
    "#hidden": {"usage": Usage(100, 50, 0, 0)},
    "#half": {"text": "half ?"},
}


def test_replies_are_read(server: ChatServer) -> None:
    for word, expected in REPLIES.items():
        reply = ChatAPI("m", server.url)(user(word))
        assert {name: getattr(reply, name) for name in expected} == expected, word
        assert reply.seconds > 0 and not reply.cached and "Python" in reply.served_by["engine"]


def test_a_plain_reply_has_logprobs_and_names_its_server(server: ChatServer) -> None:
    reply = ChatAPI("m", server.url)(user("plain"), 0, CallOptions(logprobs=2))
    assert reply.text in {"(A)", "(B)", "(C)", "(D)"} and reply.finish == "stop"
    assert reply.logprobs == ({"(A": -0.5, "(B": -1.0, "(C": -2.0},)
    assert (reply.served_by["model"], reply.served_by["fingerprint"]) == ("m-2026", "fp_test")


def body(message: dict[str, Any], logprobs: Any = None, **more: Any) -> dict[str, Any]:
    """A response body with one choice."""
    choice = {"message": message, "finish_reason": "stop", "logprobs": logprobs}
    return {"choices": [choice], **more}


DETAILS = {
    "completion_tokens_details": {"reasoning_tokens": 7},
    "prompt_tokens_details": {"cached_tokens": 4},
}


def test_token_counts_of_a_server() -> None:
    few = {"prompt_tokens": 10, "completion_tokens": 3}
    for usage, expected in (
        (None, (0, 0)),
        ({}, (0, 0)),
        ({"prompt_tokens": None, "completion_tokens": 3, "completion_tokens_details": {}}, (0, 3)),
        (few | {"total_tokens": 13}, (10, 3)),
        (few | {"total_tokens": 20} | DETAILS, (10, 10, 7, 4)),
    ):
        assert parse_reply(body({"content": "a"}, usage=usage), 0.0).usage == Usage(*expected)


def test_the_most_likely_of_equal_tokens_counts() -> None:
    tokens = [("�", -1.0), ("�", -3.0), ("A", -2.0), ("�", -0.5), ("B", -np.inf)]
    rows = [{"token": token, "logprob": value} for token, value in tokens]
    likely = {"content": [{**rows[0], "top_logprobs": rows[1:]}, rows[2]]}
    reply = parse_reply(body({"content": "a"}, logprobs=likely), 0)
    assert reply.logprobs == ({"�": -0.5, "A": -2.0}, {"A": -2.0})
    assert list(reply.logprobs[0]) == ["�", "A"]


def test_arguments_given_as_an_object_are_written_as_json() -> None:
    calls = [{"name": "zoom", "arguments": {"on": "Bär"}}, {"name": "stop"}]
    message = {"content": None, "tool_calls": [{"function": call} for call in calls]}
    reply = parse_reply(body(message), 0.0)
    written = [(call.id, call.name, call.arguments) for call in reply.tool_calls]
    assert written == [("call_0", "zoom", '{"on": "Bär"}'), ("call_1", "stop", "{}")]
    assert (reply.text, reply.finish) == ("", "tool")


def test_a_response_that_is_not_a_completion_is_quoted_and_can_be_retried() -> None:
    with pytest.raises(ModelError) as caught:
        parse_reply({"détail": "é" * 300}, 0.0)
    assert str(caught.value).endswith('{"détail": "' + "é" * 188) and caught.value.retryable


@pytest.mark.parametrize(("word", "status", "again", "said"), rows(__file__, "errors.tsv"))
def test_errors_give_advice(
    server: ChatServer, word: str, status: str, again: str, said: str
) -> None:
    with pytest.raises(ModelError) as caught:
        ChatAPI("m", server.url)(user(word))
    assert (str(caught.value.status or ""), caught.value.retryable) == (status, bool(again))
    assert caught.value.retry_after == (86400 if word == "#late" else None)
    assert said in str(caught.value) and len(str(caught.value)) < 500


def test_slow_missing_and_unusable_endpoints(server: ChatServer) -> None:
    with chat_server(None, "--delay", "5") as slow:
        with pytest.raises(ModelError, match=r"within 0\.2 s") as caught:
            ChatAPI("m", slow.url, timeout=0.2)(user("a"))
        assert caught.value.retryable
    with pytest.raises(ModelError, match="running"):
        ChatAPI("m", slow.url)(user("a"))
    for url in ("localhost:8000/v1", "file:///etc/passwd", "http://", "http://x/v1?a=b"):
        with pytest.raises(ModelError, match="set `url`"):
            ChatAPI("m", url).check()
    assert ChatAPI("m", f"{server.url}/chat/completions/")(user("a")).text


@pytest.mark.parametrize(("url", "base", "table", "expected"), rows(__file__, "keys.tsv"))
def test_a_key_is_sent_only_to_its_own_host(
    monkeypatch: pytest.MonkeyPatch, url: str, base: str, table: str, expected: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai\n")
    for name, value in (("MINE", "of-mine"), ("OPENAI_BASE_URL", base), ("LOOKTWICE_KEYS", table)):
        monkeypatch.setenv(name, value)
    if expected == "no key" or expected.startswith("of-"):
        assert (find_key(url) or "no key") == expected
    else:
        with pytest.raises(ModelError, match=expected) as caught:
            find_key(url)
        assert not caught.value.retryable and "of-openai" not in str(caught.value)


def test_what_each_host_receives(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_identity_covers_whatever_changes_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")
    plain = ChatAPI("m", "http://127.0.0.1:1/v1", temperature=0)
    same = ChatAPI("m", temperature=0.0, timeout=1, in_flight=2, prices={"in": 1, "out": 2})
    named: dict[str, Any] = {"model": "n", "temperature": 1, "system": "s", "seed": 0, "name": "n"}
    named |= {"detail": "low", "extra": {"min_p": 0.1}, "stop": ("a",), "effort": "low"}
    changes = [*({name: value} for name, value in named.items()), {"max_tokens": 1}]
    changes += [{"url": f"http://127.0.0.1:{place}"} for place in ("2/v1", "1/v2")]
    changed = [ChatAPI(**{"model": "m", "temperature": 0, **change}) for change in changes]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:2/v1")
    assert plain.identity == same.identity and '"endpoint":"127.0.0.1:1/v1"' in plain.identity
    assert len({model.identity for model in (plain, *changed)}) == 1 + len(changes) == 13
    fleet = {ChatAPI("m", f"http://gpu{number}:1/v1", name="fleet").identity for number in (1, 2)}
    assert len(fleet) == 1 and "gpu" not in fleet.pop()
    assert ChatAPI("m", "no url").identity != ChatAPI("m", "none either").identity
    with pytest.raises(ValueError, match="stream, temperature"):
        ChatAPI("m", extra={"temperature": 1, "stream": True})


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Enable interrupts, which shells disable in background processes and their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_or_a_cancel_ends_the_wait_at_once() -> None:
    with chat_server(None, "--delay", "120") as slow:
        main, model = threading.main_thread().ident, ChatAPI("m", slow.url)
        assert main is not None
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            model(user("a"))
        threading.Timer(0.3, get_http_loop().cancel).start()
        with pytest.raises(Stopped):
            model(user("a"))
        assert slow.stats["replies"] == 0


def test_an_oversized_body_is_not_read(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("looktwice.pipelines.models.http_client.MAX_RESPONSE_BYTES", 100)
    with pytest.raises(ModelError, match="too much for a reply") as raised:
        ChatAPI("m", url=server.url)(user("hello"))
    assert not raised.value.retryable, "it was billed, and would be as large again"


def serve_once(body: bytes, status: int = 200, *headers: bytes) -> ChatAPI:
    """Return the model of a server that gives this answer to one request."""
    lines = [f"HTTP/1.1 {status} X".encode(), b"Connection: close", *headers]
    answer = b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        connection.recv(1 << 16)
        connection.sendall(answer)
        connection.close()
        listening.close()

    threading.Thread(target=serve, daemon=True).start()
    return ChatAPI("m", url=f"http://127.0.0.1:{listening.getsockname()[1]}/v1")


def test_an_echoed_key_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    headers = (f"Server: {SECRET}".encode(), f"Location: http://h/?key={SECRET}".encode())
    for status, answer in (
        (200, '{"choices": [{"message": {"content": "your key is %s"}}], "model": "%s"}'),
        (401, '{"error": {"message": "Incorrect key: %s"}}'),
        # truncated in the middle of the key
        (400, '{"error": {"message": "' + "x" * 285 + ' %s"}}'),
        (500, "%s %s"),
        (307, ""),
    ):
        model = serve_once(answer.replace("%s", SECRET).encode(), status, *headers)
        try:
            said = repr(model(user("hello")))
        except ModelError as exc:
            said = str(exc)
        assert SECRET[:12] not in said
    parts = [{"type": "refusal", "refusal": half} for half in (SECRET[:9], SECRET[9:])]
    said = json.dumps(body({"content": parts}))
    assert serve_once(said.encode())(user("hello")).refusal == "***"


def test_a_key_in_the_table_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in ("127.0.0.1={}", "{}", "{}=127.0.0.1", "{}="):
        monkeypatch.setenv("LOOKTWICE_KEYS", f"other=NAME, {entry.format(SECRET)}")
        with pytest.raises(ModelError, match="LOOKTWICE_KEYS: entry 2") as raised:
            ChatAPI("m", url="http://127.0.0.1:1/v1").check()
        assert SECRET not in str(raised.value)


def test_a_lone_surrogate_in_a_header_becomes_a_question_mark() -> None:
    answer = b'{"choices": [{"message": {"content": "(A)"}}]}'
    reply = serve_once(answer, 200, b"Server: v\xed\xa0\xbdLLM")(user("hello"))
    assert reply.text == "(A)" and reply.served_by["engine"].encode()


def test_a_refusal_without_a_sent_key_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    model = serve_once(b"{}", 401)
    with pytest.raises(ModelError, match="no key was sent") as raised:
        model(user("hello"))
    advised = str(raised.value).partition("LOOKTWICE_KEYS=")[2].partition(",")[0]
    monkeypatch.setenv("MY_KEY", "another")
    monkeypatch.setenv("LOOKTWICE_KEYS", advised)
    assert find_key(model.endpoint) == "another"
    monkeypatch.setenv("LOOKTWICE_KEYS", "127.0.0.1=MY_KEY")
    with pytest.raises(ModelError, match="MY_KEY"):
        serve_once(b"{}", 401)(user("hello"))
