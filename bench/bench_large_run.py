"""Time and peak memory of the commands that read a run of 100,000 records, each in its own process.

`python -m bench.bench_large_run FOLDER [SAMPLES]` first creates the run there, unless it exists,
and keeps it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.large_run import make_run

ROUNDS, LIMIT_MB = 3, 500
LIMITS_S = {"score": 5.0, "report": 20.0, "show": 2.0, "resume": 5.0}
"""CPU seconds on a quiet machine; printed next to the measurements."""
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
        "resume": ("run", str(config), "--out", str(run.parent)),
    }


def measure(arguments: Sequence[str]) -> Used:
    """Run one command in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], check=True, capture_output=True, text=True
    )
    return Used(*json.loads(done.stdout.splitlines()[-1]))


def measure_all(config: Path, run: Path, rounds: int = ROUNDS) -> dict[str, Used]:
    """Print and return the median of each figure over the rounds, by command."""
    found = {}
    for name, arguments in commands(config, run).items():
        each = [measure(arguments) for _ in range(rounds)]
        found[name] = Used(*(median(values) for values in zip(*each, strict=True)))
        wall, cpu, mb = found[name]
        print(
            f"{name:7} {wall:6.1f} s wall, {cpu:6.1f} s cpu (goal {LIMITS_S[name]:g}), {mb:5.0f} MB"
            f" (goal {LIMIT_MB})"
        )
    return found


def test_reading_a_large_run(tmp_path: Path) -> None:
    print()
    for used in measure_all(*make_run(tmp_path)).values():
        assert used.mb < LIMIT_MB


if __name__ == "__main__":
    root = Path(sys.argv[1])
    there = root / "large.yaml", root / "runs" / "large"
    measure_all(
        *(there if there[1].exists() else make_run(root, *map(int, sys.argv[2:]))), rounds=1
    )
