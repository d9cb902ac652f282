"""The wheel and the sdist contain each file of the source tree once."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.optional import needs_extras
from tests.paths import ROOT
from tests.source_tree import (
    FOLDERS,
    GENERATED,
    LINKS,
    copy_source,
    omit_link,
    source_files,
    symbolic_link,
    text_file,
)

OWN = {"typings/looktwice/__init__.py", "typings/looktwice/py.typed"}
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCE = source_files()
BUILD = """
import sys
from setuptools import build_meta
out = sys.argv[1]  # a build writes its own arguments to it
build_meta.build_wheel(out)
build_meta.build_sdist(out)
"""
IMPORT = """
import sys
from looktwice.pipelines.config.classes import find_class
from looktwice.pipelines.config.load import load
print(sys.modules["looktwice.pipelines"].__file__, find_class("prompting.markers.Circles").__name__)
"""


@pytest.fixture(
    scope="module",
    params=[pytest.param(link, marks=pytest.mark.slow) for link in (symbolic_link, text_file)],
)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and an sdist, built offline."""
    copy, out = (
        copy_source(tmp_path_factory.mktemp("source"), request.param),
        tmp_path_factory.mktemp("dist"),
    )
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(out)], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_the_wheel_holds_only_the_folders(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    in_folders = {name for name in SOURCE if name.partition("/")[0] in FOLDERS}
    expected = [f"looktwice/{name.removeprefix('typings/looktwice/')}" for name in in_folders | OWN]
    assert sorted(names) == sorted(expected)  # lists, not sets: a duplicated name is a fault


def test_the_wheel_holds_the_command_and_the_licence(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        inside = {name.partition(".dist-info/")[2]: name for name in archive.namelist()}
        entry_points = archive.read(inside["entry_points.txt"]).decode()
    assert "looktwice = looktwice.eval.cli:main" in entry_points
    assert "looktwice = looktwice.extras.integrations.inspect_ai" in entry_points
    assert "licenses/LICENSE" in inside


def test_the_sdist_holds_the_source_without_the_links(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = [
            member.name.partition("/")[2] for member in archive.getmembers() if not member.isdir()
        ]
    made = {name for name in names if name in GENERATED or ".egg-info/" in name}
    assert sorted(set(names) - made) == sorted(SOURCE - LINKS)
    assert len(names) == len(set(names))


@pytest.mark.slow
@pytest.mark.parametrize("link", [text_file, omit_link])
def test_a_tree_without_links_can_be_imported(
    tmp_path: Path, link: Callable[[Path], object]
) -> None:
    copy = copy_source(tmp_path, link)
    environment = {"PYTHONPATH": str(copy / "typings"), "PATH": ""}
    command = [sys.executable, "-c", IMPORT]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [str(copy / "pipelines" / "__init__.py"), "Circles"], done.stderr


@needs_extras
def test_the_list_of_packages_names_every_room() -> None:
    named = SETTINGS["tool"]["setuptools"]
    folders = {f"looktwice.{folder}": folder for folder in FOLDERS}
    assert named["package-dir"] == {"looktwice": "typings/looktwice", **folders}
    files = [path for f in FOLDERS for path in (ROOT / f).rglob("__init__.py")]
    rooms = {".".join(path.parent.relative_to(ROOT).parts) for path in files}
    assert named["packages"] == ["looktwice", *sorted(f"looktwice.{room}" for room in rooms)]


@needs_extras
def test_a_folder_is_a_typed_package_with_a_link_for_type_checkers() -> None:
    needed = [f"{folder}/{name}" for folder in FOLDERS for name in ("__init__.py", "py.typed")]
    assert [name for name in needed if not (ROOT / name).is_file()] == []
    for folder in FOLDERS:
        link = ROOT / "typings" / "looktwice" / folder
        if link.is_symlink():
            assert link.readlink() == Path("../..") / folder
        elif link.exists():  # a checkout without links; an sdist has none at all
            assert link.read_text() == f"../../{folder}"
