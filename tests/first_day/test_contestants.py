"""Contestants: stages that overlay those of the file, and settings of nested parts."""

from pathlib import Path

import pytest

from looktwice.pipelines.config import build, load_plan
from looktwice.pipelines.config.spec import Arm, identity, spec
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.views import Crop
from tests.first_day.studies import get_output
from tests.optional import needs_extras

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
    """A user's working folder with a study and a custom stage."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "silent_looks.py").write_text(LOOKS)
    return tmp_path


def check(folder: Path, more: str, *words: str, code: int = 2, command: str = "check") -> str:
    (folder / "study.yaml").write_text(STUDY + more)
    return get_output(command, "study.yaml", *words, code=code)


def test_check_finds_a_pipeline_that_cannot_answer(folder: Path) -> None:
    words = ("stages.ask.use=silent_looks.Look", "--plugin", "silent_looks.py")
    output = check(folder, "", *words)
    fault = "contestants.plain.stages: these stages cannot answer: none of say, mark, ask asks"
    assert fault in output and "`ask: {use: prompting.turns.Ask}`" in output
    for stages in ("{ask: null}", "{ask: {use: prompting.wording.ChainOfThought}}"):
        mute = f"contestants: {{plain: {{}}, mute: {{stages: {stages}}}}}"
        fault = "contestants.mute.stages: these stages cannot answer: none of say, mark"
        assert fault in check(folder, mute, command="run") and not (folder / "runs").exists()


EXTENDING = """
contestants:
  plain: {}
  blue: {stages: {mark: {color: blue}}}
  words: {stages: {mark: {use: prompting.wording.MarksAsText}}}
"""


def test_a_contestant_that_changes_one_stage_keeps_the_others(folder: Path) -> None:
    (folder / "study.yaml").write_text(STUDY + EXTENDING)
    arms = load_plan(folder / "study.yaml").points
    slots = ["say", "mark", "ask"]
    assert {arm.contestant: list(arm.stages) for arm in arms} == dict.fromkeys(
        ("plain", "blue", "words"), slots
    )


def test_a_new_slot_needs_a_position_or_a_stage_to_replace(folder: Path) -> None:
    chance = "contestants: {chance: {stages: {answer: {use: specialists.answers.Chance}}}}"
    output = check(folder, chance)
    fault = "contestants.chance.stages.answer: a new slot needs a position; add `before:`"
    assert fault in output and "add `replace: true` next to `stages:`" in output
    check(folder, chance, "contestants.chance.replace=true", code=0)
    extend = check(folder, "contestants: {a: {extend: true, stages: {mark: null}}}")
    assert "contestants.a.extend: no such entry; a contestant's stages are overlaid" in extend


def test_a_new_stage_that_prepares_the_question_precedes_the_asking_stage(folder: Path) -> None:
    stages = (
        "{small: {use: prompting.views.LongestSide, pixels: 99}, own: {use: silent_looks.Look}}"
    )
    (folder / "study.yaml").write_text(STUDY + f"contestants: {{a: {{stages: {stages}}}}}")
    (arm,) = load_plan(folder / "study.yaml", plugins=["silent_looks.py"]).points
    assert list(arm.stages) == ["say", "mark", "small", "own", "ask"]
    shown = "{use: prompting.views.Look, where: {use: prompting.where.Sized, where: WHERE}}"
    for zoom, where in (
        ("{use: prompting.views.ZoomOnMarks}", ""),
        (shown, "{use: prompting.where.OnMarks}"),
        ("{use: prompting.turns.When, stage: WHERE}", "{use: prompting.markers.Dots}"),
    ):
        stages = f"{{zoom: {zoom.replace('WHERE', where)}, small: {{use: prompting.markers.Dots}}}}"
        (folder / "study.yaml").write_text(STUDY + f"contestants: {{a: {{stages: {stages}}}}}")
        (arm,) = load_plan(folder / "study.yaml").points
        assert list(arm.stages) == ["say", "mark", "zoom", "small", "ask"], zoom
    again = "contestants: {a: {stages: {again: {use: prompting.turns.Reperceive}}}}"
    assert "contestants.a.stages.again: a new slot needs a position" in check(folder, again)


@needs_extras
def test_a_new_stage_whose_setting_asks_needs_a_position(folder: Path) -> None:
    search = "{use: prompting.where.TreeSearch, words: [dog]}"
    asking = (
        f"{{use: prompting.views.Look, where: {{use: prompting.where.Sized, where: {search}}}}}"
    )
    contestant = f"contestants: {{a: {{stages: {{again: {asking}}}}}}}"
    assert "contestants.a.stages.again: a new slot needs a position" in check(folder, contestant)


TOOL = "{use: prompting.agent.Zoom, crop: CROP}"
ORACLE = "{use: prompting.controls.OracleCrop, crop: CROP}"
ZOOMS = {
    "agent": f"stages: {{agent: {{use: prompting.agent.Agent, tools: {{zoom: {TOOL}}}}}}}",
    "stage": f"stages: {{zoom: {ORACLE}, ask: {{use: prompting.turns.Ask}}}}",
}
PLACEBOS = {
    "agent": "{agent: {tools: {zoom: {elsewhere: true}}}}",
    "stage": "{zoom: {elsewhere: true}}",
}
PARTIAL = """
tasks: {t: {use: eval.tasks.LettersAndShapes, n: 1}}
model: {use: eval.tasks.NearSighted}
"""


@needs_extras
@pytest.mark.parametrize("kind", list(ZOOMS))
def test_a_placebo_copies_the_settings_of_the_stage_it_controls_for(
    folder: Path, kind: str
) -> None:
    zoom = ZOOMS[kind].replace("CROP", "{padding: 0, min_px: 16, upscale: 700}")
    contestants = f"{{real: {{}}, placebo: {{stages: {PLACEBOS[kind]}}}}}"
    (folder / "zoom.yaml").write_text(f"{PARTIAL}{zoom}\ncontestants: {contestants}")
    real, placebo = (first_zoom(arm) for arm in load_plan(folder / "zoom.yaml").points)
    assert real.size == placebo.size and max(real.size) == 700
    assert real.picture.sha != placebo.picture.sha


def first_zoom(arm: Arm) -> View:
    """Return the first crop that the model was shown of the only sample."""
    (item,) = arm.task
    shown = Pipeline(arm.stages)(State.start(item.sample), arm.model).shown_views
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
def test_a_partial_nested_setting_keeps_the_other_defaults_of_its_owner(
    use: str, merged: Crop
) -> None:
    given = build({"use": use, "crop": {"padding": 0.5}})
    assert given.crop == merged
    assert build(spec(given)) == given
    assert identity(build({"use": use, "crop": {}})) == identity(build({"use": use}))


@needs_extras
def test_a_merged_setting_can_be_swept_and_appears_in_the_changes(folder: Path) -> None:
    zoom = ZOOMS["agent"].replace("CROP", "{padding: 0.5}")
    (folder / "zoom.yaml").write_text(
        f"{PARTIAL}{zoom}\nsweep: {{stages.agent.tools.zoom.crop.min_px: [8, 9]}}"
    )
    arms = load_plan(folder / "zoom.yaml").points
    assert [arm.stages["agent"].tools["zoom"].crop for arm in arms] == [  # type: ignore[attr-defined]
        Crop(padding=0.5, min_px=pixels, upscale=512) for pixels in (8, 9)
    ]


def test_equal_contestants_of_a_sweep_are_reported_with_their_changes(folder: Path) -> None:
    contestants = "contestants: {plain: {}, blue: {stages: {mark: {color: blue}}}}"
    output = check(folder, f"{contestants}\nsweep: {{stages.mark: [{{radius: 5}}, null]}}")
    fault = "contestants.blue: the same as 'plain' on jigsaw under stages.mark=null; drop one ("
    assert fault in output
    often = check(folder, "", "contestants={plain: {}, often: {draws: 5}}")
    assert "the same as 'plain'" in often and "set `draws: 5` in the other" in often


@pytest.mark.parametrize("first", ["use", "radius"])
def test_a_swept_class_keeps_the_other_swept_settings_in_any_order(
    folder: Path, first: str
) -> None:
    axes = {"use": "[prompting.markers.Circles, prompting.markers.Dots]", "radius": "[10, 30]"}
    lines = [f"  stages.mark.{name}: {axes[name]}\n" for name in sorted(axes, key=first.__ne__)]
    found = marks(folder, f"sweep:\n{''.join(lines)}")
    assert found == {f"{kind} {radius}" for kind in ("Circles", "Dots") for radius in (10, 30)}


def test_a_single_change_is_applied_on_top_of_the_sweep(folder: Path) -> None:
    for each, more in {
        "null": "none",
        "{use: prompting.markers.Crosshairs, radius: 7}": "Crosshairs 7",
        "{radius: 5}": "Circles 5",
        "{use: prompting.markers.Contours}": "Contours 0",
    }.items():
        text = f"sweep: {{stages.mark.radius: [10, 30]}}\neach: [{{stages.mark: {each}}}]\n"
        assert marks(folder, text) == {"Circles 10", "Circles 30", more}


def marks(folder: Path, more: str) -> set[str]:
    (folder / "study.yaml").write_text(STUDY + more)
    marks = [arm.stages.get("mark") for arm in load_plan(Path("study.yaml")).points]
    return {
        f"{type(mark).__name__} {getattr(mark, 'radius', 0):g}" if mark else "none"
        for mark in marks
    }
