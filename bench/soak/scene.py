"""Code that all scenes share: the command line in a limited child process, the effects that it must
never have, and rows of the table."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from looktwice.eval.display.printable import printable
from tests.paths import ROOT

SECRET = "sk-soak-7Hq2mVx9Zt41Wb8Q"
MAX_MEMORY = 6 << 30  # bytes of address space; more means that a decompression bomb was expanded
MAIN = [sys.executable, "-c", "from looktwice.eval.cli import main; main()"]

STUDY = """
task: {{use: eval.tasks.Folder, path: questions}}
model: {{use: pipelines.models.ChatAPI, model: tiny, name: tiny, seed: 0, timeout: {timeout}, url: \
"{url}"}}
stages:
  choose: {{use: prompting.wording.MultipleChoice}}
  ask: {{use: prompting.turns.Ask}}
"""


class Finding(NamedTuple):
    """One row of the table: the test, its result, and whether it passed."""

    scene: str
    test: str
    figure: str
    ok: bool


class CommandResult(NamedTuple):
    """A finished command: its exit code (None after a timeout), its whole output, and its
    seconds."""

    code: int | None
    said: str
    seconds: float


def environment(url: str = "", **more: str) -> dict[str, str]:
    """Return the environment of a user whose only API key is for the server at `url`."""
    plain = {
        k: v
        for k, v in os.environ.items()
        if "API_KEY" not in k and not k.startswith(("OPENAI_", "LOOKTWICE_"))
    }
    named = {"OPENAI_API_KEY": SECRET} | ({"OPENAI_BASE_URL": url} if url else {})
    ours = {"PYTHONPATH": f"{ROOT / 'typings'}", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return plain | named | ours | more


def bound(file_bytes: int | None = None) -> Callable[[], None]:
    """Limit the memory of a child process and the size of its files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return limit


def looktwice(
    *words: object,
    url: str = "",
    seconds: float = 60,
    file_bytes: int | None = None,
    before: Sequence[str] = (),
    cwd: Path | None = None,
    more: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a looktwice command in a limited child process; `before` precedes the command."""
    command = [*before, *MAIN, *(str(word) for word in words)]
    begun = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            env=environment(url, **(more or {})),
            cwd=cwd,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=bound(file_bytes),
        )
    except subprocess.TimeoutExpired as exc:
        return CommandResult(
            None, (exc.stdout or b"").decode("utf-8", "replace"), time.perf_counter() - begun
        )
    return CommandResult(
        done.returncode, done.stdout.decode("utf-8", "replace"), time.perf_counter() - begun
    )


def faults(ended: CommandResult, codes: Iterable[int], says: Iterable[str] = ()) -> list[str]:
    """List forbidden effects of a command; empty if there are none."""
    if ended.code is None:
        return [f"did not end in {ended.seconds:.0f} s"]
    found = [] if ended.code in codes else [f"exit code {ended.code}"]
    found += ["a traceback"] if "Traceback" in ended.said else []
    found += ["the key"] if SECRET[:12] in ended.said else []
    found += (
        ["control characters"]
        if printable(ended.said.replace("\r", "")) != ended.said.replace("\r", "")
        else []
    )
    flat = " ".join(ended.said.split())
    return found + [f"does not say {text!r}" for text in says if text not in flat]


def find_keys(folder: Path) -> list[str]:
    """List files in a folder that contain the key, or its first half."""
    half = SECRET[:12].encode()
    return [
        f"the key in {path.name}"
        for path in folder.rglob("*")
        if path.is_file() and half in path.read_bytes()
    ]


def finding(
    scene: str, test: str, figure: str, found: Sequence[str], ended: CommandResult | None = None
) -> Finding:
    """Make a row of the table; if there are faults, they become the figure, with the end of the
    output."""
    if not found:
        return Finding(scene, test, figure, True)
    tail = " ".join(ended.said.split())[-300:] if ended else ""
    return Finding(scene, test, "; ".join([*found[:6], *([tail] if tail else [])]), False)


def write_study(
    folder: Path, url: str, questions: Iterable[str], timeout: float = 30, more: str = ""
) -> Path:
    """Write a study in `folder` that asks the server at `url` these questions, whose answer is
    A."""
    data = folder / "questions"
    data.mkdir(parents=True, exist_ok=True)
    rows = [
        {"id": f"s{number}", "question": text, "choices": ["yes", "no"], "answer": "A"}
        for number, text in enumerate(questions)
    ]
    (data / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = folder / "study.yaml"
    path.write_text(STUDY.format(url=url, timeout=timeout) + more)
    return path
