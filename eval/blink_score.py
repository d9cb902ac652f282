"""BLINK's totals: macro and micro over its fourteen tasks, and over the thirteen whose labels never changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from looktwice.eval.scorer import Scorer, Total

__all__ = ["BlinkScorer"]

NAMES = (
    "Art_Style", "Counting", "Forensic_Detection", "Functional_Correspondence", "IQ_Test", "Jigsaw",
    "Multi-view_Reasoning", "Object_Localization", "Relative_Depth", "Relative_Reflectance",
    "Semantic_Correspondence", "Spatial_Relation", "Visual_Correspondence", "Visual_Similarity",
)  # fmt: skip
ALL = dict.fromkeys(NAMES, "accuracy")
SURE = {name: metric for name, metric in ALL.items() if name != "Relative_Reflectance"}


@dataclass(frozen=True)
class BlinkScorer(Scorer):
    """One task: plain accuracy. The official total is `blink_macro`; VLMEvalKit's is `blink_micro`."""

    name: str

    suite: ClassVar[str] = "BLINK"
    totals: ClassVar[tuple[Total, ...]] = (
        Total("blink_macro", ALL),
        Total("blink_micro", ALL, pooled=True),
        Total("blink_macro_without_reflectance", SURE),
        Total("blink_micro_without_reflectance", SURE, pooled=True),
    )

    @property
    def part(self) -> str:
        """The task."""
        return self.name
