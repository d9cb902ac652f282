"""`python -m bench.integrations [PACKAGE...]`: installs each program into its own environment, lets
it ask a served study, and prints a table."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.integrations.clients import CLIENTS, Client
from bench.integrations.questions import Question, write_questions
from looktwice.eval import RunFolder

ROOT = Path(__file__).resolve().parents[2]
LOOKTWICE = [sys.executable, "-c", "from looktwice.eval.cli import main; main()"]
TIMEOUT_SECONDS = 1800  # seconds for an installation, and for each evaluation
DROPPED_VARIABLES = ("PYTHONPATH", "VIRTUAL_ENV")


class ProgramFailed(Exception):
    """The reason why a program did not run."""


class Row(NamedTuple):
    """The result of a program: the accuracies, the number of questions that the server received, or
    why there are none."""

    package: str
    version: str
    plain: float = 0.0
    zoomed: float = 0.0
    asked: int = 0
    fault: str = ""


def run(words: Sequence[str], variables: dict[str, str], folder: Path) -> str:
    """Return a command's output. Raises ProgramFailed with its last lines."""
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED_VARIABLES}
    try:
        ended = subprocess.run(
            words,
            env=kept | variables,
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise ProgramFailed(str(exc)) from exc
    (folder / "printed.txt").write_text(ended.stdout, encoding="utf-8")
    if ended.returncode:
        lines = [line for line in ended.stdout.splitlines() if line.strip()]
        raise ProgramFailed(f"exit code {ended.returncode}: " + " / ".join(lines[-2:])[-300:])
    return ended.stdout


def install(client: Client, environment: Path, folder: Path) -> str:
    """Return the version of the program in its environment, which is created if necessary. Raises
    ProgramFailed."""
    python = str(environment / "bin" / "python")
    tell = f"import importlib.metadata as m; print(m.version({client.package!r}))"
    with suppress(ProgramFailed):
        return run([python, "-c", tell], {}, folder).split()[-1]
    venv.create(environment, with_pip=True)
    pinned = ["-q", "-c", str(ROOT / "constraints.txt"), client.package, *client.beside]
    run([python, "-m", "pip", "install", *pinned], {}, folder)
    return run([python, "-c", tell], {}, folder).split()[-1]


@contextmanager
def served(study: Path, out: Path) -> Iterator[tuple[str, Path]]:
    """Serve a study; yield its address, and the folder of recorded requests."""
    words = [*LOOKTWICE, "serve", str(study), "--port", "0", "--out", str(out)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            output = ""
            for line in process.stdout or ():
                output += line
                if "looktwice view" in line:
                    break
            url = re.search(r"http://\S+?(?=[;\s])", output)
            if not url:
                raise ProgramFailed(f"no server: {output[-300:]}")
            yield url[0], out / "serve" / "study"
        finally:
            process.terminate()
            process.communicate()


def ask(
    client: Client, environments: Path, questions: Sequence[Question], study: Path, folder: Path
) -> Row:
    """Evaluate both contestants with a program, and count the questions that arrived."""
    version, shares = "", dict[str, float]()
    try:
        folder.mkdir()
        environment = environments / client.package
        version = install(client, environment, folder)
        path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        with served(study, folder / "runs") as (url, record):
            for contestant in ("plain", "zoomed"):
                below = folder / contestant
                below.mkdir()
                command = client.write(below, questions, url, contestant)
                program, *words = command.words
                variables = {"QUESTIONS": str(study.parent), "PATH": path, **command.variables}
                run([str(environment / "bin" / program), *words], variables, below)
                shares[contestant] = client.read(below)
        records = RunFolder(record).last_records()
        asked = {(line.point, line.sample) for line in records if not line.error}
    except (ProgramFailed, OSError, ValueError, LookupError) as exc:
        return Row(client.package, version, fault=f"{type(exc).__name__}: {exc}")
    return Row(client.package, version, shares["plain"], shares["zoomed"], len(asked))


def show(rows: Sequence[Row], n: int) -> Table:
    """Return the table to print."""
    names = ("program", "version", "plain, %", "zoomed, %", "difference", "arrived")
    title = f"{n} questions with a ring in the picture, Pocket behind `looktwice serve`"
    table = Table(*names, title=title)
    for row in rows:
        figures = [f"{100 * share:.1f}" for share in (row.plain, row.zoomed)]
        figures += [f"{100 * (row.zoomed - row.plain):+.1f}", f"{row.asked} of {2 * n}"]
        cells = ["", "", "", row.fault] if row.fault else figures
        table.add_row(row.package, row.version, *cells)
    return table


def main() -> None:
    """Return exit code 1 if a program did not run, or its difference is 30 points or less."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", nargs="*", help="packages to run (default: all)")
    parser.add_argument("--n", type=int, default=60, help="questions for each contestant")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "homes")
    parser.add_argument("--keep", type=Path, help="a new folder for all output")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="homes-"))
    folder.mkdir(exist_ok=True)
    options.environments.mkdir(parents=True, exist_ok=True)
    study = folder / "questions" / "study.yaml"
    study.parent.mkdir()
    questions = write_questions(study.parent, options.n)
    rows = []
    for client in CLIENTS:
        if not options.package or client.package in options.package:
            print(f"{client.package} ...", file=sys.stderr, flush=True)
            rows.append(
                ask(client, options.environments, questions, study, folder / client.package)
            )
    Console(width=120).print(show(rows, options.n))
    print(f"logs and runs: {folder}")
    sys.exit(any(row.fault or row.zoomed - row.plain <= 0.3 for row in rows))


if __name__ == "__main__":
    main()
