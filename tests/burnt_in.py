"""Real photographs with markers burnt into their pixels by several renderers and codecs."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.random import Generator

from looktwice.eval.tasks.photographs import PHOTOGRAPHS, load_photograph
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.drawing.text import render_text
from looktwice.prompting.markers import Circles, Label
from tests.optional import extension

styles = extension("toolkits.styles")

APART = 40  # pixels between two points
COLORS = {"red": (255, 0, 0), "white": (255, 255, 255)}


@dataclass(frozen=True, eq=False)
class BurntIn:
    """A photograph with burnt-in markers; its pixels are decoded from the encoded file."""

    pixels: Pixels
    points: tuple[Point, ...]
    how: str

    @property
    def sample(self) -> Sample:
        """A question about the points that does not reveal their coordinates."""
        choices = tuple(f"Point {point.label}" for point in self.points)
        return Sample(self.how, "Which point?", (Picture(self.pixels),), choices)


def make_picture(seed: int, marked: bool = True) -> BurntIn:
    """Return the picture of a seed, the same one at every call."""
    rng = np.random.default_rng([2024, seed])
    name, ground = _crop_photograph(rng)
    words = ["REF"] if rng.random() < 0.1 else list("ABCD"[: int(rng.integers(2, 5))])
    points = _points(rng, words, ground.shape[1], ground.shape[0]) if marked else ()
    how, drawn = _draw_markers(rng, ground, points)
    codec, pixels = _encode_and_decode(rng, drawn)
    return BurntIn(pixels, points, f"{seed}: {name}, {how}, {codec}")


def _crop_photograph(rng: Generator) -> tuple[str, Pixels]:
    """Crop a window of random size from a photograph."""
    name = str(rng.choice(PHOTOGRAPHS))
    pixels = load_photograph(name)
    share = rng.uniform(0.6, 1)
    height, width = (int(share * side) for side in pixels.shape[:2])
    top = int(rng.integers(pixels.shape[0] - height + 1))
    left = int(rng.integers(pixels.shape[1] - width + 1))
    scale = rng.uniform(320, 720) / max(height, width)
    size = round(width * scale), round(height * scale)
    window = pixels[top : top + height, left : left + width]
    return name, np.asarray(cv2.resize(window, size, interpolation=cv2.INTER_AREA), np.uint8)


def _points(rng: Generator, words: Sequence[str], width: int, height: int) -> tuple[Point, ...]:
    points: list[Point] = []
    while len(points) < len(words):
        x, y = (round(float(rng.uniform(3, side - 4)) * 4) / 4 for side in (width, height))
        if all(np.hypot(x - point.x, y - point.y) >= APART for point in points):
            points.append(Point(words[len(points)], x, y))
    return tuple(points)


def _draw_markers(rng: Generator, ground: Pixels, points: tuple[Point, ...]) -> tuple[str, Pixels]:
    """Draw the markers with our stage in any size, in BLINK's released style, or with OpenCV."""
    color = str(rng.choice(list(COLORS)))
    radius = float(rng.uniform(5, 15))
    hands = {"circles": 0.5, "paper": 0.1, "released": 0.1, "cut": 0.1, "pen": 0.2}
    hand = str(rng.choice(list(hands), p=list(hands.values())))
    if hand == "paper" and ground.shape[0] < 512:  # its circles would have a radius below 5
        hand = "circles"
    if hand == "pen":
        pixels = _draw_with_opencv(rng, ground, points, COLORS[color], round(radius))
        return f"pen, {color}, radius {radius:.0f}", pixels
    label = Label(font_size=float(rng.uniform(12, 20)))
    circles = Circles(color=color, radius=radius, thickness=float(rng.uniform(2, 4)), label=label)
    stages: dict[str, Circles] = {
        "circles": circles,
        "paper": styles.BlinkPaperStyle(),
        "released": styles.BlinkReleasedStyle(color=color),
    }
    try:
        stage = stages[hand]
        state = stage(State.start(Sample("s", "?", (Picture(ground),), marks=points)), NoModel())
    except (KeyError, ValueError):  # labels that do not fit inside, where BLINK's own are clipped
        return f"as released, {color}", draw_as_released(ground, points, COLORS[color])
    sizes = f"radius {stage.radius:.1f}, stroke {stage.thickness:.1f}"
    font = f"font {stage.label_settings.font_size:.0f}"
    return f"{hand}, {stage.color}, {sizes}, {font}", state.views[0].pixels


def draw_as_released(
    ground: Pixels, points: Sequence[Point], color: tuple[int, int, int]
) -> Pixels:
    """Draw rings of outer radius 6 and stroke 3, with a clipped 14 x 15 plate above them."""
    canvas = np.pad(ground, ((40, 40), (40, 40), (0, 0)))
    for point in points:
        x, y = round(point.x) + 40, round(point.y) + 40
        cv2.circle(canvas, (x, y), 5, color, 2)
        ink = render_text(point.label, 15, "blink")
        wide = ink.shape[1] + 4
        plate = np.zeros((15, wide, 3), np.uint8)
        plate[(15 - ink.shape[0]) // 2 :, 2:-2][: ink.shape[0]] = ink[..., None]
        canvas[y - 31 : y - 16, x - wide // 2 : x - wide // 2 + wide] = plate
    return canvas[40:-40, 40:-40].copy()


def _draw_with_opencv(
    rng: Generator,
    ground: Pixels,
    points: Sequence[Point],
    color: tuple[int, int, int],
    radius: int,
) -> Pixels:
    """Draw cv2's circle and text; the plate of the label is above the ring if there is room."""
    pixels = ground.copy()
    size, face, white = float(rng.uniform(0.4, 0.7)), cv2.FONT_HERSHEY_SIMPLEX, (255, 255, 255)
    for point in points:
        x, y = round(point.x), round(point.y)
        cv2.circle(pixels, (x, y), radius, color, 2, cv2.LINE_AA)
        (width, height), _ = cv2.getTextSize(point.label, face, size, 1)
        left = min(max(0, x - width // 2 - 2), pixels.shape[1] - width - 4)
        top = y - radius - 6 - height - 4 if y - radius - 6 - height - 4 >= 0 else y + radius + 6
        cv2.rectangle(pixels, (left, top), (left + width + 3, top + height + 4), (0, 0, 0), -1)
        corner = left + 2, top + height + 2
        cv2.putText(pixels, point.label, corner, face, size, white, 1, cv2.LINE_AA)
    return pixels


def _encode_and_decode(rng: Generator, pixels: Pixels) -> tuple[str, Pixels]:
    """Encode as PNG, or as JPEG of quality 75 to 95 with full or halved chroma, and decode."""
    if rng.random() < 0.2:
        return "PNG", pixels
    quality, whole = int(rng.integers(75, 96)), bool(rng.random() < 0.5)
    factor = cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444 if whole else cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420
    settings = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor]
    _, data = cv2.imencode(".jpg", pixels[:, :, ::-1], settings)
    decoded = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR_RGB), np.uint8)
    return f"JPEG {quality} {'4:4:4' if whole else '4:2:0'}", decoded
