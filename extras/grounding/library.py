"""The package that computes average precision and decodes COCO's masks, faster-coco-eval."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from looktwice.pipelines.runtime.install import format_install

LIBRARY_NAME = "faster_coco_eval"


def require_library() -> None:
    """Raise ValueError with the install command if the package is missing."""
    if find_spec(LIBRARY_NAME) is None:
        raise ValueError(
            "average precision and COCO's compressed masks need the package faster-coco-eval:"
            f" {format_install('map')}"
        )


def import_library() -> Any:
    """Return the package. Raises ValueError if it is missing."""
    require_library()
    return import_module(LIBRARY_NAME)
