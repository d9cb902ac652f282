"""The turns of a conversation: when the model is called, and what it is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from looktwice.pipelines.model import Message, Model, Want
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.layout import check_tag, tag

__all__ = ["Ask"]

Parts = tuple[str | View, ...]


@dataclass(frozen=True)
class Ask:
    """Sends the views and the prompt as one user's turn, and keeps the reply: one call.

    `images` says where the views stand: before or after the words, nowhere, or `inline`, each where the prompt says
    `<image 1>`, `<image 2>` ..., and those that it does not name before the words. `attach` says which: all, those
    that the conversation does not hold yet, or none. `tags` is a text before each image, as "Image {n}:"; `{n}` is
    the number of the view in the state, counted from 1, `{source}` that of the sample's image which it shows.
    `want` is passed to the model. `system` opens the conversation, once. Raises ValueError where there is nothing
    to send or `<image 3>` names no view, and ModelError.
    """

    images: Literal["before", "after", "inline", "none"] = "before"
    attach: Literal["all", "new", "none"] = "all"
    want: Want = field(default_factory=Want)
    system: str = ""
    tags: str = ""

    def __post_init__(self) -> None:
        check_tag("tags", self.tags)

    def __call__(self, state: State, model: Model) -> State:
        """The state with the turn and its reply; `state.draw` numbers the call."""
        parts = self._parts(state)
        if not parts:
            raise ValueError(f"sample {state.sample.id}: there is nothing to ask, neither a prompt nor an image")
        messages = (*self._opened(state), Message("user", parts))
        reply = model(messages, draw=state.draw, want=self.want)
        return state.replace(messages=(*messages, reply.as_message()))

    def _parts(self, state: State) -> Parts:
        held = {view.picture.sha for view in state.shown} if self.attach == "new" else set()
        shown = {n: view for n, view in enumerate(state.views, 1) if not held or view.picture.sha not in held}
        if self.images == "none" or self.attach == "none":
            shown = {}
        if self.images == "inline":
            return self._inline(state, shown)
        words = (state.prompt,) if state.prompt else ()
        views = self._tagged(state, shown)
        return (*words, *views) if self.images == "after" else (*views, *words)

    def _inline(self, state: State, shown: dict[int, View]) -> Parts:
        pieces = re.split(r"<image (\d+)>", state.prompt)
        named = [int(number) for number in pieces[1::2]]
        if missing := [number for number in named if not 1 <= number <= len(state.views)]:
            raise ValueError(
                f"sample {state.sample.id}: the prompt says <image {missing[0]}>, there are {len(state.views)} views"
            )
        parts = [*self._tagged(state, {n: view for n, view in shown.items() if n not in named}), pieces[0]]
        for number, words in zip(named, pieces[2::2], strict=True):
            parts += [*self._tagged(state, {number: shown[number]} if number in shown else {}), words]
        stripped = (part.strip() if isinstance(part, str) else part for part in parts)
        return tuple(part for part in stripped if part != "")

    def _tagged(self, state: State, views: dict[int, View]) -> Parts:
        if not self.tags:
            return tuple(views.values())
        return tuple(p for n, view in views.items() for p in (tag(self.tags, n, view, state.sample.id), view))

    def _opened(self, state: State) -> tuple[Message, ...]:
        opened = any(message.role == "system" for message in state.messages)
        return state.messages if opened or not self.system else (Message("system", (self.system,)), *state.messages)
