"""Scores of replies about scenes, through the reader and the scorer, without a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from looktwice.eval.records.records import PointRow, SampleRow
from looktwice.eval.scoring.verdict import PointScores, ReadResult, ScoredRecord, compare_with_key
from looktwice.extras.grounding import PlacesInReply, PlacesScorer
from looktwice.pipelines import Sample, State
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import View


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
