"""jinja2's sandbox with a limit on the work of a template, counted in operations rather than
seconds: a template stops at the same place on every machine and in every thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

MAX_CHARACTERS = 200_000  # characters of a template, and of a prompt
MAX_STEPS = 5_000_000
"""The maximum number of steps per rendering, which take a second or two. Steps are the items of a
loop, calls, and the characters or items that an operator or filter receives."""


@dataclass(eq=False)
class WorkBudget:
    """The budget of a rendering: the steps that are left, and the number of nodes in the template,
    all of which a macro or a recursive loop may run."""

    remaining_steps: int
    node_count: int

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget. Raises SecurityError if none are left."""
        self.remaining_steps -= steps
        if self.remaining_steps < 0:
            raise SecurityError(
                f"it takes more than {MAX_STEPS:,} steps; loop over fewer items, or use"
                " shorter texts"
            )


_budget: ContextVar[WorkBudget | None] = ContextVar("_budget", default=None)


@contextmanager
def limit_work(size: int = 1) -> Iterator[WorkBudget]:
    """Give all templates that are rendered inside this context one common budget; `size` is the
    number of nodes in one of the templates."""
    work = WorkBudget(MAX_STEPS, size)
    token = _budget.set(work)
    try:
        yield work
    finally:
        _budget.reset(token)


def count_steps(steps: int) -> None:
    """Count steps of the rendering in this thread."""
    work = _budget.get()
    if work is not None:
        work.spend(steps)


def count_all_items(value: Any) -> Any:
    """Count all characters and items inside a value, including nested and repeated ones, and return
    the value."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        count_steps(_measure_size(inner))
        if isinstance(inner, jinja2.Undefined):
            continue  # it looks like a collection, but only tests of whether it is defined work
        if isinstance(inner, Namespace):
            inner = object.__getattribute__(inner, "_Namespace__attrs")
        if isinstance(inner, Mapping):
            waiting += [*inner.keys(), *inner.values()]
        elif isinstance(inner, Collection) and not isinstance(inner, str | bytes):
            waiting += inner
    return value


def count_top_items(value: Any) -> Any:
    """Count the characters or top-level items of a value, not nested items, and return the
    value."""
    count_steps(_measure_size(value))
    return value


def _measure_size(value: Any) -> int:
    if isinstance(value, int):
        return 1 + value.bit_length() // 32
    is_sized = isinstance(value, Collection) and not isinstance(value, jinja2.Undefined)
    return 1 + len(value) if is_sized else 1


@dataclass(frozen=True)
class CountedIterable:
    """An iterable that counts every item as `steps` units of work."""

    items: Iterable[Any]
    steps: int = 1

    def __iter__(self) -> Iterator[Any]:
        for item in self.items:
            count_steps(self.steps)
            yield item


class CountedCollection(CountedIterable):
    """A counted iterable of known length."""

    def __len__(self) -> int:
        return len(self.items) if isinstance(self.items, Sized) else 0


def count_items(items: Any, steps: int = 1) -> CountedIterable:
    """Return the items, each of which counts as `steps` units of work."""
    return (CountedCollection if isinstance(items, Sized) else CountedIterable)(items, steps)


def check_length(characters: int) -> None:
    """Raise SecurityError for a text that is longer than any prompt may be."""
    if characters > MAX_CHARACTERS:
        raise SecurityError(f"it writes more than {MAX_CHARACTERS:,} characters")


def _list_numbers(values: Iterable[Any]) -> list[int]:
    return [abs(value) for value in values if isinstance(value, int)]


PERCENT_PATTERN = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\*|\d+)?(?:\.(\*|\d+))?")
BRACES_PATTERN = re.compile(r"\{[^{}:]*:((?:[^{}]|\{[^{}]*\})*)\}")


def _check_format(text: Any, values: Iterable[Any]) -> None:
    """Check the widths in a format for `%` or `str.format`, and the widths that the format takes
    from its values."""
    if not isinstance(text, str):
        return
    widths = [width for pair in PERCENT_PATTERN.findall(text) for width in pair]
    specs = BRACES_PATTERN.findall(text)
    widths += [number for spec in specs for number in re.findall(r"\d+", spec)]
    check_length(max([int(width[:9]) for width in widths if width.isdigit()], default=0))
    if "*" in widths or any("{" in spec for spec in specs):
        inner = [part for value in values for part in _get_values(value)]
        check_length(max(_list_numbers(inner), default=0))


def _get_values(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else [value]


def _check_widths(value: Any, given: Sequence[Any]) -> None:
    check_length(max(_list_numbers(given), default=0))


def _check_tabs(text: Any, given: Sequence[Any]) -> None:
    check_length(str(text).count("\t") * max(_list_numbers(given), default=8))


def _check_parts(text: Any, given: Sequence[Any]) -> None:
    """Count, for each line or item, the characters that a setting adds to it."""
    longest = max(
        [*_list_numbers(given), *(len(part) for part in given if isinstance(part, str))] or [0]
    )
    is_text = isinstance(text, str)
    pieces = text.count("\n") + 1 if is_text else len(text) if isinstance(text, Sized) else 1
    count_steps(pieces * longest)


def _check_wrapped(text: Any, given: Sequence[Any]) -> None:
    count_steps(len(str(text)) * max([len(part) for part in given if isinstance(part, str)] or [1]))


def _check_indented(value: Any, given: Sequence[Any]) -> None:
    check_length(max(_list_numbers(given), default=0))
    before = MAX_STEPS if (work := _budget.get()) is None else work.remaining_steps
    count_all_items(value)
    after = MAX_STEPS if work is None else work.remaining_steps
    count_steps((before - after) * max(_list_numbers(given), default=0))


def _check_replaced(text: Any, given: Sequence[Any]) -> None:
    text, old, new = (part if isinstance(part, bytes) else str(part) for part in (text, *given[:2]))
    count_steps(text.count(old) * len(new))


def _check_stripped(text: Any, given: Sequence[Any]) -> None:
    """Count the copies of the whole text that jinja2 makes, one for each comment that it
    removes."""
    count_steps(str(text).count("<!--") * (len(str(text)) // 100))


def _check_sum(values: Any, given: Sequence[Any]) -> None:
    """Count the copies made when lists are added one by one."""
    if isinstance(values, Collection) and any(isinstance(part, list | tuple) for part in given):
        parts = [len(part) for part in values if isinstance(part, Sized)]
        count_steps(len(parts) * sum(parts))


def _check_translated(text: Any, given: Sequence[Any]) -> None:
    tables = [table for table in given if isinstance(table, Mapping)]
    longest = max([len(str(part)) for table in tables for part in table.values()] or [1])
    count_steps(len(str(text)) * longest)


ArgumentCheck = Callable[[Any, Sequence[Any]], None]
"""A function that counts or refuses what a filter or method produces from a value and its other
arguments."""

CHECKS: Mapping[str, ArgumentCheck] = {
    **dict.fromkeys(
        ("center", "ljust", "rjust", "zfill", "batch", "slice", "round"), _check_widths
    ),
    "expandtabs": _check_tabs,
    "indent": _check_parts,
    "wordwrap": _check_wrapped,
    "tojson": _check_indented,
    "replace": _check_replaced,
    "urlize": _check_wrapped,
    "striptags": _check_stripped,
    "sum": _check_sum,
    "to_bytes": _check_widths,
    "translate": _check_translated,
    "format": _check_format,
    "format_map": _check_format,
}
SHALLOW_FILTERS = {"length", "count", "first", "last", "default", "d", "attr", "list", "items"}
"""Filters that only look at the top-level items of their input."""


def _guard(name: str, filter: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a filter or test so that its work is counted."""
    skipped = int(hasattr(filter, "jinja_pass_arg"))
    look = count_top_items if name in SHALLOW_FILTERS else count_all_items

    @wraps(filter)
    def guarded(*args: Any, **settings: Any) -> Any:
        before, value, rest = args[:skipped], args[skipped], args[skipped + 1 :]
        given = [*rest, *settings.values()]
        steps = 1 + sum(part.count(".") for part in given if isinstance(part, str))
        if name == "join":
            value = [*count_items(value, steps)]
            count_steps(
                len(value) * max([len(part) for part in given if isinstance(part, str)] or [0])
            )
        elif check := CHECKS.get(name):
            check(value, given)
        look(value)
        count_all_items(given)
        if steps > 1:  # a path of attributes
            count_steps(steps * _measure_size(value))
        made = filter(*before, value, *rest, **settings)
        return count_items(made, steps) if isinstance(made, Iterator) else made

    return guarded


def measure_template(tree: nodes.Node) -> int:
    """Return the size of a template, or of a part of it: the nodes of its syntax tree plus its
    characters."""
    data = [node.data for node in tree.find_all(nodes.TemplateData)]
    data += [node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)]
    return sum(1 for _ in tree.find_all(nodes.Node)) + sum(map(len, data))


class _CountInserter(NodeTransformer):
    """Inserts the counting of work into a template: into loops, comparisons, joined texts and
    slices."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        match node:
            case nodes.For():
                node.iter = self._wrap_in_filter(
                    node.iter, "_counted", nodes.Const(measure_template(node))
                )
            case nodes.Compare():
                node.expr = self._wrap_in_filter(node.expr, "_weighed")
                for operand in node.ops:
                    operand.expr = self._wrap_in_filter(operand.expr, "_weighed")
            case nodes.Concat():
                node.nodes = [self._wrap_in_filter(part, "_weighed") for part in node.nodes]
            case nodes.Getitem(arg=nodes.Slice()):
                node.node = self._wrap_in_filter(node.node, "_touched")
        return node

    def _wrap_in_filter(self, node: Any, name: str, *args: nodes.Expr) -> nodes.Filter:
        return nodes.Filter(node, name, [*args], [], None, None, lineno=node.lineno)


class Sandbox(ImmutableSandboxedEnvironment):
    """jinja2's sandbox without random functions, in which every template terminates: inside
    `limit_work` its work is counted, and no single operator, filter or method produces a text that
    is longer than a prompt may be."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self) -> None:
        super().__init__(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        self.policies["truncate.leeway"] = 0
        del self.filters["random"], self.globals["lipsum"]
        filters: Mapping[str, Any] = self.filters
        self.filters = {name: _guard(name, made) for name, made in filters.items()}
        self.filters |= {
            "_counted": count_items,
            "_weighed": count_all_items,
            "_touched": count_top_items,
        }
        tests: Mapping[str, Any] = self.tests
        self.tests = {name: _guard(name, made) for name, made in tests.items()}
        self.finalize = count_all_items

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _CountInserter().visit(super()._parse(source, name, filename))
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply a binary operator. Raises SecurityError if the result would be too long or the work
        would exceed the budget."""
        whole = isinstance(left, int) and isinstance(right, int)
        if operator == "**" and whole:
            check_length(left.bit_length() * abs(right))
        elif operator == "*" and whole:
            check_length(left.bit_length() + right.bit_length())
        elif operator == "*":
            for times, repeated in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(repeated, str | list | tuple):
                    check_length(times * len(repeated))
                    count_steps(max(0, times) * len(repeated))
        elif operator == "%" and isinstance(left, str):
            _check_format(left, right if isinstance(right, tuple) else [right])
            count_all_items(right)
        count_top_items(left)
        count_top_items(right)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function for a template, and count the work that its arguments cause."""
        work = _budget.get() or WorkBudget(MAX_STEPS, 1)
        name = getattr(__obj, "__name__", "")
        method = getattr(__obj, "__wrapped__", __obj)  # jinja2 wraps str.format
        owner = getattr(method, "__self__", None)
        if isinstance(owner, int | Collection):
            count_top_items(owner)
            if name == "join" and args:
                args = ([*count_items(args[0])],)
                count_steps(len(args[0]) * _measure_size(owner))
            elif check := CHECKS.get(name):
                check(owner, [*args, *kwargs.values()])
        else:  # a macro, or an equally cheap function
            count_steps(work.node_count)
        count_all_items([*args, *kwargs.values()])
        if isinstance(__obj, LoopContext):  # a recursive loop iterates over its arguments
            args = tuple(count_items(arg, work.node_count) for arg in args)
        return super().call(__context, __obj, *args, **kwargs)


@lru_cache(maxsize=1)
def get_environment() -> Sandbox:
    """Return the one sandbox of this process."""
    return Sandbox()
