"""Public paths stay the same when the file that defines a class moves."""

import dataclasses
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from looktwice.pipelines.config.classes import ConfigError, find_class, load_plugin
from looktwice.pipelines.config.spec import asks_model, get_public_path, identity, spec
from looktwice.pipelines.extensions import list_own_classes
from tests.chat_server import chat_server
from tests.optional import HAS_EXTRAS, needs_extras
from tests.paths import CONFIGS, DOCS, ROOT
from tests.source_tree import copy_source, omit_link
from tests.tables import read_yaml

FOLDERS = ("pipelines", "specialists", "prompting", "eval")
LIST = Path(__file__).with_name("public_paths.txt")
KEPT_LIST = Path(__file__).parent / "extras" / "public_paths.txt"


def rooms() -> list[str]:
    """Return every public module: packages, and modules in a folder that define `__all__`."""
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
KEPT = sorted(list_own_classes())
NAMES = {path: path.rpartition(".")[2] for path in (*PATHS, *KEPT)}
CLASSES = [path for path, name in NAMES.items() if name[0].isupper() and not name.isupper()]


def locate_public(path: str) -> Any:
    if extension := list_own_classes().get(path):
        return extension.open()
    room, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"looktwice.{room}"), name)


@needs_extras
def test_public_paths_are_unchanged() -> None:
    """`make format` writes the list."""
    assert LIST.read_text().split() == PATHS, "run `make format`, and look at what it changes"


@needs_extras
def test_classes_that_moved_to_extensions_keep_their_paths() -> None:
    assert KEPT_LIST.read_text().split() == KEPT, "run `make format`, and look at what it changes"
    assert set(PATHS).isdisjoint(KEPT)


def test_a_class_has_one_path_which_is_its_yaml_name_and_its_identity() -> None:
    classes = {path: cls for path in CLASSES if isinstance(cls := locate_public(path), type)}
    assert len(classes) > (300 if HAS_EXTRAS else 200)
    assert {path: get_public_path(cls) for path, cls in classes.items()} == {p: p for p in classes}
    assert [path for path, cls in classes.items() if find_class(path) is not cls] == []


def test_class_names_are_unique() -> None:
    names = [path.rpartition(".")[2] for path in CLASSES]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_names_exported_by_a_folder_are_public_in_a_room() -> None:
    public_names = {(path.partition(".")[0], path.rpartition(".")[2]) for path in PATHS}
    faces = {folder: importlib.import_module(f"looktwice.{folder}") for folder in FOLDERS}
    named = {(folder, name) for folder, face in faces.items() for name in face.__all__}
    assert named <= public_names
    assert all(hasattr(faces[folder], name) for folder, name in named)


def build_default(cls: Any) -> Any:
    """Build an object with its default settings, or return None if one of them has no default."""
    try:
        return cls()
    except (TypeError, ValueError):
        return None


def serialize(thing: Any) -> list[Any]:
    """Return the forms in which configurations, runs and caches store an object, or the errors."""
    found: list[Any] = [asks_model(thing)]
    for write in (spec, identity):
        try:
            found.append(write(thing))
        except (TypeError, ValueError) as exc:
            found.append(str(exc))
    return found


def test_the_file_of_a_class_is_not_part_of_its_identity() -> None:
    faults, tried = [], 0
    for path in CLASSES:
        cls: Any = locate_public(path)
        thing = build_default(cls) if dataclasses.is_dataclass(cls) else None
        if thing is None:
            continue
        before, tried = serialize(thing), tried + 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cls, "__module__", f"looktwice.{path.rpartition('.')[0]}.elsewhere")
            if serialize(thing) != before or find_class(path) is not cls:
                faults.append(path)
    assert faults == [] and tried > (150 if HAS_EXTRAS else 100)


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
    """Rename the file that defines a class and fix its imports."""
    room, file = (
        path.rpartition(".")[0],
        Path(*locate_public(path).__module__.split(".")[1:]).with_suffix(".py"),
    )
    (tree / file).rename(tree / file.with_stem(f"{file.stem}_moved"))
    door = tree / Path(*room.split(".")) / "__init__.pyi"
    door.write_text(door.read_text().replace(f"from .{file.stem} ", f"from .{file.stem}_moved "))
    for other in tree.rglob("*.py"):
        text = other.read_text(encoding="utf-8")
        moved = text.replace(
            f"looktwice.{room}.{file.stem} ", f"looktwice.{room}.{file.stem}_moved "
        )
        if moved != text:  # the other files keep their bytecode
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


@pytest.mark.slow
def test_moving_files_inside_their_rooms_keeps_runs_and_cached_replies_valid(
    tmp_path: Path,
) -> None:
    tree = copy_source(tmp_path / "tree", omit_link)
    for cache in (cache for folder in FOLDERS for cache in (ROOT / folder).rglob("__pycache__")):
        # compiling all files takes as long as the rest
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
TEXTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *(*DOCS.glob("*.*"), *(DOCS / "howto").glob("*.md"), *CONFIGS.glob("*.yaml")),
]


@needs_extras
def test_every_name_in_a_configuration_or_document_is_public() -> None:
    assert len(TEXTS) > 100
    known = {*PATHS, *KEPT}
    named_in = {text.name: set(NAME.findall(text.read_text(encoding="utf-8"))) for text in TEXTS}
    assert {name: odd for name, found in named_in.items() if (odd := found - known)} == {}


def uses(node: Any) -> Iterator[str]:
    """Yield every `use` of a configuration."""
    if isinstance(node, dict):
        if isinstance(node.get("use"), str):
            yield node["use"]
        node = list(node.values())
    for inner in node if isinstance(node, list) else ():
        yield from uses(inner)


@needs_extras
def test_every_use_is_found() -> None:
    plugin = load_plugin(str(DOCS / "edge_strength.py"))  # of the gallery
    faults, found = [], 0
    for text in (path for path in TEXTS if path.suffix == ".yaml"):
        for use in uses(read_yaml(text)):
            found += 1
            try:
                find_class(use, plugins=[plugin] if use == f"{plugin}.EdgeStrength" else [])
            except ConfigError as exc:
                faults.append(f"{text.name}: {exc}")
    assert faults == [] and found > 500


if __name__ == "__main__":
    for listed, paths in ((LIST, PATHS), (KEPT_LIST, KEPT)):
        listed.write_text("".join(f"{path}\n" for path in paths))
