"""The marker styles of published studies, as classes whose settings can be overridden.

`use: prompting.markers.BlinkPaperStyle` is the style in BLINK's paper, `BlinkReleasedStyle` the
style in its files, `Vlm2Style` the style of VLM2-Bench, and `SomStyle` that of Set-of-Mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import cv2
import numpy as np

from looktwice.extras.toolkits.hershey import draw_hershey, measure_hershey
from looktwice.pipelines.marks import Mark, Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import check_marks, prefix_errors
from looktwice.pipelines.state import NO_MARK_NOTE, State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import RGB
from looktwice.prompting.markers.base import Label, Side, find_part_rect
from looktwice.prompting.markers.points import Circles, Dots
from looktwice.prompting.markers.regions import Tint
from looktwice.prompting.wording.instructions import Text, Wording, fill_in, join_names


@dataclass(frozen=True)
class BlinkPaperStyle(Circles):
    """The style blink_paper: red circles of radius 10 px at an image height of 1024 px (BLINK,
    section 4 and Fig. 7).

    The paper specifies neither stroke nor lettering; 4 px and an em of 24 px at this height are our
    choice.
    """

    radius: float = 10
    thickness: float = 4
    color: str = "red"
    reference_height: int | None = 1024
    label: Label | None = field(default_factory=lambda: Label(font_size=24, gap=6))


@dataclass(frozen=True)
class BlinkReleasedStyle(Circles):
    """The style blink_released: the fixed-size markers in the released images of BLINK's
    Relative_Depth.

    A pure red ring of 13 x 13 px with a stroke of 3; a white letter of 9 x 11 px on a black plate
    of 14 x 15 px, its top 31 px above the point. Measured on 124 markers; A and B are the images'
    own letters. Labels other than A to F and REF need `label: {font: sans}`.
    """

    radius: float = 5
    thickness: float = 3
    color: str = "red"
    label: Label | None = field(
        default_factory=lambda: Label(font="blink", font_size=15, padding=1, min_width=14, gap=10)
    )


@dataclass(frozen=True)
class Vlm2Style(Dots):
    """The style vlm2: VLM2-Bench's grid dots, after Scaffold; a dot and its text are black or
    white, without a plate.

    The radius is 1/240 and the em 1/40 of the image's width. The grid itself is a separate stage;
    this stage draws such dots on marks.
    """

    color: str = "black-or-white"
    radius: float = 1000 / 240
    relative_to: Side | None = "width"
    label: Label | None = field(
        default_factory=lambda: Label(
            font_size=25, color="contrast", plate="none", gap=1, padding=0, placement="right"
        )
    )


@dataclass(frozen=True)
class SomStyle(Tint):
    """The style som, that of Set-of-Mark (Yang et al., 2023): every region is tinted and outlined
    in its own colour, with its number inside.

    The number is at the centre of the region's largest inscribed circle, or next to the region if
    that is too small.
    """

    color: str = "distinct"
    alpha: float = 0.3
    thickness: float = 2
    label: Label | None = field(default_factory=lambda: Label(text="{number}", placement="inside"))


VPBenchStyleName = Literal[
    "default",
    "color blue",
    "color green",
    "color yellow",
    "font scale 0.2",
    "font scale 1.0",
    "marker type diamond",
    "marker type square",
    "marker type triangle",
    "radius 1",
    "radius 3",
    "radius 10",
    "radius 15",
    "text label",
    "text offset below",
    "text offset left",
    "text offset right",
    "no marker",  # these four are only in VPBench's code, never in its paper
    "no marker text size 0.2",
    "no marker text size 1.0",
    "no marker text label",
]
COLORS: dict[str, RGB] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
}
# pixels: the outline's width, a plate's margin, and the gap to a label below the shape
PLATE_STROKE, PLATE_MARGIN, LABEL_GAP = (2, 2, 5)
# the label of the point in the first image; its plate is wider and further away
REFERENCE_LABEL = "REF"


@dataclass(frozen=True)
class _Drawing:
    """The drawing parameters of a style. `offset` is the vector from the point to the middle of the
    label's upper edge."""

    shape: str = "circle"  # empty: the label alone
    color: str = "red"
    radius: int = 5
    scale: float = 0.5
    offset: tuple[int, int] = (0, -25)
    ref_offset: int = 0  # horizontal offset of the label REF; 0: as for other labels
    numbers_labels: bool = False


DRAWINGS: dict[VPBenchStyleName, _Drawing] = {
    "default": _Drawing(),
    "color blue": _Drawing(color="blue"),
    "color green": _Drawing(color="green"),
    "color yellow": _Drawing(color="yellow"),
    "font scale 0.2": _Drawing(scale=0.2, offset=(0, -17)),
    "font scale 1.0": _Drawing(scale=1.0, offset=(0, -35)),
    "marker type diamond": _Drawing(shape="diamond"),
    "marker type square": _Drawing(shape="square"),
    "marker type triangle": _Drawing(shape="triangle"),
    "radius 1": _Drawing(radius=1),
    "radius 3": _Drawing(radius=3),
    "radius 10": _Drawing(radius=10),
    "radius 15": _Drawing(radius=15),
    "text label": _Drawing(numbers_labels=True),
    "text offset below": _Drawing(offset=(0, 12)),
    "text offset left": _Drawing(offset=(-18, -7), ref_offset=-27),
    "text offset right": _Drawing(offset=(18, -7), ref_offset=27),
    "no marker": _Drawing("", offset=(0, 0)),
    "no marker text size 0.2": _Drawing("", scale=0.2, offset=(0, 0)),
    "no marker text size 1.0": _Drawing("", scale=1.0, offset=(0, 0)),
    "no marker text label": _Drawing("", offset=(0, 0), numbers_labels=True),
}
POLYGON_CORNERS = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -1), (-1, 1), (1, 1)),
    "diamond": ((0, -1), (1, 0), (0, 1), (-1, 0)),
}


class MarkAppearance(NamedTuple):
    """The appearance of one mark: the text of its label, and the name of its colour."""

    text: str
    color: str


@dataclass(frozen=True)
class VPBenchStyle(WithoutModel):
    """A stage that draws point marks in one of the seventeen `style`s of VPBench (2512.17875,
    section 4 and its code), or, in four further styles of its code, only their labels.

    The pixels equal those that the authors drew with OpenCV: shapes with integer sizes and without
    antialiasing, a white label on a black plate, later marks over earlier ones. `letters` selects
    the letters of "opencv4", which were used for the published numbers, or of "opencv5", which are
    antialiased and have other widths; `labels: false` omits the labels and plates. "text label"
    numbers the labels from 1, except REF. Lengths are pixels of the view; labels may cover marks
    and extend beyond the image, as in the original. `colors` replaces the style's colour with one
    for each mark in turn, such as [red, blue] without labels. `only` selects marks by label; empty
    means all. The record notes the version of the letters and of OpenCV. The authors' prompts also
    name shape, colour and labels: use `VPBenchPrompt` for that; this stage only draws.

    Calling raises ValueError for a mark outside its own image, and, with the letters of OpenCV 4,
    for characters other than A to Z and 0 to 9 in a label.
    """

    style: VPBenchStyleName = "default"
    letters: Literal["opencv4", "opencv5"] = "opencv4"
    labels: bool = True
    only: tuple[str, ...] = ()
    colors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.labels and not DRAWINGS[self.style].shape:
            raise ValueError(
                f"style {self.style!r} draws only labels, so without labels nothing would be drawn"
            )
        if unknown := set(self.colors) - COLORS.keys():
            raise ValueError(f"colors must be among {', '.join(COLORS)}; got {min(unknown)!r}")

    def __call__(self, state: State, model: Model) -> State:
        """Draw on every view that shows a mark."""
        check_marks(state.sample)
        marks = [mark for mark in state.sample.marks if isinstance(mark, Point)]
        with prefix_errors(state.sample):
            views = tuple(self.draw(view, marks) for view in state.views)
        note = f"VPBench {self.style}: letters of {self.letters}, drawn by OpenCV {cv2.__version__}"
        note = note if marks else f"{type(self).__name__}: {NO_MARK_NOTE}"
        return state.replace(views=views).with_notes(note)

    def draw(self, view: View, marks: list[Point]) -> View:
        """Draw the marks and labels on one view; `marks` are in pixels of the sample's images."""
        drawing, pixels = DRAWINGS[self.style], np.array(view.pixels)
        drawn = False
        for mark, (text, name) in zip(
            marks, self.list_appearances([m.label for m in marks]), strict=True
        ):
            for place in view.to_view(mark) if self._selects(mark) else ():
                left, top, right, bottom = find_part_rect(view, place)
                part, color = pixels[top:bottom, left:right], COLORS[name]
                x, y = int(place.center[0]) - left, int(place.center[1]) - top
                if drawing.shape == "circle":
                    cv2.circle(part, (x, y), drawing.radius, color, PLATE_STROKE)
                elif drawing.shape:
                    corners = np.add(
                        (x, y), np.multiply(POLYGON_CORNERS[drawing.shape], drawing.radius)
                    )
                    cv2.polylines(part, [corners.astype(np.int32)], True, color, PLATE_STROKE)
                if self.labels:
                    self._draw_label(part, text, x, y, drawing)
                drawn = True
        pixels.flags.writeable = False
        return view.with_pixels(pixels) if drawn else view

    def _selects(self, mark: Mark) -> bool:
        return not self.only or mark.label in self.only

    def list_labels(self, marks: Sequence[Mark]) -> list[str]:
        """Return the texts of the labels that are drawn for a sample's marks."""
        points = [mark for mark in marks if isinstance(mark, Point)]
        appearances = zip(
            points, self.list_appearances([mark.label for mark in points]), strict=True
        )
        return [look.text for mark, look in appearances if self.labels and self._selects(mark)]

    def list_appearances(self, labels: Sequence[str]) -> list[MarkAppearance]:
        """Return the label text and the colour name as drawn, for marks with these labels."""
        drawing = DRAWINGS[self.style]
        colors = self.colors or (drawing.color,)
        numbered = [
            label for label in labels if label != REFERENCE_LABEL and drawing.numbers_labels
        ]
        appearances = []
        for place, label in enumerate(labels):
            text = str(numbered.index(label) + 1) if label in numbered else label
            appearances.append(MarkAppearance(text, colors[place % len(colors)]))
        return appearances

    def _draw_label(self, pixels: Pixels, text: str, x: int, y: int, drawing: _Drawing) -> None:
        old, face, white = self.letters == "opencv4", cv2.FONT_HERSHEY_SIMPLEX, (255, 255, 255)
        width, height = (
            measure_hershey(text, drawing.scale)
            if old
            else cv2.getTextSize(text, face, drawing.scale, 1)[0]
        )
        aside = drawing.offset[0]
        if drawing.ref_offset and text == REFERENCE_LABEL:
            aside = drawing.ref_offset
        left, top = x - width // 2 + aside, y + drawing.offset[1]
        top = top if top >= 0 else y + drawing.radius + LABEL_GAP
        corner = left + width, top + height + PLATE_MARGIN
        cv2.rectangle(pixels, (left - PLATE_MARGIN, top - PLATE_MARGIN), corner, (0, 0, 0), -1)
        if old:
            draw_hershey(pixels, text, left, top + height, drawing.scale, white)
        else:
            cv2.putText(pixels, text, (left, top + height), face, drawing.scale, white, 1)


@dataclass(frozen=True)
class VPBenchPrompt(Wording):
    """A stage that words a question in VPBench's form: a sentence that describes the marks, the
    question, and its choices.

    `marks` is the stage that draws the marks; a reference keeps both in agreement: `marks:
    ${stages.mark}`. The sentence names the shape, colour and labels of its style. If the style
    draws no labels, it distinguishes the points by their `colors`; if it draws only labels, it
    names only these. Choices name the points as drawn, such as "Point 2" for "Point B"; the choices
    of a correspondence question (a mark REF) end with a line break. The sentences are looktwice's,
    with the authors' structure; `text` replaces the prompt with your text, or with the text of a
    file (`{file: NAME}`), in which `{shape}`, `{color}`, `{labels}`, `{question}` and `{choices}`
    are filled in. Raises ValueError for a sample without choices or points, and for points that
    cannot be distinguished.
    """

    marks: VPBenchStyle = field(default_factory=VPBenchStyle)
    text: Text = ""

    def __call__(self, state: State, model: Model) -> State:
        """Replace the question by this prompt."""
        sample = state.sample
        points = [mark for mark in sample.marks if isinstance(mark, Point)]
        if not sample.choices or not points:
            raise ValueError(
                f"sample {sample.id} has no {'points' if sample.choices else 'choices'}, which"
                " this prompt needs"
            )
        labels, lettered = [point.label for point in points], self.marks.labels
        appearances = self.marks.list_appearances(labels)
        colors = list(dict.fromkeys(look.color for look in appearances))
        if not lettered and len(colors) < len(appearances):
            raise ValueError(f"sample {sample.id}: points without labels need different `colors`")
        names: dict[str, str] = {}  # of points whose names differ from those in the choices
        for label, look in zip(labels, appearances, strict=True):
            name = look.text if lettered else f"the {look.color} point"
            names |= {label: name} if name != label else {}

        def rename(match: re.Match[str]) -> str:
            name = names[match["label"]]
            return f"{match['point'] or ''}{name}" if lettered else name

        lines, either = [], "|".join(map(re.escape, names)) or r"(?!)"
        for letter, choice in sample.lettered.items():
            named = re.sub(rf"(?P<point>[Pp]oint )?\b(?P<label>{either})\b", rename, str(choice))
            lines.append(f"({letter}) {named}")
        parts = {
            "shape": DRAWINGS[self.marks.style].shape,
            "color": join_names(colors),
            "labels": join_names([look.text for look in appearances]),
            "question": state.prompt,
            "choices": "\n".join(lines),
        }
        last = "\n" if REFERENCE_LABEL in labels else ""
        how = "is marked with a {shape} in {color} and its label beside it: {labels}."
        if not parts["shape"]:
            how = "bears nothing but its label: {labels}."
        elif not lettered:
            how = "is marked with a {shape} of its own colour: {color}."
        choose = "Select from the following choices."
        words = self.text or f"Each point {how}\n{{question}}\n{choose}\n{{choices}}{last}"
        return state.replace(prompt=fill_in(words, **parts))
