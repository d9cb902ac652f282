"""Simulated searches for the best arm of a sweep: how close to the best arm they end, how often
they claim a gain although all arms are equal, and how often the gain's interval covers the true
gain.

python bench/bench_discover.py [SEARCHES]
"""

from __future__ import annotations

import sys
import time
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import ndtr, ndtri

from looktwice.eval.records.records import SampleRow
from looktwice.extras.adaptive.discovery import Discovery, size_first_round
from looktwice.extras.adaptive.steering import Pool
from looktwice.prompting.markers import Circles

ALIKE = 0.6
"""Correlation of the arms' latent scores on one question: most of a question's difficulty is
shared."""
SIZES = ((4, 3, 2, 2), 1000), ((4, 3, 2, 2), 400), ((3, 3), 1000), ((3, 2), 400)
BLANK = {"id": "", "question": "?", "images": [], "choices": [], "marks": [], "meta": {}}


def sweep(levels: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return the accuracies of all combinations, the baseline's 50 % first: every level of every
    factor shifts the score, and every combination shifts it further, by half as much."""
    arms, score = np.array([*product(*map(range, levels))]), np.zeros(int(np.prod(levels)))
    for factor, count in enumerate(levels):
        effects = rng.normal(0, 0.5 / np.sqrt(len(levels)), count)
        score += (effects - effects[0])[arms[:, factor]]
    score[1:] += rng.normal(0, 0.125, len(score) - 1)
    return np.asarray(ndtr(score))


def draw(accuracies: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw correct and wrong answers, (n, arms)."""
    hard, own = rng.standard_normal((n, 1)), rng.standard_normal((n, len(accuracies)))
    latent = np.sqrt(ALIKE) * hard + np.sqrt(1 - ALIKE) * own
    return np.asarray(latent < ndtri(accuracies), float)


class SearchOutcome(NamedTuple):
    """The loss of accuracy compared with the best arm, whether a gain was claimed, whether its
    interval covers the true gain (None if the baseline won), and the share of the grid's answers
    that was used."""

    regret: float
    claimed: bool
    covered: bool | None
    share: float


def search(accuracies: np.ndarray, samples: int, seed: int, share: float = 0.3) -> SearchOutcome:
    """Run one search with the code that steers a run, on simulated answers instead of a model's."""
    values = draw(accuracies, samples, np.random.default_rng((seed, 1)))
    arms = [
        SimpleNamespace(
            id=str(number),
            contestant=f"arm {number}",
            changes={},
            task_name="task",
            baseline=number == 0,
            stages={"mark": Circles()},  # with styles, part of the budget is reserved
        )
        for number in range(len(accuracies))
    ]
    rows = {str(n): SampleRow("", str(n), "A", BLANK) for n in range(samples)}
    steering = Discovery(seed=seed, budget_share=share)
    for asked in steering.choose_rounds(cast(Any, arms), Pool(None, rows, {})):
        for name, those in asked:
            steering.answers |= {(arm.id, name): values[int(name), int(arm.id)] for arm in those}
    (winner,) = steering.winners
    best, gap = int(winner.arm.id), winner.result.confirmation
    covered = None if gap is None else gap.low <= accuracies[best] - accuracies[0] <= gap.high
    asked_of_styles = len(steering.styles) * len(winner.samples)
    spent = (len(steering.answers) + asked_of_styles) / values.size
    regret = float(accuracies.max() - accuracies[best])
    return SearchOutcome(regret, winner.result.is_confirmed, covered, spent)


def search_planted(levels: tuple[int, ...], samples: int, searches: int) -> list[SearchOutcome]:
    """Run searches of sweeps with planted effects, a different sweep for each seed."""
    return [
        search(sweep(levels, np.random.default_rng((seed, 0))), samples, seed)
        for seed in range(searches)
    ]


def line(levels: tuple[int, ...], samples: int, searches: int) -> str:
    """Format a table line: how close to the best the searches end."""
    ended = search_planted(levels, samples, searches)
    regrets, shares = (
        100 * np.array([*map(pick, ended)])
        for pick in (lambda end: end.regret, lambda end: end.share)
    )
    covered = [end.covered for end in ended if end.covered is not None]
    return (
        f"| {int(np.prod(levels))} | {samples:,} | {searches} | {np.sum(regrets <= 2)} |"
        f" {regrets.mean():.2f} | {regrets.max():.1f} | {shares.mean():.0f}, {shares.max():.0f} |"
        f" {sum(end.claimed for end in ended)} | {sum(covered)} of {len(covered)} |\n"
    )


def halving(values: np.ndarray, answers: int) -> int:
    """Return the winner of successive halving that may use all of these answers."""
    left, place, sums = np.arange(values.shape[1]), 0, np.zeros(values.shape[1])
    while len(left) > 1:
        more = size_first_round(len(left), len(values) - place, answers)
        sums[left] += values[place : place + more][:, left].sum(axis=0)
        answers, place = answers - more * len(left), place + more
        best = np.argsort(-sums[left], kind="stable")[: (len(left) + 1) // 2]
        left = left[np.sort(best)]
    return int(left[0])


def compare_references(levels: tuple[int, ...], samples: int, sweeps: int) -> str:
    """Format how often three upper bounds end at most two points from the best: all answers of the
    grid; halving with the whole budget; and a duel with that budget between the best arm and the
    best arm that is more than two points worse, both known in advance."""
    right = np.zeros(3)
    for seed in range(sweeps):
        accuracies = sweep(levels, np.random.default_rng((seed, 0)))
        values = draw(accuracies, samples, np.random.default_rng((seed, 1)))
        near = accuracies >= accuracies.max() - 0.02
        answers, best = int(0.3 * values.size), int(accuracies.argmax())
        second = int(np.where(near, -1, accuracies).argmax())
        duel = values[: min(samples, answers // 2)].mean(axis=0)
        won = bool(near.all() or duel[best] >= duel[second])
        right += near[values.mean(axis=0).argmax()], near[halving(values, answers)], won
    whole, halved, duelled = 100 * right / sweeps
    return (
        f"| {int(np.prod(levels))} | {samples:,} | {whole:.0f} | {halved:.0f} | {duelled:.0f} |\n"
    )


def main() -> None:
    searches, began, say = (
        int(sys.argv[1]) if len(sys.argv) > 1 else 50,
        time.monotonic(),
        sys.stdout.write,
    )
    say(
        "| arms | samples | searches | within 2 points | mean loss | largest | % of the grid: mean,"
        " most | claims | intervals with the truth |\n|" + "---:|" * 9 + "\n"
    )
    for levels, samples in SIZES:
        say(line(levels, samples, searches))
        sys.stdout.flush()
    say("\n| arms | samples | all answers | halving alone | duel of two |\n|" + "---:|" * 5 + "\n")
    for levels, samples in SIZES:
        say(compare_references(levels, samples, 20 * searches))
    for accuracy in (0.25, 0.6):
        null = [search(np.full(24, accuracy), 600, seed) for seed in range(4 * searches)]
        claims = sum(end.claimed for end in null)
        say(f"all 24 arms right on {accuracy:.0%}: {claims} claims in {len(null)} searches\n")
        sys.stdout.flush()
    ended = search_planted((3, 2, 2), 400, 20 * searches)
    covered = [end.covered for end in ended if end.covered is not None]
    say(f"intervals of the gain with the truth: {np.mean(covered):.1%} of {len(covered):,}\n")
    say(f"{time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
