"""The stability of the order of contestants under other markers and settings, and over draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from looktwice.eval.analysis.analyses import Analysis, make_table_builder
from looktwice.eval.analysis.contestants import MAX_CONTESTANTS
from looktwice.eval.analysis.shared_samples import Question
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    attribute_columns,
    estimate_cell,
    nonzero_cell,
    percent,
    table,
    text,
)
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import Clusters, Estimate, Floats, bootstrap_statistic
from looktwice.eval.statistics.paired import ValueMatrix
from looktwice.extras.logs.standings import RankChanges, compare_ranks
from looktwice.extras.studies.fragility import (
    Fragility,
    PublishedAccuracies,
    measure_fragilities,
    read_published,
    resample_means,
)
from looktwice.extras.studies.steadiness import find_complete_draws
from looktwice.pipelines.json_input import write_canonical

ORDER_NOTE = (
    "Each pair of contestants is compared on the samples that both have in every setting, over the"
    " tasks of both. `swap` is the probability that the two change places between two settings"
    " (markers, prompts, whatever was swept), or between two draws; a tie counts one half."
    " Intervals are 95 %, bootstrapped over clusters; in small samples swaps are overestimated."
)


@dataclass(frozen=True)
class Flip:
    """A pair of contestants, of which `leader` leads by `lead` under the default, and how often
    their order flips.

    Of `variant_count` styles and codecs, `reversal_count` reverse the order on all samples.
    `default_flip_share` is the share of resamples that reverse the order under the default alone,
    `flip_share` the share over all variants and resamples; a tie is not a flip.
    """

    task: str
    leader: str
    follower: str
    lead: float
    reversal_count: int
    variant_count: int
    default_flip_share: float
    flip_share: float


FLIP_COLUMNS: Columns[Flip] = (
    *attribute_columns("task"),
    Column("leads", "leader", text),
    Column("over", "follower", text),
    Column("by, points", "lead", percent),
    Column("styles that\nflip them", lambda flip: f"{flip.reversal_count} of {flip.variant_count}"),
    Column("by samples\nalone %", "default_flip_share", percent),
    Column("in all %", "flip_share", percent),
)


def make_flip_table(scored: Table) -> TextTable:
    """Build a table with a row for each pair of contestants of a run on a task."""
    flips = list[Flip]()
    for run in scored.scores:
        tasks = defaultdict[str, list[Fragility]](list)
        for fragility in measure_fragilities(run):
            tasks[fragility.task].append(fragility)
        flips += chain.from_iterable(map(find_rank_flips, tasks.values()))
    return table(FLIP_COLUMNS, flips)


def find_rank_flips(contestants: Sequence[Fragility]) -> Iterator[Flip]:
    """Yield, for each pair of contestants on one task that are not tied under the default, the
    leader and how often the order flips, on the samples and variants that both have."""
    for leader, rival in combinations(contestants, 2):
        mine, theirs = leader.values, rival.values
        names = [name for name in mine.arms if name in theirs.arms]
        place = {sample: number for number, sample in enumerate(theirs.units)}
        shared = mine.where(np.array([sample in place for sample in mine.units]))
        if not shared.units or not names or mine.arms[0] != theirs.arms[0]:
            continue
        columns = [place[sample] for sample in shared.units]
        gaps = np.array([shared[name] - theirs[name][columns] for name in names])
        lead = float(gaps[0].mean())
        if abs(lead) < 1e-9:
            continue
        drawn = resample_means(gaps, shared.clusters, leader.resample_count)
        turned = drawn * np.sign(lead) < -1e-9
        first, second = (leader, rival) if lead > 0 else (rival, leader)
        yield Flip(
            task=leader.task,
            leader=first.contestant,
            follower=second.contestant,
            lead=abs(lead),
            reversal_count=int((gaps.mean(axis=1) * np.sign(lead) < -1e-9).sum()),
            variant_count=len(names),
            default_flip_share=float(turned[:, 0].mean()),
            flip_share=float(turned.mean()),
        )


class RankMoves(NamedTuple):
    """The changes of models' ranks from the default to a style."""

    source: str
    task: str
    style: str
    model_count: int
    change: RankChanges


RANK_COLUMNS: Columns[RankMoves] = (
    *attribute_columns("source", "task", "style"),
    Column("models", "model_count"),
    Column("pairs\nflipped", "change.flipped"),
    Column("pairs\ntied", "change.tied"),
    Column("models\nmoved", "change.moved"),
    Column("largest\nmove", "change.furthest"),
    Column("tau-b", lambda line: None if isnan(line.change.tau) else f"{line.change.tau:.2f}"),
)


def find_rank_moves(run: RunScores) -> Iterator[RankMoves]:
    """Yield, by task and style, the changes of models' ranks from the default.

    The ranks are those of the run's models, if it has three or more, and of published models.
    """
    own: PublishedAccuracies = defaultdict(lambda: defaultdict(dict))
    for fragility in measure_fragilities(run):
        for style, accuracy in zip(fragility.values.arms, fragility.means.tolist(), strict=True):
            own[fragility.task][style][fragility.contestant] = 100 * accuracy
    published = read_published(run) if own else {}
    for source, accuracies in (("this run", own), ("published", published)):
        for task, by_style in accuracies.items():
            default, *styles = by_style.items()
            sign = -1 if task.endswith(" rank") else 1  # smaller ranks are better
            first = {model: sign * value for model, value in default[1].items()}
            for style, values in styles if len(first) > 2 else ():
                moved = {model: sign * value for model, value in values.items()}
                yield RankMoves(source, task, style, len(first), compare_ranks(first, moved))


@dataclass(frozen=True)
class _SwapRate:
    """The probability `swap` that two contestants change places between settings or draws; the
    first leads in `lead_count` of `count`."""

    count: int
    lead_count: int
    swap: Estimate

    @classmethod
    def build(
        cls, sides: Sequence[Sequence[Mapping[Question, float]]], clusters: Mapping[Question, str]
    ) -> _SwapRate | None:
        """Build the rate from the two contestants' values by setting, on the samples common to all
        settings; None without common samples or with a single setting."""
        count = min(map(len, sides))
        kept = [values for side in sides for values in side[:count]]
        every = ValueMatrix.of(dict(enumerate(kept)), clusters)
        shared = every.where(every.valid_mask())
        if count < 2 or not shared.units:
            return None
        first, rival = np.split(shared.value, 2)
        leads = first.mean(axis=1) > rival.mean(axis=1) + 1e-12
        return cls(count, int(leads.sum()), estimate_swap_rate(first, rival, shared.clusters))


class OrderLine(NamedTuple):
    """A pair of contestants, with the swap rates between settings and between draws."""

    contestant: str
    other: str
    rate_over_settings: _SwapRate | None
    rate_over_draws: _SwapRate | None

    @property
    def n(self) -> int:
        """The number of samples from which the swap rates are computed."""
        rate = self.rate_over_settings or self.rate_over_draws
        return rate.swap.n if rate else 0


def _format_leads(rate: _SwapRate | None) -> str:
    return f"{rate.lead_count} of {rate.count}" if rate else ""


ORDER_COLUMNS: Columns[OrderLine] = (
    *attribute_columns("contestant", "other"),
    Column("settings", "rate_over_settings.count"),
    Column("leads in", lambda line: _format_leads(line.rate_over_settings)),
    Column("swap between\nsettings %", "rate_over_settings.swap", estimate_cell),
    Column("draws", "rate_over_draws.count"),
    Column("swap between\ndraws %", "rate_over_draws.swap", estimate_cell),
    Column("n", "n", nonzero_cell),
)


def find_comparable_pairs(run: RunScores) -> Iterator[OrderLine]:
    """Yield the pairs of contestants that were asked under several settings or in several draws.
    Skip runs with `fragility:`, which have separate tables for this.
    """
    by_contestant = defaultdict[str, dict[str, list[PointScores]]](dict)
    for arm in () if run.config.get("fragility") else run.points:
        setting = write_canonical(arm.point.changes)
        by_contestant[arm.point.contestant].setdefault(setting, []).append(arm)
    if len(by_contestant) > MAX_CONTESTANTS:
        return
    for first, rival in combinations(by_contestant, 2):
        pair = by_contestant[first], by_contestant[rival]
        shared = [setting for setting in pair[0] if setting in pair[1]]
        if not shared:
            continue
        start = [side[shared[0]] for side in pair]
        is_drawn = all(map(_may_have_draws, start))
        if len(shared) < 2 and not is_drawn:
            continue  # skip early, because usually there is nothing to compare
        clusters = dict[Question, str]()
        for arm in (arm for arms in pair[0].values() for arm in arms):
            clusters |= {(arm.point.task_id, n): cluster for n, cluster in arm.clusters.items()}
        settings = [[_collect_values(side[setting]) for setting in shared] for side in pair]
        drawn = [_collect_values_by_draw(arms) if is_drawn else [] for arms in start]
        line = OrderLine(first, rival, *(_SwapRate.build(v, clusters) for v in (settings, drawn)))
        if line.rate_over_settings or line.rate_over_draws:
            yield line


def _may_have_draws(arms: Sequence[PointScores]) -> bool:
    return all(arm.point.draws > 1 or any(len(d) > 1 for d in arm.scored.values()) for arm in arms)


def _collect_values(arms: Sequence[PointScores]) -> dict[Question, float]:
    return {(arm.point.task_id, n): v for arm in arms for n, v in arm.comparable_values.items()}


def _collect_values_by_draw(arms: Sequence[PointScores]) -> list[dict[Question, float]]:
    """Return the values of each draw, on the samples that have all draws."""
    values = dict[Question, list[float]]()
    for arm in arms:
        for name, draws in find_complete_draws(arm).items():
            values[arm.point.task_id, name] = [draw.score.value for draw in draws]
    return [dict(zip(values, draw, strict=True)) for draw in zip(*values.values(), strict=False)]


FLIPS_ANALYSIS = Analysis(
    "flips",
    "Changes of the lead under other styles",
    make_flip_table,
    needs="a study with `fragility:` and two models",
    ending=make_flip_table,
)
RANK_MOVES_ANALYSIS = Analysis(
    "ranks",
    "Ranks under other styles",
    make_table_builder(RANK_COLUMNS, find_rank_moves),
    needs="a study with `fragility:` and three models",
)
ORDER_ANALYSIS = Analysis(
    "order",
    "Stability of the order",
    make_table_builder(ORDER_COLUMNS, find_comparable_pairs, keep_empty=False),
    ORDER_NOTE,
    wrap=False,
)


def estimate_swap_rate(
    values: ArrayLike, others: ArrayLike, clusters: Clusters | None = None
) -> Estimate:
    """Estimate the probability that two contestants swap ranks between two settings drawn at random
    from the given ones.

    `values` and `others` are (settings, n units): the same units under each marker, prompt or draw.
    A tie in one of the two settings counts one half. The interval is a cluster bootstrap over the
    units; with few units, noise adds swaps and biases the estimate upwards. Raises ValueError for
    fewer than two settings, and without units.
    """
    gaps = np.asarray(values, float) - np.asarray(others, float)
    if gaps.ndim != 2 or len(gaps) < 2:
        raise ValueError(
            f"a swap rate needs values under two or more settings, found the shape {gaps.shape}"
        )
    count = len(gaps)

    def swaps(
        means: Floats,
    ) -> Floats:  # (resamples, settings): the share of pairs with opposite signs
        signs = np.sign(np.round(means, 12))
        alike = (signs.sum(axis=1) ** 2 - np.square(signs).sum(axis=1)) / (count * (count - 1))
        return np.asarray((1 - alike) / 2)

    return bootstrap_statistic(gaps.T, clusters, swaps, 0.0)
