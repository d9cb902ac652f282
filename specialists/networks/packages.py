"""Packages that the authors of networks publish, used where a user has installed them."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from looktwice.pipelines.runtime.networks import OPENING, WeightsError, first_line, import_torch

INSTALL = {  # what gives each package, as its authors say
    "depth_anything_3": "pip install depth-anything-3",
    "face_recognition": "pip install face_recognition 'setuptools<81'",
    "groundingdino": "pip install groundingdino-py 'transformers<5'",
    "romatch": "pip install romatch",
    "segment_anything": "pip install segment-anything torchvision",
}
_DRAWING = threading.Lock()


def import_package(name: str) -> Any:
    """A module of one of these packages. Raises WeightsError with what to type where it is missing
    or broken."""
    package = name.partition(".")[0]
    try:
        with OPENING:
            return importlib.import_module(name)
    except (
        ImportError,
        AttributeError,
        RuntimeError,
        SystemExit,
    ) as exc:  # face_recognition may end the process
        absent = isinstance(exc, ModuleNotFoundError) and exc.name == package
        why = (
            "is not installed"
            if absent
            else f"cannot be imported ({first_line(exc.__context__ or exc)})"
        )
        for module in [module for module in sys.modules if module.partition(".")[0] == package]:
            del sys.modules[module]  # half imported, it would say something else the next time
        raise WeightsError(f"the package {package} {why}; type: {INSTALL[package]}") from exc


def require_float32(dtype: str) -> None:
    """Raises ValueError where a precision is asked for that a package does not compute in."""
    if dtype not in ("auto", "float32"):
        raise ValueError(f"the package computes in float32, found dtype: {dtype}; leave dtype out")


@contextmanager
def fixed_draws() -> Iterator[None]:
    """Inside, code that draws from torch's one generator draws the same each time; one thread at a
    time."""
    torch = import_torch()
    with _DRAWING, torch.random.fork_rng():
        torch.manual_seed(0)
        yield
