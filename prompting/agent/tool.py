"""Guide to writing a tool for an agent: a frozen dataclass with a description, its arguments, and
`__call__`.

A complete tool, in a file `my_tools.py` of your own:

    class DarkenArguments(ImageArguments):  # which image; BoxArguments, PointArguments: where on it
        factor: float = Field(2.0, gt=1, le=10, description="how many times darker")

    @dataclass(frozen=True)
    class Darken:
        description: str = "Shows an image darker."  # shown to the model
        arguments = DarkenArguments

        def __call__(self, state: State, arguments: DarkenArguments) -> ToolResult:
            view = state.views[arguments.image - 1]
            darker = np.asarray(view.pixels / arguments.factor, np.uint8)
            return ToolResult("darker", (view.with_pixels(darker),))

`tools: {darken: {use: my_tools.Darken}}` in an agent's settings and `--plugin my_tools.py` on the
command line add it to an agent. The model calls it by the name in that mapping. Arguments are
checked before the tool runs: fields of the types `ImageNumber`, `PointCoordinates` and
`BoxCoordinates` arrive as a valid image number and in pixels of its view.

A tool that applies an existing stage to an image needs a single call: `run_stage_on_image` (the
image counts as the sample's only one, as for markers and zooms) or `run_stage` (the sample's own
images stay available, as for specialists). A tool that keeps a state for one sample has a method
`open_session` (see the function of that name). Names that the room does not export can be imported
from this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from looktwice.pipelines.marks import Mark
from looktwice.pipelines.model import CallOptions, Message, Model, Tool
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.agent.argument_faults import describe_faults
from looktwice.prompting.coordinates import (
    NO_MODEL,
    UNIT_PHRASES,
    Frame,
    ShownImage,
    ToolError,
    make_view_state,
    map_to_sources,
)
from looktwice.prompting.wording.instructions import Text, WithTextFiles, get_text

COORDINATES_MARKER, IMAGE_NUMBER_MARKER = "coordinates", "image"

ImageNumber = Annotated[
    int,
    Field(ge=0, description="number of the image, from 1; 0 or left out is the last one"),
    IMAGE_NUMBER_MARKER,
]
PointCoordinates = Annotated[tuple[float, float], COORDINATES_MARKER]
"""A point (x, y) in the model's coordinate frame; the tool receives it in pixels of the view, where
(0, 0) is the centre of the first pixel."""
BoxCoordinates = Annotated[tuple[float, float, float, float], COORDINATES_MARKER]
"""A box (left, top, right, bottom) in the model's coordinate frame; the tool receives it in pixels
of the view, where (0, 0) is the corner of the first pixel."""


class Arguments(BaseModel):
    """The arguments of a tool, checked by pydantic; `{unit}` in a description becomes the agent's
    coordinate frame.

    The tool receives fields of the type `ImageNumber` as the number of an existing image, and
    fields of the types `PointCoordinates` and `BoxCoordinates` in pixels of its view.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ImageArguments(Arguments):
    """One of the images shown so far."""

    image: ImageNumber = 0


class PointArguments(ImageArguments):
    """A point on one of the images."""

    point: PointCoordinates = Field(description="x and y of the point, in {unit}")


class BoxArguments(ImageArguments):
    """A box on one of the images."""

    box: BoxCoordinates = Field(
        validation_alias=AliasChoices("box", "bbox_2d", "bbox"),
        description="left, top, right and bottom edge of the box, in {unit}",
    )


@dataclass(frozen=True, eq=False)
class ToolResult:
    """A tool's result: a text for the model, new images, or a request to the agent.

    `answer` ends the run with this final answer to the sample's question; `undo` takes back the
    last image that a tool has shown.
    """

    text: str = ""
    views: tuple[View, ...] = ()
    answer: str | None = None
    undo: bool = False


class AgentTool(Protocol):
    """A tool: a frozen dataclass. `state.views` holds all images shown so far, in order and at full
    size.

    `__call__` raises ToolError (or ValueError) with a message for the model if it cannot do what
    was asked.
    """

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Arguments]: ...

    def __call__(self, state: State, arguments: Any) -> ToolResult: ...


def open_session(tool: AgentTool, state: State, sessions: ExitStack) -> AgentTool:
    """Return the tool that runs the calls of one sample: the value of the context manager
    `tool.open_session(state)` if the tool has this method, otherwise the tool itself.

    A repeated call is run again if the tool has `keeps_state = True`.
    """
    begin = getattr(tool, "open_session", None)
    return sessions.enter_context(begin(state)) if begin is not None else tool


def describe_tool(name: str, tool: AgentTool, frame: Frame) -> Tool:
    """Return the description of the tool that the model gets, with its parameters as a JSON
    schema."""
    schema = _simplify_schema(tool.arguments.model_json_schema(), UNIT_PHRASES[frame])
    schema.pop("description", None)
    return Tool(name, tool.description.replace("{unit}", UNIT_PHRASES[frame]), schema)


class ParsedArguments(NamedTuple):
    """The arguments in pixels of the views, the arguments as the model gave them, and a remark for
    the model if a box was cut off at the edge of its image."""

    valid_arguments: Arguments
    given_arguments: dict[str, Any]
    remark: str


def parse_arguments(
    tool: AgentTool,
    data: Mapping[str, Any],
    shown: Sequence[ShownImage],
    withdrawn: Set[int],
    frame: Frame,
) -> ParsedArguments:
    """Check a call's arguments and convert its coordinates to pixels of the views. Raises
    ToolError."""
    try:
        given = tool.arguments.model_validate(dict(data))
    except ValidationError as exc:
        faults = describe_faults(tool.arguments, data, exc)
        raise ToolError(faults.replace("{unit}", UNIT_PHRASES[frame])[:500]) from exc
    available = [number for number in range(1, len(shown) + 1) if number not in withdrawn]
    fields, last = type(given).model_fields, max(available, default=0)
    places: dict[str, Any] = {
        name: getattr(given, name) or last
        for name in fields
        if IMAGE_NUMBER_MARKER in fields[name].metadata
    }
    for name, number in places.items():
        if number not in available:
            numbers = ", ".join(map(str, available)) or "none"
            raise ToolError(f"there is no image {getattr(given, name)}; there are {numbers}")
    on = places.get("image", len(shown))
    cuts = list[str]()
    for name, info in fields.items():
        if COORDINATES_MARKER in info.metadata and (numbers := getattr(given, name)) is not None:
            image = shown[on - 1]
            places[name] = image.locate(numbers, frame, f"image {on}")
            cuts.append(image.describe_cut(numbers, frame, f"image {on}"))
    remark = "; ".join(filter(None, cuts))
    return ParsedArguments(given.model_copy(update=places), given.model_dump(mode="json"), remark)


def run_stage(stage: Stage, state: State, *views: View) -> ToolResult:
    """Run a stage on `views`. The result holds the new views, notes and lines of the prompt. Raises
    ToolError if nothing is new.

    Specialists in the stage see the sample's own images, and their results are mapped into the
    views.
    """
    after, words = _run_and_describe(stage, state.replace(views=views))
    new = tuple(view for view in after.views if all(view is not old for old in views))
    if after.ended or not (new or after.prompt != state.prompt):
        raise ToolError(words or "there is nothing new to be seen")
    return ToolResult(words, new)


def run_stage_on_image(stage: Stage, state: State, view: View, *marks: Mark) -> ToolResult:
    """Run a stage on one view as if it were the sample's only image, with `marks` on it.

    Raises ToolError if nothing is new.
    """
    after, words = _run_and_describe(stage, make_view_state(state, view, *marks))
    new = tuple(
        map_to_sources(view, made) for made in after.views if made.picture is not view.picture
    )
    if after.ended or not new:
        raise ToolError(words or "it shows nothing but what is shown already")
    return ToolResult(words, new)


def _run_and_describe(stage: Stage, before: State) -> tuple[State, str]:
    """Run a stage. Return the state after it, and a text with the stage's notes, its reason for
    abstaining, and the lines that it added to the prompt."""
    after = stage(before, NO_MODEL)
    lines = [note for note in after.notes if note not in before.notes]
    lines += [after.reason] if after.ended else []
    return after, "\n".join([*lines, after.prompt.removeprefix(before.prompt).strip()]).strip()


def _simplify_schema(value: Any, unit: str) -> Any:
    """Return a schema without titles, with the unit filled in, and with arrays in the form that all
    servers accept."""
    if isinstance(value, dict):
        kept = {key: v for key, v in value.items() if not (key == "title" and isinstance(v, str))}
        if "prefixItems" in kept:
            kept["items"] = kept.pop("prefixItems")[0]
        return {key: _simplify_schema(v, unit) for key, v in kept.items()}
    if isinstance(value, list):
        return [_simplify_schema(inner, unit) for inner in value]
    return value.replace("{unit}", unit) if isinstance(value, str) else value


DESCRIPTION_PROMPT = (
    "Describe this image completely: every thing, its colour, shape, place, number and text."
)


class ResultControl(Protocol):
    """Changes a tool's result before the model gets it. Errors, answers and requests to undo stay
    unchanged."""

    def __call__(self, result: ToolResult, state: State) -> ToolResult: ...


@dataclass(frozen=True)
class BlackImages:
    """Replaces every image of a result with a black one of the same size; the call, the text and
    the number of tokens stay the same.

    This is the black crop of VisualNeedle (arXiv 2605.26380).
    """

    def __call__(self, result: ToolResult, state: State) -> ToolResult:
        """Return the result with black images."""
        black = tuple(view.with_pixels(np.zeros_like(view.pixels)) for view in result.views)
        return replace(result, views=black)


@dataclass(frozen=True)
class NoResult:
    """Returns only `text` to the model, so that it uses tools without seeing any result.

    arXiv 2606.02357 calls this control "format only".
    """

    text: str = "done"

    def __call__(self, result: ToolResult, state: State) -> ToolResult:
        """Return `text` instead of the tool's text and images."""
        return result if result.undo or result.answer is not None else ToolResult(self.text)


@dataclass(frozen=True)
class DescribedImages(WithTextFiles):
    """Replaces every image of a result with a description by the model `describer`, such as `{ref:
    chat}`.

    `prompt` asks for the description, and `options` limits it. A question that can be answered from
    these descriptions does not require looking at the images again.
    """

    describer: Model
    prompt: Text = DESCRIPTION_PROMPT
    options: CallOptions = field(default_factory=lambda: CallOptions(max_tokens=1024))

    def __call__(self, result: ToolResult, state: State) -> ToolResult:
        """Return the result with descriptions. Raises ModelError."""
        if not result.views:
            return result
        words = [result.text] if result.text else []
        for view in result.views:
            sent = (Message("user", (view, get_text(self.prompt))),)
            reply = self.describer(sent, draw=state.draw, options=self.options)
            words.append(strip_thoughts(reply.text).strip())
        return replace(result, text="\n".join(words), views=())
