"""Settings of specialists that cannot be, each told from its range."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.tables import read_yaml

WRONG = read_yaml(Path(__file__).with_name("settings.yaml"))


@pytest.mark.parametrize(("name", "settings", "words"), WRONG)
def test_a_setting_out_of_its_range_is_refused(
    name: str, settings: dict[str, Any], words: str
) -> None:
    room, _, kind = name.rpartition(".")
    specialist = getattr(importlib.import_module(f"looktwice.specialists.{room}"), kind)
    with pytest.raises(ValueError, match=re.escape(words)):
        specialist(**settings)
