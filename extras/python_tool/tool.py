"""An agent's tool that runs Python on the images; each call is a piece of code."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field

from looktwice.extras.python_tool.bubblewrap import Bubblewrap
from looktwice.extras.python_tool.sandbox import PythonSandbox, open_live_session
from looktwice.pipelines.geometry import Affine
from looktwice.pipelines.model import Message, Reply
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.agent.tool import Arguments, ToolResult
from looktwice.prompting.coordinates import ToolError

__all__ = ["RunPython"]

TOOL_DESCRIPTION = (
    "Runs Python on the images. The variables image_1, image_2, ... are Pillow images at full size"
    " (read image_1.size), also saved as image_1.png and so on; numpy, cv2, scipy and matplotlib"
    " can be imported where installed. print() returns text. show(picture) shows you a picture (a"
    " Pillow image, an array or a figure) as a new image; image files that you save are shown too."
    " Variables stay until you answer. There is no network, and no other file."
)


class PythonArguments(Arguments):
    """A piece of code."""

    code: str = Field(max_length=20_000, description="the Python code to run")


@dataclass(frozen=True)
class RunPython:
    """A tool that runs code of the model in a sandbox with the images, and returns its output, its
    error and the pictures that it shows.

    Variables stay for one sample. The part of an image that a picture shows is known if the picture
    was made by Pillow's `crop`, `resize`, `thumbnail` or `transpose`, or if the code names the
    part: `show(picture, image=1, box=(left, top, right, bottom))`.

    Every call is recorded with its result, so a replay runs no code. A configuration that names
    this class is built only once you have allowed `python-code`.
    """

    sandbox: PythonSandbox = field(default_factory=Bubblewrap)
    description: str = TOOL_DESCRIPTION

    arguments = PythonArguments
    permission: ClassVar[tuple[str, str]] = (
        "python-code",
        "runs Python code that a model writes, in a sandbox",
    )

    def __call__(self, state: State, arguments: PythonArguments) -> ToolResult:
        """Run code in a new namespace. Raises ToolError and ModelError."""
        with self.open_session(state) as session:
            return session(state, arguments)

    @contextmanager
    def open_session(self, state: State) -> Iterator[PythonSession]:
        """Yield the tool for one sample, whose variables stay until the end of the context."""
        with open_live_session():
            yield PythonSession(self.sandbox, self.description)


@dataclass(eq=False)
class PythonSession:
    """The tool for one sample: `cells` are the pieces of code since the variables were last lost,
    each with the images added before it."""

    sandbox: PythonSandbox
    description: str
    cells: list[Message] = field(default_factory=list)

    arguments = PythonArguments
    keeps_state: ClassVar[bool] = True

    def __call__(self, state: State, arguments: PythonArguments) -> ToolResult:
        """Run a piece of code after the earlier ones. Raises ToolError and ModelError."""
        if not arguments.code.strip():
            raise ToolError("there is no code to run")
        known = sum(len(cell.views) for cell in self.cells)
        self.cells.append(Message("user", (*state.views[known:], arguments.code)))
        reply = self.sandbox(tuple(self.cells), draw=state.draw)
        if reply.attached.get("restarted"):
            self.cells.clear()
        return read_result(reply, state)


def read_result(reply: Reply, state: State) -> ToolResult:
    """Convert a recorded or new reply of a sandbox to text and views."""
    views, lines = list[View](), [reply.text]
    for shown in reply.attached.get("pictures", ()):
        try:
            picture = Picture.encoded(base64.b64decode(shown["png"]), "picture of the code")
            views.append(
                _make_view(picture, shown, state) if picture.pixels.size else View(picture)
            )
        except (PictureError, binascii.Error, ValueError, KeyError, TypeError) as exc:
            lines.append(f"a picture cannot be read: {exc}")
    return ToolResult("\n".join(lines), tuple(views))


def _make_view(picture: Picture, shown: Mapping[str, Any], state: State) -> View:
    """Return the view of a picture, with the map to the sample's image that it shows, if known."""
    number, numbers = shown.get("image", 0), shown.get("map")
    if numbers is None or not 1 <= number <= len(state.views):
        return View(picture)
    affine = Affine(*map(float, numbers))
    if not 1e-4 < affine.scale < 1e4:
        return View(picture)
    source: View = state.views[number - 1]
    return source.transform(picture, affine)
