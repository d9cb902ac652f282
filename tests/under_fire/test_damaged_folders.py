"""Damaged run folders are reported by file and line with advice, or repaired."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.records.judgements import read_judgements
from looktwice.pipelines.runtime.stores import Blobs
from tests.chat_server import ChatServer, chat_server
from tests.first_day.studies import write_study
from tests.optional import needs_extras
from tests.under_fire.scenes import run_command

SAMPLE = "jigsaw_0000"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ChatServer]]:
    """The folder of a run of three questions, and the server that answered it."""
    root = tmp_path_factory.mktemp("made")
    with chat_server(None) as server:
        run_command(0, "run", write_study(root, server.url, n=3), "--out", root / "runs")
        record = lines(root / "runs" / "study" / "records.jsonl")[0]
        judged = {name: record[name] for name in ("point", "sample", "draw")}
        judged |= {"kind": "unreadable", "judge": "j", "identity": "i", "words": "w", "v": 1}
        (root / "runs/study/judged.jsonl").write_text(json.dumps(judged | {"answer": "A"}) + "\n")
        yield root, server


@pytest.fixture
def run(made: tuple[Path, ChatServer], tmp_path: Path) -> Path:
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return tmp_path / "runs" / "study"


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_again(run: Path) -> list[object]:
    return ["run", run.parents[1] / "study.yaml", "--out", run.parent]


def commands(run: Path, url: str) -> Iterator[list[object]]:
    """Return every command that reads a run folder."""
    yield from (
        ["score", run],
        ["score", run, "--report"],
        ["view", run, "--sample", SAMPLE],
        ["replay", run],
        run_again(run),
    )
    yield ["export", run, "--to", "trajectories", "--out", run / "out.jsonl"]
    yield ["merge", run, "--out", run.parent / "merged"]
    judge = f"models.judge={{use: pipelines.models.ChatAPI, model: j, url: '{url}'}}"
    yield ["judge", run, judge, "--model", "judge"]


READ: dict[str, Callable[[Path], object]] = {
    "records.jsonl": lambda run: RunFolder(run).records(),
    "samples.jsonl": lambda run: RunFolder(run).samples,
    "judged.jsonl": read_judgements,
    "points.yaml": lambda run: RunFolder(run).points,
    "run.yaml": lambda run: RunFolder(run).facts,
}
NO_LINES = [b"5", b"null", b"", b"[]", b"{", b'{"v": "\xff"}', b"\0" * 64, b"[" * 100_000]
NO_LINES += [rb'{"v": "\ud83d"}', b"{}"]


@pytest.mark.parametrize("name", ["records.jsonl", "samples.jsonl", "judged.jsonl"])
def test_an_invalid_line_is_reported_with_its_number(run: Path, name: str) -> None:
    whole = (run / name).read_bytes()
    for damage in NO_LINES:
        (run / name).write_bytes(whole + damage + b"\n")
        number = whole.count(b"\n") + 1
        with pytest.raises(RunError, match=f"{name} line {number}: not a .*delete the line"):
            READ[name](run)


@needs_extras
@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("records.jsonl", b"5\n", "records.jsonl line 1: not a "),
        ("points.yaml", b"- 5\n", "points.yaml is damaged ([0] is 5, not a mapping); remove it"),
    ],
)
def test_every_command_reports_it(
    run: Path, made: tuple[Path, ChatServer], name: str, damage: bytes, words: str
) -> None:
    whole = (run / name).read_bytes()
    (run / name).write_bytes(damage + whole * (name == "records.jsonl"))
    for command in commands(run, made[1].url):
        assert words in run_command(2, *command)


WRONG: dict[str, list[tuple[str, Any]]] = {
    "records.jsonl": [
        *(("draw", 100_000_000), ("draw", True), ("point", 5), ("sample", ["a"]), ("answer", 5)),
        *(("notes", "a"), ("calls", {}), ("calls.0", 5), ("calls.0.messages", [5]), ("v", "1")),
        *(("calls.0.reply", "yes"), ("calls.0.reply.usage.tokens_in", 10**400)),
        *(("timings.stages", [1]), ("sent.0", None), ("unheard", 1)),
    ],
    "samples.jsonl": [
        *(("sample.id", 5), ("sample.choices", [5]), ("sample.meta", []), ("task", None)),
        *(("sample.marks", [{"x": "left"}]), ("truth", 5), ("sample.meta", {"a": float("inf")})),
    ],
    "judged.jsonl": [("draw", "0"), ("scores", {"a": "b"}), ("tokens_in", 1.5)],
    "points.yaml": [
        *(("0.draws", 0), ("0.draws", 10**8), ("0.draws", True)),
        *(("0.facts.split", 1.5), ("0.facts.left_out", [3])),
    ],
    "run.yaml": [
        *(("config.each", "x"), ("config.published", {"a": 5}), ("config.contestants", [1]))
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_field_of_the_wrong_type_is_reported_with_its_place(run: Path, name: str) -> None:
    path = run / name
    whole = path.read_text()
    for place, value in WRONG[name]:
        first, _, others = whole.partition("\n")
        root = node = yaml.safe_load(whole) if path.suffix == ".yaml" else json.loads(first)
        *above, last = (int(part) if part.isdigit() else part for part in place.split("."))
        for part in above:
            node = node[part]
        node[last] = value
        text = yaml.safe_dump(root) if path.suffix == ".yaml" else f"{json.dumps(root)}\n{others}"
        path.write_text(text)
        said = re.escape(place.removeprefix("0.").replace(".0", "[0]"))
        with pytest.raises(RunError, match=said):
            READ[name](run)


@pytest.mark.parametrize("name", ["points.yaml", "run.yaml"])
def test_a_damaged_yaml_file_of_a_run_is_named(run: Path, name: str) -> None:
    deep = ["[" * 200_000, "- " * 200_000]
    for damage in ("5", "- null", "- {}", *deep, "- id: [", '- "\\ud83d"', "\0"):
        (run / name).write_text(damage)
        with pytest.raises(RunError, match=f"(?s){name} is damaged.*remove it and run"):
            READ[name](run)


BLOBS: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "torn": lambda data: data[:20],
    "NULs": lambda data: b"\0" * len(data),
}


def messages(run: Path) -> set[str]:
    """Return the blobs that are messages."""
    calls = [call for record in lines(run / "records.jsonl") for call in record["calls"]]
    return {sha for call in calls for sha in call["messages"]}


def damage_blobs(paths: list[Path], damage: str) -> None:
    for path in paths:
        data = BLOBS[damage](path.read_bytes())
        path.unlink() if data is None else path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("damage", BLOBS)
def test_missing_or_truncated_messages_are_restored_from_the_cache(
    run: Path, made: tuple[Path, ChatServer], damage: str
) -> None:
    asked = made[1].stats["requests"]
    whole = {path: path.read_bytes() for path in map(Blobs(run / "blobs").get_path, messages(run))}
    damage_blobs(list(whole), damage)
    assert "is missing or damaged" in run_command(2, "replay", run)
    run_command(2, "view", run, "--sample", SAMPLE)
    # nothing reads every message; the sentence says to remove it
    if damage not in ("gone", "empty"):
        assert "3 existing" in run_command(0, *run_again(run))
        assert "remove its file" in " ".join(run_command(2, "replay", run).split())
        damage_blobs(list(whole), "gone")
    assert "3 new, 0 existing" in run_command(0, *run_again(run))
    assert {path: path.read_bytes() for path in whole} == whole
    assert made[1].stats["requests"] == asked, "the cache has every reply"
    run_command(0, "replay", run)
    assert "0 new, 3 existing" in run_command(0, *run_again(run))


@pytest.mark.parametrize("damage", ["gone", "empty"])
def test_missing_or_empty_pictures_are_restored(run: Path, damage: str) -> None:
    words = messages(run)
    blobs = [path for path in (run / "blobs").glob("*/*") if path.name not in words]
    whole = {path: path.read_bytes() for path in blobs}
    damage_blobs(blobs, damage)
    for command in (["score", run], ["score", run, "--report"], ["view", run, "--sample", SAMPLE]):
        run_command(0, *command)
    assert "3 new, 0 existing" in run_command(0, *run_again(run))
    assert whole and {path: path.read_bytes() for path in blobs} == whole


def test_a_listing_tolerates_a_temporary_file_that_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, scandir = Blobs(tmp_path), os.scandir
    path = blobs.get_path(blobs.put(b"kept"))
    draft = path.with_suffix(".part")
    draft.write_bytes(b"half")

    @contextmanager
    def list_slowly(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            listed = [*entries]
        if Path(folder) == path.parent:
            draft.unlink()
        yield iter(listed)

    monkeypatch.setattr(os, "scandir", list_slowly)
    assert blobs.list_names() == {path.name}


def test_an_invalid_picture_hash_in_a_message_counts_as_damage(run: Path) -> None:
    text, blobs = (run / "records.jsonl").read_text(), Blobs(run / "blobs")
    for sha in messages(run):
        message = json.loads(blobs.get(sha))
        parts = message["parts"]
        message["parts"] = [part if isinstance(part, str) else {"picture": "x"} for part in parts]
        text = text.replace(sha, blobs.put(json.dumps(message).encode()))
    (run / "records.jsonl").write_text(text)
    run_command(0, "view", run, "--sample", SAMPLE)
    run_command(2, "export", run, "--to", "trajectories", "--out", run / "out.jsonl")


# ---- edited by hand: `replay` notices what it can compare, and reports what it cannot


def edit(path: Path, place: str, value: str) -> None:
    """Change the first line."""
    first, others = path.read_text().split("\n", 1)
    line = node = json.loads(first)
    *above, last = (int(name) if name.isdigit() else name for name in place.split("."))
    for name in above:
        node = node[name]
    node[last] = value
    path.write_text(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" + others)


@pytest.mark.parametrize(
    ("name", "place", "fact"),
    [
        ("records.jsonl", "calls.0.reply.text", "the reply of call 1 differs"),
        ("samples.jsonl", "answer", "samples.jsonl: answer differs"),
        ("samples.jsonl", "sample.question", "sample differs"),
    ],
)
def test_an_edited_reply_or_answer_key_is_noticed(
    run: Path, name: str, place: str, fact: str
) -> None:
    edit(run / name, place, "D")
    said = run_command(1, "replay", run)
    assert fact in said and "2 records identical, 1 different" in said


def test_an_edited_picture_is_noticed(run: Path) -> None:
    sha = lines(run / "records.jsonl")[0]["pictures"][0]
    (run / "blobs" / sha[:2] / sha).write_bytes(b"other")
    assert f"the stored picture {sha[:12]} " in run_command(1, "replay", run)


def test_the_comparison_is_reported(run: Path) -> None:
    said = run_command(0, "replay", run)
    assert "compared with the cache: 3 replies\n" in said
    assert "3 records identical bit for bit" in said
    shutil.rmtree(run.parent / ".cache")
    edit(run / "records.jsonl", "calls.0.reply.text", "(B), which nobody said")
    said = run_command(0, "replay", run)
    assert "not in the cache, so edits would go unnoticed: 3 replies\n" in said
    assert not (run.parent / ".cache").exists()
