"""Storage of scenes on disk, so that they are drawn once; each epoch asks new questions about
them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.pocket.scenes import Example, Grid, make_example
from looktwice.eval.tasks.marked_scenes.kinds import Question
from looktwice.eval.tasks.marked_scenes.scene import Thing
from looktwice.pipelines.picture import Pixels

SHARD = 500  # scenes in a file


def write_shard(folder: Path, seed: int, shard: int) -> Path:
    """Draw the scenes of a shard, unless its file exists."""
    path = folder / f"seed{seed}-{shard:05}.npz"
    if not path.exists():
        examples = [
            make_example(seed, number) for number in range(shard * SHARD, (shard + 1) * SHARD)
        ]
        inputs = np.stack([pixels for example in examples for pixels in example.inputs])
        grids = np.stack([grid for example in examples for grid in example.grids])
        facts = json.dumps([_facts(example) for example in examples])
        folder.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".part").open("wb") as file:
            np.savez(
                file, inputs=inputs, grids=grids, facts=np.frombuffer(facts.encode(), np.uint8)
            )
        path.with_suffix(".part").rename(path)
    return path


def read_shard(path: Path) -> list[Example]:
    """Read the scenes of a shard."""
    with np.load(path, allow_pickle=False) as data:
        inputs, grids, facts = data["inputs"], data["grids"], json.loads(data["facts"].tobytes())
    examples, at = list[Example](), 0
    for fact in facts:
        end = at + fact.pop("views")
        examples.append(_example(tuple(inputs[at:end]), tuple(grids[at:end]), fact))
        at = end
    return examples


def _facts(example: Example) -> dict[str, Any]:
    return {
        "views": len(example.inputs),
        "things": [asdict(thing) for thing in example.things],
        "marked": example.marked,
        "kind": example.kind,
        "whole": example.whole,
        "question": asdict(example.question),
    }


def _example(inputs: Sequence[Pixels], grids: Sequence[Grid], fact: dict[str, Any]) -> Example:
    things = tuple(Thing(**thing) for thing in fact["things"])
    asked = Question(
        fact["question"]["text"], fact["question"]["answer"], tuple(fact["question"]["choices"])
    )
    return Example(
        tuple(inputs),
        tuple(grids),
        things,
        tuple(fact["marked"]),
        fact["kind"],
        fact["whole"],
        asked,
    )
