"""Time of `looktwice compare` on two logs of 100,000 samples: a table, and inspect_ai's format. No
limit is asserted."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

N = 100_000


def write_table(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows = (
        f"q{i:06d},task{i % 10},{'ABCD'[i % 4]},{int(chance.random() < 0.6)}\n" for i in range(N)
    )
    path.write_text("id,task,key,correct\n" + "".join(rows))


def write_eval(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    samples = [
        {
            "id": f"q{i:06d}",
            "epoch": 1,
            "input": "Which one is nearer?",
            "target": "ABCD"[i % 4],
            "scores": {"choice": {"value": "C" if chance.random() < 0.6 else "I", "answer": "A"}},
        }
        for i in range(N)
    ]
    about = {"task": "nearer", "model": f"model-{seed}", "dataset": {}, "config": {}}
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr(
            "header.json", json.dumps({"version": 2, "status": "success", "eval": about})
        )
        archive.writestr("summaries.json", json.dumps(samples))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))


@pytest.mark.parametrize(("ending", "write"), [(".csv", write_table), (".eval", write_eval)])
def test_compare(tmp_path: Path, ending: str, write: object) -> None:
    files = [tmp_path / f"{name}{ending}" for name in ("one", "two")]
    for seed, file in enumerate(files):
        write(file, seed)  # type: ignore[operator]
    code = "from looktwice.eval.cli import main; main()"
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, "compare", *map(str, files), "--out", str(tmp_path)],
        check=True,
    )
    print(
        f"{ending}: {N:,} samples compared, files written, in {time.perf_counter() - start:.1f} s"
    )
