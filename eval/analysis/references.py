"""Who stands beside the contestants: specialists on the same samples, guesses, and published
results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from looktwice.eval.analysis.contestants import right_on_first_draw
from looktwice.eval.display.score_tables import to_people
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    percent,
    points,
    share_cell,
    some,
    table,
    text,
)
from looktwice.eval.scoring.chance import of_another_split, published_names
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.pipelines.config.spec import public_path
from looktwice.specialists.answers import Chance, Guess


@dataclass(frozen=True)
class SpecialistPair:
    """A specialist and an MLLM on the samples of one task that have a key and that neither failed.

    Only the first draw counts. Unreadable and abstained answers are not right.
    """

    specialist: PointScores
    mllm: PointScores

    @cached_property
    def hits(self) -> Mapping[str, tuple[bool, bool]]:
        """Sample -> whether the specialist and whether the MLLM is right."""
        mine, theirs = right_on_first_draw(self.specialist), right_on_first_draw(self.mllm)
        return {name: (mine[name], theirs[name]) for name in mine if name in theirs}

    def where(self, specialist: bool, mllm: bool) -> list[str]:
        """The samples, in the task's order, on which the two are right (True) or not (False) as
        given."""
        return [name for name, hit in self.hits.items() if hit == (specialist, mllm)]

    @property
    def n(self) -> int:
        """How many samples both have."""
        return len(self.hits)

    def count(self, specialist: bool, mllm: bool) -> int:
        """How many these are."""
        return len(self.where(specialist, mllm))

    @property
    def shares(self) -> tuple[float, float, float]:
        """The shares of these samples on which the specialist, the MLLM, and either of them (the
        oracle) is right."""
        mine, theirs = ([hit[side] for hit in self.hits.values()] for side in (0, 1))
        either = sum(map(any, self.hits.values()))
        return sum(mine) / self.n, sum(theirs) / self.n, either / self.n

    @property
    def oracle(self) -> Estimate:
        """The share on which either is right, with its interval."""
        clusters = [self.specialist.clusters[name] for name in self.hits]
        return share_interval([float(any(hit)) for hit in self.hits.values()], clusters)

    @property
    def by_chance(self) -> float:
        """That share if the two were right independently of each other."""
        mine, theirs, _ = self.shares
        return 1 - (1 - mine) * (1 - theirs)

    @property
    def excluded(self) -> int:
        """Samples with a key that failed or are missing for one of them."""
        return len(self.specialist.keyed) - self.n


def specialist_pairs(run: RunScores) -> Iterator[SpecialistPair]:
    """Every pair of a specialist and an MLLM on the same task."""
    for specialist in run.points:
        if is_specialist(specialist):
            for mllm in run.points:
                if mllm.point.task_id == specialist.point.task_id and any(
                    entry.calls for entry in mllm.all
                ):
                    pair = SpecialistPair(specialist, mllm)
                    if pair.n:
                        yield pair


def is_specialist(scores: PointScores) -> bool:
    """Whether the arm answered without a single call, and never at random: what it did counts, not
    what it declares."""
    answered = any(entry.answer is not None or entry.reason == "abstained" for entry in scores.all)
    random = {public_path(Chance), public_path(Guess)}
    called = any(entry.calls for entry in scores.all)
    return answered and not called and random.isdisjoint(_uses(scores.point.spec.get("stages")))


PAIRS: tuple[Column[SpecialistPair], ...] = (
    Column("task", "specialist.task", text),
    Column("specialist", "specialist.contestant", text),
    Column("MLLM", "mllm.contestant", text),
    Column("n", "n"),
    Column("both\nright", lambda pair: pair.count(True, True)),
    Column("only\nspecialist", lambda pair: pair.count(True, False)),
    Column("only\nMLLM", lambda pair: pair.count(False, True)),
    Column("neither", lambda pair: pair.count(False, False)),
    Column("specialist\n%", lambda pair: pair.shares[0], percent),
    Column("MLLM\n%", lambda pair: pair.shares[1], percent),
    Column("either %\n(oracle)", "oracle", share_cell),
    Column("gain on\nthe better", lambda pair: pair.shares[2] - max(pair.shares[:2]), points),
    Column("either %\nby chance", "by_chance", percent),
    Column("excluded", "excluded", some),
)


def complementarity_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each pair of specialist and MLLM: the four counts, the three shares, and what the
    oracle gains.

    "By chance" is the accuracy of the oracle if the two were right independently of each other.
    """
    return table(PAIRS, [pair for run in runs for pair in specialist_pairs(run)])


@dataclass(frozen=True)
class _Guesses:
    """The records of an arm, of which some are guesses: whether each is right."""

    scores: PointScores
    guesses: list[bool]
    others: list[bool]


GUESSES: tuple[Column[_Guesses], ...] = (
    Column("contestant", "scores.contestant", text),
    Column("task", "scores.task", text),
    Column("n", lambda line: len(line.guesses) + len(line.others)),
    Column("guessed", lambda line: len(line.guesses)),
    Column("not\nguessed", lambda line: len(line.others)),
    Column("accuracy of\nthese %", lambda line: _mean(line.others), percent),
    Column("accuracy of\nguesses %", lambda line: _mean(line.guesses), percent),
)


def _mean(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def guess_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each arm that guessed: its records, how many are guesses, and the accuracy of both
    kinds."""
    lines = []
    for run in runs:
        guessed = set()
        for record in run.folder.last_records(holding=f'"{Guess.NOTE}'):
            if any(note.startswith(Guess.NOTE) for note in record.notes):
                guessed.add(record.key)
        for scores in run.points:
            line = _Guesses(scores, [], [])
            for entry in scores.all:
                is_guess = (scores.point.recorded_as, entry.sample, entry.draw) in guessed
                kind = line.guesses if is_guess else line.others
                kind.append(entry.verdict is Verdict.RIGHT)
            lines.append(line)
    return table(GUESSES, [line for line in lines if line.guesses])


def _two_digits(value: Any) -> str:
    return "" if value is None else f"{float(value):.2f}"


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
        (name, source, *(_two_digits(accuracies.get(task)) for task in tasks))
        for (name, source), accuracies in published.items()
    ]
    for name, rows_of in _values_here(runs, rows, given.keys()).items():
        here = [rows_of.get(task) for task in tasks]
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
    rows_of: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.slice or row.value is None or row.contestant not in names:
            continue
        for name in given & set(published_names(row)):
            rows_of.setdefault(row.contestant, {})[name] = row
    return rows_of


def _uses(node: Any) -> Iterator[str]:
    """Every `use` in a spec, at any depth."""
    if isinstance(node, Mapping):
        if "use" in node:
            yield str(node["use"])
        for inner in node.values():
            yield from _uses(inner)
    elif isinstance(node, list | tuple):
        for inner in node:
            yield from _uses(inner)
