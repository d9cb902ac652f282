"""Tasks, runs, records, scores and reports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from looktwice.eval.blink import Blink
    from looktwice.eval.contest import evaluate
    from looktwice.eval.folder import Folder
    from looktwice.eval.photos import Photos
    from looktwice.eval.records import RunFolder
    from looktwice.eval.report import score_table, write_report
    from looktwice.eval.task import Subset

__all__ = ["Blink", "Folder", "Photos", "RunFolder", "Subset", "evaluate", "score_table", "write_report"]

_HOME = {
    "RunFolder": "records",
    "Subset": "task",
    "evaluate": "contest",
    "score_table": "report",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `looktwice --help` must not pay for any of them."""
    if name not in __all__:
        raise AttributeError(f"looktwice.eval has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"looktwice.eval.{_HOME.get(name, name.lower())}"), name)
