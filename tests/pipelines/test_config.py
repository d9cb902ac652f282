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
from looktwice.pipelines.config.classes import Faults, did_you_mean, load_plugin, locate
from looktwice.pipelines.config.load import load, resolve
from looktwice.pipelines.config.spec import asks_model, digest, identity, spec
from looktwice.pipelines.models import Scripted
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask
from tests.optional import needs_extras
from tests.paths import rows
from tests.test_public_paths import CLASSES, named

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


def test_a_plain_file_is_one_point(planned: Planned) -> None:
    (point,) = planned().points
    assert list(point.stages) == ["mark", "think", "ask"]
    assert point.stages["mark"] == Circles(radius=10)
    assert (point.contestant, point.task_name, point.baseline) == ("plain", "jigsaw", True)


def test_sweep_and_each_multiply(planned: Planned) -> None:
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


def test_a_change_of_one_task_touches_no_other(planned: Planned) -> None:
    text = """
sweep: {tasks.jigsaw.quality: [90, 10]}
"""
    arms = planned(text, base=TWO_TASKS).points
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
        "model: a stage asks the model and none is named; say `model: a` or `model: b`",
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
  more: {stages: {extra: {use: prompting.wording.MarksAsText}}}
"""


def test_five_mistakes_are_five_lines_with_their_places(planned: Planned) -> None:
    places = dict(line.split(": ", 1) for line in faults(planned, base=FIVE))
    assert "did you mean 'Circles'?" in places.pop("stages.mark.use")
    assert "did you mean 'radius'?" in places.pop("stages.wide.radios")
    assert "found 'large'" in places.pop("stages.big.radius")
    assert "oc.env" in places.pop("stages.say.text")
    assert "before" in places.pop("contestants.more.stages.extra") and not places


@pytest.mark.parametrize(
    ("word", "hint"), [("Temprature", "; did you mean 'temperature'?"), ("retries", "")]
)
def test_a_hint_names_what_is_nearly_the_word_alone(word: str, hint: str) -> None:
    assert did_you_mean(word, ["prices", "temperature", "timeout"]) == hint


OUT_OF_REACH = """
os.system subprocess.Popen builtins.eval ..os.system configs.anything.Thing looktwice.tests.Thing
pipelines.config.build.import_module pipelines.config.build.importlib.import_module
pipelines.config.build.Path pipelines.config.build.load_plugin pipelines.config.build.__import__
prompting.markers._draw prompting.markers.points.Circles
"""


@pytest.mark.parametrize("use", [*OUT_OF_REACH.split(), ""])
def test_what_use_must_not_reach(use: str) -> None:
    before = set(sys.modules)
    with pytest.raises(ValueError, match=r"refused|no public class|no room|not the path"):
        locate(use)
    assert not {name for name in set(sys.modules) - before if not name.startswith("looktwice")}


def test_an_unlisted_package_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="add --plugin stranger"):
        locate("stranger.Thing")
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


def test_a_stage_of_ones_own_in_one_file(tmp_path: Path, planned: Planned) -> None:
    file = tmp_path / "my_stages.py"
    file.write_text(PLUGIN)
    name = load_plugin(str(file))
    assert locate("my_stages.Shout", [name]).__name__ == "Shout"
    with pytest.raises(ValueError, match="no public class 'Path'"):
        locate("my_stages.Path", [name])
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
def test_plugins_that_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="--plugin"):
        load_plugin(name)


@pytest.mark.parametrize(("kind", "text", "says"), rows(__file__, "faults.tsv"))
def test_a_fault_says_where_and_what(planned: Planned, kind: str, text: str, says: str) -> None:
    given = (text.replace(" | ", "\n"),) if kind == "file" else ("", text)
    assert any(says in fault for fault in faults(planned, *given))


@pytest.mark.parametrize(
    ("override", "setting"),
    [("stages.mark.radius=9", "9"), ("stages.mark={radius: 9}", "9"), ("stages.mark=null", "null")],
)
def test_an_override_of_a_swept_place_is_a_fault_that_names_the_remedy(
    planned: Planned, override: str, setting: str
) -> None:
    sweep = "sweep: {stages.mark.radius: [5, 7]}"
    fault = faults(planned, sweep, override)[0]
    assert fault.startswith(f"{override.partition('=')[0]}: stages.mark.radius is swept (5, 7), so")
    assert f"have {setting}; type 'sweep.stages.mark.radius=[{setting}]'" in fault
    planned(sweep, "sweep.stages.mark.radius=[9]")
    planned(sweep, override, "sweep=null")
    planned(sweep, "stages.mark={thickness: 1}")


@pytest.mark.parametrize(
    ("use", "gives"),
    [("specialists.detection.FaceRecognition", "Faces"), ("prompting.markers.Circles", "State")],
)
def test_a_detector_is_known_by_what_it_gives(planned: Planned, use: str, gives: str) -> None:
    zoom = f"{{use: prompting.views.ZoomOnDetections, detector: {{use: {use}}}}}"
    (fault,) = faults(planned, "", f"stages.mark={zoom}")
    assert fault.startswith("stages.mark.detector.use: expected a Detector, which gives Boxes, and")
    assert fault.endswith(f"gives {gives}")


def test_an_override_without_a_value_is_named_and_an_empty_node_changes_nothing(
    planned: Planned,
) -> None:
    assert "place=value" in faults(planned, "", "stages.mark")[0]
    assert planned("", "stages.mark={}").points[0].id == planned().points[0].id


def test_include_lies_below_the_file(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "base.yaml").write_text(BASE)
    (tmp_path / "study.yaml").write_text(
        "include: parts/base.yaml\nstages: {mark: {radius: 4}, think: null}\n"
    )
    assert load(tmp_path / "study.yaml")["stages"]["mark"] == {
        "use": "prompting.markers.Circles",
        "radius": 4,
    }
    (tmp_path / "parts" / "inner.yaml").write_text("include: ../study.yaml")
    with pytest.raises(ConfigError, match="lies outside"):
        load(tmp_path / "parts" / "inner.yaml")
    (tmp_path / "loop.yaml").write_text("include: loop.yaml")
    with pytest.raises(ConfigError, match="includes itself"):
        load(tmp_path / "loop.yaml")
    with pytest.raises(ConfigError, match="no such configuration"):
        load(tmp_path / "none.yaml")


def test_files_lie_below_the_configuration_or_were_given(
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
NO_KEY = "api.openai.com needs a key: set the environment variable OPENAI_API_KEY"
BY_SECOND = (
    "contestants.two={model: {use: pipelines.models.Scripted}, "
    "stages: {ask: {use: prompting.turns.CaptionThenAnswer, captioner: {ref: chat}}}}"
)


OWN = "contestants.chat.needs={env: LOOKTWICE_OWN}"


@needs_extras
@pytest.mark.parametrize(
    ("overrides", "key", "contestants", "left_out"),
    [
        ([], "", "chance", {"chat": NO_KEY}),
        ([], "k", "chance chat", {}),
        (["models.chat={use: pipelines.models.Scripted}"], "", "chance chat", {}),
        (["models.chat={use: pipelines.models.LocalVLM, model: m}"], "", "chance chat", {}),
        (["models.chat.url=http://127.0.0.1:8000/v1"], "", "chance chat", {}),
        (["models.chat.url=no endpoint"], "", "chance chat", {}),
        (["contestants.chance=null"], "", "chat", {}),  # the run then says what is missing
        ([OWN], "k", "chance", {"chat": "LOOKTWICE_OWN is not set"}),
        ([OWN, "contestants.chat.needs=null"], "k", "chance chat", {}),
        ([OWN.replace("}", "|B}")], "k", "chance", {"chat": "LOOKTWICE_OWN or B is not set"}),
        (["contestants.chat.needs={env: B|OPENAI_API_KEY}"], "k", "chance chat", {}),
        (["contestants.chat.needs={env: null, file: null}"], "k", "chance chat", {}),
        (["gap={from: chance, to: chat}"], "", "chance", {"chat": NO_KEY}),
        ([BY_SECOND], "", "chance", {"chat": NO_KEY, "two": NO_KEY}),
        ([BY_SECOND], "k", "chance chat two", {}),
    ],
)
def test_a_model_says_itself_what_is_missing(
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
    assert plan.left_out == left_out


REFERRING = """
tasks:
  one: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
  two: {use: eval.tasks.Photos, kind: depth, n: "${tasks.one.n}"}
  three: {use: eval.tasks.Photos, kind: depth, n: "${tasks.one.n}", seed: "${tasks.two.seed}"}
stages: {mark: {use: prompting.markers.Circles}, ask: {use: prompting.turns.Ask}}
model: {use: pipelines.models.Scripted, answer: "${more.answer}"}
contestants: {plain: {}, other: {stages: {mark: null}}}
"""


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        (
            ["tasks.one=null", "model.answer=A", "tasks.three.seed=0"],
            "tasks.two.n: ${tasks.one.n} leads nowhere, because tasks.one has no 'n'; type"
            " tasks.two.n=VALUE, and so for the other places that refer to it: tasks.three.n",
        ),
        (
            ["model.answer=A"],
            "tasks.three.seed: ${tasks.two.seed} leads nowhere, because tasks.two has no 'seed';"
            " type tasks.three.seed=VALUE",
        ),
        (
            ["tasks.three=null"],
            "model.answer: ${more.answer} leads nowhere, because more has no 'answer'; type"
            " model.answer=VALUE",
        ),
        (
            ["tasks.three=null", "model.answer=${tasks.one.m.x}"],
            "model.answer: ${tasks.one.m.x} leads nowhere, because tasks.one.m has no 'x'; type"
            " model.answer=VALUE",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_one_sentence(
    planned: Planned, overrides: list[str], fault: str
) -> None:
    lines = faults(planned, "", *overrides, base=REFERRING)
    assert [line for line in lines if "leads nowhere" in line] == [fault]
    assert not any("Error" in line or "found '${" in line for line in lines)


def test_references_lead_into_lists_and_through_other_references() -> None:
    found = Faults()
    node = {"a": [{"b": 3}], "c": "${a}", "d": "${a.0.b}", "e": "${c.0.b}", "f": "${g}", "g": None}
    plain = resolve(node, found)
    assert (plain["d"], plain["e"], plain["f"]) == (3, 3, None)
    assert found == []
    resolve({"a": [1], "b": "${a.1}"}, found)
    assert found == ["b: ${a.1} leads nowhere, because a has no '1'; type b=VALUE"]


def test_the_only_stage_of_a_specialist_that_asks_the_model_measures_what_it_says() -> None:
    found = [named(path) for path in CLASSES if path.startswith("specialists.")]
    stages = [
        thing for thing in found if "state" in inspect.getfullargspec(thing.__call__).annotations
    ]
    assert len(stages) > 10
    assert [stage.__name__ for stage in stages if asks_model(stage)] == ["EditSalience"]


CHAT = {"use": "pipelines.models.ChatAPI", "model": "m", "temperature": 0}


CHANGES = """
same model.timeout=3
same model.in_flight=2
same stages.mark.radius=10.0
same read.use=eval.readers.BlinkOfficial
new model.url=http://127.0.0.1:9/v1
new model.temperature=1
new model.model=other
new stages.mark.radius=11
new stages.think.text=Think.
new task.seed=1
new seed=1
new stages.ask.options.max_tokens=9
"""


@pytest.mark.parametrize("override", CHANGES.strip().splitlines())
def test_what_makes_a_new_point(planned: Planned, override: str) -> None:
    chat = "{use: pipelines.models.ChatAPI, model: m, temperature: 0}"
    base, (word, change) = BASE.replace("{use: pipelines.models.Scripted}", chat), override.split()
    (first,), (second,) = planned(base=base).points, planned("", change, base=base).points
    assert (first.id == second.id) is (word == "same")


def test_the_order_of_stages_is_part_of_the_identity(planned: Planned) -> None:
    (first,), (second,) = planned().points, planned("", "stages.think.before=mark").points
    assert list(second.stages) == ["think", "mark", "ask"]
    assert first.id != second.id


def test_spec_goes_to_yaml_and_back() -> None:
    stage = Ask(images="after", system="Look.")
    node = spec(stage)
    assert node["attach"] == "all"
    assert build(node) == stage
    assert digest(identity(build(node))) == digest(identity(stage))
    assert identity(Ask()) == {"use": "prompting.turns.Ask"}


JUDGED = """
from dataclasses import dataclass
from looktwice.pipelines.model import Model


@dataclass(frozen=True)
class Judged:
    judge: Model

    def __call__(self, state, model):
        return state
"""


def test_a_sweep_reaches_a_referenced_model(tmp_path: Path) -> None:
    (tmp_path / "judged_stage.py").write_text(JUDGED)
    name = load_plugin(str(tmp_path / "judged_stage.py"))
    text = BASE.replace(
        "model: {use: pipelines.models.Scripted}",
        "models: {judge: {use: pipelines.models.Scripted}}",
    )
    text = text.replace(
        "ask: {use: prompting.turns.Ask}", "ask: {use: judged_stage.Judged, judge: {ref: judge}}"
    )
    (tmp_path / "study.yaml").write_text(
        text + "model: judge\nsweep: {models.judge.answer: [a, b]}\n"
    )
    points = load_plan(tmp_path / "study.yaml", [], [name]).points
    assert [vars(p.stages["ask"])["judge"].answer for p in points] == ["a", "b"]
    assert len({p.id for p in points}) == 2


def test_a_recording_with_other_content_is_another_point(tmp_path: Path, planned: Planned) -> None:
    ids = []
    for reply in ("(A)", "(B)"):
        (tmp_path / "replies.jsonl").write_text(f'{{"idx": "s", "reply": "{reply}"}}\n')
        (point,) = planned("", "model={use: pipelines.models.Replay, path: replies.jsonl}").points
        ids.append(point.id)
    assert ids[0] != ids[1]


def test_scripts_are_told_apart_by_what_they_do() -> None:
    first, second = Scripted(lambda messages: "(A)"), Scripted(lambda messages: "(B)")
    assert first.identity != second.identity
    assert identity(first) != identity(second)
    assert identity(first) == identity(Scripted(first.answer))


def test_a_mapping_has_no_order_in_an_identity() -> None:
    first, second = (
        build(CHAT | {"extra": extra}) for extra in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    )
    assert digest(identity(first)) == digest(identity(second))


def test_a_fault_of_a_single_change_names_its_entry(planned: Planned) -> None:
    said = faults(
        planned,
        "each: [{stages.mark.radius: 12}, {stages.mark.radius: x}]\n"
        "contestants: {plain: {}, gray: {stages: {mark: {color: gray}}}}\n",
    )
    assert [fault.partition(":")[0] for fault in said] == ["each[1].stages.mark.radius"]


def test_a_single_change_of_one_contestant(planned: Planned) -> None:
    points = planned(
        "each: [{contestants.gray.stages.mark.radius: 12}]\n"
        "contestants: {plain: {}, gray: {stages: {mark: {color: gray}}}}\n"
    ).points
    changes = [(point.contestant, dict(point.changes)) for point in points]
    assert changes == [("plain", {}), ("gray", {}), ("gray", {"stages.mark.radius": 12})]


@pytest.mark.parametrize(
    ("study", "more"),
    [
        ("tasks: {mine: TASK}", "task: {n: 5}"),
        ("tasks: {mine: TASK}", "tasks: {mine: {n: 5}}"),
        ("task: TASK", "tasks: {jigsaw: {n: 5}}"),
        ("task: TASK", "task: {n: 5}"),
    ],
)
def test_a_file_laid_over_a_study_may_name_its_only_task_either_way(
    tmp_path: Path, study: str, more: str
) -> None:
    task = "{use: eval.tasks.Photos, kind: jigsaw, n: 2}"
    rest = BASE.partition("\n")[2].partition("\n")[2]
    (tmp_path / "study.yaml").write_text(study.replace("TASK", task) + "\n" + rest)
    (tmp_path / "clean.yaml").write_text(more)
    (tmp_path / "both.yaml").write_text("include: [study.yaml, clean.yaml]")
    assert [arm.task.n for arm in load_plan(tmp_path / "both.yaml").points] == [5]


def test_a_setting_of_the_only_task_is_reached_as_task_and_of_several_by_name(
    planned: Planned,
) -> None:
    assert planned("", "tasks.jigsaw.n=3").points[0].task.n == 3
    assert "is tasks.jigsaw.n=8, say" in faults(planned, "", "task.n=8", base=TWO_TASKS)[0]


def test_a_tab_is_called_a_tab(planned: Planned) -> None:
    (fault,) = faults(planned, "stages:\n\tmark: null")
    assert "found a tab; YAML is indented with spaces" in fault
