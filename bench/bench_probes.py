"""Results of probes on Pocket, on planted information, and without any information: the figures of
docs/probes.md.

python -m bench.bench_probes [--times 500] [--page docs/probes.md]
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics.intervals import bootstrap_mean
from looktwice.extras.inside.arms import (
    ArmProbe,
    ProbedRun,
    Question,
    describe_probe,
    probe_arm,
    probe_run,
)
from looktwice.extras.inside.internals import Layer
from looktwice.extras.inside.linear import fit_probe
from looktwice.pipelines.config import load_plan
from tests.paths import CONFIGS

Labels = NDArray[np.int64]
KINDS, WIDTH, HELD_OUT = 4, 16, 0.4
TOWER, PROJECTOR, LAST = Layer("tower", 1), Layer("projector", 1), Layer("decoder", 1, "last")
BLOCK = re.compile(r"(<!-- figures: .*? -->\n).*?(<!-- /figures -->)", re.DOTALL)


def simulate(seed: int, n: int, size: int, strength: dict[Layer, float]) -> ArmProbe:
    """Simulate an arm of n questions in clusters of `size`, which share their answer, and layers
    that contain it with this strength."""
    random = np.random.default_rng(seed)
    labels = np.repeat(random.integers(0, KINDS, n // size), size)
    signs = random.normal(size=(KINDS, WIDTH))
    states = [
        {
            layer: (random.normal(size=WIDTH) + much * signs[label]).astype(np.float32)
            for layer, much in strength.items()
        }
        for label in labels
    ]
    questions = [
        Question(f"q{k}", f"{seed} {k // size}", str(label), "how many?", 0.0, ())
        for k, label in enumerate(labels)
    ]
    return probe_arm("simulated", "task", questions, states, HELD_OUT)


def planted(times: int) -> str:
    """Plant an answer in the last layer only."""
    arms = [simulate(seed, 400, 1, {TOWER: 0, PROJECTOR: 0, LAST: 6}) for seed in range(times)]
    before, last, shuffled = (
        100 * np.mean(values)
        for values in (
            [probe.right.mean() for arm in arms for probe in arm.layers[:2]],
            [arm.layers[2].right.mean() for arm in arms],
            [probe.shuffled_accuracy for arm in arms for probe in arm.layers],
        )
    )
    return (
        f"Planted in the last layer of {times} simulated models: {last:.1f} % are read there,"
        f" {before:.1f} % before it, {shuffled:.1f} % with shuffled labels (chance is"
        f" {100 / KINDS:.1f} %)."
    )


def null_coverage(times: int) -> Iterator[str]:
    """Yield results for layers without the answer: how often the interval covers chance, and how
    often an answer is reported as found."""
    for n, size in ((150, 1), (400, 1), (400, 2), (600, 4), (1200, 1)):
        hits = finds = 0
        for seed in range(times):
            arm = simulate(seed, n, size, {LAST: 0})
            estimate = bootstrap_mean(arm.layers[0].right, arm.clusters)
            hits += estimate.low <= 1 / KINDS <= estimate.high
            finds += arm.is_found
        yield (
            f"| {n} in clusters of {size} | {100 * hits / times:.1f} % |"
            f" {100 * finds / times:.1f} % |"
        )


def losses(times: int) -> Iterator[str]:
    """Yield how often a loss is reported for models that answer as well as the probes, and for
    models that answer worse by `less`."""
    for less in (0.0, 0.05, 0.1):
        said = 0
        for seed in range(times):
            arm = simulate(seed, 1000, 1, {TOWER: 0.5, PROJECTOR: 0.5, LAST: 0.5})
            tower, projector, last = arm.layers
            kept = np.random.default_rng(seed).random(len(last.right)) >= less / max(
                last.right.mean(), less
            )
            answered = last.right * kept  # as accurate as another layer at `less` 0, else worse
            both = ArmProbe(
                "m",
                "t",
                (tower, projector),
                answered,
                arm.majority_right,
                arm.clusters,
                arm.training_count,
                1,
            )
            said += both.loss is not None
        yield f"| {100 * less:.0f} points | {100 * said / times:.1f} % |"


def cost() -> str:
    """Measure the seconds for one layer of a model with 7 billion weights."""
    random, n = np.random.default_rng(0), 1200
    states, labels, free = (
        random.normal(size=(n, 3584)),
        random.integers(0, 8, n),
        np.ones((n, 8), bool),
    )
    start = process_time()
    fit_probe(states[:720], labels[:720], range(720), states[720:], free[:720], free[720:])
    return (
        f"One layer 3,584 wide over 1,200 questions: {process_time() - start:.1f} s of one core for"
        " its probes."
    )


def pocket(folder: Path) -> ProbedRun:
    """Probe `configs/probes.yaml`."""
    plan = load_plan(CONFIGS / "probes.yaml")
    return probe_run(score_run(RunFolder(Study(plan, folder, RunOptions(workers=2))().folder)))


def figures(folder: Path, times: int) -> Iterator[str]:
    """Yield all figures in Markdown."""
    found = pocket(folder)
    yield from (" ".join(describe_probe(arm)) + "\n" for arm in found.arms[:2])
    yield planted(max(1, times // 20)) + "\n"
    yield f"No answer is planted, {times} simulations each:\n"
    header = "| questions | intervals that contain chance | answers reported as found |"
    yield f"{header}\n|---|---:|---:|"
    yield from null_coverage(times)
    yield (
        f"\nThe model is less accurate than the probes by this much, 1,000 questions, {times}"
        " simulations each:\n"
    )
    yield "| worse by | losses reported |\n|---|---:|"
    yield from losses(times)
    yield "\n" + cost()


def test_probes(tmp_path: Path) -> None:
    """Print the figures in `make bench`."""
    for line in figures(tmp_path, 200):
        print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=500, help="simulated data sets of each case")
    parser.add_argument("--page", type=Path, help="write the figures into this page instead")
    parser.add_argument("--runs", type=Path, help="the folder of the run, which is resumed there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as held:
        lines = figures(asked.runs or Path(held), asked.times)
        if asked.page:
            text = "\n".join(lines) + "\n"
            page = asked.page.read_text(encoding="utf-8")
            asked.page.write_text(
                BLOCK.sub(lambda found: found[1] + text + found[2], page), encoding="utf-8"
            )
        else:
            for line in lines:
                print(line, flush=True)
