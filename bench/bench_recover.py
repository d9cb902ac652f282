"""Burnt-in markers on 2,000 photographs: the number read, the time needed, and the missed ones."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np

from looktwice.extras.burnt_in import RecoverMarks
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.burnt_in import BurntIn, make_picture

MARKED, BARE = 2000, 500
FOUND, INVENTED_PER_500 = 0.995, 1


def read(burnt: BurntIn, letters: tuple[str, ...]) -> tuple[dict[str, Point], float]:
    """Return the points by label, and the seconds for reading them."""
    state, start = (
        State.start(Sample(burnt.how, "?", (Picture(burnt.pixels),))),
        time.perf_counter(),
    )
    marks = RecoverMarks(letters=letters)(state, NoModel()).sample.marks
    return {
        mark.label: mark for mark in marks if isinstance(mark, Point)
    }, time.perf_counter() - start


def test_two_thousand_photographs_with_markers() -> None:
    counts: Counter[str] = Counter()
    errors, seconds, failures = [], [], []
    for seed in range(MARKED):
        burnt = make_picture(seed)
        found, took = read(burnt, tuple(point.label for point in burnt.points))
        seconds.append(took)
        for point in burnt.points:
            mark = found.pop(point.label, None)
            away = float(np.hypot(mark.x - point.x, mark.y - point.y)) if mark else np.inf
            counts["within 2 px" if away <= 2 else "off" if mark else "missed"] += 1
            if away <= 2:
                errors.append(away)
            else:
                failures.append(
                    f"  {burnt.how}: {point} {'missed' if mark is None else f'{away:.0f} px off'}"
                )
        counts["invented"] += len(found)
    total = sum(counts.values()) - counts["invented"]
    print(
        f"\n{dict(counts)} of {total} marks on {MARKED} images, {counts['within 2 px'] / total:.2%}"
        " within 2 px"
    )
    print(
        f"px: median {np.median(errors):.2f}, 99 % {np.percentile(errors, 99):.2f}, most"
        f" {max(errors):.2f}"
    )
    print(f"ms: median {1e3 * np.median(seconds):.0f}, 95 % {1e3 * np.percentile(seconds, 95):.0f}")
    print("\n".join(failures))
    assert counts["within 2 px"] >= FOUND * total
    assert counts["invented"] + counts["off"] < INVENTED_PER_500 * MARKED / 500


def test_five_hundred_photographs_without_markers() -> None:
    burnt = [make_picture(seed, marked=False) for seed in range(BARE)]
    invented = [(b.how, found) for b in burnt if (found := read(b, ("A", "B", "C", "D"))[0])]
    print(f"\n{len(invented)} of {BARE} bare images with invented marks: {invented}")
    assert len(invented) <= INVENTED_PER_500 * BARE / 500
