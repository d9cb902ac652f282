"""SVG that a model wrote: found in its reply, checked before anything draws it, drawn apart, and
compared.

Nothing in it is ever run or fetched: only shapes, text, gradients and the like may stand in it,
what refers to anything outside itself is refused, and the drawing is done by resvg, which knows
neither scripts nor the network, in a process of its own with bounds on time and memory.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.networks.image_size import shrink

SPACE = "http://www.w3.org/2000/svg"
ELEMENTS = {
    "svg",
    "g",
    "defs",
    "symbol",
    "use",
    "title",
    "desc",
    "metadata",
    "style",
    "switch",
    "path",
    "rect",
    "circle",
    "ellipse",
    "line",
    "polyline",
    "polygon",
    "text",
    "tspan",
    "textPath",
    "linearGradient",
    "radialGradient",
    "stop",
    "pattern",
    "clipPath",
    "mask",
    "marker",
    "filter",
    "feBlend",
    "feColorMatrix",
    "feComposite",
    "feDropShadow",
    "feFlood",
    "feGaussianBlur",
    "feMerge",
    "feMergeNode",
    "feOffset",
}
LONGEST, DEEPEST, MOST = 500_000, 64, 20_000  # characters; elements inside one another; elements
LARGEST = 2048  # pixels of the longer side of a drawing
SECONDS = 20.0
_FOUND = re.compile(r"<svg\b.*?</svg\s*>", re.S | re.I)
_END = re.compile(r"</svg\s*>", re.I)
_DOCTYPE = re.compile(r"<!DOCTYPE\s+svg\b[^\[\]<>]*>", re.I)
_OUTSIDE = re.compile(r"""url\([\s'"]*+(?!\#)|@import|@font-face|expression\s*\(|\\""", re.I)
CHILD = Path(__file__).with_name("svg_process.py")


class SvgError(Exception):
    """An SVG that is not drawn; the message says why."""


def find_svg(reply: str) -> str | None:
    """The longest <svg> ... </svg> of a reply, fenced or not; None where there is none that was
    finished."""
    end = max(
        (match.end() for match in _END.finditer(reply)), default=0
    )  # beyond it none is finished
    return max(_FOUND.findall(reply, 0, end), key=len, default=None)


def sanitize_svg(code: str) -> str:
    """The same drawing, written anew with nothing in it but what is allowed. Raises SvgError."""
    if len(code) > LONGEST:
        raise SvgError(f"it has {len(code)} characters, more than {LONGEST}")
    plain = _DOCTYPE.sub("", code)
    if re.search(r"<!(?:DOCTYPE|ENTITY)", plain, re.I):
        raise SvgError("it declares entities")
    try:
        root = ET.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", plain).strip())
    except (ET.ParseError, ValueError) as exc:
        raise SvgError(f"it is no XML ({exc})") from exc
    level, count = [root], 0
    for _ in range(DEEPEST):
        if not level:
            break
        count += len(level)
        for element in level:
            _check_element(element)
        level = [child for element in level for child in element]
    if level or count > MOST:
        raise SvgError(
            f"it has more than {MOST} elements, or more than {DEEPEST} inside one another"
        )
    ET.register_namespace("", SPACE)
    return ET.tostring(root, encoding="unicode")


def _check_element(element: ET.Element) -> None:
    space, _, name = str(element.tag).rpartition("}")
    if space.strip("{") not in ("", SPACE) or name not in ELEMENTS:
        raise SvgError(f"it has <{name[:40]}>, which is not drawn")
    element.tag = f"{{{SPACE}}}{name}"
    for key, value in element.attrib.items():
        word = key.rpartition("}")[2].lower()
        if word.startswith("on"):
            raise SvgError(f"it has a script ({word[:40]})")
        if word in ("href", "src", "base") and not value.strip().startswith("#"):
            raise SvgError(f"it refers to something outside itself ({value.strip()[:60]!r})")
        if _OUTSIDE.search(value):
            raise SvgError(f"it refers to something outside itself ({word[:40]})")
    if name == "style" and _OUTSIDE.search("".join(element.itertext())):
        raise SvgError("its style refers to something outside itself")


def render_svg(code: str, width: int, height: int) -> Pixels:
    """HxWx3 RGB of the drawing on white, stretched to this size. Raises SvgError; nothing worse can
    happen.

    Text is drawn in the fonts of this machine.
    """
    if importlib.util.find_spec("resvg_py") is None:
        raise SvgError("resvg-py is missing: type `pip install 'looktwice[svg]'`")
    svg, scale = sanitize_svg(code), min(1.0, LARGEST / max(width, height))
    size = [str(max(1, round(side * scale))) for side in (width, height)]
    try:
        command = [sys.executable, "-P", str(CHILD), *size]
        done = subprocess.run(
            command, input=svg.encode(), capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise SvgError(f"it was not drawn within {SECONDS:g} seconds") from exc
    drawn = (
        cv2.imdecode(np.frombuffer(done.stdout, np.uint8), cv2.IMREAD_COLOR_RGB)
        if done.stdout
        else None
    )
    if done.returncode or drawn is None:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [
            f"exit code {done.returncode}"
        ]
        raise SvgError(f"resvg does not draw it ({said[-1][:200]})")
    pixels: Pixels = cv2.resize(drawn, (width, height), interpolation=cv2.INTER_AREA).astype(
        np.uint8
    )
    return pixels


def similarity(first: Pixels, second: Pixels, longest: int = 1024) -> float:
    """The structural similarity of two pictures of one size, -1 to 1 (1: the same); NaN below 7
    pixels.

    SSIM (Wang et al. 2004) over windows of 7 x 7 pixels, the mean of the three channels, as
    scikit-image has it; pictures with a side of more than `longest` pixels are made smaller first.
    """
    from skimage.metrics import structural_similarity

    first, second = shrink(first, longest), shrink(second, longest)
    if min(first.shape[:2]) < 7:
        return float("nan")
    return float(structural_similarity(first, second, channel_axis=2, data_range=255))  # type: ignore[no-untyped-call]
