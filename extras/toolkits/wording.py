"""The prompts and sampling options of published evaluations, to reproduce their numbers.

Classes whose names end in `Prompt` are stages that word the question in a toolkit's form. Classes
whose names end in `Decoding` are `CallOptions` with a toolkit's values; set one as the options of
the stage that asks:
`ask: {use: prompting.turns.Ask, options: {use: prompting.wording.BlinkDecoding}}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from looktwice.pipelines.model import CallOptions, Model
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting.wording.instructions import get_benchmark_prompt, show_choices


@dataclass(frozen=True)
class BlinkDecoding(CallOptions):
    """The options of BLINK's runner: temperature 0, at most 1,024 tokens."""

    temperature: float | None = 0.0
    max_tokens: int | None = 1024


@dataclass(frozen=True)
class BlinkConsistencyDecoding(CallOptions):
    """The options of BLINK's self-consistency study: temperature 1, with five draws (set `draws:
    5`)."""

    temperature: float | None = 1.0
    max_tokens: int | None = 1024


@dataclass(frozen=True)
class Vlm2ShortDecoding(CallOptions):
    """The options of VLM2-Bench's scripts for GC and VID: at most 512 tokens, with the model's
    default sampling."""

    max_tokens: int | None = 512


@dataclass(frozen=True)
class Vlm2LongDecoding(CallOptions):
    """The options of VLM2-Bench's scripts for OC and PC: at most 2,048 tokens, with the model's
    default sampling."""

    max_tokens: int | None = 2048


@dataclass(frozen=True)
class DoYouSeeMeDecoding(CallOptions):
    """The options of Do You See Me for all models: temperature 1.0, top-p 0.95, at most 200 new
    tokens."""

    temperature: float | None = 1.0
    top_p: float | None = 0.95
    max_tokens: int | None = 200


@dataclass(frozen=True)
class VlmevalkitDecoding(CallOptions):
    """The options of VLMEvalKit's API models: temperature 0, at most 2,048 tokens."""

    temperature: float | None = 0.0
    max_tokens: int | None = 2048


@dataclass(frozen=True)
class LmmsEvalDecoding(CallOptions):
    """The options of lmms-eval for BLINK: at most 1,024 tokens; temperature 0, the default for
    tasks that set none."""

    temperature: float | None = 0.0
    max_tokens: int | None = 1024


DISCLAIMER = (
    "This is a question about what the images show. It takes for granted nothing unfair about"
    " anybody, and nobody has to be recognised or named to answer it."
)
_CHOICES_PATTERN = re.compile(
    r"\s*(?:Select from the following (?:choices|options)\.?\s*|\n\(A\).*)", re.S
)
"""The lettered choices of a BLINK prompt and the sentence that introduces them."""


@dataclass(frozen=True)
class OfficialPrompt(WithoutModel):
    """BLINK's prompt: the column `prompt` unchanged, preceded by a `disclaimer` for three subtasks.

    `disclaimed` lists the subtasks with the disclaimer, named with underscores. Samples of other
    benchmarks are asked with their field `prompt`. Raises ValueError for a sample without one.
    """

    disclaimer: str = DISCLAIMER
    disclaimed: tuple[str, ...] = ("Art_Style", "Forensic_Detection", "Jigsaw")

    def __call__(self, state: State, model: Model) -> State:
        """Replace the prompt by the official one."""
        disclaimer = _get_disclaimer(state, self.disclaimer, self.disclaimed)
        return state.replace(prompt=disclaimer + get_benchmark_prompt(state))


@dataclass(frozen=True)
class VlmevalkitPrompt(WithoutModel):
    """VLMEvalKit's prompt: a hint (`meta["hint"]`), if there is one, "Question:", "Options:" with
    lines such as "A. yes", and then `closing`.

    The question is the benchmark's prompt without its lettered choices, as in the rows of the
    toolkit's table (this is not documented), or the sample's question if it has no prompt. With
    `options` False, the prompt is "Question:" followed by the whole prompt, which is the form for
    VLM2-Bench. A choice that is an image becomes a view after the other views, and its line refers
    to it by number. `disclaimer` precedes the question of the subtasks in `disclaimed`.
    """

    closing: str = "Choose the right answer among these options."
    options: bool = True
    disclaimer: str = DISCLAIMER
    disclaimed: tuple[str, ...] = ("Art_Style",)

    def __call__(self, state: State, model: Model) -> State:
        """Replace the prompt by one in VLMEvalKit's form."""
        sample, prompt = state.sample, state.sample.meta.get("prompt")
        if not self.options:
            return state.replace(prompt=f"Question: {get_benchmark_prompt(state).strip()}\n")
        body, hint = sample.question, sample.meta.get("hint")
        if isinstance(prompt, str) and prompt:
            body = _CHOICES_PATTERN.split(prompt, maxsplit=1)[0].strip()
        lines = [f"Hint: {hint}"] if isinstance(hint, str) and hint else []
        lines.append(f"Question: {_get_disclaimer(state, self.disclaimer, self.disclaimed)}{body}")
        views, choices = show_choices(state)
        if choices:
            lines.append("Options:")
            lines += [f"{a}. {text}" for a, text in zip(sample.letters, choices, strict=True)]
            lines += [self.closing] if self.closing else []
        return state.replace(prompt="\n".join(lines), views=views)


@dataclass(frozen=True)
class LmmsEvalPrompt(WithoutModel):
    """lmms-eval's prompt for BLINK: a note that asks for a letter only, then the column `prompt`
    unchanged.

    `{letters}` in `note` becomes "A, B". Raises ValueError for a sample without its own prompt.
    """

    note: str = "Note: Reply with {letters} alone, and add nothing to it.\n"

    def __call__(self, state: State, model: Model) -> State:
        """Put the note before the sample's prompt."""
        letters = ", ".join(state.sample.letters)
        note = self.note.replace("{letters}", letters)
        return state.replace(prompt=note + get_benchmark_prompt(state))


def _get_disclaimer(state: State, disclaimer: str, subtasks: tuple[str, ...]) -> str:
    subtask = str(state.sample.meta.get("subtask", "")).replace(" ", "_")
    return f"{disclaimer}\n\n" if disclaimer and subtask in subtasks else ""
