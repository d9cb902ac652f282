"""By which scorer of a harness logs are compared: one that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.logs.log import OURS, Cells, Log

if TYPE_CHECKING:
    import pandas

__all__ = [
    "agree_on_scorers",
    "count_same_replies",
    "name_scorers",
    "own_scorer",
    "say_scored_apart",
]


class Matched(Protocol):
    """The part of a `Matching` that is needed here."""

    @property
    def places(self) -> Mapping[int, int]:
        """The place of a sample in the other log by that in the first."""


def own_scorer(units: pandas.DataFrame) -> NDArray[np.str_]:
    """The scorer of the harness that graded each sample; empty where looktwice read the reply, and
    where there is none."""
    names = units["scorer"].where(units["scores"].map(bool).fillna(False).astype(bool), "")
    return np.array(names.fillna("").tolist(), dtype=np.str_)


def agree_on_scorers(logs: Sequence[Log], matchings: Sequence[Matched]) -> tuple[Log, ...]:
    """The logs, each task of those of the baseline's harness graded by one scorer.

    For each task that is the first of the baseline's scorers that most logs hold: one that counts
    there comes before the others. A log without it stays as it is.
    """
    base, *others = logs
    theirs = [
        (log, _pair_tasks(base, log, matching))
        for log, matching in zip(others, matchings, strict=True)
        if log.harness == base.harness
    ]
    chosen = dict[str, str]()
    for task, names in base.scorers.items():
        held = [log.scorers.get(tasks.get(task, ""), ()) for log, tasks in theirs]
        if names:
            chosen[task] = max(names, key=lambda name: sum(name in each for each in held))
    agreed = [base.scored_by(chosen)]
    for log in others:
        tasks = next((tasks for other, tasks in theirs if other is log), {})
        wanted = {tasks[task]: name for task, name in chosen.items() if task in tasks}
        agreed.append(log.scored_by(wanted) if wanted else log)
    return tuple(agreed)


def _pair_tasks(base: Log, log: Log, matching: Matched) -> dict[str, str]:
    """The task of the other log by that of the baseline, of the samples that match."""
    mine, theirs = base.units["task"], log.units["task"]
    return {mine[place]: theirs[other] for place, other in matching.places.items()}


def name_scorers(log: Log) -> str:
    """The scorers that count in a log, and those that it also holds; empty where none is named."""
    names = [name for name in dict.fromkeys(log.units["scorer"]) if name]
    also = [name for known in log.scorers.values() for name in known if name not in names]
    more = f" (the log also holds {', '.join(dict.fromkeys(also))})" if also else ""
    return f"{', '.join(names)}{more}" if names else ""


def say_scored_apart(base: Log, log: Log) -> str:
    """Why the values of two logs cannot be compared, and what to type."""
    return (
        f"{log.name} is scored by {name_scorers(log)} and {base.name} by {name_scorers(base)}, so"
        " that their values cannot be compared. Read the replies of both alike, with --reader"
        " robust for instance, or name a scorer that both hold with --column value=NAME"
    )


def count_same_replies(
    base: Log, log: Log, mine: pandas.DataFrame, theirs: pandas.DataFrame
) -> int:
    """Of pairs of samples, each named by task and sample in its log, how many have one and the same
    reply in both that gives one and the same answer: what differs there is the scoring."""
    rows = [_rows_of(side) for side in (base, log)]
    ours, same = OURS in (base.harness, log.harness), 0
    for first, second in zip(
        mine.itertuples(index=False), theirs.itertuples(index=False), strict=True
    ):
        same += _is_same(rows[0][tuple(first)], rows[1][tuple(second)], ours)
    return same


def _rows_of(log: Log) -> dict[tuple[str, ...], Cells]:
    """The row of each task and sample, with the replies of all its draws."""
    rows = dict[tuple[str, ...], Cells]()
    for row in log.whole.rows.to_dict("records"):
        key = row["task"], row["sample"]
        known = rows.get(key, {**row, "reply": []})
        rows[key] = {**known, "reply": [*known["reply"], row["reply"]]}
    return rows


def _is_same(mine: Cells, theirs: Cells, ours: bool) -> bool:
    """Whether two rows hold the same answer in the same words. A letter may stand for another
    choice where these were dealt anew: then a scorer's answers, or the choices, tell."""
    if mine["reply"] != theirs["reply"] or not any(mine["reply"]):
        return False
    if ours or (mine["scorer"] == theirs["scorer"] and mine["answer"] and theirs["answer"]):
        return bool(mine["answer"]) and mine["answer"] == theirs["answer"]
    known = mine["answer"] or theirs["answer"]
    return bool(known or (mine["choices"] and mine["choices"] == theirs["choices"]))
