"""Start-up time of looktwice: for `--help`, and for one question with and without a server.

`python -m bench.bench_start` prints the same figures: the best of several times, because other
processes of the machine can only add time.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bench_wire import LOOKTWICE, endpoint
from bench.wire.questions import write_questions, write_study

LIMITS_S = {"--help": 0.3, "run, scripted": 1.0, "run, a server": 1.0, "run again": 1.0}
TIMES = 5
SCRIPTED = "model={use: pipelines.models.Scripted, answer: (A)}"
CHILD = """
import json, resource
from looktwice.eval.cli import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([used.ru_utime + used.ru_stime]))
"""


def measure_help() -> float:
    start = time.perf_counter()
    subprocess.run([*LOOKTWICE, "--help"], check=True, capture_output=True)
    return time.perf_counter() - start


def measure_run(arguments: Sequence[object]) -> float:
    """Return the CPU seconds of a whole process that runs one question."""
    command = [sys.executable, "-c", CHILD, "run", *map(str, arguments)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(output.splitlines()[-1])[0])


def measure_all(folder: Path) -> dict[str, float]:
    """Print and return the best time of each, by name."""
    write_questions(folder / "questions", 1)
    with endpoint(0.0) as url:
        study = write_study(folder, url, 1)
        again = [study, "--out", folder / "again"]
        measure_run(again)  # this first call also writes the byte code
        found = {
            "--help": min(measure_help() for _ in range(TIMES)),
            "run, scripted": min(
                measure_run([study, "--out", folder / f"s{n}", SCRIPTED]) for n in range(TIMES)
            ),
            "run, a server": min(
                measure_run([study, "--out", folder / f"c{n}"]) for n in range(TIMES)
            ),
            "run again": min(measure_run(again) for _ in range(TIMES)),
        }
    for name, best in found.items():
        print(f"{name:14} {best:.3f} s (limit {LIMITS_S[name]} s)")
    return found


def test_start_up_time_is_below_the_limits(tmp_path: Path) -> None:
    print()
    assert all(best < LIMITS_S[name] for name, best in measure_all(tmp_path).items())


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        measure_all(Path(place))
