"""Runs a command behind a pseudo-terminal of a given width, as a user sees it."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.paths import ROOT

MAIN = "from looktwice.eval.cli import main; main()"


def run_in_terminal(folder: Path, width: int, *words: object, **environment: str) -> str:
    """Run a command in a folder and return its output on a terminal with `width` columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    kept = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")
    }
    command = subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, words)],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**kept, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "typings"), **environment},
    )
    os.close(theirs)
    written = bytearray()
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert command.wait() == 0, written.decode()
    return written.decode().replace("\r\n", "\n")
