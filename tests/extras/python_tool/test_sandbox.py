"""Sandboxes stop forbidden actions of code, report them to the model, and clean up after it."""

import ast
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.python_tool import Bubblewrap, Container, PythonSandbox, RunPython
from looktwice.extras.python_tool.sandbox import open_live_session
from looktwice.extras.python_tool.tool import PythonArguments
from looktwice.pipelines.model import Message, ModelError, Reply
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.extras.python_tool.stand_in import StandIn
from tests.paths import ROOT
from tests.tables import read_yaml, table

HOLDS = Bubblewrap().find_fault() == ""
ALIKE = {"time", "memory", "output"}  # what the stand-in stops too
PIXELS = np.full((60, 80, 3), 200, np.uint8)
LIMITS: dict[str, dict[str, Any]] = {"time": {"seconds": 0.4}, "memory": {"memory_mb": 1024}}


def run_code(sandbox: PythonSandbox, *cells: str) -> str:
    """Run pieces of code in one session; return the last text."""
    state = State.start(Sample("a", "What?", images=(Picture(PIXELS),)))
    text = ""
    with RunPython(sandbox).open_session(state) as session:
        for code in cells:
            text = session(state, PythonArguments(code=code)).text
    return text


def list_own_processes() -> set[str]:
    """Return the numbers of the processes that a thread of this one started and that still run."""
    files = Path("/proc/self/task").glob("*/children")
    return {number for file in files for number in file.read_text().split()}


def list_marked_processes(mark: str) -> list[str]:
    """Return the commands of all processes of the machine that were started with this text in their
    environment, also of those whose parent has ended."""
    found = list[str]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
    return found


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """A server and a file of this machine, a key in the environment, and an empty folder for all
    temporary files."""
    monkeypatch.setenv("LOOKTWICE_TEST_KEY", f"canary {tmp_path}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "secret").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {"port": server.getsockname()[1], "file": str(tmp_path / "secret")}


@pytest.mark.slow
@table
def test_a_sandbox_stops(kind: str, code: str, found: str, places: dict[str, object]) -> None:
    for name, value in places.items():
        code = code.replace(f"{{{name}}}", str(value))
    before = list_own_processes()
    kinds: list[type[PythonSandbox]] = [StandIn] if kind in ALIKE else []
    kinds += [Bubblewrap] if HOLDS else []
    if not kinds:
        pytest.skip(Bubblewrap().find_fault())
    for make in kinds:
        text = run_code(make(**LIMITS.get(kind, {"seconds": 60})), code)
        assert found in text and len(text) < 8000, f"{make.__name__}: {text[:300]}"
    assert list_own_processes() == before
    assert list_marked_processes(os.environ["LOOKTWICE_TEST_KEY"]) == []
    assert os.listdir(tempfile.gettempdir()) == []


def test_every_kind_of_attempt_is_in_the_table() -> None:
    _, *rows = read_yaml(Path(__file__).with_suffix(".yaml"))["test_a_sandbox_stops"]
    counts = Counter(kind for kind, _, _ in rows)
    kinds = {"network", "files", "processes", "time", "memory", "output", "environment"}
    assert set(counts) == kinds and min(counts.values()) >= 3 and counts.total() >= 40


def test_an_orphaned_process_is_found(places: dict[str, object]) -> None:
    """A child whose parent has ended belongs to no thread of this process."""
    mark = os.environ["LOOKTWICE_TEST_KEY"]
    sleeper = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    quiet = "stdout=s.DEVNULL, stderr=s.DEVNULL"
    start = f"import subprocess as s, sys; print(s.Popen({sleeper}, {quiet}).pid)"
    told = subprocess.run([sys.executable, "-c", start], capture_output=True, check=True, text=True)
    number = int(told.stdout)
    try:
        (found,) = list_marked_processes(mark)
        assert "time.sleep(60)" in found and str(number) not in list_own_processes()
    finally:
        os.kill(number, signal.SIGKILL)


def ask(sandbox: PythonSandbox, *codes: str) -> Reply:
    """Ask a sandbox as a model, with a turn for each piece of code."""
    return sandbox(tuple(Message("user", (code,)) for code in codes))


def test_earlier_code_runs_again_only_if_its_variables_are_lost() -> None:
    StandIn.starts.clear()
    with open_live_session():
        assert ask(StandIn(), "n = 1").text == "(the code printed nothing)"
        assert ask(StandIn(), "n = 1", "n += 1; print(n)").text == "2"
        assert len(StandIn.starts) == 1
    assert ask(StandIn(), "n = 1", "n += 1; print(n)", "print(n + 1)").text == "3"
    with open_live_session():
        assert "NameError" in ask(StandIn(), "print(n)").text
    assert len(StandIn.starts) == 3
    assert all(process.poll() is not None for process in StandIn.running)


def test_without_a_sandbox_nothing_runs() -> None:
    StandIn.starts.clear()
    sandbox = StandIn(fault="install one")
    with pytest.raises(ModelError, match="install one"):
        ask(sandbox, "print(1)")
    assert sandbox.missing() == "install one" and StandIn.starts == []


@pytest.mark.parametrize(
    "sandbox", [Bubblewrap(packages=()), Container(image="none", engine="podman")]
)
def test_a_missing_program_is_named_with_what_to_install(
    sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fault = sandbox.find_fault()
    assert "not on the PATH" in fault and "install" in fault and "bubblewrap" in fault


ENGINE = f"""#!{sys.executable}
import os, subprocess, sys
given = sys.argv[1:]
with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as calls:
    calls.write(repr(given[:-1]) + chr(10))
if given[0] == "run":
    program = given[-1].replace('os.chdir(fields["folder"])', "pass")
    os.execv(sys.executable, [sys.executable, "-I", "-c", program])
"""


def test_a_container_has_no_network_and_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").write_text(ENGINE)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    sandbox = Container(image="python-pillow:1", runtime="runsc", seconds=30)
    assert run_code(sandbox, "x = 4", "x + 1") == "5"
    inspect, run, remove = map(ast.literal_eval, (tmp_path / "calls").read_text().splitlines())
    assert inspect == ["image", "inspect"] and remove == ["rm", "--force"]
    options = " ".join(run)
    for option in (
        *("--network none", "--read-only", "--cap-drop ALL", "--pids-limit 32", "--pull never"),
        *("--security-opt no-new-privileges", "--user 65534:65534", "--memory 2048m", "--rm"),
        "--runtime runsc",
    ):
        assert option in options
    for image, runtime in (("", ""), ("-v/:/all", ""), ("a", "--privileged")):
        with pytest.raises(ValueError, match=r"image|runtime"):
            Container(image=image, runtime=runtime)


def test_the_program_inside_stands_alone_and_the_identity_names_the_limits() -> None:
    assert "looktwice." not in (ROOT / "extras" / "python_tool" / "guest.py").read_text()
    assert StandIn().identity == StandIn().identity != StandIn(seconds=3).identity
