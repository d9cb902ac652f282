"""Settings that tasks with generated questions refuse at once."""

from typing import Any

import pytest

from looktwice.eval import tasks
from tests.tables import table


@table
def test_wrong_settings_are_refused(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(tasks.TaskError, match=said):
        getattr(tasks, name)(**settings)
