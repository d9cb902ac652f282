"""Contestants compared with their baseline and with each other."""

from typing import Any

import pytest

from looktwice.eval.analysis.analyses import get_analysis
from looktwice.eval.analysis.shared_samples import SharedSamples
from looktwice.eval.display.table import score_table
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics.paired import MCNEMAR_TEST, SIGN_FLIP_TEST
from tests.made_run import MadeRun, analyse, lines_of


def add_three_contestants(made: MadeRun, **more: Any) -> None:
    """Add three contestants on the keys AAAAAABB; the third failed s0 and was not asked s7."""
    made.task("t", "AAAAAABB", **more)
    made.answers(made.point("base", "t", baseline=True), "AAAABBBB")
    made.answers(made.point("ring", "t"), "AAAAAABA")
    zoom = made.point("zoom", "t")
    made.record(zoom, "s0", error="boom")
    made.answers(zoom, [None, *"AABBBA"])


def has_cells(line: dict[str, str], **cells: str) -> bool:
    return line.items() >= cells.items()


def test_two_contestants_by_hand(made: MadeRun) -> None:
    """Right together on s0 to s3 and s6, ring alone on s4 and s5, base alone on s7."""
    add_three_contestants(made)
    run = score_run(made.write())
    first, second, third = lines_of(analyse("pairs", run))
    assert has_cells(first, contestant="base", other="ring", n="8", p="1.000")
    assert first["difference"].startswith("\u221212.5\n")
    counts = {"both\nright": "5", "only\nfirst": "1", "only\nother": "2"}
    assert has_cells(first, **counts, **{"mistakes\nshared": "0\nof 2 and 1"})
    assert first["either %\n(oracle)"].startswith("100.0\n")
    assert has_cells(second, n="6", **{"left\nout": "2"}) and has_cells(third, n="6")
    (oracle,) = lines_of(analyse("oracle", run))
    assert has_cells(oracle, n="6", **{"left\nout": "2", "all\nright": "2", "none\nright": "0"})
    # on s1 to s6 the zoom and base outvote the ring on s4 and s5
    assert oracle["best %"] == "100.0" and oracle["majority %"].startswith("66.7\n")


@pytest.mark.parametrize(
    ("meta", "test", "clusters"),
    [
        (None, MCNEMAR_TEST, "8"),
        ([{"group": number // 2} for number in range(8)], SIGN_FLIP_TEST, "4"),
    ],
)
def test_each_arm_against_its_baseline(made: MadeRun, meta: Any, test: str, clusters: str) -> None:
    add_three_contestants(made, meta=meta)
    (shown,) = get_analysis("baseline").tables(score_table(made.write().path))
    in_common = {"metric": "accuracy", "baseline": "base", "unit": "sample", "test": test}
    assert dict(shown.facts) == in_common and not in_common.keys() & {*shown.table.header}
    ring, zoom = lines_of(shown.table)  # a mean over one task adds nothing
    assert has_cells(ring, task="t", n="8", clusters=clusters)
    assert has_cells(ring, better="2", worse="1", **{"left\nout": ""})
    assert has_cells(zoom, n="6", **{"left\nout": "2"})
    assert meta or zoom["detectable"] == "96.4"


def test_a_question_in_two_variants_is_one_cluster(made: MadeRun) -> None:
    made.task("t", ["A", "B"])
    made.samples += [type(row)("id-u", row.sha, row.answer, row.sample) for row in made.samples]
    for name in ("one", "two"):
        for task_id in ("id-t", "id-u"):
            made.answers(made.point(name, "t", task_id=task_id), ["A", "B"])
    points = score_run(made.write()).points
    both = SharedSamples.from_arms({"one": points[:2], "two": points[2:]})
    assert both.n == 4 and len(set(both.values.clusters)) == 2
