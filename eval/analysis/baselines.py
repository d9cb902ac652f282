"""Tables of reference numbers: how often a baseline guessed, and published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from looktwice.eval.display.score_tables import to_people
from looktwice.eval.display.text_tables import TextTable, percent
from looktwice.eval.scoring.chance import of_another_split, published_names
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.specialists.answers import Guess


def guess_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each arm that guessed: its records, how many are guesses, and the accuracy of both
    kinds."""
    header = (
        "contestant",
        "task",
        "n",
        "guessed",
        "not\nguessed",
        "accuracy of\nthese %",
        "accuracy of\nguesses %",
    )
    lines = []
    for run in runs:
        guessed = {
            r.key
            for r in run.folder.last_records(holding=f'"{Guess.NOTE}')
            if any(note.startswith(Guess.NOTE) for note in r.notes)
        }
        lines += [line for scores in run.points if (line := _guess_cells(scores, guessed))]
    return TextTable(header, lines, text_columns=2)


def _guess_cells(scores: PointScores, guessed: set[tuple[str, str, int]]) -> tuple[str, ...]:
    guess = [(scores.point.recorded_as, s.sample, s.draw) in guessed for s in scores.all]
    if not any(guess):
        return ()
    right = [s.verdict is Verdict.RIGHT for s in scores.all]
    known, random = (
        [hit for hit, is_guess in zip(right, guess, strict=True) if is_guess is of]
        for of in (False, True)
    )
    shares = (percent(sum(hits) / len(hits)) if hits else "" for hits in (known, random))
    return (
        scores.contestant,
        scores.task,
        str(len(right)),
        str(len(random)),
        str(len(known)),
        *shares,
    )


def published_table(runs: Sequence[RunScores], rows: Sequence[Row] = ()) -> TextTable:
    """A line for each row of `published:` in the runs' configurations, in percent as published,
    with its source.

    A published row is `name: {source: where it stands, accuracy: {task: percent}}`. The columns are
    those tasks of the runs that some row has, then any further entry: a total such as `macro` or
    `blink_macro`, or `task.metric`. A task with errata is flagged in its header, a row of another
    split than the run's in its name. Below stand the contestants of the runs, from `rows`, and how
    many points each differs from people, whose row says `people: true`.
    """
    published: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        for name, row in (run.config.get("published") or {}).items():
            accuracies = row.get("accuracy") or {}
            if any(of_another_split(run, row, str(task)) for task in accuracies):
                suffix = f" on {row['split']}"
                name = str(name).removesuffix(suffix) + suffix
            published[str(name), str(row.get("source", ""))] = accuracies
    given = dict.fromkeys(task for accuracies in published.values() for task in accuracies)
    asked = {
        scores.point.task: scores.point.facts.get("errata") for run in runs for scores in run.points
    }
    tasks = [
        *(task for task in asked if task in given),
        *(task for task in given if task not in asked),
    ]
    titles = (f"{task}\nsee its errata" if asked.get(task) else task for task in tasks)
    lines = [
        (name, source, *(_percent(accuracies.get(task)) for task in tasks))
        for (name, source), accuracies in published.items()
    ]
    for name, found in _values_here(runs, rows, given.keys()).items():
        here = [found.get(task) for task in tasks]
        lines.append(
            (name, "this run", *("" if row is None else percent(row.value, 2) for row in here))
        )
        if any(gaps := ["" if row is None else to_people(row, 2) for row in here]):
            lines.append((f"{name}, less people", "points", *gaps))
    return TextTable(("who", "source", *titles), lines, text_columns=2)


def _values_here(
    runs: Sequence[RunScores], rows: Sequence[Row], given: Set[str]
) -> Mapping[str, dict[str, Row]]:
    """Contestant -> its rows by those names under which something is published."""
    names = {scores.contestant for run in runs for scores in run.points}
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.slice or row.value is None or row.contestant not in names:
            continue
        for name in given & set(published_names(row)):
            found.setdefault(row.contestant, {})[name] = row
    return found


def _percent(value: Any) -> str:
    return "" if value is None else f"{float(value):.2f}"
