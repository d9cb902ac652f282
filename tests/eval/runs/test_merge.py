"""Merging: records, samples and facts of several shards, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.runs import merge
from looktwice.eval.scoring.score import score_run
from tests.made_run import MadeRun

READ = {"use": "eval.readers.BlinkOfficial"}


def shard(
    path: Path, answers: dict[str, str], run: dict[str, Any], keys: str = "ABAB", **point: Any
) -> Path:
    """A run that asked the samples of `answers`; an answer that begins with ! is a failure."""
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


OLD = " of them, of an earlier version, do not tell which data they were made from"


def facts(number: int, **more: Any) -> dict[str, Any]:
    return {
        "name": "study",
        "left_out": {f"out{number}": "no key"},
        "samples": {"id-animals": 4},
        "limit": None,
        "shard": [number, 2],
        "versions": {"python": "3.11.7", "numpy": f"2.{number}"},
        "config": {"name": "study"},
        "started": f"2026-01-0{3 - number}T00:00:00+00:00",
        "finished": True,
        **more,
    }


def test_the_facts_hold_for_the_whole_run(tmp_path: Path) -> None:
    one = shard(tmp_path / "one", {"s0": "(A)", "s1": "(B)"}, facts(1))
    two = shard(tmp_path / "two", {"s2": "(A)", "s3": "!lost"}, facts(2, finished=False))
    said = merge([one, two], tmp_path / "whole").said
    assert said == f"4 records of 2 shards in {tmp_path / 'whole'}; 2{OLD}"
    whole = RunFolder(tmp_path / "whole")
    assert sorted(row.id for row in whole.samples.values()) == ["s0", "s1", "s2", "s3"]
    shards: list[dict[str, Any]] = []
    for number, path, failed, tokens in ((1, one, 0, (20, 4)), (2, two, 1, (10, 2))):
        own = {name: facts(number)[name] for name in ("shard", "started")}
        own |= {"folder": str(path), "finished": number == 1, "records": 2, "failed": failed}
        shards.append({**own, "tokens_in": tokens[0], "tokens_out": tokens[1]})
    assert whole.facts == {
        **{name: facts(1)[name] for name in ("name", "samples", "limit", "config")},
        "left_out": {"out1": "no key", "out2": "no key"},
        "versions": {"python": "3.11.7", "numpy": ["2.1", "2.2"]},
        "started": "2026-01-01T00:00:00+00:00",
        "finished": False,
        "shards": shards,
        "records": 4,
        "failed": 1,
        "tokens_in": 30,
        "tokens_out": 6,
    }


def test_a_later_shard_joins_an_earlier_merge(tmp_path: Path) -> None:
    one = shard(tmp_path / "one", {"s0": "(A)"}, facts(1, limit=1))
    two = shard(tmp_path / "two", {"s1": "(B)"}, facts(2, limit=3))
    assert (
        merge([one], tmp_path / "whole").said
        == f"1 record of 1 shard in {tmp_path / 'whole'}; 1{OLD}; missing: 2/2"
    )
    limits = "their limits differ, so that their data were not compared"
    said = merge([two], tmp_path / "whole").said
    assert said == f"2 records of 1 shard in {tmp_path / 'whole'}; 1{OLD}; {limits}"
    whole = RunFolder(tmp_path / "whole")
    assert [each["folder"] for each in whole.facts["shards"]] == [str(one), str(two)]
    assert (whole.facts["records"], whole.facts["limit"], len(whole.records())) == (2, 3, 2)


def test_the_plan_of_the_shards_is_the_plan_of_the_whole(tmp_path: Path) -> None:
    plan = {"arms": ["plain-animals"], "plugins": [{"name": "mine", "path": "mine.py"}]}
    one = shard(tmp_path / "one", {"s0": "(A)"}, facts(1, **plan, planned={"id-animals": 1}))
    two = shard(tmp_path / "two", {"s1": "(B)"}, facts(2, **plan, planned={"id-animals": 3}))
    merge([one, two], tmp_path / "whole")
    whole = RunFolder(tmp_path / "whole").facts
    assert {name: whole[name] for name in plan} == plan
    assert whole["planned"] == {"id-animals": 4}
    merge([one, two], tmp_path / "whole")  # again, after a shard has gone on
    whole = RunFolder(tmp_path / "whole").facts
    assert (whole["planned"], whole["records"]) == ({"id-animals": 4}, 2)


def test_a_shard_that_ran_an_older_plan_before_keeps_its_older_arms_apart(tmp_path: Path) -> None:
    one = shard(tmp_path / "one", {"s0": "(A)"}, facts(1, arms=["p0"], planned={"id-animals": 1}))
    older = MadeRun(tmp_path / "two")
    older.task("animals", ["A", "B"])
    for name in ("plain", "older"):
        older.reply(older.point(name, "animals"), "s1", "(B)")
    older.samples = older.samples[1:]
    (older.write().path / "run.yaml").write_text(
        yaml.safe_dump(facts(2, arms=["p0"], planned={"id-animals": 1})), encoding="utf-8"
    )
    merge([one, older.path], tmp_path / "whole")
    whole = score_run(RunFolder(tmp_path / "whole"))
    assert [(scores.contestant, len(scores.all), scores.missing) for scores in whole.points] == [
        ("plain", 2, 0)
    ]
    assert whole.older == ("older on animals",)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        *(("(A)", "!lost", "(A)"), ("!lost", "(A)", "(A)")),
        *(("(A)", "(B)", "(B)"), ("!old", "!new", "!new")),
    ],
)
def test_a_failure_does_not_take_the_place_of_an_answer(
    tmp_path: Path, first: str, second: str, kept: str
) -> None:
    shards = [
        shard(tmp_path / name, {"s0": said}, {}) for name, said in (("one", first), ("two", second))
    ]
    merge(shards, tmp_path / "whole")
    (record,) = RunFolder(tmp_path / "whole").records().values()
    assert kept == (record.error or record.replies[0].text)


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"read": READ}, "read of plain on animals differs"),
        ({"draws": 2}, "draws of plain on animals differs"),
        ({"spec": {"task": {"n": 3}}}, "spec of plain on animals differs"),
        ({"facts": {"note": "worded otherwise"}}, ""),
    ],
)
def test_shards_of_another_configuration_are_refused(
    tmp_path: Path, second: dict[str, Any], says: str
) -> None:
    shards = [
        shard(tmp_path / "one", {"s0": "(A)"}, {}),
        shard(tmp_path / "two", {"s1": "(B)"}, {}, **second),
    ]
    if says:
        with pytest.raises(RunError, match=says):
            merge(shards, tmp_path / "whole")
        assert not (tmp_path / "whole").exists()
    else:
        merge(shards, tmp_path / "whole")


def test_shards_of_other_data_are_refused(tmp_path: Path) -> None:
    one = shard(tmp_path / "one", {"s0": "(A)"}, facts(1))
    sizes = shard(tmp_path / "sizes", {"s1": "(A)"}, facts(2, samples={"id-animals": 5}))
    other = shard(tmp_path / "other", {"s0": "(A)"}, facts(2))
    file = other / "samples.jsonl"
    file.write_text(file.read_text().replace("sha-animals-0", "sha-changed"))
    more = MadeRun(tmp_path / "more")
    more.task("animals", ["A"])
    for contestant in ("plain", "rings"):
        more.point(contestant, "animals")
    for wrong, says in (
        (sizes, "5 samples has 4 in an earlier shard"),
        (other, "sample s0 differs from the earlier shards'"),
        (more.write().path, "only one of them has rings on animals"),
        (tmp_path / "whole", "is one of the shards"),
    ):
        with pytest.raises(RunError, match=says):
            merge([one, wrong], tmp_path / "whole")
