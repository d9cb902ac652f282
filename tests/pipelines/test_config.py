"""Configurations: overlays, sweeps, contestants, and every fault at once before anything is
read."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from looktwice.pipelines.config import ConfigError, Plan, build, load_plan
from looktwice.pipelines.config.classes import (
    Faults,
    extend_hint,
    find_class,
    load_plugin,
    suggest_names,
)
from looktwice.pipelines.config.load import load, resolve_references
from looktwice.pipelines.config.spec import asks_model, digest, identity, spec
from looktwice.pipelines.models import Scripted
from looktwice.prompting import Ask, Circles
from tests.optional import needs_extras
from tests.paths import rows
from tests.tables import table
from tests.test_public_paths import CLASSES, locate_public

BASE = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
model: {use: pipelines.models.Scripted}
stages:
  mark: {use: prompting.markers.Circles, radius: 10}
  think: {use: prompting.wording.ChainOfThought}
  ask: {use: prompting.turns.Ask}
"""

TWO_TASKS = BASE.replace(
    "task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}",
    "tasks:\n"
    "  jigsaw: {use: eval.tasks.Photos, kind: jigsaw, n: 2}\n"
    "  depth: {use: eval.tasks.Photos, kind: depth, n: 2}",
)

Planned = Callable[..., Plan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """Write a configuration and plan it."""

    def write(text: str = "", *overrides: str, base: str = BASE) -> Plan:
        path = tmp_path / "study.yaml"
        path.write_text(base + text)
        return load_plan(path, overrides)

    return write


def faults(planned: Planned, text: str = "", *overrides: str, base: str = BASE) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        planned(text, *overrides, base=base)
    return list(caught.value.faults)


def test_a_plain_file_is_one_arm(planned: Planned) -> None:
    (point,) = planned().points
    assert list(point.stages) == ["mark", "think", "ask"]
    assert point.stages["mark"] == Circles(radius=10)
    assert (point.contestant, point.task_name, point.baseline) == ("plain", "jigsaw", True)
    assert planned("", "stages.mark={}").points[0].id == point.id
    assert "place=value" in faults(planned, "", "stages.mark")[0]


def test_sweep_and_each_multiply_the_arms(planned: Planned) -> None:
    points = planned(
        "sweep: {stages.mark: [{radius: 5}, {radius: 15}, null],"
        " stages.ask.images: [before, after]}\neach: [{stages.think: null}]"
    ).points
    assert len({p.id for p in points}) == len(points) == 3 * 2 * 2
    first = {"stages.mark.radius": 5, "stages.ask.images": "before"}
    assert [points[0].changes, points[1].changes] == [first, {**first, "stages.think": None}]
    assert list(points[-1].stages) == ["ask"]


def test_contestants_extend_or_replace_the_stages(planned: Planned) -> None:
    text = """
sweep: {stages.mark.radius: [5, 7]}
contestants:
  plain: {}
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}
  seams: {only: [jigsaw], replace: true, stages: {answer: {use: specialists.answers.SeamMatcher}}}
  words: {stages: {where: {use: prompting.wording.MarksAsText, after: mark}, think: null}}
baseline: chance
"""
    points = planned(text, base=TWO_TASKS).points
    names = [point.contestant for point in points]
    first = {point.contestant: point for point in reversed(points)}
    assert [names.count(name) for name in ("plain", "chance", "seams", "words")] == [4, 2, 1, 4]
    assert list(first["words"].stages) == ["mark", "where", "ask"]
    assert first["chance"].changes == {} and first["chance"].model is None
    assert first["plain"].model is not None
    assert [p.contestant for p in points if p.baseline] == ["chance", "chance"]


def test_a_change_of_one_task_affects_no_other(planned: Planned) -> None:
    arms = planned("sweep: {tasks.jigsaw.quality: [90, 10]}", base=TWO_TASKS).points
    assert [(p.task_name, dict(p.changes)) for p in arms] == [
        ("jigsaw", {"tasks.jigsaw.quality": 90}),
        ("depth", {}),
        ("jigsaw", {"tasks.jigsaw.quality": 10}),
    ]


def test_models_are_swept_by_name(planned: Planned) -> None:
    model = "{use: pipelines.models.Scripted"
    base = BASE.replace(f"model: {model}}}", f"models: {{a: {model}}}, b: {model}, answer: (B)}}}}")
    points = planned("sweep: {model: [a, b]}", base=base).points
    assert [p.model.answer for p in points] == ["(A)", "(B)"]
    own = f"contestants: {{plain: {{}}, own: {{model: {model}, answer: (C)}}}}}}"
    points = planned(f"sweep: {{model: [a, b]}}\n{own}", base=base).points
    assert [(p.model.answer, dict(p.changes)) for p in points][2:] == [("(C)", {})]
    assert faults(planned, "model: c", base=base) == [
        "model: no model 'c' under `models:`; there are a, b",
        "model: a stage asks the model, but none is named; write `model: a` or `model: b`",
    ]


FIVE = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
model: {use: pipelines.models.Scripted}
stages:
  mark: {use: prompting.markers.Circels}
  wide: {use: prompting.markers.Circles, radios: 10}
  big: {use: prompting.markers.Circles, radius: large}
  say: {use: prompting.wording.ChainOfThought, text: "${oc.env:HOME}"}
  ask: {use: prompting.turns.Ask}
contestants:
  plain: {}
  more: {stages: {extra: {use: specialists.answers.Chance}}}
"""


def test_five_mistakes_give_five_lines_with_their_places(planned: Planned) -> None:
    places = dict(line.split(": ", 1) for line in faults(planned, base=FIVE))
    assert "did you mean 'Circles'?" in places.pop("stages.mark.use")
    assert "did you mean 'radius'?" in places.pop("stages.wide.radios")
    assert "found 'large'" in places.pop("stages.big.radius")
    assert "oc.env" in places.pop("stages.say.text")
    assert "before" in places.pop("contestants.more.stages.extra") and not places


@pytest.mark.parametrize(
    ("word", "hint", "whole"),
    [
        (
            "Temprature",
            "; did you mean 'temperature'?",
            "; did you mean 'temperature'? There are 3",
        ),
        ("retries", "", "; there are 3"),
    ],
)
def test_a_hint_quotes_only_the_misspelled_word(word: str, hint: str, whole: str) -> None:
    near = suggest_names(word, ["prices", "temperature", "timeout"])
    assert (near, extend_hint(near, "there are 3")) == (hint, whole)


OUT_OF_REACH = """
os.system subprocess.Popen builtins.eval ..os.system configs.anything.Thing looktwice.tests.Thing
pipelines.config.build.import_module pipelines.config.build.importlib.import_module
pipelines.config.build.Path pipelines.config.build.load_plugin pipelines.config.build.__import__
prompting.markers._draw prompting.markers.points.Circles
"""


@pytest.mark.parametrize("use", [*OUT_OF_REACH.split(), ""])
def test_use_cannot_name_arbitrary_objects(use: str) -> None:
    before = set(sys.modules)
    with pytest.raises(ValueError, match=r"refused|no public class|no room|not the path"):
        find_class(use)
    assert not {name for name in set(sys.modules) - before if not name.startswith("looktwice")}


def test_unlisted_plugins_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="add --plugin stranger"):
        find_class("stranger.Thing")
    assert "stranger" not in sys.modules


PLUGIN = """
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Shout:
    mark: str = "!"

    def __call__(self, state, model):
        return state.replace(prompt=state.prompt.upper() + self.mark)
"""


def test_a_custom_stage_in_one_file(tmp_path: Path, planned: Planned) -> None:
    file = tmp_path / "my_stages.py"
    file.write_text(PLUGIN)
    name = load_plugin(str(file))
    assert find_class("my_stages.Shout", [name]).__name__ == "Shout"
    with pytest.raises(ValueError, match="no public class 'Path'"):
        find_class("my_stages.Path", [name])
    (tmp_path / "study.yaml").write_text(BASE)
    (point,) = load_plan(
        tmp_path / "study.yaml",
        ["stages.think.use=my_stages.Shout", "stages.think.mark='?'"],
        [name],
    ).points
    assert identity(point.stages["think"]) == {"use": "my_stages.Shout", "mark": "?"}


@pytest.mark.parametrize(
    "name", ["prompting", "eval.py", "looktwice", "no_such_package", "missing.py", "a-b"]
)
def test_invalid_plugins_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="--plugin"):
        load_plugin(name)


@pytest.mark.parametrize(("kind", "text", "says"), rows(__file__, "faults.tsv"))
def test_a_fault_names_its_place_and_cause(
    planned: Planned, kind: str, text: str, says: str
) -> None:
    given = (text.replace(" | ", "\n"),) if kind == "file" else ("", text)
    assert any(says in fault for fault in faults(planned, *given))


@table
def test_an_override_of_a_swept_setting(planned: Planned, override: str, setting: str) -> None:
    sweep = "sweep: {stages.mark.radius: [5, 7]}"
    fault = faults(planned, sweep, override)[0]
    assert fault.startswith(f"{override.partition('=')[0]}: stages.mark.radius is swept")
    assert f"'sweep.stages.mark.radius=[{setting}]'" in fault
    planned(sweep, "sweep.stages.mark.radius=[9]")
    planned(sweep, override, "sweep=null")
    planned(sweep, "stages.mark={thickness: 1}")


@needs_extras
@table
def test_a_detector_is_recognised_by_its_result_type(
    planned: Planned, use: str, gives: str
) -> None:
    zoom = f"{{use: prompting.views.ZoomOnDetections, detector: {{use: {use}}}}}"
    (fault,) = faults(planned, "", f"stages.mark={zoom}")
    assert fault.startswith("stages.mark.detector.use: ") and fault.endswith(f"returns {gives}")


def test_an_include_must_lie_below_the_file(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name, text in (
        ("parts/base", BASE),
        ("study", "include: parts/base.yaml\nstages: {mark: {radius: 4}, think: null}"),
        ("parts/inner", "include: ../study.yaml"),
        ("loop", "include: loop.yaml"),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)
    mark = {"use": "prompting.markers.Circles", "radius": 4}
    assert load(tmp_path / "study.yaml")["stages"]["mark"] == mark
    for name, words in (
        ("parts/inner", "lies outside"),
        ("loop", "includes itself"),
        ("none", "no such"),
    ):
        with pytest.raises(ConfigError, match=words):
            load(tmp_path / f"{name}.yaml")


def test_files_must_lie_below_the_study_or_be_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    for folder in (home, data / "set", data / "set_replies", data / "secret"):
        folder.mkdir(parents=True)
    for file in ("set/samples.jsonl", "set_replies/M.jsonl", "secret/x.jsonl"):
        (data / file).write_text("")
    monkeypatch.chdir(home)
    given = "task.path=../data/set"
    for path, overrides, says in (
        ("x.jsonl", [], "does not exist"),
        ("../data/set_replies/M.jsonl", [], "lies outside"),
        ("${task.path}_replies/M.jsonl", [given], ""),
        ("${task.path}/../secret/x.jsonl", [given], "lies outside"),
        ("../data/secret/x.jsonl", [given], "lies outside"),
    ):
        (home / "study.yaml").write_text(
            "task: {use: eval.tasks.Folder, path: set}\nstages: {ask: {use: prompting.turns.Ask}}\n"
            f"model: {{use: pipelines.models.Replay, path: '{path}'}}\n"
        )
        with nullcontext() if not says else pytest.raises(ConfigError, match=says):
            load_plan(home / "study.yaml", overrides)


ASKED = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
models: {chat: {use: pipelines.models.ChatAPI, model: m, url: https://api.openai.com/v1}}
stages: {ask: {use: prompting.turns.Ask}}
contestants:
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}
  chat: {model: chat}
"""


@needs_extras
@table
def test_a_model_reports_its_own_missing_settings(
    planned: Planned,
    monkeypatch: pytest.MonkeyPatch,
    overrides: list[str],
    key: str,
    contestants: str,
    left_out: dict[str, str],
) -> None:
    for name in ("OPENAI_BASE_URL", "LOOKTWICE_KEYS", "LOOKTWICE_OWN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    plan = planned("", *overrides, base=ASKED)
    assert " ".join(dict.fromkeys(point.contestant for point in plan.points)) == contestants
    assert plan.left_out.keys() == left_out.keys()
    assert all(missing in plan.left_out[name] for name, missing in left_out.items())


REFERRING = """
tasks:
  one: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
  two: {use: eval.tasks.Photos, kind: depth, n: "${tasks.one.n}"}
  three: {use: eval.tasks.Photos, kind: depth, n: "${tasks.one.n}", seed: "${tasks.two.seed}"}
stages: {mark: {use: prompting.markers.Circles}, ask: {use: prompting.turns.Ask}}
model: {use: pipelines.models.Scripted, answer: "${more.answer}"}
contestants: {plain: {}, other: {stages: {mark: null}}}
"""


@table
def test_an_unresolved_reference_is_one_sentence(
    planned: Planned, overrides: list[str], place: str, path: str, others: str
) -> None:
    lines = faults(planned, "", *overrides, base=REFERRING)
    (fault,) = [line for line in lines if "refers to no entry" in line]
    assert fault.startswith(f"{place}: ${{{path}}} ") and fault.endswith(others)
    assert f"{place}=VALUE" in fault
    assert not any("Error" in line or "found '${" in line for line in lines)


def test_references_can_point_into_lists_and_through_references() -> None:
    found = Faults()
    node = {"a": [{"b": 3}], "c": "${a}", "d": "${a.0.b}", "e": "${c.0.b}", "f": "${g}", "g": None}
    plain = resolve_references(node, found)
    assert (plain["d"], plain["e"], plain["f"]) == (3, 3, None)
    assert found == []
    resolve_references({"a": [1], "b": "${a.1}"}, found)
    assert found == ["b: ${a.1} refers to no entry, because a has no '1'; type b=VALUE"]


@needs_extras
def test_only_edit_salience_asks_the_model_among_specialist_stages() -> None:
    found = [locate_public(path) for path in CLASSES if path.startswith("specialists.")]
    stages = [
        thing for thing in found if "state" in inspect.getfullargspec(thing.__call__).annotations
    ]
    assert len(stages) > 10
    assert [stage.__name__ for stage in stages if asks_model(stage)] == ["EditSalience"]


@table
def test_what_changes_the_identity_of_an_arm(planned: Planned, override: str, is_new: bool) -> None:
    chat = "{use: pipelines.models.ChatAPI, model: m, temperature: 0}"
    base = BASE.replace("{use: pipelines.models.Scripted}", chat)
    (first,), (second,) = planned(base=base).points, planned("", override, base=base).points
    assert (first.id != second.id) is is_new


def test_the_order_of_stages_is_part_of_the_identity(planned: Planned) -> None:
    (first,), (second,) = planned().points, planned("", "stages.think.before=mark").points
    assert list(second.stages) == ["think", "mark", "ask"]
    assert first.id != second.id


def test_a_spec_survives_yaml_and_identities_distinguish_scripts() -> None:
    stage = Ask(images="after", system="Look.")
    assert spec(stage)["attach"] == "all" and build(spec(stage)) == stage
    assert identity(Ask()) == {"use": "prompting.turns.Ask"}
    chat = {"use": "pipelines.models.ChatAPI", "model": "m", "temperature": 0}
    extras = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    first, second = (build(chat | {"extra": extra}) for extra in extras)
    assert digest(identity(first)) == digest(identity(second))
    yes, no = Scripted(lambda messages: "(A)"), Scripted(lambda messages: "(B)")
    assert yes.identity != no.identity and identity(yes) != identity(no)
    assert identity(yes) == identity(Scripted(yes.answer))


JUDGED = """
from dataclasses import dataclass
from looktwice.pipelines.model import Model


@dataclass(frozen=True)
class Judged:
    judge: Model

    def __call__(self, state, model):
        return state
"""


def test_a_sweep_can_change_a_referenced_model(tmp_path: Path) -> None:
    (tmp_path / "judged_stage.py").write_text(JUDGED)
    name = load_plugin(str(tmp_path / "judged_stage.py"))
    (tmp_path / "study.yaml").write_text(
        "task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}\n"
        "models: {judge: {use: pipelines.models.Scripted}}\n"
        "stages: {ask: {use: judged_stage.Judged, judge: {ref: judge}}}\n"
        "model: judge\nsweep: {models.judge.answer: [a, b]}\n"
    )
    points = load_plan(tmp_path / "study.yaml", [], [name]).points
    assert [vars(p.stages["ask"])["judge"].answer for p in points] == ["a", "b"]
    assert len({p.id for p in points}) == 2


def test_a_recording_with_other_content_is_another_arm(tmp_path: Path, planned: Planned) -> None:
    ids = []
    for reply in ("(A)", "(B)"):
        (tmp_path / "replies.jsonl").write_text(f'{{"idx": "s", "reply": "{reply}"}}\n')
        (point,) = planned("", "model={use: pipelines.models.Replay, path: replies.jsonl}").points
        ids.append(point.id)
    assert ids[0] != ids[1]


def test_single_changes_of_stages_and_of_one_contestant(planned: Planned) -> None:
    gray = "contestants: {plain: {}, gray: {stages: {mark: {color: gray}}}}\n"
    points = planned(f"each: [{{contestants.gray.stages.mark.radius: 12}}]\n{gray}").points
    changes = [(point.contestant, dict(point.changes)) for point in points]
    assert changes == [("plain", {}), ("gray", {}), ("gray", {"stages.mark.radius": 12})]
    said = faults(planned, f"each: [{{stages.mark.radius: 12}}, {{stages.mark.radius: x}}]\n{gray}")
    assert [fault.partition(":")[0] for fault in said] == ["each[1].stages.mark.radius"]


@table
def test_an_overlay_file_names_the_task(tmp_path: Path, study: str, more: str) -> None:
    task = "{use: eval.tasks.Photos, kind: jigsaw, n: 2}"
    rest = BASE.partition("\n")[2].partition("\n")[2]
    (tmp_path / "study.yaml").write_text(study.replace("TASK", task) + "\n" + rest)
    (tmp_path / "clean.yaml").write_text(more)
    (tmp_path / "both.yaml").write_text("include: [study.yaml, clean.yaml]")
    assert [arm.task.n for arm in load_plan(tmp_path / "both.yaml").points] == [5]


def test_a_setting_is_found_by_task_or_name_and_a_tab_is_named(planned: Planned) -> None:
    assert planned("", "tasks.jigsaw.n=3").points[0].task.n == 3
    assert "tasks.jigsaw.n=8" in faults(planned, "", "task.n=8", base=TWO_TASKS)[0]
    assert "a tab" in faults(planned, "stages:\n\tmark: null")[0]
