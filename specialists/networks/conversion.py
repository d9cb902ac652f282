"""Tensors under other names: what the converters of original checkpoints share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from looktwice.pipelines.runtime.networks import (
    OPENING,
    WeightsError,
    check_tensors,
    first_line,
    import_transformers,
)

Rules = tuple[tuple[str, str], ...]
"""Pieces of an original name, as patterns, and what stands there in transformers; all that fit are applied in order."""


def rename(tensors: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """The tensors under new names."""
    found = {}
    for name, each in tensors.items():
        for theirs, ours in rules:
            name = re.sub(theirs, ours, name)
        found[name] = each
    return found


def split_rows(tensors: Mapping[str, Any], joined: str, parts: Iterable[str]) -> dict[str, Any]:
    """The tensors, with each whose name holds `joined` cut into as many equal blocks of rows, named by `parts`."""
    names = tuple(parts)
    found: dict[str, Any] = {}
    for name, each in tensors.items():
        if joined in name:
            found |= {
                name.replace(joined, part): rows for part, rows in zip(names, each.chunk(len(names)), strict=True)
            }
        else:
            found[name] = each
    return found


def count(tensors: Mapping[str, Any], pattern: str) -> int:
    """How many different numbers a pattern's first group finds in the names."""
    return len({found[1] for name in tensors if (found := re.match(pattern, name))})


def open_converted(model_class: str, config: Any, tensors: Mapping[str, Any], path: str, *unused: str) -> Any:
    """A network of transformers with these tensors, named as in the files of its hub, in evaluation mode.

    Raises WeightsError where a tensor is unknown, of another shape, or missing, but for those with a name of `unused`
    between their dots.
    """
    kind = getattr(import_transformers(), model_class)
    try:
        with OPENING:
            network, told = kind.from_pretrained(
                None, config=config, state_dict=dict(tensors), output_loading_info=True
            )
    except (RuntimeError, ValueError, OSError) as exc:
        raise WeightsError(f"{path} does not fit {model_class} ({first_line(exc)}); give a release's own file") from exc
    return check_tensors(path, network, told, unused).eval()
