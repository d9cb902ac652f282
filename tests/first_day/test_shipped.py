"""Shipped configurations, and a line for everything that has a name."""

from pathlib import Path

import pytest

from looktwice.eval.listing import KIND_DESCRIPTIONS, STARTER_CONFIGS
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.config.classes import find_class
from looktwice.pipelines.config.shipped import list_configs
from tests.first_day.studies import get_output, looktwice
from tests.optional import needs_extras
from tests.paths import ROOT
from tests.tables import table

OWN = '''
"""Things of one's own."""

from dataclasses import dataclass

from looktwice.eval.readers.reader import Reader


@dataclass(frozen=True)
class LastWord(Reader):
    """Reads the last word. Nothing else."""


@dataclass(frozen=True)
class Whisper:
    """Says the question quietly."""

    def __call__(self, state, model):
        return state


@dataclass(frozen=True)
class Corners:
    """Finds the corners of an image."""

    def __call__(self, pixels):
        return pixels
'''


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize("name", ["correspondence_curve.yaml"])
def test_a_shipped_configuration_is_found_by_name_from_any_folder(name: str) -> None:
    assert "sift" in get_output(
        *("check", name, "--all", "tasks.turned.n=2", "tasks.upright.n=2"),
        *("contestants.xfeat=null", "contestants.imagenet=null"),
    )


@needs_extras
def test_an_include_finds_it_too_and_a_local_file_takes_precedence() -> None:
    Path("quickstart.yaml").write_text("include: dysm_generated.yaml\nname: own\n")
    plan = load_plan(Path("quickstart"))
    assert plan.name == "own" and {arm.contestant for arm in plan.points} == {"one", "zero"}
    Path("dysm_generated.yaml").write_text("task: {use: eval.tasks.Nothing}\n")
    assert "no public class 'Nothing'" in get_output("check", "quickstart", code=2)


def test_an_unknown_name_gets_a_suggestion() -> None:
    output = get_output("run", "quikstart", code=2)
    assert "quikstart: no such configuration file; did you mean 'quickstart'?" in output
    assert "looktwice list configs" in output
    assert "study.yaml: no such configuration file" in get_output("run", "study.yaml", code=2)


def test_missing_reply_files_are_listed_with_the_folder_to_name(tmp_path: Path) -> None:
    for command in ("check", "run"):
        output = " ".join(get_output(command, "blink_val", f"data={tmp_path}", code=2).split())
        assert f"'{tmp_path}/GPT4V.jsonl.gz' does not exist)" in output
        assert f"data={tmp_path} must name the folder that holds the files above" in output
        assert "(in the study: data/blink_replies)" in output


@pytest.mark.parametrize("name", ["study", "quickstart"])
def test_the_study_written_by_init_passes_check_unchanged(name: str) -> None:
    init, file = ["init", name][: 1 + (name != "study")], f"{name}.yaml"
    assert f"wrote {file}; next: looktwice check {file}" in get_output(*init)
    assert f"looktwice run {file}" in Path(file).read_text()
    assert "FAILED" not in get_output("check", file)
    assert f"{file} already exists; name another file with --out FILE" in get_output(*init, code=2)
    get_output(*init, "--out", "new/copy.yaml")
    assert "did you mean 'study'?" in get_output("init", "studi", code=2)


def test_every_commented_line_of_the_study_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    text = (ROOT / "eval" / "templates" / "study.yaml").read_text()
    for word in ("url", "model", "first-the-words", "resized", "other"):
        assert f"# {word}: " in text
        text = text.replace(f"# {word}: ", f"{word}: ")
    Path("whole.yaml").write_text(text)
    names = {arm.contestant for arm in load_plan(Path("whole.yaml")).points}
    assert names == {"marked", "unmarked", "first-the-words", "resized", "other", "chance", "seams"}


@table
def test_list_shows_everything_by_kind_on_one_line_each(kind: str, named: str, absent: str) -> None:
    output = looktwice("list", kind).output
    (line,) = [line for line in output.splitlines() if line.startswith(f"{named} ")]
    assert len(line.split()) > 4 and absent not in output


def test_list_shows_ten_configurations_and_all_with_an_option() -> None:
    first = looktwice("list").output
    assert all(f"\n  {kind} " in first for kind in KIND_DESCRIPTIONS) and "\ndocuments: " in first
    names = [line.split()[0] for line in first.splitlines()[1:11]]
    assert names == [*STARTER_CONFIGS] and len(names) == 10 and names[0] == "quickstart"
    every = [line.split()[0] for line in looktwice("list", "--all").output.splitlines()]
    assert every == [*list_configs()] and set(names) < set(every)


@needs_extras
def test_list_shows_the_settings_of_a_class_and_links_to_its_documentation() -> None:
    for name in ("prompting.markers.Circles", "Circles", "looktwice.prompting.markers.Circles"):
        output = looktwice("list", name).output
        assert "use: prompting.markers.Circles" in output and "\nradius: 10  # number" in output
        assert "`radius`" in output and "\ndocuments: " in output
    assert "`revision` pins a commit" in get_output("list", "DepthAnything")
    assert "subclass" not in get_output("list", "Blink") and "`hub` names" in get_output(
        "list", "BlinkTwice"
    )
    assert ".replace(self, **changes: Any) -> State: Return a copy" in get_output("list", "State")
    assert "did you mean 'Circles'?" in get_output("list", "Circels", code=2)
    assert "prompting.turns.Ask " in get_output("list", "stage")
    markers = looktwice("list", "markers").output.splitlines()
    assert {line.split(".")[1] for line in markers} == {"markers"}


def test_list_shows_custom_classes(tmp_path: Path) -> None:
    (tmp_path / "listed_things.py").write_text(OWN)
    plugin = ("--plugin", "listed_things.py")
    for kind, name in {"readers": "LastWord ", "stages": "Whisper ", "specialists": "C"}.items():
        lines = looktwice("list", kind, *plugin).output.splitlines()
        (line,) = [line for line in lines if line.startswith("listed_things.")]
        assert line.startswith(f"listed_things.{name}")
        assert kind != "readers" or "Reads the last word." in line
    assert "use: listed_things.LastWord" in get_output("list", "LastWord", *plugin)


def test_a_refused_class_of_an_existing_file_names_the_file() -> None:
    with pytest.raises(ValueError, match=r"add --plugin mine$"):
        find_class("mine.LastLetter")
    Path("mine.py").write_text("class LastLetter:\n    pass\n")
    with pytest.raises(ValueError, match=r"add --plugin mine\.py$"):
        find_class("mine.LastLetter")
