"""Run folders with damage: named by file and line with what to do, in every command, or healed;
never a traceback."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.records.judgements import judgements
from looktwice.pipelines.runtime import Blobs
from tests.chat_server import ChatServer, chat_server
from tests.first_day.studies import looktwice, write_study


@dataclass(frozen=True)
class Folder:
    """A run of three questions, which each test gets anew, and the server that answered it."""

    run: Path
    study: Path
    server: ChatServer

    @property
    def sample(self) -> str:
        """The id of its first sample."""
        return str(self.lines("samples.jsonl")[0]["sample"]["id"])

    def lines(self, name: str) -> list[Any]:
        """The lines of a file."""
        return [json.loads(line) for line in (self.run / name).read_text().splitlines()]

    def commands(self) -> Iterator[list[object]]:
        """Every command that reads a run folder."""
        yield ["score", self.run]
        yield ["report", self.run]
        yield ["show", self.run, self.sample]
        yield ["replay", self.run]
        yield ["trajectories", self.run, "--out", self.run / "out.jsonl"]
        yield ["merge", self.run, "--out", self.run.parent / "merged"]
        judge = (
            f"models.judge={{use: pipelines.models.ChatAPI, model: j, url: '{self.server.url}'}}"
        )
        yield ["judge", self.run, judge, "--model", "judge"]
        yield self.again

    @property
    def again(self) -> list[object]:
        """The command that made it."""
        return ["run", self.study, "--out", self.run.parent]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    root = tmp_path_factory.mktemp("made")
    with chat_server(None) as server:
        folder = Folder(root / "runs" / "study", write_study(root, server.url, n=3), server)
        assert looktwice(*folder.again).exit_code == 0
        record = folder.lines("records.jsonl")[0]
        names = {
            "kind": "unreadable",
            "judge": "j",
            "identity": "i",
            "words": "w",
            "answer": "A",
            "v": 1,
        }
        judged = names | {name: record[name] for name in ("point", "sample", "draw")}
        (folder.run / "judged.jsonl").write_text(json.dumps(judged) + "\n")
        yield folder


@pytest.fixture
def folder(made: Folder, tmp_path: Path) -> Folder:
    shutil.copytree(made.run.parent, tmp_path / "runs")
    return Folder(tmp_path / "runs" / "study", made.study, made.server)


def says(folder: Folder, words: list[object], code: int = 2) -> str:
    """What a command prints, which ends with this code and never in a traceback."""
    result = looktwice(*words)
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        words,
        result.exception,
    )
    assert result.exit_code == code, (words, result.output)
    return result.output


def change(line: Any, place: str, value: Any) -> None:
    """Put another value at a dotted place."""
    *above, last = place.split(".")
    for name in above:
        line = line[int(name) if isinstance(line, list) else name]
    line[int(last) if isinstance(line, list) else last] = value


NO_LINES: dict[str, bytes] = {
    "a number": b"5",
    "null": b"null",
    "nothing": b"",
    "a list": b"[]",
    "no JSON": b"{",
    "no UTF-8": b'{"v": "\xff"}',
    "NULs": b"\0" * 64,
    "nested": b"[" * 100_000,
    "half": rb'{"v": "\ud83d"}',
    "nothing in it": b"{}",
}


READ: dict[str, Callable[[Path], object]] = {
    "records.jsonl": lambda run: RunFolder(run).records(),
    "samples.jsonl": lambda run: RunFolder(run).samples,
    "judged.jsonl": judgements,
    "points.yaml": lambda run: RunFolder(run).points,
    "run.yaml": lambda run: RunFolder(run).facts,
}


@pytest.mark.parametrize("name", ["records.jsonl", "samples.jsonl", "judged.jsonl"])
@pytest.mark.parametrize("damage", NO_LINES)
def test_a_line_that_is_none_is_named_by_its_number(folder: Folder, name: str, damage: str) -> None:
    path = folder.run / name
    path.write_bytes(path.read_bytes() + NO_LINES[damage] + b"\n")
    number = path.read_bytes().count(b"\n")
    with pytest.raises(RunError, match=f"{name} line {number}: not a .*delete the line"):
        READ[name](folder.run)


def test_every_command_says_it(folder: Folder) -> None:
    path = folder.run / "records.jsonl"
    path.write_bytes(b"5\n" + path.read_bytes())
    for words in folder.commands():
        said = says(folder, words)
        assert "records.jsonl line 1: not a record (it is 5, not a mapping)" in said, words
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    (folder.run / "points.yaml").write_text("- 5\n")
    for words in folder.commands():
        assert "points.yaml is damaged ([0] is 5, not a mapping); remove it" in says(folder, words)


WRONG: list[tuple[str, str, Any]] = [
    ("records.jsonl", "draw", 100_000_000),
    ("records.jsonl", "draw", True),
    ("records.jsonl", "point", 5),
    ("records.jsonl", "sample", ["a"]),
    ("records.jsonl", "answer", 5),
    ("records.jsonl", "notes", "a"),
    ("records.jsonl", "calls", {}),
    ("records.jsonl", "calls.0", 5),
    ("records.jsonl", "calls.0.messages", [5]),
    ("records.jsonl", "calls.0.reply", "yes"),
    ("records.jsonl", "calls.0.reply.usage.tokens_in", 10**400),
    ("records.jsonl", "timings.stages", [1]),
    ("records.jsonl", "sent.0", None),
    ("records.jsonl", "unheard", 1),
    ("records.jsonl", "v", "1"),
    ("samples.jsonl", "sample.id", 5),
    ("samples.jsonl", "sample.choices", [5]),
    ("samples.jsonl", "sample.meta", []),
    ("samples.jsonl", "sample.marks", [{"x": "left"}]),
    ("samples.jsonl", "task", None),
    ("samples.jsonl", "truth", 5),
    ("samples.jsonl", "sample.meta", {"a": float("inf")}),
    ("judged.jsonl", "draw", "0"),
    ("judged.jsonl", "scores", {"a": "b"}),
    ("judged.jsonl", "tokens_in", 1.5),
    ("points.yaml", "draws", 0),
    ("points.yaml", "draws", 10**8),
    ("points.yaml", "draws", True),
    ("points.yaml", "facts.split", 1.5),
    ("points.yaml", "facts.left_out", [3]),
    ("run.yaml", "config.each", "x"),
    ("run.yaml", "config.published", {"a": 5}),
    ("run.yaml", "config.contestants", [1]),
]


@pytest.mark.parametrize(("name", "place", "value"), WRONG, ids=lambda each: str(each)[:20])
def test_a_field_of_the_wrong_type_is_named_by_its_place(
    folder: Folder, name: str, place: str, value: Any
) -> None:
    path = folder.run / name
    if path.suffix == ".yaml":
        node = yaml.safe_load(path.read_text())
        change(node[0] if isinstance(node, list) else node, place, value)
        path.write_text(yaml.safe_dump(node))
    else:
        first, *others = folder.lines(name)
        change(first, place, value)
        path.write_text("".join(json.dumps(line) + "\n" for line in (first, *others)))
    with pytest.raises(RunError, match=re.escape(place.replace(".0", "[0]"))):
        READ[name](folder.run)


@pytest.mark.parametrize("name", ["points.yaml", "run.yaml"])
@pytest.mark.parametrize(
    "damage",
    ["5", "- null", "- {}", "[" * 200_000, "- " * 200_000, "- id: [", '- "\\ud83d"', "\0"],
    ids=lambda text: text[:8],
)
def test_a_damaged_yaml_of_a_run_is_named(folder: Folder, damage: str, name: str) -> None:
    """Deep nesting broke the stack of the parser, and with it the process."""
    (folder.run / name).write_text(damage)
    with pytest.raises(RunError, match=f"(?s){name} is damaged.*remove it and run"):
        READ[name](folder.run)


BLOBS: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "torn": lambda data: data[:20],
    "other": lambda data: b"5" * len(data),
    "NULs": lambda data: b"\0" * len(data),
}


def messages(folder: Folder) -> list[Path]:
    """The blobs that are messages."""
    shas = {
        sha
        for record in folder.lines("records.jsonl")
        for call in record["calls"]
        for sha in call["messages"]
    }
    return [folder.run / "blobs" / sha[:2] / sha for sha in shas]


def damage_blobs(paths: list[Path], damage: str) -> None:
    for path in paths:
        data = BLOBS[damage](path.read_bytes())
        path.unlink() if data is None else path.write_bytes(data)


@pytest.mark.parametrize("damage", BLOBS)
def test_messages_that_are_gone_or_torn_come_back_from_the_cache(
    folder: Folder, damage: str
) -> None:
    """Records kept counting as done, and a torn blob was never written again."""
    asked, blobs = folder.server.stats["requests"], messages(folder)
    whole = {path: path.read_bytes() for path in blobs}
    damage_blobs(blobs, damage)
    assert "is gone or damaged" in says(folder, ["replay", folder.run])
    says(folder, ["show", folder.run, folder.sample], 2)
    # nothing looks into every message; the sentence says to remove it
    if damage not in ("gone", "empty"):
        assert "3 were there" in says(folder, folder.again, 0)
        assert "remove its file" in " ".join(says(folder, ["replay", folder.run]).split())
        damage_blobs(blobs, "gone")
    assert "3 new, 0 were there" in says(folder, folder.again, 0)
    assert {path: path.read_bytes() for path in blobs} == whole
    assert folder.server.stats["requests"] == asked, "the cache has every reply"
    says(folder, ["replay", folder.run], 0)
    assert "0 new, 3 were there" in says(folder, folder.again, 0)


@pytest.mark.parametrize("damage", ["gone", "empty"])
def test_pictures_that_are_gone_or_empty_come_back(folder: Folder, damage: str) -> None:
    blobs = [path for path in (folder.run / "blobs").glob("*/*") if path not in messages(folder)]
    whole = {path: path.read_bytes() for path in blobs}
    damage_blobs(blobs, damage)
    for words in (
        ["score", folder.run],
        ["report", folder.run],
        ["show", folder.run, folder.sample],
    ):
        says(folder, words, 0)
    assert "3 new, 0 were there" in says(folder, folder.again, 0)
    assert whole and {path: path.read_bytes() for path in blobs} == whole


def test_a_picture_of_a_message_that_is_no_hash_is_a_damaged_one(folder: Folder) -> None:
    """`show` and `trajectories` ended in a traceback: 'x' is no sha256."""
    text = (folder.run / "records.jsonl").read_text()
    blobs = Blobs(folder.run / "blobs")
    for sha in {
        name
        for line in folder.lines("records.jsonl")
        for call in line["calls"]
        for name in call["messages"]
    }:
        message = json.loads(blobs.get(sha))
        message["parts"] = [
            part if isinstance(part, str) else {"picture": "x"} for part in message["parts"]
        ]
        text = text.replace(sha, blobs.put(json.dumps(message).encode()))
    (folder.run / "records.jsonl").write_text(text)
    for words in (
        ["show", folder.run, folder.sample],
        ["trajectories", folder.run, "--out", folder.run / "out.jsonl"],
    ):
        result = looktwice(*words)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            words,
            result.exception,
        )
