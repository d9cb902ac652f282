"""Damaged run folders: lines, blobs, cache rows and small files that are truncated, empty or of the
wrong type."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from bench.soak.forked import looktwice_each
from bench.soak.hostile_server import good, hostile_server
from bench.soak.scene import Finding, faults, finding, looktwice, write_study

LINES: dict[str, bytes] = {
    "5": b"5\n",
    "null": b"null\n",
    "{}": b"{}\n",
    "text": b'"x"\n',
    "no JSON": b"hello\n",
    "no UTF-8": b"\xff\xfe\n",
    "zeros": b"\0" * 512 + b"\n",
    "half a surrogate": b'{"point": "\\ud83d", "sample": "\\ud83d", "sample_sha": "", "v": 1}\n',
    "deep": b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n",
    "infinite": b'{"draw": 1e999}\n',
}
SMALL: dict[str, bytes] = {
    "empty": b"",
    "5": b"5",
    "[5]": b"[5]",
    "torn": b"- {id: 'abc",
    "deep": b"[" * 3000,
    "laughs": (
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(
            b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9))
            for n in range(9)
        )
    ),
    "tag": b"!!python/object/apply:os.system ['true']",
}
FIELDS = {
    "draw": (100_000_000, "x", None),
    "calls": (5, [5], [{}]),
    "answer": (5,),
    "sent": ([5],),
    "timings": ([],),
}

Damage = Callable[[Path], None]


def damages() -> dict[str, Damage]:
    """Return every kind of damage by its name; each is applied to the folder that holds `runs`."""
    found: dict[str, Damage] = {}
    for name in ("records.jsonl", "samples.jsonl"):
        found |= {f"{name}: a line {what}": _append(name, line) for what, line in LINES.items()}
        found[f"{name}: empty"] = _write(f"study/{name}", b"")
    for name in ("points.yaml", "run.yaml"):
        found |= {f"{name}: {what}": _write(f"study/{name}", data) for what, data in SMALL.items()}
    for field, values in FIELDS.items():
        found |= {f"records.jsonl: {field} is {value!r}": _change(field, value) for value in values}
    found |= {
        "blobs: empty": _blobs(b""),
        "blobs: torn": _blobs(b'[{"role"'),
        "blobs: gone": _blobs(None),
    }
    found |= {f"cache: a row {text!r}": _row(text) for text in ("5", "", "{}", '{"text": "x')}
    return found | {
        f"cache: {w}": _write(".cache/replies.sqlite", d)
        for w, d in (("empty", b""), ("text", b"hello"))
    }


def _append(name: str, line: bytes) -> Damage:
    def damage(runs: Path) -> None:
        path = runs / "study" / name
        path.write_bytes(line + path.read_bytes())

    return damage


def _write(name: str, data: bytes) -> Damage:
    def damage(runs: Path) -> None:
        (runs / name).write_bytes(data)

    return damage


def _change(field: str, value: object) -> Damage:
    def damage(runs: Path) -> None:
        path = runs / "study/records.jsonl"
        lines = path.read_text().splitlines()
        path.write_text(
            "\n".join([json.dumps(json.loads(lines[0]) | {field: value}), *lines[1:], ""])
        )

    return damage


def _blobs(data: bytes | None) -> Damage:
    def damage(runs: Path) -> None:
        for path in [path for path in (runs / "study/blobs").rglob("*") if path.is_file()]:
            path.unlink()
            if data is not None:
                path.write_bytes(data)

    return damage


def _row(text: str) -> Damage:
    def damage(runs: Path) -> None:
        with closing(sqlite3.connect(runs / ".cache/replies.sqlite")) as connection, connection:
            connection.execute("UPDATE replies SET reply = ?", (text,))
        (runs / "study/records.jsonl").unlink()

    return damage


def damaged(folder: Path, only: str = "") -> Iterator[Finding]:
    """Damage a good run of four questions in each way; every command must continue or report an
    error in a sentence."""
    with hostile_server(lambda body, before: good()) as server:
        config = write_study(folder, server.url, (f"Is {n} even?" for n in range(4)))
        ended = looktwice("run", config, "--out", folder / "runs", url=server.url)
        yield finding("damaged", "a good run", "exit 0", faults(ended, {0}), ended)
        todo = {name: damage for name, damage in damages().items() if re.search(only, name)}
        commands: list[list[object]] = []
        for number, damage in enumerate(todo.values()):
            runs = folder / str(number)
            shutil.copytree(folder / "runs", runs)
            damage(runs)
            run = runs / "study"
            reading = [
                ["score", run],
                ["score", run, "--report"],
                ["view", run, "--sample", "s0"],
                ["replay", run],
            ]
            commands += [
                *reading,
                ["export", run, "--to", "trajectories", "--out", runs / "t.jsonl"],
                ["run", config, "--out", runs],
            ]
        ends = looktwice_each(commands, server.url)
        for number, name in enumerate(todo):
            mine = list(zip(commands[6 * number :], ends[6 * number :], strict=True))[:6]
            wrong = [
                f"{words[0]}: {fault}" for words, end in mine for fault in faults(end, {0, 1, 2})
            ]
            worst = next((end for _, end in mine if faults(end, {0, 1, 2})), None)
            sentence = " ".join(f"{words[0]} {end.code}" for words, end in mine)
            yield finding("damaged", name, sentence, wrong, worst)
