"""Runs the tests of the core without the extensions.

`python -m tests.core_alone [ARGS]` copies the checkout without `extras/` and its tests, and runs
pytest there, so that importing an extension fails.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.paths import ROOT

LEFT_OUT = {ROOT: {"extras", ".venv", ".git", "build", "dist", "runs"}, ROOT / "tests": {"extras"}}


def copy_core(target: Path) -> None:
    """Copy the checkout without extensions, environments and builds."""

    def ignore(folder: str, names: list[str]) -> set[str]:
        return LEFT_OUT.get(Path(folder), set()) & set(names)

    shutil.copytree(ROOT, target, symlinks=True, ignore=ignore)
    # an editable install of the checkout would still find its extensions
    (target / "typings" / "sitecustomize.py").write_text(
        'import sys\n\nsys.modules["looktwice.extras"] = None\n', encoding="utf-8"
    )


def main() -> int:
    """Run the tests and return the exit code of pytest."""
    with tempfile.TemporaryDirectory(prefix="looktwice-core-") as folder:
        target = Path(folder) / "core"
        copy_core(target)
        return subprocess.run(
            [sys.executable, "-m", "pytest", *sys.argv[1:]], cwd=target
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
