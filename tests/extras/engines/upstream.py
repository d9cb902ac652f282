"""Signatures in the source of a package, read without importing it: of a real engine, or of the
package that stands in for it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import yaml

FACTS: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("signatures.yaml").read_text("utf-8")
)
"""What was read in the newest releases, by package."""


def read_signature(root: Path, place: str) -> str:
    """Return the parameters of a function, or the fields of a class, with their defaults but
    without types, as in "a, *, b=1, **rest"; a default that is no literal is "...". `place` is such
    as "vllm/entrypoints/llm.py:LLM.chat"."""
    file, _, name = place.partition(":")
    node: Any = ast.parse((root / file).read_text("utf-8"))
    for step in name.split("."):
        found = [child for child in node.body if getattr(child, "name", "") == step]
        assert found, f"{place} does not exist"
        node = found[-1]  # overloads stand before the function
    if isinstance(node, ast.ClassDef):
        return ", ".join(map(write_field, list_fields(node)))
    arguments = node.args
    listed = [arguments.vararg, arguments.kwarg, *arguments.args, *arguments.kwonlyargs]
    for argument in filter(None, listed):
        argument.annotation = None
    arguments.defaults = list(map(simplify, arguments.defaults))
    arguments.kw_defaults = [each and simplify(each) for each in arguments.kw_defaults]
    return ast.unparse(arguments)


def list_fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """Return the annotated fields of a class."""
    return [child for child in node.body if isinstance(child, ast.AnnAssign)]


def write_field(node: ast.AnnAssign) -> str:
    """Return a field with its default."""
    name = ast.unparse(node.target)
    return name if node.value is None else f"{name}={ast.unparse(simplify(node.value))}"


def simplify(value: ast.expr) -> ast.expr:
    """Return a default if it is a literal, else "..."."""
    try:
        ast.literal_eval(value)
    except ValueError:
        return ast.Constant(...)
    return value


def list_names(root: Path, folder: str) -> list[str]:
    """Return the names of the fields of all classes in a file, or in the files of a folder."""
    place = root / folder
    files = sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    trees = [ast.parse(file.read_text("utf-8")) for file in files]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    return sorted({ast.unparse(each.target) for node in classes for each in list_fields(node)})
