"""The metrics of one point and of a contestant over its tasks, as rows of the long table.

With several draws a sample's value is the mean over its draws; intervals and tests are over samples, and the
verdicts are counted per draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from looktwice.eval.scoring.stats import Paired, paired, stratified, wilson
from looktwice.eval.scoring.verdict import PointScores, Scored, Verdict

ANSWERED = (Verdict.RIGHT, Verdict.WRONG, Verdict.HIDDEN)
COLUMNS = (
    "run", "point", "contestant", "task", "slice", "metric", "value", "low", "high", "n", "n_groups", "right",
    "wrong", "unreadable", "failed", "delta", "p", "tokens_in", "tokens_out", "cost", "split", "label_version",
    "reader",
)  # fmt: skip
"""The columns of report.csv; a Row holds a few more that only the printed tables show."""


@dataclass(frozen=True)
class Row:
    """A line of the long table; shares lie in 0..1 and None means: does not apply.

    Beyond the columns of the file: `missing` draws that were never asked, and of the paired test `against` (the
    baseline's label), on how many samples the two differ, how many fell out because a side FAILED or is missing,
    and p after Holm's correction over the run's comparisons. `tasks` is the number of tasks behind a mean, `unit`
    what a benchmark's own metric counts (sample, pair, image, group).
    """

    run: str
    point: str
    contestant: str
    task: str
    slice: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    n_groups: int | None = None
    right: int | None = None
    wrong: int | None = None
    unreadable: int | None = None
    failed: int | None = None
    delta: float | None = None
    p: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    split: str = ""
    label_version: str = ""
    reader: str = ""
    missing: int = 0
    hidden: int = 0
    against: str = ""
    discordant: int | None = None
    fell_out: int | None = None
    p_holm: float | None = None
    name: str = ""
    tasks: int = 1
    unit: str = ""


@dataclass(frozen=True)
class Metric:
    """The value of each sample (or of each that the metric is over), by sample id."""

    values: Mapping[str, float] = field(default_factory=dict)

    def fill(self, row: Row, name: str) -> Row:
        """The row with this metric's mean and Wilson interval; empty where there is no sample."""
        n, total = len(self.values), sum(self.values.values())
        if not n:
            return replace(row, metric=name, value=None, low=None, high=None, n=0)
        low, high = wilson(total, n)
        return replace(row, metric=name, value=total / n, low=low, high=high, n=n)


def accuracy(scores: PointScores) -> Metric:
    """RIGHT over all samples with a key: what is wrong, unreadable, failed or missing counts 0."""
    keyed = (name for name, row in scores.samples.items() if row.answer is not None)
    return Metric({name: _mean(s.score.value if s else 0.0 for s in scores.draws(name)) for name in keyed})


def accuracy_answered(scores: PointScores) -> Metric:
    """RIGHT/(RIGHT + WRONG): over the samples that were answered at all."""
    judged = {name: [s for s in scores.draws(name) if s and s.verdict in ANSWERED[:2]] for name in scores.samples}
    return Metric({name: _mean(s.score.value for s in draws) for name, draws in judged.items() if draws})


def coverage(scores: PointScores) -> Metric:
    """The share of samples that were answered, right or wrong."""
    return Metric({name: _mean(_is_answered(s) for s in scores.draws(name)) for name in scores.samples})


METRICS = {"accuracy": accuracy, "accuracy_answered": accuracy_answered, "coverage": coverage}


def measure(scores: PointScores, row: Row) -> list[Row]:
    """The rows of one point (or one slice of it): `row` holds its names, and comes back once per metric.

    A row "missing" with the share of draws that have no record is there only where there are some. Tokens and
    counts stand on every row of the point but are its own only once: sum them over the accuracy rows.
    """
    counts = Counter(s.verdict if s else None for name in scores.samples for s in scores.draws(name))
    groups = {s.score.group for s in scores.all if s.score.group}
    filled = replace(
        row,
        right=counts[Verdict.RIGHT],
        wrong=counts[Verdict.WRONG],
        unreadable=counts[Verdict.UNREADABLE],
        failed=counts[Verdict.FAILED],
        hidden=counts[Verdict.HIDDEN],
        missing=counts[None],
        n_groups=len(groups) or None,
        tokens_in=sum(s.tokens_in for s in scores.all),
        tokens_out=sum(s.tokens_out for s in scores.all),
    )
    rows = [metric(scores).fill(filled, name) for name, metric in METRICS.items()]
    if counts[None]:
        rows.append(replace(filled, metric="missing", value=counts[None] / sum(counts.values()), n=len(scores.samples)))
    return rows


def comparable(scores: PointScores) -> dict[str, float]:
    """The values of the samples that a paired test may use: those with a key and a draw that did not fail."""
    values: dict[str, float] = {}
    for name, row in scores.samples.items():
        held = [s.score.value for s in scores.draws(name) if s and s.verdict is not Verdict.FAILED]
        if held and row.answer is not None:
            values[name] = _mean(held)
    return values


@dataclass(frozen=True)
class Comparison:
    """A paired test and how many samples fell out of it; `result` is None where none was left."""

    result: Paired | None
    fell_out: int

    def fill(self, row: Row, against: str) -> Row:
        """The row with the comparison in it."""
        if self.result is None:
            return replace(row, against=against, fell_out=self.fell_out)
        test = self.result
        return replace(
            row, delta=test.delta, p=test.p, discordant=test.discordant, fell_out=self.fell_out, against=against
        )


def compared(pairs: Sequence[tuple[PointScores, PointScores]]) -> Comparison:
    """The exact paired test of points against their baselines, on the samples that neither side failed."""
    mine: list[float] = []
    theirs: list[float] = []
    keyed = 0
    for scores, other in pairs:
        ours, rivals = comparable(scores), comparable(other)
        shared = [name for name in ours if name in rivals]
        mine += [ours[name] for name in shared]
        theirs += [rivals[name] for name in shared]
        keyed += sum(row.answer is not None for row in scores.samples.values())
    return Comparison(paired(mine, theirs) if mine else None, keyed - len(mine))


def mean_over_tasks(rows: Sequence[Row]) -> Row:
    """The macro row: the unweighted mean over tasks; one that is swept into variants counts once, with their mean."""
    held = [row for row in rows if row.value is not None and row.n]
    variants = Counter(row.name for row in held)
    weights = [1 / (len(variants) * variants[row.name]) for row in held]
    total = replace(_summed(rows), task="macro", tasks=len(variants), value=None, low=None, high=None)
    if not held:
        return total
    low, high = stratified([((row.value or 0.0) * row.n, row.n, w) for row, w in zip(held, weights, strict=True)])
    value = sum((row.value or 0.0) * weight for row, weight in zip(held, weights, strict=True))
    deltas = [row.delta for row in held]
    gap = sum(w * d for w, d in zip(weights, deltas, strict=True) if d is not None) if None not in deltas else None
    return replace(total, value=value, low=low, high=high, delta=gap)


def pooled(rows: Sequence[Row]) -> Row:
    """The micro row: all samples of all tasks as one set, tasks weighted by their size.

    Variants of one task ask the same questions again, so over them there is a value and no interval.
    """
    held = [row for row in rows if row.value is not None and row.n]
    n, total = sum(row.n for row in held), sum((row.value or 0.0) * row.n for row in held)
    summed = replace(
        _summed(rows), task="micro", tasks=len({row.name for row in held}), value=None, low=None, high=None, n=n
    )
    if not n:
        return summed
    low, high = (None, None) if len(held) > summed.tasks else wilson(total, n)
    return replace(summed, value=total / n, low=low, high=high)


def floors(scores: PointScores, row: Row) -> list[Row]:
    """What one gets without looking: always the most frequent key of these samples, and the chance level."""
    samples = [sample for sample in scores.samples.values() if sample.answer is not None]
    if not samples:
        return []
    count = Counter(sample.answer for sample in samples).most_common(1)[0][1]
    plain = replace(row, point="", metric="accuracy", n=len(samples), reader="")
    right = replace(plain, contestant="majority (key)", right=count, wrong=len(samples) - count, unreadable=0, failed=0)
    low, high = wilson(count, len(samples))
    rows = [replace(right, value=count / len(samples), low=low, high=high)]
    choices = [len(sample.sample["choices"]) for sample in samples]
    if all(choices):
        rows.append(replace(plain, contestant="chance (level)", value=_mean(1 / number for number in choices)))
    return rows


def _summed(rows: Sequence[Row]) -> Row:
    """The first row with sums for counts, with joint facts, and without what belongs to one point."""
    sums: dict[str, Any] = {}
    for name in (
        "n",
        "right",
        "wrong",
        "unreadable",
        "failed",
        "missing",
        "hidden",
        "tokens_in",
        "tokens_out",
        "n_groups",
    ):
        held = [value for row in rows if (value := getattr(row, name)) is not None]
        sums[name] = sum(held) if held else None
    joint: dict[str, Any] = {name: _common(rows, name) for name in ("split", "label_version", "reader")}
    start = replace(
        rows[0], point="", name="", delta=None, p=None, p_holm=None, against="", discordant=None, fell_out=None
    )
    return replace(start, **sums, **joint)


def _common(rows: Sequence[Row], name: str) -> str:
    found = list(dict.fromkeys(getattr(row, name) for row in rows if getattr(row, name)))
    return found[0] if len(found) == 1 else "; ".join(found)


def _is_answered(scored: Scored | None) -> float:
    return float(scored is not None and scored.verdict in ANSWERED)


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return sum(held) / len(held)
