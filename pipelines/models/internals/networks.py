"""The states of the layers of networks of transformers, by hooks: LLaVA, LLaVA-NeXT, Qwen2-VL,
Qwen2.5-VL, Qwen3-VL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from looktwice.pipelines.model import Messages, ModelError
from looktwice.pipelines.models.internals.layers import Layer, MeanState, States
from looktwice.pipelines.models.local_vlm import LocalVLM
from looktwice.pipelines.runtime.networks import WeightsError, import_torch


class Parts(NamedTuple):
    """The modules of a network that are watched; the tower's first `skipped` tokens stand for no
    place."""

    tower: Sequence[Any]
    projector: Any
    decoder: Sequence[Any]
    skipped: int = 0


def _llava(network: Any) -> Parts:
    """Of the tower, the layers up to the one whose output the projector gets."""
    inner, config = network.model, network.config
    layers = next(
        m for name, m in inner.vision_tower.named_modules() if name.endswith("encoder.layers")
    )
    chosen = config.vision_feature_layer
    ends = [
        layer % (len(layers) + 1) for layer in (chosen if isinstance(chosen, list) else [chosen])
    ]
    skipped = int(config.vision_feature_select_strategy == "default")
    return Parts(
        layers[: max(ends)], inner.multi_modal_projector, inner.language_model.layers, skipped
    )


def _qwen(network: Any) -> Parts:
    inner = network.model
    return Parts(inner.visual.blocks, inner.visual.merger, inner.language_model.layers)


FAMILIES: dict[str, Callable[[Any], Parts]] = {
    "llava": _llava,
    "llava_next": _llava,
    "qwen2_vl": _qwen,
    "qwen2_5_vl": _qwen,
    "qwen3_vl": _qwen,
}
"""How the parts of a family are found, by `model_type` of its configuration."""


def network_states(model: LocalVLM, messages: Messages) -> States:
    """The states of a network's layers over one conversation.

    Raises ModelError, also for another family and where the network cannot be opened, and
    PictureError.
    """
    chat = model.chat(messages)
    try:
        network = model.network()
    except WeightsError as exc:
        raise ModelError(str(exc)) from exc
    family = network.model.config.model_type
    if family not in FAMILIES:
        raise ModelError(
            f"{model.model}: layers are read of the families {', '.join(FAMILIES)}, and this is"
            f" {family}; probe another model"
        )
    inputs, torch = model.inputs(network, [chat]), import_torch()
    is_image = (inputs["input_ids"][0] == network.model.config.image_token_id).cpu()
    means: dict[Layer, MeanState] = {}
    with ExitStack() as hooks:
        _watch(hooks, FAMILIES[family](network.model), means, is_image)
        with torch.inference_mode():
            network.model(**inputs, use_cache=False, logits_to_keep=1)
    return {layer: state.vector for layer, state in means.items()}


def _watch(hooks: ExitStack, parts: Parts, means: dict[Layer, MeanState], is_image: Any) -> None:
    """Hooks that add what passes to `found`, until `hooks` is closed."""

    def watch(module: Any, layer: Layer, tokens_of: Callable[[Any], Any]) -> None:
        def add(module: Any, given: Any, output: Any) -> None:
            state = output[0] if isinstance(output, tuple) else output
            if len(tokens := tokens_of(state)):
                means.setdefault(layer, MeanState()).add(tokens.float().cpu().numpy())

        hooks.callback(module.register_forward_hook(add).remove)

    for number, module in enumerate(parts.tower, 1):
        watch(module, Layer("tower", number), lambda x: x[..., parts.skipped :, :].flatten(0, -2))
    watch(parts.projector, Layer("projector", 1), lambda x: x.flatten(0, -2))
    for over, chosen in (
        ("image", lambda x: x[0, is_image.to(x.device)]),
        ("last", lambda x: x[0, -1:]),
    ):
        for number, module in enumerate(parts.decoder, 1):
            watch(module, Layer("decoder", number, over), chosen)  # type: ignore[arg-type]
