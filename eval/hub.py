"""Data sets from a hub of data sets: only where a task is given a hub id, and never at import."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from looktwice.eval.task import TaskError

__all__ = ["Place", "located"]

Place = tuple[Path, str]
"""Where the files lie, and the revision that names them (empty for local files)."""


def located(path: Path | None, hub: str, revision: str, patterns: Sequence[str]) -> Place:
    """The folder of a data set: the local `path`, or the files of the hub id that match `patterns`, fetched once.

    The revision of the hub is its commit. Raises TaskError where both or neither is given, and where the hub
    cannot be reached.
    """
    if (path is None) == (not hub):
        raise TaskError("say where the data lie: either `path` (a local folder) or `hub` (an id), and not both")
    if path is not None:
        return Path(path), ""
    try:
        fetch = import_module("huggingface_hub").snapshot_download
    except ImportError as exc:
        raise TaskError(f"hub: {hub} needs huggingface_hub; install it with: pip install huggingface_hub") from exc
    try:
        folder = fetch(hub, repo_type="dataset", revision=revision or None, allow_patterns=list(patterns))
    except (OSError, ValueError) as exc:
        raise TaskError(f"hub: {hub} cannot be fetched ({exc}); fetch it yourself and say `path`") from exc
    return Path(folder), f"{hub}@{Path(folder).name}"
