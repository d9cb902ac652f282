"""Accuracy of the small networks of the extra `eyes`: words in five sizes, and salient boxes
compared with the true ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from looktwice.eval import MarkedScenes
from looktwice.eval.tasks.photographs import make_rng
from looktwice.extras.detection import PPOCR, MaskBoxes
from looktwice.extras.segmentation import U2Net
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels
from looktwice.specialists.results import Boxes
from tests.specialists.scenes import photograph

HEIGHTS = (8, 12, 16, 24, 40)  # pixels of the font
PICTURES, WORDS = 4, 8  # pictures of each height and ground, and words on each
LICENSE = Path(__file__).parents[1] / "LICENSE"


def vocabulary() -> list[str]:
    """Return the words with at least four letters of the licence, whose text does not change."""
    words = (word.strip("*_().,:;`'\"") for word in LICENSE.read_text(encoding="utf-8").split())
    return sorted({word for word in words if len(word) >= 4 and word.isascii() and word.isalpha()})


def draw_words(
    number: int, height: int, ground: Pixels
) -> tuple[Pixels, dict[tuple[float, float], str]]:
    """Write words below each other on a picture of 640 x 480 pixels; return it with the words'
    centres."""
    rng = make_rng("words", number, height)
    canvas = Image.fromarray(ground).resize((640, 480))
    draw, font, words = ImageDraw.Draw(canvas), ImageFont.load_default(height), {}
    for row, word in enumerate(rng.choice(vocabulary(), WORDS, replace=False)):
        x, y = float(rng.integers(10, 300)), 10.0 + 58 * row
        box = draw.textbbox((x, y), word, font)
        under = np.asarray(canvas.crop(box)).mean()
        draw.text((x, y), word, (20, 20, 20) if under > 110 else (245, 245, 245), font)
        words[(box[0] + box[2]) / 2, (box[1] + box[3]) / 2] = str(word)
    return np.array(canvas), words


def count_read_words(found: Boxes, words: dict[tuple[float, float], str]) -> int:
    """Count the words that occur exactly in the label of a box around their centre."""
    return sum(
        any(
            word in label.split()
            for label, box in zip(found.labels, found.xyxy, strict=True)
            if holds(box, place)
        )
        for place, word in words.items()
    )


def holds(box: np.ndarray, place: tuple[float, float]) -> bool:
    return bool(box[0] <= place[0] <= box[2] and box[1] <= place[1] <= box[3])


def test_words_at_five_sizes() -> None:
    grounds = {"plain": np.full((480, 640, 3), 215, np.uint8), "photograph": photograph("coffee")}
    print(
        "\nheight of the font in pixels | words read right on a plain ground, % | on a photograph,"
        " % | asked"
    )
    for height in HEIGHTS:
        shares = []
        for ground in grounds.values():
            made = [draw_words(number, height, ground) for number in range(PICTURES)]
            shares.append(
                100
                * sum(count_read_words(PPOCR()(pixels), words) for pixels, words in made)
                / (PICTURES * WORDS)
            )
        print(f"{height} | {shares[0]:.1f} | {shares[1]:.1f} | {PICTURES * WORDS}")
    assert shares[0] > 90


def test_salient_boxes_contain_the_asked_thing() -> None:
    print(
        "\nthings | height | scenes with a box | the largest box holds the thing's middle | IoU"
        " with it, median"
    )
    for things in (1, 3):
        for size in (36, 20):
            task = MarkedScenes(
                "shape", n=20, controls={"size": size, "things": things}, mark="box"
            )
            rows = [compare(item.sample.images[0].pixels, item.sample.marks[0]) for item in task]
            held, ious = np.array(rows).T
            print(
                f"{things} | {size} | {np.mean(~np.isnan(held)):.0%} |"
                f" {np.nansum(held) / len(rows):.0%}",
                end=" | ",
            )
            print(f"{np.nanmedian(ious):.2f}")


def compare(pixels: Pixels, thing: object) -> tuple[float, float]:
    """Return whether the largest salient box contains the middle of a thing, and their IoU; NaN
    without a box."""
    assert isinstance(thing, Box)
    found = MaskBoxes(U2Net())(pixels)
    if not len(found):
        return np.nan, np.nan
    box, true = found.xyxy[0], np.array(thing.xyxy)
    common = (np.minimum(box[2:], true[2:]) - np.maximum(box[:2], true[:2])).clip(0).prod()
    both = (box[2:] - box[:2]).prod() + (true[2:] - true[:2]).prod() - common
    return float(holds(box, ((true[0] + true[2]) / 2, (true[1] + true[3]) / 2))), float(
        common / both
    )
