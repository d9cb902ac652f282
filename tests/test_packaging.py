"""What a built wheel holds is what the folders hold, once, under one name."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT

FOLDERS = ("pipelines", "prompting", "specialists", "eval", "configs")
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def is_ours(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")


def in_the_tree() -> set[str]:
    own = {"looktwice/__init__.py", "looktwice/py.typed"}
    return own | {f"looktwice/{p.relative_to(ROOT)}" for f in FOLDERS for p in (ROOT / f).rglob("*") if is_ours(p)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built offline from a copy, so that no `build/` of an earlier day can leak into it."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in (*FOLDERS, "typings"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-c", BUILD, str(out)], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def test_the_wheel_holds_the_tree_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert sorted(names) == sorted(in_the_tree())  # lists, not sets: a name that stands twice is a fault


def test_the_wheel_holds_the_command_and_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name.partition(".dist-info/")[2]: name for name in archive.namelist()}
        entry_points = archive.read(inside["entry_points.txt"]).decode()
    assert "looktwice = looktwice.eval.cli:main" in entry_points
    assert "licenses/LICENSE" in inside


def test_the_list_of_packages_names_every_room() -> None:
    built = SETTINGS["tool"]["setuptools"]
    assert built["package-dir"] == {"looktwice": "typings/looktwice", **{f"looktwice.{f}": f for f in FOLDERS}}
    packages = {path.parent.relative_to(ROOT) for f in FOLDERS for path in (ROOT / f).rglob("__init__.py")}
    assert built["packages"] == ["looktwice", *sorted(f"looktwice.{'.'.join(p.parts)}" for p in packages)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_a_typed_package_with_a_link_for_type_checkers(folder: str) -> None:
    assert (ROOT / folder / "__init__.py").is_file()
    assert (ROOT / folder / "py.typed").is_file()
    link = ROOT / "typings" / "looktwice" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / folder
