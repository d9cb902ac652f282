"""Output that is closed, ends early or is full, and a signal or too little memory before the first
sample."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from looktwice.eval.records import RunFolder

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="the shell and the signals are those of POSIX"
)
STUDY = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {ask: {use: prompting.turns.Ask}}
"""
COMMAND = f'{sys.executable} -c "from looktwice.eval.cli import main; main()"'


def _heed_interrupts() -> None:
    """As a terminal starts a program; tests in the background, or of some CI, inherit that
    interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def shell(folder: Path, line: str) -> tuple[int, str]:
    """The exit code of LOOKTWICE in a line of a shell, and what else there is to read."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    line = f"{{ {line.replace('LOOKTWICE', COMMAND)}; }}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_heed_interrupts,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("listener", [">&- 2>&-", "| head -1"])
def test_a_run_that_nobody_listens_to_is_a_run(tmp_path: Path, listener: str) -> None:
    """With closed or broken output it ended silently with code 1, or without its report."""
    (tmp_path / "study.yaml").write_text(STUDY)
    code, said = shell(tmp_path, f"LOOKTWICE run study.yaml {listener}")
    assert code == 0 and "Traceback" not in said and "Exception" not in said, said
    assert len(RunFolder(tmp_path / "runs/study").records()) == 2
    assert (tmp_path / "runs/study/report.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_output_that_finds_no_room_is_named(tmp_path: Path) -> None:
    code, said = shell(tmp_path, "LOOKTWICE list stages > /dev/full")
    assert (
        code == 2
        and "the output cannot be written" in said
        and "Traceback" not in said
        and "Exception" not in said
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_run_is_planned_is_a_sentence(tmp_path: Path, number: int) -> None:
    """A scheduler's ended it without a word, and a closed terminal's too."""
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "mine.py").write_text(
        f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(20)\n"
    )
    code, said = shell(tmp_path, "LOOKTWICE run study.yaml --plugin mine.py")
    assert (
        code == 130
        and said.startswith("stopped; what is written stays")
        and len(said.splitlines()) == 1
    ), said
