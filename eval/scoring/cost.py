"""The list price of a record's calls, from the tokens that the server counted and the prices of the models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from looktwice.eval.records.records import PointRow, Record
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.build import Scope, build
from looktwice.pipelines.model import Usage

Prices = Mapping[str, Mapping[str, float]]
"""Money per million tokens (`in`, `out`, `cached`) by model: "" is the point's own, others go by their identity."""


def prices_of(point: PointRow | Arm, plugins: Sequence[str] = ()) -> Prices:
    """The `prices` of the point's model and of the models inside its stages; empty where the model has none."""
    model = point.spec.get("model")
    if not isinstance(model, Mapping) or not model.get("prices"):
        return {}
    scope, inside = Scope.of_records(plugins), _priced(point.spec.get("stages"))
    return {"": model["prices"], **{build(node, scope).identity: node["prices"] for node in inside}}


def cost_of(record: Record, prices: Prices) -> float | None:
    """The list price of the record's calls; None if a model that was called has no prices.

    A reply from the cache is counted at its original cost. Input tokens from the server's own cache cost `cached` if
    that price is given.
    """
    calls = [call for call in record.calls if call.get("reply")]
    if not prices or any(call.get("model", "") not in prices for call in calls):
        return None
    return sum(_price(Usage(**call["reply"].get("usage", {})), prices[call.get("model", "")]) for call in calls)


def _price(usage: Usage, prices: Mapping[str, float]) -> float:
    fresh = usage.tokens_in - usage.cached_tokens
    reused = usage.cached_tokens * prices.get("cached", prices["in"])
    return (fresh * prices["in"] + reused + usage.tokens_out * prices["out"]) / 1e6


def _priced(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every node with prices, at any depth."""
    if isinstance(node, Mapping):
        if node.get("prices"):
            yield node
        node = list(node.values())
    for inner in node if isinstance(node, list | tuple) else ():
        yield from _priced(inner)
