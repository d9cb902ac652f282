"""The states of a model's layers while it reads a question; only models in this process give access
to them.

Networks of transformers are read with forward hooks: LLaVA, LLaVA-NeXT, Qwen2-VL, Qwen2.5-VL,
Qwen3-VL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.engines.local_vlm import LocalVLM
from looktwice.extras.networks.opening import import_torch
from looktwice.pipelines.model import Messages, Model, ModelError
from looktwice.pipelines.models.pocket.model import Pocket, make_network_inputs
from looktwice.pipelines.models.pocket.network import (
    ANSWER,
    ONE_THREAD,
    Conversation,
    compute_encoder_states,
    load_bundled_weights,
)
from looktwice.pipelines.runtime.weights import WeightsError

Pooling = Literal["image", "last"]
POOLING_NAMES: Mapping[Pooling, str] = {"image": "image tokens", "last": "last token"}


class Layer(NamedTuple):
    """A layer by its `part` of the network and its `number` in this part, from 1; its state is the
    mean over the image's tokens, or the state of the last token."""

    part: Literal["tower", "projector", "decoder"]
    number: int
    pooling: Pooling = "image"

    @property
    def place(self) -> str:
        """The name shared by all layers of this part and pooling."""
        return f"decoder, {POOLING_NAMES[self.pooling]}" if self.part == "decoder" else self.part

    def __str__(self) -> str:
        if self.part == "projector":
            return self.part
        return self.place.replace(self.part, f"{self.part} {self.number}")


States = Mapping[Layer, NDArray[np.float32]]
"""The state of each layer for one question, in the order in which the network computes them; only
decoder layers occur with both poolings."""


class NetworkParts(NamedTuple):
    """The modules of a network to hook; the tower's first `extra_token_count` tokens do not belong
    to a position in the image."""

    tower: Sequence[Any]
    projector: Any
    decoder: Sequence[Any]
    extra_token_count: int = 0


def _find_llava_parts(network: Any) -> NetworkParts:
    """Return the parts of a LLaVA network; the tower ends at the layer whose output the projector
    receives."""
    inner, config = network.model, network.config
    modules = inner.vision_tower.named_modules()
    layers = next(module for name, module in modules if name.endswith("encoder.layers"))
    ends = np.atleast_1d(config.vision_feature_layer) % (len(layers) + 1)
    skipped = int(config.vision_feature_select_strategy == "default")
    decoder = inner.language_model.layers
    return NetworkParts(layers[: max(ends)], inner.multi_modal_projector, decoder, skipped)


def _find_qwen_parts(network: Any) -> NetworkParts:
    inner = network.model
    return NetworkParts(inner.visual.blocks, inner.visual.merger, inner.language_model.layers)


PART_FINDERS: dict[str, Callable[[Any], NetworkParts]] = {
    "llava": _find_llava_parts,
    "llava_next": _find_llava_parts,
    "qwen2_vl": _find_qwen_parts,
    "qwen2_5_vl": _find_qwen_parts,
    "qwen3_vl": _find_qwen_parts,
}
"""Functions that find a network's parts, by the `model_type` in its configuration."""


def read_states(model: Model, messages: Messages) -> States:
    """Return the states of all layers as the model begins its reply to a conversation.

    Without pictures, only the decoder's states of the last token exist. Raises ModelError for a
    model whose layers cannot be read, and PictureError.
    """
    if isinstance(model, Pocket):
        return read_pocket_states(messages)
    if isinstance(model, LocalVLM):
        return read_network_states(model, messages)
    raise ModelError(
        f"the layers of {type(model).__name__} cannot be read: only models in this process give"
        " access to them (LocalVLM, Pocket); run the same questions with {use:"
        " pipelines.models.LocalVLM, model: FOLDER_OR_ID}"
    )


def read_network_states(model: LocalVLM, messages: Messages) -> States:
    """Return the states of a network's layers over one conversation.

    Raises ModelError, for example if the family is unknown or the network cannot be opened, and
    PictureError.
    """
    chat = model.make_chat(messages)
    try:
        network = model.network()
    except WeightsError as exc:
        raise ModelError(str(exc)) from exc
    config = network.model.config
    if config.model_type not in PART_FINDERS:
        raise ModelError(
            f"{model.model}: layers can be read in the families {', '.join(PART_FINDERS)}, not in"
            f" {config.model_type}; probe another model"
        )
    inputs, torch = model.make_inputs(network, [chat]), import_torch()
    is_image = (inputs["input_ids"][0] == config.image_token_id).cpu()
    parts = PART_FINDERS[config.model_type](network.model)
    totals: dict[Layer, Any] = defaultdict(float)  # the sum over tokens, followed by their number

    def add(
        layer: Layer, chosen: Callable[[Any], Any], module: Any, given: Any, output: Any
    ) -> None:
        state = output[0] if isinstance(output, tuple) else output
        tokens = chosen(state).flatten(0, -2).float().cpu().numpy()
        if len(tokens):
            totals[layer] = totals[layer] + np.append(tokens.sum(0, dtype=float), len(tokens))

    watched: list[tuple[Any, Layer, Callable[[Any], Any]]] = [
        (parts.projector, Layer("projector", 1), lambda x: x)
    ]
    for number, module in enumerate(parts.tower, 1):
        watched.append(
            (module, Layer("tower", number), lambda x: x[..., parts.extra_token_count :, :])
        )
    for number, module in enumerate(parts.decoder, 1):
        image, last = Layer("decoder", number), Layer("decoder", number, "last")
        watched.append((module, image, lambda x: x[0, is_image.to(x.device)]))
        watched.append((module, last, lambda x: x[0, -1:]))
    with ExitStack() as hooks, torch.inference_mode():
        for module, layer, chosen in watched:
            hook = module.register_forward_hook(partial(add, layer, chosen))
            hooks.callback(hook.remove)
        network.model(**inputs, use_cache=False, logits_to_keep=1)
    return {
        layer: np.asarray(total[:-1] / total[-1], np.float32) for layer, total in totals.items()
    }


def read_pocket_states(messages: Messages) -> States:
    """Return Pocket's states: the encoder's layers are the tower; its last output, to which the
    text tokens attend, is the projector.

    Its decoder has no image tokens, since text tokens cross-attend to image positions. Raises
    ModelError and PictureError.
    """
    weights, (tokens, inputs) = load_bundled_weights(), make_network_inputs(messages)
    with ONE_THREAD:
        views = [compute_encoder_states(weights, pixels) for pixels in inputs.values()]
        talk = Conversation(weights, tokens, [places for *_, places in views])
        decoder = talk.compute_states(ANSWER)
    states: dict[Layer, NDArray[np.float32]] = {}
    for number, places in enumerate(zip(*views, strict=True), 1):
        states[Layer("tower", number)] = np.concatenate(places).mean(0)
    if states:
        states[Layer("projector", 1)] = states.pop(Layer("tower", len(states)))
    for number, state in enumerate(decoder, 1):
        states[Layer("decoder", number, "last")] = state[0]
    return states
