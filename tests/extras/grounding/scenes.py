"""Scores of replies about scenes, through the reader and the scorer, without a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from looktwice.eval.records.records import PointRow, SampleRow
from looktwice.eval.scoring.verdict import PointScores, ReadResult, ScoredRecord, compare_with_key
from looktwice.extras.grounding import PlacesInReply, PlacesScorer
from looktwice.extras.grounding.mean_ap import Scene
from looktwice.extras.grounding.places import read_places
from looktwice.pipelines import Sample, State
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import View

NAMES = ("bird", "cup", "lamp", "small dog")
SIZE = 640, 480
Boxes = list[dict[str, Any]]


def draw_scene(rng: np.random.Generator, scored: bool) -> tuple[Boxes, Boxes]:
    """Return the true boxes of a scene, some of them crowds, and the found boxes: some moved, some
    missing, some invented, some with another name."""
    true, found = Boxes(), Boxes()
    for _ in range(int(rng.integers(0, 9))):
        width, height = (int(side) for side in rng.choice([12, 25, 60, 120, 200], 2))
        left, top = int(rng.integers(0, SIZE[0] - width)), int(rng.integers(0, SIZE[1] - height))
        box = [left, top, left + width, top + height]
        true.append({"label": str(rng.choice(NAMES)), "box": box, "crowd": rng.random() < 0.1})
        for _ in range(int(rng.choice([0, 1, 1, 1, 1, 2]))):
            moved = [int(edge + round(rng.normal(0, 4))) for edge in box]
            if moved[2] > moved[0] and moved[3] > moved[1]:
                name = true[-1]["label"] if rng.random() < 0.9 else str(rng.choice(NAMES))
                found.append({"label": name, "bbox_2d": moved})
    for entry in found if scored else ():
        entry["score"] = round(float(rng.random()), 2)
    return true, found


def make_scene(true: Boxes, found: Boxes) -> Scene:
    """Return the places of a drawn scene."""
    moved = [{name.removesuffix("_2d"): value for name, value in e.items()} for e in found]
    return Scene(read_places(moved), read_places(true))


def read_answer(reply: str, size: tuple[int, int], **settings: Any) -> str | None:
    """Return the answer in a reply about a picture of this (width, height)."""
    width, height = size
    sample = Sample("1", "Where?", (Picture(np.zeros((height, width, 3), np.uint8)),))
    asked = Message("user", (View.of(sample.images[0]), "Where?"))
    state = State(sample, messages=(asked, Message("assistant", (reply,))))
    return PlacesInReply(**settings).read_masked(state, ()).answer


def make_row(number: int, places: Sequence[Mapping[str, Any]], **meta: Any) -> SampleRow:
    """Return a sample with these true places."""
    plain: dict[str, Any] = {"question": "Where?", "images": [], "choices": [], "marks": []}
    about = plain | {"id": f"s{number:04}", "meta": meta}
    return SampleRow("task", f"sha{number}", "[]", about, {"places": places})


def score(
    scorer: PlacesScorer, answers: Sequence[str | None], rows: Sequence[SampleRow]
) -> PointScores:
    """Return the scores of one answer to each sample."""
    scored = dict[str, dict[int, ScoredRecord]]()
    for answer, row in zip(answers, rows, strict=True):
        given = ReadResult(answer=answer)
        scored[row.id] = {0: ScoredRecord(row.id, 0, answer, compare_with_key(given, row, scorer))}
    samples = {row.id: row for row in rows}
    return PointScores(PointRow("p0", "plain", "task", "task"), samples, scored, scorer=scorer)


def find_figures(
    scorer: PlacesScorer, answers: Sequence[str | None], rows: Sequence[SampleRow]
) -> dict[str, float]:
    """Return the metrics of a scorer, by name, as means over samples."""
    figures = dict[str, float]()
    for metric in scorer.metrics(score(scorer, answers, rows)):
        units = metric.units.values()
        figures[metric.name] = sum(units) / len(units) if metric.value is None else metric.value
    return figures
