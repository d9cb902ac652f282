"""The Python interpreter and the image packages of this environment that a sandbox may read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement


@cache
def find_package_paths(names: Sequence[str]) -> dict[str, Path]:
    """Return the files and folders of these distributions and their dependencies, by their names in
    site-packages. Distributions that are not installed are skipped."""
    found, seen, pending = dict[str, Path](), set[str](), list(names)
    while pending:
        name = pending.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found |= {path.name: path for path in _list_top_entries(package)}
        pending += _list_requirements(package)
    return found


def _list_top_entries(package: Distribution) -> Iterator[Path]:
    """Yield the top-level entries of a distribution in site-packages."""
    for file in package.files or ():
        top = file.parts[0]
        if top not in ("..", "__pycache__") and not top.endswith((".pth", ".dist-info")):
            path = Path(str(package.locate_file(top)))
            if path.exists():
                yield path


def _list_requirements(package: Distribution) -> Iterator[str]:
    for text in package.requires or ():
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            yield needed.name


def find_interpreter() -> tuple[Path, Path]:
    """Return the executable of this Python, with links resolved, and its prefix, in which `lib`
    holds the standard library."""
    return Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
