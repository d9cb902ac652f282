"""Packages that some tests need and that are slow to import: located during collection, imported
when a test uses them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class LazyModule:
    """A module that is imported on first access to an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for its own marks
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def optional(name: str) -> Any:
    """Return a package, or skip the calling test module if it is missing."""
    if find_spec(name) is None:
        pytest.skip(f"needs {name}", allow_module_level=True)
    return LazyModule(name)


HAS_EXTRAS = find_spec("looktwice.extras") is not None
needs_extras = pytest.mark.skipif(not HAS_EXTRAS, reason="needs the extensions of `extras`")
"""Marks a test that uses an extension; `make test-core` excludes it."""


def require_extras() -> None:
    """Skip the calling test if the core is tested alone."""
    if not HAS_EXTRAS:
        pytest.skip("needs the extensions of `extras`")


class Extension(LazyModule):
    """A module of `extras`; a test that uses it is skipped if the core is tested alone."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            require_extras()
        return super().__getattr__(name)


def extension(name: str) -> Any:
    """Return a module of `extras` that is imported when a test uses it."""
    return Extension(f"looktwice.extras.{name}")
