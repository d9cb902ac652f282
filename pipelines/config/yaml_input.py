"""YAML as it is read and written: what comes from elsewhere is looked at first, and what we write
we can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

MOST_DEPTH = 50
MOST_REPEATED = 1_000_000
TOO_DEEP = f"nested more than {MOST_DEPTH} levels deep, at line {{}}"
BINARY = "tag:yaml.org,2002:binary"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Dumper(yaml.SafeDumper):
    """Writes text so that it is read as it was: PyYAML leaves U+0085 bare, which is read as a line
    break."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    whole = text.encode(errors="backslashreplace").decode()  # of a file's name that is no UTF-8
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", whole, style='"' if "\x85" in whole else None
    )


_Dumper.add_representer(str, _text_node)


def dump_yaml(value: Any, width: int = 80) -> str:
    """A value as YAML that `LOADER` reads; half a character, such as os.fsdecode makes, as
    `\\udce9`."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width)


def _events(text: str) -> Iterator[Any]:
    """What stands in a text, in order; PyYAML 6.0.4 refuses deep nesting itself, looking ahead."""
    try:
        yield from yaml.parse(text, Loader=LOADER)
    except yaml.MarkedYAMLError as exc:
        if exc.problem_mark is None or "nesting depth" not in str(exc.problem):
            raise
        raise ValueError(TOO_DEEP.format(exc.problem_mark.line + 1)) from exc


def check_yaml(text: str) -> None:
    """Raises ValueError for more than 50 levels of nesting, !!binary, and aliases of more than a
    million values.

    A few lines of aliases of aliases stand for more values than any memory holds. Raises
    yaml.YAMLError.
    """
    values, repeated = 0, 0
    inside: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    for event in _events(text):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError(
                    f"*{event.anchor} stands for nothing, or contains itself, at line {line}"
                )
            repeated += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            inside.append((event.anchor, values + repeated))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = inside.pop()
            sizes[anchor] = values + repeated - before
        elif isinstance(event, yaml.ScalarEvent):
            if event.tag == BINARY:
                raise ValueError(f"!!binary holds no text, at line {line}; write the text itself")
            values += 1
            sizes[event.anchor] = 1
        if len(inside) > MOST_DEPTH:
            raise ValueError(TOO_DEEP.format(line))
        if repeated > MOST_REPEATED:
            raise ValueError(f"aliases repeat more than {MOST_REPEATED:,} values, at line {line}")
