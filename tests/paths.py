"""Where the checkout and the optional data folder lie."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIGS, DOCS = ROOT / "configs", ROOT / "docs"
DATA = Path(os.environ.get("LOOKTWICE_DATA") or ROOT.parent / "shared" / "data")
