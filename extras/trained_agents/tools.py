"""Tools and call formats for agents that were trained on other tools: a zoom with the argument
names of their training, image operations from a fixed vocabulary, and Python code that is parsed
for such operations and never run."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from PIL import Image, ImageEnhance
from pydantic import AliasChoices, Field, model_validator

from looktwice.pipelines import transforms
from looktwice.pipelines.marks import Box
from looktwice.pipelines.model import ToolCall
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.agent.call_formats import TaggedCalls
from looktwice.prompting.agent.tool import (
    COORDINATES_MARKER,
    BoxArguments,
    BoxCoordinates,
    ImageArguments,
    ImageNumber,
    ToolResult,
    run_stage_on_image,
)
from looktwice.prompting.agent.tools import ASKED_PLACE_LABEL, DEFAULT_CROP, MAX_MEGAPIXELS, Zoom
from looktwice.prompting.coordinates import ToolError
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.views.zoom import ZoomOnMarks

BOX_ALIASES = AliasChoices("bbox_2d", "box", "bbox")
SOURCE_PATTERN = re.compile(r"original_image|observation_(\d{1,6})")


class ZoomInArguments(BoxArguments):
    """A box as `bbox_2d`, a label, and the image: `img_idx` is its number from 0, or `source` its
    name, such as "original_image" or "observation_1". The default is the first image."""

    image: ImageNumber = Field(
        default_factory=lambda: 1,
        validation_alias=AliasChoices("img_idx", "image"),
        description="number of the image, from 0; left out, the first",
    )
    box: BoxCoordinates = Field(
        validation_alias=BOX_ALIASES,
        description="left, top, right and bottom edge of the box, in {unit}",
    )
    label: str = Field("", max_length=400, description="what is there")

    @model_validator(mode="before")
    @classmethod
    def _resolve_image_number(cls, data: dict[str, Any]) -> dict[str, Any]:
        given = dict(data)
        index, source = given.pop("img_idx", None), given.pop("source", None)
        if index is not None:
            if index not in range(1_000_000):
                raise ValueError(f"img_idx counts from 0, found {index!r}")
            given["image"] = int(index) + 1
        elif source is not None:
            if (name := SOURCE_PATTERN.fullmatch(str(source))) is None:
                raise ValueError(f"source is original_image or observation_1, found {source!r}")
            given["image"] = int(name[1] or 0) + 1
        return given


@dataclass(frozen=True)
class ZoomIn(Zoom):
    """`prompting.agent.Zoom` with the arguments that DeepEyes, Mini-o3 and Qwen3-VL were trained
    on: `bbox_2d`, `label`, and the image as `img_idx` or `source`.

    Without either, the first image is used. `observation_1` is the image after the first, because
    samples of Mini-o3 have one image.
    """

    arguments: ClassVar[type[BoxArguments]] = ZoomInArguments


def _enhance(view: View, amount: float, kind: Callable[[Image.Image], Any]) -> View:
    enhanced = kind(Image.fromarray(view.pixels)).enhance(amount)
    return view.with_pixels(np.asarray(enhanced))


def _rotate(view: View, degrees: float) -> View:
    width, height = transforms.compute_rotated_size(view.size, degrees)
    if width * height > MAX_MEGAPIXELS * 1e6:
        raise ToolError("the turned image would be too large; turn a part of it")
    return transforms.rotate(view, degrees)


OPERATIONS: Mapping[str, Callable[[View, float], View]] = {
    "rotate": _rotate,
    "mirror": lambda view, amount: transforms.flip(view),
    "flip": lambda view, amount: transforms.flip(transforms.rotate(view, 180)),
    "contrast": partial(_enhance, kind=ImageEnhance.Contrast),
    "brightness": partial(_enhance, kind=ImageEnhance.Brightness),
    "sharpness": partial(_enhance, kind=ImageEnhance.Sharpness),
    "color": partial(_enhance, kind=ImageEnhance.Color),
}
"""Functions of a view and an amount: degrees counter-clockwise, or a factor, where 1 changes
nothing."""
STEP_PATTERN = re.compile(r"(\w+)(?: (-?\d{1,4}(?:\.\d+)?))?")


class EditArguments(ImageArguments):
    """A part of an image, and the operations on it."""

    box: Annotated[tuple[float, float, float, float] | None, COORDINATES_MARKER] = Field(
        None,
        validation_alias=BOX_ALIASES,
        description="left, top, right and bottom edge of the part, in {unit}; without it, all",
    )
    steps: tuple[str, ...] = Field(
        (),
        max_length=8,
        description=(
            "done in this order: 'rotate DEGREES' counter-clockwise, 'mirror', 'flip' (upside"
            " down), 'contrast F', 'brightness F', 'sharpness F', 'color F', of which 1 changes"
            " nothing"
        ),
    )


@dataclass(frozen=True)
class Edit:
    """Image operations from a fixed vocabulary, `OPERATIONS`, on a part of an image. It covers the
    image operations of agents that write Python, without a sandbox. `crop` sets how the part is
    cropped."""

    description: str = "Shows a part of an image, or all of it, turned, mirrored or enhanced."
    crop: Crop = DEFAULT_CROP

    arguments = EditArguments

    def __call__(self, state: State, arguments: EditArguments) -> ToolResult:
        """Return the image after all steps. Raises ToolError."""
        view = before = state.views[arguments.image - 1]
        if arguments.box:
            box = Box(ASKED_PLACE_LABEL, *arguments.box)
            view = run_stage_on_image(ZoomOnMarks(crop=self.crop), state, view, box).views[0]
        for step in arguments.steps:
            words = STEP_PATTERN.fullmatch(step)
            if words is None or words[1] not in OPERATIONS:
                raise ToolError(f"{step!r} cannot be done; {', '.join(OPERATIONS)} can")
            amount = float(words[2] or 1)
            if words[1] != "rotate" and not 0 <= amount <= 20:
                raise ToolError(f"{step!r}: a factor is 0 to 20")
            view = OPERATIONS[words[1]](view, amount)
        if view is before:
            raise ToolError("nothing is asked for; give a box, or steps")
        return ToolResult("", (view,))


@dataclass(frozen=True)
class CodeCalls(TaggedCalls):
    """Python code in `<code>` tags, as Thyme writes it. The code is parsed for operations of
    Pillow, never run, and turned into one call of `tool`, a `prompting.agent.Edit`.

    It may begin with one crop, whose box is given as numbers or as names that hold numbers.
    `rotate`, `transpose`, `ImageOps.mirror`, `flip` and `ImageEnhance` may follow. Everything else
    is ignored: results have the size that the agent's `fit` gives them. Code without an operation
    is refused.
    """

    tag: str = "code"
    results: str = "sandbox_output"
    tool: str = "edit"

    def parse(self, name: str, match: re.Match[str]) -> ToolCall:
        """Translate the code into a call."""
        code = match[1].strip().removeprefix("```python").removesuffix("```")
        try:
            arguments = read_code(code)
            if not any(arguments.values()):
                raise ValueError("no operation in it")
            written = json.dumps(arguments)
        except PARSING_ERRORS as exc:
            why = str(exc) or type(exc).__name__
            written = json.dumps({"steps": [f"code (it is read, not run: {why[:80]})"]})
        return ToolCall(name, self.tool, written)


PARSING_ERRORS = SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError
"""The exceptions that `ast` raises for hostile code, such as 100,000 minus signs before a number.
"""
TRANSPOSE_OPERATIONS = {
    "FLIP_LEFT_RIGHT": "mirror",
    "FLIP_TOP_BOTTOM": "flip",
    "ROTATE_90": "rotate 90",
    "ROTATE_180": "rotate 180",
    "ROTATE_270": "rotate 270",
}


def read_code(code: str) -> dict[str, Any]:
    """Translate Python code into arguments of `Edit` with the same effect. Raises SyntaxError, and
    ValueError for an operation outside the vocabulary."""
    numbers, steps, box, enhancer = dict[str, Any](), list[str](), None, ""
    nodes = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Assign | ast.Call))
    for node in sorted(nodes, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0)):
        if isinstance(node, ast.Assign):
            numbers |= _read_assignment(node, numbers)
            continue
        verb = ast.unparse(node.func).rpartition(".")[2]
        first = next(iter([*node.args, *(word.value for word in node.keywords)]), None)
        if verb == "crop":
            if box or steps:
                raise ValueError("one crop, before all else")
            box = _read_value(first, numbers)
        elif verb.istitle() and verb.lower() in OPERATIONS:
            enhancer = verb.lower()
        elif verb in ("rotate", "enhance"):
            steps.append(
                f"{enhancer if verb == 'enhance' else verb} {_read_value(first, numbers):g}"
            )
        elif verb == "transpose" and first:
            steps.append(TRANSPOSE_OPERATIONS.get(ast.unparse(first).rpartition(".")[2], verb))
        elif verb in ("mirror", "flip"):
            steps.append(verb)
    return {"box": box, "steps": steps}


def _read_assignment(node: ast.Assign, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constants that an assignment binds, by name."""
    target = node.targets[0]
    with suppress(ValueError, TypeError):
        value = _read_value(node.value, numbers)
        if isinstance(target, ast.Tuple) and isinstance(value, list):
            return dict(zip(map(ast.unparse, target.elts), value, strict=False))
        return {ast.unparse(target): value}
    return {}


def _read_value(node: ast.expr | None, numbers: Mapping[str, Any]) -> Any:
    """Return a constant, or a list of constants. Raises ValueError for an expression that would
    have to be evaluated."""
    if isinstance(node, ast.Tuple | ast.List):
        return [_read_value(inner, numbers) for inner in node.elts]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tuple", "list", "int", "float"):
        return _read_value(node.args[0] if node.args else None, numbers)
    if isinstance(node, ast.Name) and node.id in numbers:
        return numbers[node.id]
    if node is None:
        raise ValueError("an argument is missing")
    return ast.literal_eval(node)
