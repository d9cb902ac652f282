"""A jinja2 environment for templates from elsewhere: their time and memory are bounded, and they reach nothing else.

Every pass of a loop, every call of a macro and every text that is made is paid from one budget for each rendering.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

LONGEST = 200_000  # characters of a template, and of a prompt
BUDGET = 2_000_000  # characters that one rendering may make, in all
PASS = 100  # what a pass of a loop costs, in characters
RANGE = 1_000  # numbers of a `range`
PARTS = 10_000  # of a list, those of its lists counted too
FILTERS = (
    "abs capitalize count d default dictsort e escape first float forceescape groupby int items last length list lower "
    "map max min reject rejectattr reverse round safe select selectattr sort string striptags sum title tojson "
    "trim unique upper wordcount"
)
STRING_METHODS = (
    "capitalize count endswith find isalpha isdigit isnumeric isupper islower lower lstrip partition removeprefix "
    "removesuffix rpartition rstrip split splitlines startswith strip swapcase title upper"
)

_left: ContextVar[list[int] | None] = ContextVar("looktwice_template_budget", default=None)


@contextmanager
def budget() -> Iterator[None]:
    """What is rendered inside is paid from one new budget."""
    token = _left.set([BUDGET])
    try:
        yield
    finally:
        _left.reset(token)


def spend(units: int) -> None:
    """Take so many characters from the budget. Raises SecurityError where it is used up."""
    left = _left.get()
    if left is not None:
        left[0] -= units
        if left[0] < 0:
            raise SecurityError(f"it makes more than {BUDGET:,} characters or {BUDGET // PASS:,} passes of loops")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """jinja2's sandbox without the functions that make much of little, and with a budget for the others."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Counted(self).visit(super()._parse(source, name, filename))  # type: ignore[no-any-return]

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Small numbers as usual; texts and lists may be added."""
        if operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            spend(len(left) + len(right))
            return self.take_parts(left + right)  # type: ignore[operator]
        small = all(isinstance(side, int | float) and abs(side) < 1e6 for side in (left, right))
        if not small or (operator == "**" and abs(right) > 9):
            raise SecurityError(f"{operator} is for numbers below a million in a template, ** up to 9")
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Of texts only the methods that make no longer text."""
        if isinstance(obj, str) and attr not in STRING_METHODS.split():
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """None: jinja2 would let `format` of a text pass by `is_safe_attribute`, and "{:900000000d}" is short."""

    def count_pass(self, *_: Any) -> None:
        """Called at every pass of a loop and every call of a macro."""
        spend(PASS)

    def concat_texts(self, *parts: Any) -> str:
        """What `a ~ b` gives."""
        return "".join(map(text_of_value, parts))

    def take_parts(self, value: Any) -> Any:
        """The value itself, where it is small enough: lists of lists can double with every line."""
        count_parts(value)
        return value


def count_parts(value: Any) -> int:
    """How many values a list or mapping holds, at any depth. Raises SecurityError for more than PARTS."""
    waiting, found = [value], 0
    while waiting:
        inner = waiting.pop()
        found += 1
        if found > PARTS:
            raise SecurityError(f"a list holds more than {PARTS:,} values")
        if isinstance(inner, Mapping):
            waiting += inner.values()
        elif isinstance(inner, list | tuple):
            waiting += inner
    return found


def text_of_value(value: Any) -> str:
    """The text that stands for a value in a prompt; it is paid for."""
    if isinstance(value, list | tuple | Mapping):
        count_parts(value)
    text = str(value)
    spend(len(text))
    return text


def make_range(*bounds: int) -> range:
    """The function `range`. Raises SecurityError for more than RANGE numbers."""
    numbers = range(*bounds)
    if len(numbers) > RANGE:
        raise SecurityError(f"a range has at most {RANGE:,} numbers in a template")
    return numbers


def replace_text(value: Any, old: str, new: str, count: int = -1) -> str:
    """The filter `replace`."""
    text, old, new = text_of_value(value), str(old), str(new)
    spend(text.count(old) * len(new))
    return text.replace(old, new, count)


def cut_text(value: Any, length: int = 255, killwords: bool = False, end: str = "...") -> str:
    """The filter `truncate`: at most `length` characters, cut at a word unless `killwords`."""
    text = text_of_value(value)
    if len(text) <= length:
        return text
    cut = text[: max(0, length - len(end))]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


@jinja2.pass_environment
def join_texts(environment: jinja2.Environment, values: Iterable[Any], d: str = "", attribute: Any = None) -> str:
    """The filter `join`."""
    chosen = values if attribute is None else map(make_attrgetter(environment, attribute), values)
    texts = [text_of_value(value) for value in chosen]
    spend(len(str(d)) * len(texts))
    return str(d).join(texts)


class _Counted(NodeTransformer):
    """Puts the counting of passes and parts into the tree of a template, where the template cannot take it out."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self.environment = environment

    def _call(self, name: str, args: list[nodes.Expr], at: nodes.Node) -> nodes.Expr:
        function = nodes.EnvironmentAttribute(name, lineno=at.lineno)
        called = nodes.Call(function, args, [], None, None, lineno=at.lineno)
        called.set_environment(self.environment)
        return called

    def _count(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(self._call("count_pass", [], node), lineno=node.lineno))
        return node  # type: ignore[no-any-return]

    visit_For = visit_Macro = visit_CallBlock = _count

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._call("concat_texts", node.nodes, node)

    def _take(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        return node if getattr(node, "ctx", "load") != "load" else self._call("take_parts", [node], node)

    visit_List = visit_Dict = visit_Tuple = _take


@lru_cache(maxsize=1)
def environment() -> BoundedEnvironment:
    """The environment of every template."""
    made = BoundedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, optimized=False, finalize=text_of_value
    )
    made.globals = {"range": make_range}
    made.filters = {name: made.filters[name] for name in FILTERS.split()}
    made.filters |= {"replace": replace_text, "join": join_texts, "string": text_of_value, "truncate": cut_text}
    return made
