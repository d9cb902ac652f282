"""Asks for an answer in a given format: a marked last line, or a JSON object whose schema the server enforces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from looktwice.pipelines.model import Model
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting.wording.text_file import Text, Wording, add_lines, fill_in, read_texts


@dataclass(frozen=True)
class AnswerLine(WithoutModel):
    """Asks for a last line with a `mark` such as "MY_ANSWER:" or "Final Answer:", and after it only the answer.

    `{mark}` in `words` becomes that text. `eval.readers.Marked` reads what follows it.
    """

    mark: str = "MY_ANSWER:"
    words: Text = 'End with a line of its own that begins with "{mark}" and then gives nothing but the answer.'

    def __post_init__(self) -> None:
        read_texts(self)
        if not self.mark.strip() or "\n" in self.mark:
            raise ValueError(f"mark is the text before the answer, in one line, found {self.mark!r}")

    def __call__(self, state: State, model: Model) -> State:
        """The state with these words below the prompt."""
        return add_lines(state, fill_in(self.words, mark=self.mark))


@dataclass(frozen=True)
class JsonAnswer(Wording):
    """Asks for a JSON object with the answer and, unless `reasoning` is false, the reasoning before it.

    To let the server enforce the schema, name this stage as the `output` of the stage that asks, best by reference:
    `output: ${stages.SLOT}`. Samples with choices are answered by a letter. `{form}` in `words` becomes a description
    of the object.
    """

    reasoning: bool = True
    words: Text = "Reply with a JSON object and nothing else: {form}"

    def __call__(self, state: State, model: Model) -> State:
        """The state with these words below the prompt."""
        letters = ", ".join(state.sample.letters)
        answer = f'"answer": {f"one of {letters}" if letters else "your answer"}, as a text'
        reasoning = '"reasoning": what you see and what follows from it, ' if self.reasoning else ""
        form = f"{{{reasoning}{answer}}}"
        return add_lines(state, fill_in(self.words, form=form))

    def schema(self, sample: Sample) -> Mapping[str, Any]:
        """The JSON schema of a reply; strict servers want every field required and no other allowed."""
        answer: dict[str, Any] = {"type": "string"}
        if sample.letters:
            answer["enum"] = list(sample.letters)
        known = {"reasoning": {"type": "string"}, "answer": answer} if self.reasoning else {"answer": answer}
        return {"type": "object", "properties": known, "required": list(known), "additionalProperties": False}
