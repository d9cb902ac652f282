"""The rate at which a study without any true difference claims one, which should be at most 5 %.

`make bench` runs it; `python -m bench.bench_finding --times 50` is quicker. All seeds are fixed.
Each question has its own difficulty, and all arms answer it independently.
"""

import argparse
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from looktwice.eval.analysis.finding import Finding, find
from looktwice.eval.display.table import score_table
from looktwice.eval.page.data import PageAnswer, PageContestant, PageData, PageSample, PageTask
from looktwice.eval.page.pairs import PageNumbers
from tests.made_run import MadeRun

RADII, COLORS = (28, 18, 9), ("red", "magenta")
SWEEP = {"stages.mark.radius": [*RADII], "stages.mark.color": [*COLORS]}
OTHERS = ("zoomed", "reworded", "grid", "unmarked")


def null_study(folder: Path, seed: int, tasks: int, n: int, per_picture: int) -> Finding:
    """Return the finding of a sweep of six arms and four more contestants on some tasks of n
    questions, `per_picture` about each picture."""
    random, made = np.random.default_rng(seed), MadeRun(folder)
    arms: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in OTHERS]
    for levels in product(RADII, COLORS):
        arms.append(("plain", dict(zip(SWEEP, levels, strict=True))))
    for number in range(tasks):
        task = f"task {number}"
        made.task(task, ["A"] * n, meta=[{"group": f"g{i // per_picture}"} for i in range(n)])
        ease = np.repeat(random.uniform(-1, 2, -(-n // per_picture)), per_picture)[:n].clip(0, 1)
        for name, changes in arms:
            point = made.point(name, task, baseline=name == "plain", changes=changes)
            made.answers(point, ["A" if right else "B" for right in random.random(n) < ease])
    made.write()
    (folder / "run.yaml").write_text(yaml.safe_dump({"config": {"sweep": SWEEP}}))
    return find(score_table(folder))


def measure_false_claims(times: int) -> Iterator[str]:
    """Yield a line for each kind of study: the share of studies that claim a difference."""
    for tasks, n, per_picture in ((1, 60, 1), (1, 200, 1), (1, 120, 4), (3, 60, 1)):
        claims = 0
        for seed in range(times):
            with tempfile.TemporaryDirectory() as folder:
                claims += null_study(
                    Path(folder), seed, tasks, n, per_picture
                ).has_significant_change
        yield (
            f"{times} null studies of 10 arms on {tasks} task(s) of {n} questions, {per_picture} a"
            f" picture: {claims / times:.1%} claim something"
        )


def measure_false_stars(times: int) -> Iterator[str]:
    """Yield a line for each kind of page: the share on which any selectable pair is marked
    significant."""
    for contestants, tasks, n, per_picture in ((4, 1, 60, 1), (8, 3, 60, 1), (6, 2, 80, 4)):
        stars = raw = 0
        for seed in range(times):
            pairs = PageNumbers(null_page(seed, contestants, tasks, n, per_picture)).pairs
            stars += any(pair.is_significant for pair in pairs)
            raw += any(pair.paired.p < 0.05 for pair in pairs)
        yield (
            f"{times} null pages of {contestants} contestants on {tasks} task(s) of {n} questions,"
            f" {per_picture} a picture: {stars / times:.1%} show a star ({raw / times:.1%} by p"
            " without correction)"
        )


def null_page(seed: int, contestants: int, tasks: int, n: int, per_picture: int) -> PageData:
    """Make a page of contestants that answer the questions of some tasks equally well."""
    random, answers = np.random.default_rng(seed), dict[tuple[int, int], list[PageAnswer]]()
    samples = [
        PageSample(task, f"s{i}", group=f"{task} {i // per_picture}" if per_picture > 1 else "")
        for task in range(tasks)
        for i in range(n)
    ]
    for first in range(0, len(samples), per_picture):
        ease = random.uniform(-1, 2)
        for number in range(first, first + per_picture):
            for who in range(contestants):
                is_right = random.random() < ease
                answers[who, number] = [
                    PageAnswer("right" if is_right else "wrong", float(is_right))
                ]
    names = [PageContestant(f"c{who}", baseline=who == 0) for who in range(contestants)]
    return PageData("null", names, [PageTask(f"t{t}") for t in range(tasks)], samples, answers)


def test_finding() -> None:
    """Print the figures in `make bench`."""
    report(200)


def report(times: int) -> None:
    """Print every line as soon as it is computed."""
    for lines in (measure_false_claims(times), measure_false_stars(times)):
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200, help="simulated studies of each kind")
    report(parser.parse_args().times)
