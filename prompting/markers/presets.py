"""Marker styles of published studies, each one line in a configuration; every setting can still be
overridden.

`use: prompting.markers.BlinkPaperStyle` is BLINK's style as its paper shows it,
`BlinkReleasedStyle` as its files have it, `Vlm2Style` VLM2-Bench's, `SomStyle` that of Set-of-Mark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from looktwice.prompting.markers.base import Side
from looktwice.prompting.markers.labels import Label
from looktwice.prompting.markers.points import Circles, Dots
from looktwice.prompting.markers.regions import Tint


@dataclass(frozen=True)
class BlinkPaperStyle(Circles):
    """blink_paper: red circles of radius 10 px at an image height of 1024 px (BLINK, section 4 and
    Fig. 7).

    The paper gives neither stroke nor lettering; 4 px and an em of 24 px at this height are ours.
    """

    radius: float = 10
    thickness: float = 4
    color: str = "red"
    reference_height: int | None = 1024
    label: Label | None = field(default_factory=lambda: Label(font_size=24, gap=6))


@dataclass(frozen=True)
class BlinkReleasedStyle(Circles):
    """blink_released: the markers as they stand in the released images of BLINK's Relative_Depth,
    of fixed size.

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
    """vlm2: VLM2-Bench's grid dots, after Scaffold: a dot and its text in black or white, without a
    plate.

    Radius 1/240 and em 1/40 of the image's width. The grid itself is a stage of its own; this puts
    its dots on marks.
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
    """som: Set-of-Mark (Yang et al., 2023): every region tinted in its own colour with a rim, its
    number inside.

    The number stands at the middle of the largest circle in the region, beside the region where it
    is too small.
    """

    color: str = "distinct"
    alpha: float = 0.3
    thickness: float = 2
    label: Label | None = field(default_factory=lambda: Label(text="{number}", placement="inside"))
