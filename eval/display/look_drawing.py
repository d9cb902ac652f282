"""Draws the place that an agent asked for in a tool call on the image that it was shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.model import Message
from looktwice.pipelines.view import View
from looktwice.prompting.agent.agent import Agent
from looktwice.prompting.agent.episode import Look
from looktwice.prompting.agent.tool import COORDINATES
from looktwice.prompting.coordinates import ShownImage, ToolError
from looktwice.prompting.markers.points import Circles
from looktwice.prompting.markers.regions import Rectangles

IMAGE = re.compile(r"Image (\d+)(?: \(.*\))?:")
RED = "#e02020"


def numbered_images(messages: Sequence[Message]) -> dict[int, View]:
    """The images of a conversation by the numbers that an agent gives them."""
    found: dict[int, View] = {}
    for message in messages:
        for before, part in zip(message.parts, message.parts[1:], strict=False):
            name = IMAGE.fullmatch(before) if isinstance(before, str) else None
            if name and isinstance(part, View):
                found[int(name[1])] = part
    return found


def draw_look(look: Look, agents: Sequence[Agent], images: Mapping[int, View]) -> View | None:
    """The image with what the call asked for in red; None where the call names no place on an
    image."""
    agent = next((agent for agent in agents if look.tool in agent.tools), None)
    given = look.arguments if isinstance(look.arguments, Mapping) else {}
    view = images.get(given.get("image") or max(images, default=0))
    if agent is None or view is None or look.outcome == "refused":
        return None
    named = agent.tools[look.tool].arguments.model_fields.items()
    places = [given[name] for name, info in named if COORDINATES in info.metadata and name in given]
    try:
        marks = [
            _mark(ShownImage(view, view).place(place, agent.coordinates, "the image"))
            for place in places
        ]
    except ToolError:  # a note that does not fit this image
        return None
    drawn = Rectangles(color=RED).draw(View.of(view.picture), marks)
    return Circles(color=RED).draw(drawn, marks) if marks else None


def _mark(place: Sequence[float]) -> Mark:
    if len(place) == 2:
        return Point("", place[0], place[1])
    return Box("", place[0], place[1], place[2], place[3])
