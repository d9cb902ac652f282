"""What the page of one sample shows of an arm: its steps with their views, its conversation and
looks, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

from looktwice.pipelines.config.spec import find_settings
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.model import Message, Reply, canonical, message_json
from looktwice.pipelines.notebook import thumbnail
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.state import Call, State, Step
from looktwice.pipelines.view import View
from looktwice.prompting.agent.agent import Agent
from looktwice.prompting.agent.episode import Look, read_looks
from looktwice.prompting.agent.tool import COORDINATES
from looktwice.prompting.coordinates import ShownImage, ToolError
from looktwice.prompting.markers.points import Circles
from looktwice.prompting.markers.regions import Rectangles


@dataclass(frozen=True, eq=False)
class Shown:
    """One arm on the sample: its label, its state behind the stages, why a stage failed, what
    became of its answer.

    `stages` are those that the state went through, and tell in which coordinates an agent's looks
    are; `system` is the system text of its model.
    """

    label: str
    state: State
    error: str = ""
    outcome: str = ""
    stages: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""


@dataclass(frozen=True)
class ViewFigure:
    """A view on the page: its picture as a data URL, or none where it stands on the page already,
    or a fault."""

    caption: str
    image: str = ""
    fault: str = ""


@dataclass(frozen=True)
class LookFigure:
    """A tool call of an agent in words, and the place that it asked for, drawn on the image."""

    words: str
    drawn: ViewFigure | None = None


@dataclass(frozen=True)
class TurnFigure:
    """A turn: texts and pictures in their order."""

    role: str
    parts: Sequence[str | ViewFigure]


@dataclass(frozen=True)
class CallFigure:
    """A call: how many turns of an earlier call it sent again, the new ones, what came back, and
    the looks in it."""

    repeated: int
    turns: Sequence[TurnFigure]
    reply: Reply | None
    error: str
    looks: Sequence[LookFigure]


@dataclass(frozen=True)
class StepFigure:
    """A stage: its slot, its time, its calls, and the views after it, None where it left them as
    they were."""

    slot: str
    milliseconds: float
    calls: Sequence[CallFigure]
    views: Sequence[ViewFigure] | None


def changed_views(state: State, step: int) -> tuple[View, ...] | None:
    """The views after a stage, None if the stage did not change them."""
    views, before = state.trace[step].views, state.trace[step - 1].views if step else ()
    same = len(before) == len(views) and all(a is b for a, b in zip(before, views, strict=True))
    return None if same else views


def looks_by_call(state: State) -> dict[int, list[Look]]:
    """The looks of agents by the number of the call whose reply asked for them."""
    looks: dict[int, list[Look]] = {}
    for look in read_looks(state.notes):
        looks.setdefault(look.call, []).append(look)
    return looks


def caption(number: int, view: View) -> str:
    """The size, bytes and hash of a view as it is sent."""
    try:
        payload = view.picture.payload
    except PictureError as exc:
        return f"view {number}: {exc}"
    width, height = view.size
    encoding = f", re-encoded: {payload.note}" if payload.note else ", the original bytes"
    kind = payload.media_type.removeprefix("image/")
    return (
        f"view {number}: {width}x{height} px, {len(payload.data)} bytes {kind}, sha256"
        f" {payload.sha[:12]}{encoding}"
    )


@dataclass(eq=False)
class StepFigures:
    """Makes the figures of an arm in order; a picture is put on the page once, and named where it
    comes again."""

    shown: Shown
    longest: int
    known: set[str] = field(default_factory=set)
    earlier: list[list[str]] = field(default_factory=list)

    @cached_property
    def looks(self) -> dict[int, list[Look]]:
        """The looks of agents by the number of the call whose reply asked for them."""
        return looks_by_call(self.shown.state)

    def __iter__(self) -> Iterator[StepFigure]:
        for number, step in enumerate(self.shown.state.trace):
            calls = self._calls(step)
            views = changed_views(self.shown.state, number)
            shown = [self._figure(caption(n, view), view) for n, view in enumerate(views or (), 1)]
            yield StepFigure(
                step.slot, step.seconds * 1000, calls, None if views is None else shown
            )

    def _calls(self, step: Step) -> list[CallFigure]:
        agents, images = (
            list(find_settings(self.shown.stages.get(step.slot), Agent)),
            dict[int, View](),
        )
        figures = []
        for call in step.calls:
            images |= numbered_images(call.messages)
            asked = self.looks.get(len(self.earlier), ())
            figures.append(
                self._call(
                    call, [self._look(look, draw_look(look, agents, images)) for look in asked]
                )
            )
        return figures

    def _call(self, call: Call, looks: Sequence[LookFigure]) -> CallFigure:
        """The turns that no earlier call has sent, so that a long conversation is shown once."""
        turns = [_fingerprint(message) for message in call.messages]
        repeated = max((_count_alike(turns, before) for before in self.earlier), default=0)
        self.earlier.append(
            [*turns, *([_fingerprint(call.reply.as_message())] if call.reply else [])]
        )
        new = [
            TurnFigure(message.role, self._parts(message)) for message in call.messages[repeated:]
        ]
        return CallFigure(repeated, new, call.reply, call.error, looks)

    def _parts(self, message: Message) -> list[str | ViewFigure]:
        return [
            part if isinstance(part, str) else self._figure("image", part) for part in message.parts
        ]

    def _look(self, look: Look, drawn: View | None) -> LookFigure:
        return LookFigure(
            look.words, self._figure("asked for", drawn) if drawn is not None else None
        )

    def _figure(self, name: str, view: View) -> ViewFigure:
        try:
            sha = view.picture.payload.sha
            if sha in self.known:
                return ViewFigure(f"{name.partition(',')[0]}, as above: sha256 {sha[:12]}")
            image = thumbnail(view.picture, self.longest)
        except PictureError as exc:
            return ViewFigure(name, fault=str(exc))
        self.known.add(sha)
        return ViewFigure(name, image)


def _fingerprint(message: Message) -> str:
    try:
        return canonical(message_json(message))
    except PictureError:  # a picture that cannot be sent is shown with its fault each time
        return str(id(message))


def _count_alike(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


IMAGE = re.compile(r"Image (\d+)(?: \(.*\))?:")
RED = "#e02020"


def numbered_images(messages: Sequence[Message]) -> dict[int, View]:
    """The images of a conversation by the numbers that an agent gives them."""
    images: dict[int, View] = {}
    for message in messages:
        for before, part in zip(message.parts, message.parts[1:], strict=False):
            name = IMAGE.fullmatch(before) if isinstance(before, str) else None
            if name and isinstance(part, View):
                images[int(name[1])] = part
    return images


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
        shown = ShownImage(view, view)
        marks = [_mark(shown.place(place, agent.coordinates, "the image")) for place in places]
    except ToolError:  # a note that does not fit this image
        return None
    drawn = Rectangles(color=RED).draw(View.of(view.picture), marks)
    return Circles(color=RED).draw(drawn, marks) if marks else None


def _mark(place: Sequence[float]) -> Mark:
    if len(place) == 2:
        return Point("", place[0], place[1])
    return Box("", place[0], place[1], place[2], place[3])
