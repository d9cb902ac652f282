"""The time of a run, from start to report, compared with inspect_ai, which is installed into its
own environment.

`WIRE_QUESTIONS=1000 WIRE_TIMES=3 make bench ARGS=bench/bench_inspect.py`;
`INSPECT=/path/to/its/python` names an existing environment.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.bench_wire import LOOKTWICE, QUESTIONS, TIMES, Measured, endpoint, measure
from bench.wire.questions import write_questions, write_study
from tests.paths import ROOT

WANTED = ("inspect_ai==0.3.285", "openai", "opencv-python-headless")
IN_FLIGHT = 64
TASK = """
import base64
import json
import os
from pathlib import Path

import cv2
import numpy as np
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice, solver


@solver
def circles():
    async def solve(state, generate):
        shown, question = state.user_prompt.content
        data = base64.b64decode(shown.image.partition(",")[2])  # inspect has read the file
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        for mark in state.metadata["marks"]:
            middle = round(mark["x"]), round(mark["y"])
            cv2.circle(pixels, middle, 20, (0, 0, 255), 3, cv2.LINE_AA)
            place = middle[0] + 24, middle[1]
            cv2.putText(pixels, mark["label"], place, cv2.FONT_HERSHEY_SIMPLEX, 0.8, (0, 0, 255), 2)
        png = base64.b64encode(bytes(cv2.imencode(".png", pixels)[1])).decode()
        drawn = ContentImage(image=f"data:image/png;base64,{png}")
        state.user_prompt.content = [drawn, question]
        return state

    return solve


@task
def photographs(draw: bool = False) -> Task:
    folder = Path(os.environ["QUESTIONS"])
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    samples = [
        Sample(
            id=row["id"],
            input=[
                ChatMessageUser(
                    content=[ContentImage(image=str(folder / row["images"][0])), \
ContentText(text=row["question"])]
                )
            ],
            choices=row["choices"],
            target=row["answer"],
            metadata={"marks": row["marks"]},
        )
        for row in rows
    ]
    solvers = [circles(), multiple_choice()] if draw else [multiple_choice()]
    return Task(dataset=MemoryDataset(samples), solver=solvers, scorer=choice())
"""
"""The questions as a task of inspect_ai."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the interpreter of an environment with inspect_ai."""
    if named := os.environ.get("INSPECT"):
        return named
    folder = tmp_path_factory.mktemp("inspect") / "env"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "-q", "install", *WANTED], check=True)
    return str(folder / "bin" / "python")


@pytest.mark.parametrize("circles", [False, True], ids=["as they are", "four circles each"])
def test_speed_compared_with_inspect_ai(
    python: str, circles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_questions(tmp_path / "questions", QUESTIONS)
    (tmp_path / "photographs.py").write_text(TASK)
    measured: dict[str, list[Measured]] = {"inspect_ai": [], "looktwice": []}
    with endpoint(0.0) as url:
        settings = {
            "QUESTIONS": str(tmp_path / "questions"),
            "WIRE_API_KEY": "none",
            "WIRE_BASE_URL": url,
        }
        monkeypatch.setattr(
            "bench.bench_wire.ENVIRONMENT",
            {**os.environ, "PYTHONPATH": f"{ROOT / 'typings'}:{ROOT}"} | settings,
        )
        study = write_study(tmp_path, url, IN_FLIGHT, circles)
        for _ in range(TIMES):
            now = time.monotonic_ns()
            at_once = f"--max-connections {IN_FLIGHT} --max-samples {IN_FLIGHT}"
            words = [*at_once.split(), "--display", "none"]
            theirs = [
                "env",
                "-u",
                "PYTHONPATH",
                "-C",
                tmp_path,
                python,
                "-m",
                "inspect_ai",
                "eval",
                "photographs.py",
                "--model",
                "openai-api/wire/wire",
                "-T",
                f"draw={str(circles).lower()}",
                *words,
                "--log-dir",
                tmp_path / f"logs{now}",
            ]
            measured["inspect_ai"].append(measure(url, theirs))
            ours = [
                *LOOKTWICE,
                "run",
                study,
                "--out",
                tmp_path / f"out{now}",
                "--workers",
                IN_FLIGHT,
            ]
            measured["looktwice"].append(measure(url, ours))
    whole = {name: statistics.median(row.whole for row in rows) for name, rows in measured.items()}
    cpu = {name: statistics.median(row.cpu for row in rows) for name, rows in measured.items()}
    print(
        f"\n{QUESTIONS:,} photographs, {'four circles each, ' * circles}{IN_FLIGHT} in flight,"
        f" whole processes, medians of {TIMES}"
    )
    for name, seconds in whole.items():
        print(f"  {name:10} {seconds:6.1f} s, {cpu[name]:.1f} s of a core")
    ratio, processor = (seconds["inspect_ai"] / seconds["looktwice"] for seconds in (whole, cpu))
    print(f"  ratio      {ratio:6.1f}, in CPU time {processor:.1f}")
