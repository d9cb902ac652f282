"""Merging under fire: nothing is written before all shards are read, twice is once, and nothing is
lost unsaid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.records.judgements import Judgement, append
from looktwice.eval.runs import merge
from looktwice.pipelines.picture import to_png
from tests.eval.runs.test_merge import shard as made_shard
from tests.under_fire.scenes import STUDY, ends, write_questions

JUDGED = Judgement("unreadable", "p0", "s0", 0, "j", "i", "w", answer="A")


def shard(path: Path, answers: dict[str, str], number: int, finished: bool = True) -> Path:
    return made_shard(path, answers, {"name": "study", "shard": [number, 2], "finished": finished})


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    one = shard(tmp_path / "one", {"s0": "(A)", "s1": "!lost"}, 1)
    append(one, JUDGED, replace(JUDGED, sample="s1"))
    return [one, shard(tmp_path / "two", {"s1": "(B)"}, 2)]


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_nothing_is_written_where_the_last_shard_is_damaged(
    tmp_path: Path, shards: list[Path]
) -> None:
    for name in ("records.jsonl", "samples.jsonl", "judged.jsonl", "run.yaml", "points.yaml"):
        path = shards[1] / name
        whole = path.read_bytes() if path.exists() else b""
        path.write_bytes(b"5\n")
        with pytest.raises(RunError, match=name.replace(".", r"\.")):
            merge(shards, tmp_path / "whole")
        assert not (tmp_path / "whole").exists()
        path.write_bytes(whole)
    merge(shards, tmp_path / "whole")
    merged = content(tmp_path / "whole")
    (shards[1] / "records.jsonl").write_bytes(b"5\n")
    with pytest.raises(RunError):
        merge(shards[1:], tmp_path / "whole")
    assert content(tmp_path / "whole") == merged


def test_merging_twice_changes_nothing(tmp_path: Path, shards: list[Path]) -> None:
    said = merge(shards, tmp_path / "whole").said
    merged = content(tmp_path / "whole")
    assert merge([*shards, tmp_path / "whole" / ".." / "one"], tmp_path / "whole").said == said
    assert content(tmp_path / "whole") == merged
    for name in ("records.jsonl", "judged.jsonl"):
        assert merged[tmp_path / "whole" / name].count(b"\n") == 2


def test_two_answers_to_one_question_are_counted_and_said(tmp_path: Path) -> None:
    one = shard(tmp_path / "one", {"s0": "(A)", "s1": "(B)"}, 1)
    two = shard(tmp_path / "two", {"s0": "(B)"}, 2)
    for _ in range(2):
        said = merge([one, two], tmp_path / "whole").said
        assert "1 of them were answered twice and otherwise: the later shard's" in said
        merged = RunFolder(tmp_path / "whole").records().values()
        replies = {record.sample: record.replies[0].text for record in merged}
        assert replies == {"s0": "(B)", "s1": "(B)"}


def test_finished_is_that_of_all_shards_as_they_are_now(tmp_path: Path) -> None:
    for number, sample, is_done, whole in (
        *((1, "s0", True, False), (2, "s1", False, False), (2, "s1", True, True)),
    ):
        merge([shard(tmp_path / f"{number}", {sample: "(A)"}, number, is_done)], tmp_path / "whole")
        assert RunFolder(tmp_path / "whole").facts["finished"] is whole


def test_a_torn_blob_takes_no_place_of_a_whole_one(tmp_path: Path) -> None:
    one, two = shard(tmp_path / "one", {"s0": "(A)"}, 1), shard(tmp_path / "two", {"s1": "(A)"}, 2)
    (blob,) = (one / "blobs").glob("*/*")
    whole, place = blob.read_bytes(), blob.relative_to(one)
    for torn, other in ((one, two), (two, one)):
        (torn / place).write_bytes(b"")
        (other / place).write_bytes(whole)
        merge([one, two], tmp_path / f"whole {torn.name}")
        assert RunFolder(tmp_path / f"whole {torn.name}").blobs.get(blob.name) == whole


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight questions on pictures, and a study of them."""
    monkeypatch.chdir(tmp_path)
    write_questions(*({"images": [f"{number}.png"]} for number in range(8)))
    Path("study.yaml").write_text(STUDY)
    return Path("own")


def run_shard(number: int) -> Path:
    ends(0, "run", "study.yaml", "--out", f"{number}", "--shard", f"{number}/2")
    return Path(f"{number}/study")


@pytest.mark.parametrize(
    ("part", "change"),
    {
        "keys": {"answer": "B"},
        "questions": {"question": "Who?"},
        "pictures": {},
        "samples": {"id": "q9"},
    }.items(),
)
def test_shards_of_other_data_are_refused(part: str, change: dict[str, str], data: Path) -> None:
    asked = {key[1] for key in RunFolder(run_shard(1)).records()}
    assert asked and len(asked) < 8
    rows = [json.loads(line) for line in (data / "samples.jsonl").read_text().splitlines()]
    # of a sample that the second shard does not hold
    row = next(row for row in rows if row["id"] == min(asked))
    row |= change
    (data / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if part == "pictures":
        (data / row["images"][0]).write_bytes(to_png(np.zeros((8, 8, 3), np.uint8)))
    said = ends(2, "merge", "1/study", run_shard(2), "--out", "whole")
    assert f"2/study was made from other {part} of" in " ".join(said.split())
    assert not Path("whole").exists()


def test_old_shards_without_a_digest_are_merged_and_it_is_said(data: Path) -> None:
    shards = [run_shard(1), run_shard(2)]
    assert merge(shards, Path("whole")).said.endswith("2 shards in whole")
    assert RunFolder(Path("whole")).facts["data"] == RunFolder(shards[0]).facts["data"]
    facts = dict(RunFolder(shards[1]).facts)
    del facts["data"]
    (shards[1] / "run.yaml").write_text(yaml.safe_dump(facts))
    said = merge(shards, Path("again")).said
    assert "1 of them, of an earlier version, do not tell which data they were made from" in said
