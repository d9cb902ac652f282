"""The prompts of BLINK's runner and two toolkits, the gap between them, and decoding."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.eval.report import write_report
from looktwice.eval.runs.run import Run
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics import compare_paired
from looktwice.extras.toolkits import (
    LmmsEvalPrompt,
    OfficialPrompt,
    Vlm2,
    VlmevalkitPrompt,
    wording,
)
from looktwice.pipelines.config import ConfigError, Plan, load_plan
from looktwice.pipelines.config.load import load
from looktwice.pipelines.model import Message
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from tests.made_run import MadeRun
from tests.optional import extension, needs_extras
from tests.paths import CONFIGS
from tests.tables import read_yaml

gaps = extension("studies.gap")

CASES = read_yaml(Path(__file__).with_name("toolkits.yaml"))

PROMPT = (
    "Two points are circled. Which is closer?\nSelect from the following choices.\n(A) A is"
    " closer\n(B) B is closer"
)
NO_MODEL = NoModel("these stages ask nobody")


def make_state(subtask: str = "Relative_Depth", prompt: str = PROMPT, **meta: Any) -> State:
    said = {"subtask": subtask, "prompt": prompt, **meta}
    return State.start(
        Sample("s", "Which is closer?", (), ("A is closer", "B is closer"), meta=said)
    )


OPTIONS = "Options:\nA. A is closer\nB. B is closer\nPick."
CIRCLED = "Question: Two points are circled. Which is closer?"
LETTERED = "Which?\nSelect from the following options.\n\n(A) x\n(B) y\n"
FAIR, PICK = OfficialPrompt(disclaimer="Be fair."), VlmevalkitPrompt(closing="Pick.")
ALONE, ONLY = VlmevalkitPrompt(options=False), LmmsEvalPrompt(note="Only {letters}!\n")


@pytest.mark.parametrize(
    ("stage", "state", "prompt"),
    [
        (OfficialPrompt(), make_state(), PROMPT),
        (FAIR, make_state("Forensic Detection"), f"Be fair.\n\n{PROMPT}"),
        (FAIR, make_state("Jigsaw"), f"Be fair.\n\n{PROMPT}"),
        (FAIR, make_state("Art_Style"), f"Be fair.\n\n{PROMPT}"),
        (PICK, make_state(), f"{CIRCLED}\n{OPTIONS}"),
        (PICK, make_state(hint="Look left."), f"Hint: Look left.\n{CIRCLED}\n{OPTIONS}"),
        (PICK, make_state(prompt=LETTERED), f"Question: Which?\n{OPTIONS}"),
        (PICK, make_state(prompt="Which?\n(A) x\n(B) y"), f"Question: Which?\n{OPTIONS}"),
        (PICK, State.start(Sample("s", "How many?")), "Question: How many?"),
        # VLM2-Bench: the question alone
        (ALONE, make_state("GC-Mat", "\nIs it so? T or F"), "Question: Is it so? T or F\n"),
        (ONLY, make_state(), f"Only A, B!\n{PROMPT}"),
    ],
)
def test_the_prompts_of_the_blink_runner_and_of_two_toolkits(
    stage: Stage, state: State, prompt: str
) -> None:
    assert stage(state, NO_MODEL).prompt == prompt


def test_a_sample_without_its_own_prompt_has_no_official_one() -> None:
    with pytest.raises(ValueError, match="sample s has no field `prompt`"):
        OfficialPrompt()(State.start(Sample("s", "Which?")), NO_MODEL)
    assert "A, B" in LmmsEvalPrompt()(make_state(), NO_MODEL).prompt


@pytest.mark.parametrize(("name", "temperature", "top_p", "max_tokens"), CASES["decoding"])
def test_published_decoding_settings(
    name: str, temperature: float | None, top_p: float | None, max_tokens: int
) -> None:
    kind = getattr(wording, f"{name}Decoding")
    given = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
    published = {setting: value for setting, value in given.items() if value is not None}
    assert kind().to_dict() == published
    assert kind(max_tokens=300).to_dict() == {**published, "max_tokens": 300}


def test_decoding_is_one_line_in_a_configuration(tmp_path: Path) -> None:
    (point,) = planned(
        tmp_path, stages={"ask": asks(options={"use": "prompting.wording.DoYouSeeMeDecoding"})}
    ).points
    assert point.stages["ask"].options == wording.DoYouSeeMeDecoding()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("subtask", "reply", "official", "toolkit"), CASES["vlm2"])
def test_vlm2_is_scored_officially_and_as_by_vlmevalkit(
    subtask: str, reply: str, official: str | None, toolkit: str | None
) -> None:
    state = State(
        Sample("s", "?", meta={"subtask": subtask}), messages=(Message("assistant", (reply,)),)
    )
    assert Vlm2()(state, NO_MODEL).answer == official
    assert Vlm2("vlmevalkit")(state, NO_MODEL).answer == toolkit


def asks(**settings: Any) -> dict[str, Any]:
    return {"use": "prompting.turns.Ask", **settings}


def planned(folder: Path, **entries: Any) -> Plan:
    base = {
        "task": {"use": "eval.tasks.Photos", "kind": "jigsaw", "n": 12},
        "model": {"use": "pipelines.models.Scripted", "answer": "The answer is (A)."},
    }
    (folder / "study.yaml").write_text(
        yaml.safe_dump(base | entries, sort_keys=False), encoding="utf-8"
    )
    return load_plan(folder / "study.yaml")


PRESETS = sorted(path.name for path in CONFIGS.glob("as_*.yaml"))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_contestant_to_include(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text((CONFIGS / name).read_text(encoding="utf-8"), encoding="utf-8")
    (point,) = planned(tmp_path, include=name).points
    assert point.contestant == name.removesuffix(".yaml").removesuffix("_vlm2")
    assert [slot for slot in point.stages if slot not in ("size", "encode")] == ["prompt", "ask"]
    assert load(CONFIGS / name).keys() == {"contestants"}


def test_the_presets_differ_as_the_toolkits_do() -> None:
    names = ("official", "vlmevalkit", "lmms_eval")
    held = {name: load(CONFIGS / f"as_{name}.yaml")["contestants"][f"as_{name}"] for name in names}
    order = {name: node["stages"]["ask"]["images"] for name, node in held.items()}
    assert order == {"official": "after", "vlmevalkit": "before", "lmms_eval": "before"}
    codec = {name: node["stages"]["encode"]["codec"] for name, node in held.items()}
    assert codec == {"official": "jpeg", "vlmevalkit": "jpeg", "lmms_eval": "png"}
    assert len({node["read"]["use"] for node in held.values()}) == 3
    for name in ("official", "vlmevalkit"):
        assert "detail" not in str(held[name])  # a setting of the model, which the comment mentions


FIRST: dict[str, dict[str, Any]] = {
    "stages": {
        "choose": {"use": "prompting.wording.MultipleChoice"},
        "encode": {"use": "prompting.views.Encode", "codec": "jpeg", "quality": 75},
        "ask": asks(images="after", options={"max_tokens": 5}),
    },
    "read": {"use": "eval.readers.Strict"},
}
SECOND = {
    "stages": {
        "choose": {"use": "prompting.wording.MultipleChoice", "label_style": "A."},
        "size": {"use": "prompting.views.FixedHeight", "height": 64},
        "ask": asks(images="before"),
    },
    "read": {"use": "eval.readers.Robust"},
}
GAP = {"contestants": {"first": FIRST, "second": SECOND}, "gap": {"from": "first", "to": "second"}}


@needs_extras
def test_every_difference_becomes_its_own_point(tmp_path: Path) -> None:
    plan = planned(tmp_path, **GAP)
    first = [point for point in plan.points if point.contestant == "first"]
    changed = {place: point for point in first for place in point.changes}
    places = ["choose", "size", "encode", "ask.images", "ask.options"]
    assert list(changed) == [f"stages.{place}" for place in places]
    assert list(changed["stages.size"].stages) == ["choose", "size", "encode", "ask"]
    assert list(changed["stages.encode"].stages) == ["choose", "ask"]
    assert changed["stages.encode"].changes == {"stages.encode": None}
    assert changed["stages.choose"].changes == {"stages.choose": "MultipleChoice(label_style=A.)"}
    ask = changed["stages.ask.images"].stages["ask"]
    assert (ask.images, ask.options.max_tokens) == ("before", 5)  # type: ignore[attr-defined]
    (reading,) = plan.readings
    (plain,) = (point for point in first if not point.changes)
    assert (reading.changes, reading.replies_of) == ({"read": "Robust"}, plain.id)


@needs_extras
@pytest.mark.parametrize(("entries", "words"), CASES["faults_of_a_gap"])
def test_faults_in_a_gap_study(tmp_path: Path, entries: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        planned(tmp_path, **{**GAP, **entries})
    both = {"first": FIRST, "second": FIRST | {"stages": dict(reversed(FIRST["stages"].items()))}}
    with pytest.raises(ConfigError, match="in different orders"):
        planned(tmp_path, contestants=both, gap=GAP["gap"])


@needs_extras
def test_contestants_that_differ_only_in_their_reader_are_asked_once(tmp_path: Path) -> None:
    readers = [{"use": "eval.readers.Strict"}, {"use": "eval.readers.Robust"}]
    more = {"sweep": {"read": readers}, "contestants": {"one": {}}}
    plan = planned(tmp_path, stages=FIRST["stages"], **more)
    assert (len(plan.points), len(plan.readings)) == (1, 1)
    run = Run(plan, tmp_path / "runs" / "read")()
    assert run.written_count == 12
    # without a gap, no shares
    assert gaps.find_factor_effects(score_run(RunFolder(run.folder))) == []
    table = score_table(run.folder).where(metric="accuracy", task="jigsaw", slice="")
    rows = {row.reader: row for row in table.rows if row.point}
    assert (rows["strict"].unreadable, rows["robust"].unreadable) == (12, 0)
    assert set(rows["robust"].contestant.split()) == {"one", "[read=Robust]"}


@pytest.fixture
def gap_run(tmp_path: Path) -> Path:
    """Run a gap study in which only the reader matters: the model always replies the same."""
    return Run(planned(tmp_path, **GAP), tmp_path / "runs" / "gap")().folder


@needs_extras
def test_contributions_add_up_to_the_gap(gap_run: Path, tmp_path: Path) -> None:
    effects = gaps.find_factor_effects(score_run(RunFolder(gap_run)))
    lines = {line.factor: line for line in effects if line.task == "jigsaw"}
    factors = ["choose", "size", "encode", "ask.images", "ask.options", "read", "interaction"]
    assert [name.partition(":")[0] for name in lines] == [*factors, "the whole gap"]
    whole, read = lines["the whole gap"], lines["read: Robust"]
    assert whole.effect.value > 0.2
    assert (read.effect.value, read.share_of_gap, read.effect.n) == (whole.effect.value, 1.0, 12)
    assert read.p is not None and read.p < 0.05
    values = {name: line.effect.value for name, line in lines.items() if line is not whole}
    assert sum(values.values()) == pytest.approx(whole.effect.value)
    assert not any(values[name] for name in values if not name.startswith(("read", "inter")))
    page = write_report([gap_run], tmp_path / "out").read_text(encoding="utf-8")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "Why the numbers differ" in page
    assert "| jigsaw | accuracy | encode: none | 0.0 | 0.0 | +0.0<br>" in text
    assert gaps.make_factor_table(score_table(gap_run)).rows[-1][2] == "the whole gap"


@needs_extras
def test_custom_metrics_and_several_tasks_have_contributions(tmp_path: Path) -> None:
    tasks = {
        name: {"use": "eval.tasks.Photos", "kind": "jigsaw", "n": n}
        for name, n in (("a", 6), ("b", 9))
    }
    run = Run(planned(tmp_path, task=None, tasks=tasks, **GAP), tmp_path / "runs" / "two")().folder
    lines = gaps.find_factor_effects(score_run(RunFolder(run)))
    value = {line.task: line.effect.value for line in lines if line.factor == "read: Robust"}
    assert value["macro"] == pytest.approx((value["a"] + value["b"]) / 2)
    assert value["micro"] == pytest.approx((6 * value["a"] + 9 * value["b"]) / 15)
    (macro,) = (line for line in lines if line.task == "macro" and line.factor == "the whole gap")
    assert macro.effect.low < macro.effect.value < macro.effect.high


@needs_extras
def test_a_gap_counts_a_group_as_one_unit(tmp_path: Path) -> None:
    """Twenty samples in four groups on each of two tasks with different groups."""
    made = MadeRun(tmp_path / "run")
    for task in ("t", "u"):
        made.task(task, ["A"] * 20, meta=[{"group": number // 5} for number in range(20)])
        made.answers(made.point("one", task), "B" * 20)
        made.answers(made.point("other", task), "A" * 10 + "B" * 10)
    made.write()
    (made.path / "run.yaml").write_text(
        yaml.safe_dump({"config": {"gap": {"from": "one", "to": "other"}}})
    )
    lines = {line.task: line for line in gaps.find_factor_effects(score_run(RunFolder(made.path)))}
    values, groups = [1.0] * 10 + [0.0] * 10, [number // 5 for number in range(20)]
    for task, times in (("t", 1), ("micro", 2)):
        clusters = [(copy, group) for copy in range(times) for group in groups]
        strata = [copy for copy, _ in clusters]
        wanted = compare_paired(values * times, [0.0] * 20 * times, clusters, strata=strata)
        line = lines[task]
        figures = line.effect.low, line.effect.high, line.p, line.effect.n
        assert figures == (wanted.low, wanted.high, wanted.p, wanted.n)
        assert wanted.clusters == 4 * times


@needs_extras
def test_why_different_varies_every_factor_on_real_questions(shared_data: Path) -> None:
    given = [
        f"tasks.depth.path={shared_data / 'blink'}",
        "models.chat={use: pipelines.models.Scripted}",
    ]
    plan = load_plan(CONFIGS / "why_different.yaml", given)
    depth = [point for point in plan.points if point.task_name == "depth"]
    changed = [place for point in depth for place in point.changes]
    assert changed == ["stages.prompt", "stages.size", "stages.ask.images", "stages.ask.options"]
    assert [point.changes for point in plan.readings if point.task_name == "depth"] == [
        {"read": "Vlmevalkit"}
    ]
    other = load_plan(CONFIGS / "why_different.yaml", [*given, "gap.to=as_lmms_eval"])
    places = {place for point in other.points for place in point.changes}
    assert places >= {"stages.encode", "stages.prompt"}
