"""Configurations: overlays, sweeps, contestants, and every fault at once before anything is
read."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from looktwice.eval.readers import Robust
from looktwice.pipelines.config import (
    ConfigError,
    Plan,
    build,
    digest,
    identity,
    load_plan,
    load_plugin,
    locate,
    spec,
)
from looktwice.pipelines.config.load import Overlay, load, resolve
from looktwice.pipelines.config.plan import DEFAULT_READER
from looktwice.pipelines.models import Scripted
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask
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
    text = """
sweep: {stages.mark: [{radius: 5}, {radius: 15}, null], stages.ask.images: [before, after]}
each: [{stages.think: null}]
"""
    points = planned(text).points
    assert len(points) == 3 * 2 * 2
    assert points[0].changes == {"stages.mark.radius": 5, "stages.ask.images": "before"}
    assert points[1].changes == {
        "stages.mark.radius": 5,
        "stages.ask.images": "before",
        "stages.think": None,
    }
    assert list(points[-1].stages) == ["ask"]
    assert len({p.id for p in points}) == 12


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
    found = planned(text, base=TWO_TASKS).points
    by_name = {
        name: [p for p in found if p.contestant == name]
        for name in ("plain", "chance", "seams", "words")
    }
    assert [len(by_name[name]) for name in by_name] == [4, 2, 1, 4]
    assert list(by_name["words"][0].stages) == ["mark", "where", "ask"]
    assert by_name["chance"][0].changes == {}
    assert by_name["chance"][0].model is None
    assert by_name["plain"][0].model is not None
    assert [p.contestant for p in found if p.baseline] == ["chance", "chance"]


def test_a_change_of_one_task_touches_no_other(planned: Planned) -> None:
    text = """
sweep: {tasks.jigsaw.quality: [90, 10]}
"""
    found = planned(text, base=TWO_TASKS).points
    assert [(p.task_name, dict(p.changes)) for p in found] == [
        ("jigsaw", {"tasks.jigsaw.quality": 90}),
        ("depth", {}),
        ("jigsaw", {"tasks.jigsaw.quality": 10}),
    ]


def test_models_are_swept_by_name(planned: Planned) -> None:
    two = (
        "models: {a: {use: pipelines.models.Scripted}, b: {use: pipelines.models.Scripted, answer:"
        " (B)}}"
    )
    base = BASE.replace("model: {use: pipelines.models.Scripted}", two)
    points = planned("sweep: {model: [a, b]}", base=base).points
    assert [p.model.answer for p in points] == ["(A)", "(B)"]
    assert faults(planned, "model: c", base=base) == [
        "model: no model 'c' under `models:`",
        "model: a stage asks the model and none is named; say `model:` or `models:`",
    ]


def test_five_mistakes_are_five_lines_with_their_places(planned: Planned) -> None:
    base = """
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
    found = faults(planned, base=base)
    places = {line.partition(":")[0]: line for line in found}
    assert len(found) == len(places) == 5
    assert "did you mean 'Circles'?" in places["stages.mark.use"]
    assert "did you mean 'radius'?" in places["stages.wide.radios"]
    assert "found 'large'" in places["stages.big.radius"]
    assert "oc.env" in places["stages.say.text"]
    assert "before" in places["contestants.more.stages.extra"]


@pytest.mark.parametrize(
    "use",
    [
        "os.system",
        "subprocess.Popen",
        "pipelines.config.build.import_module",
        "pipelines.config.build.importlib.import_module",
        "pipelines.config.build.Path",
        "pipelines.config.build.load_plugin",
        "prompting.markers._draw",
        "prompting.markers.points.Circles",
        "configs.anything.Thing",
        "looktwice.tests.Thing",
        "builtins.eval",
        "..os.system",
        "pipelines.config.build.__import__",
        "",
    ],
)
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


@pytest.mark.parametrize(
    ("text", "overrides", "says"),
    [
        ("colour: red", [], "colour: no such entry"),
        (
            "sweep: {stages.mark.radius: 5}",
            [],
            "sweep.stages.mark.radius: input should be a valid list",
        ),
        ("contestants: {a: {}, b: {only: [depht]}}", [], "contestants.b.only: no task 'depht'"),
        ("contestants: {a: {}, b: {}}", [], "contestants.b: the same as 'a'"),
        ("baseline: nobody", [], "baseline: no contestant 'nobody'"),
        ("contestants: {a: {needs: {gpu: 1}}}", [], "needs.gpu: no such entry"),
        ("", ["stages.mark.thickness=-3"], "stages.mark.thickness: thickness"),
        ("", ["stages.mark.color=reed"], "stages.mark: "),
        ("", ["task.kind=jigsav"], "task.kind: expected"),
        ("", ["task.subset.m=3"], "task.subset.m: Subset has no setting 'm'"),
        ("", ["task.n=[1,2]"], "task.n: expected int"),
        ("", ["stages.ask.before=nothing"], "stages.ask: found before: nothing"),
        (
            "each: [{stage.mark: null}]",
            [],
            "each[0].stage.mark: 'stage' is nothing that can be changed; did you mean",
        ),
        (
            "each: [{stages.marc: null}]",
            [],
            "there is no 'marc' under `stages:`; did you mean 'mark'?",
        ),
        ("sweep: {sed: [1, 2]}", [], "sweep.sed: 'sed' is nothing"),
        ("sweep: {seed: []}", [], "sweep.seed: "),
        ("each: {stages.mark: null}", [], "each: "),
        ("contestants: {a: hello}", [], "contestants.a: "),
        ("contestants: [a]", [], "contestants: "),
        ("contestants: {a: {replace: maybe}}", [], "contestants.a.replace: "),
        ("contestants: {a: {only: jigsaw}}", [], "contestants.a.only: "),
        ("draws: 0", [], "draws: "),
        ("name: ../../escaped", [], "name: '../../escaped' cannot name the run's folder"),
        ("", ["stages=none"], "stages: "),
        ("", ["stages.mark.radius=true"], "stages.mark.radius: expected float"),
        ("", ["stages.mark.radius=.nan"], "stages.mark.radius: a number must be finite, found nan"),
        ("", ["stages.mark.radius=nan"], "stages.mark.radius: expected float, found 'nan'"),
        (
            "",
            ["stages.mark.label.font_size=.inf"],
            "stages.mark.label.font_size: a number must be finite, found inf",
        ),
        (
            "",
            ["task={use: prompting.markers.Circles}"],
            "a task belongs here, and Circles makes a stage",
        ),
        (
            "",
            ["stages.mark={use: eval.tasks.Photos, kind: depth}"],
            "a stage belongs here, and Photos makes a task",
        ),
        ("", ["model={use: prompting.turns.Ask}"], "a model belongs here, and Ask makes a stage"),
        ("", ["read={use: eval.tasks.Photos, kind: depth}"], "read.use: a stage belongs here"),
        (
            "",
            [
                "stages.mark={use: prompting.views.ZoomOnDetections, "
                "detector: {use: specialists.detection.FaceRecognition}}"
            ],
            (
                "stages.mark.detector.use: expected a Detector, which gives Boxes, and"
                " FaceRecognition gives Faces"
            ),
        ),
        (
            "",
            [
                "stages.mark={use: prompting.views.ZoomOnDetections, detector: {use:"
                " prompting.markers.Circles}}"
            ],
            (
                "stages.mark.detector.use: expected a Detector, which gives Boxes, and Circles"
                " gives State"
            ),
        ),
        ("", ["stages.mark={}"], ""),
        (
            "",
            ["stages.ask=null"],
            "stages: no answer can come of it: none of mark, think asks the model or answers",
        ),
    ],
)
def test_faults_say_where_and_what(
    planned: Planned, text: str, overrides: list[str], says: str
) -> None:
    if not says:
        assert planned(text, *overrides).points
    else:
        assert any(says in fault for fault in faults(planned, text, *overrides))


def test_an_override_without_a_value_is_named(planned: Planned) -> None:
    assert "place=value" in faults(planned, "", "stages.mark")[0]


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
    (data / "set" / "samples.jsonl").write_text("")
    (data / "set_replies" / "M.jsonl").write_text("")
    (data / "secret" / "x.jsonl").write_text("")
    monkeypatch.chdir(home)
    study = home / "study.yaml"
    text = (
        "task: {{use: eval.tasks.Folder, path: set}}\nmodel: {{use: pipelines.models.Replay, path:"
        " '{}'}}\nstages: {{ask: {{use: prompting.turns.Ask}}}}\n"
    )

    def planned_with(path: str, *overrides: str) -> list[str]:
        study.write_text(text.format(path))
        try:
            load_plan(study, overrides)
        except ConfigError as exc:
            return list(exc.faults)
        return []

    assert any("does not exist" in fault for fault in planned_with("x.jsonl"))
    assert any("lies outside" in fault for fault in planned_with("../data/set_replies/M.jsonl"))
    given = "task.path=../data/set"
    assert planned_with("${task.path}_replies/M.jsonl", given) == []
    assert any(
        "lies outside" in fault for fault in planned_with("${task.path}/../secret/x.jsonl", given)
    )
    assert any("lies outside" in fault for fault in planned_with("../data/secret/x.jsonl", given))


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


@pytest.mark.parametrize(
    ("overrides", "key", "contestants", "left_out"),
    [
        ([], "", ["chance"], {"chat": NO_KEY}),
        ([], "k", ["chance", "chat"], {}),
        (["models.chat={use: pipelines.models.Scripted}"], "", ["chance", "chat"], {}),
        (["models.chat={use: pipelines.models.LocalVLM, model: m}"], "", ["chance", "chat"], {}),
        (["models.chat.url=http://127.0.0.1:8000/v1"], "", ["chance", "chat"], {}),
        (["models.chat.url=no endpoint"], "", ["chance", "chat"], {}),
        (["contestants.chance=null"], "", ["chat"], {}),  # the run then says what is missing
        (
            ["contestants.chat.needs={env: LOOKTWICE_OWN}"],
            "k",
            ["chance"],
            {"chat": "LOOKTWICE_OWN is not set"},
        ),
        (
            ["contestants.chat.needs={env: LOOKTWICE_OWN}", "contestants.chat.needs=null"],
            "k",
            ["chance", "chat"],
            {},
        ),
        (["contestants.chat.needs={env: null, file: null}"], "k", ["chance", "chat"], {}),
        (["gap={from: chance, to: chat}"], "", ["chance"], {"chat": NO_KEY}),
        ([BY_SECOND], "", ["chance"], {"chat": NO_KEY, "two": NO_KEY}),
        ([BY_SECOND], "k", ["chance", "chat", "two"], {}),
    ],
)
def test_a_model_says_itself_what_is_missing(
    planned: Planned,
    monkeypatch: pytest.MonkeyPatch,
    overrides: list[str],
    key: str,
    contestants: list[str],
    left_out: dict[str, str],
) -> None:
    for name in ("OPENAI_BASE_URL", "LOOKTWICE_KEYS", "LOOKTWICE_OWN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    found = planned("", *overrides, base=ASKED)
    assert list(dict.fromkeys(point.contestant for point in found.points)) == contestants
    assert found.left_out == left_out


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
    ("overrides", "found"),
    [
        (
            ["tasks.one=null", "model.answer=A", "tasks.three.seed=0"],
            (
                "tasks.two.n: ${tasks.one.n} leads nowhere, because tasks.one has no 'n'; type"
                " tasks.two.n=VALUE, and so for the other places that refer to it: tasks.three.n"
            ),
        ),
        (
            ["model.answer=A"],
            (
                "tasks.three.seed: ${tasks.two.seed} leads nowhere, because tasks.two has no"
                " 'seed'; type tasks.three.seed=VALUE"
            ),
        ),
        (
            ["tasks.three=null"],
            (
                "model.answer: ${more.answer} leads nowhere, because more has no 'answer'; type"
                " model.answer=VALUE"
            ),
        ),
        (
            ["tasks.three=null", "model.answer=${tasks.one.m.x}"],
            (
                "model.answer: ${tasks.one.m.x} leads nowhere, because tasks.one.m has no 'x'; type"
                " model.answer=VALUE"
            ),
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_one_sentence(
    planned: Planned, overrides: list[str], found: str
) -> None:
    said = faults(planned, "", *overrides, base=REFERRING)
    assert [fault for fault in said if "leads nowhere" in fault] == [found]
    assert not any("Error" in fault or "found '${" in fault for fault in said)


def test_references_lead_into_lists_and_through_other_references() -> None:
    found: list[str] = []
    node = {"a": [{"b": 3}], "c": "${a}", "d": "${a.0.b}", "e": "${c.0.b}", "f": "${g}", "g": None}
    plain = resolve(node, found)
    assert (plain["d"], plain["e"], plain["f"]) == (3, 3, None)
    assert found == []
    resolve({"a": [1], "b": "${a.1}"}, found)
    assert found == ["b: ${a.1} leads nowhere, because a has no '1'; type b=VALUE"]


@pytest.mark.parametrize("path", [path for path in CLASSES if path.startswith("specialists.")])
def test_no_stage_of_a_specialist_asks_the_model(path: str) -> None:
    """What takes a state is a stage; the others are called by one, with pixels."""
    stage = named(path)
    is_stage = "state" in inspect.getfullargspec(stage.__call__).annotations
    assert not is_stage or stage.asks is False


def test_what_strings_name_across_folders_can_be_located() -> None:
    """The lower folder cannot import the class, so that only this says when it is renamed."""
    assert locate(DEFAULT_READER["use"]) is Robust


def test_needs_leave_a_contestant_out_and_say_so(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOKTWICE_NEEDED", raising=False)
    other = (
        "{model: {use: pipelines.models.Scripted, answer: q}, needs: {env:"
        " LOOKTWICE_NEEDED|ALSO_NOT}}"
    )
    text = f"contestants: {{plain: {{}}, other: {other}}}"
    found = planned(text)
    assert [p.contestant for p in found.points] == ["plain"]
    assert found.left_out == {"other": "LOOKTWICE_NEEDED or ALSO_NOT is not set"}
    monkeypatch.setenv("LOOKTWICE_NEEDED", "1")
    assert [p.contestant for p in planned(text).points] == ["plain", "other"]


def test_overlay_moves_and_drops_slots() -> None:
    base = {"stages": {"a": {"use": "x"}, "b": {"use": "y"}, "c": {"use": "z"}}}
    layer = Overlay()
    moved = layer(base, {"stages": {"c": {"before": "a"}, "b": {"use": "w"}}})
    assert list(moved["stages"]) == ["c", "a", "b"]
    assert moved["stages"]["b"] == {"use": "w"}
    assert not layer.faults
    assert base["stages"]["b"] == {"use": "y"}


CHAT = {"use": "pipelines.models.ChatAPI", "model": "m", "temperature": 0}


@pytest.mark.parametrize(
    ("override", "same"),
    [
        ("model.url=http://127.0.0.1:9/v1", False),
        ("model.timeout=3", True),
        ("model.in_flight=2", True),
        ("model.temperature=1", False),
        ("model.model=other", False),
        ("stages.mark.radius=11", False),
        ("stages.mark.radius=10.0", True),
        ("stages.think.text=Think.", False),
        ("task.seed=1", False),
        ("seed=1", False),
        ("read.use=eval.readers.BlinkOfficial", True),
        ("stages.ask.options.max_tokens=9", False),
    ],
)
def test_what_makes_a_new_point(planned: Planned, override: str, same: bool) -> None:
    base = BASE.replace(
        "{use: pipelines.models.Scripted}",
        "{use: pipelines.models.ChatAPI, model: m, temperature: 0}",
    )
    (one,), (two,) = planned(base=base).points, planned("", override, base=base).points
    assert (one.id == two.id) is same


def test_the_order_of_stages_is_part_of_the_identity(planned: Planned) -> None:
    (one,), (two,) = planned().points, planned("", "stages.think.before=mark").points
    assert list(two.stages) == ["think", "mark", "ask"]
    assert one.id != two.id


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
    one, two = Scripted(lambda messages: "(A)"), Scripted(lambda messages: "(B)")
    assert one.identity != two.identity
    assert identity(one) != identity(two)
    assert identity(one) == identity(Scripted(one.answer))


def test_a_mapping_has_no_order_in_an_identity() -> None:
    one, two = (build(CHAT | {"extra": extra}) for extra in ({"a": 1, "b": 2}, {"b": 2, "a": 1}))
    assert digest(identity(one)) == digest(identity(two))


def test_an_old_path_of_a_class_that_became_another_keeps_its_identity(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = "prompting.markers.SmallRings", "prompting.markers.Circles"
    ring = {"use": old, "color": "white"}
    monkeypatch.setattr("looktwice.pipelines.config.aliases.ALIASES", {old: (new, {"radius": 3})})
    built = build(ring)
    assert built == Circles(radius=3, color="white") and locate(old) is Circles
    assert identity(built) == ring and spec(built)["use"] == old
    assert "radius" not in spec(built) and build(spec(built)) == built
    assert identity(Circles(radius=4))["use"] == new
    (arm,) = planned("", "stages.mark.use=" + old, "stages.mark.radius=3").points
    assert arm.stages["mark"] == Circles(radius=3)


def test_a_fault_of_a_single_change_names_its_entry(planned: Planned) -> None:
    said = faults(
        planned,
        "each: [{stages.mark.radius: 12}, {stages.mark.radius: x}]\n"
        "contestants: {plain: {}, gray: {stages: {mark: {color: gray}}}}\n",
    )
    assert [fault.partition(":")[0] for fault in said] == ["each[1].stages.mark.radius"]


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
