"""Tests with many rows, which lie in a YAML file beside the test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml


@cache
def _tables(file: Path) -> dict[str, list[list[Any]]]:
    loaded: dict[str, list[list[Any]]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


def table(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test once for each of its rows in the YAML file of its module's name; the first row
    names the arguments."""
    file = Path(test.__code__.co_filename).with_suffix(".yaml")
    names, *rows = _tables(file)[test.__name__]
    marked: Callable[..., None] = pytest.mark.parametrize(names, rows)(test)
    return marked
