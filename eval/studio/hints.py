"""What the studio says of a draft beside its pictures: every word, what Ask sends, marks that no
stage draws, and drawings that are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from looktwice.eval.runs.dry_run import DryRun, Request, count_requests
from looktwice.pipelines.config.spec import Arm, find_settings
from looktwice.pipelines.counted import counted
from looktwice.pipelines.geometry import bounds
from looktwice.pipelines.marks import Box, Mask, Point
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.pocket.model import Pocket, network_inputs
from looktwice.pipelines.models.pocket.network import CELLS
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Call, State
from looktwice.pipelines.view import View
from looktwice.prompting.markers.base import Marking
from looktwice.prompting.views.losses import Drawing, drawings

DRAWS = {
    Point: "point {}; add Circles",
    Box: "box {}; add Rectangles",
    Mask: "region {}; add Contours",
}


def words_of(state: State) -> list[dict[str, Any]]:
    """What is said, turn by turn: texts, and null for each view in its place."""
    words = [
        {"role": turn.role, "parts": [p if isinstance(p, str) else None for p in turn.parts]}
        for turn in state.messages
    ]
    return words or [{"role": "prompt", "parts": [state.prompt]}]


def say_amount(trials: Sequence[DryRun]) -> str:
    """What is sent if all these arms are asked, and how its tokens are counted."""
    tried = [replace(t, requests=[*map(count_tokens, t.calls, t.requests)]) for t in trials]
    amount = count_requests(tried, {trial.arm.task_id: 1 for trial in tried})
    if not amount.requests:
        return "no stage asks a model"
    arms = f" in {counted(len(tried), 'arm')}" if len(tried) > 1 else ""
    is_pocket = all(isinstance(model, Pocket) for trial in tried for model in trial.arm.models)
    rule = "as Pocket counts them" if is_pocket else "by a rule of thumb"
    return f"{amount}{arms}; tokens {rule}"


def count_tokens(call: Call, request: Request) -> Request:
    """The request with the tokens that its model will count, where we have its network."""
    if isinstance(request.model, Pocket):
        with suppress(ModelError):  # told where it is asked
            words, views = network_inputs(call.messages)
            pictures = CELLS * CELLS * len(views)
            return replace(request, word_tokens=len(words), picture_tokens=pictures)
    return request


def say_undrawn(trial: DryRun, again: Callable[[Arm, Item], DryRun]) -> Iterator[str]:
    """The marks that change nothing of what is sent, as it is tried `again` without them, and what
    would draw them."""
    sample, markers = trial.item.sample, [*find_settings(trial.arm.stages, Marking)]
    for mark in sample.marks:
        if any(marker.selects(mark) for marker in markers):
            continue
        rest = tuple(kept for kept in sample.marks if kept is not mark)
        item = replace(trial.item, sample=replace(sample, marks=rest))
        if sent_of(again(trial.arm, item)) == sent_of(trial):
            yield f"no stage draws the {DRAWS[type(mark)].format(mark.label)}"


def sent_of(trial: DryRun) -> tuple[object, ...]:
    """What comes of a trial, whether it asks or answers."""
    state, views = trial.state, trial.state.shown or trial.state.views
    return state.prompt, state.answer, [view.picture.payload.sha for view in views]


def say_cut(trial: DryRun, views: Sequence[View]) -> Iterator[str]:
    """Which views end within a mark or a label that a stage drew."""
    stages = trial.arm.stages
    for drawing in drawings(trial.state, stages):
        for number, view in enumerate(views, 1):
            if isinstance(stages[drawing.slot], Marking) and is_cut(drawing, view):
                yield f"view {number} ends within what stage {drawing.slot!r} draws"


def is_cut(drawing: Drawing, view: View) -> bool:
    """Whether the edge of a view goes through what was drawn."""
    drawn, part = drawing.drawn.parts[:1], view.parts[:1]
    if not (drawn and part and drawn[0].source == part[0].source):
        return False
    edges = bounds((drawn[0].affine @ part[0].affine.inverse).polygon(part[0].clip))
    left, top, right, bottom = (max(0, round(edge)) for edge in edges)
    seen = np.zeros(drawing.drawn.pixels.shape[:2], bool)
    seen[top:bottom, left:right] = True
    if seen.all():
        return False
    cover = drawing.cover
    around = cv2.dilate((cover & ~seen).astype(np.uint8), np.ones((3, 3)))
    return bool(around[cover & seen].any())
