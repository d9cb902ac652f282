"""Merging: records, samples and facts of several shards, and shards that are refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.records.judgements import Judgement, append_judgements
from looktwice.eval.scoring.score import score_run
from looktwice.extras.executors.merge import merge
from looktwice.pipelines.encodings.image_files import to_png
from tests.made_run import MadeRun
from tests.optional import needs_extras
from tests.tables import table
from tests.under_fire.scenes import STUDY, run_command, write_questions


def shard(
    path: Path, answers: dict[str, str], run: dict[str, Any], keys: str = "ABAB", **point: Any
) -> Path:
    """Write a run that asked the samples of `answers`; answers that start with ! are failures."""
    made = MadeRun(path)
    made.task("animals", list(keys))
    name = made.point("plain", "animals", **point)
    for sample, answer in answers.items():
        if answer.startswith("!"):
            made.record(name, sample, error=answer)
        else:
            made.reply(name, sample, answer, usage={"tokens_in": 10, "tokens_out": 2})
    made.samples = [row for row in made.samples if row.id in answers]
    folder = made.write()
    (folder.path / "run.yaml").write_text(yaml.safe_dump(run), encoding="utf-8")
    return folder.path


def facts(number: int, **more: Any) -> dict[str, Any]:
    same = {"name": "study", "samples": {"id-animals": 4}, "limit": None, "finished": True}
    own = {"left_out": {f"out{number}": "no key"}, "shard": [number, 2]}
    own |= {"versions": {"python": "3.11.7", "numpy": f"2.{number}"}}
    started = f"2026-01-0{3 - number}T00:00:00+00:00"
    return {**same, **own, "config": {"name": "study"}, "started": started, **more}


def test_the_run_wide_facts_cover_all_shards(tmp_path: Path) -> None:
    first = shard(tmp_path / "one", {"s0": "(A)", "s1": "(B)"}, facts(1))
    second = shard(tmp_path / "two", {"s2": "(A)", "s3": "!lost"}, facts(2, finished=False))
    summary = merge([first, second], tmp_path / "whole").summary
    assert summary == f"4 records of 2 shards in {tmp_path / 'whole'}"
    whole = RunFolder(tmp_path / "whole")
    assert sorted(row.id for row in whole.samples.values()) == ["s0", "s1", "s2", "s3"]
    shards: list[dict[str, Any]] = []
    for number, path, failed, tokens in ((1, first, 0, (20, 4)), (2, second, 1, (10, 2))):
        own = {name: facts(number)[name] for name in ("shard", "started")}
        own |= {"folder": str(path), "finished": number == 1, "records": 2, "failed": failed}
        shards.append({**own, "tokens_in": tokens[0], "tokens_out": tokens[1]})
    counts = {"records": 4, "failed": 1, "tokens_in": 30, "tokens_out": 6, "finished": False}
    assert whole.facts == counts | {
        **{name: facts(1)[name] for name in ("name", "samples", "limit", "config")},
        "left_out": {"out1": "no key", "out2": "no key"},
        "versions": {"python": "3.11.7", "numpy": ["2.1", "2.2"]},
        "started": "2026-01-01T00:00:00+00:00",
        "shards": shards,
    }


def test_a_later_shard_can_join_an_earlier_merge(tmp_path: Path) -> None:
    first = shard(tmp_path / "one", {"s0": "(A)"}, facts(1, limit=1))
    second = shard(tmp_path / "two", {"s1": "(B)"}, facts(2, limit=3))
    said = merge([first], tmp_path / "whole").summary
    assert said == f"1 record of 1 shard in {tmp_path / 'whole'}; missing: 2/2"
    said = merge([second], tmp_path / "whole").summary
    assert said.startswith("2 records of 1 shard") and "limits differ" in said
    whole = RunFolder(tmp_path / "whole")
    assert [each["folder"] for each in whole.facts["shards"]] == [str(first), str(second)]
    assert (whole.facts["records"], whole.facts["limit"], len(whole.records())) == (2, 3, 2)


def test_the_plan_of_the_shards_is_the_plan_of_the_merged_run(tmp_path: Path) -> None:
    plan = {"arms": ["plain-animals"], "plugins": [{"name": "mine", "path": "mine.py"}]}
    first = shard(tmp_path / "one", {"s0": "(A)"}, facts(1, **plan, planned={"id-animals": 1}))
    second = shard(tmp_path / "two", {"s1": "(B)"}, facts(2, **plan, planned={"id-animals": 3}))
    merge([first, second], tmp_path / "whole")
    whole = RunFolder(tmp_path / "whole").facts
    assert {name: whole[name] for name in plan} == plan
    assert whole["planned"] == {"id-animals": 4}
    merge([first, second], tmp_path / "whole")  # again, after a shard has continued
    whole = RunFolder(tmp_path / "whole").facts
    assert (whole["planned"], whole["records"]) == ({"id-animals": 4}, 2)


def test_a_shard_that_ran_an_older_plan_keeps_its_older_arms_separate(tmp_path: Path) -> None:
    plan = {"arms": ["p0"], "planned": {"id-animals": 1}}
    one = shard(tmp_path / "one", {"s0": "(A)"}, facts(1, **plan))
    older = MadeRun(tmp_path / "two")
    older.task("animals", "AB")
    for name in ("plain", "older"):
        older.reply(older.point(name, "animals"), "s1", "(B)")
    older.samples = older.samples[1:]
    file = older.write().path / "run.yaml"
    file.write_text(yaml.safe_dump(facts(2, **plan)), encoding="utf-8")
    merge([one, older.path], tmp_path / "whole")
    whole = score_run(RunFolder(tmp_path / "whole"))
    (scores,) = whole.points
    assert (scores.contestant, len(scores.all_records), scores.missing) == ("plain", 2, 0)
    assert whole.older_labels == ("older on animals",)


@table
def test_a_failure_does_not_replace_an_answer(
    first: str, second: str, kept: str, tmp_path: Path
) -> None:
    shards = [shard(tmp_path / said, {"s0": said}, {}) for said in (first, second)]
    merge(shards, tmp_path / "whole")
    (record,) = RunFolder(tmp_path / "whole").records().values()
    assert kept == (record.error or record.replies[0].text)


@table
def test_shards_of_another_plan_are_refused(tmp_path: Path, second: Any, says: str) -> None:
    runs: list[tuple[str, Any]] = [("s0", {}), ("s1", second)]
    shards = [shard(tmp_path / name, {name: "(A)"}, {}, **point) for name, point in runs]
    if says:
        with pytest.raises(RunError, match=says):
            merge(shards, tmp_path / "whole")
    else:
        merge(shards, tmp_path / "whole")
    assert (tmp_path / "whole").exists() is not bool(says)


def test_shards_of_other_data_are_refused(tmp_path: Path) -> None:
    first = shard(tmp_path / "one", {"s0": "(A)"}, facts(1))
    sizes = shard(tmp_path / "sizes", {"s1": "(A)"}, facts(2, samples={"id-animals": 5}))
    second = shard(tmp_path / "other", {"s0": "(A)"}, facts(2))
    file = second / "samples.jsonl"
    file.write_text(file.read_text().replace("sha-animals-0", "sha-changed"))
    more = MadeRun(tmp_path / "more").arms("animals", "A", plain="", rings="")
    for wrong, says in (
        (sizes, "5 samples, but 4"),
        (second, "sample s0 differs"),
        (more, "rings on animals"),
        (tmp_path / "whole", "one of the shards"),
    ):
        with pytest.raises(RunError, match=says):
            merge([first, wrong], tmp_path / "whole")


JUDGED = Judgement("unreadable", "p0", "s0", 0, "j", "i", "w", answer="A")


def half(path: Path, answers: dict[str, str], number: int, finished: bool = True) -> Path:
    return shard(path, answers, {"name": "study", "shard": [number, 2], "finished": finished})


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    one = half(tmp_path / "one", {"s0": "(A)", "s1": "!lost"}, 1)
    append_judgements(one, JUDGED, replace(JUDGED, sample="s1"))
    return [one, half(tmp_path / "two", {"s1": "(B)"}, 2)]


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_damaged_last_shard_writes_nothing(tmp_path: Path, shards: list[Path]) -> None:
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
    summary = merge(shards, tmp_path / "whole").summary
    merged = content(tmp_path / "whole")
    assert (
        merge([*shards, tmp_path / "whole" / ".." / "one"], tmp_path / "whole").summary == summary
    )
    assert content(tmp_path / "whole") == merged
    for name in ("records.jsonl", "judged.jsonl"):
        assert merged[tmp_path / "whole" / name].count(b"\n") == 2


def test_two_answers_to_one_question_are_counted_and_reported(tmp_path: Path) -> None:
    first = half(tmp_path / "one", {"s0": "(A)", "s1": "(B)"}, 1)
    second = half(tmp_path / "two", {"s0": "(B)"}, 2)
    for _ in range(2):
        assert (
            "answers differ between shards for 1 record"
            in merge([first, second], tmp_path / "whole").summary
        )
        merged = RunFolder(tmp_path / "whole").records().values()
        replies = {record.sample: record.replies[0].text for record in merged}
        assert replies == {"s0": "(B)", "s1": "(B)"}


def test_finished_reflects_the_present_state_of_all_shards(tmp_path: Path) -> None:
    steps = ((1, "s0", True, False), (2, "s1", False, False), (2, "s1", True, True))
    for number, sample, is_done, whole in steps:
        merge([half(tmp_path / f"{number}", {sample: "(A)"}, number, is_done)], tmp_path / "whole")
        assert RunFolder(tmp_path / "whole").facts["finished"] is whole


def test_a_truncated_blob_does_not_replace_a_whole_one(tmp_path: Path) -> None:
    one, two = (half(tmp_path / "one", {"s0": "(A)"}, 1), half(tmp_path / "two", {"s1": "(A)"}, 2))
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
    run_command(0, "run", "study.yaml", "--out", f"{number}", "--shard", f"{number}/2")
    return Path(f"{number}/study")


@needs_extras
@table
def test_shards_of_changed_data_are_refused(part: str, change: dict[str, str], data: Path) -> None:
    asked = {key[1] for key in RunFolder(run_shard(1)).records()}
    assert asked and len(asked) < 8
    rows = [json.loads(line) for line in (data / "samples.jsonl").read_text().splitlines()]
    # for a sample that the second shard lacks
    row = next(row for row in rows if row["id"] == min(asked))
    row |= change
    (data / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if part == "pictures":
        (data / row["images"][0]).write_bytes(to_png(np.zeros((8, 8, 3), np.uint8)))
    said = run_command(2, "merge", "1/study", run_shard(2), "--out", "whole")
    assert f"2/study was made with different {part} of" in " ".join(said.split())
    assert not Path("whole").exists()


def test_a_merged_run_has_the_digests_of_its_shards(data: Path) -> None:
    shards = [run_shard(1), run_shard(2)]
    assert merge(shards, Path("whole")).summary.endswith("2 shards in whole")
    assert RunFolder(Path("whole")).facts["data"] == RunFolder(shards[0]).facts["data"]
