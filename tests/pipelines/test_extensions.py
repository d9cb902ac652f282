"""A third-party package registers by its entry point, as docs/howto/extend.md shows; looktwice
works without one that cannot be imported."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from looktwice.pipelines.config.classes import find_class
from looktwice.pipelines.extensions import (
    EXTENSION_GROUPS,
    Extension,
    find_extension,
    list_extensions,
)
from tests.optional import needs_extras
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "howto" / "extend.md").read_text(encoding="utf-8")
STUDY = """
task: {use: eval.tasks.MarkedScenes, kind: color, n: 6}
model: {use: pipelines.models.Scripted, answer: "(A)"}
stages:
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
letters: true
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the package of the page is installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name, text in re.findall(r'```\w+ title="([\w.]+)"\n(.*?)```', PAGE, re.DOTALL):
        (source / name).write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", target, source], check=True)
    return target


def looktwice(*words: str, folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "typings"), str(path)])}
    command = [sys.executable, "-c", "from looktwice.eval.cli import main; main()", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@needs_extras
def test_the_package_of_the_page_adds_one_class_of_each_kind(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY, encoding="utf-8")
    where = {"folder": tmp_path, "path": installed}
    greeted = looktwice("greet", "Ada", **where)
    assert (greeted.returncode, greeted.stdout) == (0, "Hello, Ada.\n"), greeted.stderr
    assert "greet" in looktwice("--help", **where).stdout
    run = looktwice("run", "study.yaml", "--on", "last-first", "--workers", "1", **where)
    assert run.returncode == 0 and "letters: {'A': 6}" in run.stdout, run.stderr
    lines = (tmp_path / "runs" / "study" / "records.jsonl").read_text().splitlines()
    asked = [json.loads(line)["sample"] for line in lines]
    assert asked == sorted(asked, reverse=True) and len(asked) == 6
    shown = looktwice("analyse", "runs/study", "letters-all", **where)
    assert "AAAAAA" in shown.stdout, shown.stderr
    assert "All letters" in (tmp_path / "runs" / "study" / "report.md").read_text()
    looktwice("export", "runs/study", "--to", "letters", "--out", "out", **where)
    assert [path.read_text() for path in (tmp_path / "out").glob("*.letters")] == ["AAAAAA"]


@needs_extras
def test_an_unknown_key_is_a_fault_that_lists_the_keys(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY, encoding="utf-8")
    run = looktwice("check", "study.yaml", folder=tmp_path, path=tmp_path)
    assert run.returncode == 2 and "letters: no such entry" in run.stderr
    assert "choose" in run.stderr


def install_broken(folder: Path, table: str) -> None:
    """Install a package whose entry point names this table."""
    about = folder / "broken-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[looktwice.extensions]\nbroken = {table}\n")


def test_a_package_that_cannot_be_imported_gives_a_warning(tmp_path: Path) -> None:
    install_broken(tmp_path, "not_there:TABLE")
    listed = looktwice("analyse", "--list", folder=tmp_path, path=tmp_path)
    assert listed.returncode == 0 and "baseline" in listed.stdout
    assert "not_there:TABLE cannot be opened" in listed.stderr


def test_a_key_that_cannot_be_loaded_gives_one_sentence(tmp_path: Path) -> None:
    install_broken(tmp_path, "broken:TABLE")
    (tmp_path / "broken.py").write_text('TABLE = {"keys": {"letters": ("not_there:Key",)}}\n')
    (tmp_path / "study.yaml").write_text(STUDY, encoding="utf-8")
    run = looktwice("check", "study.yaml", folder=tmp_path, path=tmp_path)
    assert run.returncode == 2 and "Traceback" not in run.stderr
    assert "not_there:Key cannot be opened" in run.stderr


def test_each_of_our_extensions_can_be_loaded() -> None:
    for group in EXTENSION_GROUPS:
        for name, extension in list_extensions(group).items():
            assert extension.open() is not None, name
    assert find_extension("keys", "not one") is None


def test_an_extension_is_available_if_its_packages_are_installed() -> None:
    for needs, there, is_of_use in (
        ((), {}, True),
        (("key:gap",), {"key:gap"}, True),
        (("key:gap",), {"key:gaps"}, False),
        (("key:a|key:b",), {"key:b"}, True),
        (("key:a|key:b", "turns"), {"key:b"}, False),
    ):
        assert Extension("x:y", "", needs).meets_needs(there.__contains__) is is_of_use


@needs_extras
@pytest.mark.parametrize(
    "use",
    ["specialists.detection.GroundinDINO", "specialists.matching.LoFT", "prompting.where.ViCro"],
)
def test_a_misspelled_class_of_an_extension_is_suggested_in_its_room(use: str) -> None:
    room = use.rpartition(".")[0]
    with pytest.raises(
        ValueError, match=rf"no public class '\w+' in (looktwice\.)?{room}; did you"
    ):
        find_class(use)
