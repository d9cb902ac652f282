"""Fixtures shared by the tests of eval."""

from pathlib import Path

import pytest

from tests.made_run import MadeRun


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    """A run that the test fills by hand."""
    return MadeRun(tmp_path / "run")
