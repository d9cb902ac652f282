"""What an agent is shown of a tool's result in the control arms of a study: black images, nothing,
or words instead."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from looktwice.pipelines.model import CallOptions, Message, Model, strip_thoughts
from looktwice.pipelines.state import State
from looktwice.prompting.agent.tool import ToolResult
from looktwice.prompting.wording.text_file import Text, read_texts, text_of

DESCRIBE = "Describe this image completely: every thing, its colour, shape, place, number and text."


class ResultControl(Protocol):
    """Changes what a tool returned before the model gets it; errors of tools, answers and undone
    looks stay."""

    def __call__(self, result: ToolResult, state: State) -> ToolResult: ...


@dataclass(frozen=True)
class BlackImages:
    """Every image of a result is black, at its own size: the call, the words and the tokens without
    the pixels.

    The black crop of VisualNeedle (arXiv 2605.26380).
    """

    def __call__(self, result: ToolResult, state: State) -> ToolResult:
        """The result with black images."""
        return replace(
            result,
            views=tuple(view.with_pixels(np.zeros_like(view.pixels)) for view in result.views),
        )


@dataclass(frozen=True)
class NoResult:
    """The model is told `text` alone: the form of tool use without any result.

    Format only, in the terms of arXiv 2606.02357.
    """

    text: str = "done"

    def __call__(self, result: ToolResult, state: State) -> ToolResult:
        """The result without words and images."""
        return result if result.undo or result.answer is not None else ToolResult(self.text)


@dataclass(frozen=True)
class DescribedImages:
    """Every image of a result is described in words by `describer`, such as `{ref: chat}`, and not
    shown.

    `prompt` asks for the description, `options` bound it. Whatever these words suffice for needs no
    second look.
    """

    describer: Model
    prompt: Text = DESCRIBE
    options: CallOptions = field(default_factory=lambda: CallOptions(max_tokens=1024))

    def __post_init__(self) -> None:
        read_texts(self)

    def __call__(self, result: ToolResult, state: State) -> ToolResult:
        """The result with descriptions. Raises ModelError."""
        words = [result.text] if result.text else []
        for view in result.views:
            sent = (Message("user", (view, text_of(self.prompt))),)
            words.append(
                strip_thoughts(
                    self.describer(sent, draw=state.draw, options=self.options).text
                ).strip()
            )
        return replace(result, text="\n".join(words), views=()) if result.views else result
