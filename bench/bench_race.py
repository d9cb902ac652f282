"""Simulated races: how often an arm wins although all arms are equal, and the cost of finding a
planted difference.

python bench/bench_race.py [STUDIES]
"""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from looktwice.eval.statistics.paired import compare_paired
from looktwice.extras.adaptive.race import Race

HELD_OUT, LEVEL, ALIKE = 0.3, 0.05, 0.6
"""`ALIKE` is the correlation of the arms' latent scores on one question: most of a question's
difficulty is shared."""
MAIN, SIZES = (8, 1000), [(arms, samples) for arms in (3, 8, 16) for samples in (200, 1000, 5000)]


def draw(accuracies: list[float], n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw correct and wrong answers, (n, arms)."""
    hard, own = rng.standard_normal((n, 1)), rng.standard_normal((n, len(accuracies)))
    latent = np.sqrt(ALIKE) * hard + np.sqrt(1 - ALIKE) * own
    return np.asarray(latent < norm.ppf(accuracies), float)


class RaceOutcome(NamedTuple):
    """The outcome of a race: whether the first arm won, or another one, whether the win was
    confirmed, the number of calls, and whether the first arm was dropped."""

    won: bool
    other_won: bool
    confirmed: bool
    calls: int
    lost: bool


def simulate(accuracies: list[float], samples: int, rng: np.random.Generator) -> RaceOutcome:
    values = draw(accuracies, samples, rng)
    raced, names = (
        round(samples * (1 - HELD_OUT)),
        [str(number) for number in range(len(accuracies))],
    )
    race = Race(names, LEVEL)
    for row in values[:raced]:
        race.add({name: row[int(name)] for name in race.remaining})
        if race.winner:
            break
    lost = "0" in race.dropped
    if race.winner is None:
        return RaceOutcome(False, False, False, race.answer_count, lost)
    mine, theirs = values[raced:, int(race.winner)], values[raced:, int(race.rival)]
    gap = compare_paired(mine.tolist(), theirs.tolist())
    confirmed = gap.value > 0 and gap.p <= LEVEL
    return RaceOutcome(
        race.winner == "0", race.winner != "0", confirmed, race.answer_count + 2 * len(mine), lost
    )


def line(arms: int, samples: int, studies: int) -> str:
    """Format a table line: races of equal arms, and races whose first arm is ten points better."""
    rng = np.random.default_rng(0)
    null = [simulate([0.6] * arms, samples, rng) for _ in range(studies)]
    found = [simulate([0.7, *[0.6] * (arms - 1)], samples, rng) for _ in range(studies)]
    calls = np.array([each.calls for each in found]) / (arms * samples)
    false = sum(each.won or each.other_won for each in null), sum(each.confirmed for each in null)
    shares = (
        np.mean([each.lost for each in null]),
        np.mean([each.calls for each in null]) / (arms * samples),
        np.mean([each.lost for each in found]),
        np.mean([each.won for each in found]),
        np.mean([each.won and each.confirmed for each in found]),
        calls.mean(),
        np.percentile(calls, 90),
    )
    sentence = " | ".join(f"{100 * share:.1f}" for share in shares)
    return f"| {arms} | {samples:,} | {studies:,} | {false[0]}, {false[1]} | {sentence} |\n"


def main() -> None:
    studies, began = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, time.monotonic()
    say = sys.stdout.write
    say(f"{HELD_OUT:.0%} held out, level {LEVEL}; then the same with one arm ten points better\n")
    say(
        "| arms | samples | studies | alike: winners, confirmed | first falls out % | calls % |"
        " better: falls out % "
    )
    say(
        "| left alone % | confirmed % | calls % | calls, 90 % of studies below |\n|"
        + "---|" * 11
        + "\n"
    )
    for arms, samples in SIZES:
        say(line(arms, samples, studies if (arms, samples) == MAIN else max(1, studies // 5)))
        sys.stdout.flush()
    say(f"{time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
