"""The public paths: each is a promise, and none depends on the file that holds the class."""

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest

from looktwice.pipelines.config import locate, spec
from looktwice.pipelines.config.spec import public_path
from tests.paths import ROOT

FOLDERS = ("pipelines", "specialists", "prompting", "eval")
LIST = Path(__file__).with_name("public_paths.txt")


def rooms() -> list[str]:
    """Every room with a door: packages, and modules directly under a folder that say `__all__`."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).iterdir()):
            if (path / "__init__.py").is_file() or (path.suffix == ".py" and path.stem not in ("__init__", "cli")):
                found.append(f"{folder}.{path.stem}")
    return found


def public(room: str) -> list[str]:
    return sorted(importlib.import_module(f"looktwice.{room}").__all__)


PATHS = [f"{room}.{name}" for room in rooms() for name in public(room)]
CLASSES = [path for path in PATHS if path.rpartition(".")[2][0].isupper() and not path.rpartition(".")[2].isupper()]


def named(path: str) -> Any:
    room, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"looktwice.{room}"), name)


def test_public_paths_are_kept() -> None:
    """Adding one is a line in the list; a path that leaves it needs an alias that reads old configurations."""
    assert LIST.read_text().split() == PATHS


@pytest.mark.parametrize("path", [path for path in CLASSES if isinstance(named(path), type)])
def test_a_class_has_one_path_which_is_its_name_in_yaml_and_its_identity(path: str) -> None:
    assert public_path(named(path)) == path
    assert locate(path) is named(path)


def test_no_class_name_stands_twice() -> None:
    names = [path.rpartition(".")[2] for path in CLASSES]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_folder_names_is_public_in_a_room(folder: str) -> None:
    face = importlib.import_module(f"looktwice.{folder}")
    paths = {path for path in PATHS if path.startswith(f"{folder}.")}
    assert [name for name in face.__all__ if not any(path.endswith(f".{name}") for path in paths)] == []
    assert [name for name in face.__all__ if not hasattr(face, name)] == []


def test_the_file_that_holds_a_class_is_no_part_of_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    circles = named("prompting.markers.Circles")
    before = spec(circles())
    monkeypatch.setattr(circles, "__module__", "looktwice.prompting.markers.elsewhere")
    assert spec(circles()) == before
    assert before["use"] == "prompting.markers.Circles"
    assert dataclasses.is_dataclass(circles)
