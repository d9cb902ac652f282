"""Where the checkout and the optional data folder lie."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIGS, DOCS = ROOT / "configs", ROOT / "docs"
DATA = Path(os.environ.get("LOOKTWICE_DATA") or ROOT.parent / "shared" / "data")


def rows(test: str, name: str) -> list[list[str]]:
    """The rows of a file beside a test, whose columns are parted by tabs."""
    lines = Path(test).with_name(name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line]
