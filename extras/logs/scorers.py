"""The selection of a scorer that logs of one harness share, so that their values are comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.logs.log import OWN_HARNESS, Cells, Log

if TYPE_CHECKING:
    import pandas

__all__ = [
    "agree_on_scorers",
    "count_same_replies",
    "describe_scorer_mismatch",
    "get_scorers",
    "name_scorers",
]


class HasPlaces(Protocol):
    """The part of a `Matching` that this module needs."""

    @property
    def places(self) -> Mapping[int, int]:
        """The positions of matched samples in the second log, by their positions in the first."""


def get_scorers(units: pandas.DataFrame) -> NDArray[np.str_]:
    """Return, for each sample, the name of the harness's scorer that graded it; "" if looktwice
    parsed the reply or no scorer is recorded."""
    names = units["scorer"].where(units["scores"].map(bool).fillna(False).astype(bool), "")
    return np.array(names.fillna("").tolist(), dtype=np.str_)


def agree_on_scorers(logs: Sequence[Log], matchings: Sequence[HasPlaces]) -> tuple[Log, ...]:
    """Select one scorer for each task, and return the logs; those of the baseline's harness then
    have this scorer's grades.

    For each task, the scorer selected is the one of the baseline's that most logs hold; on a tie,
    it is the one that counts in the baseline. A log that does not hold this scorer stays unchanged.
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
    agreed = [base.rescore_by(chosen)]
    for log in others:
        tasks = next((tasks for other, tasks in theirs if other is log), {})
        wanted = {tasks[task]: name for task, name in chosen.items() if task in tasks}
        agreed.append(log.rescore_by(wanted) if wanted else log)
    return tuple(agreed)


def _pair_tasks(base: Log, log: Log, matching: HasPlaces) -> dict[str, str]:
    """Map each task of the baseline to the task of the matched samples in the other log."""
    mine, theirs = base.units["task"], log.units["task"]
    return {mine[place]: theirs[other] for place, other in matching.places.items()}


def name_scorers(log: Log) -> str:
    """Name the scorers that count in a log, and the others that it holds; return "" if none is
    recorded."""
    names = [name for name in dict.fromkeys(log.units["scorer"]) if name]
    also = [name for known in log.scorers.values() for name in known if name not in names]
    more = f" (the log also holds {', '.join(dict.fromkeys(also))})" if also else ""
    return f"{', '.join(names)}{more}" if names else ""


def describe_scorer_mismatch(base: Log, log: Log) -> str:
    """Explain why the values of two logs are not comparable, and what to type."""
    return (
        f"{log.name} is scored by {name_scorers(log)} and {base.name} by {name_scorers(base)}, so"
        " their values cannot be compared. Read both with the same reader, such as --reader"
        " robust, or name a scorer that both hold with --column value=NAME"
    )


def count_same_replies(
    base: Log, log: Log, mine: pandas.DataFrame, theirs: pandas.DataFrame
) -> int:
    """Count the pairs of samples with the same reply and the same answer in both logs; if their
    values differ, only the scoring differs.

    `mine` and `theirs` give the two sides of each pair by task and sample.
    """
    rows = [_index_rows(side) for side in (base, log)]
    ours, same = OWN_HARNESS in (base.harness, log.harness), 0
    for first, second in zip(
        mine.itertuples(index=False), theirs.itertuples(index=False), strict=True
    ):
        same += _is_same(rows[0][tuple(first)], rows[1][tuple(second)], ours)
    return same


def _index_rows(log: Log) -> dict[tuple[str, ...], Cells]:
    """Map each task and sample to its row, with the replies of all its draws."""
    rows = dict[tuple[str, ...], Cells]()
    for row in log.whole.rows.to_dict("records"):
        key = row["task"], row["sample"]
        known = rows.get(key, {**row, "reply": []})
        rows[key] = {**known, "reply": [*known["reply"], row["reply"]]}
    return rows


def _is_same(mine: Cells, theirs: Cells, ours: bool) -> bool:
    """Return whether two rows hold the same answer with the same reply.

    Since the same letter may mean another choice if choices were shuffled, the scorers' answers or
    the choices are compared too.
    """
    if mine["reply"] != theirs["reply"] or not any(mine["reply"]):
        return False
    if ours or (mine["scorer"] == theirs["scorer"] and mine["answer"] and theirs["answer"]):
        return bool(mine["answer"]) and mine["answer"] == theirs["answer"]
    known = mine["answer"] or theirs["answer"]
    return bool(known or (mine["choices"] and mine["choices"] == theirs["choices"]))
