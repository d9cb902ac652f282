"""The command that installs an extra."""

import os
from pathlib import Path

import pytest

from looktwice.pipelines.runtime import install


def test_a_clone_installs_itself_and_a_package_its_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "REPOSITORY_ROOT", tmp_path / "clone")
    monkeypatch.chdir(tmp_path)
    assert install.format_install("torch") == "pip install 'looktwice[torch]'"
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "pyproject.toml").touch()
    assert install.format_install("torch") == "pip install -e 'clone[torch]'"
    os.chdir(tmp_path / "clone")
    assert install.format_install("torch") == "pip install -e '.[torch]'"
