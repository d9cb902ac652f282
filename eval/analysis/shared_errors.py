"""Shared errors: for every two contestants, how many errors they have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict

MAX_CONTESTANTS = 12  # more make the table unreadable

Asked = frozenset[tuple[str, str]]
"""Questions by task and sample."""


@dataclass(frozen=True)
class ErrorSet:
    """The questions with a key that a contestant was asked, and those that it did not answer right.

    Unreadable answers count as errors, as in BLINK's own comparison of models (App. C.2); FAILED samples say nothing
    about the contestant and count as not asked.
    """

    asked: Asked
    wrong: Asked

    def common(self, other: ErrorSet) -> tuple[int, int, int]:
        """Errors of both, of this one and of the other, over the questions that both were asked."""
        both = self.asked & other.asked
        return len(self.wrong & other.wrong), len(self.wrong & both), len(other.wrong & both)


def errors_by_contestant(run: RunScores) -> dict[str, ErrorSet]:
    """The errors of every contestant of a run, in the run's order; only the first draw counts."""
    asked: dict[str, set[tuple[str, str]]] = defaultdict(set)
    wrong: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for scores in run.points:
        hits = right_on_first_draw(scores)
        asked[scores.contestant] |= {(scores.point.task_id, name) for name in hits}
        wrong[scores.contestant] |= {(scores.point.task_id, name) for name, hit in hits.items() if not hit}
    return {name: ErrorSet(frozenset(questions), frozenset(wrong[name])) for name, questions in asked.items()}


def right_on_first_draw(scores: PointScores) -> Mapping[str, bool]:
    """Whether the first draw of each sample with a key is right; without samples that FAILED or are missing."""
    firsts = {name: scores.draws(name)[0] for name, row in scores.samples.items() if row.answer is not None}
    return {
        name: first.verdict is Verdict.RIGHT
        for name, first in firsts.items()
        if first is not None and first.verdict is not Verdict.FAILED
    }


def shared_error_table(runs: Sequence[RunScores]) -> TextTable:
    """A line and a column per contestant: shared errors and their share of the line's own; own errors on the diagonal.

    Only for a single run; empty if fewer than two contestants made errors, or too many for a table.
    """
    errors = (
        {name: error_set for name, error_set in errors_by_contestant(runs[0]).items() if error_set.wrong}
        if len(runs) == 1
        else {}
    )
    if not 2 <= len(errors) <= MAX_CONTESTANTS:
        return TextTable(("mistakes of",), ())
    lines = ((name, *(_cell(mine, other) for other in errors.values())) for name, mine in errors.items())
    return TextTable(("mistakes of", *errors), tuple(lines))


def _cell(mine: ErrorSet, other: ErrorSet) -> str:
    common, own, _ = mine.common(other)
    if mine is other:
        return f"{own}\nof {len(mine.asked)}"
    return f"{common}\n{100 * common / own:.1f} %" if own else ""
