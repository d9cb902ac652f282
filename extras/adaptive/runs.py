"""The rounds of a staircase and of a race: which arm is asked which question next. A staircase asks
at the level whose answer is expected to be most informative about the threshold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from looktwice.eval.records.records import RunError
from looktwice.eval.runs.options import RunSummary
from looktwice.eval.runs.study import Study
from looktwice.eval.scoring.labels import as_number, label_with_changes
from looktwice.eval.scoring.metrics import compute_chance_levels
from looktwice.eval.statistics.intervals import Estimate, Floats
from looktwice.eval.statistics.paired import compare_paired
from looktwice.eval.tasks.base import make_random_order
from looktwice.extras.adaptive.functions import COARSE_GRID_STEP, PsychometricGrid, Threshold
from looktwice.extras.adaptive.race import Race, RaceResult, save_races
from looktwice.extras.adaptive.steering import Pool, Round, Steering
from looktwice.extras.adaptive.thresholds import ThresholdSettings
from looktwice.pipelines.config.spec import Arm

Arms = Sequence[Arm]
NamedArms = Mapping[str, Arm]

make_coarse = lru_cache(maxsize=64)(partial(replace, grid_step=COARSE_GRID_STEP))
"""Return the same psychometric functions on a coarser grid, which is precise enough to choose the
next level."""


@dataclass(eq=False)
class Staircase:
    """The answers so far, by level, and the choice of the next level.

    The next level is the one whose answer is expected to reduce the entropy of the threshold most,
    with slope and lapse rate integrated out: the psi-marginal method (Kontsevich and Tyler 1999;
    Prins 2013). The first two questions are at the ends of the levels, so that later fits know the
    range. `model` holds the candidate functions.
    """

    model: PsychometricGrid
    answer_counts: Floats = field(init=False)
    correct_counts: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.answer_counts = np.zeros(len(self.model.levels))
        self.correct_counts = np.zeros(len(self.model.levels))
        self._coarse = make_coarse(self.model)
        self._weights = self._coarse.prior

    def choose(self, available: Collection[float] | None = None) -> float:
        """Return the next level, among the `available` ones or, by default, among all. Raises
        ValueError if none is left."""
        usable = [
            number
            for number, level in enumerate(self.model.levels)
            if available is None or level in available
        ]
        if not usable:
            raise ValueError("no level is left to ask")
        for end in (len(self.model.levels) - 1, 0):
            if end in usable and not self.answer_counts[end]:
                return self.model.levels[end]
        # (levels, thresholds)
        hits = np.einsum("ltsr,tsr->lt", self._coarse.accuracies[usable], self._weights)
        misses = self._weights.sum(axis=(1, 2)) - hits
        expected = _compute_entropy(hits) + _compute_entropy(misses)
        return self.model.levels[usable[int(expected.argmin())]]

    def add(self, level: float, value: float) -> None:
        """Add an answer at a level: 1 if correct, 0 if wrong, or a value between."""
        number = self.model.levels.index(level)
        self.answer_counts[number] += 1
        self.correct_counts[number] += value
        accuracy = self._coarse.accuracies[number]
        weights = self._weights * accuracy**value * (1 - accuracy) ** (1 - value)
        self._weights = weights / weights.sum()

    def find_interval(self) -> tuple[float, float, float]:
        """Return the threshold's interval and median so far: (lower end, median, upper end)."""
        return self.model.find_interval(self.answer_counts, self.correct_counts)

    def estimate_threshold(self) -> Threshold:
        """Estimate the threshold from the answers so far."""
        return self.model.estimate_threshold(self.answer_counts, self.correct_counts)


def _compute_entropy(parts: Floats) -> Floats:
    """Return the entropy of each row after normalisation, times the row's sum."""
    total = parts.sum(axis=1, keepdims=True)
    shares = parts / np.maximum(total, 1e-300)
    return np.asarray(-(parts * np.log(np.maximum(shares, 1e-300))).sum(axis=1))


@dataclass(eq=False)
class Staircases(Steering):
    """A staircase for every arm: at most `questions` questions each, ended early once its interval
    is at most `width` wide.

    `width` is in units of the level; on a logarithmic scale it is the ratio of the interval's ends;
    0 asks all questions. Levels are those of the task's questions, and each question is asked once.
    Without a direction, accuracy is assumed to rise with the level.
    """

    kind = "staircase"
    settings: ThresholdSettings
    questions: int = 60
    width: float = 0.0
    seed: int = 0

    def count_answers(self, arms: Arms, samples: int) -> int:
        """Return the maximum number of questions for all arms together."""
        return len(arms) * min(self.questions, samples)

    def choose_rounds(self, arms: Arms, pool: Pool) -> Iterator[Round]:
        """Yield rounds of one question for every arm whose staircase has not ended. Raises RunError
        for questions without levels."""
        left = {arm.id: self._group_by_level(arm, pool) for arm in arms}
        stairs = {arm.id: Staircase(self._build_model(arm, pool, left[arm.id])) for arm in arms}
        climbing = list(arms)
        for _ in range(self.questions):
            asked: dict[str, list[Arm]] = defaultdict(list)
            levels = dict[str, float]()
            for arm in climbing:
                levels[arm.id] = stairs[arm.id].choose(list(filter(left[arm.id].get, left[arm.id])))
                asked[left[arm.id][levels[arm.id]].pop()].append(arm)
            yield list(asked.items())
            for sample, those in asked.items():
                for arm in those:
                    if (value := self.answers[arm.id, sample]) is not None:
                        stairs[arm.id].add(levels[arm.id], value)
                    if not any(left[arm.id].values()) or self._is_done(stairs[arm.id]):
                        climbing.remove(arm)
            if not climbing:
                return

    def _group_by_level(self, arm: Arm, pool: Pool) -> dict[float, list[str]]:
        """Group the ids of questions with a known answer by level, in a random order that all arms
        share."""
        levels: dict[float, list[str]] = defaultdict(list)
        for name in sorted(
            pool.rows, key=lambda name: make_random_order(name, self.seed), reverse=True
        ):
            level = as_number(pool.rows[name].meta.get(self.settings.field))
            if level is not None and pool.rows[name].answer is not None:
                levels[level].append(name)
        if len(levels) < 2:
            fields = sorted({name for row in pool.rows.values() for name in row.meta})
            raise RunError(
                f"{arm.task_name}: a staircase needs two or more different numbers in"
                f" {self.settings.field!r}, but the questions have {len(levels)}; the fields of the"
                f" questions are {', '.join(fields) or 'none'}"
            )
        return dict(sorted(levels.items()))

    def _build_model(
        self, arm: Arm, pool: Pool, levels: Mapping[float, object]
    ) -> PsychometricGrid:
        keyed = {name: row for name, row in pool.rows.items() if row.answer is not None}
        guess = compute_chance_levels(keyed, self.scorers[arm.id].scorer).get("accuracy", 0.0)
        _, target, log, direction = self.settings
        try:
            return PsychometricGrid(tuple(levels), guess, target, log, direction or "rising")
        except ValueError as exc:
            raise RunError(f"{arm.task_name}: {exc}") from exc

    def _is_done(self, stairs: Staircase) -> bool:
        if not self.width or stairs.answer_counts.sum() < 10:
            return False
        low, _, high = stairs.find_interval()
        return (high / low if self.settings.is_log else high - low) <= self.width


@dataclass(frozen=True)
class HeldOutSplit:
    """The samples with a known answer, ordered by the hash of their ids and split in two.
    `race_units` lists units of samples that share a group or a picture, each with the number of
    samples up to its end; `held_out` samples confirm the winner. `clusters` maps a sample to its
    cluster."""

    race_units: list[tuple[list[str], int]]
    held_out: list[str]
    clusters: Mapping[str, str]

    @classmethod
    def from_pool(cls, pool: Pool, seed: int, held_out: float) -> HeldOutSplit:
        """Split the pool, holding out the share `held_out` of its samples; no unit is divided."""
        clusters = dict[str, str]()
        for name, row in pool.rows.items():
            if row.answer is not None:
                clusters[name] = row.shared_cluster or name
        names = sorted(
            clusters,
            key=lambda name: (
                make_random_order(clusters[name], seed),
                make_random_order(name, seed),
            ),
        )
        units = [list(unit) for _, unit in groupby(names, key=clusters.__getitem__)]
        ends, most = [*accumulate(map(len, units))], len(names) - round(held_out * len(names))
        raced = [pair for pair in zip(units, ends, strict=True) if pair[1] <= most]
        return cls(raced, names[raced[-1][1] if raced else 0 :], clusters)


@dataclass(eq=False)
class Races(Steering):
    """A race between the arms of every task; the held-out samples, a share `held_out`, go to the
    winner and its rival only.

    Samples come in a random order, about `step` at a time; `level` is that of `Race`. Samples that
    share a group or a picture are asked together and make one bet, on their mean; all or none of
    them are held out.
    """

    kind = "race"
    level: float = 0.05
    held_out: float = 0.3
    step: int = 10
    seed: int = 0
    results: list[RaceResult] = field(default_factory=list, init=False)

    def end(self, study: Study, summary: RunSummary) -> Iterator[str]:
        """Save the races next to the records."""
        if summary.written_count or summary.kept_count:
            yield f"race: {save_races(summary.folder, self.results)}"

    def count_answers(self, arms: Arms, samples: int) -> int:
        """Return the size of the full grid."""
        return len(arms) * samples

    def choose_rounds(self, arms: Arms, pool: Pool) -> Iterator[Round]:
        """Yield rounds of samples for the remaining arms and, at the end, the held-out samples for
        the winner and its rival."""
        field, split = label_arms(arms), HeldOutSplit.from_pool(pool, self.seed, self.held_out)
        race = Race([*field], self.level)
        yield from self.run_heats(race, field, split.race_units)
        yield from self.confirm(race, field, split)

    def run_heats(
        self, race: Race, arms: NamedArms, units: Sequence[tuple[Sequence[str], int]]
    ) -> Iterator[Round]:
        """Yield rounds of these units of samples for the remaining arms until only one remains."""
        for _, block in groupby(units, key=lambda pair: (pair[1] - 1) // self.step):
            samples, running = [unit for unit, _ in block], [arms[name] for name in race.remaining]
            yield [(sample, running) for unit in samples for sample in unit]
            for unit in samples:
                self._add(race, arms, unit)
            if race.winner:
                return

    def confirm(
        self, race: Race, arms: NamedArms, split: HeldOutSplit, opponent: str = ""
    ) -> Iterator[Round]:
        """Ask the winner and its `opponent` (default: its rival) the held-out samples, then record
        the result."""
        confirmation, lead = None, race.winner
        opponent = opponent or (race.rival if lead else "")
        if lead and lead != opponent and split.held_out:
            pair = arms[lead], arms[opponent]
            yield [(sample, pair) for sample in split.held_out]
            confirmation = self._compare(pair, split)
        mine = {arm.id for arm in arms.values()}
        calls = sum(key[0] in mine for key in self.answers)
        task = next(iter(arms.values())).task_name
        result = RaceResult(task, race, len(split.clusters), calls, confirmation, opponent)
        self.results.append(result)

    def _compare(self, pair: Arms, split: HeldOutSplit) -> Estimate | None:
        mine, theirs, shared = list[float](), list[float](), list[str]()
        for sample in split.held_out:
            first, second = (self.answers.get((arm.id, sample)) for arm in pair)
            if first is not None and second is not None:
                mine.append(first)
                theirs.append(second)
                shared.append(split.clusters[sample])
        return compare_paired(mine, theirs, shared) if shared else None

    def _add(self, race: Race, arms: NamedArms, samples: Sequence[str]) -> None:
        """Add one bet on the mean over the samples of a unit, without those on which a remaining
        arm failed."""
        answered = list[Any]()
        for sample in samples:
            row = [self.answers.get((arms[name].id, sample)) for name in race.remaining]
            if None not in row:
                answered.append(row)
        if answered:
            means = np.mean(np.array(answered, float), axis=0).tolist()
            race.add(dict(zip(race.remaining, means, strict=True)))


def label_arms(arms: Arms) -> dict[str, Arm]:
    """Return the arms of one task by their labels in a race. Raises RunError for fewer than two."""
    named = {label_with_changes(arm.contestant, arm.changes): arm for arm in arms}
    if len(named) < 2:
        raise RunError(
            f"{arms[0].task_name}: a race needs two arms or more, found {', '.join(named)}"
        )
    return named
