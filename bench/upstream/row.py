"""A row of the table: a specialist and its authors' code, and code that several rows share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.pipelines.picture import Pixels
from tests.original_files import cat

Outputs = Mapping[str, Any]
"""Arrays by name: boxes, scores, maps ..."""


@dataclass(frozen=True)
class Row:
    """A specialist and its authors' code.

    `theirs` runs that code, from the clone or package `upstream`, and saves the weights that both
    use in a folder; `ours` loads them from there. Both return the same arrays. `how` describes the
    input and the weights.
    """

    name: str
    specialist: str
    upstream: str
    how: str
    theirs: Callable[[Path, Path], Outputs]
    ours: Callable[[Path], Outputs]

    @property
    def clone(self) -> str:
        """The folder of the authors' repository; empty for a package."""
        return self.upstream.split()[0].replace("/", "+") if "/" in self.upstream else ""


def photo() -> Pixels:
    """Return scikit-image's cat."""
    return cat()


def pair() -> tuple[Pixels, Pixels]:
    """Return two parts of the cat, 448 x 288 pixels, shifted by 3 columns and 8 rows."""
    return cat()[:288, :448].copy(), cat()[8:296, 3:451].copy()


def save(tensors: Mapping[str, Any], path: Path, **under: str) -> None:
    """Save a checkpoint in its authors' format: `under` one key, with a `prefix` to its names."""
    import torch

    held = {under.get("prefix", "") + name: each for name, each in tensors.items()}
    torch.save({under["key"]: held} if "key" in under else held, path)


def sort_rows(**columns: Any) -> Outputs:
    """Sort rows of matches or boxes by their numbers, so that ties do not matter."""
    held = {
        name: np.asarray(each, np.float64).reshape(len(each), -1) for name, each in columns.items()
    }
    order = np.lexsort(np.round(np.concatenate(list(held.values()), 1), 2).T[::-1])
    return {name: each[order] for name, each in held.items()}


def measure_difference(theirs: Outputs, ours: Outputs) -> float:
    """Return the largest difference between outputs, relative to the output's largest value, or
    absolute for pixels and masks.

    Raises ValueError if their rows differ.
    """
    found = []
    for name, expected in theirs.items():
        got, outputs = np.asarray(ours[name]), np.asarray(expected)
        if got.shape != outputs.shape:
            raise ValueError(f"{name}: theirs has the shape {outputs.shape}, ours {got.shape}")
        if not outputs.size:
            raise ValueError(f"{name} is empty, so that nothing was compared")
        largest = 1.0 if outputs.dtype == bool else max(float(np.abs(outputs).max()), 1e-12)
        found.append(float(np.abs(got.astype(np.float64) - outputs).max()) / largest)
    return max(found)


def alias(old: str, new: str) -> None:
    """Register a module under its former name, which the authors' code imports."""
    sys.modules[old] = import_module(new)


def patch_torchvision() -> None:
    """Make a torchvision importable whose compiled part does not match this torch.

    Its transforms do not need it; its deformable convolution, which ALIKED's authors use, is
    computed here.
    """
    import torch

    pools = ("roi_align", "qroi_align", "ps_roi_align", "roi_pool", "ps_roi_pool")
    names = (
        "nms",
        "qnms",
        "_deform_conv2d_backward",
        *pools,
        *(f"_{name}_backward" for name in pools if name[0] != "q"),
    )
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in names:
        library.define(f"{name}(Tensor x) -> Tensor")
    tensors = ", ".join(f"Tensor {name}" for name in ("input", "weight", "offset", "mask", "bias"))
    numbers = ", ".join(f"int n{number}" for number in range(8))
    library.define(f"deform_conv2d({tensors}, {numbers}, bool masked) -> Tensor")
    library.impl("deform_conv2d", deformed, "CPU")
    KEPT.append(library)


def deformed(maps: Any, weight: Any, offset: Any, mask: Any, bias: Any, *numbers: Any) -> Any:
    """Return a deformable convolution of stride 1 (Dai et al., ICCV 2017): each tap samples at an
    offset from its place."""
    import torch

    stride, padding, dilation, masked = numbers[:2], numbers[2:4], numbers[4:6], numbers[-1]
    if stride != (1, 1) or dilation != (1, 1) or masked:
        raise ValueError(f"only a plain one is computed here, found {numbers}")
    high, wide = weight.shape[2:]
    height, width = offset.shape[2:]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    size, total = torch.tensor([maps.shape[3], maps.shape[2]]), bias[:, None, None]
    for tap in range(high * wide):
        down, across = y + tap // wide - padding[0], x + tap % wide - padding[1]
        places = torch.stack([across + offset[:, 2 * tap + 1], down + offset[:, 2 * tap]], -1)
        seen = torch.nn.functional.grid_sample(
            maps, (places + 0.5) * 2 / size - 1, align_corners=False
        )
        total = total + torch.einsum("oc,nchw->nohw", weight[:, :, tap // wide, tap % wide], seen)
    return total


KEPT: list[Any] = []  # references that keep objects alive
