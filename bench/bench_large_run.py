"""Time and peak memory of the commands that read a run of 100,000 records, each in its own process,
without the table of kept verdicts ("cold") and with it ("warm").

`python -m bench.bench_large_run FOLDER [SAMPLES] [pictures]` first creates the run there, unless it
exists, and keeps it. `BEFORE=/path/to/another/checkout` runs the same commands by its code, in
turns, and prints the ratios of the medians.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from bench.large_run import make_run
from looktwice.eval.display.table import score_table
from looktwice.eval.page.run_page import RunPage
from looktwice.eval.report import Report, render_report_page
from looktwice.eval.scoring.kept import SEAL_FILE, VERDICTS_FILE

ROUNDS, LIMIT_MB = 3, 500
ROOT = Path(__file__).resolve().parent.parent
PAGE_MB = 5
"""Maximum size of the served page of the run before a sample is opened."""
CHILD = """
import json, resource, sys, time
from looktwice.eval.cli import main
start = time.perf_counter()
try:
    main()
except SystemExit as exc:
    assert not exc.code, exc.code
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / \
1024]))
"""


class Used(NamedTuple):
    """Wall seconds, CPU seconds, and peak resident memory in MB."""

    wall: float
    cpu: float
    mb: float


def commands(config: Path, run: Path) -> Mapping[str, Sequence[str]]:
    """Return the measured command lines by name."""
    return {
        "score": ("score", str(run)),
        "report": ("score", str(run), "--report"),
        "show": ("view", str(run), "--sample", "q00007"),
        "export": ("export", str(run), "--to", "inspect", "--out", str(run.parent / "logs")),
        "resume": ("run", str(config), "--out", str(run.parent)),
    }


def measure(arguments: Sequence[str], code: Path = ROOT) -> Used:
    """Run one command of a checkout in a fresh process."""
    settings = {**os.environ, "PYTHONPATH": str(code / "typings"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=settings,
        cwd=code,
    )
    return Used(*json.loads(done.stdout.splitlines()[-1]))


def measure_all(config: Path, run: Path, rounds: int = ROUNDS) -> dict[str, Used]:
    """Print and return the median of each figure over the rounds, by command."""
    before = Path(os.environ["BEFORE"]) if "BEFORE" in os.environ else None
    every = defaultdict[str, list[Used]](list)
    for _ in range(rounds):
        for name, arguments in commands(config, run).items():
            if before:
                every[f"{name} before"].append(measure(arguments, before))
            for file in (VERDICTS_FILE, SEAL_FILE):
                (run / file).unlink(missing_ok=True)
            every[f"{name} cold"].append(measure(arguments))
            every[f"{name} warm"].append(measure(arguments))
    found = {
        name: Used(*(median(values) for values in zip(*each, strict=True)))
        for name, each in every.items()
    }
    for name, (wall, cpu, mb) in found.items():
        old = found.get(f"{name.partition(' ')[0]} before")
        ratio = f", {old.cpu / cpu:.1f} times as fast as before" if old else ""
        print(f"{name:14} {wall:6.1f} s wall, {cpu:6.1f} s cpu, {mb:5.0f} MB{ratio}")
    return found


def measure_page(run: Path) -> float:
    """Print and return the size of the served page of a run, in MB."""
    shown = score_table(run)
    pieces = render_report_page(Report(shown), RunPage(shown.scores), served=True)
    size = sum(map(len, pieces)) / 1e6
    print(f"served page {size:.1f} MB (goal {PAGE_MB})")
    return size


@pytest.mark.parametrize("with_pictures", [False, True], ids=["text", "pictures"])
def test_reading_a_large_run(tmp_path: Path, with_pictures: bool) -> None:
    print()
    config, run = make_run(tmp_path, with_pictures=with_pictures)
    for used in measure_all(config, run).values():
        assert used.mb < LIMIT_MB
    assert measure_page(run) < PAGE_MB


if __name__ == "__main__":
    root = Path(sys.argv[1])
    there = root / "large.yaml", root / "runs" / "large"
    if not there[1].exists():
        make_run(root, *map(int, sys.argv[2:3]), with_pictures="pictures" in sys.argv)
    measure_all(*there, rounds=1)
    measure_page(there[1])
