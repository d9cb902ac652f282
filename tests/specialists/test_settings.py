"""Invalid settings of specialists are refused with their allowed range."""

import importlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.tables import check_all, read_yaml

WRONG = read_yaml(Path(__file__).with_name("settings.yaml"))


def test_a_setting_out_of_its_range_is_refused() -> None:
    def check_refused(name: str, settings: dict[str, Any], words: str) -> None:
        room, _, kind = name.rpartition(".")
        specialist = getattr(importlib.import_module(f"looktwice.specialists.{room}"), kind)
        with pytest.raises(ValueError, match=re.escape(words)):
            specialist(**settings)

    check_all((row, partial(check_refused, *row)) for row in WRONG)
