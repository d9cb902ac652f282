"""A stand-in for a sandbox, which separates nothing: only for code that these tests write."""

import subprocess
import sys
from dataclasses import dataclass
from shutil import rmtree
from tempfile import mkdtemp
from typing import ClassVar

from looktwice.extras.python_tool.sandbox import PythonSandbox


@dataclass(frozen=True)
class StandIn(PythonSandbox):
    """Runs the program that runs in sandboxes in a plain process, and counts the starts."""

    fault: str = ""

    starts: ClassVar[list[str]] = []
    running: ClassVar[list[subprocess.Popen[bytes]]] = []
    folder: ClassVar[str] = ""

    def start(self, program: str) -> subprocess.Popen[bytes]:
        type(self).folder = mkdtemp()
        self.starts.append(program)
        pipe = subprocess.PIPE
        command = [sys.executable, "-I", "-B", "-c", program]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.running.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        super().stop(process)
        rmtree(self.folder, ignore_errors=True)

    def find_fault(self) -> str:
        return self.fault
