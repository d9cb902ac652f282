"""Contestants against their baseline and with one another: what is compared, what falls out, what
an oracle reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.analysis.contestants import (
    comparison_table,
    contestants,
    oracle_table,
    pair_table,
)
from looktwice.eval.display.table import score_table
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.statistics.paired import FLIP, MCNEMAR
from tests.made_run import MadeRun


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    return MadeRun(tmp_path / "run")


def lines(table: TextTable) -> list[dict[str, str]]:
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def three(made: MadeRun, **more: Any) -> None:
    """Keys AAAAAABB; the third contestant failed s0 and was not asked s7."""
    made.task("t", list("AAAAAABB"), **more)
    made.answers(made.point("base", "t", baseline=True), list("AAAABBBB"))
    made.answers(made.point("ring", "t"), list("AAAAAABA"))
    zoom = made.point("zoom", "t")
    made.record(zoom, "s0", error="boom")
    made.answers(zoom, list("?AABBBA")[:7])
    made.records = [
        record for record in made.records if not (record.point == zoom and record.answer == "?")
    ]


def test_two_contestants_by_hand(made: MadeRun) -> None:
    """ring and base: right together on s0 to s3 and s6, ring alone on s4 and s5, base alone on
    s7."""
    three(made)
    table = score_table(made.write().path)
    first, second, third = lines(pair_table(table.scores))
    assert (first["contestant"], first["other"], first["n"], first["p"]) == (
        "base",
        "ring",
        "8",
        "1.000",
    )
    assert first["difference"].startswith("-12.5\n")
    assert [first[name] for name in ("both\nright", "only\nfirst", "only\nother")] == [
        "5",
        "1",
        "2",
    ]
    assert first["mistakes\nshared"] == "0\nof 2 and 1"
    assert first["either %\n(oracle)"].startswith("100.0\n")
    assert (second["n"], second["left\nout"], third["n"]) == ("6", "2", "6")
    (oracle,) = lines(oracle_table(table.scores))
    assert (oracle["n"], oracle["left\nout"], oracle["all\nright"], oracle["none\nright"]) == (
        "6",
        "2",
        "2",
        "0",
    )
    assert oracle["best one %"] == "100.0"
    # of s1 to s6 the zoom and base outvote the ring on s4 and s5
    assert oracle["majority %"].startswith("66.7\n")


def test_each_arm_against_its_baseline(made: MadeRun) -> None:
    three(made)
    ring, zoom = (
        one
        for one in lines(comparison_table(score_table(made.write().path).rows))
        if one["task"] == "t"
    )
    assert (ring["against"], ring["unit"], ring["test"], ring["n"]) == (
        "base",
        "sample",
        MCNEMAR,
        "8",
    )
    assert (ring["better"], ring["worse"], ring["left\nout"]) == ("2", "1", "")
    assert (zoom["n"], zoom["left\nout"], zoom["would\nshow"]) == ("6", "2", "96.4")


def test_questions_of_one_group_are_one_cluster(made: MadeRun) -> None:
    three(made, meta=[{"group": number // 2} for number in range(8)])
    ring, zoom = (
        one
        for one in lines(comparison_table(score_table(made.write().path).rows))
        if one["task"] == "t"
    )
    assert (ring["clusters"], ring["test"]) == ("4", FLIP)
    assert zoom["clusters"] == "4"


def test_a_question_in_two_variants_is_one_cluster(made: MadeRun) -> None:
    made.task("t", ["A", "B"])
    made.samples += [type(row)("id-u", row.sha, row.answer, row.sample) for row in made.samples]
    for name in ("one", "two"):
        for task_id in ("id-t", "id-u"):
            made.answers(made.point(name, "t", task_id=task_id), ["A", "B"])
    found, _ = contestants(score_table(made.write().path).scores[0])
    assert len(found.hits) == 4
    assert len(set(found.clusters.values())) == 2
