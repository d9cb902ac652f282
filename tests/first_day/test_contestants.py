"""A user's contestants: stages laid over the file's, pipelines without an answer, settings of
nested parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from looktwice.eval.cli import app
from looktwice.pipelines.config import Arm, build, identity, load_plan, spec
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.views import Crop

STUDY = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
model: {use: pipelines.models.Scripted}
stages:
  say: {use: prompting.wording.MultipleChoice}
  mark: {use: prompting.markers.Circles}
  ask: {use: prompting.turns.Ask}
"""
LOOKS = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    def __call__(self, state, model):
        return state.with_notes("looked, and said nothing")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's working folder with a study and a stage of their own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "silent_looks.py").write_text(LOOKS)
    return tmp_path


def looktwice(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_check_finds_a_pipeline_that_no_answer_can_come_of(folder: Path) -> None:
    """`check` said "no faults", and the run gave a table of unreadable answers."""
    result = looktwice(
        "check", "study.yaml", "stages.ask.use=silent_looks.Look", "--plugin", "silent_looks.py"
    )
    assert result.exit_code == 2
    assert (
        "contestants.plain.stages: no answer can come of it: none of say, mark, ask asks"
        in result.output
    )
    assert "`ask: {use: prompting.turns.Ask}`" in result.output


EXTENDING = """
  plain: {}
  blue: {stages: {mark: {color: blue}}}
  words: {stages: {mark: {use: prompting.wording.MarksAsText}}}
"""


def test_a_contestant_that_changes_one_stage_keeps_the_others(folder: Path) -> None:
    """A contestant's `stages:` silently replaced all stages, `ask` among them, and 20 of 20 replies
    were unreadable."""
    (folder / "study.yaml").write_text(STUDY + "contestants:" + EXTENDING)
    stages = {
        point.contestant: list(point.stages) for point in load_plan(folder / "study.yaml").points
    }
    assert stages == {name: ["say", "mark", "ask"] for name in ("plain", "blue", "words")}


def test_a_new_slot_asks_for_its_place_or_for_replace(folder: Path) -> None:
    """A specialist in a file with stages: its slot is new, and nothing said whether the other
    stages stay."""
    chance = "{stages: {answer: {use: specialists.answers.Chance}}}"
    (folder / "study.yaml").write_text(f"{STUDY}contestants: {{chance: {chance}}}")
    said = looktwice("check", "study.yaml").output
    assert (
        "contestants.chance.stages.answer: a new slot needs its place; say `before:` or `after:`"
        " one of say" in said
    )
    assert "say `replace: true` beside `stages:`" in said
    assert looktwice("check", "study.yaml", "contestants.chance.replace=true").exit_code == 0


def test_a_file_that_says_extend_is_told_what_to_type(folder: Path) -> None:
    (folder / "study.yaml").write_text(
        f"{STUDY}contestants: {{a: {{extend: true, stages: {{mark: null}}}}}}"
    )
    result = looktwice("check", "study.yaml")
    assert result.exit_code == 2
    assert (
        "contestants.a.extend: a contestant's stages are laid over the file's now, so drop `extend`"
        in result.output
    )


@pytest.mark.parametrize(
    "stages", ["{ask: null}", "{ask: {use: prompting.wording.ChainOfThought}}"]
)
def test_stages_that_are_known_to_give_no_answer_are_a_fault_before_the_run(
    folder: Path, stages: str
) -> None:
    """The table had 0.0 and p = 0.0010 for a contestant that had forgotten `ask`."""
    (folder / "study.yaml").write_text(
        f"{STUDY}contestants: {{plain: {{}}, mute: {{stages: {stages}}}}}"
    )
    result = looktwice("run", "study.yaml")
    assert result.exit_code == 2
    assert "contestants.mute.stages: no answer can come of it: none of say, mark" in result.output
    assert not (folder / "runs").exists()


ZOOMS = {
    "agent": (
        "stages: {agent: {use: prompting.agent.Agent, tools: {zoom: {use: prompting.agent.Zoom,"
        " crop: CROP}}}}"
    ),
    "stage": (
        "stages: {zoom: {use: prompting.controls.OracleCrop, crop: CROP}, ask: {use:"
        " prompting.turns.Ask}}"
    ),
}
PLACEBOS = {
    "agent": "{agent: {tools: {zoom: {elsewhere: true}}}}",
    "stage": "{zoom: {elsewhere: true}}",
}
PARTIAL = """
tasks: {t: {use: eval.tasks.LettersAndShapes, n: 1}}
model: {use: eval.tasks.NearSighted}
"""


@pytest.mark.parametrize("kind", list(ZOOMS))
def test_a_placebo_takes_its_settings_from_what_it_is_the_placebo_of(
    folder: Path, kind: str
) -> None:
    """The zoom arm showed pictures of 206 px and its placebo 480 px, because each named its crop
    for itself."""
    zoom = ZOOMS[kind].replace("CROP", "{padding: 0, min_px: 16, upscale: 700}")
    contestants = f"{{real: {{}}, placebo: {{stages: {PLACEBOS[kind]}}}}}"
    (folder / "zoom.yaml").write_text(f"{PARTIAL}{zoom}\ncontestants: {contestants}")
    real, placebo = (first_zoom(arm) for arm in load_plan(folder / "zoom.yaml").points)
    assert real.size == placebo.size and max(real.size) == 700
    assert real.picture.sha != placebo.picture.sha


def first_zoom(arm: Arm) -> View:
    """The first crop that the model was shown of the task's only sample."""
    (item,) = arm.task
    shown = Pipeline(arm.stages)(State.start(item.sample), arm.model).shown
    return next(view for view in shown if view.size != item.sample.images[0].size)


@pytest.mark.parametrize(
    ("use", "merged"),
    [
        ("prompting.agent.Zoom", Crop(padding=0.5, min_px=16, upscale=512)),
        ("prompting.agent.OracleZoom", Crop(padding=0.5, min_px=16, upscale=512)),
        ("prompting.turns.ZoomOnClaim", Crop(padding=0.5, upscale=768)),
        ("prompting.views.ZoomOnMarks", Crop(padding=0.5)),
    ],
)
def test_a_partial_nested_setting_keeps_the_rest_of_its_owner_s_default(
    use: str, merged: Crop
) -> None:
    """`crop: {padding: 0, min_px: 16}` lost the tool's `upscale: 512` without a word."""
    given = build({"use": use, "crop": {"padding": 0.5}})
    assert given.crop == merged
    assert build(spec(given)) == given
    assert identity(build({"use": use, "crop": {}})) == {"use": use}


def test_a_nested_node_with_use_is_new(folder: Path) -> None:
    node = {"use": "prompting.agent.Zoom", "crop": {"use": "prompting.views.Crop", "padding": 0.5}}
    assert build(node).crop == Crop(padding=0.5)


def test_a_merged_setting_is_swept_and_named_in_the_arm_s_changes(folder: Path) -> None:
    zoom = ZOOMS["agent"].replace("CROP", "{padding: 0.5}")
    (folder / "zoom.yaml").write_text(
        f"{PARTIAL}{zoom}\nsweep: {{stages.agent.tools.zoom.crop.min_px: [8, 9]}}"
    )
    arms = load_plan(folder / "zoom.yaml").points
    assert [arm.stages["agent"].tools["zoom"].crop for arm in arms] == [  # type: ignore[attr-defined]
        Crop(padding=0.5, min_px=pixels, upscale=512) for pixels in (8, 9)
    ]


def test_two_contestants_that_a_sweep_makes_equal_are_told_by_which_change(folder: Path) -> None:
    """Two markers, and `null` among the swept ones: "the same as 'plain'; drop one", and neither
    could be dropped."""
    contestants = "contestants: {plain: {}, blue: {stages: {mark: {color: blue}}}}"
    (folder / "study.yaml").write_text(
        f"{STUDY}{contestants}\nsweep: {{stages.mark: [{{radius: 5}}, null]}}"
    )
    said = looktwice("check", "study.yaml").output
    assert (
        "contestants.blue: the same as 'plain' on jigsaw under stages.mark=null; drop one, or make"
        " this" in said
    )


@pytest.mark.parametrize("first", ["use", "radius"])
def test_a_swept_class_keeps_the_other_swept_settings_in_whatever_order(
    folder: Path, first: str
) -> None:
    """With the radius first, another class threw it away again: four combinations made three
    arms."""
    axes = {
        "use": "[prompting.markers.Circles, prompting.markers.Crosshairs]",
        "radius": "[10, 30]",
    }
    order = [first, *(name for name in axes if name != first)]
    lines = "".join(f"  stages.mark.{name}: {axes[name]}\n" for name in order)
    (folder / "study.yaml").write_text(f"{STUDY}sweep:\n{lines}")
    arms = load_plan(Path("study.yaml")).points
    found = {
        (type(arm.stages["mark"]).__name__, arm.stages["mark"].radius)  # type: ignore[attr-defined]
        for arm in arms
    }
    assert found == {("Circles", 10), ("Circles", 30), ("Crosshairs", 10), ("Crosshairs", 30)}
    assert {arm.changes["stages.mark.use"] for arm in arms} == {"Circles", "Crosshairs"}


@pytest.mark.parametrize(
    ("each", "found"),
    [
        ("null", {"Circles 10", "Circles 30", "none"}),
        (
            "{use: prompting.markers.Crosshairs, radius: 7}",
            {"Circles 10", "Circles 30", "Crosshairs 7"},
        ),
        ("{radius: 5}", {"Circles 10", "Circles 30", "Circles 5"}),
        ("{use: prompting.markers.Contours}", {"Circles 10", "Circles 30", "Contours 0"}),
    ],
)
def test_a_single_change_is_laid_over_the_sweep(folder: Path, each: str, found: set[str]) -> None:
    """What `each` says of a slot counts after what `sweep` says of its settings."""
    (folder / "study.yaml").write_text(
        f"{STUDY}sweep: {{stages.mark.radius: [10, 30]}}\neach: [{{stages.mark: {each}}}]\n"
    )
    marks = [arm.stages.get("mark") for arm in load_plan(Path("study.yaml")).points]
    shown = {
        f"{type(mark).__name__} {getattr(mark, 'radius', 0):g}" if mark else "none"
        for mark in marks
    }
    assert shown == found
