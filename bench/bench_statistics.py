"""Coverage of the confidence intervals, and the rate of false wins when no arm differs.

`make bench` runs it; `python -m bench.bench_statistics --times 300` is quicker. All seeds are
fixed.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from math import sqrt
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from looktwice.eval.analysis.shared_samples import SharedSamples
from looktwice.eval.records.records import PointRow, SampleRow
from looktwice.eval.replies import load_answer_key
from looktwice.eval.scoring.row import Row, fill_row, make_macro_row
from looktwice.eval.scoring.verdict import Metric, PointScores, Score, ScoredRecord, Verdict
from looktwice.eval.statistics import compare_paired
from looktwice.eval.statistics.answers import cohens_kappa
from looktwice.eval.statistics.contrasts import mean_difference
from looktwice.eval.statistics.intervals import bootstrap_mean, share_interval, wilson
from looktwice.eval.statistics.paired import benjamini_hochberg, holm
from looktwice.extras.logs.replies import load_replies, score_replies
from tests.paths import DATA

Floats = NDArray[np.float64]
CASES = (  # units, cluster size, share gained, share lost
    (12, 1, 0.10, 0.00),
    (12, 1, 0.30, 0.10),
    (30, 1, 0.05, 0.05),
    (30, 1, 0.20, 0.10),
    (60, 1, 0.02, 0.00),
    (60, 1, 0.15, 0.15),
    (60, 1, 0.30, 0.10),
    (124, 1, 0.06, 0.02),
    (124, 1, 0.15, 0.15),
    (150, 1, 0.25, 0.10),
    (400, 1, 0.05, 0.03),
    (400, 1, 0.20, 0.20),
    (1900, 1, 0.20, 0.14),
    (200, 2, 0.15, 0.10),
    (400, 4, 0.15, 0.05),
    (400, 10, 0.20, 0.20),
    (160, 4, 0.10, 0.00),
    (160, 4, 0.05, 0.00),
    (300, 10, 0.10, 0.00),
    (300, 10, 0.05, 0.00),
)
TASKS = (  # shares gained and lost on each task, questions about each of 60 pictures
    ((0.60, 0.00), (0.00, 0.60)),
    ((0.60, 0.00), (0.00, 0.50), (0.30, 0.10), (0.10, 0.30)),
    ((0.10, 0.10), (0.10, 0.10), (0.10, 0.10)),
)
SWEEP, UNITS, LEVEL = 12, 120, 0.05
CLUSTERS, SPREAD = 60, (0.0, 0.3, 0.8)


def draw_gaps(random: np.random.Generator, n: int, size: int, up: float, down: float) -> Floats:
    """Draw paired differences of n units; half of the units of a cluster copy its first one."""
    own = random.choice([1.0, -1.0, 0.0], p=[up, down, 1 - up - down], size=(n // size, size))
    return np.where(random.random(own.shape) < 0.5, own[:, :1], own).ravel()


def coverage(times: int) -> Iterator[str]:
    """Yield a line for each case: the share of intervals that cover the true difference, and their
    mean width."""
    for n, size, up, down in CASES:
        names, hits, width = np.repeat(np.arange(n // size), size).tolist(), 0, 0.0
        for seed in range(times):
            gaps = draw_gaps(np.random.default_rng(seed), n, size, up, down)
            estimate = bootstrap_mean(gaps, names, floor=-1.0, resamples=2000)
            hits += estimate.low <= up - down <= estimate.high
            width += (estimate.high - estimate.low) / times
        sentence = f"{100 * hits / times:.1f} % contain the truth, {100 * width:.1f} points wide"
        yield f"n {n:5} in clusters of {size:2}, +{up:.2f} -{down:.2f}: {sentence}"


def task_coverage(times: int) -> Iterator[str]:
    """Yield the coverage of differences over several tasks, which share part of their pictures."""
    for tasks, shared, size in product(TASKS, (0.0, 0.5, 1.0), (1, 4)):
        truth, hits, width = float(np.mean([up - down for up, down in tasks])), 0, 0.0
        pictures = np.arange(CLUSTERS)
        strata = np.repeat(np.arange(len(tasks)), CLUSTERS * size)
        for seed in range(times):
            random, gaps, names = np.random.default_rng(seed), list[Floats](), list[int]()
            for number, (up, down) in enumerate(tasks, 1):
                gaps.append(draw_gaps(random, CLUSTERS * size, size, up, down))
                own = np.where(pictures < shared * CLUSTERS, pictures, pictures + 1000 * number)
                names += np.repeat(own, size).tolist()
            pooled = np.concatenate(gaps)
            estimate = bootstrap_mean(pooled, names, floor=-1.0, resamples=2000, strata=strata)
            hits += estimate.low <= truth <= estimate.high
            width += (estimate.high - estimate.low) / times
        sentence = f"{100 * hits / times:.1f} % contain the truth, {100 * width:.1f} points wide"
        kind = f"{shared:.0%} of pictures shared, {size} questions each"
        yield f"tasks of {tasks}, {kind}: {sentence}"


def share_coverage(times: int) -> Iterator[str]:
    """Yield the coverage of accuracies over 60 clusters (also near 0 and 1), of correct or wrong
    answers, means of 3 draws and graded values."""
    for kind, size, share, alike in product(
        ("right or wrong", "draws", "graded"), (1, 4, 10), (0.03, 0.3, 0.9), SPREAD
    ):
        hits, wilsons = 0, 0
        for seed in range(times):
            random = np.random.default_rng(seed)
            right = np.repeat(draw_ability(random, CLUSTERS, share, alike), size)
            values = draw_values(random, right, kind)
            estimate = share_interval(values, np.repeat(np.arange(CLUSTERS), size))
            low, high = wilson(float(values.sum()), len(values))
            hits, wilsons = (
                hits + (estimate.low <= share <= estimate.high),
                wilsons + (low <= share <= high),
            )
        sentence = (
            f"{100 * hits / times:.1f} % contain the truth (Wilson without clusters"
            f" {100 * wilsons / times:.1f} %)"
        )
        yield (
            f"share {share:.2f}, {kind}, {CLUSTERS} clusters of {size:2}, alike by {alike:g}:"
            f" {sentence}"
        )


def uneven_coverage(times: int) -> Iterator[str]:
    """Yield the coverage of accuracies over clusters of very different sizes: 1 to over 20, with
    mean 5."""
    for count, share in product((12, 30, 100), (0.03, 0.3, 0.9)):
        hits = 0
        for seed in range(times):
            random = np.random.default_rng(seed)
            clusters = np.repeat(np.arange(count), random.geometric(0.2, count))
            values = draw_values(
                random, draw_ability(random, count, share, 0.3)[clusters], "right or wrong"
            )
            estimate = share_interval(values, clusters)
            hits += estimate.low <= share <= estimate.high
        yield (
            f"share {share:.2f} of {count:3} clusters of 1 to 20: {100 * hits / times:.1f} % hold"
            " the truth"
        )


def macro_coverage(times: int) -> Iterator[str]:
    """Yield the coverage of means over variants that ask the same questions, and over tasks that
    share their pictures."""
    for variants, share, alike in product((1, 3, 5, 10), (0.03, 0.3, 0.9), SPREAD):
        rows = [(share, variants, 1, alike)]
        yield (
            f"{variants:2} variants, share {share:.2f}, alike by {alike:g}:"
            f" {macro_hits(times, rows):.1f} %"
        )
    for tasks, size, alike in product(
        ((0.3, 0.5, 0.7, 0.9), (0.5, 0.95, 0.98, 0.98)), (1, 4), SPREAD
    ):
        rows = [(share, 1, size, alike) for share in tasks]
        sentence = f"{macro_hits(times, rows):.1f} %"
        yield (
            f"tasks of {tasks} on the same {CLUSTERS} pictures, {size} questions each, alike by"
            f" {alike:g}: {sentence}"
        )


def macro_hits(times: int, tasks: Sequence[tuple[float, int, int, float]]) -> float:
    """Return the percentage of intervals of `make_macro_row` that cover the mean over tasks, each
    given by share, variants and size of clusters."""
    hits, truth = 0, float(np.mean([share for share, *_ in tasks]))
    for seed in range(times):
        random, rows = np.random.default_rng(seed), []
        ease = random.standard_normal(CLUSTERS)
        for number, (share, variants, size, alike) in enumerate(tasks):
            own = ndtr((ndtri(share) + sqrt(alike) * np.repeat(ease, size)) / sqrt(1 - alike))
            for variant in range(variants):
                right = random.random(len(own)) < own
                units = {f"{place}": float(value) for place, value in enumerate(right)}
                clusters = {f"{place}": f"{place // size}" for place in range(len(own))}
                plain = Row(
                    "run",
                    "p",
                    "c",
                    f"{number} {variant}",
                    "",
                    "accuracy",
                    None,
                    task_name=str(number),
                )
                rows.append(fill_row(plain, Metric("accuracy", units, clusters=clusters)))
        estimate = make_macro_row(rows)
        hits += (estimate.low or 0.0) <= truth <= (estimate.high or 0.0)
    return 100 * hits / times


def draw_ability(random: np.random.Generator, n: int, share: float, alike: float) -> Floats:
    """Draw the probability of a correct answer to the questions on each picture; `alike` is their
    correlation."""
    if not alike:
        return np.full(n, share)
    return random.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), n)


def draw_values(random: np.random.Generator, right: Floats, kind: str) -> Floats:
    """Draw a value for each question: correct or wrong, the mean of three draws, or graded with
    that mean."""
    if kind == "graded":
        return random.beta(np.maximum(2 * right, 1e-9), np.maximum(2 * (1 - right), 1e-9))
    draws = 3 if kind == "draws" else 1
    return np.asarray(random.binomial(draws, right) / draws)


def interaction_coverage(times: int) -> Iterator[str]:
    """Yield the coverage of interactions between two changes, for samples whose difficulty is
    common to all arms to the degree `shared`."""
    for n, shared in ((20, 0.5), (60, 2.0), (200, 2.0), (200, 6.0)):
        truth, hits = (
            float(draw_interaction(np.random.default_rng(times), 2_000_000, shared).mean()),
            0,
        )
        for seed in range(times):
            estimate = mean_difference(
                draw_interaction(np.random.default_rng(seed), n, shared).tolist()
            )
            hits += estimate.low <= truth <= estimate.high
        sentence = f"{100 * hits / times:.1f} % contain the truth"
        yield f"interaction {100 * truth:+.1f} points, n {n:4}, shared {shared:g}: {sentence}"


def draw_interaction(random: np.random.Generator, n: int, shared: float) -> Floats:
    """Draw interactions: right under both changes, minus under each alone, plus under none."""
    ease = shared * random.standard_normal(n)
    arms = [ease + random.standard_normal(n) > bar for bar in (0.0, 0.2, -0.3, 0.1)]
    both, first, second, none = (arm.astype(float) for arm in arms)
    return np.asarray(both - first - second + none)


def kappa_coverage(times: int) -> str:
    """Return the coverage of kappa for two raters with kappa 0.5 on two answers and 150 items."""
    hits = 0
    for seed in range(times):
        random = np.random.default_rng(seed)
        first = random.integers(0, 2, 150)
        second = np.where(random.random(150) < 0.5, first, random.integers(0, 2, 150))
        kappa = cohens_kappa(first.tolist(), second.tolist())
        hits += kappa.low <= 0.5 <= kappa.high
    return f"kappa 0.5 of two raters, 150 items: {100 * hits / times:.1f} %"


def false_wins(times: int) -> Iterator[str]:
    """Yield the share of sweeps, whose variants differ from the baseline only by chance, in which
    any p is below 0.05."""
    for size, share in ((1, 0.3), (4, 0.3)):
        names, counts = np.repeat(np.arange(UNITS // size), size).tolist(), np.zeros(3)
        for seed in range(times):
            random = np.random.default_rng(seed)
            gaps = [draw_gaps(random, UNITS, size, share / 2, share / 2) for _ in range(SWEEP)]
            found = [
                compare_paired((one > 0).astype(float), (one < 0).astype(float), names)
                for one in gaps
            ]
            ps = [one.p for one in found]
            counts += [min(family) < LEVEL for family in (ps, holm(ps), benjamini_hochberg(ps))]
        plain, strict, rate = 100 * counts / times
        kind = f"{SWEEP} variants without any effect, {UNITS} units in clusters of {size}"
        yield (
            f"{kind}: any false win {plain:.1f} % uncorrected, {strict:.1f} % Holm, {rate:.1f} % BH"
        )


def false_finds(times: int) -> str:
    """Return the false discovery rate and the power of each correction, in sweeps in which half of
    the variants gain 20 points."""
    rates, power = np.zeros(2), np.zeros(2)
    for seed in range(times):
        random = np.random.default_rng(seed)
        true = [number < SWEEP // 2 for number in range(SWEEP)]
        gaps = [
            draw_gaps(random, UNITS, 1, 0.3 if gain else 0.15, 0.1 if gain else 0.15)
            for gain in true
        ]
        ps = [compare_paired((one > 0).astype(float), (one < 0).astype(float)).p for one in gaps]
        for place, family in enumerate((holm(ps), benjamini_hochberg(ps))):
            finds = [gain for gain, p in zip(true, family, strict=True) if p < LEVEL]
            rates[place] += finds.count(False) / max(1, len(finds))
            power[place] += finds.count(True) / true.count(True)
    return (
        f"half of {SWEEP} variants gain 20 points: false among the finds"
        f" {100 * rates[0] / times:.1f} % Holm, {100 * rates[1] / times:.1f} % BH; found of the"
        f" true ones {100 * power[0] / times:.0f} % and {100 * power[1] / times:.0f} %"
    )


def shared_errors() -> Iterator[str]:
    """Yield BLINK's App. C.2 from the recorded replies on val; the paper's figures are presumably
    on test."""
    folder = DATA / "blink_replies"
    if not folder.is_dir():
        yield "App. C.2: no recorded replies here"
        return
    keys, points = load_answer_key(folder / "val_answers.json"), []
    for file in ("llava_v1.5_7b", "llava_v1.5_13b", "QwenVLMax", "GPT4V"):
        samples, answers = {}, {}
        for row in score_replies(load_replies(folder / f"{file}.jsonl.gz")[0], keys).rows:
            idx, is_right = row["sample"], row["value"] == 1
            score = Score(Verdict.RIGHT if is_right else Verdict.WRONG, float(is_right))
            samples[idx] = SampleRow("", "", row["key"], {"id": idx, "meta": {}, "images": []})
            answers[idx] = {0: ScoredRecord(idx, 0, row["answer"] or None, score)}
        point = PointRow(file, file, file, "BLINK")
        points.append(PointScores(point, samples, answers, contestant=file, task="BLINK"))
    first, *others = points
    for other in others:
        both = SharedSamples.from_arms({arm.contestant: [arm] for arm in (first, other)})
        shared, each = both.mistakes.split("\nof ")
        names = f"{first.contestant} and {other.contestant}"
        yield f"App. C.2 on val: {names} make {each} mistakes, {shared} in common"
    yield (
        "the paper: 1,187 mistakes of LLaVA-1.5-7B, 1,147 of 13B, 899 in common, presumably on test"
    )


def cost() -> Iterator[str]:
    """Yield the seconds of one comparison."""
    for n in (150, 1_900, 100_000):
        mine, theirs = np.random.default_rng(0).integers(0, 2, (2, n)).astype(float)
        start = perf_counter()
        compare_paired(mine, theirs)
        yield f"one comparison of {n:,} units: {1000 * (perf_counter() - start):.0f} ms"


def test_statistics() -> None:
    """Print the figures in `make bench`."""
    report(1000)


def report(times: int) -> None:
    """Print every line as soon as it is computed."""
    for lines in (
        coverage(times),
        task_coverage(times),
        share_coverage(times),
        uneven_coverage(times),
        macro_coverage(times),
        interaction_coverage(times),
        [kappa_coverage(times)],
        false_wins(times),
        [false_finds(times)],
        shared_errors(),
        cost(),
    ):
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1000, help="simulated data sets of each case")
    report(parser.parse_args().times)
