"""Routing by confidence: answer, look again or ask a specialist, and how much is right of what is
answered at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

import numpy as np

from looktwice.eval.analysis.references import is_specialist
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    change_cell,
    format_p,
    percent,
    share_cell,
    table,
    text,
)
from looktwice.eval.scoring.measurements import measurements
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.eval.statistics.paired import mean_difference

SHARES = (0.25, 0.5, 0.75)
"""Shares of the samples that are sent on, or answered at all."""


@dataclass(frozen=True)
class RiskCoverage:
    """How much is right of the samples on which an arm is most confident, at each of `SHARES` and
    of all.

    `area` is the area under the curve of risk against coverage, the mean risk over all coverages;
    `best` and `random` are those of an oracle's order and of a random one (Geifman et al. 2019).
    Ties of confidence share their mean.
    """

    scores: PointScores
    n: int
    accuracies: tuple[Estimate, ...]
    area: float
    best: float
    random: float


def confidence_of(scores: PointScores) -> Mapping[str, float]:
    """The confidence of every comparable sample; empty where there is none, or everywhere the
    same."""
    measured = measurements(scores).get("confidence", {})
    numbers = {name: float(value) for name, value in measured.items() if name in scores.comparable}
    return numbers if len(set(numbers.values())) > 1 else {}


def measure_risk(scores: PointScores) -> RiskCoverage | None:
    """The risk of an arm at every coverage; None without confidence."""
    confidence = confidence_of(scores)
    if not confidence:
        return None
    order = sorted(confidence, key=lambda name: (-confidence[name], name))
    ranked: list[float] = []  # from the surest to the least sure
    for _, group in groupby(order, key=lambda name: confidence[name]):
        alike = [scores.comparable[name] for name in group]
        ranked += [fmean(alike)] * len(alike)
    clusters, n = [scores.clusters[name] for name in order], len(order)
    counts = [max(1, round(share * n)) for share in (*SHARES, 1.0)]
    return RiskCoverage(
        scores,
        n,
        tuple(share_interval(ranked[:count], clusters[:count]) for count in counts),
        _area(ranked),
        _area(sorted(ranked, reverse=True)),
        1 - fmean(ranked),
    )


def _area(ranked: Sequence[float]) -> float:
    """The mean over coverages of the share that is not right."""
    return fmean(1 - np.cumsum(ranked) / np.arange(1, len(ranked) + 1))


def _accuracy_at(place: int, title: str) -> Column[RiskCoverage]:
    return Column(title, lambda risk: risk.accuracies[place], share_cell)


RISK_COLUMNS: Sequence[Column[RiskCoverage]] = (
    Column("contestant", "scores.contestant", text),
    Column("task", "scores.task", text),
    Column("n", "n"),
    *(_accuracy_at(n, f"right of the\nsurest {share:.0%}") for n, share in enumerate(SHARES)),
    _accuracy_at(-1, "right\nof all %"),
    Column("area", "area", "{:.3f}".format),
    Column("area,\noracle", "best", "{:.3f}".format),
    Column("area,\nrandom", "random", "{:.3f}".format),
)


def risk_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each arm with confidence."""
    risks = [measure_risk(scores) for run in runs for scores in run.points]
    return table(RISK_COLUMNS, [risk for risk in risks if risk])


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


def routes(run: RunScores) -> Iterator[Route]:
    """Every arm with confidence sent on to every other arm of its task, and to a model and a
    specialist in turn."""
    for start in run.points:
        confidence = confidence_of(start)
        others = [
            arm
            for arm in run.points
            if arm.point.task_id == start.point.task_id and arm is not start and arm.comparable
        ]
        plans: list[tuple[PointScores, ...]] = [(other,) for other in others]
        for model in others:
            if not is_specialist(model):
                plans += [(model, other) for other in others if is_specialist(other)]
        for plan in plans:
            shared = [name for name in confidence if all(name in arm.comparable for arm in plan)]
            order = sorted(shared, key=lambda name: (confidence[name], name))
            if len(order) > 1:
                yield from (_route(start, order, plan, share) for share in SHARES)


def _route(
    start: PointScores, order: Sequence[str], plan: Sequence[PointScores], share: float
) -> Route:
    """Of two arms in the plan, the last gets the half of the sent samples with the least
    confidence."""
    sent = round(share * len(order))
    router, random, helped, tokens = list[float](), list[float](), list[float](), list[float]()
    for place, name in enumerate(order):
        own, values = start.comparable[name], [arm.comparable[name] for arm in plan]
        arm = plan[-1 - (len(plan) * place // sent)] if place < sent else None
        router.append(own if arm is None else arm.comparable[name])
        random.append((1 - sent / len(order)) * own + sent / len(order) * fmean(values))
        helped.append(max(values) - own)
        tokens.append(_tokens(start, name) + (0 if arm is None else _tokens(arm, name)))
    whole = sum(start.comparable[name] for name in order)
    oracle = (whole + sum(sorted(helped, reverse=True)[:sent])) / len(order)
    gaps = [a - b for a, b in zip(router, random, strict=True)]
    return Route(
        start.contestant,
        ", then ".join(arm.contestant for arm in plan),
        share,
        len(order),
        fmean(tokens),
        fmean(router),
        fmean(random),
        oracle,
        mean_difference(gaps, [start.clusters[name] for name in order]),
    )


def _tokens(scores: PointScores, name: str) -> float:
    return fmean(entry.tokens_in + entry.tokens_out for entry in scores.asked(name))


ROUTE_COLUMNS: Sequence[Column[Route]] = (
    Column("first asked", "start", text),
    Column("then", "onward", text),
    Column("sent on", lambda route: f"{route.share:.0%}", text),
    Column("n", "n"),
    Column("tokens\nper sample", "tokens", "{:,.0f}".format),
    Column("by confidence\n%", "router", percent),
    Column("at random\n%", "random", percent),
    Column("oracle\n%", "oracle", percent),
    Column("gain over\nrandom", "gain", change_cell),
    Column("p", "gain.p", format_p),
)


def route_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each route: the router between random and oracle at the same share of samples sent
    on."""
    lines = (route for run in runs for route in routes(run))
    return table(ROUTE_COLUMNS, lines)
