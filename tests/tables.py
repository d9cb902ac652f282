"""Tests with many rows, which are stored in a YAML file next to the test."""

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
    """Read a YAML file. The result is cached and must not be changed."""
    return yaml.load(file.read_bytes(), Loader=LOADER)


def check_all(cases: Iterable[tuple[object, Callable[[], object]]]) -> None:
    """Run every named check and fail once with all failures. At least one check must run."""
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
    """Run a test for each of its rows in the YAML file named like its module. The first row names
    the arguments.

    A test without other arguments is one test that lists all failing rows. With fixtures or other
    parameters, each row is a test.
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

    del all_rows.__wrapped__  # otherwise pytest would look for fixtures with its arguments' names
    return all_rows
