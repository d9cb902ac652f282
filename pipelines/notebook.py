"""How a notebook shows a state: its views, its turns and its answer."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

import cv2

from looktwice.pipelines.picture import Picture

__all__: list[str] = []


def thumbnail(picture: Picture, longest: int = 320, quality: int = 85) -> str:
    """A JPEG data URL of the picture with its longest side at most `longest` pixels."""
    pixels = picture.reduced(longest)
    height, width = pixels.shape[:2]
    scale = min(1.0, longest / max(height, width))
    if scale < 1.0:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        # which then sees every pixel too, in a third
        how = cv2.INTER_AREA if scale <= 0.5 else cv2.INTER_LINEAR
        pixels = cv2.resize(pixels, size, interpolation=how)  # type: ignore[assignment]
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return "data:image/jpeg;base64," + base64.b64encode(data.tobytes()).decode()


def state_html(state: Any, longest: int = 320) -> str:
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
