"""Marker fragility of a model that is only inconsistent between draws, and of one that marker
styles affect.

`make bench` runs it; `python -m bench.bench_fragility --times 100` is quicker. All seeds are fixed.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from looktwice.eval.statistics.paired import holm
from looktwice.extras.studies.fragility import RESAMPLE_COUNT, Fragility


def draw_study(
    random: np.random.Generator,
    moved: float,
    draws: int,
    styles: int = 6,
    n: int = 300,
    size: int = 1,
    one_way: bool = False,
    resamples: int = RESAMPLE_COUNT,
) -> Fragility:
    """Simulate the draws of n samples under several styles, in clusters of `size` samples with
    equal difficulty.

    A third of the samples are right in every draw, a third wrong in every draw, the others right in
    a share of them. Every style but the first inverts this share in `moved` of the samples or, if
    `one_way`, sets it to 0 there.
    """
    ease = np.repeat(random.uniform(-1, 2, -(-n // size)), size)[:n].clip(0, 1)
    drawn = {}
    for number in range(styles):
        turned = (random.random(n) < moved) & (number > 0)
        shares = np.where(turned, 0.0 if one_way else 1 - ease, ease)
        drawn[f"style {number}"] = (random.random((draws, n)) < shares).T.astype(float).tolist()
    clusters = {f"s{i}": f"picture {i // size}" for i in range(n)}
    study = Fragility.from_draws("model", "task", drawn, clusters)
    return replace(study, resample_count=resamples)


def ratios(times: int) -> Iterator[str]:
    """Yield R, its floor and their difference, for a model that is only inconsistent, and for one
    that five styles affect."""
    for moved in (0.0, 0.1):
        for draws in (1, 2, 8):
            studies = [
                draw_study(np.random.default_rng(seed), moved, draws, resamples=500)
                for seed in range(times)
            ]
            ratio = np.mean([study.ratio.value for study in studies if study.ratio])
            line = f"R, styles move {moved:.0%} of 300 samples, {draws} draws: {ratio:.2f}"
            above = [study.above_floor for study in studies if study.above_floor]
            if above:
                floor = np.mean([study.floor for study in studies if study.floor is not None])
                beyond = np.mean([excess.low > 0 for excess in above])
                line += (
                    f", floor {floor:.2f}, above it"
                    f" {np.mean([excess.value for excess in above]):+.2f}"
                )
                line += f"; its interval is above 0 in {beyond:.1%}"
            yield line


def false_differences(times: int) -> Iterator[str]:
    """Yield the share of studies with 16 identical styles in which any differs from the default,
    and in which their spread is significant."""
    for n, size, draws in ((60, 1, 1), (120, 4, 1), (120, 1, 2)):
        plain = corrected = far = 0
        for seed in range(times):
            fragility = draw_study(
                np.random.default_rng(seed), 0.0, draws, 17, n, size, resamples=100
            )
            ps = [shift.delta.p for shift in fragility.shifts]
            plain += min(ps) < 0.05
            corrected += any(shift.is_significant for shift in fragility.shifts)
            far += fragility.null_spread.p < 0.05
            assert [shift.p_holm for shift in fragility.shifts] == holm(ps)
        yield (
            f"16 identical styles, {n} samples in clusters of {size}, {draws} draws: some style"
            f" differs in {plain / times:.1%} of studies uncorrected, {corrected / times:.1%} after"
            f" Holm; best minus worst has a p below 0.05 in {far / times:.1%}"
        )


def test_fragility() -> None:
    """Print the figures in `make bench`."""
    report(300)


def report(times: int) -> None:
    """Print every line as soon as it is computed."""
    for lines in (ratios(times), false_differences(times)):
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=300, help="simulated studies of each case")
    report(parser.parse_args().times)
