"""Runs a specialist on the source images that views show, and maps its results into the views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.counted import format_count
from looktwice.pipelines.geometry import Affine, bounds, contains, warp
from looktwice.pipelines.state import UNCHANGED_NOTE, State
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.regions import find_pixel_area
from looktwice.specialists.rules import NoEvidence

__all__: list[str] = []

MissingAction = Literal["keep", "fail", "abstain"]
"""What to do if a specialist finds nothing: keep the view as it is, fail the sample, or abstain
from answering."""

Finding = TypeVar("Finding")


def collect_results(
    state: State, images: Sequence[int] | None, look: Callable[[int], Finding]
) -> tuple[dict[int, Finding], dict[int, str]]:
    """Return the result of `look` for each source image that a view shows, and the reasons for
    missing results, both by image number.

    `images` restricts it to these numbers, counted from 0. Raises ValueError for a number that the
    sample lacks.
    """
    results, lacking = {}, {}
    for number in list_shown_sources(state, images):
        try:
            results[number] = look(number)
        except NoEvidence as exc:
            lacking[number] = str(exc)
    return results, lacking


def list_shown_sources(state: State, images: Sequence[int] | None) -> list[int]:
    """Return the numbers, from 0, of the source images that views show, restricted to `images` if
    given.

    Raises ValueError for a number that the sample does not have.
    """
    count = len(state.sample.images)
    for number in images or ():
        if not 0 <= number < count:
            raise ValueError(
                f"sample {state.sample.id}: images names {number} (counted from 0), but the sample"
                f" has {format_count(count, 'image')}"
            )
    shown = {part.source for view in state.views for part in view.parts}
    return sorted(shown if images is None else shown & set(images))


def handle_missing(state: State, missing: MissingAction, reasons: Iterable[str]) -> State:
    """Apply `missing` to the state: add notes or abstain. Raises ValueError for "fail"."""
    if missing == "fail":
        raise ValueError(
            f"sample {state.sample.id}: {'; '.join(reasons)}; set missing: keep or abstain to"
            " continue without it"
        )
    if missing == "abstain":
        return state.abstain("; ".join(reasons))
    return state.with_notes(*(f"{reason}{UNCHANGED_NOTE}" for reason in reasons))


def replace_views(
    state: State, views: Sequence[View], line: str = "", reasons: Iterable[str] = ()
) -> State:
    """Return the state with these views and with a note for each of the `reasons` why an image was
    kept unchanged.

    If any view is new, `line` becomes the last line of the prompt.
    """
    state = handle_missing(state, "keep", reasons)
    if [*map(id, views)] == [*map(id, state.views)]:
        return state
    prompt = "\n".join(text for text in (state.prompt, line) if text)
    return state.replace(views=tuple(views), prompt=prompt)


def show_evidence(
    state: State,
    images: Sequence[int] | None,
    missing: MissingAction,
    look: Callable[[int], Finding],
    show: Callable[[View, dict[int, Finding]], Iterable[View]],
    line: str,
) -> State:
    """Return the state with the views that `show` makes from each view and from the results of
    `look` (see `collect_results`). `missing` decides how images without a result are handled."""
    results, lacking = collect_results(state, images, look)
    if lacking and missing != "keep":
        return handle_missing(state, missing, lacking.values())
    views = [new for view in state.views for new in show(view, results)]
    return replace_views(state, views, line, lacking.values())


def project_maps(view: View, maps: Mapping[int, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Project maps of source images, each (height, width) of its image, into one map of the view
    (height, width).

    The result is NaN where the topmost part has no map or its map has no value. Known pixels are
    interpolated linearly.
    """
    width, height = view.size
    field = np.full((height, width), np.nan)
    for part in view.parts:
        left, top, right, bottom = find_pixel_area(bounds(part.clip), 0, (0, 0, width, height))
        window = field[top:bottom, left:right]
        ys, xs = np.indices(window.shape)
        seen = contains(part.clip, xs + left + 0.5, ys + top + 0.5)
        window[seen] = np.nan
        if part.source in maps:
            values, size = maps[part.source], window.shape[::-1]
            affine, valid = Affine.shift(-left, -top) @ part.affine, ~np.isnan(values)
            weight = warp(valid.astype(np.float64), affine, size)
            total = warp(np.where(valid, values, 0), affine, size)
            warped = np.where(weight > 0.25, total / np.maximum(weight, 0.25), np.nan)
            window[seen] = warped[seen]
    return field
