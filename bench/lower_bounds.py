"""Installs the oldest releases that `pyproject.toml` allows, imports every module, and runs the
first commands of a new user: `make bounds`, or `python -m bench.lower_bounds [EXTRA ...]` to
include the oldest releases of those extras.

The environment is in a temporary folder; uv, which can choose the oldest releases, is installed
there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.paths import ROOT

STUDY = ROOT / "configs" / "quickstart.yaml"
TYPED = (
    "--help",
    "run --help",
    "make --help",
    "check {study} --all",
    "run {study} --out runs",
    "score runs/quickstart",
    "view runs/quickstart --sample shape_00000",
    "compare runs/quickstart",
)
"""The arguments of each `looktwice` command."""
IMPORT_ALL = """
import importlib
import pkgutil
import sys
import looktwice
faults = 0
for module in pkgutil.walk_packages(looktwice.__path__, "looktwice."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as exc:  # of an extra that was not asked for
        print(f"{module.name}: {exc}")
    except Exception as exc:
        faults += 1
        print(f"{module.name}: {type(exc).__name__}: {exc}", file=sys.stderr)
from looktwice.pipelines.config import build  # a function in a file of its name
sys.exit(faults > 0 or not callable(build))
"""
NAME_HOST = """
from aiohttp.test_utils import make_mocked_request
from looktwice.eval.page.hosting import get_host
assert get_host(make_mocked_request("GET", "/", headers={"Host": "127.0.0.1:80"})) == "127.0.0.1"
"""


def install_oldest(environment: Path, extras: Sequence[str]) -> Path:
    """Create an environment with the oldest releases; return its folder of programs. Raises
    CalledProcessError."""
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    programs = environment / "bin"
    python, uv = str(programs / "python"), str(programs / "uv")
    subprocess.run([python, "-m", "pip", "-q", "install", "uv"], check=True)
    wanted = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    oldest = ["--resolution", "lowest-direct", "-e", wanted]
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *oldest], check=True)
    subprocess.run([uv, "pip", "list", "--python", python], check=True)
    return programs


def run_typed(programs: Path, folder: Path) -> list[str]:
    """Import every module, and run every command in a folder; return the failed ones, with their
    last output."""
    commands: dict[str, list[str | Path]] = {
        "import of every module": [programs / "python", "-c", IMPORT_ALL],
        "host of a request": [programs / "python", "-c", NAME_HOST],
    }
    for typed in TYPED:
        words = [word.format(study=STUDY) for word in typed.split()]
        commands[f"looktwice {typed}"] = [programs / "looktwice", *words]
    failed = []
    for name, command in commands.items():
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        print(f"{name}: exit {done.returncode}", flush=True)
        if done.returncode:
            failed.append(f"{name}: {(done.stderr or done.stdout).strip()[-300:]}")
    return failed


def main() -> int:
    """Return exit code 1 if something failed."""
    with TemporaryDirectory(prefix="looktwice-bounds-") as folder:
        programs = install_oldest(Path(folder) / "environment", sys.argv[1:])
        failed = run_typed(programs, Path(folder))
    if failed:
        print(*failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
