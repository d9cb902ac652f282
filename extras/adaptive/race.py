"""A race between arms: an arm that can no longer win is not asked again, and the winner is
confirmed on held-out samples. Arms are dropped by betting tests of paired differences, which are
valid at any time; within a budget, the worse half also drops out. The result is a table, and a file
that reports read."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import with_config
from typing_extensions import TypedDict

from looktwice.eval.analysis.analyses import Analysis, ReportTable
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, format_p, percent
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.intervals import CONFIDENCE_LEVEL, Estimate, Floats
from looktwice.pipelines.disk import read_file, write_file
from looktwice.pipelines.json_input import ALLOW_EXTRA, read_as

STAKE_SHARES = np.concatenate([np.linspace(0.02, 0.4, 20), np.linspace(0.45, 0.95, 11)])
"""Shares of the capital that are staked in parallel; the capital is the mean over all of them."""
RACE_HEADER = ("task", "arm", "asked", "mean %", "to the leader", "ended", "held out")
RACE_NOTE = (
    "`to the leader` is the mean difference on shared samples with a 95 % confidence sequence,"
    " which is valid at all times of the race simultaneously. An arm was dropped once bets that"
    " another one is better had won enough; the chance of dropping the best arm is at most `level`."
    " `held out` compares winner and rival on samples that the race did not use, split off by the"
    " hash of their ids, in a paired comparison; the choice of the winner does not bias this"
    " difference. Within a budget the worse half is also dropped after every round, and the winner"
    " is compared with the baseline. Samples that share a group or a picture make one bet, on their"
    " mean; `asked` and `after` count bets."
)
RACE_FILE = "race.json"
MAX_SHOWN_ARMS = 8  # arms shown at the end of a run


def _compute_log_mean(logs: Floats) -> Floats:
    """Return the log of the mean capital over the stakes, the first axis of `logs`."""
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.exp(logs - top).mean(axis=0)))


class PairwiseBets:
    """For each pair of `n` arms, the capital of the bets that the first arm is better; 1 for an arm
    against itself.

    With differences d in -1..1 and stakes s, the capital is the mean over s of the product of (1 +
    s d). If the first arm is not better on average, the capital is a supermartingale that starts at
    1, so it reaches 1/a with probability at most a (Ville): it can be checked after every sample
    (Waudby-Smith and Ramdas 2024).
    """

    def __init__(self, n: int) -> None:
        self.logs: Floats = np.zeros((len(STAKE_SHARES), n, n))
        self.capital: Floats = np.ones((n, n))
        """Evidence that the row's arm is better than the column's arm."""

    def add(self, values: Floats) -> None:
        """Add the values of all arms on one sample, (n,) in 0..1; NaN for an arm that was not
        asked, which makes no bet."""
        asked = np.flatnonzero(np.isfinite(values))
        pairs, gaps = np.ix_(asked, asked), values[asked, None] - values[asked]
        logs = self.logs[:, pairs[0], pairs[1]] + np.log1p(STAKE_SHARES[:, None, None] * gaps)
        self.logs[:, pairs[0], pairs[1]] = logs
        self.capital[pairs] = np.exp(_compute_log_mean(logs))


def compute_confidence_sequence(gaps: Sequence[float]) -> tuple[float, float]:
    """Return a 95 % interval of the mean of paired differences in -1..1 that is valid at all times
    simultaneously, not only at the end.

    It consists of the means against which neither bet, that the true mean is higher or lower, has
    reached a capital of 2 / 0.05.
    """
    differences, bar = np.asarray(gaps, float), np.log(2 / (1 - CONFIDENCE_LEVEL))

    def is_excluded(mean: float, sign: int) -> bool:
        away = sign * (differences - mean)
        logs = np.log1p(STAKE_SHARES[:, None] / (1 + sign * mean + 1e-9) * away).sum(axis=1)
        return bool(_compute_log_mean(logs) >= bar)

    ends = []
    for sign in (1, -1):
        # bisect between the sample's mean, where no bet wins, and the end of the scale
        inside, outside = float(differences.mean()) if len(differences) else 0.0, -float(sign)
        if is_excluded(outside * (1 - 1e-6), sign):
            for _ in range(40):
                middle = (inside + outside) / 2
                inside, outside = (
                    (inside, middle) if is_excluded(middle, sign) else (middle, outside)
                )
        ends.append(outside)
    return ends[0], ends[1]


@dataclass(eq=False)
class Race:
    """The arms of one task on samples in a random order; `level` is the maximum chance of dropping
    the best arm.

    An arm is dropped once the mean capital of the bets that each other arm is better reaches 1 /
    level: for the best arm that mean is a supermartingale, so it does so with probability at most
    `level`, however often it is checked. Among equally good arms, a single one remains with
    probability at most level * arms / (arms - 1). `values` is (samples, arms), NaN where an arm was
    not asked. `dropped` maps a dropped arm to the number of samples after which it was dropped, and
    the arm that beat it.
    """

    names: Sequence[str]
    level: float = 0.05
    dropped: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise ValueError(
                f"a race needs two arms or more, found {', '.join(self.names) or 'none'}"
            )
        self._bets, self.values = PairwiseBets(len(self.names)), np.empty((0, len(self.names)))

    @property
    def remaining(self) -> list[str]:
        """The arms that can still win."""
        return [name for name in self.names if name not in self.dropped]

    @property
    def answer_count(self) -> int:
        """The number of answers added so far."""
        return int(np.isfinite(self.values).sum())

    def add(self, answers: dict[str, float]) -> None:
        """Add the values of one sample by arm, in 0..1, and drop the arms that can no longer
        win."""
        row = np.array([answers.get(name, np.nan) for name in self.names], float)
        self.values = np.vstack([self.values, row])
        self._bets.add(row)
        capital = self._bets.capital
        # without the 1 of an arm against itself
        against = (capital.sum(axis=0) - 1) / (len(self.names) - 1)
        for number, name in enumerate(self.names):
            if name not in self.dropped and against[number] >= 1 / self.level:
                self.dropped[name] = len(self.values), self.names[int(capital[:, number].argmax())]

    def halve(self) -> None:
        """Drop the worse half of the remaining arms by their means, to keep to a budget; if arms
        are tied, the later ones are dropped."""
        ranked = sorted(self.remaining, key=lambda name: -float(np.mean(self.get_values(name))))
        for name in ranked[(len(ranked) + 1) // 2 :]:
            self.dropped[name] = len(self.values), ranked[0]

    @property
    def winner(self) -> str | None:
        """The only remaining arm; None while there are several."""
        return self.remaining[0] if len(self.remaining) == 1 else None

    @property
    def leader(self) -> str:
        """The remaining arm with the highest mean."""
        return max(self.remaining, key=lambda name: float(np.mean(self.get_values(name))))

    @property
    def rival(self) -> str:
        """The best of the other arms by its mean difference from the leading arm, on the samples
        that both were asked."""
        lead = self.winner or self.leader
        others = [name for name in self.names if name != lead]
        return max(
            others, key=lambda name: float(np.mean(self.compute_differences(name, lead) or [-2.0]))
        )

    def get_values(self, name: str) -> Floats:
        """Return the values of one arm on the samples that it was asked."""
        column = self.values[:, self.names.index(name)]
        return column[np.isfinite(column)]

    def compute_differences(self, name: str, rival: str) -> list[float]:
        """Return the differences between two arms on the samples that both were asked."""
        mine, theirs = self.names.index(name), self.names.index(rival)
        gaps = self.values[:, mine] - self.values[:, theirs]
        return list(gaps[np.isfinite(gaps)].tolist())


@dataclass(frozen=True)
class RaceResult:
    """The result of a race on a task: its final state, the calls of all arms, and the winner's
    paired difference on the held-out samples, `opponent` its rival or the baseline. `remark` is
    appended to the sentence that describes it."""

    task: str
    race: Race
    sample_count: int
    answer_count: int
    confirmation: Estimate | None
    opponent: str
    remark: str = ""

    @property
    def is_confirmed(self) -> bool:
        """True if the winner is also better on the held-out samples, at the level of the race."""
        estimate = self.confirmation
        return estimate is not None and estimate.value > 0 and estimate.p <= self.race.level


@with_config(ALLOW_EXTRA)
class RaceNode(TypedDict):
    """A race as stored in race.json."""

    task: str
    said: str
    arms: list[dict[str, str]]


def describe_race(result: RaceResult) -> str:
    """Describe the result of a race in one sentence, with its cost."""
    race, grid = result.race, len(result.race.names) * result.sample_count
    cost = (
        f"{result.answer_count:,} of {grid:,} answers of the full grid"
        f" ({100 * result.answer_count / max(1, grid):.0f} %)"
    )
    if race.winner is None:
        return (
            f"{result.task}: no winner; {len(race.remaining)} of {len(race.names)} arms may still"
            f" be the best; {cost}"
        )
    gap = result.confirmation
    if race.winner == result.opponent:
        return (
            f"{result.task}: none of {len(race.names)} arms is better than the baseline"
            f" {race.winner}; {cost}"
        )
    if gap is None:
        return f"{result.task}: {race.winner} wins; no held-out samples to confirm it; {cost}"
    verdict = "confirmed" if result.is_confirmed else "not confirmed"
    return (
        f"{result.task}: {race.winner} wins, {verdict} on {gap.n} held-out samples:"
        f" {100 * gap.value:+.1f} points [{100 * gap.low:.1f}, {100 * gap.high:.1f}] against"
        f" {result.opponent}, p {format_p(gap.p)}{result.remark}; {cost}"
    )


def save_races(folder: Path, results: Sequence[RaceResult]) -> Path:
    """Write race.json into the run's folder: a list with one object per task."""
    nodes = []
    for result in results:
        gap, held_out = result.confirmation, None
        if gap is not None:
            held_out = {"rival": result.opponent, "n": gap.n, "delta": gap.value}
            held_out |= {"low": gap.low, "high": gap.high, "p": gap.p}
        node = {
            "task": result.task,
            "said": describe_race(result),
            "samples": result.sample_count,
            "calls": result.answer_count,
            "winner": result.race.winner,
            "arms": [
                dict(zip(RACE_HEADER[1:], line[1:], strict=True)) for line in _format_arms(result)
            ],
            "held_out": held_out,
        }
        nodes.append(node)
    path = folder / RACE_FILE
    write_file(path, json.dumps(nodes, indent=1) + "\n")
    return path


def read_races(run: RunScores) -> list[RaceNode]:
    """Read the races saved in a run's folder. Raises RunError for a damaged file."""
    path = run.folder.path / RACE_FILE
    try:
        return read_as(list[RaceNode], read_file(path)) if path.exists() else []
    except (OSError, ValueError) as exc:
        raise RunError(
            f"{path} cannot be read ({exc}); to write it again, run the study with `choose.by=race`"
        ) from exc


def tabulate_saved_races(runs: Sequence[RunScores]) -> tuple[TextTable, str]:
    """Return a table of the races saved in the runs' folders, and the text above it. Raises
    RunError for a damaged file."""
    races = [race for run in runs for race in read_races(run)]
    lines = [
        (race["task"], *(arm.get(name, "") for name in RACE_HEADER[1:]))
        for race in races
        for arm in race["arms"]
    ]
    sentences = [race["said"] for race in races]
    return TextTable(RACE_HEADER, lines, text_column_count=2), "\n".join([*sentences, RACE_NOTE])


def tabulate_last_arms(scored: Table) -> Iterator[ReportTable]:
    """Yield a table of the races of scored runs, with only the arms that lasted longest in each."""
    shown, _ = tabulate_saved_races(scored.scores)
    place, by_task = RACE_HEADER.index("ended"), defaultdict[str, list[Sequence[str]]](list)
    for line in shown.rows:
        by_task[line[0]].append(line)
    rows = list[Sequence[str]]()
    for lines in by_task.values():
        fell = [line[place].removeprefix("after ") for line in lines]
        last = [-int(text) if text.isdecimal() else -math.inf for text in fell]
        order = (
            sorted(range(len(lines)), key=last.__getitem__) if len(lines) > MAX_SHOWN_ARMS else None
        )
        rows += [lines[number] for number in order[:MAX_SHOWN_ARMS]] if order else lines
    yield ReportTable("the race", TextTable(RACE_HEADER, rows, text_column_count=2), note=RACE_NOTE)


def _format_arms(result: RaceResult) -> list[tuple[str, ...]]:
    race, lines = result.race, list[tuple[str, ...]]()
    names = list(race.names)
    lead = race.winner or (race.leader if len(race.values) else "")
    for name in names:
        asked, far, held_out = race.get_values(name), "", ""
        if name != lead and (gaps := race.compute_differences(name, lead)):
            low, high = compute_confidence_sequence(gaps)
            far = _format_interval(float(np.mean(gaps)), low, high)
        if name == race.winner and (gap := result.confirmation):
            held_out = f"{_format_interval(gap.value, gap.low, gap.high)}, p {format_p(gap.p)}"
        ended = "won" if race.winner else "in the race"
        if name in race.dropped:
            ended = f"after {race.dropped[name][0]}"
        mean = percent(float(asked.mean())) if len(asked) else ""
        lines.append((result.task, name, str(len(asked)), mean, far, ended, held_out))
    return lines


def _format_interval(value: float, low: float, high: float) -> str:
    value_text, low_text, high_text = (percent(part, sign=True) for part in (value, low, high))
    return f"{value_text}\n{low_text} to {high_text}"


RACE_ANALYSIS = Analysis(
    "race",
    "The race",
    lambda scored: tabulate_saved_races(scored.scores)[0],
    lambda scored: tabulate_saved_races(scored.scores)[1],
    ending=tabulate_last_arms,
    sentences=lambda run: [f"{race['said']}." for race in read_races(run)],
)
