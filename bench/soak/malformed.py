"""Malformed responses: bodies and headers that a broken or hostile server may send, and the outcome
of each."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.soak.forked import looktwice_each
from bench.soak.hostile_server import (
    Answer,
    Json,
    completion,
    good,
    hostile_server,
    http,
    question_of,
)
from bench.soak.scene import SECRET, Finding, faults, find_keys, finding, looktwice, write_study
from looktwice.eval.records import RunFolder

HALF, CONTROL = "\ud83d", "\x1b[2J\x1b]0;owned\x07\x00\u202e"
NINES = "9" * 4000


def plain(value: Any, *headers: str | bytes) -> bytes:
    """Return a response with this value as its JSON."""
    return http(200, json.dumps(value).encode(), *headers)


def message(**fields: Any) -> Json:
    """Return a completion with other fields in its message."""
    whole = completion()
    whole["choices"][0]["message"].update(fields)
    return whole


def choice(**fields: Any) -> Json:
    """Return a completion with other fields in its choice."""
    whole = completion()
    whole["choices"][0].update(fields)
    return whole


def token(text: Any, logprob: Any = -0.5, top: Any = ()) -> Json:
    """Return a completion with one token's log-probability."""
    return choice(
        logprobs={"content": [{"token": text, "logprob": logprob, "top_logprobs": list(top)}]}
    )


def call(name: Any, arguments: Any, identifier: Any = "c") -> Json:
    """Return a completion that calls a tool."""
    return message(
        tool_calls=[{"id": identifier, "function": {"name": name, "arguments": arguments}}]
    )


def spread(text: str) -> dict[str, Json]:
    """Put a text into every string field of a response."""
    return {
        "content": completion(text),
        "parts": completion([{"type": "text", "text": text}]),
        "reasoning": message(reasoning_content=text),
        "refusal": message(content=None, refusal=text),
        "model": completion(model=text),
        "fingerprint": completion(system_fingerprint=text),
        "provider": completion(provider=text),
        "finish": choice(finish_reason=text),
        "token": token(text, top=[{"token": text, "logprob": -1}]),
        "tool": call(text, text, text),
        "unknown key": completion(**{text: text}),
        "error": {"error": {"message": text, "code": text, "type": text}},
    }


def escaped(text: str) -> bytes:
    """Return a completion whose content consists of JSON escapes."""
    return (
        json.dumps(completion("X"))
        .replace('"X"', '"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"')
        .encode()
    )


def number(written: str) -> bytes:
    """Return a completion whose number of tokens is written like this."""
    return http(
        200, json.dumps(completion(usage={"prompt_tokens": 7})).replace("7", written).encode()
    )


WRONG: tuple[Any, ...] = (5, "x", [], [5], {}, {"x": 1}, True, -1.5)
FIELDS: dict[str, Any] = {
    "choices": lambda value: completion(choices=value),
    "choice": lambda value: completion(choices=[value]),
    "message": lambda value: choice(message=value),
    "content": completion,
    "part": lambda value: completion([value]),
    "finish_reason": lambda value: choice(finish_reason=value),
    "logprobs": lambda value: choice(logprobs=value),
    "logprobs.content": lambda value: choice(logprobs={"content": value}),
    "token": lambda value: token(value, value, [value]),
    "tool_calls": lambda value: message(tool_calls=value),
    "function": lambda value: message(tool_calls=[{"function": value}]),
    "arguments": lambda value: call("zoom", value),
    "refusal": lambda value: message(refusal=value),
    "reasoning": lambda value: message(reasoning_content=value),
    "usage": lambda value: completion(usage=value),
    "prompt_tokens": lambda value: completion(usage={"prompt_tokens": value}),
    "details": lambda value: completion(usage={"completion_tokens_details": value}),
    "model": lambda value: completion(model=value),
    "fingerprint": lambda value: completion(system_fingerprint=value),
    "error": lambda value: {"error": value},
    "error.message": lambda value: {"error": {"message": value}},
    "error.code": lambda value: {"error": {"message": "no", "code": value}},
    "whole": lambda value: value,
}
BODY = json.dumps(completion()).encode()
BOMB = gzip.compress(b" " * (200 << 20), 6)

BYTES: dict[str, bytes] = {
    "an empty body": http(200, b""),
    "spaces": http(200, b" \n" * 1000),
    "half a completion": http(200, BODY[: len(BODY) // 2]),
    "two completions": http(200, BODY + BODY),
    "a BOM": http(200, b"\xef\xbb\xbf" + BODY),
    "UTF-16": http(200, BODY.decode().encode("utf-16")),
    "no UTF-8": http(200, BODY.replace(b"(A)", b"(A)\xff\xfe")),
    "raw half surrogate": http(200, BODY.replace(b"(A)", b"(A)\xed\xa0\xbd")),
    "raw control characters": http(200, BODY.replace(b"(A)", b"(A)\x00\x1b[2J")),
    "100,000 brackets": http(200, b"[" * 100_000),
    "500 objects deep": http(200, b'{"a":' * 500 + b"1" + b"}" * 500),
    "content 90 lists deep": http(200, BODY.replace(b'"(A)"', b"[" * 90 + b"]" * 90)),
    "parts 90 deep": http(
        200, BODY.replace(b'"(A)"', b'[{"type":"text","text":' * 45 + b'"x"' + b"}]" * 45)
    ),
    "usage 1e999": number("1e999"),
    "usage -1e999": number("-1e999"),
    "usage NaN": number("NaN"),
    "usage of 4,000 digits": number(NINES),
    "usage of 5,000 digits": number(NINES + "9" * 1000),
    "a real of 4,000 digits": number(f"0.{NINES}"),
    "usage 1e300": number("1e300"),
    "logprob 1e999": http(200, json.dumps(token("A", 7)).replace("7", "1e999").encode()),
    "2 MB of text": plain(completion("x" * 2_000_000)),
    "100,000 tokens": plain(
        choice(logprobs={"content": [{"token": "a", "logprob": -1}] * 100_000})
    ),
    "20,000 tool calls": plain(
        message(tool_calls=[{"function": {"name": "zoom", "arguments": "{}"}}] * 20_000)
    ),
    "gzip bomb": http(200, BOMB, "Content-Encoding: gzip"),
    "torn gzip": http(200, gzip.compress(BODY)[:-9], "Content-Encoding: gzip"),
    "no gzip": http(200, BODY, "Content-Encoding: gzip"),
    "deflate": http(200, zlib.compress(BODY), "Content-Encoding: deflate"),
    "unknown encoding": http(200, BODY, "Content-Encoding: rot13"),
    "unknown charset": http(200, BODY, "Content-Type: application/json; charset=klingon"),
    "Server: half a surrogate": http(200, BODY, b"Server: \xed\xa0\xbd"),
    "Server: control characters": http(200, BODY, b"Server: \x1b[2J"),
    "Server: the key": http(200, BODY, f"Server: {SECRET}"),
    "a header of 100,000": http(200, BODY, f"X-Long: {'x' * 100_000}"),
    "5,000 headers": http(200, BODY, *(f"X-{n}: 1" for n in range(5000))),
    "a header without a colon": http(200, BODY, "Nonsense"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "HTTP/9.9": BODY,
    "status 99999": http(200, BODY).replace(b"200", b"99999", 1),
    "status 204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "status 206": http(206, BODY),
    "status 302 to a half": http(302, b"", b"Location: http://127.0.0.1/\xed\xa0\xbd"),
    "status 307 to the key": http(307, b"", f"Location: http://127.0.0.1/{SECRET}"),
    "status 418": http(418, b"{}"),
    "status 599 in HTML": http(599, b"<html>" + b"x" * 10_000),
    "length too short": http(200, BODY, length=10),
    "negative length": http(200, BODY, length=-1),
    "two lengths": http(200, BODY, "Content-Length: 3"),
    "broken chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx",
    "Retry-After: -1": http(429, b"{}", "Retry-After: -1"),
    "Retry-After: nan": http(429, b"{}", "Retry-After: nan"),
    "Retry-After of 4,000 digits": http(429, b"{}", f"Retry-After: {NINES}"),
    "Retry-After: year 99999": http(429, b"{}", "Retry-After: Mon, 01 Jan 99999 00:00:00 GMT"),
    "the key in escapes": http(200, escaped(f"(A) {SECRET}")),
    "the key in UTF-16": http(200, json.dumps(completion(f"(A) {SECRET}")).encode("utf-16")),
    "the key in two parts": plain(completion([{"text": SECRET[:9]}, {"text": SECRET[9:]}])),
    "the key at a cut": http(500, json.dumps({"error": {"message": "x" * 285 + SECRET}}).encode()),
}


def responses() -> dict[str, bytes]:
    """Return every malformed response by its name."""
    texts = {"half a surrogate": HALF, "control characters": CONTROL, "the key": f"(A) {SECRET}"}
    found = {
        f"{name} in {place}": plain(v)
        for name, text in texts.items()
        for place, v in spread(text).items()
    }
    for place, build in FIELDS.items():
        found |= {f"{place} is {value!r}": plain(build(value)) for value in WRONG}
    return found | BYTES


def few() -> dict[str, bytes]:
    """Return one response of each kind, for a quick scene."""
    chosen = (
        "half a surrogate in",
        "the key in",
        "is [5]",
        "1e999",
        "5,000 digits",
        "brackets",
        "no gzip",
        "no HTTP",
    )
    return {name: raw for name, raw in responses().items() if any(part in name for part in chosen)}


def malformed(folder: Path, cases: dict[str, bytes] | None = None) -> Iterator[Finding]:
    """Answer each question first with a malformed response, then with a valid one."""
    cases = cases or responses()
    names = list(cases)

    def answer(body: Json, before: int) -> Answer:
        match = re.search(r"case (\d+)\.", question_of(body))
        return (
            Answer(cases[names[int(match[1])]], "bad", cut=True) if match and not before else good()
        )

    with hostile_server(answer) as server:
        questions = (
            text for n in range(len(names)) for text in (f"Is this case {n}.", f"Is {n} even?")
        )
        config = write_study(folder, server.url, questions, timeout=20)
        words = ["run", config, "--out", folder / "runs", "--workers", 64]
        ended = looktwice(*words, url=server.url, seconds=240)
        become = count_outcomes(folder / "runs/study", len(names), server.seen)
        figure = ", ".join(f"{count} {what}" for what, count in become.most_common())
        wrong = faults(ended, {0, 1}) + (["lost"] if become["lost"] else [])
        yield finding("malformed", f"{len(names)} malformed responses", figure, wrong, ended)
        lines = ("score", "score --report", "replay")
        ends = looktwice_each(
            [[*line.split(), folder / "runs/study"] for line in lines], server.url
        )
        for line, ended in zip(lines, ends, strict=True):
            wrong = faults(ended, {0, 1})
            yield finding(
                "malformed", f"{line} of what was recorded", f"exit {ended.code}", wrong, ended
            )
        again = len(server.exchanges)
        ended = looktwice(*words, url=server.url, seconds=120)
        figure = f"{len(server.exchanges) - again} requests, exit {ended.code}"
        yield finding(
            "malformed", "the same command again: what failed", figure, faults(ended, {0}), ended
        )
        yield finding("malformed", "no key in any file", "0 files", find_keys(folder))


def count_outcomes(run: Path, cases: int, seen: Counter[str]) -> Counter[str]:
    """Count the malformed responses that were accepted as a reply, were asked again, or failed
    their sample; samples with odd numbers got none."""
    records = {record.sample: record for record in RunFolder(run).records().values()}
    attempts = {
        match[1]: n for body, n in seen.items() if (match := re.search(r"case (\d+)\.", body))
    }
    become: Counter[str] = Counter()
    for number in range(cases):
        record = records.get(f"s{2 * number}")
        if record is None:
            become["lost"] += 1
        elif record.error:
            become["failed their sample"] += 1
        else:
            become["taken as a reply" if attempts[str(number)] == 1 else "asked for again"] += 1
    return become
