"""Reads VLM2-Bench's replies as its own scripts do, by the rule of each subtask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from looktwice.eval.readers import Verbatim, Vlm2Count, Vlm2Exact, Vlm2Grouping, Vlm2TrueFalse
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import Stage, State

__all__ = ["Vlm2Official"]

RULES: dict[str, Stage] = {
    "Mat": Vlm2Exact(),
    "Trk": Vlm2Exact(),
    "Cpr": Vlm2TrueFalse(),
    "Cnt": Vlm2Count(),
    "Grp": Vlm2Grouping(),
    "VID": Verbatim(),
}


@dataclass(frozen=True)
class Vlm2Official:
    """GC: exactly T or F; Cpr: the only word for true or false; Cnt: the only number; Grp: before the first ")".

    A video's reply is the description or a judge's words ("Score: 1"), which the benchmark's scorer reads. Which
    subtask it is stands in `meta["subtask"]`, as `eval.vlm2.Vlm2Bench` says it. Raises ValueError for any other.
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        subtask = str(state.sample.meta.get("subtask", ""))
        rule = RULES.get(subtask.rpartition("-")[2])
        if rule is None:
            raise ValueError(
                f"{state.sample.id}: {subtask or 'no subtask'!r} is none of VLM2-Bench; read other tasks with "
                "eval.readers.Robust"
            )
        return rule(state, model)
