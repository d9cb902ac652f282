"""Peak memory of a run that draws circles on 1,000 photographs of 1,000 x 750 pixels: the PSS of
the command and of all its worker processes, read while it runs.

`MEMORY_PICTURES=1000 make bench ARGS="bench/bench_memory.py"`
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.bench_wire import ENVIRONMENT, LOOKTWICE, endpoint
from bench.wire.questions import CIRCLES, STUDY, write_questions
from tests.paths import ROOT

PICTURES = int(os.environ.get("MEMORY_PICTURES", "1000"))
SIZE = (1000, 750)
LIMIT, PAUSE = 200, 0.05  # MB, and seconds between measurements
SCRIPTED = "{use: pipelines.models.Scripted, answer: (B)}"
CHAT = '{{use: pipelines.models.ChatAPI, model: wire, url: "{url}"{more}}}'

needs_linux = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/PID/smaps_rollup"
)


def processes(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from processes(int(child))


def proportional_memory(pid: int) -> float:
    """Return the memory of a process in MB; a page shared by several processes counts for each in
    proportion."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure_peak(command: list[str]) -> list[float]:
    """Run a command; return the peak memory of its processes together, in MB."""
    peak: list[float] = [0.0]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT, cwd=ROOT
    ) as run:
        while run.poll() is None:
            with suppress(OSError, ValueError):  # one may just have ended
                peak = max(peak, [*map(proportional_memory, processes(run.pid))], key=sum)
            time.sleep(PAUSE)
        assert run.stdout is not None
        assert run.returncode == 0, run.stdout.read()
    return peak


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory")
    write_questions(path / "questions", PICTURES, SIZE)
    return path


@needs_linux
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("scripted", SCRIPTED),
        ("server", CHAT.format(url="{url}", more="")),
        ("server, 64 in flight", CHAT.format(url="{url}", more=", in_flight: 64")),
    ],
)
def test_circles_on_photographs(folder: Path, tmp_path: Path, name: str, model: str) -> None:
    with endpoint(0.0) as url:
        study = folder / "memory.yaml"
        text = STUDY.format(url="", in_flight=1, mark=CIRCLES)
        first = next(line for line in text.splitlines() if line.startswith("model:"))
        study.write_text(text.replace(first, f"model: {model.replace('{url}', url)}"))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak = measure_peak([*LOOKTWICE, "run", str(study), "--out", str(tmp_path)])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = sum(getattr(after, field) - getattr(before, field) for field in ("ru_utime", "ru_stime"))
    parts = " + ".join(f"{part:.0f}" for part in peak)
    print(f"\n{name}: {sum(peak):.0f} MB ({parts}), {1000 * used / PICTURES:.1f} ms of a core each")
    assert sum(peak) < LIMIT
