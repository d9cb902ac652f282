"""Questions that were never asked enter no mean."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml

from looktwice.eval.display.table import score_table
from looktwice.eval.records import Record
from looktwice.eval.scoring import AllRight, Row, Scorer
from looktwice.eval.scoring.notes import list_notes
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics.intervals import wilson
from looktwice.pipelines.config.spec import spec
from tests.made_run import MadeRun, join_attributes
from tests.optional import extension
from tests.tables import table

blink_twice = extension("blink_twice")

do_you_see_me = extension("do_you_see_me")
vlm2 = extension("vlm2")

VERBATIM = {"use": "eval.readers.WholeReply"}


def rows(made: MadeRun, **facts: Any) -> dict[str, Row]:
    """The rows of the contestant `plain` on t, by metric."""
    made.path.mkdir(exist_ok=True)
    (made.path / "run.yaml").write_text(yaml.safe_dump(facts))
    found = score_table(made.write().path).where(contestant="plain", task="t", slice="")
    return {row.metric: row for row in found}


def ask(made: MadeRun, scorer: Scorer, keys: str, meta: Any, said: Sequence[Any]) -> None:
    made.task("t", keys, choices=0, meta=meta)
    made.answers(made.point("plain", "t", facts={"scorer": spec(scorer)}, read=VERBATIM), said)


def test_samples_that_a_killed_run_never_listed_count_as_missing(made: MadeRun) -> None:
    """10 planned, 4 listed, 3 asked of which 2 are right; unreadable and failed ones were asked."""
    made.task("t", "AAAA")
    point = made.point("plain", "t")
    made.answers(point, "AA")
    made.record(point, "s2", error="boom")
    lines = rows(made, planned={"id-t": 10}, arms=[point])
    accuracy = join_attributes(lines["accuracy"], "value n missing low high")
    assert accuracy == (pytest.approx(2 / 3), 3, 7, *wilson(2, 3))
    assert lines["coverage"].value == pytest.approx(2 / 3)
    assert join_attributes(lines["accuracy_answered"], "value n") == (1.0, 2)
    assert join_attributes(lines["missing"], "value n") == (0.7, 10)


def test_more_records_than_planned_leave_nothing_missing(made: MadeRun) -> None:
    """A run of all four that was continued with a limit of two."""
    made.task("t", ["A"] * 4)
    made.answers(made.point("plain", "t"), ["A", "A", "B", "B"])
    lines = rows(made, planned={"id-t": 2}, samples={"id-t": 4})
    assert join_attributes(lines["accuracy"], "value n missing") == (0.5, 4, 0)
    assert "missing" not in lines


def test_a_missing_draw_is_not_in_the_mean_of_its_sample(made: MadeRun) -> None:
    """s0 has A and B, s1 A alone, s2 none: (1/2 + 1) / 2."""
    made.task("t", ["A", "A", "A"])
    point = made.point("plain", "t", draws=3)
    made.answers(point, ["A", "A"], draw=0)
    made.answers(point, ["B"], draw=2)
    lines = rows(made)
    assert join_attributes(lines["accuracy"], "value n missing") == (0.75, 2, 6)
    assert lines["missing"].value == pytest.approx(6 / 9)


def test_every_draw_counts_in_a_folder_without_a_plan(made: MadeRun) -> None:
    made.task("t", ["A"])
    point = made.point("plain", "t", draws=1)
    for draw, answer in enumerate("ABA"):
        made.answers(point, [answer], draw=draw)
    (arm,) = score_run(made.write()).points
    assert [scored.answer for scored in arm.draws("s0") if scored] == ["A", "B", "A"]


def test_means_over_tasks_use_only_asked_samples(made: MadeRun) -> None:
    made.task("t", ["A"] * 4)
    made.task("u", ["A"] * 4)
    made.task("v", ["A"] * 4)
    for task, letters in (("t", ["A", "B"]), ("u", ["A"] * 4), ("v", [])):
        made.answers(made.point("plain", task), letters)
    table = score_table(made.write().path).where(metric="accuracy", contestant="plain")
    macro, micro = (table.where(task=name).rows[0] for name in ("macro", "micro"))
    assert join_attributes(macro, "value n n_tasks of_tasks") == (0.75, 6, 2, 3)
    assert join_attributes(micro, "value n missing") == (pytest.approx(5 / 6), 6, 6)


def test_slices_use_only_asked_samples(made: MadeRun) -> None:
    made.task("t", "AAAA", meta=[{"kind": kind} for kind in "xxyy"])
    made.answers(made.point("plain", "t"), "A")
    table = score_table(made.write().path, by=["kind"])
    rows = table.where(metric="accuracy", contestant="plain", task="t")
    found = {row.slice: join_attributes(row, "value n missing") for row in rows}
    assert found == {"": (1.0, 1, 3), "kind=x": (1.0, 1, 1), "kind=y": (None, 0, 2)}


PAIRS = [{"pair": name} for name in "aabbccde"]
JOINT = [{"image": str(n // 2), "role": ("perception", "reasoning")[n % 2]} for n in range(6)]
CIRCLES, IMAGES = ([{name: each} for each in "aabbcc"] for name in ("circle", "image"))
SCORERS: dict[str, tuple[Callable[[], Scorer], Any]] = {
    "circles": (AllRight, CIRCLES),
    "pairs": (lambda: vlm2.PairScorer("GC-Mat"), PAIRS),
    "counts": (lambda: vlm2.CountScorer("OC-Cnt"), [{"image_len": 4}] * 3),
    "joint": (lambda: do_you_see_me.JointScorer(), JOINT),
    "twice": (lambda: blink_twice.TwiceScorer(), IMAGES[:4]),
}


@table
def test_partly_asked_units_are_excluded(
    made: MadeRun, name: str, keys: str, said: list[str | None], wanted: dict[str, Any]
) -> None:
    make, meta = SCORERS[name]
    ask(made, make(), keys, meta, said)
    lines = rows(made)
    found = {name: [lines[name].value, lines[name].n] for name in wanted}
    assert found == {
        name: [pytest.approx(value, abs=1e-4), n] for name, (value, n) in wanted.items()
    }


def test_levels_of_a_control_use_only_asked_samples(made: MadeRun) -> None:
    scorer = do_you_see_me.SweepScorer("visual_spatial", "2D", "integer", ("size",))
    ask(made, scorer, "1111", [{"size": size} for size in (1, 1, 2, 2)], ["1", None, "0", "1"])
    rows = score_table(made.write().path).where(metric="accuracy_along", contestant="plain")
    found = {row.slice: (row.value, row.n) for row in rows}
    assert found == {"size=1": (1.0, 1), "size=2": (0.5, 2)}


def test_partly_asked_rotations_are_excluded(made: MadeRun) -> None:
    made.task("t", ["A", "A"])
    asked: tuple[list[str | None], ...] = (["A", "A"], ["A", None])
    for by, said in enumerate(asked):
        stages = {"turn": {"use": "prompting.controls.PermuteLabels", "order": "rotated", "by": by}}
        made.answers(made.point("plain", "t", spec={"stages": stages}), said)
    (table,) = score_table(made.write().path).where(metric="circular_accuracy").rows
    assert (table.value, table.n) == (1.0, 1)


def test_the_notes_under_a_table(made: MadeRun) -> None:
    """An arm that reads the replies of another shares its records, so its missing samples too."""
    made.task("t", "AAAA")
    made.task("u", "A")
    for number, who in enumerate(("plain", "one", "two", "three", "four")):
        made.answers(made.point(who, "t", spec={"stages": {}, "model": {"n": number}}), "AA")
    made.answers(made.point("plain", "u"), "A")
    made.point("reading", "t", replies_of="p0")
    counts = {"planned": {"id-t": 3}, "samples": {"id-t": 9, "id-u": 1}, "limit": 3}
    rows(made, arms=["p0", "p6"], **counts)
    unfinished, part, hidden = list_notes(score_run(made.write()))
    assert unfinished.startswith("unfinished: 1 of 3 planned")
    assert part == "partly asked (limit 3): t: 3 of 9 samples"
    older = "5 arms of earlier plans, one on t, two on t, three on t and 2 more"
    assert hidden.startswith(f"not shown: {older}") and "--all" in hidden
    whole = score_run(made.write(), all_arms=True)
    assert len(whole.points) == 7
    unfinished, _, shown = list_notes(whole)
    assert unfinished.startswith("unfinished: 1 of 12 ")
    assert "Holm" in shown and shown.endswith(older)


def test_failures_are_counted_with_their_most_common_message(made: MadeRun) -> None:
    made.task("t", "AAAA")
    point, long = made.point("plain", "t"), f"ValueError: {'x' * 600}"
    for number, error in enumerate(("KeyError: y", f"{long}\nTraceback", long)):
        made.record(point, f"s{number}", error=error)
    made.record(point, "s3", answer="B")
    (line,) = list_notes(score_run(made.write()))
    assert line == f"failed: 3 answers, most often with {long[:500]}"
    made.records = [Record(point, "s0", "sha-t-0", error="\n")]
    assert "failed: 1 answer, with no message" in list_notes(score_run(made.write()))


def test_a_record_of_an_older_task_is_not_expected(made: MadeRun) -> None:
    made.task("t", ["A"])
    made.records.append(Record("elsewhere", "s0", "sha-t-0", answer="A"))
    made.answers(made.point("plain", "t"), ["A"])
    assert rows(made)["accuracy"].n == 1
