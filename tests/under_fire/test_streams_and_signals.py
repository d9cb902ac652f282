"""Output that is closed, ends early or is full, and a signal or too little memory before the first
sample."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.optional import needs_extras
from tests.under_fire.scenes import RUN, STUDY, records, write_questions

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="the shell and the signals are those of POSIX"
)
COMMAND = f'{sys.executable} -c "from looktwice.eval.cli import main; main()"'


@pytest.fixture(autouse=True)
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_questions({}, {})
    Path("study.yaml").write_text(STUDY)


def _heed_interrupts() -> None:
    """As a terminal starts a program; tests in the background, or of some CI, inherit that
    interrupts are ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def shell(line: str) -> tuple[int, str]:
    """The exit code of LOOKTWICE in a line of a shell, and what else there is to read."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    line = f"{{ {line.replace('LOOKTWICE', COMMAND)}; }}; exit ${{PIPESTATUS[0]}}"
    command, pipe = ["bash", "-c", line], subprocess.PIPE
    done = subprocess.run(
        command,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
        check=False,
        preexec_fn=_heed_interrupts,
    )
    said = done.stdout + done.stderr
    assert "Traceback" not in said and "Exception" not in said, said
    return done.returncode, said


@pytest.mark.dear
@pytest.mark.parametrize("listener", [">&- 2>&-", "| head -1"])
def test_a_run_that_nobody_listens_to_is_a_run(listener: str) -> None:
    assert shell(f"LOOKTWICE run study.yaml {listener}")[0] == 0
    assert len(records()) == 2 and (RUN / "report.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_output_that_finds_no_room_is_named() -> None:
    code, said = shell("LOOKTWICE list stages > /dev/full")
    assert code == 2 and "the output cannot be written" in said


@pytest.mark.dear
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_run_is_planned_is_a_sentence(number: int) -> None:
    kill = f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(20)\n"
    Path("mine.py").write_text(kill)
    code, said = shell("LOOKTWICE run study.yaml --plugin mine.py")
    assert code == 128 + number and len(said.splitlines()) == 1
    assert said.startswith("stopped; what is written stays")


@needs_extras
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("command", ["serve pocket --port 0", "studio --port 0"])
def test_a_server_ends_by_ctrl_c_as_announced_and_says_which_other_signal_ended_it(
    command: str, number: int, code: int
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    words = [sys.executable, "-uc", "from looktwice.eval.cli import main; main()", *command.split()]
    with subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_heed_interrupts,
    ) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        server.send_signal(number)
        said += server.communicate(timeout=60)[0]
    assert server.returncode == code, said
    assert "Traceback" not in said


HEAPS = """
import ctypes, sys, threading
from looktwice.eval import cli
cli.app = lambda: None
cli.main()
libc, meet = ctypes.CDLL(None), threading.Barrier(12)
libc.fopen.restype, libc.malloc.restype = ctypes.c_void_p, ctypes.c_void_p
def work():
    libc.malloc(10_000)
    meet.wait()
threads = [threading.Thread(target=work) for _ in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc.malloc_info(0, ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w")))
libc.fflush(None)
"""


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="the heaps are those of glibc")
@pytest.mark.parametrize(("told", "heaps"), [({}, 4), ({"MALLOC_ARENA_MAX": "2"}, 2)])
def test_threads_share_four_heaps_or_as_many_as_was_told(told: dict[str, str], heaps: int) -> None:
    path = os.pathsep.join(part for part in sys.path if part)
    environment = {k: v for k, v in os.environ.items() if k != "MALLOC_ARENA_MAX"}
    done = subprocess.run(
        [sys.executable, "-c", HEAPS],
        env=environment | {"PYTHONPATH": path} | told,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("<heap nr=") == heaps
