"""The page of the reference for whoever writes a class or a notebook: values, protocols, functions,
their members.

`python docs/reference.py` writes it as `docs/reference/python.md`.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from looktwice.pipelines.extensions import list_own_classes

__all__ = ["PYTHON", "docstring", "escaped", "named", "python_page"]


def _of(room: str, names: str) -> tuple[str, ...]:
    return tuple(f"{room}.{name}" for name in names.split())


PYTHON = {
    "What a stage is given, and gives": (
        *_of("pipelines.state", "Stage State"),
        *_of("pipelines.sample", "Sample"),
        *_of("pipelines.view", "View Part"),
        *_of("pipelines.picture", "Picture"),
        *_of("pipelines.marks", "Point Box Mask"),
        *_of("pipelines.model", "Model Message Reply Usage ToolCall"),
        *_of("pipelines.pipeline", "Pipeline"),
        *_of("pipelines.transforms", "crop resize pad rotate flip join_side_by_side"),
    ),
    "What a task gives": (*_of("eval.tasks", "Task Facts"), "pipelines.sample.Item"),
    "What a tool is given, and gives": (
        *_of("prompting.agent", "AgentTool ToolResult ImageArguments"),
        *_of("prompting.agent.tool", "PointArguments BoxArguments run_stage_on_image run_stage"),
    ),
    "What specialists take, and give": (
        *_of(
            "specialists.protocols",
            "DepthEstimator Matcher Detector Segmenter BoxSegmenter FeatureExtractor",
        ),
        *_of("specialists.results", "DepthMap Matches Boxes Masks FeatureGrid Faces"),
    ),
    "Runs and tables": (
        *_of("eval.runs", "evaluate"),
        *_of("eval.display", "score_table Table"),
        *_of("eval.results", "Results"),
        *_of("eval.analysis", "find Finding"),
        *_of("eval.analysis.finding", "TaskFinding"),
        *_of("eval.analysis.one_change", "FindingRow"),
        *_of("eval.scoring", "Row Scorer Metric Total Score PointScores ScoredRecord Verdict"),
        *_of("eval.report", "write_report"),
        *_of("eval.records", "RunFolder Record SampleRow"),
        *_of("pipelines.config", "load_plan build"),
    ),
}
"""What one meets who writes a class or a notebook, by what one does."""


def python_page(head: str) -> str:
    """The page; `head` stands below its title."""
    lines = ["# In Python", "", head]
    for title, paths in PYTHON.items():
        lines += ["", f"## {title}"]
        for path in paths:
            member = named(path)
            source = textwrap.dedent(inspect.getsource(member))
            lines += ["", f"### {path}", "", escaped(docstring(member)), "", *_members(source)]
    return "\n".join(lines).rstrip() + "\n"


def _members(source: str) -> Iterator[str]:
    """A line for each public field, property and method of a class, or for the call of a
    function."""
    (node,) = ast.parse(source).body
    for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
        if isinstance(inner, ast.AnnAssign) and not ast.unparse(inner.target).startswith("_"):
            comment = source.splitlines()[(inner.end_lineno or 1) - 1].partition("  # ")[2]
            yield f"- `{_field(inner)}`{comment and ': '}{escaped(comment)}"
        elif isinstance(inner, ast.FunctionDef) and (
            inner.name == "__call__" or not inner.name.startswith("_")
        ):
            sentence = (
                ""
                if inner is node
                else " ".join((ast.get_docstring(inner) or "").partition("\n\n")[0].split())
            )
            yield f"- `{_call(inner)}`{sentence and ': '}{escaped(sentence)}"


def _field(inner: ast.AnnAssign) -> str:
    """`name: type = default`, with the default that `field(...)` gives."""
    value, shown = inner.value, f"{ast.unparse(inner.target)}: {ast.unparse(inner.annotation)}"
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        given = {word.arg: ast.unparse(word.value) for word in value.keywords}
        made = f"{given['default_factory']}()" if "default_factory" in given else ""
        return f"{shown} = {given.get('default', made)}"
    return shown if value is None else f"{shown} = {ast.unparse(value)}"


def _call(inner: ast.FunctionDef) -> str:
    """`name(arguments) -> type`; a property has no arguments."""
    given = ast.unparse(inner.args).removeprefix("self, ").removeprefix("cls, ")
    is_property = any("property" in ast.unparse(decorator) for decorator in inner.decorator_list)
    call = (
        inner.name if is_property else f"{inner.name}({'' if given in ('self', 'cls') else given})"
    )
    return f"{call} -> {ast.unparse(inner.returns or ast.Constant(None))}"


def named(path: str) -> Any:
    """What stands under a public path; a class of an extension may keep a path of the core."""
    if extension := list_own_classes().get(path):
        return extension.open()
    room, _, name = path.rpartition(".")
    return getattr(import_module(f"looktwice.{room}"), name)


def docstring(thing: Any) -> str:
    """Its own docstring; a class that has none does not take that of its base."""
    return inspect.cleandoc(
        (vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__) or ""
    )


def escaped(text: str) -> str:
    """A docstring as Markdown: what stands outside of code is no HTML, and a line that begins with
    + is no list."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"^\+ ", r"\\+ ", text, flags=re.MULTILINE))
    return "".join(
        p if p.startswith("`") else p.replace("<", "&lt;").replace("*", r"\*") for p in parts
    )
