"""Pictures and readers with known weaknesses, for the methods on the page about where to look: a
reader of salient things, one whose boxes are slightly off, and likelihoods with a letter bias."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.eval.tasks import Facts
from looktwice.eval.tasks.photographs import make_rng
from looktwice.extras.model_guided import ContrastAnswer
from looktwice.extras.scenes import LettersAndShapes, NearSighted
from looktwice.extras.scenes.toy_models import Sighting
from looktwice.pipelines.geometry import Rect
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.marks import bounding_box
from looktwice.pipelines.model import CallOptions, Message, Messages, Reply, Usage
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Item
from looktwice.pipelines.view import View
from tests.planted_network import write_ink_seeker

BACKGROUND_LEVEL = 230  # a pixel whose smallest colour value is above this is background
CONTRAST, HEIGHT = 60, 8  # minimum levels and pixels of a visible thing
PER_LOGIT, BIAS_LOGITS = 80, 3.5  # levels of contrast per logit; logits added to the letter E
LOOK_PATTERN = re.compile(r"^LOOK: image 1, \[(.*)\]$", re.M)


@dataclass(frozen=True)
class IsolatedQuestions:
    """Questions of LettersAndShapes whose pictures show only the thing asked about; everything else
    is white. With `beside`, the other things are kept in black, and the thing asked about is a red
    letter."""

    questions: LettersAndShapes
    beside: bool = False
    letters: bool = False

    @property
    def facts(self) -> Facts:
        return self.questions.facts

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Item]:
        for item in self.questions:
            if item.sample.meta["kind"] == "letter" or not self.letters:
                yield self._changed(item)

    def _changed(self, item: Item) -> Item:
        (picture,), (target,) = item.sample.images, item.sample.marks
        left, top, right, bottom = map(int, bounding_box(target))
        levels = picture.pixels.min(-1)
        levels = np.where(levels > BACKGROUND_LEVEL, np.uint8(255), levels)
        asked = np.zeros(levels.shape, bool)
        asked[top:bottom, left:right] = True
        if not self.letters:
            shown = (asked & (levels < 255))[..., None]
            pixels = np.where(shown, picture.pixels, np.uint8(255))
            return replace(item, sample=replace(item.sample, images=(Picture(pixels),)))
        ground = levels if self.beside else np.where(asked, levels, np.uint8(255))
        red = np.where(asked, np.uint8(255), ground)
        pictures = (Picture(np.stack((red, ground, ground), -1)),)
        sample = replace(item.sample, images=pictures, question="Which letter is red?")
        return replace(item, sample=replace(sample, choices=tuple(ascii_uppercase)))


def write_red_seeker(folder: Path) -> Path:
    """Save a variant of `write_ink_seeker` that ignores greys and attends to red patches."""
    from safetensors.torch import load_file, save_file

    write_ink_seeker(folder)
    tensors = load_file(folder / "model.safetensors")
    (name,) = (name for name in tensors if name.endswith("patch_embed.proj.weight"))
    for channel, weight in enumerate((2, -1, -1)):
        tensors[name][0, channel] = weight
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


class Thing(NamedTuple):
    """A thing in a picture: the sharpness of its edges and its contrast to the background, in grey
    levels, whether it is red, and its sighting."""

    sharpness: float
    contrast: float
    red: bool
    sight: Sighting


def things(pixels: Pixels) -> list[Thing]:
    """Return the connected parts of a picture that differ from the background."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
    off = np.abs(grey - np.median(grey))
    seen = (off >= CONTRAST).astype(np.uint8)
    edges = np.hypot(cv2.Sobel(grey, -1, 1, 0), cv2.Sobel(grey, -1, 0, 1)) / 4
    size, listed = (pixels.shape[1], pixels.shape[0]), list[Thing]()
    _, places, boxes, _ = cv2.connectedComponentsWithStats(seen, connectivity=8)
    for number, (left, top, wide, high, _) in enumerate(boxes.tolist()):
        if number and high >= HEIGHT:
            box = (left, top, left + wide, top + high)
            part = np.s_[top : top + high, left : left + wide]
            inside = places[part] == number
            most = float(off[part][inside].max())
            color = pixels[part][inside].astype(float).mean(0)
            sight = Sighting(1, size, box, np.minimum(off[part] / most, 1), True)
            sharp = float(edges[part].max())
            listed.append(Thing(sharp, most, bool(color[0] > color[1] + 40), sight))
    return listed


def draw_error(value: str, sides: Any, draw: int) -> NDArray[np.float64]:
    """Return a random error of up to `sides` in either direction, determined by `value` and the
    draw."""
    return np.asarray(make_rng("off", draw, value).uniform(-1, 1, 2) * sides)


@dataclass(frozen=True)
class SalienceReader:
    """A reader that always reads the thing with the sharpest edges in the last picture. Asked to
    point, it points at the red thing, up to `off` pixels from its centre."""

    off: float = 12

    @property
    def identity(self) -> str:
        """The settings."""
        return write_canonical({"off": self.off})

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the point, or the letter."""
        views = [part for message in messages for part in message.parts if isinstance(part, View)]
        listed, text = things(views[-1].pixels), "I see nothing."
        pointed = [thing for thing in listed if thing.red]
        if "First point" in messages[-1].text and pointed:
            left, top, right, bottom = pointed[0].sight.box
            middle = np.array([left + right, top + bottom]) / 2
            middle += draw_error(views[-1].picture.sha, (self.off, self.off), draw)
            x, y = (middle / views[-1].size * 1000).round().clip(0, 1000).astype(int).tolist()
            text = f"[{x}, {y}]"
        elif listed:
            text = f"ANSWER: {max(listed, key=lambda thing: thing.sharpness).sight.read_letter()}"
        return Reply(text, usage=count_tokens(messages, text))


def count_tokens(messages: Messages, text: str) -> Usage:
    """Count tokens as `NearSighted` does."""
    parts = [part for message in messages for part in message.parts]
    words = sum(len(part) for part in parts if isinstance(part, str)) // 4
    pixels = sum(
        -(-w // 28) * -(-h // 28) for w, h in (p.size for p in parts if isinstance(p, View))
    )
    return Usage(words + pixels, len(text) // 4)


@dataclass(frozen=True)
class BoxNamingReader:
    """`NearSighted` that also names a box to look at: a part of the last picture whose sides are
    the share `shrink` of the picture's, displaced from the thing asked about by up to `off` of
    them."""

    reader: NearSighted
    off: float = 0.12
    shrink: float = 0.45

    @property
    def identity(self) -> str:
        """The settings."""
        return write_canonical(
            {"reader": self.reader.identity, "off": self.off, "shrink": self.shrink}
        )

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the reader's reply, and a box in thousandths of the first picture."""
        reply = self.reader(messages, draw, options)
        views = [part for message in messages for part in message.parts if isinstance(part, View)]
        claims = LOOK_PATTERN.findall("\n".join(m.text for m in messages if m.role == "assistant"))
        last: Rect = (0, 0, 1000, 1000)
        if claims and len(views) > 1:
            left, top, right, bottom = json.loads(f"[{claims[-1]}]")
            last = (left, top, right, bottom)
        box = self._around(views[-1], last, draw)
        if box is None:
            box = self._around(views[0], (0, 0, 1000, 1000), draw + len(views))
        if box is None:
            return reply
        return replace(reply, text=f"LOOK: image 1, {box}\n{reply.text}")

    def _around(self, view: View, part: Rect, draw: int) -> list[int] | None:
        """Return the next box, given the part of the first picture that the view shows; None
        without a coloured thing."""
        colored = np.ptp(view.pixels.astype(int), axis=-1) > 60
        if not colored.any():
            return None
        rows, columns = np.nonzero(colored)
        sides = np.subtract(part[2:], part[:2])
        place = np.array([np.ptp(columns) / 2 + columns.min(), np.ptp(rows) / 2 + rows.min()])
        middle = np.asarray(part[:2]) + place / view.size * sides
        middle = middle + draw_error(view.picture.sha, self.off * sides, draw)
        half = sides * self.shrink / 2
        low = np.clip(middle - half, 0, 1000 - 2 * half)
        edges: list[int] = np.concatenate((low, low + 2 * half)).round().astype(int).tolist()
        return edges


class Likelihoods(NamedTuple):
    """The log-likelihood of each capital letter as the first token of a reply."""

    likely: NDArray[np.float64]

    def first_tokens(self, choices: Sequence[str]) -> list[int]:
        """Return the indices of these capital letters."""
        return [ascii_uppercase.index(choice) for choice in choices]


class BiasedNetwork:
    """A planted network whose likelihood of a letter grows with the letter's contrast, with a bias
    towards E."""

    def look(self, messages: Sequence[Message]) -> Likelihoods:
        """Return the likelihoods, given the last message's picture."""
        (view,) = (part for part in messages[-1].parts if isinstance(part, View))
        logits = np.zeros(26)
        for thing in things(view.pixels):
            place = ascii_uppercase.index(thing.sight.read_letter())
            logits[place] = max(logits[place], thing.contrast / PER_LOGIT)
        logits[ascii_uppercase.index("E")] += BIAS_LOGITS
        return Likelihoods(logits - np.log(np.exp(logits).sum()))


@dataclass(frozen=True, kw_only=True)
class PlantedContrast(ContrastAnswer):
    """`ContrastAnswer` with these likelihoods instead of a network's."""

    model: str = "planted"

    @property
    def eyes(self) -> Any:
        """The planted network."""
        return BiasedNetwork()
