"""Paths of the checkout and of the optional data folder."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIGS, DOCS = ROOT / "configs", ROOT / "docs"
DATA = Path(os.environ.get("LOOKTWICE_DATA") or ROOT.parent / "shared" / "data")


def rows(test: str, name: str) -> list[list[str]]:
    """Read the rows of a tab-separated file next to a test."""
    lines = Path(test).with_name(name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line]
