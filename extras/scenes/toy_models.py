"""Two toy models for test runs of agents, without a network or weights: one is near-sighted, the
other ignores the images.

By construction, looking again helps the first and cannot help the second. They test the tools and
the agent's loop, and say nothing about language models.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from string import ascii_uppercase
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from looktwice.pipelines.config.spec import settings
from looktwice.pipelines.encodings.image_files import decode
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import CallOptions, FinishReason, Messages, Reply, ToolCall, Usage
from looktwice.pipelines.view import View

Mask = NDArray[np.float32]
HUES = {"red": 0, "orange": 15, "green": 65, "blue": 115, "purple": 145}  # OpenCV's, in 0..180
MAX_HUE_DIFFERENCE, MIN_SATURATION = (
    7,
    40,
)  # the largest deviation in hue, and the minimum saturation that is visible
# share of its box that is filled
FILL_SHARES = {"triangles": (0.0, 0.64), "circles": (0.64, 0.88), "squares": (0.88, 1.01)}
LETTER_SIDE = 24  # pixels of the square on which letters are compared
PATCH_SIDE = 28  # pixels of an image's side that cost a token
LETTER_PATTERN = re.compile(r"Which letter is (\w+)\?")
COUNT_PATTERN = re.compile(r"How many of the (\w+) shapes are (\w+)\?")
NUMBER_PATTERN = re.compile(r"Image (\d+)")
CLUE_LINE_PATTERN = re.compile(r"^(\w+): (?:the letter ([A-Z])|triangles (\d+))$", re.M)
SOUGHT_COLOR_PATTERN = re.compile(r"Is there (\w+) in|Could (\w+) be there")
NO_CALLS_LEFT_PATTERN = re.compile(r"cannot look any further")


@dataclass(frozen=True)
class Sighting:
    """The region of one colour in an image: its `coverage` (0..1) within `box` (left, top, right,
    bottom) in pixels.

    `is_whole` is False if the border crops it.
    """

    image_number: int
    size: tuple[int, int]
    box: tuple[int, int, int, int]
    coverage: Mask
    is_whole: bool

    @property
    def parts(self) -> list[list[int]]:
        """The left, top, width, height and area of each connected component, without specks."""
        solid = (self.coverage >= 0.5).astype(np.uint8)
        parts = cv2.connectedComponentsWithStats(solid, connectivity=8)[2][1:]
        kept: list[list[int]] = parts[parts[:, 4] * 8 >= parts[:, 4].max()].tolist()
        return kept

    def measure_height(self, several: bool) -> float:
        """Return the height in pixels of a letter, or the median height of several shapes."""
        if not several:
            return self.box[3] - self.box[1]
        return float(np.median([high for _, _, _, high, _ in self.parts]))

    def count_shapes(self, kind: str) -> int:
        """Count the components that fill as much of their box as this kind of shape does."""
        low, high = FILL_SHARES.get(kind, (2.0, 2.0))
        return sum(low <= area / (wide * tall) < high for _, _, wide, tall, area in self.parts)

    def read_letter(self) -> str:
        """Return the letter that is most similar in form and proportion."""
        shape = _to_square(self.coverage)
        height, width = self.coverage.shape

        def measure_difference(letter: str) -> float:
            drawn, aspect = _render_letters()[letter]
            unlikeness = np.abs(drawn - shape).mean()
            return float(unlikeness) + 0.2 * abs(math.log(aspect * height / width))

        return min(ascii_uppercase, key=measure_difference)


@dataclass(frozen=True)
class NearSighted:
    """A model that answers "Which letter is red?" and "How many of the red shapes are triangles?"
    from the bytes that it is sent.

    It finds the colour at any size, but recognizes letters and shapes only if they are at least
    `min_height` pixels high in the image as sent. Otherwise it calls `tool` on the part of the
    image around them, with the share `window` of its width and height (a tenth less for every image
    in which the colour was not visible), in the frame `coordinates`; if it may not call the tool,
    it says that it cannot tell. It calls tools in the form in which they are offered: function
    calls, <tool_call> tags, or lines `CALL name {...}`. It counts a token for every 28 x 28 pixels
    and for every four characters.

    If a prompt asks for a description, it lists what it recognizes of every colour ("red: the
    letter K"), and it relies on such descriptions if it sees nothing large enough. If a prompt asks
    for Yes or No, it answers whether the last image shows a colour, or whether the question can be
    answered from it, with log-probabilities.

    It uses only the messages. Raises PictureError for bytes that are not an image.
    """

    min_height: float = 20
    window: float = 0.45
    tool: str = "zoom"
    coordinates: Literal["pixels", "0-1", "0-1000"] = "pixels"

    def __post_init__(self) -> None:
        if not self.min_height > 0 or not 0 < self.window <= 1:
            raise ValueError(
                "`min_height` must be greater than 0 pixels and `window` a share of the image,"
                f" above 0 and at most 1, got {self.min_height} and {self.window}"
            )

    @property
    def identity(self) -> str:
        """The settings."""
        return write_canonical(settings(self))

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Reply with the answer if it is legible; otherwise call the tool if possible, or say that
        the model cannot tell."""
        likely = dict[str, float]()
        if _get_text(messages, "user").endswith("Answer Yes or No."):
            text, calls = self._answer_yes_or_no(messages), tuple[ToolCall, ...]()
            likely = {text: math.log(0.98), "No" if text == "Yes" else "Yes": math.log(0.02)}
        else:
            text, calls = self._compose_reply(messages, options)
        cost = 0
        for message in messages:
            for part in message.parts:
                if isinstance(part, str):
                    cost += math.ceil(len(part) / 4)
                else:
                    cost += math.prod(math.ceil(side / PATCH_SIDE) for side in part.size)
        written = len(text) + sum(len(call.arguments) for call in calls)
        usage = Usage(cost, math.ceil(written / 4))
        given = (likely,) if likely and options.logprobs else ()
        finish: FinishReason = "tool" if calls else "stop"
        return Reply(text, finish, tool_calls=calls, usage=usage, logprobs=given)

    def _compose_reply(
        self, messages: Messages, options: CallOptions
    ) -> tuple[str, tuple[ToolCall, ...]]:
        words = _get_text(messages, "user")
        asked = [*LETTER_PATTERN.finditer(words), *COUNT_PATTERN.finditer(words)]
        if not asked and words.startswith("Describe"):
            return self._describe_images(messages), ()
        if not asked or asked[-1][1] not in HUES:
            return "I do not understand the question.", ()
        question, images = asked[-1], list(_list_images(messages))
        color, several = question[1], question.re is COUNT_PATTERN
        seen = [sight for number, view in images if (sight := _find_color(number, view, color))]
        if not seen:
            return f"I see nothing {color}.", ()
        best = max(seen, key=lambda sight: (sight.is_whole, sight.measure_height(several)))
        height = best.measure_height(several)
        if height >= self.min_height:
            answer = best.count_shapes(question[2]) if several else best.read_letter()
            return f"In image {best.image_number} it is large enough for me.\nANSWER: {answer}", ()
        notes = {name: note for name, *note in CLUE_LINE_PATTERN.findall(_get_text(messages))}
        if color in notes:
            return f"I was told so.\nANSWER: {''.join(notes[color])}", ()
        small = (
            f"What is {color} in image {best.image_number} is {height:.0f} pixels high, too small"
            " for me."
        )
        window = self.window * 0.9 ** (len(images) - len(seen))
        arguments = json.dumps({"image": best.image_number, "box": self._crop_box(best, window)})
        return self._make_call(small, arguments, messages, options)

    def _answer_yes_or_no(self, messages: Messages) -> str:
        """Answer a yes-or-no question about the last image."""
        words, (*_, (number, view)) = _get_text(messages, "user"), _list_images(messages)
        sought = [
            *SOUGHT_COLOR_PATTERN.finditer(words),
            *LETTER_PATTERN.finditer(words),
            *COUNT_PATTERN.finditer(words),
        ]
        color = next(filter(None, sought[0].groups())) if sought else ""
        sight = _find_color(number, view, color) if color in HUES else None
        if sight is None or sought[0].re is SOUGHT_COLOR_PATTERN:
            return "Yes" if sight else "No"
        near = (
            sight.is_whole
            and sight.measure_height(sought[0].re is COUNT_PATTERN) >= self.min_height
        )
        return "Yes" if near else "No"

    def _describe_images(self, messages: Messages) -> str:
        """List what the model recognizes of every colour in every image: one component is a letter,
        several are shapes."""
        notes = []
        for number, view in _list_images(messages):
            for color in HUES:
                sight = _find_color(number, view, color)
                if sight is not None and sight.measure_height(several=True) >= self.min_height:
                    shapes = f"triangles {sight.count_shapes('triangles')}"
                    note = shapes if len(sight.parts) > 1 else f"the letter {sight.read_letter()}"
                    notes.append(f"{color}: {note}")
        return "\n".join(notes) or "I can tell nothing."

    def _make_call(
        self, small: str, arguments: str, messages: Messages, options: CallOptions
    ) -> tuple[str, tuple[ToolCall, ...]]:
        """Return the tool call in the form in which tools are offered."""
        opened = _get_text(messages, "system")
        if any(tool.name == self.tool for tool in options.tools or ()):
            return small, (ToolCall(f"call_{len(messages)}", self.tool, arguments),)
        if not NO_CALLS_LEFT_PATTERN.search(messages[-1].text):
            if "<tool_call>" in opened:
                call = f'{{"name": "{self.tool}", "arguments": {arguments}}}'
                return f"{small}\n<tool_call>\n{call}\n</tool_call>", ()
            if "\nCALL NAME" in opened:
                return f"{small}\nCALL {self.tool} {arguments}", ()
        return f"{small} I cannot tell.", ()

    def _crop_box(self, sight: Sighting, window: float) -> list[float]:
        """Return the part of the image around the object, with a margin, shifted to lie within the
        image."""
        sides, box = np.array(sight.size), np.array(sight.box, float).reshape(2, 2)
        lengths = np.minimum(sides, np.maximum(window * sides, 1.3 * np.ptp(box, axis=0)))
        lows = np.clip((box.sum(axis=0) - lengths) / 2, 0, sides - lengths)
        per = {"pixels": 1.0, "0-1": 1 / sides, "0-1000": 1000 / sides}[self.coordinates]
        digits = 4 if self.coordinates == "0-1" else 0
        edges = np.concatenate([lows * per, (lows + lengths) * per]).tolist()
        return [round(edge, digits) for edge in edges]


def _get_text(messages: Messages, role: str = "") -> str:
    """Join the texts of all messages, or of the messages of one role."""
    return "\n".join(message.text for message in messages if role in ("", message.role))


def _list_images(messages: Messages) -> Iterator[tuple[int, View]]:
    """Yield every image with its number: the number in the preceding text, or else its position."""
    number, before = 0, ""
    for part in chain.from_iterable(message.parts for message in messages):
        if isinstance(part, str):
            before = part
            continue
        numbers = NUMBER_PATTERN.findall(before)
        number, before = int(numbers[-1]) if numbers else number + 1, ""
        yield number, part


def _find_color(number: int, view: View, color: str) -> Sighting | None:
    """Find the region of a colour in an image, or return None; the bytes are decoded as by a
    server."""
    pixels = decode(view.picture.payload.data, f"image {number}")
    hue, saturation, _ = cv2.split(cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV).astype(np.int16))
    off = np.abs((hue - HUES[color] + 90) % 180 - 90)
    seen = np.where(
        (off <= MAX_HUE_DIFFERENCE) & (saturation >= MIN_SATURATION), saturation, 0
    ).astype(np.float32)
    if not seen.any():
        return None
    cover: Mask = np.minimum(seen / seen.max(), 1)
    height, width = cover.shape
    left, top, wide, high = cv2.boundingRect((cover >= 0.5).astype(np.uint8))
    right, bottom = left + wide, top + high
    whole = left > 0 and top > 0 and right < width and bottom < height
    box = (left, top, right, bottom)
    return Sighting(number, (width, height), box, cover[top:bottom, left:right], whole)


@lru_cache(maxsize=1)
def _render_letters() -> dict[str, tuple[Mask, float]]:
    """Render each capital in Pillow's default sans serif, scaled to one size; return it with its
    aspect ratio (width over height)."""
    font, drawn = ImageFont.load_default(64), {}
    for letter in ascii_uppercase:
        image = Image.new("L", (96, 96))
        ImageDraw.Draw(image).text((16, 8), letter, fill=255, font=font)
        left, top, right, bottom = image.getbbox() or (0, 0, 1, 1)
        cover = np.asarray(image, np.float32)[top:bottom, left:right] / np.float32(255)
        drawn[letter] = _to_square(cover), (right - left) / (bottom - top)
    return drawn


def _to_square(coverage: Mask) -> Mask:
    return np.asarray(
        cv2.resize(coverage, (LETTER_SIDE, LETTER_SIDE), interpolation=cv2.INTER_AREA), np.float32
    )


BETWEEN_PATTERN = re.compile(r"between ([A-Z]) and [A-Z] in the alphabet")
OTHER_COUNT_HINT_PATTERN = re.compile(r"Of the (\d+), (\d+) are not")
CHOICE_PATTERN = re.compile(r"^\(([A-Z])\)", re.M)


@dataclass(frozen=True)
class NeverLooks:
    """A model that answers questions of `LettersAndShapes` without their images, to test the
    detection of such models.

    It takes the answer from hints in the text, which the task adds with `leak`; otherwise it
    guesses, differently for every question and draw. If tools are offered, it calls `tool` once,
    for the whole image. If it is `careless`, it notices hints only after a call, so that tool use
    raises its accuracy although it sees nothing. It counts a token for every four characters.
    """

    careless: bool = False
    tool: str = "zoom"

    @property
    def identity(self) -> str:
        """The settings."""
        return write_canonical(settings(self))

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Reply with a call of the tool, or with the answer."""
        called = any(message.tool_calls for message in messages)
        usage = Usage(sum(len(message.text) for message in messages) // 4, 8)
        if not called and any(tool.name == self.tool for tool in options.tools or ()):
            whole = json.dumps({"image": 1, "box": [0, 0, 99, 99]})
            call = ToolCall(f"call_{len(messages)}", self.tool, whole)
            return Reply("Let me look.", "tool", tool_calls=(call,), usage=usage)
        words = [message.text for message in messages if message.role == "user"][:1]
        answer = self._find_answer("".join(words), draw, called or not self.careless)
        return Reply(f"ANSWER: {answer}", usage=usage)

    def _find_answer(self, words: str, draw: int, careful: bool) -> str:
        if careful and (hint := BETWEEN_PATTERN.search(words)):
            return ascii_uppercase[(ascii_uppercase.index(hint[1]) + 1) % 26]
        if careful and (hint := OTHER_COUNT_HINT_PATTERN.search(words)):
            return str(int(hint[1]) - int(hint[2]))
        guesses = CHOICE_PATTERN.findall(words) or list(
            "12345" if "How many" in words else ascii_uppercase
        )
        digest = hashlib.sha256(f"{draw}\n{words}".encode()).digest()
        return str(guesses[int.from_bytes(digest[:4], "big") % len(guesses)])
