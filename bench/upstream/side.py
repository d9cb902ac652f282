"""Runs the authors' code of one row, or of one small network: `python -m bench.upstream.side NAME
REPOSITORIES OUT`.

REPOSITORIES holds clones as OWNER+NAME; the packages that they need are in its folder `packages`,
those of a single clone in OWNER+NAME.packages.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(name: str, repositories: Path, out: Path) -> None:
    """Write the outputs of the authors' code to OUT/NAME.npz, and its weights to OUT/NAME."""
    import torch

    from bench.upstream.row import patch_torchvision
    from bench.upstream.rows import NETWORKS, ROWS
    from bench.upstream_networks import record

    rows = {row.name: row for row in ROWS}
    clone = repositories / (
        NETWORKS[name][1].replace("/", "+") if name in NETWORKS else rows[name].clone
    )
    for place in (repositories / "packages", clone.with_name(f"{clone.name}.packages"), clone):
        if place.is_dir():
            sys.path.insert(0, str(place))
    patch_torchvision()
    if name in NETWORKS:
        record(name, clone, out)
        return
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode():
        outputs = rows[name].theirs(clone, folder)
    arrays: dict[str, Any] = {key: np.asarray(each) for key, each in outputs.items()}
    np.savez(out / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
