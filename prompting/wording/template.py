"""Prompts from jinja2 templates, so that a new wording needs no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import jinja2

from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting.wording.instructions import Text, get_text, read_texts, set_system_message
from looktwice.prompting.wording.sandbox import (
    MAX_CHARACTERS,
    get_environment,
    limit_work,
    measure_template,
)

RENDERING_ERRORS = (
    jinja2.TemplateError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    RecursionError,
    AssertionError,
)
"""Exceptions that rendering may raise; jinja2 uses assertions on the input of some of its filters.
"""


@dataclass(frozen=True)
class Template(WithoutModel):
    """Writes the prompt from a jinja2 template, which is given here or in a file and runs in a
    sandbox.

    The template is `text`. Its variables are `prompt` (as worded so far), `question`, `choices`
    (each with `letter` and `text`), `letters`, `images` (how many are shown), `marks` (each with
    `label`, `kind` and `image`, counted from 1), `meta`, `id`, and `reply` (the model's last
    reply). `into` "prompt" replaces the prompt, "system" the system message. Raises a ValueError
    that names the sample for unknown variables and for other errors in the template.
    """

    text: Text
    into: Literal["prompt", "system"] = "prompt"

    def __post_init__(self) -> None:
        read_texts(self)
        if len(get_text(self.text)) > MAX_CHARACTERS:
            raise ValueError(
                f"text has {len(get_text(self.text)):,} characters; a template has at most"
                f" {MAX_CHARACTERS:,}"
            )
        try:
            _ = self._template
        except (jinja2.TemplateError, SyntaxError, RecursionError) as exc:
            raise ValueError(f"text is not a valid jinja2 template: {exc}") from exc

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the filled-in template."""
        text = ""
        try:
            with limit_work(self._size):
                for piece in self._template.generate(_collect_variables(state)):
                    text += piece
                    if len(text) > MAX_CHARACTERS:
                        raise ValueError(f"it writes more than {MAX_CHARACTERS:,} characters")
        except RENDERING_ERRORS as exc:
            raise ValueError(
                f"sample {state.sample.id}: the template cannot be filled in: {exc}"
            ) from exc
        text = text.strip()
        if self.into == "prompt":
            return state.replace(prompt=text)
        return set_system_message(state, text)

    @cached_property
    def _template(self) -> jinja2.Template:
        with limit_work():  # constant expressions are evaluated here
            return get_environment().from_string(get_text(self.text))

    @cached_property
    def _size(self) -> int:
        return measure_template(get_environment().parse(get_text(self.text)))


def _collect_variables(state: State) -> Mapping[str, Any]:
    sample, shown = state.sample, len(state.views)
    texts = ["(an image)" if isinstance(choice, Picture) else choice for choice in sample.choices]
    return {
        "prompt": state.prompt,
        "question": sample.question,
        "choices": [{"letter": a, "text": b} for a, b in zip(sample.letters, texts, strict=True)],
        "letters": list(sample.letters),
        "images": shown,
        "marks": [
            {"label": m.label, "kind": type(m).__name__.lower(), "image": m.image + 1}
            for m in sample.marks
        ],
        "meta": dict(sample.meta),
        "id": sample.id,
        "reply": state.reply,
    }
