"""The list prices of models, and what the calls of a record cost by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from looktwice.eval.records.records import PointRow, Record, RunError
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import Usage, format_prices, get_amounts, price_fault

if TYPE_CHECKING:
    from looktwice.pipelines.models.wrappers import UsageCount

Prices = Mapping[str, Mapping[str, float]]
"""Money per million tokens (`in`, `out`, `cached`) by model: "" is the point's own model, others
are named by their identity."""


def read_prices(point: PointRow | Arm, binder: Binder) -> Prices:
    """Return the `prices` of the point's model and of models inside its stages, if they have any.

    Raises RunError for invalid prices in a run folder.
    """
    prices = {}
    for own, node in _priced_nodes(point):
        if fault := price_fault(node["prices"]):
            raise RunError(f"points.yaml, {point.contestant}: {fault}; fix the line")
        prices["" if own else binder.make(node).identity] = get_amounts(node["prices"])
    return prices


def price_lines(arms: Iterable[PointRow | Arm]) -> list[str]:
    """Return a sentence for each model with prices, with their date and source if known."""
    lines = dict.fromkeys(
        f"prices of {node.get('model') or node.get('use')}: {format_prices(node['prices'])}"
        for arm in arms
        for _, node in _priced_nodes(arm)
    )
    return list(lines)


def _priced_nodes(point: PointRow | Arm) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """Yield the nodes of the point's own model, if it has prices, and of the models inside its
    stages."""
    model = point.spec.get("model")
    if isinstance(model, Mapping) and model.get("prices"):
        yield True, model
    left = [point.spec.get("stages")]
    while left:
        node = left.pop(0)
        if isinstance(node, Mapping):
            if node.get("prices"):
                yield False, node
            node = list(node.values())
        left = [*(node if isinstance(node, list | tuple) else ()), *left]


def sum_costs(record: Record, prices: Prices) -> float | None:
    """Return the list price of the record's calls; None if a model that was called has no prices,
    or its tokens were not counted.

    A reply from the cache counts at its original cost. Input tokens from the server's own cache
    cost `cached` if that price is given. A request that the filter refused has no tokens.
    """
    if not prices:
        return None
    cost: float = 0
    for call in record.calls:
        if reply := call.get("reply"):
            usage, model = reply.get("usage") or {}, call.get("model", "")
            counted = reply.get("finish") == "filter" or usage.get("tokens_in")
            if model not in prices or not counted:
                return None
            cost += estimate_price(Usage(**usage), prices[model])
    return cost


def estimate_price(usage: Usage | UsageCount, prices: Mapping[str, float]) -> float:
    """Return the list price of these tokens, where some input tokens may come from the server's own
    cache.

    A server that reports more cached than input tokens does not include the cached ones in the
    input.
    """
    fresh = usage.tokens_in - (usage.cached_tokens if usage.cached_tokens <= usage.tokens_in else 0)
    reused = usage.cached_tokens * prices.get("cached", prices["in"])
    return (fresh * prices["in"] + reused + usage.tokens_out * prices["out"]) / 1e6
