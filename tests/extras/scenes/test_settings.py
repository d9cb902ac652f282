"""Settings that tasks with drawn questions refuse at once."""

from __future__ import annotations

from typing import Any

import pytest

from looktwice.eval.tasks import TaskError
from looktwice.extras import scenes
from tests.tables import table


@table
def test_invalid_settings_are_refused(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        getattr(scenes, name)(**settings)
