"""Compares the specialists with their authors' code and writes the table of docs/upstream.md.

`python -m bench.upstream_table OUT REPOSITORIES` runs each row of `bench/upstream/rows.py`. The
authors' code runs in a separate process, which finds clones and packages in REPOSITORIES as
`bench/upstream/side.py` describes; its results are kept in OUT and reused. A row that fails is
printed, and its cell is "not run". It also records the facts of small networks for the tests.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.upstream.row import measure_difference
from bench.upstream.rows import NETWORKS, NOT_RUN, ROWS
from tests.original_files import RECORDS, write_file
from tests.original_networks import OPENED

KEPT = 60  # values of each output in the record
DOC = Path(__file__).parents[1] / "docs" / "upstream.md"
START, END = "<!-- upstream: written by bench/upstream_table.py -->\n", "<!-- /upstream -->"
HEAD = "| specialist | the authors' code | input | largest difference |\n|---|---|---|---|\n"


def run_theirs(name: str, repositories: Path, out: Path) -> Mapping[str, Any]:
    """Return the results of the authors' code, which is run once. Raises RuntimeError."""
    if not (out / f"{name}.npz").exists():
        command = [sys.executable, "-m", "bench.upstream.side", name, str(repositories), str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return dict(np.load(out / f"{name}.npz"))


def shorten(out: Path, kind: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a small network and some values of its outputs."""
    facts: dict[str, Any] = json.loads((out / f"{kind}.json").read_text())
    facts["outputs"] = {}
    for name, values in outputs.items():
        places = np.unique(np.linspace(0, values.size - 1, KEPT).astype(int))
        kept = [float(f"{value:.6g}") for value in values.ravel()[places]]
        facts["outputs"][name] = {
            "shape": list(values.shape),
            "at": places.tolist(),
            "values": kept,
        }
    return facts


def run_ours(kind: str) -> Mapping[str, Any]:
    """Return the outputs of looktwice's network, loaded from the same file."""
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        return {
            name: each.numpy()
            for name, each in OPENED[kind](write_file(kind, Path(folder))).items()
        }


def compare(
    name: str, theirs: Callable[[], Mapping[str, Any]], ours: Callable[[], Mapping[str, Any]]
) -> str:
    """Format the largest difference for the table; "not run" if something failed."""
    try:
        with torch.inference_mode():
            found = measure_difference(theirs(), ours())
    except (RuntimeError, ValueError, KeyError) as exc:
        print(f"{name}: {exc}")
        return "not run"
    print(f"{name}: {found:.0e}")
    return "equal" if found == 0 else f"{found:.0e}"


def main(out: Path, repositories: Path) -> None:
    """Write the record and the table."""
    out, repositories = out.absolute(), repositories.absolute()
    out.mkdir(parents=True, exist_ok=True)
    small = {kind: run_theirs(kind, repositories, out) for kind in OPENED}
    packed = json.dumps(
        {kind: shorten(out, kind, outputs) for kind, outputs in small.items()}
    ).encode()
    RECORDS.write_bytes(gzip.compress(packed, mtime=0))
    lines = []
    for row in ROWS:
        found = compare(
            row.name,
            partial(run_theirs, row.name, repositories, out),
            partial(row.ours, out / row.name),
        )
        lines.append((row.specialist, row.upstream, row.how, found))
    for kind in NETWORKS:  # printed only: networks alone
        compare(kind, partial(dict, small[kind]), partial(run_ours, kind))
    lines += [(specialist, theirs, why, "not run") for specialist, theirs, why in NOT_RUN]
    table = HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)
    text = DOC.read_text(encoding="utf-8")
    before, rest = text.split(START)
    DOC.write_text(before + START + table + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
