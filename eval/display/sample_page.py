"""Shows one sample as a page or as lines: the views after each stage, the conversation, looks (tool
calls), and the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from looktwice.eval.display.printable import load_template
from looktwice.pipelines.config.spec import find_settings
from looktwice.pipelines.counted import count_common_prefix, format_times
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.model import Message, make_message_json
from looktwice.pipelines.picture import PictureError, make_thumbnail_url
from looktwice.pipelines.state import Call, State, Step
from looktwice.pipelines.view import View
from looktwice.prompting.agent.agent import Agent
from looktwice.prompting.agent.looks import Look, read_looks
from looktwice.prompting.agent.tool import COORDINATES_MARKER
from looktwice.prompting.coordinates import ShownImage, ToolError
from looktwice.prompting.markers.points import Circles
from looktwice.prompting.markers.regions import Rectangles

IMAGE_LABEL_PATTERN = re.compile(r"Image (\d+)(?: \(.*\))?:")
MARK_COLOR = "#e02020"
READ_LATER_OUTCOME = "read at scoring"
MAX_PICTURE_SIDE = 420  # pixels of a side of a picture


@dataclass(frozen=True, eq=False)
class ShownArm:
    """One arm on the sample: its label, its state after the stages, the error of a stage that
    failed, and the outcome of its answer.

    `stages` are the stages that the state passed through, which define the coordinates of an
    agent's looks; `system` is the system message of its model.
    """

    label: str
    state: State
    error: str
    outcome: str = ""
    stages: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""

    @property
    def remarks(self) -> list[str]:
        """The notes other than looks, which are shown with their calls."""
        return [note for note in self.state.notes if not note.startswith("look {")]

    @property
    def answer(self) -> str:
        """The answer of the stages in the sample's own letters, or why there is none; empty if a
        reader extracts it."""
        state = self.state
        if state.answer is not None:
            return state.letters.get(state.answer, state.answer)
        is_read_later = state.reply and not self.outcome and not self.error
        return state.reason or (READ_LATER_OUTCOME if is_read_later else "")


class Figure(NamedTuple):
    """A view on the page: its caption, and its picture as a data URL, which is empty if the page
    already shows it or `fault` explains why it cannot be shown."""

    caption: str
    image: str = ""
    fault: str = ""


class ShownCall(NamedTuple):
    """A call: the number of turns repeated from an earlier call, its new turns with their texts and
    pictures, and the looks in its reply, each with the region requested."""

    call: Call
    repeated_count: int
    turns: Sequence[tuple[str, Sequence[str | Figure]]]
    looks: Sequence[tuple[str, Figure | None]]


class ShownStep(NamedTuple):
    """A stage: its calls, and the views after it, or None if it left them unchanged."""

    step: Step
    calls: Sequence[ShownCall]
    views: Sequence[Figure] | None


@dataclass(eq=False)
class StepFigures:
    """An iterable over an arm's stages with their figures; each picture is embedded once and later
    referred to by its hash.

    `max_side` is the longest side of a picture in pixels; 0 gives captions only.
    """

    shown_arm: ShownArm
    max_side: int
    shown_hashes: set[str] = field(default_factory=set)
    earlier_turns: list[list[str]] = field(default_factory=list)

    def __iter__(self) -> Iterator[ShownStep]:
        before: Sequence[View] = ()
        for step in self.shown_arm.state.trace:
            agents = list(find_settings(self.shown_arm.stages.get(step.slot), Agent))
            images, calls = dict[int, View](), list[ShownCall]()
            for call in step.calls:
                images |= number_images(call.messages)
                calls.append(self._show_call(call, agents, images))
            views = None
            if list(map(id, step.views)) != list(map(id, before)):
                views = [
                    self._make_figure(describe_view(n, v), v) for n, v in enumerate(step.views, 1)
                ]
            yield ShownStep(step, calls, views)
            before = step.views

    def _show_call(
        self, call: Call, agents: Sequence[Agent], images: Mapping[int, View]
    ) -> ShownCall:
        """Return a call with only the turns that no earlier call sent."""
        looks = []
        for look in read_looks(self.shown_arm.state.notes):
            if look.call == len(self.earlier_turns):
                drawn = draw_look(look, agents, images) if self.max_side else None
                looks.append(
                    (look.summary, self._make_figure("requested", drawn) if drawn else None)
                )
        turns = [*map(_fingerprint, call.messages)]
        repeated = max((count_common_prefix(turns, sent) for sent in self.earlier_turns), default=0)
        self.earlier_turns.append(
            turns + ([_fingerprint(call.reply.as_message())] if call.reply else [])
        )
        new = []
        for message in call.messages[repeated:]:
            parts = [
                p if isinstance(p, str) else self._make_figure(f"image{format_times(p.seconds)}", p)
                for p in message.parts
            ]
            new.append((message.role, parts))
        return ShownCall(call, repeated, new, looks)

    def _make_figure(self, name: str, view: View) -> Figure:
        if not self.max_side:
            return Figure(name)
        try:
            sha = view.picture.payload.sha
            if sha in self.shown_hashes:
                return Figure(f"{name.partition(',')[0]}, as above: sha256 {sha[:12]}")
            image = make_thumbnail_url(view.picture, self.max_side)
        except PictureError as exc:
            return Figure(name, fault=str(exc))
        self.shown_hashes.add(sha)
        return Figure(name, image)


def render_sample(
    title: str, question: str, key: str | None, shown: Sequence[ShownArm], studio: str = ""
) -> str:
    """Render a self-contained HTML page with a section for each arm; `studio` is the command that
    opens the sample in the studio."""
    sections = [(arm, StepFigures(arm, MAX_PICTURE_SIDE)) for arm in shown]
    html = load_template("sample.html.j2")
    head = {"title": title, "question": question, "key": key, "studio": studio}
    return str(html.render(**head, sections=sections))


def format_arm(shown: ShownArm) -> list[str]:
    """Format an arm's section of the page as lines of text: what each stage changed, replies,
    looks, and the answer."""
    lines, systems, has_looked = list[str](), [shown.system], False
    for step, calls, views in StepFigures(shown, 0):
        plural = "s" * (len(calls) != 1)
        lines.append(f"  {step.slot}: {step.seconds * 1000:.1f} ms, {len(calls)} call{plural}")
        lines += [f"    {view.caption}" for view in views or ()]
        for call, _, _, looks in calls:
            systems += [message.text for message in call.messages if message.role == "system"]
            # after a look, print the tool's result
            new = list(takewhile(lambda m: m.role != "assistant", reversed(call.messages)))
            for message in reversed(new) if has_looked else ():
                lines += [f"    result: {message.text[:300]!r}"] if message.text else []
            reply = call.reply and f"reply: {call.reply.text[:300]!r}"
            lines.append(f"    {reply or f'no reply: {call.error[:300]}'}")
            lines += [f"    {look}" for look, _ in looks]
            has_looked = bool(looks)
    lines += [f"  note: {note}" for note in shown.remarks]
    lines += [f"  system: {text!r}" for text in dict.fromkeys(systems) if text]
    lines += _describe_end(shown)
    return [*lines, f"  {shown.outcome}"] if shown.outcome else lines


def format_outcome(shown: ShownArm) -> Iterator[str]:
    """Yield the result of the stages: the views, the prompt and the answer."""
    for number, view in enumerate(shown.state.views, 1):
        yield f"  {describe_view(number, view).partition(', sha256')[0]}"
    yield from (f"  note: {note}" for note in shown.remarks)
    yield from (line for line in _describe_end(shown) if line != f"  answer: {READ_LATER_OUTCOME}")


def _describe_end(shown: ShownArm) -> Iterator[str]:
    yield f"  prompt: {shown.state.prompt!r}"
    if shown.answer:
        yield f"  answer: {shown.answer}"
    if shown.error and not shown.outcome.startswith("FAILED"):
        yield f"  FAILED: {shown.error.splitlines()[0]}"


def describe_view(number: int, view: View) -> str:
    """Format the size, bytes and hash of a view as it is sent."""
    try:
        payload = view.picture.payload
    except PictureError as exc:
        return f"view {number}: {exc}"
    width, height = view.size
    encoding = f", re-encoded: {payload.note}" if payload.note else ", the original bytes"
    kind = payload.media_type.removeprefix("image/")
    return (
        f"view {number}{format_times(view.seconds)}: {width}x{height} px,"
        f" {len(payload.data)} bytes {kind}, sha256"
        f" {payload.sha[:12]}{encoding}"
    )


def _fingerprint(message: Message) -> str:
    try:
        return write_canonical(make_message_json(message))
    except PictureError:  # a picture that cannot be sent is shown with its fault each time
        return str(id(message))


def number_images(messages: Sequence[Message]) -> dict[int, View]:
    """Return the images of a conversation by the number in their label ("Image 2:")."""
    images: dict[int, View] = {}
    for message in messages:
        for before, part in zip(message.parts, message.parts[1:], strict=False):
            name = IMAGE_LABEL_PATTERN.fullmatch(before) if isinstance(before, str) else None
            if name and isinstance(part, View):
                images[int(name[1])] = part
    return images


def draw_look(look: Look, agents: Sequence[Agent], images: Mapping[int, View]) -> View | None:
    """Return the image with the requested region in red; None if the call names no region of an
    image."""
    agent = next((agent for agent in agents if look.tool in agent.tools), None)
    given = look.arguments if isinstance(look.arguments, Mapping) else {}
    view = images.get(given.get("image") or max(images, default=0))
    if agent is None or view is None or look.outcome == "refused":
        return None
    marks = list[Mark]()
    for name, info in agent.tools[look.tool].arguments.model_fields.items():
        if COORDINATES_MARKER not in info.metadata or name not in given:
            continue
        try:
            place = ShownImage(view, view).locate(given[name], agent.coordinates, "the image")
        except ToolError:  # a note that does not fit this image
            return None
        x, y, *corner = place
        marks.append(Box("", x, y, corner[0], corner[1]) if corner else Point("", x, y))
    drawn = Rectangles(color=MARK_COLOR).draw(View.of(view.picture), marks)
    return Circles(color=MARK_COLOR).draw(drawn, marks) if marks else None
