"""Tiny versions of original checkpoints."""

import gzip
import json
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from looktwice.pipelines.picture import Pixels

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# written by bench/upstream_table.py
RECORDS = Path(__file__).parent / "specialists" / "original_files.json.gz"


BERT = ["[PAD]", *(f"w{n}" for n in range(1, 100)), "[UNK]", "[CLS]", "[SEP]"]
BERT += [*(f"w{n}" for n in range(103, 1012)), "."]
BERT += [*(f"w{n}" for n in range(1013, 1029)), "?", "cat", "cup"]
"""A vocabulary with BERT's ids for the tokens whose ids Grounding DINO hard-codes."""


def cat() -> Pixels:
    """Return scikit-image's cat, 300 x 451 pixels."""
    from skimage import data

    pixels: Pixels = data.chelsea()  # type: ignore[no-untyped-call]
    return pixels


def photograph(height: int, width: int) -> Any:
    """Return scikit-image's cat as networks take it: (1, 3, height, width), normalised."""
    import cv2
    import torch

    small = cv2.resize(cat(), (width, height), interpolation=cv2.INTER_AREA)
    floats = (torch.from_numpy(small) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
    return floats.permute(2, 0, 1)[None].contiguous()


def weight(name: str, shape: Sequence[int]) -> Any:
    """Return a tensor that depends only on its name and shape, scaled so that signals do not
    vanish."""
    import torch

    dice = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    drawn = torch.randn(tuple(shape), generator=dice)
    if name.endswith("num_batches_tracked"):
        return torch.zeros(tuple(shape), dtype=torch.int64)
    if name.endswith("running_var"):
        return 1 + 0.3 * drawn.abs()
    if len(shape) > 1:
        return drawn / math.sqrt(math.prod(shape[1:]))
    return (1 if name.endswith(("weight", "gamma")) else 0) + 0.1 * drawn


def read_records() -> dict[str, Any]:
    """Read the tensors and outputs of the tiny version of each authors' network."""
    with gzip.open(RECORDS, "rt") as file:
        record: dict[str, Any] = json.load(file)
    return record


def read_expected(kind: str) -> dict[str, Any]:
    """Read the outputs of the authors' network: the shape of each output and some values."""
    found: dict[str, Any] = read_records()[kind]["outputs"]
    return found


def write_file(kind: str, folder: Path) -> Path:
    """Write a tiny checkpoint of this kind, in the format in which its authors save it."""
    import torch

    record = read_records()[kind]
    ties = record["ties"]
    held = {name: weight(ties.get(name, name), shape) for name, shape in record["shapes"].items()}
    held = {record["prefix"] + name: each for name, each in held.items()}
    path: Path = folder / record["file"]
    torch.save({record["under"]: held} if record["under"] else held, path)
    return path
