"""Placeholders that mark the positions of images in a prompt, as benchmarks spell them and as the
tokens of models do."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BEGIN_REGEX = (
    r"<\|(?:vision_start|vision_bos|begin_of_image|image_start)\|>"  # Qwen, GLM, Llama, Ernie
    r"|<\|media_begin\|>image<\|media_content\|>"  # Kimi
    r"|<(?:img|im_start|boi|start_of_image|fake_token_around_image)>"  # InternVL, Gemma, Idefics
)
_PATCH_REGEX = (
    r"<\|(?:image(?:_pad|@placeholder)?|img|imgpad|media_pad)\|>"
    r"|<(?:image|im_patch|image_soft_token|img_context)>"
)
_END_REGEX = (
    r"<\|(?:vision_end|vision_eos|end_of_image|image_end|media_end)\|>"
    r"|<(?:/img|im_end|eoi|end_of_image|fake_token_around_image)>"
)
_OPENING_BRACKET_REGEX = (
    r"(?:<|&lt;|(?<!!)\[|(?<!\w)\{)\|?"  # no picture of Markdown, no argument of LaTeX
)
_CLOSING_BRACKET_REGEX = r"[ /]?\|?(?:>|&gt;|[\]}](?!\())"
IMAGE_PLACE_PATTERN = re.compile(
    rf"(?:{_BEGIN_REGEX})(?:{_PATCH_REGEX})+(?:{_END_REGEX})?"
    r"|<image><image></image>|\(?<image>\./</image>\)?"  # Mantis, MiniCPM-V
    r"|\[img\](?:\[img(?:_break)?\])*\[img_end\]"  # Pixtral
    r"|(?:<img_context>)+|(?:<im_patch>)+|<start_of_image>|<\|(?:img|imgpad|media_pad)\|>"
    rf"|<image>{_END_REGEX}"  # one that continues a row of Idefics' tiles
    rf"|{_OPENING_BRACKET_REGEX}(?:image|img|picture)[ _:#-]{{0,2}}(?P<number>(?!000)\d{{1,9}})"
    rf"{_CLOSING_BRACKET_REGEX}"
    r"|<\|?image(?:[ _-]?(?:pad|placeholder|soft_token|token|here)|@placeholder)?/?\|?>"
    rf"|{_OPENING_BRACKET_REGEX}image{_CLOSING_BRACKET_REGEX}|\[img\]",
    re.I,
)
"""The placeholder of one image. It may have a number; without one it stands for the next image."""
NUMBERED_PLACE_PATTERN = re.compile(r"<image \d+>")
"""This project's spelling, which must name an existing image."""


def split_at_images(prompt: str, images: int) -> list[str]:
    """Split a prompt for `images` images: text, number of an image, text, and so on.

    Numbers count from 1, or from 0 if one of them is 0. Placeholders without a number stand for the
    images that no number names, in order, and the last one for all that are left. A placeholder
    without an image stays in the text, except for this project's own spelling, such as `<image 9>`,
    which is always split off.
    """
    matches = list(IMAGE_PLACE_PATTERN.finditer(prompt))
    numbers = [int(match["number"]) for match in matches if match["number"]]
    first = min(numbers, default=1) == 0
    named = {number + first for number in numbers}
    free = [number for number in range(1, images + 1) if number not in named]
    last = max((match.start() for match in matches if not match["number"]), default=-1)
    pieces, end = list[str](), 0
    for match in matches:
        if match["number"]:
            number = int(match["number"]) + first
            is_there = 1 <= number <= images or NUMBERED_PLACE_PATTERN.fullmatch(match[0])
            here = [number] if is_there else []
        else:
            here, free = (free, []) if match.start() == last else (free[:1], free[1:])
        if here:
            pieces += _interleave(prompt[end : match.start()], here)
            end = match.end()
    return [*pieces, prompt[end:]]


def _interleave(text: str, numbers: list[int]) -> Iterator[str]:
    for number in numbers:
        yield text
        yield str(number)
        text = ""


def find_placeholder(text: str) -> str:
    """Return the first placeholder in a text, or an empty string."""
    found = IMAGE_PLACE_PATTERN.search(text)
    return found[0] if found else ""
