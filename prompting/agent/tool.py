"""What a tool of an agent is: a small frozen dataclass that says what it does, what it takes, and does it.

A tool of your own is such a class in a file of your own:

    class Where(ImageArguments):
        spot: Place = Field(description="x and y of the spot, in {unit}")

    @dataclass(frozen=True)
    class Darken:
        description: str = "Shows an image darker."
        arguments: ClassVar[type[Arguments]] = Where

        def __call__(self, state: State, arguments: Where) -> ToolResult:
            view = state.views[arguments.image - 1]
            return ToolResult("darker", (view.drawn(view.pixels // 2),))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from looktwice.pipelines.marks import Mark
from looktwice.pipelines.model import Tool
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.coordinates import NO_MODEL, UNITS, Frame, ShownImage, ToolError, map_to_sources, state_of_view

MOST_FAULTS = 3  # faults that are told at once
COORDINATES, IMAGE = "coordinates", "image"

ImageNumber = Annotated[
    int, Field(ge=0, description="number of the image, from 1; 0 or left out is the last one"), IMAGE
]
PointCoordinates = Annotated[tuple[float, float], COORDINATES]
"""A point (x, y) in the frame that the model speaks; the tool finds it in pixel centres of the view."""
BoxCoordinates = Annotated[tuple[float, float, float, float], COORDINATES]
"""A box (left, top, right, bottom) in the frame that the model speaks; the tool finds it in edges of the view."""


class Arguments(BaseModel):
    """What a tool takes, as pydantic checks it; `{unit}` in a description becomes the agent's frame.

    Fields of the types `Place`, `Box4` and `Image` reach the tool in pixels of the view and as a number that is there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ImageArguments(Arguments):
    """One of the images that were shown."""

    image: ImageNumber = 0


class BoxArguments(ImageArguments):
    """A box on one of the images."""

    box: BoxCoordinates = Field(
        validation_alias=AliasChoices("box", "bbox_2d", "bbox"),
        description="left, top, right and bottom edge of the box, in {unit}",
    )


@dataclass(frozen=True, eq=False)
class ToolResult:
    """What a tool gives back: words, new images, or what ends or takes back a look.

    `answer` is the final answer to the sample's question; `undo` takes the last image that a look brought back.
    """

    text: str = ""
    views: tuple[View, ...] = ()
    answer: str | None = None
    undo: bool = False


class AgentTool(Protocol):
    """A frozen dataclass. `state.views` are all images shown so far, in their order and at their full size.

    Raises ToolError (or ValueError) with words for the model where it cannot do what it was asked for.
    """

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Arguments]: ...

    def __call__(self, state: State, arguments: Any) -> ToolResult: ...


AnyArguments = TypeVar("AnyArguments", bound=Arguments)


def describe_tool(name: str, tool: AgentTool, frame: Frame) -> Tool:
    """The tool as a server or a prompt is told of it, its parameters as a JSON schema."""
    schema = _simplify_schema(tool.arguments.model_json_schema(), UNITS[frame])
    schema.pop("description", None)
    return Tool(name, tool.description.replace("{unit}", UNITS[frame]), schema)


def parse_arguments(
    tool: AgentTool, data: Mapping[str, Any], shown: Sequence[ShownImage], gone: frozenset[int], frame: Frame
) -> tuple[Arguments, dict[str, Any]]:
    """The arguments for the tool, in pixels of its views, and as the model gave them. Raises ToolError."""
    try:
        given = tool.arguments.model_validate(dict(data))
    except ValidationError as exc:
        faults = exc.errors(include_url=False, include_context=False, include_input=False)
        said = [f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}" for fault in faults]
        raise ToolError("; ".join(said[:MOST_FAULTS])[:500]) from exc
    return _to_view_pixels(given, shown, gone, frame), given.model_dump(mode="json")


def run_stage(stage: Stage, state: State, *views: View) -> ToolResult:
    """What a stage makes of some of the views: those that are new, and what it says. Raises ToolError for nothing.

    Specialists look at the sample's own images, and what they find rides the map into the views.
    """
    before = state.replace(views=views)
    after = stage(before, NO_MODEL)
    words = stage_messages(before, after)
    new = tuple(view for view in after.views if all(view is not old for old in views))
    if after.ended or not new:
        raise ToolError(words or "there is nothing new to be seen")
    return ToolResult(words, new)


def run_stage_on_image(stage: Stage, state: State, view: View, *marks: Mark) -> ToolResult:
    """What a stage makes of one view as if it were the only image, with these marks in its pixels. Raises ToolError."""
    before = state_of_view(state, view, *marks)
    after = stage(before, NO_MODEL)
    words = stage_messages(before, after)
    new = tuple(map_to_sources(view, made) for made in after.views if made.picture is not view.picture)
    if after.ended or not new:
        raise ToolError(words or "it shows nothing but what is shown already")
    return ToolResult(words, new)


def stage_messages(before: State, after: State) -> str:
    """What a stage said: its notes, why it abstained, and the lines that it added to the prompt."""
    lines = [note for note in after.notes if note not in before.notes]
    lines += [after.reason] if after.ended else []
    return "\n".join([*lines, after.prompt.removeprefix(before.prompt).strip()]).strip()


def _to_view_pixels(
    given: AnyArguments, shown: Sequence[ShownImage], gone: frozenset[int], frame: Frame
) -> AnyArguments:
    numbers: dict[str, Any] = {}
    for name, info in type(given).model_fields.items():
        if IMAGE in info.metadata:
            numbers[name] = _image_number(getattr(given, name), len(shown), gone)
    on = numbers.get("image", len(shown))
    places = {
        name: shown[on - 1].place(getattr(given, name), frame, f"image {on}")
        for name, info in type(given).model_fields.items()
        if COORDINATES in info.metadata
    }
    return given.model_copy(update=numbers | places)


def _image_number(asked: int, count: int, gone: frozenset[int]) -> int:
    there = [number for number in range(1, count + 1) if number not in gone]
    number = asked or (there[-1] if there else 0)
    if number not in there:
        raise ToolError(f"there is no image {asked}; there are {', '.join(map(str, there)) or 'none'}")
    return number


def _simplify_schema(value: Any, unit: str) -> Any:
    """A schema without made-up titles, with the unit filled in, and with arrays as every server knows them."""
    if isinstance(value, dict):
        kept = {key: v for key, v in value.items() if not (key == "title" and isinstance(v, str))}
        if "prefixItems" in kept:
            kept["items"] = kept.pop("prefixItems")[0]
        return {key: _simplify_schema(v, unit) for key, v in kept.items()}
    if isinstance(value, list):
        return [_simplify_schema(inner, unit) for inner in value]
    return value.replace("{unit}", unit) if isinstance(value, str) else value
