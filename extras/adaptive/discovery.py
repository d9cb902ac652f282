"""The search for the best arm of a sweep on a budget of answers, confirmed on samples that did not
choose it; and what chooses the questions of a run, made from the entry `choose` of its study."""

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
from looktwice.extras.adaptive.runs import Arms, NamedArms, Races, Split, by_label
from looktwice.extras.adaptive.steering import Pool, Round
from looktwice.extras.adaptive.winner import drawing_slots, finish_discovery
from looktwice.pipelines.config.spec import Arm

SHARE = 0.3
"""Of all answers of the grid, where no budget is named."""
FEWEST = 4
"""Samples in the first round; means over fewer say nothing of who is better."""
STYLES = (
    "default",
    "color blue",
    "font scale 0.2",
    "marker type square",
    "radius 3",
    "text offset below",
)
"""Those of VPBench's result tables."""


def first_round(arms: int, samples: int, answers: int) -> int:
    """How many samples to ask the arms that are left, if they are halved round after round: the
    most with which no round asks more than `answers` have room for.

    Each round asks twice as many samples as the one before, of half as many arms, so that rounds
    cost the same (Karnin, Koren and Somekh 2013); of `samples` none is asked twice, and what the
    last rounds leave goes to the first.
    """

    def cost(first: int) -> int:
        left, rest, total = arms, samples, 0
        while left > 1:
            more = min(first, rest)
            total, rest = total + left * more, rest - more
            left, first = (left + 1) // 2, 2 * first
        return total

    return bisect_right(range(1, samples + 1), answers, key=cost)


class Winner(NamedTuple):
    """Who won on a task, the baseline, how it ended, and the held-out samples on which it is tried
    under other styles."""

    arm: Arm
    baseline: Arm
    result: RaceResult
    samples: list[str]


@dataclass(eq=False)
class Discovery(Races):
    """The best of the arms of every task, for `budget` answers in all (0: 30 % of the grid), which
    are shared by the tasks as their grids are large.

    A share of the samples, `held_out`, is kept for the winner and the baseline, the first arm; it
    takes a quarter of the budget at most, and where an arm draws marks `styles` another. The rest
    is a race in which the worse half falls out after every round as well.
    """

    kind = "discovery"
    budget: int = 0
    styles: Sequence[str] = STYLES
    winners: list[Winner] = field(default_factory=list, init=False)
    share: float = SHARE

    def begin(self, run: RunContext) -> None:
        """Choose what this run asks. Raises RunError for what cannot be asked one by one."""
        groups, planned = run.questions.groups(), run.questions.planned
        grids = [len(arms) * planned[task] for (task, *_), arms in groups.items()]
        self.share = min(1.0, self.budget / sum(grids)) if self.budget else SHARE
        super().begin(run)

    def end(self, study: Study, summary: RunSummary) -> Iterator[str]:
        """Write the winners as studies, try them under the styles, and save the races."""
        if not summary.stopped:
            yield from finish_discovery(self, study)
        yield from super().end(study, summary)

    def count(self, arms: Arms, samples: int) -> int:
        """The task's part of the budget."""
        return int(self.share * len(arms) * samples)

    def rounds(self, arms: Arms, pool: Pool) -> Iterator[Round]:
        """Halving, and then what was held out for the winner and the baseline. Raises RunError for
        a budget with which nothing can be told."""
        named, allowance = by_label(arms), self.count(arms, len(pool.rows))
        kept = min(self.held_out, allowance / 8 / max(1, len(pool.rows)))
        split, styled = Split.of(pool, self.seed, kept), list[str]()
        if self.styles and any(map(drawing_slots, arms)):
            styled = split.kept[: allowance // 4 // len(self.styles)]
        left = allowance - 2 * len(split.kept) - len(self.styles) * len(styled)
        race, place = Race([*named], self.level), 0
        while race.winner is None:
            more = first_round(len(race.left), len(split.raced) - place, left)
            if not place and more < FEWEST:
                raise RunError(self._say_too_little(arms, len(pool.rows)))
            units, before = split.raced[place : place + more], len(self.answers)
            yield from self.heats(race, named, units)
            self._drop_failing(race, named, [unit for unit, _ in units])
            left, place = left - (len(self.answers) - before), place + more
            if race.winner is None:
                race.halve()
        baseline = next((name for name, arm in named.items() if arm.baseline), next(iter(named)))
        yield from self.confirm(race, named, split, baseline)
        winner = Winner(named[race.winner], named[baseline], self.results[-1], styled)
        self.winners.append(winner)

    def _drop_failing(self, race: Race, arms: NamedArms, units: Sequence[Sequence[str]]) -> None:
        """Let arms fall out that failed on all of these samples, and take in what the others
        answered. Raises RunError where nobody did."""
        samples, failing = list(chain.from_iterable(units)), list[str]()
        for name in race.left:
            if all(self.answers.get((arms[name].id, sample)) is None for sample in samples):
                failing.append(name)
        if samples and failing == race.left:
            raise RunError(f"all {len(failing)} arms failed on all of {len(samples)} samples")
        if samples and failing:
            race.dropped |= dict.fromkeys(failing, (len(race.values), "a failure"))
            for unit in units:
                self._add(race, arms, unit)

    def _say_too_little(self, arms: Arms, samples: int) -> str:
        grid, rounds = len(arms) * samples, math.ceil(math.log2(len(arms)))
        enough = 2 * FEWEST * len(arms) * (rounds + 1)
        need = f"{enough:,} are enough (--budget), of {grid:,} answers of the full grid"
        if enough > grid:
            least = enough // len(arms)
            need = f"{least} samples (`n`, --limit) are enough, with --budget {enough}"
        return (
            f"{arms[0].task_name}: {self.count(arms, samples):,} answers are too few to tell"
            f" {len(arms)} arms apart on {samples:,} samples; about {need}"
        )
