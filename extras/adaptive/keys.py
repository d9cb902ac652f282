"""The keys `choose` and `thresholds` of a study: how to choose the next questions, and along which
control parameter to fit accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Literal, Required

from pydantic import Field
from typing_extensions import TypedDict

from looktwice.eval.records.records import RunError
from looktwice.eval.tasks.base import check_items
from looktwice.extras.adaptive.discovery import Discovery
from looktwice.extras.adaptive.runs import Races, Staircases
from looktwice.extras.adaptive.steering import Steering
from looktwice.extras.adaptive.thresholds import (
    ThresholdsEntry,
    ThresholdSettings,
    describe_missing_levels,
)
from looktwice.pipelines.config.keys import FORBID_EXTRA, Key
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.counted import format_count


class ChooseEntry(TypedDict, total=False):
    """Choose questions by the answers so far; `by` names the method, and the other keys are its
    settings."""

    __pydantic_config__ = FORBID_EXTRA  # type: ignore[misc]
    by: Annotated[
        Required[Literal["race", "staircase", "discovery"]],
        "`race` stops asking arms that can no longer win, and confirms the winner on other"
        " samples; `staircase` finds the level at which each arm passes the target of"
        " `thresholds`; `discovery` finds the best arm within a budget.",
        "by: race",
    ]
    level: Annotated[
        float,
        Field(ge=0.001, le=0.5),
        "race, discovery: the maximum chance of dropping the best arm, and the significance"
        " level of the winner's confirmation (default: 0.05).",
        "level: 0.01",
    ]
    held_out: Annotated[
        float,
        Field(ge=0, le=0.9),
        "race, discovery: the share of samples held out to confirm the winner (default: 0.3).",
        "held_out: 0.5",
    ]
    budget: Annotated[
        int,
        Field(ge=1),
        "discovery: the maximum number of answers (default: 30 % of all arms on all samples).",
        "budget: 2000",
    ]
    styles: Annotated[
        list[str],
        "discovery: the VPBench styles under which to try a winner that draws marks (default: the"
        " six of its result tables).",
        "styles: [default, radius 3]",
    ]
    questions: Annotated[
        int,
        Field(ge=2),
        "staircase: the maximum number of questions for each arm (default: 60).",
        "questions: 40",
    ]
    width: Annotated[
        float,
        Field(ge=0),
        "staircase: stop when the interval is at most this wide (on a log scale, when the ratio"
        " of its ends is at most this).",
        "width: 1.5",
    ]


def make_steering(config: Mapping[str, Any]) -> Steering | None:
    """Build the companion that the study's entry `choose` describes; None if it chooses nothing, so
    that all questions are asked. Raises RunError for a staircase without a field, and for styles
    that a search cannot try."""
    choose = dict(config.get("choose") or {})
    if not choose:
        return None
    by = choose.pop("by")
    if by == "race":
        return Races(**choose)
    if by == "discovery":
        from looktwice.extras.toolkits.styles import DRAWINGS

        styles = choose.get("styles", [])
        if len(styles) == 1 or not DRAWINGS.keys() >= {*styles}:
            raise RunError(
                f"choose.styles must be [] or two or more of {', '.join(DRAWINGS)}, got {styles}"
            )
        return Discovery(**choose)
    along = ThresholdSettings.from_config(config)
    if along is None:
        raise RunError(
            "a staircase needs a field with the level of each question; set one, such as"
            " thresholds.along=size"
        )
    return Staircases(along, **choose)


def warn_about_levels(plan: Plan, first: int) -> Iterator[str]:
    """Yield a warning if none of the `first` samples of each task has numbers in the field that
    `thresholds` names."""
    if (along := ThresholdSettings.from_config(plan.config)) is None:
        return
    metas = list[Mapping[str, Any]]()
    for task in {arm.task_id: arm.task for arm in plan.points}.values():
        metas += [item.sample.meta for item in islice(check_items(task), first)]
    if missing := describe_missing_levels(metas, along.field):
        yield f"warning: no thresholds in the first {format_count(len(metas), 'sample')}: {missing}"


class Choose(Key):
    """Questions chosen by the answers so far."""

    schema = ChooseEntry
    about = (
        "Asks only the most informative questions: in a race between the arms, or a staircase for"
        " each arm."
    )
    example = "choose: {by: race, level: 0.05}"

    def make_companion(self, value: Any, plan: Plan) -> Steering | None:
        """Build the companion that chooses the questions. Raises RunError for invalid settings."""
        return make_steering(plan.config)


class Thresholds(Key):
    """The level of a control parameter at which accuracy passes a target."""

    schema = ThresholdsEntry
    about = (
        "Fits accuracy along a control parameter, and finds the level at which it passes a target."
    )
    example = "thresholds: {along: size, target: 0.75, scale: log}"

    def warn(self, value: Any, plan: Plan, first: int) -> Iterator[str]:
        """Warn if none of the first samples has numbers in the field."""
        return warn_about_levels(plan, first)
