"""Checks that classes refuse invalid settings, by words in the error message."""

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from looktwice.pipelines.config import ConfigError, build
from tests.tables import check_all


def check_settings(package: str, rows: Iterable[tuple[str, dict[str, Any], str]]) -> None:
    """Check that classes of a package, built in Python, refuse settings with these words in the
    message."""

    def check_refused(name: str, settings: dict[str, Any], words: str) -> None:
        room, _, kind = name.rpartition(".")
        specialist = getattr(importlib.import_module(f"{package}.{room}"), kind)
        with pytest.raises(ValueError, match=re.escape(words)):
            specialist(**settings)

    check_all((row, partial(check_refused, *row)) for row in rows)


def check_stages(rows_by_class: Mapping[str, Sequence[tuple[dict[str, Any], str]]]) -> None:
    """Check that stages, built from a configuration, refuse settings with these words in the
    message."""

    def check_refused(use: str, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(ConfigError) as refused:
            build({"use": f"prompting.{use}", **settings})
        assert words in str(refused.value)

    cases = [(use, *row) for use, rows in rows_by_class.items() for row in rows]
    check_all((case, partial(check_refused, *case)) for case in cases)
