"""`python -m bench.soak [SCENE...]`: runs every scene against hostile servers, files and disks on
this machine, and prints a table."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.soak.chaos import chaos
from bench.soak.configurations import configurations
from bench.soak.damaged import damaged
from bench.soak.full_disk import full_cache, full_run_folder
from bench.soak.malformed import malformed
from bench.soak.pictures import pictures
from bench.soak.replies import readers, svg, terminal, tools
from bench.soak.scene import Finding
from looktwice.eval.display.printable import printable

Scene = Callable[[Path], Iterator[Finding]]
SCENES: dict[str, Scene] = {
    "chaos": chaos,
    "malformed": malformed,
    "full-cache": full_cache,
    "full-run": full_run_folder,
    "damaged": damaged,
    "pictures": pictures,
    "configurations": configurations,
    "svg": svg,
    "tools": tools,
    "readers": readers,
    "terminal": terminal,
}


def run_scenes(names: list[str]) -> list[Finding]:
    """Run the scenes, each in its own folder, which is removed afterwards."""
    found: list[Finding] = []
    for name in names:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            found += SCENES[name](Path(folder))
        print(f"{name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Return exit code 1 if a row has failed."""
    begun = time.perf_counter()
    findings = run_scenes(sys.argv[1:] or list(SCENES))
    table = Table(
        "scene", "test", "figure", "ok", title=f"under fire: {time.perf_counter() - begun:.0f} s"
    )
    for row in findings:
        table.add_row(
            row.scene,
            escape(row.test),
            escape(printable(row.figure)),
            "yes" if row.ok else "[red]NO[/]",
        )
    Console(width=170).print(table)
    sys.exit(not all(row.ok for row in findings))


if __name__ == "__main__":
    main()
