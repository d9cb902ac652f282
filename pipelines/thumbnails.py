"""Small pictures: those that pages show, and what tells that two pictures are alike."""

from __future__ import annotations

import io
import math
from html import escape
from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image

from looktwice.pipelines.picture import JPEG, Payload, Picture

if TYPE_CHECKING:
    from looktwice.pipelines.state import State

__all__: list[str] = []


def thumbnail(picture: Picture, longest: int = 320, quality: int = 85) -> str:
    """A data URL of the picture with its longest side at most `longest` pixels, as JPEG with a
    colour for every pixel, since thin marks would lose theirs."""
    pixels = np.asarray(picture.coarse(longest))
    scale = longest / max(pixels.shape[:2])
    if scale < 1:
        height, width = (max(1, round(side * scale)) for side in pixels.shape[:2])
        # Pillow takes ten times as long
        how = cv2.INTER_LINEAR if scale > 0.5 else cv2.INTER_AREA
        pixels = cv2.resize(pixels, (width, height), interpolation=how)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality, subsampling=0)
    return Payload(buffer.getvalue(), JPEG, "", "").data_url


HASH_SIDE, SQUARE, PER_DOUBLING = 8, 1 << 15, 8
FLAT = 2  # grey levels: less is what a codec leaves in an even area


def perceptual_hash(picture: Picture) -> int:
    """Which of 8 x 8 neighbours in the grey thumbnail is brighter (dHash), and above these 64 bits
    the aspect ratio in eighths of a doubling; it outlives codecs and resizing. Raises
    PictureError."""
    grey = picture.small(32 * HASH_SIDE).convert("L")
    levels = np.asarray(grey.resize((HASH_SIDE + 1, HASH_SIDE), Image.Resampling.BOX), np.int16)
    brighter = np.packbits(np.diff(levels, axis=1) > FLAT).tobytes()
    width, height = picture.size
    aspect = SQUARE + round(PER_DOUBLING * math.log2(width / height))
    return aspect << HASH_SIDE**2 | int.from_bytes(brighter)


def hash_distance(first: int, second: int) -> int:
    """How many bits of two perceptual hashes differ, and how many steps their aspect ratios: 0 to
    10 for a picture that was encoded or resized again, some 25 for two photographs."""
    brighter = (1 << HASH_SIDE**2) - 1
    steps = abs((first >> HASH_SIDE**2) - (second >> HASH_SIDE**2))
    return ((first ^ second) & brighter).bit_count() + steps


def state_html(state: State, longest: int = 320) -> str:
    """The views of a `State` side by side, then its prompt, every turn, and the answer."""
    views, turns = "", ""
    for number, view in enumerate(state.views, 1):
        caption = "view {}, {}x{}".format(number, *view.size)
        views += (
            '<figure style="margin:0"><img'
            f' src="{thumbnail(view.picture, longest)}"><figcaption>{caption}</figcaption></figure>'
        )
    for message in state.messages:
        count = len(message.views)
        images = f"[{count} image{'s' * (count > 1)}] " if count else ""
        turns += f"<p><b>{message.role}</b> {images}{escape(message.text)}</p>"
    words = turns or f"<p><b>prompt</b> {escape(state.prompt)}</p>"
    answer = state.answer if state.answer is not None else (state.reason or "no answer yet")
    return (
        f'<div style="font-family:sans-serif"><p><b>{escape(state.sample.id)}</b></p><div'
        f' style="display:flex;gap:8px;flex-wrap:wrap">{views}</div><div'
        f' style="white-space:pre-wrap">{words}</div><p><b>answer</b> {escape(answer)}</p></div>'
    )
