"""A search for the best arm of a sweep within a budget of answers. The winner is confirmed on
samples that were not used to choose it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from looktwice.eval.records.records import RunError
from looktwice.eval.runs.companions import RunContext
from looktwice.eval.runs.options import RunSummary
from looktwice.eval.runs.study import Study
from looktwice.extras.adaptive.race import Race, RaceResult
from looktwice.extras.adaptive.runs import Arms, HeldOutSplit, NamedArms, Races, label_arms
from looktwice.extras.adaptive.steering import Pool, Round
from looktwice.extras.adaptive.winner import find_marker_slots, finish_discovery
from looktwice.pipelines.config.spec import Arm

DEFAULT_BUDGET_SHARE = 0.3
"""Share of the grid's answers to spend if no budget is set."""
MIN_FIRST_SAMPLES = 4
"""Minimum number of samples in the first round; means over fewer cannot rank arms."""
TABLE_STYLES = (
    "default",
    "color blue",
    "font scale 0.2",
    "marker type square",
    "radius 3",
    "text offset below",
)
"""The marker styles in VPBench's result tables."""


def size_first_round(arms: int, samples: int, answers: int) -> int:
    """Return the number of samples for the first round of successive halving: the largest for which
    all rounds together need at most `answers` answers.

    Each round asks half as many arms twice as many samples as the round before, so that all rounds
    cost the same (Karnin, Koren and Somekh 2013). No sample is asked twice; samples that the last
    rounds cannot use are asked in the first.
    """

    def count_answers(first: int) -> int:
        left, rest, total = arms, samples, 0
        while left > 1:
            more = min(first, rest)
            total, rest = total + left * more, rest - more
            left, first = (left + 1) // 2, 2 * first
        return total

    return bisect_right(range(1, samples + 1), answers, key=count_answers)


class Winner(NamedTuple):
    """The winner on a task, the baseline, the result of the race, and the held-out samples on which
    the winner is tried under other styles."""

    arm: Arm
    baseline: Arm
    result: RaceResult
    samples: list[str]


@dataclass(eq=False)
class Discovery(Races):
    """A search for the best arm of every task with `budget` answers in total (0: 30 % of the grid),
    divided between the tasks in proportion to their grids.

    A share `held_out` of the samples is reserved for the winner and the baseline, which is the
    first arm if the study names none. It takes at most a quarter of the budget; if an arm draws
    marks, trying the `styles` takes at most another quarter. The rest goes to a race in which the
    worse half also drops out after every round.
    """

    kind = "discovery"
    budget: int = 0
    styles: Sequence[str] = TABLE_STYLES
    winners: list[Winner] = field(default_factory=list, init=False)
    budget_share: float = DEFAULT_BUDGET_SHARE

    def begin(self, run: RunContext) -> None:
        """Divide the budget between the tasks and prepare the run. Raises RunError for settings
        that do not allow asking one question at a time."""
        groups, planned = run.questions.group_arms(), run.questions.planned_counts
        grids = [len(arms) * planned[task] for (task, *_), arms in groups.items()]
        self.budget_share = (
            min(1.0, self.budget / sum(grids)) if self.budget else DEFAULT_BUDGET_SHARE
        )
        super().begin(run)

    def end(self, study: Study, summary: RunSummary) -> Iterator[str]:
        """Write the winners as studies, try them under the styles, and save the races."""
        if not summary.is_stopped:
            yield from finish_discovery(self, study)
        yield from super().end(study, summary)

    def count_answers(self, arms: Arms, samples: int) -> int:
        """Return this task's share of the budget, in answers."""
        return int(self.budget_share * len(arms) * samples)

    def choose_rounds(self, arms: Arms, pool: Pool) -> Iterator[Round]:
        """Yield the rounds of successive halving, then the held-out samples for the winner and the
        baseline. Raises RunError if the budget is too small."""
        named, allowance = label_arms(arms), self.count_answers(arms, len(pool.rows))
        kept = min(self.held_out, allowance / 8 / max(1, len(pool.rows)))
        split, styled = HeldOutSplit.from_pool(pool, self.seed, kept), list[str]()
        if self.styles and any(map(find_marker_slots, arms)):
            styled = split.held_out[: allowance // 4 // len(self.styles)]
        left = allowance - 2 * len(split.held_out) - len(self.styles) * len(styled)
        race, place = Race([*named], self.level), 0
        while race.winner is None:
            more = size_first_round(len(race.remaining), len(split.race_units) - place, left)
            if not place and more < MIN_FIRST_SAMPLES:
                raise RunError(self._describe_small_budget(arms, len(pool.rows)))
            units, before = split.race_units[place : place + more], len(self.answers)
            yield from self.run_heats(race, named, units)
            self._drop_failing(race, named, [unit for unit, _ in units])
            left, place = left - (len(self.answers) - before), place + more
            if race.winner is None:
                race.halve()
        baseline = next((name for name, arm in named.items() if arm.baseline), next(iter(named)))
        yield from self.confirm(race, named, split, baseline)
        winner = Winner(named[race.winner], named[baseline], self.results[-1], styled)
        self.winners.append(winner)

    def _drop_failing(self, race: Race, arms: NamedArms, units: Sequence[Sequence[str]]) -> None:
        """Drop arms that failed on all of these samples, and add the answers of the others to the
        race. Raises RunError if all arms failed."""
        samples, failing = list(chain.from_iterable(units)), list[str]()
        for name in race.remaining:
            if all(self.answers.get((arms[name].id, sample)) is None for sample in samples):
                failing.append(name)
        if samples and failing == race.remaining:
            raise RunError(f"all {len(failing)} arms failed on all of {len(samples)} samples")
        if samples and failing:
            race.dropped |= dict.fromkeys(failing, (len(race.values), "a failure"))
            for unit in units:
                self._add(race, arms, unit)

    def _describe_small_budget(self, arms: Arms, samples: int) -> str:
        grid, rounds = len(arms) * samples, math.ceil(math.log2(len(arms)))
        enough = 2 * MIN_FIRST_SAMPLES * len(arms) * (rounds + 1)
        need = f"--budget {enough} or more (the full grid has {grid:,} answers)"
        if enough > grid:
            least = enough // len(arms)
            need = f"{least} samples or more (`n`, --limit) with --budget {enough}"
        return (
            f"{arms[0].task_name}: {self.count_answers(arms, samples):,} answers are too few to"
            f" compare {len(arms)} arms on {samples:,} samples; use {need}"
        )
