"""Many commands in one child process: everything is imported once, and each command runs in its own
fork."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from bench.soak.scene import CommandResult, bound, environment
from tests.paths import ROOT

IMPORTED = (
    *(
        "looktwice.eval.cli",
        "looktwice.eval.report",
        "looktwice.eval.runs.study",
        "looktwice.eval.recorded.show",
    ),
    *(
        "looktwice.eval.runs.check",
        "looktwice.eval.recorded.replay",
        "looktwice.extras.request_diff.trajectories",
        "numpy",
        "cv2",
    ),
)


def looktwice_each(
    commands: Sequence[Sequence[object]], url: str = "", seconds: int = 20
) -> list[CommandResult]:
    """Run commands one after the other; one that takes more than `seconds` is killed."""
    asked = json.dumps(
        {"seconds": seconds, "commands": [[str(word) for word in words] for words in commands]}
    )
    done = subprocess.run(
        [sys.executable, "-m", "bench.soak.forked"],
        input=asked,
        env=environment(url),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=bound(),
    )
    return [CommandResult(*each) for each in json.loads(done.stdout)]


def in_fork(words: list[str], seconds: int) -> CommandResult:
    """Run one command with its output in a file, and a timeout by alarm."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            signal.alarm(seconds)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            os._exit(_main(words))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    return CommandResult(
        None if code == -signal.SIGALRM else code, text, time.perf_counter() - begun
    )


def _main(words: list[str]) -> int:
    sys.argv = ["looktwice", *words]
    code = 0
    try:
        importlib.import_module("looktwice.eval.cli").main()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main() -> None:
    """Read the commands from stdin, and write their results to stdout."""
    asked = json.load(sys.stdin)
    for name in IMPORTED:
        importlib.import_module(name)
    os.chdir(Path(tempfile.gettempdir()))
    json.dump([in_fork(words, asked["seconds"]) for words in asked["commands"]], sys.stdout)


if __name__ == "__main__":
    main()
