"""The state of one agent run on one sample: its conversation, the images shown, its usage and its
bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import Message, Model, Reply
from looktwice.pipelines.pipeline import count_calls
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import State, remark
from looktwice.pipelines.view import View
from looktwice.prompting.agent.looks import EpisodeEnd, Look
from looktwice.prompting.wording.instructions import Parts, fill_in

if TYPE_CHECKING:
    from looktwice.prompting.coordinates import ShownImage

MAX_NOTE_CHARACTERS = 300  # characters of a model's text that a note holds
WITHDRAWN_IMAGE_TEXT = "[this image was taken back]"


def measure_looks(state: State, looks: Sequence[Look], last_call: int) -> State:
    """Return the state with its measures: the number of looks that were run, the mean share of an
    image that they showed, and the index of the model call that ended each turn.

    `last_call` is the index of the call that gave the final answer.
    """
    asked: dict[int, int] = {}
    shares: list[float] = []
    for look in looks:
        if look.outcome != "answered":
            asked[look.call] = look.call if look.probe is None else look.probe
        for image, left, top, right, bottom in filter(None, look.regions):
            width, height = state.sample.images[int(image)].size
            shares.append((right - left) * (bottom - top) / (width * height))
    state = state.measured("looks", sum(look.outcome != "refused" for look in looks))
    state = state.measured("crop_share", fmean(shares)) if shares else state
    return state.measured("turn_call", (*asked.values(), last_call))


@dataclass(frozen=True)
class Bounds(Ranged):
    """Limits on what an agent may use for one sample. Tool calls end at the first bound that is
    reached.

    `steps` limits the replies that call tools, and `calls` the tool calls that are run per reply.
    `images` and `megapixels` limit the images that tools add, at the size at which they are sent.
    `tokens` limits all input and output tokens that the server reports for the sample; a server
    that reports none is limited by the other bounds. `seconds` limits the time that the model took
    for its replies. Cached replies count with their original time, so a repeated run stops at the
    same place. Tokens and seconds are checked after each reply.
    """

    steps: int = 6
    calls: int = 8
    images: int = 12
    megapixels: float = 20.0
    tokens: int = 200_000
    seconds: float = 900.0

    ranges = ("steps, images >= 0", "calls >= 1", "megapixels, tokens, seconds > 0")


@dataclass(eq=False)
class Episode:
    """One agent run on one sample; it is mutable.

    `turns` is the conversation. `shown_images` holds all images in the order of their numbers; the
    first `sample_image_count` of them are the sample's own. `withdrawn_numbers` holds the numbers
    of images that were taken back. `call_count` counts the model calls in the record so far, and
    `probe` is the number of the last call that only asked for a preliminary answer.
    `returned_images` maps each tool call to the numbers of the images that it returned.
    `malformed_count` counts consecutive replies without a valid call. `answer` is the final answer
    if it was given through a tool, and `blocked_by` is the bound that kept an image from being
    shown.
    """

    state: State
    model: Model
    turns: tuple[Message, ...]
    shown_images: list[ShownImage]
    sample_image_count: int
    call_count: int
    withdrawn_numbers: set[int] = field(default_factory=set)
    looks: list[Look] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    returned_images: dict[str, tuple[int, ...]] = field(default_factory=dict)
    step_count: int = 0
    token_count: int = 0
    seconds: float = 0.0
    malformed_count: int = 0
    probe: int | None = None
    answer: str | None = None
    blocked_by: str = ""

    def summarize(self, by: str) -> EpisodeEnd:
        """Return the usage so far, as it is recorded; `by` is the reason why the run ended."""
        added = [image.sent_view for image in self.shown_images[self.sample_image_count :]]
        return EpisodeEnd(
            by,
            self.step_count,
            len(added),
            round(sum(map(_count_megapixels, added)), 4),
            self.token_count,
            round(self.seconds, 3),
        )

    def find_reached_bound(self, bounds: Bounds) -> str:
        """Return the name of the bound that was reached, or an empty string if none was."""
        used = self.summarize("")
        for name in ("steps", "images", "megapixels", "tokens", "seconds"):
            if getattr(used, name) >= getattr(bounds, name):
                return name
        return self.blocked_by

    def find_blocking_bound(self, sent: View, bounds: Bounds) -> str:
        """Return the name of the bound that one more image would exceed, or an empty string if the
        image may be shown."""
        added = [image.sent_view for image in self.shown_images[self.sample_image_count :]]
        if len(added) >= bounds.images:
            return "images"
        return (
            "megapixels" if sum(map(_count_megapixels, [*added, sent])) > bounds.megapixels else ""
        )

    def add_usage(self, reply: Reply) -> None:
        """Count one more reply with its tokens and time."""
        self.call_count = max(
            self.call_count + 1, count_calls(self.state, self.model)
        )  # includes a describer's calls
        self.token_count += reply.usage.tokens_in + reply.usage.tokens_out
        self.seconds += reply.seconds

    def count_step(self, valid: bool) -> None:
        """Count a reply as a step; `valid` is False if it has no valid call."""
        self.step_count += 1
        self.malformed_count = 0 if valid else self.malformed_count + 1

    def start_look(self, tool: str, arguments: Any) -> Look:
        """Return the record of the next tool call, before its outcome is known. Long arguments are
        truncated."""
        text = arguments if isinstance(arguments, str) else write_canonical(arguments)
        if len(text) > MAX_NOTE_CHARACTERS:
            arguments = text[:MAX_NOTE_CHARACTERS] + "..."
        number, call = len(self.looks) + 1, self.call_count - 1
        return Look(number, call, tool[:64], arguments=arguments, probe=self.probe)

    def add_look(self, look: Look, **result: Any) -> None:
        """Add a look with its result and write its note at once, so that the record has it even if
        the sample fails later."""
        self.looks.append(replace(look, **result))
        remark(self.looks[-1].note)

    def withdraw(self, look: Look) -> Parts:
        """Take back the last image that a tool showed."""
        tool_images = range(self.sample_image_count + 1, len(self.shown_images) + 1)
        left = {*tool_images} - self.withdrawn_numbers
        if not left:
            reason = "no tool has shown an image that could be taken back"
            self.add_look(look, outcome="failed", reason=reason)
            return (f"error: {reason}",)
        self.withdrawn_numbers.add(max(left))
        words = f"image {max(left)} is taken back"
        self.add_look(look, outcome="said", reason=words)
        return (words,)

    def add_user_text(self, text: str) -> None:
        """Add text from the user to the last turn if that is the user's, otherwise as a new
        turn."""
        *earlier, last = self.turns
        if last.role == "user":
            self.turns = (*earlier, replace(last, parts=(*last.parts, text)))
        else:
            self.turns = (*self.turns, Message("user", (text,)))

    def add_turns(self, *turns: Message) -> None:
        """Add turns, and replace every image that was taken back with a placeholder text."""
        hidden = {id(self.shown_images[number - 1].sent_view) for number in self.withdrawn_numbers}
        whole = [*self.turns, *turns]
        for number, turn in enumerate(whole):
            if not hidden.isdisjoint(map(id, turn.parts)):
                parts = (
                    WITHDRAWN_IMAGE_TEXT if id(part) in hidden else part for part in turn.parts
                )
                whole[number] = replace(turn, parts=tuple(parts))
        self.turns = tuple(whole)

    def make_image_parts(self, number: int, frame: str, label: str) -> Parts:
        """Return an image after a line with its label and, if coordinates are in pixels, its size.
        Without a label the line is left out; a label with `{k}` is left out for the sample's own
        images."""
        sent, brought = self.shown_images[number - 1].sent_view, number - self.sample_image_count
        if not label or ("{k}" in label and brought < 1):
            return (sent,)
        size = f" ({sent.size[0]} x {sent.size[1]} pixels)" if frame == "pixels" else ""
        return f"{fill_in(label, n=str(number), k=str(brought))}{size}:", sent


def _count_megapixels(view: View) -> float:
    return view.size[0] * view.size[1] / 1e6
