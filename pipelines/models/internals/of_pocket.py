"""The states of Pocket's layers."""

from __future__ import annotations

import numpy as np

from looktwice.pipelines.model import Messages
from looktwice.pipelines.models.internals.layers import Layer, States
from looktwice.pipelines.models.pocket.model import network_inputs
from looktwice.pipelines.models.pocket.network import (
    ONE_THREAD,
    Conversation,
    encoder_states,
    shipped_weights,
)
from looktwice.pipelines.models.pocket.words import ANSWER


def pocket_states(messages: Messages) -> States:
    """The encoder's layers are the tower; what the words look at, classes of the places added, is
    the projector.

    Its decoder has no tokens of the image: the words look at the places. Raises ModelError and
    PictureError.
    """
    weights, (tokens, inputs) = shipped_weights(), network_inputs(messages)
    with ONE_THREAD:
        views = [encoder_states(weights, pixels) for pixels in inputs.values()]
        answer_states = Conversation(weights, tokens, [states[-1] for states in views]).states(
            ANSWER
        )
    seen = [np.concatenate(layer_states).mean(0) for layer_states in zip(*views, strict=True)]
    states_by_layer = {Layer("tower", number): vector for number, vector in enumerate(seen[:-1], 1)}
    if seen:
        states_by_layer[Layer("projector", 1)] = seen[-1]
    return states_by_layer | {
        Layer("decoder", number, "last"): state[0] for number, state in enumerate(answer_states, 1)
    }
