"""What comes with the package is found by name: configurations, and a line for everything that one
may name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from looktwice.eval.cli import app
from looktwice.pipelines.config import load_plan
from tests.paths import ROOT

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


def looktwice(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize("name", ["correspondence_curve", "correspondence_curve.yaml"])
def test_a_shipped_configuration_goes_by_its_name_from_any_folder(name: str) -> None:
    """From the wheel `looktwice run quickstart` found nothing: nobody knows where site-packages
    lies."""
    result = looktwice("check", name, "contestants.xfeat=null", "contestants.imagenet=null")
    assert result.exit_code == 0, result.output
    assert "sift" in result.output


def test_an_include_finds_it_too_and_one_of_the_same_name_beside_wins() -> None:
    Path("quickstart.yaml").write_text("include: dysm_generated.yaml\nname: own\n")
    found = load_plan(Path("quickstart"))
    assert found.name == "own" and {arm.contestant for arm in found.points} == {"one", "zero"}
    Path("dysm_generated.yaml").write_text("task: {use: eval.tasks.Nothing}\n")
    assert "no public class 'Nothing'" in looktwice("check", "quickstart").output


def test_a_name_that_is_none_is_met_with_one_that_is() -> None:
    said = looktwice("run", "quikstart").output
    assert "quikstart: no such configuration file; did you mean 'quickstart'?" in said
    assert "looktwice list configs" in said
    assert "study.yaml: no such configuration file" in looktwice("run", "study.yaml").output


@pytest.mark.parametrize("name", ["study", "quickstart"])
def test_what_init_writes_passes_check_as_it_stands(name: str) -> None:
    """Nobody began with an empty file that works: one copied a test."""
    words = [] if name == "study" else [name]
    assert (
        f"wrote {name}.yaml; next: looktwice check {name}.yaml" in looktwice("init", *words).output
    )
    assert f"looktwice run {name}.yaml" in Path(f"{name}.yaml").read_text()
    result = looktwice("check", f"{name}.yaml")
    assert result.exit_code == 0, result.output
    assert "FAILED" not in result.output
    again = looktwice("init", *words)
    assert (
        again.exit_code == 2
        and f"{name}.yaml is there already; give another --out FILE" in again.output
    )
    assert looktwice("init", *words, "--out", "new/copy.yaml").exit_code == 0
    assert "did you mean 'study'?" in looktwice("init", "studi").output


def test_every_line_of_the_study_that_is_commented_out_can_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a key, and every setting and contestant that the file offers in its comments."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    text = (ROOT / "eval" / "templates" / "study.yaml").read_text()
    for word in ("url", "model", "first-the-words", "resized", "other"):
        assert f"# {word}: " in text
        text = text.replace(f"# {word}: ", f"{word}: ")
    Path("whole.yaml").write_text(text)
    names = {arm.contestant for arm in load_plan(Path("whole.yaml")).points}
    assert names == {"marked", "unmarked", "first-the-words", "resized", "other", "chance", "seams"}


def test_list_names_everything_by_kind_in_a_line_each() -> None:
    """To find the name of a stage one had to open the source."""
    assert (
        "stages " in looktwice("list").output and "looktwice list KIND" in looktwice("list").output
    )
    lines = {
        "stages": "prompting.markers.Circles ",
        "specialists": "specialists.matching.SIFT ",
        "tools": "prompting.agent.Zoom ",
        "tasks": "eval.tasks.Folder ",
        "readers": "eval.readers.Robust ",
        "models": "pipelines.models.ChatAPI ",
        "configs": "quickstart ",
    }
    for kind, begins in lines.items():
        found = [
            line for line in looktwice("list", kind).output.splitlines() if line.startswith(begins)
        ]
        assert len(found) == 1 and len(found[0].split()) > 4
    for kind, absent in {
        "stages": "views.Crop ",
        "specialists": "views.Crop ",
        "models": "Cached",
    }.items():
        assert absent not in looktwice("list", kind).output
    assert "no such kind or class; did you mean 'stages'?" in looktwice("list", "stage").output


def test_list_tells_the_settings_of_a_class_and_where_the_documents_are() -> None:
    """Who had the wheel alone found neither: settings stood in a file of the repository."""
    for name in ("prompting.markers.Circles", "Circles", "looktwice.prompting.markers.Circles"):
        said = looktwice("list", name).output
        assert "use: prompting.markers.Circles" in said and "\nradius: 10  # number" in said
        assert "`radius`" in said and "\ndocuments: " in said
    assert "`revision` pins a commit" in " ".join(looktwice("list", "DepthAnything").output.split())
    refused = looktwice("list", "Circels")
    assert refused.exit_code == 2 and "did you mean 'Circles'?" in refused.output
    assert "documents: " in looktwice("list").output


def test_list_names_classes_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "listed_things.py").write_text(OWN)
    expected = {"readers": "LastWord  ", "stages": "Whisper  ", "specialists": "Corners  "}
    for kind, name in expected.items():
        said = looktwice("list", kind, "--plugin", "listed_things.py").output
        (line,) = [line for line in said.splitlines() if line.startswith("listed_things.")]
        assert line.startswith(f"listed_things.{name}".rstrip())
    assert (
        "Reads the last word."
        in looktwice("list", "readers", "--plugin", "listed_things.py").output
    )
    assert (
        "use: listed_things.LastWord"
        in looktwice("list", "LastWord", "--plugin", "listed_things.py").output
    )


def test_list_opens_no_network_library() -> None:
    code = (
        "import sys; from looktwice.eval.listing import list_kinds;"
        " list(list_kinds());print(sorted({'torch', 'transformers', 'kornia', 'scipy.optimize',"
        " 'skimage'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
