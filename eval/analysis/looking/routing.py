"""Routing by confidence: answer, look again or ask a specialist, and how much is right of what is
answered at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from looktwice.eval.analysis.complementarity import is_specialist
from looktwice.eval.display.text_tables import (
    TextTable,
    estimate_cell,
    format_p,
    percent,
    share_cell,
)
from looktwice.eval.scoring.measurements import measurements
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.eval.statistics.paired import mean_difference

SHARES = (0.25, 0.5, 0.75)
"""Shares of the samples that are sent on, or answered at all."""


@dataclass(frozen=True)
class Route:
    """A share of the samples sent on from one arm to others, those with the least confidence first.

    `router`, `random` and `oracle` are the accuracies where the sent samples are the least
    confident ones, any, and those on which it helps most; all three send on as many. `gain` is the
    router's paired difference to random.
    """

    start: str
    onward: str
    share: float
    n: int
    tokens: float
    router: float
    random: float
    oracle: float
    gain: Estimate


@dataclass(frozen=True)
class RiskCoverage:
    """How much is right of the samples on which an arm is most confident, at each of `SHARES` and
    of all.

    `area` is the area under the curve of risk against coverage, the mean risk over all coverages;
    `best` and `random` are those of an oracle's order and of a random one (Geifman et al. 2019).
    Ties of confidence share their mean.
    """

    n: int
    accuracies: tuple[Estimate, ...]
    area: float
    best: float
    random: float


def confidence_of(scores: PointScores) -> Mapping[str, float]:
    """The confidence of every comparable sample; empty where there is none, or everywhere the
    same."""
    found = measurements(scores).get("confidence", {})
    numbers = {name: float(value) for name, value in found.items() if name in scores.comparable}
    return numbers if len(set(numbers.values())) > 1 else {}


def measure_risk(scores: PointScores) -> RiskCoverage | None:
    """The risk of an arm at every coverage; None without confidence."""
    confidence = confidence_of(scores)
    if not confidence:
        return None
    values = _ranked(confidence, scores.comparable)
    ranked, n = [*values.values()], len(values)
    clusters = [scores.clusters[name] for name in values]
    kept = (max(1, round(share * n)) for share in (*SHARES, 1.0))
    accuracies = tuple(share_interval(ranked[:count], clusters[:count]) for count in kept)
    best = sorted(ranked, reverse=True)
    return RiskCoverage(n, accuracies, _area(ranked), _area(best), 1 - fmean(ranked))


def risk_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each arm with confidence."""
    header = (
        "contestant",
        "task",
        "n",
        *(f"right of the\nsurest {share:.0%}" for share in SHARES),
        "right\nof all %",
        "area",
        "area,\noracle",
        "area,\nrandom",
    )
    rows = []
    for scores in (scores for run in runs for scores in run.points):
        if found := measure_risk(scores):
            shown = (share_cell(share) for share in found.accuracies)
            areas = (f"{area:.3f}" for area in (found.area, found.best, found.random))
            rows.append((scores.contestant, scores.task, str(found.n), *shown, *areas))
    return TextTable(header, rows, text_columns=2)


def routes(run: RunScores) -> Iterator[Route]:
    """Every arm with confidence sent on to every other arm of its task, and to a model and a
    specialist in turn."""
    for start in run.points:
        if not (confidence := confidence_of(start)):
            continue
        others = [
            s
            for s in run.points
            if s.point.task_id == start.point.task_id and s is not start and s.comparable
        ]
        plans: list[tuple[PointScores, ...]] = [(other,) for other in others]
        plans += [
            (a, b) for a in others for b in others if is_specialist(b) and not is_specialist(a)
        ]
        for plan in plans:
            for share in SHARES:
                if route := _route(start, confidence, plan, share):
                    yield route


def route_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each route: the router between random and oracle at the same share of samples sent
    on."""
    header = (
        "first asked",
        "then",
        "sent on",
        "n",
        "tokens\nper sample",
        "by confidence\n%",
        "at random\n%",
        "oracle\n%",
        "gain over\nrandom",
        "p",
    )
    rows = []
    for one in (route for run in runs for route in routes(run)):
        rows.append(
            (
                one.start,
                one.onward,
                f"{one.share:.0%}",
                str(one.n),
                f"{one.tokens:,.0f}",
                percent(one.router),
                percent(one.random),
                percent(one.oracle),
                estimate_cell(one.gain, sign=True),
                format_p(one.gain.p),
            )
        )
    return TextTable(header, rows, text_columns=3)


def _route(
    start: PointScores, confidence: Mapping[str, float], plan: Sequence[PointScores], share: float
) -> Route | None:
    """Of two arms in the plan, the last gets the half of the sent samples with the least
    confidence."""
    known = [name for name in confidence if all(name in other.comparable for other in plan)]
    if len(known) < 2:
        return None
    order = sorted(known, key=lambda name: (confidence[name], name))
    sent = round(share * len(order))
    parts = {
        name: plan[-1 - (len(plan) * place // sent)] for place, name in enumerate(order[:sent])
    }
    base = start.comparable
    mine = [parts[name].comparable[name] if name in parts else base[name] for name in order]
    onward = [fmean(other.comparable[name] for other in plan) for name in order]
    most = [max(other.comparable[name] for other in plan) for name in order]
    held = sent / len(order)
    random = [
        (1 - held) * base[name] + held * then for name, then in zip(order, onward, strict=True)
    ]
    helped = sorted(
        (then - base[name] for name, then in zip(order, most, strict=True)), reverse=True
    )[:sent]
    oracle = (sum(base[name] for name in order) + sum(helped)) / len(order)
    tokens = fmean(
        _tokens(start, name) + (_tokens(parts[name], name) if name in parts else 0)
        for name in order
    )
    gaps = [a - b for a, b in zip(mine, random, strict=True)]
    gain = mean_difference(gaps, [start.clusters[name] for name in order])
    onward_name = ", then ".join(other.contestant for other in plan)
    return Route(
        start.contestant,
        onward_name,
        share,
        len(order),
        tokens,
        fmean(mine),
        fmean(random),
        oracle,
        gain,
    )


def _tokens(scores: PointScores, name: str) -> float:
    return fmean(entry.tokens_in + entry.tokens_out for entry in scores.asked(name))


def _ranked(confidence: Mapping[str, float], values: Mapping[str, float]) -> dict[str, float]:
    """The values by sample from the surest to the least sure; equally sure ones all get their
    mean."""
    ranked: dict[str, float] = {}
    order = sorted(confidence, key=lambda name: (-confidence[name], name))
    for _, names in groupby(order, key=lambda name: confidence[name]):
        alike = [*names]
        ranked |= dict.fromkeys(alike, fmean(values[name] for name in alike))
    return ranked


def _area(ranked: Sequence[float]) -> float:
    """The mean over coverages of the share that is not right."""
    total, risks = 0.0, list[float]()
    for count, value in enumerate(ranked, 1):
        total += value
        risks.append(1 - total / count)
    return fmean(risks)
