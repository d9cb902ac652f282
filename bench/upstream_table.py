"""Compares the specialists, opened from original files made tiny, with what the authors' code gave, and records it.

First `python -m bench.upstream_networks KIND REPOSITORY OUT` for each kind, in an environment that has what that
repository wants; then `python -m bench.upstream_table OUT`, which writes the record that the tests read and the table
of docs/specialists.md.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.original_files import RECORDS, write_file
from tests.original_networks import OPENED

KEPT = 60  # values of each output that the record holds
DOC = Path(__file__).parents[1] / "docs" / "specialists.md"
START, END = "<!-- upstream: written by bench/upstream_table.py -->\n", "<!-- /upstream -->"
ROWS = {  # specialist, and what it is compared with
    "depth_anything_v1": ("`DepthAnything`", "LiheYoung/Depth-Anything"),
    "depth_anything_v2": ("`DepthAnything`", "DepthAnything/Depth-Anything-V2"),
    "dinov2": ("`DINOv2`", "facebookresearch/dinov2"),
    "dinov2_registers": ("`DINOv2`, registers", "facebookresearch/dinov2"),
    "grounding_dino": ("`GroundingDINO`", "IDEA-Research/GroundingDINO"),
    "sam": ("`SAM`", "the package segment-anything"),
    "sam_hq": ("`SAM`, SAM-HQ", "SysCV/sam-hq"),
    "sam2": ("`SAM`, SAM 2.1", "facebookresearch/sam2"),
    "efficient_loftr": ("`KeypointMatcher`", "zju3dv/EfficientLoFTR"),
}

NOT_RUN = {
    "`LoFTR`, `LightGlue`, `XFeat`": "zju3dv/LoFTR, cvg/LightGlue, verlab/accelerated_features",
    "`EfficientNet`, `DIRE`, `DIFT`": "their authors' repositories",
    "`GroundingDINO` with OWLv2, `DepthAnything` with ZoeDepth, Depth Pro or DPT": "their authors' repositories",
    "`MarigoldAlbedo`": "prs-eth/Marigold (equal to diffusers' own pipeline)",
    "any network above with its released weights": "no hub could be reached",
}


def read(out: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts of a network and its outputs."""
    facts: dict[str, Any] = json.loads((out / f"{kind}.json").read_text())
    told = dict(np.load(out / f"{kind}.npz"))
    facts["outputs"] = {}
    for name, values in told.items():
        places = np.unique(np.linspace(0, values.size - 1, KEPT).astype(int))
        kept = [float(f"{value:.6g}") for value in values.ravel()[places]]
        facts["outputs"][name] = {"shape": list(values.shape), "at": places.tolist(), "values": kept}
    return facts, told


def difference(kind: str, theirs: dict[str, Any]) -> float:
    """The largest difference of an output, as a part of that output's largest value."""
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        ours = OPENED[kind](write_file(kind, Path(folder)))
        apart = [np.abs(ours[name].numpy() - each).max() / np.abs(each).max() for name, each in theirs.items()]
    return float(max(apart))


def main(out: Path) -> None:
    """Write the record and the table."""
    held = {kind: read(out, kind) for kind in OPENED}
    packed = json.dumps({kind: facts for kind, (facts, _) in held.items()}).encode()
    RECORDS.write_bytes(gzip.compress(packed, mtime=0))
    table = "| specialist | the authors' code | largest difference |\n|---|---|---|\n"
    for kind, (specialist, theirs) in ROWS.items():
        table += f"| {specialist} | {theirs} | {difference(kind, held[kind][1]):.0e} |\n"
    table += "".join(f"| {specialist} | {theirs} | not run |\n" for specialist, theirs in NOT_RUN.items())
    text = DOC.read_text(encoding="utf-8")
    before, rest = text.split(START)
    DOC.write_text(before + START + table + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
