"""VLMEvalKit's reading of VLM2-Bench, where it differs from the official scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from looktwice.eval.readers import Vlm2TrueFalse
from looktwice.eval.vlm2_reader import Vlm2Official
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State

__all__ = ["Vlm2Vlmevalkit"]


@dataclass(frozen=True)
class Vlm2Vlmevalkit:
    """The only word for true or false also on GC, where the official script wants exactly T or F; else as officially.

    Its other difference, what counts in the denominators, is in the metrics named `..._vlmevalkit`. Raises ValueError
    for samples of another benchmark.
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        cues = str(state.sample.meta.get("subtask", "")).startswith("GC-")
        return (Vlm2TrueFalse() if cues else Vlm2Official())(state, model)
