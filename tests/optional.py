"""Packages that some tests need and that take seconds to import: found when tests are collected,
imported when one of them runs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class LazyModule:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for its own marks
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def optional(name: str) -> Any:
    """Give a package, or skip the tests of the module that asks where it is missing."""
    if find_spec(name) is None:
        pytest.skip(f"needs {name}", allow_module_level=True)
    return LazyModule(name)


HAS_EXTRAS = find_spec("looktwice.extras") is not None
needs_extras = pytest.mark.skipif(not HAS_EXTRAS, reason="needs the extensions of `extras`")
"""Marks a test of the core together with an extension; `make test-core` leaves it out."""


def require_extras() -> None:
    """Skip the test that asks, where the core is tested alone."""
    if not HAS_EXTRAS:
        pytest.skip("needs the extensions of `extras`")


class Extension(LazyModule):
    """A module of `extras`; where the core is tested alone, the test that asks it is skipped."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            require_extras()
        return super().__getattr__(name)


def extension(name: str) -> Any:
    """Give a module of `extras`, imported when a test asks it."""
    return Extension(f"looktwice.extras.{name}")
