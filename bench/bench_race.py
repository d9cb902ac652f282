"""Simulated races: how often somebody wins where all arms are alike, and what a planted difference costs to find.

python bench/bench_race.py [STUDIES]
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.stats import norm

from looktwice.eval.adaptive.race import Race, confirm

ARMS, SAMPLES, HELD_OUT, LEVEL, ALIKE = 8, 1000, 0.3, 0.05, 0.6
"""Arms share most of what makes a question hard: `ALIKE` is the correlation of their latent scores on one question."""


def draw(accuracies: list[float], n: int, rng: np.random.Generator) -> np.ndarray:
    """Right or wrong, (n, arms)."""
    hard, own = rng.standard_normal((n, 1)), rng.standard_normal((n, len(accuracies)))
    latent = np.sqrt(ALIKE) * hard + np.sqrt(1 - ALIKE) * own
    return np.asarray(latent < norm.ppf(accuracies), float)


def simulate(accuracies: list[float], rng: np.random.Generator) -> tuple[str | None, bool, int, bool]:
    """One study: who won, whether held-out samples confirm it, the calls, and whether the best arm fell out."""
    values = draw(accuracies, SAMPLES, rng)
    raced, names = round(SAMPLES * (1 - HELD_OUT)), [str(number) for number in range(len(accuracies))]
    race = Race(names, LEVEL)
    for row in values[:raced]:
        race.add({name: row[int(name)] for name in race.left})
        if race.winner:
            break
    lost = "0" in race.dropped
    if race.winner is None:
        return None, False, race.calls, lost
    mine, theirs = values[raced:, int(race.winner)], values[raced:, int(race.rival)]
    found = confirm(race.rival, list(mine), list(theirs))
    return race.winner, found.holds(LEVEL), race.calls + 2 * len(mine), lost


def main() -> None:
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    say, grid = sys.stdout.write, ARMS * SAMPLES
    say(f"{studies} studies each of {ARMS} arms on {SAMPLES} samples, {HELD_OUT:.0%} held out, level {LEVEL}\n")
    for name, first in (("all arms 60 %", 0.6), ("one arm 70 %, the others 60 %", 0.7)):
        rng, began = np.random.default_rng(0), time.monotonic()
        found = [simulate([first, *[0.6] * (ARMS - 1)], rng) for _ in range(studies)]
        won, confirmed = [sum(bool(each[0]) for each in found), sum(each[1] for each in found)]
        right = sum(each[0] == "0" and each[1] for each in found)
        calls = np.array([each[2] for each in found]) / grid
        say(f"{name}: a winner in {won / studies:.1%}, confirmed in {confirmed / studies:.1%}")
        say(
            f", the first arm confirmed in {right / studies:.1%}, dropped in {sum(e[3] for e in found) / studies:.1%}\n"
        )
        say(f"  calls of the full grid: mean {calls.mean():.1%}, median {np.median(calls):.1%}, ")
        say(f"90 % of studies below {np.percentile(calls, 90):.1%}; {time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
