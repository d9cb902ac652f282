"""A run folder that was edited by hand: `replay` notices what it can compare, and says what it
cannot."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("made")
    with chat_server(None) as server:
        assert (
            looktwice("run", write_study(root, server.url, n=2), "--out", root / "runs").exit_code
            == 0
        )
        yield root / "runs"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs" / "study"


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change the first line."""
    first, *others = path.read_text().splitlines()
    line = json.loads(first)
    change(line)
    path.write_text(
        "\n".join([json.dumps(line, ensure_ascii=False, separators=(",", ":")), *others, ""])
    )


def set_reply(line: Any) -> None:
    line["calls"][0]["reply"]["text"] = "(B), which nobody said"


def set_key(line: Any) -> None:
    line["answer"] = "A" if line["answer"] != "A" else "B"


def set_question(line: Any) -> None:
    line["sample"]["question"] = "Another one?"


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("records.jsonl", set_reply, "the reply of call 1 differs from the cache's"),
        ("samples.jsonl", set_key, "samples.jsonl: answer differs from what the task gives"),
        ("samples.jsonl", set_question, "samples.jsonl: sample differs from what the task gives"),
    ],
)
def test_an_edited_reply_or_key_is_noticed(
    run: Path, name: str, change: Callable[[Any], None], sentence: str
) -> None:
    """`replay` called the run the same bit for bit."""
    edit(run / name, change)
    result = looktwice("replay", run)
    assert result.exit_code == 1 and sentence in result.output, result.output
    assert "1 record the same, 1 different" in result.output


def test_an_edited_picture_is_noticed(run: Path) -> None:
    sha = json.loads((run / "records.jsonl").read_text().splitlines()[0])["pictures"][0]
    (run / "blobs" / sha[:2] / sha).write_bytes(b"other")
    result = looktwice("replay", run)
    assert (
        result.exit_code == 1
        and f"the stored picture {sha[:12]} is not the one that was sent" in result.output
    )


def test_what_was_compared_is_said(run: Path) -> None:
    """Without the cache an edited reply cannot be told, and nothing said so."""
    said = looktwice("replay", run).output
    assert (
        "compared with the cache: 2 replies\n" in said and "2 records the same bit for bit" in said
    )
    shutil.rmtree(run.parent / ".cache")
    edit(run / "records.jsonl", set_reply)
    result = looktwice("replay", run)
    assert result.exit_code == 0
    assert "in no cache, so that an edited one would not be noticed: 2 replies\n" in result.output
    assert not (run.parent / ".cache").exists()
