"""Lines of the prompt: choices and other answer formats, coordinates of marks, chain of thought,
and the system message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from looktwice.pipelines.disk import read_file
from looktwice.pipelines.marks import Mark, Point, bounding_box
from looktwice.pipelines.model import Message, Model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View

MAX_TEXT_BYTES = 1_000_000  # bytes


@dataclass(frozen=True)
class TextFile:
    """The text of the UTF-8 `file`; a configuration writes `{file: NAME}` where text is
    expected."""

    file: Path


Text = str | TextFile
"""A setting that holds text, or names a file that contains it."""
Parts = tuple[str | View, ...]
"""The content of a message: texts and views."""


def read_texts(stage: Any) -> None:
    """Replace every TextFile among a frozen stage's settings with the file's text; `__post_init__`
    calls this.

    The text becomes the setting, so it is part of the stage's identity and a run can be replayed
    without the file. One line break at the end is removed. Raises ValueError if the file cannot be
    read.
    """
    for setting in fields(stage):
        value = getattr(stage, setting.name)
        if isinstance(value, TextFile):
            object.__setattr__(stage, setting.name, _read_file(setting.name, value.file))


class WithTextFiles:
    """A class whose settings may be read from text files."""

    def __post_init__(self) -> None:
        read_texts(self)


class Wording(WithTextFiles, WithoutModel):
    """A stage whose settings may be read from text files."""


def get_text(text: Text) -> str:
    """Return the text of a setting, read from its file if `read_texts` has not done so."""
    return text if isinstance(text, str) else _read_file("text", text.file)


def fill_in(text: Text, **parts: str) -> str:
    """Replace each `{name}` in a text with the part that has this name; other braces, such as those
    of JSON, are kept."""
    names = "|".join(map(re.escape, parts))
    return re.sub(rf"{{({names})}}", lambda match: parts[match[1]], get_text(text))


def join_names(names: Sequence[str], last: str = "and") -> str:
    """Join names into a list: "A, B and C"."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def add_lines(state: State, *lines: str) -> State:
    """Return the state with these lines added below its prompt; empty lines are left out."""
    return state.replace(prompt="\n".join(line for line in (state.prompt, *lines) if line))


def _read_file(name: str, file: Path) -> str:
    try:
        data = read_file(Path(file))
        if len(data) > MAX_TEXT_BYTES:
            raise ValueError(
                f"{name}: {file} has {len(data)} bytes; a text has at most {MAX_TEXT_BYTES}"
            )
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise ValueError(f"{name}: {file} cannot be read as a UTF-8 text ({exc})") from exc
    return text.replace("\r\n", "\n").removesuffix("\n")


Frame = Literal["pixels", "0-1000"]


@dataclass(frozen=True)
class MultipleChoice(WithoutModel):
    """Adds the choices as lettered lines, and the instruction to answer with a letter.

    A question without choices, as in tables of mixed questions, gets the instruction `open`; if
    that is empty it is left out.

    `label_style` shows how the letter A is written: "(A)", "A.", "A)", "[A]" and so on. `{letters}`
    in `instruction` becomes the letters in that style; an empty instruction is left out. Choices
    that are images become views after the others, and their lines refer to them by number ("image
    3"). For another order of the choices, as in circular evaluation, put
    `prompting.controls.PermuteChoices` before this stage.
    """

    label_style: str = "(A)"
    instruction: str = "Answer with the letter of one choice: {letters}."
    open: str = "Answer with a single word, number or phrase."

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[^\w\s]*A[^\w\s]*", self.label_style):
            raise ValueError(
                'label_style must be the letter A with punctuation around it, such as "(A)", got'
                f" {self.label_style!r}"
            )
        unknown = set(re.findall(r"{.*?}", self.instruction)) - {"{letters}"}
        if unknown:
            raise ValueError(
                f"instruction has unknown fields {', '.join(sorted(unknown))}; only {{letters}}"
                " is filled in"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the choices and the instruction below its question."""
        sample = state.sample
        if not sample.choices:
            return add_lines(state, self.open)
        letters = [self.label_style.replace("A", letter) for letter in sample.letters]
        views, choices = show_choices(state)
        lines = [f"{letter} {text}" for letter, text in zip(letters, choices, strict=True)]
        instruction = self.instruction.replace("{letters}", join_names(letters, "or"))
        return add_lines(state.replace(views=views), *lines, instruction)


def show_choices(state: State) -> tuple[tuple[View, ...], list[str]]:
    """Return the views, with choices that are images after the others, and the choices as texts,
    which refer to these images by number."""
    views, texts = list(state.views), []
    for choice in state.sample.choices:
        if isinstance(choice, Picture):
            views.append(View(choice))
            choice = f"image {len(views)}"
        texts.append(choice)
    return tuple(views), texts


@dataclass(frozen=True)
class MarksAsText(WithoutModel):
    """Writes the coordinates of each mark into the prompt, for images on which no marks are drawn.

    `frame` "pixels" gives pixels of the view; "0-1000" gives thousandths of its width and height,
    on which several MLLMs are trained. Coordinates are rounded to whole units; boxes are given by
    their edges and masks by their bounding box. Images are counted from 1. A mark that no view
    shows is left out.
    """

    frame: Frame = "pixels"

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with a line in the prompt for each place of each mark."""
        lines = []
        for mark in state.sample.marks:
            for number, view in enumerate(state.views, 1):
                for place in view.to_view(mark):
                    numbers = self._format_coordinates(place, view.size)
                    lines.append(f"{place.label}: {numbers} in image {number}")
        unit = "pixels of the image"
        if self.frame == "0-1000":
            unit = "thousandths of the image's width and height"
        frame = (
            f"Marked places, in {unit}, with x to the right and y down from the top left corner:"
        )
        return add_lines(state, frame, *lines) if lines else state

    def _format_coordinates(self, place: Mark, size: tuple[int, int]) -> str:
        thousand = self.frame == "0-1000"
        across, down = (1000 / size[0], 1000 / size[1]) if thousand else (1.0, 1.0)
        if isinstance(place, Point):
            half = 0.5 if thousand else 0.0  # pixels are counted at centres, shares from the edge
            return f"x={round((place.x + half) * across)}, y={round((place.y + half) * down)}"
        x0, y0, x1, y1 = bounding_box(place)
        level = f"x from {round(x0 * across)} to {round(x1 * across)}"
        return f"{level}, y from {round(y0 * down)} to {round(y1 * down)}"


@dataclass(frozen=True)
class Verbatim(WithoutModel):
    """Uses the benchmark's own prompt word for word, as the sample's field `prompt` gives it.

    Raises ValueError for a sample without a prompt.
    """

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the benchmark's prompt instead of any other."""
        return state.replace(prompt=get_benchmark_prompt(state))


def get_benchmark_prompt(state: State) -> str:
    """Return the benchmark's own prompt. Raises ValueError for a sample that has none."""
    meta = state.sample.meta
    prompt = meta.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise ValueError(
            f"sample {state.sample.id} has no field `prompt` (fields:"
            f" {', '.join(sorted(meta)) or 'none'}); use"
            " prompting.wording.MultipleChoice instead"
        )
    return prompt


@dataclass(frozen=True)
class YesNo(Wording):
    """Asks for one of two words: yes or no, or another pair such as `words: [T, F]`.

    `{first}` and `{second}` in `instruction` become the words.
    """

    words: tuple[str, str] = ("yes", "no")
    instruction: Text = "Answer with {first} or {second}."

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with this instruction below its prompt."""
        first, second = self.words
        return add_lines(state, fill_in(self.instruction, first=first, second=second))


@dataclass(frozen=True)
class WholeNumber(Wording):
    """Asks for a whole number in digits."""

    instruction: Text = "Answer with one whole number, in digits."

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with this instruction below its prompt."""
        return add_lines(state, get_text(self.instruction))


@dataclass(frozen=True)
class Letters(WholeNumber):
    """Asks for the letters in the image, in order, and for nothing else."""

    instruction: Text = "Answer with the letters only, from left to right, as capitals."


@dataclass(frozen=True)
class System(WithoutModel):
    """Sets the system message of the conversation, replacing any other. Put it before the stages
    that ask."""

    text: Text

    def __post_init__(self) -> None:
        read_texts(self)
        if not get_text(self.text).strip():
            raise ValueError("text is empty; remove this stage to ask without a system message")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the system message first."""
        return set_system_message(state, get_text(self.text))


def set_system_message(state: State, text: str) -> State:
    """Return the state with this system message first, instead of any other."""
    others = [message for message in state.messages if message.role != "system"]
    return state.replace(messages=(Message("system", (text,)), *others))


REASONING_INSTRUCTIONS = {
    "plain": "Look closely, think step by step, and only then give your answer.",
    "steps": (
        """Work in four steps and write down each of them.
1. Understand: say what the question wants to know and what form its answer has.
2. Perceive: list for each image by itself everything that it shows, down to small things, with \
place, colour and shape.
3. Connect: compare what the lists have in common, thing by thing; say what stayed as it was and \
what did not.
4. Conclude: answer by what you found in the steps before."""
    ),
}


@dataclass(frozen=True)
class ChainOfThought(Wording):
    """Asks for reasoning before the answer.

    `form` "plain" is one sentence, like VLM2-Bench's CoT-normal; "steps" are the four steps of its
    CoT-special (understand, perceive, connect, conclude) in our words. `text` replaces both with
    your own text, or with the text of a file (`{file: NAME}`). For images with a grid,
    `prompting.grids.GridWords` has steps that use it.
    """

    text: Text = ""
    form: Literal["plain", "steps"] = "plain"

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with this instruction below its prompt."""
        return add_lines(state, get_text(self.text) or REASONING_INSTRUCTIONS[self.form])


@dataclass(frozen=True)
class AnswerLine(WithoutModel):
    """Asks for a last line with a `mark` such as "MY_ANSWER:" or "Final Answer:", followed only by
    the answer.

    In `words`, `{mark}` becomes the value of `mark`. `eval.readers.Marked` reads what follows it.
    """

    mark: str = "MY_ANSWER:"
    words: Text = 'End with a line of its own that begins with "{mark}" and then gives nothing but \
the answer.'

    def __post_init__(self) -> None:
        read_texts(self)
        if not self.mark.strip() or "\n" in self.mark:
            raise ValueError(
                f"mark must be the text before the answer, in one line, got {self.mark!r}"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with this instruction below its prompt."""
        return add_lines(state, fill_in(self.words, mark=self.mark))


@dataclass(frozen=True)
class JsonAnswer(Wording):
    """Asks for a JSON object with the answer and, unless `reasoning` is false, the reasoning before
    it.

    To let the server enforce the schema, name this stage as the `output` of the stage that asks,
    ideally by reference: `output: ${stages.SLOT}`. Samples with choices are answered with a letter.
    `{form}` in `words` becomes a description of the object.
    """

    reasoning: bool = True
    words: Text = "Reply with a JSON object and nothing else: {form}"

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with this instruction below its prompt."""
        letters = ", ".join(state.sample.letters)
        answer = f'"answer": {f"one of {letters}" if letters else "your answer"}, as a text'
        reasoning = '"reasoning": what you see and what follows from it, ' if self.reasoning else ""
        form = f"{{{reasoning}{answer}}}"
        return add_lines(state, fill_in(self.words, form=form))

    def make_schema(self, sample: Sample) -> Mapping[str, Any]:
        """Return the JSON schema of a reply. Strict servers need every field to be required and no
        others allowed."""
        answer: dict[str, Any] = {"type": "string"}
        if sample.letters:
            answer["enum"] = list(sample.letters)
        reasoning = {"reasoning": {"type": "string"}} if self.reasoning else {}
        properties = {**reasoning, "answer": answer}
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
