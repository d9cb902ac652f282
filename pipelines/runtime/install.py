"""The command that installs an optional part of looktwice."""

from __future__ import annotations

from pathlib import Path

from looktwice.pipelines.config.paths import shorten_path

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]


def format_install(extra: str) -> str:
    """Return the command that installs an extra such as `torch`, from the repository's clone if
    looktwice runs in one, else from the package index."""
    is_clone = (REPOSITORY_ROOT / "pyproject.toml").is_file()
    source = (
        f"-e '{shorten_path(REPOSITORY_ROOT)}[{extra}]'" if is_clone else f"'looktwice[{extra}]'"
    )
    return f"pip install {source}"
