"""What the studio says of a draft beside its pictures: every word, what Ask sends, marks that no
stage draws, and drawings that are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from looktwice.eval.runs.dry_run import DryRun, Request, count_requests
from looktwice.pipelines.config.spec import find_settings
from looktwice.pipelines.counted import counted
from looktwice.pipelines.geometry import bounds
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.pocket.model import Pocket, network_inputs
from looktwice.pipelines.models.pocket.network import CELLS
from looktwice.pipelines.state import Call, State
from looktwice.pipelines.view import View
from looktwice.prompting.markers.base import Marking
from looktwice.prompting.views.losses import Drawing, drawings

DRAWS: Mapping[type[Mark], str] = {
    Point: "the point {}; add Circles",
    Box: "the box {}; add Rectangles",
    Mask: "the region {}; add Contours",
}


def words_of(state: State) -> list[dict[str, Any]]:
    """What is said, turn by turn: texts, and the numbers of views in their places."""
    numbers = {id(view): number for number, view in enumerate(state.shown)}
    turns = [(turn.role, turn.parts) for turn in state.messages if turn.role != "assistant"]
    return [
        {"role": role, "parts": [p if isinstance(p, str) else numbers[id(p)] for p in parts]}
        for role, parts in turns or [("prompt", (state.prompt,))]
    ]


def say_amount(trials: Sequence[DryRun]) -> str:
    """What is sent if all these arms are asked, and how its tokens are counted."""
    tried = [replace(t, requests=[*map(count_tokens, t.calls, t.requests)]) for t in trials]
    models = {type(request.model) for trial in tried for request in trial.requests}
    if not models:
        return "no stage asks a model"
    amount = count_requests(tried, {trial.arm.task_id: 1 for trial in tried})
    arms = f" in {counted(len(tried), 'arm')}" if len(tried) > 1 else ""
    rule = "as Pocket counts them" if models == {Pocket} else "by a rule of thumb"
    return f"{amount}{arms}; tokens {rule}"


def count_tokens(call: Call, request: Request) -> Request:
    """The request with the tokens that its model will count, where we have its network."""
    if isinstance(request.model, Pocket):
        with suppress(ModelError):  # told where it is asked
            words, views = network_inputs(call.messages)
            pictures = CELLS * CELLS * len(views)
            return replace(request, word_tokens=len(words), picture_tokens=pictures)
    return request


def say_undrawn(trial: DryRun, without: Callable[[int], DryRun]) -> Iterator[str]:
    """The marks that change nothing of what is sent, and what would draw them; `without` tries the
    same without the mark of a number."""
    markers = [*find_settings(trial.arm.stages, Marking)]
    for number, mark in enumerate(trial.item.sample.marks):
        is_drawn = any(marker.selects(mark) for marker in markers)
        if not is_drawn and sent_of(without(number)) == sent_of(trial):
            yield f"no stage draws {DRAWS[type(mark)].format(mark.label)}"


def sent_of(trial: DryRun) -> list[str]:
    """The keys of its requests, or the pictures where nobody is asked."""
    pictures = [view.picture.payload.sha for view in trial.state.views]
    return [request.key for request in trial.requests] or pictures


def say_cut(trial: DryRun, views: Sequence[View]) -> Iterator[str]:
    """Which views end within a mark or a label that a stage drew."""
    stages = trial.arm.stages
    for drawing in drawings(trial.state, stages):
        for number, view in enumerate(views, 1):
            if isinstance(stages[drawing.slot], Marking) and is_cut(drawing, view):
                yield f"view {number} ends within what stage {drawing.slot!r} draws"


def is_cut(drawing: Drawing, view: View) -> bool:
    """Whether a connected part of a drawing is seen in part: not one that spans half the
    picture."""
    (drawn, *_), (part, *_) = drawing.drawn.parts, view.parts
    if drawn.source != part.source:
        return False
    to_view = (part.affine @ drawn.affine.inverse).on_edges
    areas = cv2.connectedComponentsWithStats(drawing.cover.astype(np.uint8), connectivity=8)[2][1:]
    areas = areas[areas[:, 2:4].max(axis=1) < max(drawing.drawn.size) / 2]
    low, high = to_view(areas[:, :2]), to_view(areas[:, :2] + areas[:, 2:4])
    left, top, right, bottom = bounds(part.clip)
    is_seen = (low < (right, bottom)).all(axis=1) & (high > (left, top)).all(axis=1)
    is_whole = (low > (left - 1, top - 1)).all(axis=1) & (high < (right + 1, bottom + 1)).all(
        axis=1
    )
    return bool((is_seen & ~is_whole).any())
