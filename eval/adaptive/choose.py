"""What chooses the questions of a run, made from the entry `choose` of its study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from looktwice.eval.adaptive.discovery import Discovery
from looktwice.eval.adaptive.runs import Races, Staircases
from looktwice.eval.psychometrics.thresholds import Along
from looktwice.eval.records.records import RunError
from looktwice.eval.runs.steering import Steering


def make_steering(config: Mapping[str, Any]) -> Steering | None:
    """What chooses the questions, as `choose:` of the study says; None asks all of them. Raises
    RunError for a staircase that goes along nothing, and for styles that a search cannot try."""
    choose = dict(config.get("choose") or {})
    if not choose:
        return None
    by = choose.pop("by")
    if by == "race":
        return Races(**choose)
    if by == "discovery":
        from looktwice.prompting.markers.styles import DRAWINGS

        styles = choose.get("styles", [])
        if len(styles) == 1 or not DRAWINGS.keys() >= {*styles}:
            raise RunError(
                f"choose.styles are two or more of {', '.join(DRAWINGS)}, or [] for none; found"
                f" {styles}"
            )
        return Discovery(**choose)
    along = Along.of(config.get("thresholds") or {})
    if along is None:
        raise RunError(
            "a staircase goes along a field of the questions, such as thresholds.along=size; none"
            " was named"
        )
    return Staircases(along, **choose)
