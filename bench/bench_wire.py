"""Overhead of a run with a server that answers at once, and with a slow one, as ratios to minimal
request loops.

`WIRE_QUESTIONS=10000 WIRE_TIMES=5 make bench ARGS="bench/bench_wire.py"`; by default 1,000
questions, three times.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.wire.questions import write_questions, write_study
from tests.chat_server import chat_server
from tests.paths import ROOT

QUESTIONS, TIMES = (
    int(os.environ.get("WIRE_QUESTIONS", "1000")),
    int(os.environ.get("WIRE_TIMES", "3")),
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'typings'}:{ROOT}", "OMP_NUM_THREADS": "1"}
MANY = int(os.environ.get("WIRE_MANY", "20000"))
LOOKTWICE = [sys.executable, "-c", "from looktwice.eval.cli import main; main()"]


class Measured(NamedTuple):
    """Questions per second from the first to the last, and the wall and CPU seconds of the whole
    process."""

    rate: float
    whole: float
    cpu: float


@contextmanager
def endpoint(latency: float) -> Iterator[str]:
    """Yield the URL of a server in its own process."""
    command = [sys.executable, "-m", "bench.wire.server", "--latency", str(latency)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=ROOT
    ) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.kill()


def measure(url: str, command: Sequence[object]) -> Measured:
    """Measure a command that asks every question."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, env=ENVIRONMENT, cwd=ROOT
    )
    whole, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        seen = json.load(answer)
    assert seen["count"] == QUESTIONS
    used = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
    return Measured((QUESTIONS - 1) / seen["seconds"], whole, used)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the questions."""
    path = tmp_path_factory.mktemp("wire")
    write_questions(path / "questions", QUESTIONS)
    return path


@pytest.mark.parametrize(
    ("latency", "in_flight", "circles"),
    [(0.0, 64, False), (0.0, 64, True), (0.2, 256, False)],
    ids=["at once", "four circles each", "200 ms"],
)
def test_speed_compared_with_a_bare_loop(
    folder: Path, latency: float, in_flight: int, circles: bool
) -> None:
    measured: dict[str, list[Measured]] = {
        "bare": [],
        "bare, and keeps": [],
        "looktwice": [],
        "on one core": [],
    }
    with endpoint(latency) as url:
        study = write_study(folder, url, in_flight, circles)
        for _ in range(TIMES):
            draw = ["--draw"] if circles else []
            bare = [sys.executable, "-m", "bench.wire.bare", study, in_flight, *draw]
            ours = [*LOOKTWICE, "run", study, "--workers", in_flight, "--out"]
            measured["bare"].append(measure(url, bare))
            if not circles:
                measured["bare, and keeps"].append(
                    measure(url, [*bare, "--keep", make_fresh_folder(folder)])
                )
            measured["looktwice"].append(measure(url, [*ours, make_fresh_folder(folder)]))
            # these threads compete less for one interpreter
            if shutil.which("taskset") and not circles:
                measured["on one core"].append(
                    measure(url, ["taskset", "-c", "0", *ours, make_fresh_folder(folder)])
                )
    median = {
        name: Measured(*map(statistics.median, zip(*rows, strict=True)))
        for name, rows in measured.items()
        if rows
    }
    what = (
        f"{QUESTIONS:,} questions, {'four circles each, ' * circles}{latency * 1000:.0f} ms,"
        f" {in_flight} in flight"
    )
    print(f"\n{what}, medians of {TIMES}")
    for name, row in median.items():
        each = f"{1000 * row.cpu / QUESTIONS:.2f} ms of a core each"
        print(
            f"  {name:15} {row.rate:8.0f} a second once begun, whole process {row.whole:.1f} s,"
            f" {each}"
        )
        print(
            f"  {'':15} {median['looktwice'].rate / row.rate:8.2f} of it reached by looktwice"
            * name.startswith("bare")
        )


def make_fresh_folder(folder: Path) -> Path:
    """Return a new folder; old ones are kept, because recent deletions slow a disk."""
    return folder / f"out{time.monotonic_ns()}"


def test_memory_stays_flat(tmp_path: Path) -> None:
    """Compare the resident memory of runs over a thousand and over many questions."""
    peaks = []
    for count in (1_000, MANY):
        root = tmp_path / str(count)
        (root / "questions").mkdir(parents=True)
        with (root / "questions" / "samples.jsonl").open("w", encoding="utf-8") as file:
            for number in range(count):
                row = {
                    "id": f"q{number:06}",
                    "question": f"What is {number} and one?",
                    "answer": str(number + 1),
                }
                file.write(json.dumps(row) + "\n")
        study = root / "study.yaml"
        study.write_text(
            f"task: {{use: eval.tasks.Folder, path: {root / 'questions'}}}\nmodel: {{use:"
            " pipelines.models.Scripted, answer: '7'}\nstages: {ask: {use:"
            " prompting.turns.Ask}}\n"
        )
        peak = "import resource; print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        code = f"import atexit; atexit.register(lambda: exec({peak!r})); {LOOKTWICE[2]}"
        command = [sys.executable, "-c", code, "run", str(study), "--out", str(root / "runs")]
        output = subprocess.run(
            command, check=True, capture_output=True, text=True, env=ENVIRONMENT
        ).stdout
        peaks.append(int(output.split("PEAK")[-1]) / 1024)
    print(f"\nresident: {peaks[0]:.0f} MB at 1,000 questions, {peaks[1]:.0f} MB at {MANY:,}")


ASKED = 420
REFUSALS = {
    "no errors": (),
    "4 % refused": ("--fail", "429=0.04", "--retry-after", "1"),
    "20 a second": ("--rate", "20", "--retry-after", "1"),
    "20 a second, no Retry-After": ("--rate", "20"),
}


def test_a_server_that_refuses_some_requests(tmp_path: Path) -> None:
    """Send requests of 0.1 s, 16 at a time: a refused request waits without delaying others, and a
    real rate limit is detected and respected."""
    write_questions(tmp_path / "questions", ASKED)
    seconds: dict[str, float] = {}
    # compared with the better of the two
    for turn, name in enumerate([*REFUSALS, "no errors", "4 % refused"]):
        with chat_server(None, "--delay", "0.1", *REFUSALS[name]) as server:
            command = [
                *LOOKTWICE,
                "run",
                write_study(tmp_path, server.url, 16),
                "--out",
                tmp_path / str(turn),
            ]
            begun = time.perf_counter()
            ran = subprocess.run(
                [str(word) for word in command],
                capture_output=True,
                text=True,
                env=ENVIRONMENT,
                cwd=ROOT,
            )
            took, seen = time.perf_counter() - begun, server.stats
        seconds[name] = min(took, seconds.get(name, took))
        refused = "".join(line for line in ran.stderr.splitlines() if "429" in line)
        print(
            f"\n{name}: {took:.1f} s, {seen['requests'] / ASKED:.2f} requests an answer; {refused}"
        )
        assert ran.returncode == 0 and f"({ASKED} new, 0 existing, 0 failed)" in ran.stdout, (
            ran.stdout + ran.stderr
        )
        assert seen["replies"] == ASKED and seen["requests"] < 1.3 * ASKED
    assert seconds["4 % refused"] <= 1.6 * seconds["no errors"]


ZOOMED = """
task: {{use: eval.tasks.Folder, path: questions}}
model: {model}
stages:
  zoom:
    use: prompting.views.ZoomOnDetections
    detector: {{use: specialists.detection.FaceCascade}}
  ask: {{use: prompting.turns.Ask}}
"""
PHOTOGRAPHS = 200


def test_detection_and_requests_overlap(tmp_path: Path) -> None:
    """Compare a study with detector, zoom and model with the slower of its two halves, with the
    default number of threads."""
    write_questions(tmp_path / "questions", PHOTOGRAPHS)
    scripted = "{use: pipelines.models.Scripted, answer: (A)}"
    seconds = dict[str, list[float]]()
    with endpoint(0.8) as url:
        chat = f'{{use: pipelines.models.ChatAPI, model: wire, url: "{url}", in_flight: 16}}'
        asked = ZOOMED.format(model=chat)
        zoom = asked[asked.index("  zoom:") : asked.index("  ask:")]
        studies = {
            "detector and zoom": ZOOMED.format(model=scripted),
            "model": asked.replace(zoom, ""),
            "all": asked,
        }
        for turn in range(TIMES):
            for name, text in studies.items():
                study = tmp_path / "study.yaml"
                study.write_text(text)
                begun = time.perf_counter()
                command = [*LOOKTWICE, "run", study, "--out", tmp_path / f"{turn}{name}"]
                subprocess.run(
                    [str(word) for word in command],
                    check=True,
                    capture_output=True,
                    env=ENVIRONMENT,
                    cwd=ROOT,
                )
                seconds.setdefault(name, []).append(time.perf_counter() - begun)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    slower = max(median["detector and zoom"], median["model"])
    words = ", ".join(f"{name} {second:.1f} s" for name, second in median.items())
    print(f"\n{PHOTOGRAPHS} photographs: {words}: {median['all'] / slower:.2f} of the slower half")
