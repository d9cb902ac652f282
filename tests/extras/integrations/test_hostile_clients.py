"""Access control, and the handling of unauthorised clients and invalid requests."""

from __future__ import annotations

import gc
import http.client
import json
import resource
import socket
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from looktwice.extras.integrations import http_gate
from looktwice.extras.integrations.command import make_pocket_plan
from tests.extras.integrations.served import OPENER, Served, post, questions, serving, turn
from tests.first_day.studies import looktwice
from tests.tables import table

URL, WORDS = questions(1)[0]
GOOD = {"model": "pocket", "messages": [turn(URL, WORDS)]}


@pytest.fixture(scope="module")
def pocket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(make_pocket_plan(), tmp_path_factory.mktemp("served")) as served:
        yield served


DEEP = b'{"model": "pocket", "messages": ' + b"[" * 100_000


@table
def test_invalid_requests_get_one_sentence(
    form: str, body: Any, headers: dict[str, str], status: int, words: str, pocket: Served
) -> None:
    texts = {"no JSON": b"{", "nested": DEEP, "a list": b"[1]"}
    texts["many values"] = b'{"x": [' + b"0," * 1_000_000 + b"0]}"
    if form == "half a surrogate":
        body = {"messages": [turn("\ud83d")]}
    elif form in texts:
        body = texts[form]
    elif form.startswith("good"):
        body = GOOD | body
    before = len(pocket.records)
    answer = post(pocket.url, body, **headers)
    assert (answer.status, words in answer.error["message"]) == (status, True), answer
    assert len(pocket.records) == before
    assert post(pocket.url, GOOD).status == 200


def connect(served: Served, **headers: str) -> http.client.HTTPConnection:
    """Open a separate connection and start a request with these headers."""
    client = http.client.HTTPConnection(served.url.split("/")[2], timeout=30)
    if headers:
        client.putrequest("POST", "/v1/chat/completions")
        client.putheader("Content-Type", "application/json")
        for name, value in headers.items():
            client.putheader(name.replace("_", "-"), value)
    return client


def wait_until_free(served: Served) -> None:
    until = time.monotonic() + 100
    while served.gate.held_bytes and time.monotonic() < until:
        time.sleep(0.01)  # other connections may still be closing
    assert served.gate.held_bytes == 0


def test_a_large_body_is_refused_before_it_is_read(pocket: Served) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for length in ({"Content_Length": str(200 << 20)}, {"Transfer_Encoding": "chunked"}):
        client = connect(pocket, **length)
        client.endheaders()
        if "Content_Length" not in length:
            with suppress(OSError):
                for _ in range(200):
                    client.send(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
        try:
            with client.getresponse() as answer:
                assert answer.status == 413
        except (ConnectionError, http.client.BadStatusLine):
            assert "Content_Length" not in length, "it was reported before"
        client.close()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 192 << 10, f"{grown} KiB"


LARGE = b'{"model": "nobody", "messages": [{"role": "user", "content": "' + b"x" * (4 << 20)
LARGE_BODIES = {
    "no JSON": (LARGE, 400),
    "an unknown model": (LARGE + b'"}]}', 404),
    "a wrong option": (LARGE + b'"}], "n": 1000}', 400),
    "broken off": (LARGE, None),
    "too slow": (LARGE, 408),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", LARGE_BODIES)
def test_large_bodies_are_freed(form: str, pocket: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collection of reference cycles is off, because a server rarely runs it."""
    body, status = LARGE_BODIES[form]
    if status == 408:
        monkeypatch.setattr(http_gate, "READ_TIMEOUT_SECONDS", 0.5)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            client = connect(pocket, Content_Length=str(len(body) + (status in (None, 408))))
            client.endheaders(body)
            if status is not None:
                with client.getresponse() as answer:
                    assert (answer.status, answer.read()[:9]) == (status, b'{"error":')
            client.close()
        wait_until_free(pocket)
        time.sleep(0.1)  # the handlers end after releasing their memory
        assert tracemalloc.get_traced_memory()[0] - before < len(body)
    finally:
        tracemalloc.stop()
        gc.enable()


NO_HTTP = {
    "a long header": b"X: " + b"a" * 20_000 + b"\r\n\r\n",
    "a header without an end": b"X: " + b"a" * 200_000,
    "a long name": b"a" * 20_000 + b": x\r\n\r\n",
    "many headers": b"".join(b"X%d: y\r\n" % number for number in range(40_000)) + b"\r\n",
    "no header": b": : \x00\r\n\r\n",
    "no chunk": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "no length": b"Content-Length: -5\r\n\r\n",
    "not packed": b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
    "no host": b"Host: [::x\r\n\r\n",
}


@pytest.mark.parametrize("form", [*NO_HTTP, "a long line", "no HTTP"])
def test_malformed_http_gets_a_status(
    form: str, pocket: Served, caplog: pytest.LogCaptureFixture
) -> None:
    kind = b"Content-Type: application/json\r\n"
    head = b"POST /v1/chat/completions HTTP/1.1\r\n" + kind
    raw = head + (b"" if form == "no host" else b"Host: 127.0.0.1\r\n") + NO_HTTP.get(form, b"")
    if form == "a long line":
        raw = b"GET /v1/" + b"m" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    elif form == "no HTTP":
        raw = b"\x16\x03\x01\x02\x00\x01\xfc\x03\r\n\r\n"
    with socket.create_connection(("127.0.0.1", connect(pocket).port), timeout=10) as client:
        client.sendall(raw)
        status = client.recv(100).split()[1]
    assert status == (b"403" if form == "no host" else b"400")
    time.sleep(0.05)
    assert not caplog.records
    assert post(pocket.url, GOOD).status == 200


def test_an_internal_error_is_logged_with_its_traceback(
    pocket: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(pocket.gate, "list_models", broken)
    monkeypatch.setattr(type(pocket.gate), "respond", broken)
    assert post(pocket.url, GOOD).status == 500
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [
        ZeroDivisionError
    ]


@pytest.mark.slow
def test_idle_and_unfinished_connections_delay_nobody(pocket: Served) -> None:
    host, port = pocket.url.split("/")[2].split(":")
    idle = [socket.create_connection((host, int(port)), timeout=10) for _ in range(200)]
    for number, client in enumerate(idle):
        if number % 2:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            client.sendall(b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
    assert post(pocket.url, GOOD).status == 200
    for client in idle:
        client.close()


def test_unfinished_requests_time_out(pocket: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_gate, "READ_TIMEOUT_SECONDS", 0.1)
    client = connect(pocket, Content_Length="99")
    client.endheaders(b"{")
    with client.getresponse() as answer:
        assert answer.status == 408
    client.close()


def test_memory_for_requests_is_bounded(pocket: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_gate, "MAX_HELD_BYTES", 1000)
    answer = post(pocket.url, GOOD)
    assert answer.status == 503 and answer.headers["Retry-After"] == "1"
    monkeypatch.undo()
    assert post(pocket.url, GOOD).status == 200
    wait_until_free(pocket)


def test_only_clients_with_the_token_are_admitted(tmp_path: Path) -> None:
    with serving(make_pocket_plan(), tmp_path, token="a-token") as served:
        wrong = (("Bearer another", 401), ("", 401), ("Bearer \xff", 401))
        for given, status in (*wrong, ("Bearer a-token", 200)):
            assert post(served.url, GOOD, Authorization=given).status == status
        assert post(served.url, GOOD, Authorization="Bearer a-token", Host="h").status == 200
    text = (served.run / "records.jsonl").read_text()
    assert "a-token" not in text


@table
def test_insecure_settings_are_refused(tmp_path: Path, words: list[str], says: str) -> None:
    result: Result = looktwice("serve", *words, "--out", tmp_path)
    assert result.exit_code == 2 and says in result.output


def test_a_study_from_another_folder_stays_fenced(tmp_path: Path) -> None:
    study = tmp_path / "study" / "study.yaml"
    study.parent.mkdir()
    study.write_text(
        "tasks: {q: {use: eval.tasks.Folder, path: /etc}}\n"
        "model: {use: pipelines.models.Pocket}\n"
        "stages: {ask: {use: prompting.turns.Ask}}\n"
    )
    result = looktwice("serve", study, "--out", tmp_path)
    assert result.exit_code == 2 and "lies outside" in result.output


def test_an_address_in_use_is_reported(pocket: Served, tmp_path: Path) -> None:
    port = pocket.url.split(":")[2].split("/")[0]
    result = looktwice("serve", "pocket", "--port", port, "--out", tmp_path)
    assert result.exit_code == 2 and "cannot be used" in result.output
    assert json.loads(OPENER.open(f"{pocket.url}/models", timeout=10).read())["object"] == "list"
