"""Tasks, runs, records, scores and reports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from looktwice.eval.blink import Blink
    from looktwice.eval.columns import Columns
    from looktwice.eval.contest import evaluate
    from looktwice.eval.dysm import DoYouSeeMe
    from looktwice.eval.dysm_joint import JointQuestions
    from looktwice.eval.folder import Folder
    from looktwice.eval.generated import GeneratedDoYouSeeMe
    from looktwice.eval.made_correspondence import Correspondence
    from looktwice.eval.made_depth import RelativeDepth
    from looktwice.eval.made_jigsaw import Jigsaw
    from looktwice.eval.made_localization import Localization
    from looktwice.eval.made_sequences import Sequences
    from looktwice.eval.near_sighted import LettersAndShapes
    from looktwice.eval.photos import Photos
    from looktwice.eval.readers import Robust
    from looktwice.eval.recorded_task import RecordedQuestions
    from looktwice.eval.records import RunFolder
    from looktwice.eval.report import score_table, write_report
    from looktwice.eval.task import Facts, Subset, Task, TaskError
    from looktwice.eval.tsv import Tsv
    from looktwice.eval.twice import BlinkTwice
    from looktwice.eval.vlm2 import Vlm2Bench

__all__ = [
    "Blink",
    "BlinkTwice",
    "Columns",
    "Correspondence",
    "DoYouSeeMe",
    "Facts",
    "Folder",
    "GeneratedDoYouSeeMe",
    "Jigsaw",
    "JointQuestions",
    "LettersAndShapes",
    "Localization",
    "Photos",
    "RecordedQuestions",
    "RelativeDepth",
    "Robust",
    "RunFolder",
    "Sequences",
    "Subset",
    "Task",
    "TaskError",
    "Tsv",
    "Vlm2Bench",
    "evaluate",
    "score_table",
    "write_report",
]

_HOME = {
    "BlinkTwice": "twice",
    "Correspondence": "made_correspondence",
    "DoYouSeeMe": "dysm",
    "Facts": "task",
    "GeneratedDoYouSeeMe": "generated",
    "Jigsaw": "made_jigsaw",
    "JointQuestions": "dysm_joint",
    "LettersAndShapes": "near_sighted",
    "Localization": "made_localization",
    "RecordedQuestions": "recorded_task",
    "RelativeDepth": "made_depth",
    "Robust": "readers",
    "RunFolder": "records",
    "Sequences": "made_sequences",
    "Subset": "task",
    "TaskError": "task",
    "Vlm2Bench": "vlm2",
    "evaluate": "contest",
    "score_table": "report",
    "write_report": "report",
}
"""The module of each public name that is not the name in lower case."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `looktwice --help` must not pay for any of them."""
    if name not in __all__:
        raise AttributeError(f"looktwice.eval has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"looktwice.eval.{_HOME.get(name, name.lower())}"), name)
