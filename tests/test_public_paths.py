"""The public paths: each is a promise, and none depends on the file that holds the class."""

import dataclasses
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.pipelines.config.classes import load_plugin, locate
from looktwice.pipelines.config.spec import asks_model, identity, public_path, spec
from tests.chat_server import chat_server
from tests.paths import CONFIGS, DOCS, ROOT
from tests.source_tree import copy_source, nothing

FOLDERS = ("pipelines", "specialists", "prompting", "eval")
LIST = Path(__file__).with_name("public_paths.txt")


def rooms() -> list[str]:
    """Every room with a door: packages, and modules directly under a folder that say `__all__`."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).iterdir()):
            if (path / "__init__.py").is_file() or (
                path.suffix == ".py" and path.stem not in ("__init__", "cli")
            ):
                found.append(f"{folder}.{path.stem}")
    return found


def public(room: str) -> list[str]:
    return sorted(importlib.import_module(f"looktwice.{room}").__all__)


PATHS = [f"{room}.{name}" for room in rooms() for name in public(room)]
CLASSES = [
    path
    for path in PATHS
    if path.rpartition(".")[2][0].isupper() and not path.rpartition(".")[2].isupper()
]


def named(path: str) -> Any:
    room, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"looktwice.{room}"), name)


def test_public_paths_are_kept() -> None:
    """`make format` writes the list; a path that leaves it needs an alias that reads old
    configurations."""
    assert LIST.read_text().split() == PATHS, "run `make format`, and look at what it changes"


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
    assert [
        name for name in face.__all__ if not any(path.endswith(f".{name}") for path in paths)
    ] == []
    assert [name for name in face.__all__ if not hasattr(face, name)] == []


def with_defaults(cls: Callable[[], Any]) -> Any:
    """An object with all its default settings, or None where one of them has no default."""
    try:
        return cls()
    except (TypeError, ValueError):
        return None


DATACLASSES = [path for path in CLASSES if dataclasses.is_dataclass(named(path))]
OBJECTS = {path: thing for path in DATACLASSES if (thing := with_defaults(named(path))) is not None}


def written(thing: Any) -> list[Any]:
    """What configurations, runs and caches keep of an object, or the reason why they cannot."""
    found: list[Any] = [asks_model(thing)]
    for write in (spec, identity):
        try:
            found.append(write(thing))
        except (TypeError, ValueError) as exc:
            found.append(str(exc))
    return found


@pytest.mark.parametrize("path", OBJECTS)
def test_the_file_that_holds_a_class_is_no_part_of_its_identity(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls, before = named(path), written(OBJECTS[path])
    monkeypatch.setattr(cls, "__module__", f"looktwice.{path.rpartition('.')[0]}.elsewhere")
    assert written(OBJECTS[path]) == before
    assert locate(path) is cls


STUDY = """
task: {use: eval.tasks.Photos, kind: depth, n: 4}
model: {use: pipelines.models.ChatAPI, model: tiny, temperature: 0, url: "%s"}
stages:
  mark: {use: prompting.markers.Circles}
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
"""
MOVED = (
    "prompting.markers.Circles",
    "prompting.turns.Ask",
    "pipelines.models.ChatAPI",
    "eval.readers.Robust",
)


def move_file(tree: Path, path: str) -> None:
    """Renames the file that defines a class, and mends the imports of it: another file of the same
    room holds it."""
    room, file = (
        path.rpartition(".")[0],
        Path(*named(path).__module__.split(".")[1:]).with_suffix(".py"),
    )
    (tree / file).rename(tree / file.with_stem(f"{file.stem}_moved"))
    door = tree / Path(*room.split(".")) / "__init__.pyi"
    door.write_text(door.read_text().replace(f"from .{file.stem} ", f"from .{file.stem}_moved "))
    for other in tree.rglob("*.py"):
        text = other.read_text(encoding="utf-8")
        moved = text.replace(
            f"looktwice.{room}.{file.stem} ", f"looktwice.{room}.{file.stem}_moved "
        )
        if moved != text:  # the others keep their bytecode
            other.write_text(moved)


RUNS = """
import sys
from looktwice.eval.cli import app
for words in sys.argv[1:]:
    if code := app(words.split(), standalone_mode=False):
        sys.exit(code)
"""


def run(tree: Path, *words: str) -> None:
    command = [sys.executable, "-c", RUNS, *words]
    plain = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    environment = plain | {"PYTHONPATH": str(tree / "typings")}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.dear
def test_moving_files_inside_their_rooms_orphans_no_run_and_no_paid_reply(tmp_path: Path) -> None:
    tree = copy_source(tmp_path / "tree", nothing)
    for cache in (cache for folder in FOLDERS for cache in (ROOT / folder).rglob("__pycache__")):
        # to compile all files takes as long as the rest
        shutil.copytree(cache, tree / cache.relative_to(ROOT))
    run_it = "run study.yaml --out out"
    with chat_server() as server:
        (tree / "study.yaml").write_text(STUDY % server.url)
        run(tree, run_it)
        assert server.stats["requests"] == 4
        points, records = (
            (tree / "out" / "study" / name).read_text() for name in ("points.yaml", "records.jsonl")
        )
        for path in MOVED:
            move_file(tree, path)
        run(tree, run_it, f"{run_it} --again=all")
        assert server.stats["requests"] == 4
    earlier, fresh = sorted(
        (tree / "out").glob("study*"), key=lambda folder: folder.name == "study"
    )
    assert (earlier / "points.yaml").read_text() == (fresh / "points.yaml").read_text() == points
    assert (earlier / "records.jsonl").read_text() == records


NAME = re.compile(r"\b(?:pipelines|specialists|prompting|eval)\.\w+\.[A-Z]\w+\b")
PLUGIN = {f"{load_plugin(str(DOCS / 'edge_strength.py'))}.EdgeStrength"}  # of the gallery
TEXTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *(*DOCS.glob("*.*"), *(DOCS / "howto").glob("*.md"), *CONFIGS.glob("*.yaml")),
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_every_name_in_a_configuration_or_document_is_public(text: Path) -> None:
    assert sorted(set(NAME.findall(text.read_text(encoding="utf-8"))) - set(PATHS)) == []


def uses(node: Any) -> Iterator[str]:
    """Every `use` of a configuration."""
    if isinstance(node, dict) and isinstance(node.get("use"), str):
        yield node["use"]
    for inner in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from uses(inner)


@pytest.mark.parametrize(
    "text", [path for path in TEXTS if path.suffix == ".yaml"], ids=lambda path: path.name
)
def test_every_use_is_found(text: Path) -> None:
    for use in uses(yaml.safe_load(text.read_text(encoding="utf-8"))):
        assert locate(use, plugins=["edge_strength"] if use in PLUGIN else [])


if __name__ == "__main__":
    LIST.write_text("".join(f"{path}\n" for path in PATHS))
