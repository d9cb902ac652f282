"""YAML that comes from elsewhere, looked at before it is loaded: how deep it is nested, what its aliases stand for."""

from __future__ import annotations

from typing import Any

import yaml

MOST_DEPTH = 50
MOST_REPEATED = 1_000_000
BINARY = "tag:yaml.org,2002:binary"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_yaml(text: str) -> None:
    """Raises ValueError for more than 50 levels of nesting, !!binary, and aliases of more than a million values.

    A few lines of aliases of aliases stand for more values than any memory holds. Raises yaml.YAMLError.
    """
    values, repeated = 0, 0
    inside: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            repeated += _size(sizes, event)
        elif isinstance(event, yaml.CollectionStartEvent):
            inside.append((event.anchor, values + repeated))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = inside.pop()
            sizes |= {anchor: values + repeated - before} if anchor else {}
        elif isinstance(event, yaml.ScalarEvent):
            if event.tag == BINARY:
                raise ValueError(f"!!binary holds no text, at line {_line(event)}; write the text itself")
            values += 1
            sizes |= {event.anchor: 1} if event.anchor else {}
        if len(inside) > MOST_DEPTH:
            raise ValueError(f"nested more than {MOST_DEPTH} levels deep, at line {_line(event)}")
        if repeated > MOST_REPEATED:
            raise ValueError(f"aliases repeat more than {MOST_REPEATED:,} values, at line {_line(event)}")


def _size(sizes: dict[str, int], alias: yaml.AliasEvent) -> int:
    if alias.anchor not in sizes:
        raise ValueError(f"*{alias.anchor} stands for nothing, or contains itself, at line {_line(alias)}")
    return sizes[alias.anchor]


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0
