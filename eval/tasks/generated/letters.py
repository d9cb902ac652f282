"""Do You See Me's letter disambiguation: letters of 7 x 5 dots whose gaps and colours make them
hard to see."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterator, Sequence
from itertools import product
from string import ascii_uppercase

import numpy as np

from looktwice.eval.tasks.do_you_see_me.subtasks import SUBTASKS
from looktwice.eval.tasks.generated.canvas import BLACK, RGB, WHITE, blank, fill, rounded_square
from looktwice.eval.tasks.generated.scene import Control, Scene, SceneParameters, SceneType
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

NAME = "letter_disambiguation"
SIZE = 400  # pixels of the square of a letter; a fifth of it lies between two
APART = 80
# A to Z: seven rows of five dots, each row a number of base 32
_ROWS = (
    "EHHVHHH",
    "UHHUHHU",
    "EHGGGHE",
    "UHHHHHU",
    "VGGUGGV",
    "VGGUGGG",
    "EHGNHHE",
    "HHHVHHH",
    "V44444V",
    "7222IIC",
    "HIKOKIH",
    "GGGGGGV",
    "HRLHHHH",
    "HPLJHHH",
    "EHHHHHE",
    "UHHUGGG",
    "EHHHLID",
    "UHHUKIH",
    "EHGE1HE",
    "V444444",
    "HHHHHHE",
    "HHHHHA4",
    "HHHHLRH",
    "HHA4AHH",
    "HHA4444",
    "V1248GV",
)
DOTS: dict[str, tuple[int, ...]] = {
    letter: tuple(int(row, 32) for row in rows)
    for letter, rows in zip(ascii_uppercase, _ROWS, strict=True)
}
GROUNDS: tuple[RGB, ...] = (
    (250, 243, 221),
    (232, 243, 214),
    (252, 228, 236),
    (240, 244, 248),
    (255, 230, 109),
)
# hue in degrees, saturation, value
SHIFTS = {1: (180, 1.2, 0.85), 2: (60, 1.2, 0.9), 3: (10, 1.05, 0.95)}
RATIOS = {1: 1.7, 2: 1.3, 3: 1.1}
"""Contrast ratios (WCAG 2) of the levels easy, medium and hard: about the medians of the authors'
on their grounds."""

RATIO = re.compile(r"(\d+(?:\.\d+)?):1")


class Contrast(Control):
    """Level 1, 2 or 3, or a contrast ratio as text, such as "1.5:1"."""

    def fault(self, value: object) -> str:
        """What is wrong with a level; empty where nothing is."""
        if value in RATIOS or (
            isinstance(value, str)
            and (ratio := RATIO.fullmatch(value))
            and 1 < float(ratio[1]) <= 15
        ):
            return ""
        return (
            f'{self.name} is 1 (easy), 2 or 3 (hard), or a ratio such as "1.5:1" up to "15:1",'
            f" found {value!r}"
        )


def contrast(color: RGB, ground: RGB) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2)."""
    low, high = sorted((_luminance(color), _luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: RGB) -> float:
    parts = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (part / 255 for part in color)
    ]
    return float(np.dot((0.2126, 0.7152, 0.0722), parts))


def foreground(ground: RGB, level: int | str, official: bool) -> RGB:
    """The colour of the dots: the authors' shift of hue, saturation and value, and unless
    `official` made darker or lighter until its contrast with the ground is that of the level."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(part / 255 for part in ground))
    turn, more, less = SHIFTS[level if isinstance(level, int) else 1]
    tint = colorsys.hsv_to_rgb(
        (hue + turn / 360) % 1, min(1, saturation * more), min(1, value * less)
    )
    color = _rgb([255 * part for part in tint])
    if official and level in SHIFTS:
        return color
    ratio = RATIOS[level] if isinstance(level, int) else float(level.partition(":")[0])
    end = np.array(BLACK if contrast(color, ground) < ratio else WHITE)
    shares = np.linspace(0, 1, 512)
    mixed = [_rgb((1 - share) * np.array(color) + share * end) for share in shares]
    darker = [mix for mix in mixed if _luminance(mix) < _luminance(ground)]
    return min(darker, key=lambda mix: abs(contrast(mix, ground) - ratio), default=mixed[0])


def _rgb(parts: Sequence[float]) -> RGB:
    red, green, blue = (int(part) for part in parts)
    return red, green, blue


def draw_letters(params: SceneParameters) -> Iterator[Scene]:
    """Random letters, which may repeat, on one of five grounds."""
    letters = [params.pick(tuple(DOTS)) for _ in range(params.levels["num_letters"])]
    ground = params.pick(GROUNDS)
    color = foreground(ground, params.levels["contrast"], params.official)
    gap = SIZE * params.levels["spacing"]
    dot = 0.8 * SIZE / 7 - gap  # what the gap leaves of a seventh of the square in its padding
    width, height = 5 * dot + 4 * gap, 7 * dot + 6 * gap
    top = (SIZE - height) / 2
    lefts = [number * (SIZE + APART) + (SIZE - width) / 2 for number in range(len(letters))]
    marks = [Box(f"letter {n}", x, top, x + width, top + height) for n, x in enumerate(lefts, 1)]
    truth = {"letters": letters, "ground": list(ground), "color": list(color)}
    meta = {"dot": round(dot, 2), "contrast_ratio": round(contrast(color, ground), 3)}

    def paint() -> Pixels:
        wide = len(letters) * SIZE + (len(letters) - 1) * APART
        pixels = blank(wide, SIZE)
        for end in (0, wide - SIZE):
            fill(pixels, rounded_square(end, 0, SIZE, SIZE / 10), ground)
        pixels[:, SIZE // 2 : wide - SIZE // 2] = ground
        for letter, left in zip(letters, lefts, strict=True):
            for (row, bits), column in product(enumerate(DOTS[letter]), range(5)):
                if bits >> (4 - column) & 1:
                    x, y = left + column * (dot + gap), top + row * (dot + gap)
                    fill(pixels, rounded_square(x, y, dot, dot / 10), color)
        return pixels

    yield Scene(SUBTASKS["2D"][NAME].question, "".join(letters), truth, paint, tuple(marks), meta)


KIND = SceneType(
    NAME,
    "letters",
    (
        Control("num_letters", (1, 5, 9), 1, 40, whole=True),
        Contrast("contrast", (1, 2, 3)),
        Control("spacing", (0.04, 0.08, 0.1), 0.005, 0.11),
    ),
    draw_letters,
    ("on near-white grounds every contrast level is faint, so contrast does not follow its level",),
)
