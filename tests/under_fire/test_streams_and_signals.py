"""Output that is closed, ends early or is full, and signals before the first sample."""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    """Restore interrupts as a terminal sets them; background processes may ignore them."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start_process(*words: str, heed: Any = _heed_interrupts, **more: str) -> subprocess.Popen[str]:
    """Start another process whose output and errors are one text."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    pipe: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(words, env=environment | more, preexec_fn=heed, **pipe)


def shell(line: str) -> tuple[int, str]:
    """Return the exit code of LOOKTWICE in a shell line, and the other output."""
    line = f"{{ {line.replace('LOOKTWICE', COMMAND)}; }}; exit ${{PIPESTATUS[0]}}"
    with start_process("bash", "-c", line) as process:
        said, _ = process.communicate()
    assert "Traceback" not in said and "Exception" not in said, said
    return process.returncode, said


@pytest.mark.slow
@pytest.mark.parametrize("listener", [">&- 2>&-", "| head -1"])
def test_a_run_continues_when_nobody_reads_its_output(listener: str) -> None:
    assert shell(f"LOOKTWICE run study.yaml {listener}")[0] == 0
    assert len(records()) == 2 and (RUN / "report.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_output_that_cannot_be_written_is_reported() -> None:
    code, said = shell("LOOKTWICE list stages > /dev/full")
    assert code == 2 and "the output cannot be written" in said


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_planning_gives_one_sentence(number: int) -> None:
    kill = f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(20)\n"
    Path("mine.py").write_text(kill)
    code, said = shell("LOOKTWICE run study.yaml --plugin mine.py")
    assert code == 128 + number and len(said.splitlines()) == 1
    assert said.startswith("stopped; files written so far are kept")


@pytest.mark.slow
@needs_extras
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("command", ["serve pocket --port 0", "studio --port 0"])
def test_a_server_ends_by_ctrl_c_as_announced_and_names_any_other_signal(
    command: str, number: int, code: int
) -> None:
    main = "from looktwice.eval.cli import main; main()"
    with start_process(sys.executable, "-uc", main, *command.split()) as server:
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
def test_threads_share_four_heaps_or_the_configured_number(
    told: dict[str, str], heaps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    with start_process(sys.executable, "-c", HEAPS, **told) as process:
        said, _ = process.communicate()
    assert process.returncode == 0 and said.count("<heap nr=") == heaps, said
