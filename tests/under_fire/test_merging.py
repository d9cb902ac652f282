"""Merging under fire: nothing is written before all shards are read, twice is once, and nothing is
lost unsaid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.records.judgements import Judgement, append
from looktwice.eval.runs import merge
from looktwice.pipelines.picture import to_png
from tests.first_day.studies import looktwice
from tests.made_run import MadeRun

JUDGED = Judgement("unreadable", "p0", "s0", 0, "j", "i", "w", answer="A")


def shard(
    path: Path, answers: dict[str, str], number: int, of: int = 2, finished: bool = True
) -> Path:
    """A run that asked these samples; an answer that begins with ! is a failure."""
    made = MadeRun(path)
    made.task("animals", list("ABAB"))
    name = made.point("plain", "animals")
    for sample, answer in answers.items():
        if answer.startswith("!"):
            made.record(name, sample, error=answer)
        else:
            made.reply(name, sample, answer)
    made.samples = [row for row in made.samples if row.id in answers]
    made.write()
    facts: dict[str, Any] = {"name": "study", "shard": [number, of], "finished": finished}
    (path / "run.yaml").write_text(yaml.safe_dump(facts), encoding="utf-8")
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_nothing_is_written_where_the_last_shard_is_damaged(tmp_path: Path) -> None:
    """The first shards were copied before the fault of a later one was found."""
    one, two = shard(tmp_path / "one", {"s0": "(A)"}, 1), shard(tmp_path / "two", {"s1": "(B)"}, 2)
    append(one, JUDGED)
    for name in ("records.jsonl", "samples.jsonl", "judged.jsonl", "run.yaml", "points.yaml"):
        kept = (two / name).read_bytes() if (two / name).exists() else None
        (two / name).write_bytes(b"5\n")
        with pytest.raises(RunError, match=name.replace(".", r"\.")):
            merge([one, two], tmp_path / "whole")
        assert not (tmp_path / "whole").exists()
        (two / name).unlink() if kept is None else (two / name).write_bytes(kept)
    merge([one, two], tmp_path / "whole")
    whole = content(tmp_path / "whole")
    (two / "records.jsonl").write_bytes(b"5\n")
    with pytest.raises(RunError):
        merge([two], tmp_path / "whole")
    assert content(tmp_path / "whole") == whole


def test_merging_twice_changes_nothing(tmp_path: Path) -> None:
    """Records, samples and judgements were appended again each time."""
    shards = [
        shard(tmp_path / "one", {"s0": "(A)", "s1": "!lost"}, 1),
        shard(tmp_path / "two", {"s1": "(B)"}, 2),
    ]
    append(shards[0], JUDGED, replace(JUDGED, sample="s1"))
    said = merge(shards, tmp_path / "whole").said
    whole = content(tmp_path / "whole")
    assert merge([*shards, tmp_path / "whole" / ".." / "one"], tmp_path / "whole").said == said
    assert content(tmp_path / "whole") == whole
    assert whole["records.jsonl"].count(b"\n") == whole["judged.jsonl"].count(b"\n") == 2


def test_two_answers_to_one_question_are_counted_and_said(tmp_path: Path) -> None:
    """One took the place of the other without a word."""
    shards = [
        shard(tmp_path / "one", {"s0": "(A)", "s1": "(B)"}, 1),
        shard(tmp_path / "two", {"s0": "(B)"}, 2),
    ]
    for _ in range(2):
        said = merge(shards, tmp_path / "whole").said
        assert said.endswith(
            "; 1 of them were answered twice and otherwise: the later shard's answer counts"
        )
        replies = {
            key[1]: each.replies[0].text
            for key, each in RunFolder(tmp_path / "whole").records().items()
        }
        assert replies == {"s0": "(B)", "s1": "(B)"}


def test_finished_is_that_of_all_shards_as_they_are_now(tmp_path: Path) -> None:
    """A merge of a half of the shards said finished; one that was unfinished once never became
    so."""

    def finished(*shards: Path) -> object:
        merge(shards, tmp_path / "whole")
        return RunFolder(tmp_path / "whole").facts["finished"]

    assert finished(shard(tmp_path / "one", {"s0": "(A)"}, 1)) is False
    assert finished(shard(tmp_path / "two", {"s1": "(A)"}, 2, finished=False)) is False
    assert finished(shard(tmp_path / "two", {"s1": "(A)"}, 2)) is True


def test_a_torn_blob_takes_no_place_of_a_whole_one(tmp_path: Path) -> None:
    one, two = shard(tmp_path / "one", {"s0": "(A)"}, 1), shard(tmp_path / "two", {"s1": "(A)"}, 2)
    (blob,) = (one / "blobs").glob("*/*")
    whole = blob.read_bytes()
    for torn, other in ((one, two), (two, one)):
        (torn / "blobs" / blob.parent.name / blob.name).write_bytes(b"")
        (other / "blobs" / blob.parent.name / blob.name).write_bytes(whole)
        merge([one, two], tmp_path / torn.name / ".." / f"whole {torn.name}")
        assert RunFolder(tmp_path / f"whole {torn.name}").blobs.get(blob.name) == whole


def folder_of_questions(path: Path) -> Path:
    """Eight questions on pictures, and a study of them."""
    path.mkdir()
    rows = []
    for number in range(8):
        pixels = np.full((8, 8, 3), 20 * number, np.uint8)
        (path / f"{number}.png").write_bytes(to_png(pixels))
        rows.append(
            {
                "id": f"q{number}",
                "question": "Which?",
                "choices": ["x", "y"],
                "answer": "A",
                "image": f"{number}.png",
            }
        )
    (path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "study.yaml").write_text(STUDY)
    return path


STUDY = """
task: {use: eval.tasks.Folder, path: .}
model: {use: pipelines.models.Scripted, answer: (A)}
stages: {choose: {use: prompting.wording.MultipleChoice}, ask: {use: prompting.turns.Ask}}
"""


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("keys", "other keys"),
        ("questions", "other questions"),
        ("pictures", "other pictures"),
        ("ids", "other samples"),
    ],
)
def test_shards_of_other_data_are_refused(
    part: str, words: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Another key, wording or picture of a sample that the other shard asked went into one table
    without a word."""
    data = folder_of_questions(tmp_path / "data")
    monkeypatch.chdir(data)
    assert (
        looktwice("run", "study.yaml", "--out", tmp_path / "one", "--shard", "1/2").exit_code == 0
    )
    asked = {key[1] for key in RunFolder(tmp_path / "one/study").records()}
    assert asked and len(asked) < 8
    mine = min(asked)  # of a sample that the second shard does not hold
    lines = [json.loads(line) for line in (data / "samples.jsonl").read_text().splitlines()]
    row = next(line for line in lines if line["id"] == mine)
    row |= {"keys": {"answer": "B"}, "questions": {"question": "Who?"}, "ids": {"id": "q9"}}.get(
        part, {}
    )
    (data / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if part == "pictures":
        (data / row["image"]).write_bytes(to_png(np.full((8, 8, 3), 7, np.uint8)))
    assert (
        looktwice("run", "study.yaml", "--out", tmp_path / "two", "--shard", "2/2").exit_code == 0
    )
    refused = looktwice(
        "merge", tmp_path / "one/study", tmp_path / "two/study", "--out", tmp_path / "whole"
    )
    said = " ".join(refused.output.split())
    assert refused.exit_code == 2 and f"two/study was made from {words} of" in said, refused.output
    assert not (tmp_path / "whole").exists()


def test_old_shards_without_a_digest_are_merged_and_it_is_said(
    tmp_path: Path, monkeypatch: Any
) -> None:
    data = folder_of_questions(tmp_path / "data")
    monkeypatch.chdir(data)
    folders = [tmp_path / name / "study" for name in ("one", "two")]
    for number, folder in enumerate(folders, 1):
        assert (
            looktwice(
                "run", "study.yaml", "--out", folder.parent, "--shard", f"{number}/2"
            ).exit_code
            == 0
        )
    assert merge(folders, tmp_path / "whole").said.endswith(f"2 shards in {tmp_path / 'whole'}")
    assert RunFolder(tmp_path / "whole").facts["data"] == RunFolder(folders[0]).facts["data"]
    facts = RunFolder(folders[1]).facts
    (folders[1] / "run.yaml").write_text(
        yaml.safe_dump({name: facts[name] for name in facts if name != "data"})
    )
    assert merge(folders, tmp_path / "again").said.endswith(
        "1 of them, of an earlier version, do not tell which data they were made from"
    )
