"""The list price of a record's calls, from the tokens that the server counted and the prices of the
models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from looktwice.eval.records.records import PointRow, Record, RunError
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.build import build
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.model import Usage, amounts, price_fault, say_prices

if TYPE_CHECKING:
    from looktwice.pipelines.models.wrappers import UsageCount

Prices = Mapping[str, Mapping[str, float]]
"""Money per million tokens (`in`, `out`, `cached`) by model: "" is the point's own, others go by
their identity."""


def prices_of(point: PointRow | Arm, scope: Scope) -> Prices:
    """The `prices` of the point's model and of the models inside its stages, of those that have
    any.

    Raises RunError for prices of a run folder that are none.
    """
    own, inside = _priced_nodes(point)
    found = [("", _checked(node["prices"], point)) for node in own]
    return dict(found) | {
        build(node, scope).identity: _checked(node["prices"], point) for node in inside
    }


def _priced_nodes(point: PointRow | Arm) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The node of the point's model, if it has prices, and those of models inside its stages."""
    model = point.spec.get("model")
    own = [model] if isinstance(model, Mapping) and model.get("prices") else []
    return own, [*_priced(point.spec.get("stages"))]


def _checked(prices: Any, point: PointRow | Arm) -> Mapping[str, float]:
    if fault := price_fault(prices):
        raise RunError(f"points.yaml, {point.contestant}: {fault}; mend the line")
    return amounts(prices)


def price_lines(arms: Iterable[PointRow | Arm]) -> list[str]:
    """A sentence for each model with prices: what they are, and when and where they were read, if
    that is known."""
    nodes = (node for arm in arms for nodes in _priced_nodes(arm) for node in nodes)
    said = (
        f"{node.get('model') or node.get('use')}: {say_prices(node['prices'])}" for node in nodes
    )
    return [f"prices of {line}" for line in dict.fromkeys(said)]


def cost_of(record: Record, prices: Prices) -> float | None:
    """The list price of the record's calls; None if a model that was called has no prices, or its
    tokens no number.

    A reply from the cache is counted at its original cost. Input tokens from the server's own cache
    cost `cached` if that price is given.
    """
    if not prices:
        return None
    calls = [call for call in record.calls if call.get("reply")]
    if any(call.get("model", "") not in prices or not _is_counted(call["reply"]) for call in calls):
        return None
    return sum(
        price_of(Usage(**call["reply"].get("usage", {})), prices[call.get("model", "")])
        for call in calls
    )


def price_of(usage: Usage | UsageCount, prices: Mapping[str, float]) -> float:
    """The list price of these tokens, of which some input tokens may come from the server's own
    cache.

    A server that counts more cached tokens than input tokens leaves the cached ones out of the
    input.
    """
    fresh = usage.tokens_in - (usage.cached_tokens if usage.cached_tokens <= usage.tokens_in else 0)
    reused = usage.cached_tokens * prices.get("cached", prices["in"])
    return (fresh * prices["in"] + reused + usage.tokens_out * prices["out"]) / 1e6


def _is_counted(reply: Mapping[str, Any]) -> bool:
    """Whether the server counted the tokens of a reply; those of a request that its filter refused
    are none."""
    return reply.get("finish") == "filter" or bool((reply.get("usage") or {}).get("tokens_in"))


def _priced(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every node with prices, at any depth."""
    if isinstance(node, Mapping):
        if node.get("prices"):
            yield node
        node = list(node.values())
    for inner in node if isinstance(node, list | tuple) else ():
        yield from _priced(inner)
