"""What a shell offers behind a command when somebody presses Tab; nothing is opened before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer


def complete_config(incomplete: str) -> list[str]:
    """YAML files and folders that begin so, then the shipped configurations."""
    from looktwice.pipelines.config.paths import shipped

    names = [*_paths(incomplete, (".yaml", ".yml")), *shipped()]
    return [name for name in names if name.startswith(incomplete)]


def complete_setting(ctx: typer.Context, incomplete: str) -> list[str]:
    """The settings of the configuration that is typed already, as `stages.mark.radius=`."""
    from looktwice.pipelines.config.classes import ConfigError
    from looktwice.pipelines.config.load import load
    from looktwice.pipelines.config.paths import find_config

    try:
        node = load(find_config(ctx.params.get("config") or ""))
    except ConfigError:
        return []
    return [f"{place}=" for place in _places(node) if place.startswith(incomplete)]


def complete_name(incomplete: str) -> list[str]:
    """The kinds of `looktwice list`, then the classes that begin so."""
    from looktwice.eval.listing import SAYS, all_classes

    names = [*SAYS, *(all_classes() if incomplete[:1].isupper() else ())]
    return [name for name in names if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Run folders that begin so: those in `runs`, and any folder on the way to another."""
    runs = [str(path.parent) for path in sorted(Path("runs").glob("*/points.yaml"))]
    return [*(run for run in runs if run.startswith(incomplete)), *_paths(incomplete, ())]


def _paths(incomplete: str, endings: tuple[str, ...]) -> Iterator[str]:
    folder = incomplete.rpartition("/")[0]
    for path in sorted(Path(folder or ("/" if incomplete[:1] == "/" else ".")).glob("*")):
        name = f"{folder}/{path.name}" if folder or incomplete[:1] == "/" else path.name
        if name.startswith(incomplete) and not path.name.startswith("."):
            if path.is_dir():
                yield f"{name}/"
            elif path.suffix in endings:
                yield name


def _places(node: Any, place: str = "") -> Iterator[str]:
    """The dotted places of a configuration that hold no mapping."""
    if not isinstance(node, Mapping):
        yield place
        return
    for key, value in node.items():
        if key != "use":
            yield from _places(value, f"{place}.{key}" if place else str(key))
