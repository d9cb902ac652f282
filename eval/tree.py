"""Points that share their first stages share that work: per sample they form a tree, each stage run once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from looktwice.pipelines.model import canonical
from looktwice.pipelines.points import Point
from looktwice.pipelines.spec import asks, identity
from looktwice.pipelines.state import Stage

__all__ = ["Node", "tree"]


@dataclass(eq=False)
class Node:
    """One stage of the tree: the points that end here, and the stages that go on from here.

    `model` is None as long as no stage on the way asks one, so that such work is shared between models.
    """

    slot: str
    stage: Stage
    model: Any
    ends: list[Point] = field(default_factory=list)
    children: dict[tuple[str, str, int], Node] = field(default_factory=dict)

    def points(self) -> Iterator[Point]:
        """Every point that ends here or further on."""
        yield from self.ends
        for child in self.children.values():
            yield from child.points()


def tree(points: Sequence[Point]) -> list[Node]:
    """The roots for points of one task and seed."""
    roots: dict[tuple[str, str, int], Node] = {}
    for point in points:
        level, asking = roots, False
        node: Node | None = None
        for slot, stage in point.stages.items():
            asking = asking or asks(stage)
            model = point.model if asking else None
            key = (slot, canonical(identity(stage)), id(model))
            node = level.setdefault(key, Node(slot, stage, model))
            level = node.children
        if node is not None:
            node.ends.append(point)
    return list(roots.values())
