"""A sandbox of Linux namespaces, made by bubblewrap (`bwrap`), that runs this environment's
Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from looktwice.extras.python_tool.exchange import ExchangeError, RunningSandbox
from looktwice.extras.python_tool.packages import find_interpreter, find_package_paths
from looktwice.extras.python_tool.sandbox import (
    START_TIMEOUT_SECONDS,
    CodeResult,
    GuestStarted,
    PythonSandbox,
    read_guest,
)
from looktwice.extras.python_tool.syscalls import make_no_process_filter, open_filter

__all__ = ["Bubblewrap"]

INSTALL_ADVICE = (
    "Python as a tool needs a sandbox, and code never runs without one: install bubblewrap"
    " (`apt-get install bubblewrap`, `dnf install bubblewrap`), or name"
    " `sandbox: {use: prompting.agent.Container, image: ...}` with Docker or Podman"
)
LIBRARY_FOLDERS = "/usr/lib", "/usr/lib64", "/lib", "/lib64"
PACKAGE_FOLDER = "/packages"
ENVIRONMENT_VARIABLES = {
    "HOME": "/work",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TMPDIR": "/tmp",
}
"""The only environment variables that the code sees."""


@dataclass(frozen=True)
class Bubblewrap(PythonSandbox):
    """A sandbox that runs this environment's Python under bubblewrap, on Linux: new namespaces for
    users, processes, network and files, no capabilities, and a filter that refuses new processes.

    Code can read Python's standard library and the installed `packages` with their dependencies. It
    sees no other file, no network and no environment variable of this process.
    """

    packages: tuple[str, ...] = ("numpy", "pillow", "opencv-python-headless", "scipy", "matplotlib")

    path: ClassVar[tuple[str, ...]] = (PACKAGE_FOLDER,)

    def start(self, program: str) -> subprocess.Popen[bytes]:
        """Start Python under bubblewrap. Raises OSError."""
        python, _ = find_interpreter()
        syscalls = open_filter(make_no_process_filter() or b"")
        try:
            command = [
                shutil.which("bwrap") or "bwrap",
                *self._list_options(),
                *("--seccomp", str(syscalls)),
                *("--", str(python), "-I", "-S", "-B", "-c", program),
            ]
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[syscalls],
                env={},
                cwd="/",
            )
        finally:
            os.close(syscalls)

    def _list_options(self) -> Iterator[str]:
        """Yield the options of `bwrap`: a root file system in memory with read-only Python."""
        yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent")
        yield from ("--new-session", "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534")
        yield from ("--hostname", "sandbox", "--clearenv")
        for name, value in ENVIRONMENT_VARIABLES.items():
            yield from ("--setenv", name, value)
        yield from ("--proc", "/proc", "--dev", "/dev")
        for folder in (self.folder, "/tmp"):
            yield from ("--size", str(self.disk_mb << 20), "--tmpfs", folder)
        for library in map(Path, LIBRARY_FOLDERS):
            if library.is_symlink():
                yield from ("--symlink", os.readlink(library), str(library))
            elif library.is_dir():
                yield from ("--ro-bind", str(library), str(library))
        yield from _bind_python()
        for name, path in find_package_paths(self.packages).items():
            yield from ("--ro-bind", str(path), f"{PACKAGE_FOLDER}/{name}")
        yield from ("--remount-ro", "/dev", "--remount-ro", "/")

    def find_fault(self) -> str:
        """Return why the sandbox cannot run and what to install; "" if a test run shows that the
        sandbox isolates code."""
        return _find_fault(self)


def _bind_python() -> Iterator[str]:
    """Yield the options that mount Python's executable and standard library, without its
    site-packages."""
    python, prefix = find_interpreter()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = prefix / "lib" / version
    mounted = [python, library, *sorted((prefix / "lib").glob("libpython*"))]
    for path in mounted:
        if not str(path).startswith(tuple(f"{folder}/" for folder in LIBRARY_FOLDERS)):
            yield from ("--ro-bind", str(path), str(path))
    if (library / "site-packages").is_dir():
        yield from ("--tmpfs", str(library / "site-packages"))


@cache
def _find_fault(sandbox: Bubblewrap) -> str:
    if sys.platform != "linux":
        return f"bubblewrap exists for Linux only; {INSTALL_ADVICE}"
    if shutil.which("bwrap") is None:
        return f"`bwrap` is not on the PATH; {INSTALL_ADVICE}"
    if make_no_process_filter() is None:
        return f"the system call filter does not support this processor; {INSTALL_ADVICE}"
    return (
        "" if _is_isolated(sandbox) else f"bubblewrap cannot make a sandbox here; {INSTALL_ADVICE}"
    )


def _is_isolated(sandbox: Bubblewrap) -> bool:
    """Start a sandbox once, and return whether its code sees neither the files nor the processes of
    this machine."""
    with tempfile.NamedTemporaryFile() as file:
        code = f"import os; print(os.path.exists({file.name!r}), len(os.listdir('/proc')) < 200)"
        fields: dict[str, Sequence[str] | float | str] = {
            "folder": sandbox.folder,
            "path": sandbox.path,
            **{name: getattr(sandbox, name) for name in ("memory_mb", "disk_mb")},
            "characters": 100,
            "pictures": 0,
            "megapixels": 1.0,
        }
        try:
            running = RunningSandbox(sandbox.start(read_guest()), sandbox.stop)
        except OSError:
            return False
        try:
            running.ask(fields, GuestStarted, START_TIMEOUT_SECONDS)
            result = running.ask({"images": [], "code": code}, CodeResult, START_TIMEOUT_SECONDS)
        except ExchangeError:
            return False
        running.close()
    return bool(result["output"].strip() == "False True")
