"""How a race ended, as a table and as the file that a report reads again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import with_config
from typing_extensions import TypedDict

from looktwice.eval.adaptive.race import confidence_sequence
from looktwice.eval.adaptive.runs import RaceResult
from looktwice.eval.display.text_tables import TextTable, format_p, percent
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.disk import read_file, write_file
from looktwice.pipelines.schema import OPEN, read_as

HEADER = ("task", "arm", "asked", "mean %", "to the leader", "ended", "held out")
NOTE = (
    "`to the leader` is the mean difference on shared samples with a 95 % confidence sequence,"
    " which holds at every time of the race together. An arm fell out once bets that another one is"
    " better had won enough: the best arm falls out with the chance `level` at most. `held out`:"
    " winner and rival on samples that the race did not see, with the interval and p of every"
    " paired comparison; the choice of the winner does not bias that difference. Samples that share"
    " a group or a picture are one bet, on their mean; `asked` and `after` count bets."
)


FILE = "race.json"


@with_config(OPEN)
class RaceNode(TypedDict):
    """A race as race.json holds it."""

    task: str
    said: str
    arms: list[dict[str, str]]


def race_table(results: Sequence[RaceResult]) -> TextTable:
    """A line per task and arm: what it was asked, how far from the leader, when it fell out; then
    the confirmation."""
    lines = [line for result in results for line in _lines(result)]
    return TextTable(HEADER, lines, text_columns=2)


def say_race(result: RaceResult, level: float) -> str:
    """The end of a race in a sentence, with what it cost."""
    race, grid = result.race, len(result.race.names) * result.samples
    cost = (
        f"{result.calls:,} of {grid:,} answers of the full grid"
        f" ({100 * result.calls / max(1, grid):.0f} %)"
    )
    if race.winner is None:
        return (
            f"{result.task}: no winner; {len(race.left)} of {len(race.names)} arms may still be the"
            f" best; {cost}"
        )
    confirmation = result.confirmation
    if confirmation is None:
        return f"{result.task}: {race.winner} wins, and nothing was held out to confirm it; {cost}"
    verdict = "confirmed" if confirmation.holds(level) else "not confirmed"
    low, high = 100 * confirmation.low, 100 * confirmation.high
    return (
        f"{result.task}: {race.winner} wins, {verdict} on {confirmation.n} held-out samples:"
        f" {100 * confirmation.delta:+.1f} points [{low:.1f}, {high:.1f}] to {confirmation.rival},"
        f" p {format_p(confirmation.p)}; {cost}"
    )


def save_races(folder: Path, results: Sequence[RaceResult], level: float) -> Path:
    """Write race.json into the run's folder: a list with an object per task."""
    path = folder / FILE
    write_file(path, json.dumps([_plain(result, level) for result in results], indent=1) + "\n")
    return path


def saved_races(runs: Sequence[RunScores]) -> tuple[TextTable, str]:
    """The table of the races that runs have on disk, and what is said above it. Raises RunError for
    a damaged file."""
    lines, sentences = list[tuple[str, ...]](), list[str]()
    for run in runs:
        if (path := run.folder.path / FILE).exists():
            for race in _read(path):
                lines += [
                    (race["task"], *(arm.get(name, "") for name in HEADER[1:]))
                    for arm in race["arms"]
                ]
                sentences.append(race["said"])
    return TextTable(HEADER, lines, text_columns=2), "\n".join([*sentences, NOTE])


def _read(path: Path) -> Any:
    try:
        return read_as(list[RaceNode], read_file(path))
    except (OSError, ValueError) as exc:
        raise RunError(
            f"{path}: it cannot be read ({exc}); a run with `choose.by=race` writes it again"
        ) from exc


def _plain(result: RaceResult, level: float) -> dict[str, Any]:
    confirmation, names = result.confirmation, ("rival", "n", "delta", "low", "high", "p")
    return {
        "task": result.task,
        "said": say_race(result, level),
        "samples": result.samples,
        "calls": result.calls,
        "winner": result.race.winner,
        "arms": [dict(zip(HEADER[1:], line[1:], strict=True)) for line in _lines(result)],
        "held_out": None
        if confirmation is None
        else {name: getattr(confirmation, name) for name in names},
    }


def _lines(result: RaceResult) -> list[tuple[str, ...]]:
    race, lines = result.race, list[tuple[str, ...]]()
    lead = race.winner or (race.leader if race.values else "")
    for number, name in enumerate(race.names):
        asked = [row[number] for row in race.values if np.isfinite(row[number])]
        ended = (
            f"after {race.dropped[name][0]}"
            if name in race.dropped
            else "won"
            if race.winner
            else "in the race"
        )
        lines.append(
            (
                result.task,
                name,
                str(len(asked)),
                percent(float(np.mean(asked))) if asked else "",
                "" if name == lead else _shown(race.gaps(name, lead)),
                ended,
                _held_out(result, name),
            )
        )
    return lines


def _shown(gaps: Sequence[float]) -> str:
    if not gaps:
        return ""
    low, high = confidence_sequence(gaps)
    return (
        f"{percent(float(np.mean(gaps)), sign=True)}\n{percent(low, sign=True)} to"
        f" {percent(high, sign=True)}"
    )


def _held_out(result: RaceResult, name: str) -> str:
    confirmation = result.confirmation
    if confirmation is None or name != result.race.winner:
        return ""
    shown = (
        f"{percent(confirmation.low, sign=True)} to {percent(confirmation.high, sign=True)}, p"
        f" {format_p(confirmation.p)}"
    )
    return f"{percent(confirmation.delta, sign=True)}\n{shown}"
