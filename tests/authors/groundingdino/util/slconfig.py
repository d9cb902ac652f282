"""The reader of configurations of groundingdino 0.4."""

from __future__ import annotations

import runpy
from types import SimpleNamespace


class SLConfig:
    @staticmethod
    def fromfile(filename: str) -> SimpleNamespace:
        held = runpy.run_path(filename)
        return SimpleNamespace(
            **{name: each for name, each in held.items() if not name.startswith("_")}
        )
