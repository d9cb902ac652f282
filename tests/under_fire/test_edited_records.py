"""A run folder that was edited by hand: `replay` notices what it can compare, and says what it
cannot."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chat_server import chat_server
from tests.first_day.studies import write_study
from tests.under_fire.scenes import ends


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("made")
    with chat_server(None) as server:
        ends(0, "run", write_study(root, server.url, n=2), "--out", root / "runs")
        yield root / "runs"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs" / "study"


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
    ("name", "place", "sentence"),
    [
        ("records.jsonl", "calls.0.reply.text", "the reply of call 1 differs from the cache's"),
        ("samples.jsonl", "answer", "samples.jsonl: answer differs from what the task gives"),
        ("samples.jsonl", "sample.question", "sample differs from what the task gives"),
    ],
)
def test_an_edited_reply_or_key_is_noticed(run: Path, name: str, place: str, sentence: str) -> None:
    edit(run / name, place, "D")
    said = ends(1, "replay", run)
    assert sentence in said and "1 record the same, 1 different" in said


def test_an_edited_picture_is_noticed(run: Path) -> None:
    sha = json.loads((run / "records.jsonl").read_text().splitlines()[0])["pictures"][0]
    (run / "blobs" / sha[:2] / sha).write_bytes(b"other")
    said = ends(1, "replay", run)
    assert f"the stored picture {sha[:12]} is not the one that was sent" in said


def test_what_was_compared_is_said(run: Path) -> None:
    said = ends(0, "replay", run)
    assert "compared with the cache: 2 replies\n" in said
    assert "2 records the same bit for bit" in said
    shutil.rmtree(run.parent / ".cache")
    edit(run / "records.jsonl", "calls.0.reply.text", "(B), which nobody said")
    said = ends(0, "replay", run)
    assert "in no cache, so that an edited one would not be noticed: 2 replies\n" in said
    assert not (run.parent / ".cache").exists()
