"""Settings of specialists that cannot be, each told from its range."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.specialists.networks.ranges import BELOW_1, ODD, POSITIVE, SHARE, Range

WRONG = yaml.safe_load(Path(__file__).with_name("settings.yaml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("wanted", "inside", "outside", "words"),
    [
        (Range(3), (3, 9.5), (2, float("nan"), None), "3 or more"),
        (POSITIVE, (1e-9,), (0, -1), "more than 0"),
        (SHARE, (0, 1), (-0.1, 1.1), "0 or more and at most 1"),
        (BELOW_1, (0, 0.99), (1,), "0 or more and below 1"),
        (ODD, (1, 5), (-1, 0, 2, 1.5), "the odd side of a square, 1, 3, 5 ..."),
    ],
)
def test_a_range_holds_its_numbers_and_says_which(
    wanted: Range, inside: Any, outside: Any, words: str
) -> None:
    assert all(value in wanted for value in inside)
    assert not any(value in wanted for value in outside)
    assert str(wanted) == words


@pytest.mark.parametrize(("name", "settings", "words"), WRONG)
def test_a_setting_out_of_its_range_is_refused(
    name: str, settings: dict[str, Any], words: str
) -> None:
    room, _, kind = name.rpartition(".")
    specialist = getattr(importlib.import_module(f"looktwice.specialists.{room}"), kind)
    with pytest.raises(ValueError, match=re.escape(words)):
        specialist(**settings)
