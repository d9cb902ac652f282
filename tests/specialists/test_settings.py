"""Settings of specialists that cannot be, each told from its range."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

WRONG = yaml.safe_load(Path(__file__).with_name("settings.yaml").read_text("utf-8"))


@pytest.mark.parametrize(("name", "settings", "words"), WRONG)
def test_a_setting_out_of_its_range_is_refused(
    name: str, settings: dict[str, Any], words: str
) -> None:
    room, _, kind = name.rpartition(".")
    specialist = getattr(importlib.import_module(f"looktwice.specialists.{room}"), kind)
    with pytest.raises(ValueError, match=re.escape(words)):
        specialist(**settings)
