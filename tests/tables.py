"""Tests with many rows, which lie in a YAML file beside the test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.pipelines.disk import LOADER


@cache
def read_yaml(file: Path) -> Any:
    """Read a YAML file. It is read once, so nobody may change what it holds."""
    return yaml.load(file.read_bytes(), Loader=LOADER)


def table(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test once for each of its rows in the YAML file of its module's name; the first row
    names the arguments."""
    file = Path(test.__code__.co_filename).with_suffix(".yaml")
    names, *rows = read_yaml(file)[test.__name__]
    marked: Callable[..., None] = pytest.mark.parametrize(names, rows)(test)
    return marked
