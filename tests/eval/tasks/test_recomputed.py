"""Published results, recomputed from the available files with the shipped configurations."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from typer.testing import CliRunner

from looktwice.eval.analysis.contestants import pair_table
from looktwice.eval.analysis.shared_samples import SharedSamples
from looktwice.eval.cli import app
from looktwice.eval.display.table import Table, make_table
from looktwice.eval.records import Record, RunFolder
from looktwice.eval.records.records import PointRow, SampleRow
from looktwice.eval.replies import OfficialLabel, RecordedQuestions
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, build_scorer
from looktwice.eval.tasks import TaskError
from looktwice.pipelines.config import Plan, load_plan
from looktwice.pipelines.config.load import load
from looktwice.pipelines.config.spec import Arm, spec
from looktwice.pipelines.model import Message
from looktwice.pipelines.models import Replay
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.optional import extension, needs_extras
from tests.paths import CONFIGS
from tests.tables import read_yaml, table

toolkits = extension("toolkits")

extras_replies = extension("logs.replies")

OF_LLAVA_7B = {"LLaVA-7B": 1210, "LLaVA-13B": 898, "QwenVLMax": 804, "GPT4V": 656}
CONCATENATED = {"GPT4V": (38.63, 38.27), "GeminiProVision": (36.31, 35.92)}
FIGURES = read_yaml(Path(__file__).with_suffix(".yaml"))["figures"]
CHANCE, UNITS, PRINTED = (FIGURES[name] for name in ("chance", "units", "printed"))
PUBLISHED_AS = FIGURES["published_as"]


def score_recorded(plan: Plan, out: Path) -> RunScores:
    """Score a run of recorded replies without the runner."""
    folder, rows, points = RunFolder(out), dict[str, dict[str, SampleRow]](), []
    for point in plan.points:
        if point.task_id not in rows:
            rows[point.task_id] = {
                item.sample.id: SampleRow(point.task_id, "", item.answer, item.sample.to_dict())
                for item in point.task
            }
        points.append(_scored(folder, point, rows[point.task_id]))
    return RunScores(folder, tuple(points))


def _scored(folder: RunFolder, point: Arm, samples: Mapping[str, SampleRow]) -> PointScores:
    scorer = build_scorer({"scorer": spec(point.task.facts.scorer)})
    names = (point.id, point.contestant, point.task_name, point.task_id)
    asked = PointRow(*names, point.changes, point.baseline, asdict(point.task.facts))
    judge, found = RecordScorer(folder, point.read, scorer), dict[str, dict[int, ScoredRecord]]()
    if isinstance(point.model, Replay):
        for name, sample in samples.items():
            call = {
                "messages": [],
                "draw": 0,
                "reply": {"text": point.model.for_sample(name)(()).text},
            }
            found[name] = {0: judge(Record(point.id, name, "", calls=(call,)), sample)}
    label = " ".join([point.contestant, *map(str, point.changes.values())])
    return PointScores(asked, samples, found, contestant=label, task=point.task_name, scorer=scorer)


def percent(found: Table, metric: str, contestant: str, **fields: Any) -> float:
    (held,) = found.where(metric=metric, contestant=contestant, slice="", **fields).rows
    return round(100 * (held.value or 0.0), 2)


# ---- BLINK


def planned(config: str, task: str, path: Path) -> Plan:
    plan = load_plan(CONFIGS / f"{config}.yaml", [f"tasks.{task}.path={path}"])
    assert not plan.left_out
    return plan


@pytest.fixture(scope="module")
def blink_val(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunScores:
    plan = planned("blink_val", "Art_Style", shared_data / "blink_replies")
    return score_recorded(plan, tmp_path_factory.mktemp("blink_val"))


@pytest.fixture(scope="module")
def val_table(blink_val: RunScores) -> Table:
    return make_table([blink_val])


@pytest.mark.slow
@table
def test_the_val_column_of_the_blink_table(
    val_table: Table, model: str, macro: float, micro: float, stable: float | None
) -> None:
    """`stable` is without Relative_Reflectance, whose key changed."""
    assert percent(val_table, "blink_macro", model) == macro
    assert percent(val_table, "blink_micro", model) == micro
    assert stable in (None, percent(val_table, "blink_macro_without_reflectance", model))
    (row,) = val_table.where(metric="blink_macro", contestant=model).rows
    assert (row.n, row.n_tasks, row.failed) == (1901, 14, 0)


@pytest.mark.slow
def test_the_overlap_of_errors(blink_val: RunScores) -> None:
    """App. C.2 on val: 1,210 mistakes of LLaVA-1.5-7B, 1,096 of 13B, 898 in common."""
    arms = defaultdict[str, list[PointScores]](list)
    for arm in blink_val.points:
        arms[arm.contestant].append(arm)
    llava = {"LLaVA-7B": arms["LLaVA-7B"]}
    for name, shared in OF_LLAVA_7B.items():
        both = SharedSamples.from_arms({**llava, name: arms[name]})
        assert both.mistakes.startswith(f"{shared}\n")
    shown = pair_table(make_table([blink_val]))
    assert len(shown.rows) == 8 * 7 / 2
    (line,) = (cells for cells in shown.rows if set(cells[:2]) == {"LLaVA-7B", "LLaVA-13B"})
    cells = dict(zip(shown.header, line, strict=True))
    assert cells["mistakes\nshared"] in ("898\nof 1210 and 1096", "898\nof 1096 and 1210")
    assert cells["n"] == "1901"


def test_the_effect_of_concatenation(shared_data: Path, tmp_path: Path) -> None:
    plan = planned("blink_concatenation_recorded", "Jigsaw", shared_data)
    table = make_table([score_recorded(plan, tmp_path)])
    for model, totals in CONCATENATED.items():
        for task, total in zip(("macro", "micro"), totals, strict=True):
            assert percent(table, "accuracy", f"concatenated {model}", task=task) == total
    for task in {r.task for r in table.rows if r.task_name}:
        separate, concatenated = (
            percent(table, "accuracy", f"{how} GPT4V", task=task)
            for how in ("separate", "concatenated")
        )
        assert separate > concatenated, "GPT-4V falls on every task"
    (whole,) = table.where(metric="accuracy", contestant="concatenated GPT4V", task="micro").rows
    assert (whole.baseline, whole.n, (whole.p or 0) < 1e-4) == ("separate GPT4V", 1108, True)
    assert round(100 * (whole.delta or 0), 2) == -11.82


@pytest.mark.nightly
def test_the_commands_give_the_same_numbers(shared_data: Path, tmp_path: Path) -> None:
    path = f"tasks.Art_Style.path={shared_data / 'blink_replies'}"
    words = ["run", str(CONFIGS / "blink_val.yaml"), path, "--out", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0 and "15208 new, 0 existing, 0 failed" in result.output
    report = (tmp_path / "blink_val/report.md").read_text(encoding="utf-8")
    for cell in ("GPT4V | 51.14", "OPUS | 44.05", "MiniGPT-4 | 34.23"):
        assert f"| BLINK | blink_macro | {cell}<br>" in report


@table
def test_recorded_questions_and_faults(tmp_path: Path, name: str, key: str, said: str) -> None:
    keys = {"val_Jigsaw_1": "(B)", "val_Counting_1": "(D)"}
    (tmp_path / "val_answers.json").write_text(json.dumps(keys))
    (item,) = RecordedQuestions(tmp_path, "Counting")
    assert (item.answer, item.sample.letters) == ("D", tuple("ABCD"))
    assert item.sample.meta["subtask"] == "Counting"
    assert "2025-09-03" not in str(RecordedQuestions(tmp_path, "Jigsaw").facts)
    with pytest.raises(TaskError, match=said):
        len(RecordedQuestions(tmp_path, name, key))


@table
def test_an_official_label_becomes_an_answer(label: str, answer: str | None) -> None:
    sample = Sample("s", "q", choices=("", ""))
    state = OfficialLabel()(State(sample, messages=(Message("assistant", (label,)),)), NoModel())
    assert state.answer == answer


@pytest.mark.parametrize(
    ("reply", "coverage"), [("E", "100.00"), ("(C)", "100.00"), (None, "0.00")]
)
def test_a_letter_outside_the_choices_and_a_missing_reply_are_wrong(
    tmp_path: Path, reply: str | None, coverage: str
) -> None:
    """The official rule accepts E and (C) with two choices, and scores them as wrong."""
    file = tmp_path / "m.jsonl"
    file.write_text(json.dumps({"idx": "val_Jigsaw_1", "reply": reply, "answer": "(A)"}) + "\n")
    line = next(extras_replies.report_replies([file], "blink_official"))
    assert line.startswith(f"m: n=1, accuracy=0.00%, coverage={coverage}%")


# ---- Do You See Me


@needs_extras
def test_the_baselines_of_do_you_see_me(shared_data: Path, tmp_path: Path) -> None:
    plan = planned("dysm_baselines", "figure_ground", shared_data / "dysm")
    table = make_table([score_recorded(plan, tmp_path)])
    rows = table.where(metric="accuracy", contestant="chance (level)", slice="").rows
    assert {r.task: round(100 * (r.value or 0), 2) for r in rows if r.task_name} == CHANCE
    assert percent(table, "mean_2d", "majority (key)") == 35.05
    assert percent(table, "mean_3d", "majority (key)") == 63.83


# ---- VLM2-Bench


@table
def test_the_official_reader_of_vlm2(subtask: str, reply: str, answer: str | None) -> None:
    sample = Sample("s", "q", meta={"subtask": subtask})
    state = State(sample, messages=(Message("assistant", (reply,)),))
    assert toolkits.Vlm2()(state, NoModel()).answer == answer
    with pytest.raises(ValueError, match="'no subtask' is not a subtask of VLM2-Bench"):
        toolkits.Vlm2()(state.replace(sample=Sample("s", "q")), NoModel())


VLM2_BENCH, BLINK_BENCH = (
    load(CONFIGS / f"{name}.yaml")["published"] for name in ("vlm2_bench", "blink_bench")
)


@pytest.mark.parametrize("who", [name for name in VLM2_BENCH if name != "chance"])
def test_the_published_table_of_vlm2(who: str) -> None:
    """Averages are over eight tasks, at first over nine; PRINTED is the camera-ready."""
    row = VLM2_BENCH[who]["accuracy"]
    scores = [value for name, value in row.items() if not name.startswith("overall")]
    for name, units in UNITS.items() if not who.startswith("people") else ():
        assert min(abs(row[name] - 100 * k / units) for k in range(units + 1)) < 0.0051, name
    if "overall_9" in row:
        error = 0.0151 if who == "InternVL2.5-8B" else 0.0106
        assert fmean(scores) == pytest.approx(row["overall_9"], abs=error)
    if "overall_8" in row:
        assert fmean(scores[:8]) == pytest.approx(row["overall_8"], abs=0.006)
        assert row["overall_8"] == PRINTED.get(who, row["overall_8"])


def test_the_published_rows_of_blink(val_table: Table) -> None:
    """Each task is a share of its questions and the total their mean."""
    models = {
        name: dict(row["accuracy"])
        for name, row in BLINK_BENCH.items()
        if row["split"] == "val" and not row.get("people")
    }
    assert len(models) == 17 + 2 and PUBLISHED_AS.keys() < models.keys()
    for name, row in models.items():
        total = row.pop("blink_macro")
        assert len(row) == 14 and fmean(row.values()) == pytest.approx(total, abs=0.0051)
        if ours := PUBLISHED_AS.get(name):  # once more from its replies
            rows = val_table.where(metric="accuracy", contestant=ours, slice="").rows
            assert row == {r.task_name: round(100 * (r.value or 0), 2) for r in rows if r.task_name}
