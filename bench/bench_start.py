"""How long `looktwice --help` takes, from process start to exit: the best of five, and the floor is 0.3 s."""

import subprocess
import sys
import time

LIMIT_S = 0.3
COMMAND = [sys.executable, "-c", "from looktwice.eval.cli import main; main()", "--help"]


def seconds() -> float:
    start = time.perf_counter()
    subprocess.run(COMMAND, check=True, capture_output=True)
    return time.perf_counter() - start


def test_help_answers_at_once() -> None:
    seconds()  # writes the byte code
    best = min(seconds() for _ in range(5))
    print(f"\nlooktwice --help: {best:.3f} s (limit {LIMIT_S} s)")
    assert best < LIMIT_S
