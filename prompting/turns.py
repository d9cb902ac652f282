"""The turns of a conversation: when the model is called, and what it is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from looktwice.pipelines.model import Message, Model, Want
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View

__all__ = ["Ask"]


@dataclass(frozen=True)
class Ask:
    """Sends the views and the prompt as one user's turn, and keeps the reply: one call.

    `images` says where the views stand: before or after the words, or nowhere. `attach` says which: all, those
    that the conversation does not hold yet, or none. `want` is passed to the model. `system` opens the
    conversation, once. Raises ValueError where there is nothing to send, and ModelError.
    """

    images: Literal["before", "after", "none"] = "before"
    attach: Literal["all", "new", "none"] = "all"
    want: Want = field(default_factory=Want)
    system: str = ""

    def __call__(self, state: State, model: Model) -> State:
        """The state with the turn and its reply; `state.draw` numbers the call."""
        views = self._attached(state)
        words = (state.prompt,) if state.prompt else ()
        parts: tuple[str | View, ...] = (*words, *views) if self.images == "after" else (*views, *words)
        if not parts:
            raise ValueError(f"sample {state.sample.id}: there is nothing to ask, neither a prompt nor an image")
        messages = (*self._opened(state), Message("user", parts))
        reply = model(messages, draw=state.draw, want=self.want)
        return state.replace(messages=(*messages, reply.as_message()))

    def _attached(self, state: State) -> tuple[View, ...]:
        if self.images == "none" or self.attach == "none":
            return ()
        held = {view.picture.sha for view in state.shown} if self.attach == "new" else set()
        return tuple(view for view in state.views if view.picture.sha not in held) if held else state.views

    def _opened(self, state: State) -> tuple[Message, ...]:
        opened = any(message.role == "system" for message in state.messages)
        return state.messages if opened or not self.system else (Message("system", (self.system,)), *state.messages)
