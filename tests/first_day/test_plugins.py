"""Custom classes that a study names under `plugins:`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.commands import options
from looktwice.pipelines.config import ConfigError, load_plan
from tests.first_day.studies import get_output

STUDY = """
plugins: [PLUGIN]
task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
model: {use: pipelines.models.Scripted}
stages:
  own: {use: stage_of_study.Own}
  ask: {use: prompting.turns.Ask}
"""
OWN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Own:
    def __call__(self, state, model):
        return state.with_notes("own stage ran")
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study outside the working folder, with the plugin next to it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "stage_of_study.py").write_text(OWN)
    (folder / "own.yaml").write_text(STUDY.replace("PLUGIN", "stage_of_study.py"))
    return folder / "own.yaml"


def test_a_plugin_is_allowed_once_for_a_study_and_its_runs(study: Path) -> None:
    refused = get_output("check", study, code=2)
    assert "plugins: studies/stage_of_study.py is Python code" in refused
    assert "--plugin studies/stage_of_study.py" in refused
    get_output("check", study, "--plugin", "studies/stage_of_study.py")
    get_output("run", study)
    assert "own stage ran" in get_output("view", "runs/own", "--sample", "jigsaw_0000")
    get_output("replay", "runs/own")
    copy = study.with_name("copy.yaml")
    copy.write_text(study.read_text())
    assert "is Python code" in get_output("check", copy, code=2)


def test_a_configuration_folder_that_cannot_be_written_stops_no_run(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (study.parent / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(study.parent / "file"))
    words = ("check", study, "--plugin", "studies/stage_of_study.py")
    get_output(*words)
    get_output(*words)
    assert "is Python code" in get_output("check", study, code=2)


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_a_terminal_asks_once_before_code_of_a_study_runs(
    study: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    study.with_name("stage_of_study.py").write_text(
        OWN + "import pathlib\npathlib.Path('ran').touch()\n"
    )
    result = CliRunner().invoke(app, ["check", str(study)], input=f"{answer}\n")
    assert result.exit_code == code and result.output.count("[y/N]") == 1
    assert "studies/own.yaml runs the Python code of studies/stage_of_study.py" in result.output
    assert Path("ran").exists() == (code == 0)
    get_output("check", study, code=code)  # no question is asked here


def test_a_notebook_names_the_plugin_once_and_wrong_entries_are_faults(study: Path) -> None:
    with pytest.raises(ConfigError, match=r"plugins=\["):
        load_plan(study)
    load_plan(study, plugins=["studies/stage_of_study.py"])
    assert load_plan(study).plugins == ("stage_of_study",)
    for plugin, fault in (
        ("none_of_this.py", "there is no file"),
        ("none_of_this", "none_of_this is Python code"),
        ("1", "valid string"),
    ):
        study.write_text(STUDY.replace("PLUGIN", plugin))
        with pytest.raises(ConfigError) as caught:
            load_plan(study, plugins=["studies/stage_of_study.py"])
        assert fault in str(caught.value)
