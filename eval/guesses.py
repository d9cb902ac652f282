"""How often a baseline guessed, and how often that was right by luck."""

from __future__ import annotations

from collections.abc import Sequence

from looktwice.eval.printed import Grid
from looktwice.eval.score import PointScores, RunScores, Verdict
from looktwice.eval.table import percent

__all__ = ["guesses"]

NOTE = "guessed: "
"""How the notes begin that `specialists.guess.Guess` leaves in a record."""


def guesses(runs: Sequence[RunScores]) -> Grid:
    """A line for each point that guessed: its records, how many are guesses, and accuracy without and among them."""
    header = ("contestant", "task", "n", "guessed", "not\nguessed", "right of\nthese %", "right of\nguesses %")
    lines = []
    for run in runs:
        lots = {
            (r.point, r.sample, r.draw)
            for r in run.folder.records().values()
            if any(note.startswith(NOTE) for note in r.notes)
        }
        lines += [line for scores in run.points if (line := _line(scores, lots))]
    return Grid(header, tuple(lines), words=2)


def _line(scores: PointScores, lots: set[tuple[str, str, int]]) -> tuple[str, ...]:
    by_lot = [(scores.point.recorded_as, s.sample, s.draw) in lots for s in scores.all]
    if not any(by_lot):
        return ()
    right = [s.verdict is Verdict.RIGHT for s in scores.all]
    told, drawn = ([hit for hit, lot in zip(right, by_lot, strict=True) if lot is of] for of in (False, True))
    shares = (percent(sum(held) / len(held)) if held else "" for held in (told, drawn))
    return (scores.contestant, scores.task, str(len(right)), str(len(drawn)), str(len(told)), *shares)
