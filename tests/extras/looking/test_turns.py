"""Measurements of stages, and turns as data."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from looktwice.eval import evaluate, write_report
from looktwice.eval.analysis.analyses import find_traits
from looktwice.eval.display.table import Table, make_table, score_table
from looktwice.eval.recorded.replay import replay
from looktwice.eval.records import RunFolder
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.metrics import collect_measurements, split_by_measurement
from looktwice.eval.scoring.turns import MAX_TURNS, ArmTurns, read_turns
from looktwice.eval.statistics import compare_paired
from looktwice.eval.statistics.intervals import wilson
from looktwice.extras.looking.measured import find_risks, find_routes, make_measurement_curves
from looktwice.extras.looking.turns import TurnChange, apply_stopping_rules
from looktwice.pipelines.model import Messages, Model, Reply, Usage
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.pipeline import Pipeline, StageFailed
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting import Ask, MultipleChoice
from looktwice.prompting.turns import Reperceive, Vote
from looktwice.prompting.wording import ChainOfThought
from tests.made_run import MadeRun, analyse
from tests.questions_in_memory import Questions

KEYS = ("A", "B") * 6


def flip(messages: Messages) -> Reply:
    """Replies A in the first turn and B in the next, with ten tokens a turn."""
    turns = sum(message.role == "user" for message in messages)
    return Reply("ANSWER: (A)" if turns % 2 else "ANSWER: (B)", usage=Usage(8, 2))


def ask_twice(path: Path, turns: int = 2, **settings: Any) -> Table:
    stages: dict[str, Stage] = {
        "choose": MultipleChoice(),
        "again": Reperceive(turns=turns, **settings),
    }
    return evaluate(Questions(KEYS), {"again": Pipeline(stages)}, Scripted(flip), out=path / "run")


def only_arm(table: Table) -> ArmTurns:
    (arm,) = read_turns(table.scores[0])
    return arm


def test_the_flip_model_gains_six_answers_and_loses_six(tmp_path: Path) -> None:
    table = ask_twice(tmp_path)
    change = TurnChange(only_arm(table), 0, 1)
    assert sum(change.find_changes(True)) == sum(change.find_changes(False)) == 6
    paired = change.paired
    assert paired and (paired.n, paired.value, paired.p) == (12, 0.0, 1.0)
    values, others = [0.0, 1.0] * 6, [1.0, 0.0] * 6
    wanted = compare_paired(values, others)
    assert (paired.low, paired.high) == (wanted.low, wanted.high) and wanted.low < -0.4
    assert (change.tokens, change.tokens_per_point, change.cost) == (10.0, "no gain", None)
    paid = []
    for turns in only_arm(table).records:
        one, two = turns.scored
        paid.append(replace(turns, scored=(one._replace(cost=0.1), two._replace(cost=0.3))))
    assert TurnChange(replace(only_arm(table), records=tuple(paid)), 0, 1).cost == pytest.approx(
        0.2
    )
    first, second = analyse("turns", *table.scores).rows
    assert first[2:4] == ("12", "50.0\n25.4–74.6") and second[1] == "2"
    assert second[4:6] == ("6\n25.4–74.6 %", "6\n25.4–74.6 %") and second[7] == "1.000"
    rows = {row.metric: row for row in table}
    assert rows["turn.1.accuracy"].value == rows["turn.2.accuracy"].value == 0.5
    page = write_report(table, tmp_path / "report").read_text()
    assert "What further turns changed" in page and "When to stop" in page


def test_replies_read_by_two_readers_have_turns_in_both_arms(tmp_path: Path) -> None:
    """A sweep over readers asks once; the second arm reads the records of the first."""
    folder = ask_twice(tmp_path).scores[0].folder.path
    (point,) = yaml.safe_load((folder / "points.yaml").read_text())
    name = {"id": "read again", "contestant": "again, read again"}
    again = {**point, **name, "replies_of": point["id"]}
    (folder / "points.yaml").write_text(yaml.safe_dump([point, again]))
    first, second = read_turns(score_table(folder, all_arms=True).scores[0])
    assert second.scores.contestant == "again, read again" and second.records == first.records


def test_a_failed_sample_has_no_turns(tmp_path: Path) -> None:
    folder = ask_twice(tmp_path).scores[0].folder.path
    first, *lines = (folder / "records.jsonl").read_text().splitlines()
    failed = json.dumps(json.loads(first) | {"error": "boom"})
    (folder / "records.jsonl").write_text("\n".join([failed, *lines]) + "\n")
    assert len(only_arm(score_table(folder)).records) == len(KEYS) - 1


def test_samples_of_one_group_are_one_cluster_of_turns_and_rules(tmp_path: Path) -> None:
    """The keys within a group are equal, so twelve samples are three units."""
    keys, meta = (
        ("A",) * 4 + ("B",) * 4 + ("A",) * 4,
        tuple({"group": number // 4} for number in range(12)),
    )
    widths = []
    for name, known in (("own", ()), ("shared", meta)):
        stages: dict[str, Stage] = {"choose": MultipleChoice(), "again": Reperceive(turns=2)}
        task, arms = Questions(keys, meta=known), {"again": Pipeline(stages)}
        table = evaluate(task, arms, Scripted(flip), out=tmp_path / name)
        change = TurnChange(only_arm(table), 0, 1)
        *_, gain = (rule.gain for rule in apply_stopping_rules(table.scores[0]))
        paired = change.paired
        assert paired
        widths.append((paired.high - paired.low, gain.high - gain.low))
    # of three groups, two of the eight signs
    assert paired and paired.value == pytest.approx(-1 / 3) and gain.p == 0.25
    assert all(shared > 1.3 * own for own, shared in zip(*widths, strict=True))


@pytest.mark.parametrize(("turns", "right"), [(1, None), (3, [0.5, 0.5, 0.5])])
def test_every_turn_is_read_by_the_reader(
    tmp_path: Path, turns: int, right: list[float] | None
) -> None:
    turns_read = read_turns(ask_twice(tmp_path, turns).scores[0])
    assert (turns_read == []) is (right is None)
    if right:
        first, second, third = turns_read[0].values.value.tolist()
        assert [*turns_read[0].values.value.mean(axis=1)] == right and first == third != second


def test_stopping_rules_are_compared_at_equal_cost(tmp_path: Path) -> None:
    """By hand: the oracle stops 6 samples after turn 1 and 6 after turn 2: 15 tokens, all right."""
    rules = {
        r.name.split(" (")[0]: r for r in apply_stopping_rules(ask_twice(tmp_path, 3).scores[0])
    }
    oracle, alike, first = rules["first right"], rules["two alike"], rules["one answer"]
    assert (oracle.mean_spent, oracle.accuracy, oracle.fixed_accuracy, oracle.mean_turns) == (
        15.0,
        1.0,
        0.5,
        1.5,
    )
    assert oracle.gain.value == 0.5 and oracle.unit == "tokens"
    assert (alike.mean_turns, alike.gain.value) == (3.0, 0.0) and (
        first.mean_turns,
        first.gain.value,
    ) == (1.0, 0.0)


def test_each_draw_of_a_vote_is_a_turn(tmp_path: Path) -> None:
    from looktwice.eval.readers import Robust

    said = {0: "(B)", 1: "(A)", 2: "(A)"}

    @dataclass(frozen=True)
    class Draws:
        identity: ClassVar[str] = "draws"

        def __call__(self, messages: Messages, draw: int = 0, options: Any = None) -> Reply:
            return Reply(said[draw])

    stages = Pipeline({"choose": MultipleChoice(), "vote": Vote(Robust(), n=3)})
    table = evaluate(Questions(("A",) * 4), {"vote": stages}, Draws(), out=tmp_path / "run")
    arm = only_arm(table)
    answers = [[each.at(turn).answer for turn in range(3)] for each in arm.records]
    assert answers == [["B", "B", "A"]] * 4  # on a tie, the answer that was given first
    assert sum(TurnChange(arm, 0, 2).find_changes(True)) == 4
    shares = collect_measurements(table.scores[0].points[0])["vote_share"]
    assert list(shares.values()) == pytest.approx([2 / 3] * 4)


def test_each_line_of_a_chain_of_thought_is_a_turn(tmp_path: Path) -> None:
    stages = Pipeline({"choose": MultipleChoice(), "think": ChainOfThought(), "ask": Ask()})

    def think(sentence: str) -> ArmTurns:
        out = tmp_path / str(len(sentence))
        return only_arm(
            evaluate(Questions(("B",) * 3), {"cot": stages}, Scripted(sentence), out=out)
        )

    arm = think("First I see a thing.\nSo ANSWER: (A)\n\nNo, look again.\nANSWER: (B)")
    assert [arm.records[0].at(turn).answer for turn in range(4)] == [None, "A", "A", "B"]
    assert sum(TurnChange(arm, 1, 3).find_changes(True)) == 3
    assert len(think("Hm.\n" * 3 * MAX_TURNS + "ANSWER: (B)").records[0].scored) == MAX_TURNS


# Measurements


@dataclass(frozen=True)
class Measures:
    """Measures the number of the sample, a kind, and two turns."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        number = int(state.sample.id[1:])
        kind = "even" if number % 2 == 0 else "odd"
        return (
            state.measured("size", number / 10)
            .measured("kind", kind)
            .measured("seen", [number, None])
        )


def measure_all(path: Path) -> Table:
    stages: dict[str, Stage] = {"choose": MultipleChoice(), "measure": Measures(), "ask": Ask()}
    task = Questions(KEYS, meta=tuple({"group": str(n % 3)} for n in range(12)))
    return evaluate(task, {"plain": Pipeline(stages)}, Scripted("(A)"), out=path / "run")


def test_measurements_of_a_stage_become_rows_slices_and_curves(tmp_path: Path) -> None:
    table = measure_all(tmp_path)
    (scores,) = table.scores[0].points
    rows = {row.metric: row for row in table if row.metric.startswith("measured.")}
    names = ("size", "kind=even", "kind=odd", "seen@1")
    assert set(rows) == {f"measured.{name}" for name in names}
    size = rows["measured.size"]
    assert size.value == pytest.approx(0.55) and size.clusters == 3
    # three groups with means 0.45, 0.55 and 0.65: 0.55 -+ 4.303 * 0.1 / sqrt(3)
    assert (size.low, size.high) == pytest.approx((0.3016, 0.7984), abs=1e-4)
    assert rows["measured.kind=odd"].value == 0.5 and rows["measured.kind=odd"].n == 12
    by = make_table(table.scores, by=("kind", "size"))
    slices = {
        row.slice: row.value for row in by if row.metric == "accuracy" and row.slice and row.point
    }
    assert (slices["kind=even"], slices["kind=odd"]) == (1.0, 0.0)
    quarters = set(split_by_measurement(scores, "size").values())
    assert len(quarters) == 4 and set(slices) - {"kind=even", "kind=odd"} == {
        f"size={part}" for part in quarters
    }
    lines = {row[1]: row for row in analyse("measured", *table.scores).rows}
    assert lines["kind: even"][-1].startswith("100.0") and lines["size"][4:6] == ("0.5", "0.6")
    curves = make_measurement_curves(table.scores[0], scores.point.task)
    curve = next(curve for curve in curves if curve.factor == "measured size")
    assert [point[1] for point in curve.lines["plain"]] == pytest.approx(
        [2 / 3, 1 / 3, 2 / 3, 1 / 3]
    )
    with pytest.raises(RunError, match="the fields are: group, kind, seen@1, size"):
        make_table(table.scores, by=("nothing",))


def test_the_record_holds_the_measurements(tmp_path: Path) -> None:
    measure_all(tmp_path)
    folder = tmp_path / "run"
    record = next(RunFolder(folder).last_records({"q0000"}))
    assert record.measured == {"kind": "even", "seen": [0, None], "size": 0.0}
    assert replay(folder, ["tests"]).all_reproduced
    lines = (folder / "records.jsonl").read_text().splitlines()
    lines.sort(key=lambda line: "q0000" not in line)
    (folder / "records.jsonl").write_text(lines[0].replace('"size":0.0', '"size":{}') + "\n")
    with pytest.raises(RunError, match="measured"):
        list(RunFolder(folder).last_records())


@pytest.mark.parametrize("value", [float("nan"), {"a": 1}, [[1]], object(), "half \ud800"])
def test_invalid_measurements_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="finite number or a string"):
        State(Sample("s", "q")).measured("it", value)


def test_numpy_numbers_and_booleans_become_plain_ones() -> None:
    import numpy as np

    state = State(Sample("s", "q")).measured("share", np.float64(0.5)).measured("seen", True)
    state = state.measured("t", (1, None))
    assert state.measures == {"share": 0.5, "seen": 1, "t": (1, None)}
    assert [type(value) for value in state.measures.values()] == [float, int, tuple]


def test_an_invalid_measurement_fails_only_its_own_sample() -> None:
    @dataclass(frozen=True)
    class Wrong:
        def __call__(self, state: State, model: Model) -> State:
            return state.replace(measures={"x": float("inf")})

    with pytest.raises(StageFailed) as caught:
        Pipeline({"wrong": Wrong()})(State(Sample("s", "q")))
    assert "finite number" in str(caught.value.__cause__)


# Routing


@dataclass(frozen=True)
class Sure:
    """Answers with a given confidence for each sample."""

    answers: tuple[str, ...]
    confidence: tuple[float, ...] = ()

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        number = int(state.sample.id[1:])
        sure = self.confidence[number] if self.confidence else None
        return state.replace(answer=self.answers[number], confidence=sure)


def test_routing_and_risk_match_an_example_computed_by_hand(tmp_path: Path) -> None:
    """By falling confidence, the model is right on 1 1 0 0 and the other on 0 1 1 1."""
    first = Sure(("A", "A", "B", "B"), (0.9, 0.8, 0.7, 0.6))
    arms = {"first": first, "then": Sure(("B", "A", "A", "A"))}
    table = evaluate(Questions(("A",) * 4), arms, out=tmp_path / "run")
    (run,) = table.scores
    (risk,) = find_risks(run)
    assert [share.value for share in risk.accuracies] == pytest.approx([1, 1, 2 / 3, 0.5])
    assert (
        risk.area == risk.best_area == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)
        and risk.random_area == 0.5
    )
    (shown,) = analyse("risk", run).rows[:1]
    low, high = wilson(2, 3)
    assert shown[2:6] == ("4", shown[3], shown[4], f"66.7\n{100 * low:.1f}–{100 * high:.1f}"), (
        "of the surest three"
    )
    half = next(route for route in find_routes(run) if route.share == 0.5)
    assert (half.first_arm, half.next_arms, half.router_accuracy, half.oracle_accuracy) == (
        "first",
        "then",
        1.0,
        1.0,
    )
    assert half.random_accuracy == pytest.approx(0.5 * 0.5 + 0.5 * 0.75)
    assert half.gain.value == pytest.approx(1 - 0.625)
    assert [(r.router_accuracy, r.oracle_accuracy) for r in find_routes(run)] == [
        (0.75, 0.75),
        (1.0, 1.0),
        (1.0, 1.0),
    ]


def test_samples_of_one_group_are_one_cluster_of_routes(tmp_path: Path) -> None:
    """Twelve samples in three groups that are right or wrong together."""
    first, then = (
        Sure(("A",) * 4 + ("B",) * 8, (*[0.9] * 4, *[0.5] * 4, *[0.8] * 4)),
        Sure(("A",) * 12),
    )
    found = []
    for name, meta in (
        ("own", ()),
        ("shared", tuple({"group": number // 4} for number in range(12))),
    ):
        task, out = Questions(("A",) * 12, meta=meta), tmp_path / name
        (run,) = evaluate(task, {"first": first, "then": then}, out=out).scores
        found.append(next(route.gain for route in find_routes(run) if route.share == 0.5))
    own, shared = found
    assert own.value == shared.value > 0
    assert shared.high - shared.low > 1.3 * (own.high - own.low)


@pytest.mark.parametrize(
    ("measures", "wanted"),
    [([{}], False), ([{"size": 0.5}], False), ([{"size": 0.5}, {"size": 0.25}], True)],
)
def test_a_constant_measurement_has_no_table(
    measures: list[dict[str, float]], wanted: bool, made: MadeRun
) -> None:
    made.task("t", ["A", "B"])
    for number, measured in enumerate(measures):
        point = made.point(f"arm {number}", "t")
        for sample in ("s0", "s1"):
            made.record(point, sample, answer="A", measured=measured)
    assert ("measured" in find_traits(score_table(made.write().path))) is wanted
