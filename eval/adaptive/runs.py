"""The rounds of a staircase and of a race: which question comes next for which arm."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import ClassVar

import numpy as np

from looktwice.eval.adaptive.race import Confirmation, Race, confirm
from looktwice.eval.adaptive.staircase import Staircase
from looktwice.eval.psychometrics.functions import Psychometric
from looktwice.eval.psychometrics.thresholds import Along
from looktwice.eval.records.records import RunError
from looktwice.eval.runs.steering import Pool, Round, Steering
from looktwice.eval.scoring.chance import chance_levels
from looktwice.eval.scoring.labels import as_number, label_with_changes
from looktwice.pipelines.config.arm import Arm


@dataclass(eq=False)
class Staircases(Steering):
    """A staircase for every arm: at most `questions` each, and no more once its interval is `width`
    wide or less.

    `width` is in units of the level, on a logarithmic scale the ratio of the interval's ends; 0
    asks all questions. Levels are those that the task's questions have; each question is asked
    once. Without a direction accuracy is taken to rise with the level.
    """

    kind: ClassVar[str] = "staircase"
    along: Along
    questions: int = 60
    width: float = 0.0
    seed: int = 0

    def count(self, arms: Sequence[Arm], samples: int) -> int:
        """So many questions for each arm."""
        return len(arms) * min(self.questions, samples)

    def rounds(self, arms: Sequence[Arm], pool: Pool) -> Iterator[Round]:
        """One question for every arm that still climbs. Raises RunError for questions without
        levels."""
        left = {arm.id: self._by_level(arm, pool) for arm in arms}
        stairs = {arm.id: Staircase(self._model(arm, pool, left[arm.id])) for arm in arms}
        climbing = list(arms)
        for _ in range(self.questions):
            asked: dict[str, list[Arm]] = defaultdict(list)
            for arm in climbing:
                level = stairs[arm.id].choose(
                    [each for each, names in left[arm.id].items() if names]
                )
                asked[left[arm.id][level].pop()].append(arm)
            yield list(asked.items())
            for sample, those in asked.items():
                for arm in those:
                    if (value := self.answers[arm.id, sample]) is not None:
                        stairs[arm.id].add(self._level(pool, sample), value)
            climbing = [
                arm
                for arm in climbing
                if any(left[arm.id].values()) and not self._is_done(stairs[arm.id])
            ]
            if not climbing:
                return

    def _by_level(self, arm: Arm, pool: Pool) -> dict[float, list[str]]:
        """The ids of the questions with a key by level, in a random order that all arms share."""
        levels: dict[float, list[str]] = defaultdict(list)
        for name in sorted(pool.rows, key=lambda name: rank(name, self.seed), reverse=True):
            level = as_number(pool.rows[name].meta.get(self.along.field))
            if level is not None and pool.rows[name].answer is not None:
                levels[level].append(name)
        if len(levels) < 2:
            fields = sorted({name for row in pool.rows.values() for name in row.meta})
            raise RunError(
                f"{arm.task_name}: its questions have {len(levels)} levels of {self.along.field!r},"
                " and a staircase needs two or more numbers; their fields are"
                f" {', '.join(fields) or 'none'}"
            )
        return dict(sorted(levels.items()))

    def _model(self, arm: Arm, pool: Pool, levels: Mapping[float, object]) -> Psychometric:
        keyed = {name: row for name, row in pool.rows.items() if row.answer is not None}
        guess = chance_levels(keyed, self.scorers[arm.id].scorer).get("accuracy", 0.0)
        _, target, log, direction = self.along
        try:
            return Psychometric(tuple(levels), guess, target, log, direction or "rising")
        except ValueError as exc:
            raise RunError(f"{arm.task_name}: {exc}") from exc

    def _level(self, pool: Pool, sample: str) -> float:
        return as_number(pool.rows[sample].meta.get(self.along.field)) or 0.0

    def _is_done(self, stairs: Staircase) -> bool:
        if not self.width or stairs.asked.sum() < 10:
            return False
        low, _, high = stairs.limits()
        return (high / low if self.along.log else high - low) <= self.width


@dataclass(frozen=True)
class RaceResult:
    """How a race on a task ended: the state of the race, the calls of all arms, and what the
    held-out samples say."""

    task: str
    race: Race
    samples: int
    calls: int
    confirmation: Confirmation | None


@dataclass(eq=False)
class Races(Steering):
    """A race between the arms of every task; `held_out` is the share of samples that only winner
    and rival are asked.

    Samples come in a random order, about `step` of them at a time; `level` as for `Race`. Samples
    that share a group or a picture come together and are one bet, on their mean; none of them is
    held out from the others.
    """

    kind: ClassVar[str] = "race"
    level: float = 0.05
    held_out: float = 0.3
    step: int = 10
    seed: int = 0
    results: list[RaceResult] = field(default_factory=list, init=False)

    def count(self, arms: Sequence[Arm], samples: int) -> int:
        """The full grid."""
        return len(arms) * samples

    def rounds(self, arms: Sequence[Arm], pool: Pool) -> Iterator[Round]:
        """The next samples for the arms that are left; at the end, what was held out for the winner
        and its rival."""
        by_name = {label_with_changes(arm.contestant, arm.changes): arm for arm in arms}
        if len(by_name) < 2:
            raise RunError(
                f"{arms[0].task_name}: a race needs two arms or more, found {', '.join(by_name)}"
            )
        clusters = {
            name: row.shared or name for name, row in pool.rows.items() if row.answer is not None
        }
        names = sorted(
            clusters, key=lambda name: (rank(clusters[name], self.seed), rank(name, self.seed))
        )
        units = [list(unit) for _, unit in groupby(names, key=clusters.__getitem__)]
        ends, most = [*accumulate(map(len, units))], len(names) - round(self.held_out * len(names))
        raced, race = (
            [unit for unit, end in zip(units, ends, strict=True) if end <= most],
            Race([*by_name], self.level),
        )
        kept = [sample for unit in units[len(raced) :] for sample in unit]
        for _, block in groupby(
            zip(raced, ends, strict=False), key=lambda unit: (unit[1] - 1) // self.step
        ):
            samples, running = [unit for unit, _ in block], [by_name[name] for name in race.left]
            yield [(sample, running) for unit in samples for sample in unit]
            for unit in samples:
                self._add(race, by_name, unit)
            if race.winner:
                break
        confirmation = None
        if race.winner and kept:
            pair = by_name[race.winner], by_name[race.rival]
            yield [(sample, pair) for sample in kept]
            both = [
                [clusters[sample], *(self.answers.get((arm.id, sample)) for arm in pair)]
                for sample in kept
            ]
            if whole := [row for row in both if None not in row]:
                shared, mine, theirs = zip(*whole, strict=True)
                confirmation = confirm(race.rival, mine, theirs, shared)
        calls = sum(key[0] in {arm.id for arm in arms} for key in self.answers)
        self.results.append(RaceResult(arms[0].task_name, race, len(names), calls, confirmation))

    def _add(self, race: Race, by_name: Mapping[str, Arm], samples: Sequence[str]) -> None:
        """Samples that share something, as one; one of them counts where no arm that is still in
        the race failed it."""
        values = [
            [self.answers.get((by_name[name].id, sample)) for name in race.left]
            for sample in samples
        ]
        answered = [row for row in values if None not in row]
        if answered:
            race.add(
                dict(
                    zip(race.left, np.mean(np.array(answered, float), axis=0).tolist(), strict=True)
                )
            )


def rank(name: str, seed: int) -> bytes:
    """The place of a sample in a random order that depends on its id and the seed alone."""
    return hashlib.sha256(f"{seed}\n{name}".encode()).digest()
