"""Reads the states of every layer of a model for one conversation: the door to what each kind of
model needs for it."""

from __future__ import annotations

from looktwice.pipelines.model import Messages, Model, ModelError
from looktwice.pipelines.models.internals.layers import States
from looktwice.pipelines.models.internals.networks import network_states
from looktwice.pipelines.models.internals.of_pocket import pocket_states
from looktwice.pipelines.models.local_vlm import LocalVLM
from looktwice.pipelines.models.pocket.model import Pocket


def read_states(model: Model, messages: Messages) -> States:
    """The states of all layers as the model begins its reply to a conversation.

    Without pictures there are those of the decoder's last token alone. Raises ModelError for a
    model whose layers cannot be read, and PictureError.
    """
    if isinstance(model, Pocket):
        return pocket_states(messages)
    if isinstance(model, LocalVLM):
        return network_states(model, messages)
    raise ModelError(
        f"the layers of {type(model).__name__} cannot be read: only a model in this process shows"
        " them, which is LocalVLM or Pocket; run the same questions with {use:"
        " pipelines.models.LocalVLM, model: FOLDER_OR_ID}"
    )
