"""Attention weights of networks of transformers, added up while they run, so that no layer's weights are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from looktwice.pipelines.runtime.networks import OPENING, WeightsError, import_torch, import_transformers

NAME = "looktwice_received"
BLOCK = 256  # queries whose weights are in memory at a time


@dataclass(eq=False)
class Received:
    """The attention that each key receives, by module in the order in which modules are run.

    `asking` (queries,) are the weights of the queries in the sum; None takes all. Of each module there is a tensor
    (batch, keys), the mean over heads, for each of its calls: one, or one for each window.
    """

    asking: Any = None
    modules: dict[Any, list[Any]] = field(default_factory=dict)

    def mean(self, model: str, layer: int | None) -> Any:
        """(batch, keys) of `layer`, or the mean over all layers. Raises WeightsError where there is none."""
        import torch

        layers = [torch.cat(calls, 1) for calls in self.modules.values()]
        if not layers:
            raise WeightsError(f"{model}: its layers do not give their attention")
        if layer is None:
            return torch.stack(layers).mean(0)
        if not -len(layers) <= layer < len(layers):
            raise WeightsError(f"layer {layer} of {model}: it has {len(layers)} layers")
        return layers[layer]


_RECEIVED: ContextVar[Received | None] = ContextVar("looktwice_received", default=None)


def attention_setting() -> str:
    """The name of an attention for `attn_implementation`: plain attention that adds up what `receive` asks for."""
    import_transformers()
    with OPENING:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import eager_mask

        AttentionInterface.register(NAME, _attend)
        AttentionMaskInterface.register(NAME, eager_mask)
    return NAME


@contextmanager
def receive(asking: Any = None) -> Iterator[Received]:
    """Inside, attention of networks that were opened with `attention_setting` is added up, in this thread."""
    received = Received(asking)
    token = _RECEIVED.set(received)
    try:
        yield received
    finally:
        _RECEIVED.reset(token)


def _attend(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **others: Any
) -> tuple[Any, None]:
    """Attention as the eager one of transformers computes it: softmax in float32, keys shared by groups of heads."""
    torch, received = import_torch(), _RECEIVED.get()
    groups = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(groups, 1) for each in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    outputs, total = [], 0
    for start in range(0, query.shape[2], BLOCK):
        rows = slice(start, start + BLOCK)
        scores = query[:, :, rows] @ key.transpose(2, 3) * scale
        if attention_mask is not None:
            scores = scores + attention_mask[:, :, rows]
        weights = torch.softmax(scores, -1, dtype=torch.float32)
        outputs.append(weights.to(query.dtype) @ value)
        if received is not None:
            heads = weights.mean(1)
            total = total + (heads if received.asking is None else heads * received.asking[rows, None]).sum(1)
    if received is not None:
        received.modules.setdefault(module, []).append(total)
    return torch.cat(outputs, 2).transpose(1, 2).contiguous(), None
