"""Tests with many rows, which lie in a YAML file beside the test."""

import inspect
from collections.abc import Callable, Iterable
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.pipelines.disk import LOADER


@cache
def read_yaml(file: Path) -> Any:
    """Read a YAML file. It is read once, so nobody may change what it holds."""
    return yaml.load(file.read_bytes(), Loader=LOADER)


def check_all(cases: Iterable[tuple[object, Callable[[], object]]]) -> None:
    """Run every named check and fail once, with all that failed. At least one must have run."""
    faults, count = list[str](), 0
    for name, check in cases:
        count += 1
        try:
            check()
        except Exception as exc:
            faults.append(f"{name}: {type(exc).__name__}: {exc}")
    if faults:
        pytest.fail("\n\n".join([f"{len(faults)} of {count} fail", *faults]), pytrace=False)
    assert count, "nothing was checked"


def table(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test for each of its rows in the YAML file of its module's name; the first row names
    the arguments.

    One test lists all rows that fail; one that takes fixtures or parameters besides is a test for
    each row.
    """
    file = Path(test.__code__.co_filename).with_suffix(".yaml")
    names, *rows = read_yaml(file)[test.__name__]
    names = [names] if isinstance(names, str) else names
    if {*inspect.signature(test).parameters} != {*names}:
        marked: Callable[..., None] = pytest.mark.parametrize(names, rows)(test)
        return marked

    @wraps(test)
    def all_rows() -> None:
        check_all(
            (f"row {number}, {row!r}", partial(test, **dict(zip(names, row, strict=True))))
            for number, row in enumerate(rows, 1)
        )

    del all_rows.__wrapped__  # pytest would ask for its arguments
    return all_rows
