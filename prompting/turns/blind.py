"""Answers from text alone: the images are first described in words, or redrawn as SVG code."""

from __future__ import annotations

import importlib.util
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree as ET

import cv2
import numpy as np

from looktwice.pipelines.model import CallOptions, Message, Model
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.state import State, Step, remark
from looktwice.pipelines.view import View
from looktwice.prompting.evidence import MissingAction, handle_missing
from looktwice.prompting.turns.ask import Ask, check_token_count
from looktwice.prompting.wording.instructions import Parts, Text, fill_in, get_text, read_texts
from looktwice.specialists.pixels import shrink

SVG_NAMESPACE = "http://www.w3.org/2000/svg"
ALLOWED_ELEMENTS_PATTERN = re.compile(
    "svg|g|defs|symbol|use|title|desc|metadata|style|switch|path|rect|circle|ellipse|line|"
    "polyline|polygon|text|tspan|textPath|linearGradient|radialGradient|stop|pattern|"
    "clipPath|mask|marker|filter|feBlend|feColorMatrix|feComposite|feDropShadow|feFlood|"
    "feGaussianBlur|feMerge|feMergeNode|feOffset"
)
MAX_CHARACTERS, MAX_DEPTH, MAX_ELEMENTS = (
    500_000,
    64,
    20_000,
)  # characters; nested elements; elements
MAX_DRAWING_SIDE = 2048  # pixels of the longer side of a drawing
MAX_COMPARED_SIDE = 1024  # pixels of the longer side at which drawings are compared
MAX_SECONDS = 20.0
_SVG_PATTERN = re.compile(r"<svg\b.*?</svg\s*>", re.S | re.I)
_SVG_END_PATTERN = re.compile(r"</svg\s*>", re.I)
_DOCTYPE_PATTERN = re.compile(r"<!DOCTYPE\s+svg\b[^\[\]<>]*>", re.I)
_EXTERNAL_REFERENCE_PATTERN = re.compile(
    r"""url\([\s'"]*+(?!\#)|@import|@font-face|expression\s*\(|\\""", re.I
)
SVG_PROCESS_FILE = Path(__file__).with_name("svg_process.py")


class SvgError(Exception):
    """The error for an SVG that cannot be drawn; its message says why."""


def find_svg(reply: str) -> str | None:
    """Return the longest complete <svg> ... </svg> of a reply, fenced or not, or None."""
    # no SVG ends after this position
    end = max((match.end() for match in _SVG_END_PATTERN.finditer(reply)), default=0)
    return max(_SVG_PATTERN.findall(reply, 0, end), key=len, default=None)


def sanitize_svg(code: str) -> str:
    """Check SVG code and return it rewritten into one namespace. Raises SvgError for anything that
    is not allowed."""
    if len(code) > MAX_CHARACTERS:
        raise SvgError(f"it has {len(code)} characters, more than {MAX_CHARACTERS}")
    plain = _DOCTYPE_PATTERN.sub("", code)
    if re.search(r"<!(?:DOCTYPE|ENTITY)", plain, re.I):
        raise SvgError("it declares entities")
    try:
        root = ET.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", plain).strip())
    except (ET.ParseError, ValueError) as exc:
        raise SvgError(f"it is not valid XML ({exc})") from exc
    level, count = [root], 0
    for _ in range(MAX_DEPTH):
        if not level:
            break
        count += len(level)
        for element in level:
            _check_element(element)
        level = [child for element in level for child in element]
    if level or count > MAX_ELEMENTS:
        raise SvgError(
            f"it has more than {MAX_ELEMENTS} elements, or elements nested more than"
            f" {MAX_DEPTH} deep"
        )
    ET.register_namespace("", SVG_NAMESPACE)
    return ET.tostring(root, encoding="unicode")


def _check_element(element: ET.Element) -> None:
    space, _, name = str(element.tag).rpartition("}")
    if space.strip("{") not in ("", SVG_NAMESPACE) or not ALLOWED_ELEMENTS_PATTERN.fullmatch(name):
        raise SvgError(f"it has <{name[:40]}>, which is not supported")
    element.tag = f"{{{SVG_NAMESPACE}}}{name}"
    outside = "has an external reference"
    for key, value in element.attrib.items():
        word = key.rpartition("}")[2].lower()
        if word.startswith("on"):
            raise SvgError(f"it has a script ({word[:40]})")
        if word in ("href", "src", "base") and not value.strip().startswith("#"):
            raise SvgError(f"it {outside} ({value.strip()[:60]!r})")
        if _EXTERNAL_REFERENCE_PATTERN.search(value):
            raise SvgError(f"it {outside} ({word[:40]})")
    if name == "style" and _EXTERNAL_REFERENCE_PATTERN.search("".join(element.itertext())):
        raise SvgError(f"its style {outside}")


def render_svg(code: str, width: int, height: int) -> Pixels:
    """Render the drawing on white, stretched to this size, and return it as HxWx3 RGB. Raises
    SvgError and no other exception.

    Text is drawn in the fonts of this machine.
    """
    if importlib.util.find_spec("resvg_py") is None:
        from looktwice.pipelines.runtime.install import format_install

        raise SvgError(f"resvg-py is not installed; type: {format_install('svg')}")
    svg, scale = sanitize_svg(code), min(1.0, MAX_DRAWING_SIDE / max(width, height))
    size = [str(max(1, round(side * scale))) for side in (width, height)]
    try:
        command = [sys.executable, "-P", str(SVG_PROCESS_FILE), *size]
        done = subprocess.run(
            command, input=svg.encode(), capture_output=True, timeout=MAX_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise SvgError(f"it was not drawn within {MAX_SECONDS:g} seconds") from exc
    drawn: Any = None
    if done.stdout:
        drawn = cv2.imdecode(np.frombuffer(done.stdout, np.uint8), cv2.IMREAD_COLOR_RGB)
    if done.returncode or drawn is None:
        complaints = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = complaints[-1] if complaints else f"exit code {done.returncode}"
        raise SvgError(f"resvg cannot draw it ({reason[:200]})")
    pixels = cv2.resize(drawn, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(pixels, np.uint8)


def measure_similarity(first: Pixels, second: Pixels) -> float:
    """Return the structural similarity of two pictures of the same size, from -1 to 1 (identical);
    NaN if a side is below 7 pixels.

    SSIM (Wang et al. 2004) over windows of 7 x 7 pixels, averaged over the three channels, as
    implemented in scikit-image; pictures with a side of more than `MAX_COMPARED_SIDE` pixels are
    downscaled first.
    """
    from skimage.metrics import structural_similarity

    first, second = shrink(first, MAX_COMPARED_SIDE), shrink(second, MAX_COMPARED_SIDE)
    if min(first.shape[:2]) < 7:
        return float("nan")
    compare: Any = structural_similarity
    return float(compare(first, second, channel_axis=2, data_range=255))


CAPTION_PROMPT = """\
Describe this image so completely that somebody who cannot see it could answer any question about \
it.
Go through it from corner to corner: every thing and person, how many of each, shape, colour, \
material, size, what \
lies beside, above, in front of and behind what, light and shade, text, and the style of the \
picture.
Where marks are drawn on it, such as circles, boxes, points or letters, say of each what it is \
called and what exactly \
lies under it.
Only describe; do not guess what might be asked."""
ANSWER_FROM_CAPTION_PROMPT = """\
\
The question below belongs to images that you cannot see. This is how they were described to you.

{descriptions}

{prompt}"""


@dataclass(frozen=True)
class CaptionThenAnswer:
    """Asks for a description of each view, then for the answer from the descriptions alone: BLINK's
    Caption + LLM.

    BLINK, section 4.3: if a blind model answers as well as one that sees, captioning is enough for
    the benchmark. `caption` asks for a dense description and does not contain the question; with
    `each: false` it asks for one description of all views together. `options` limits the length of
    a description, and only its first `longest` characters are used. `frame` is the prompt of the
    answering turn, in which `{descriptions}` and `{prompt}` are filled in; it is sent as `ask`
    specifies, without images. `captioner` and `answerer` name other models, as `{ref: NAME}`; null
    uses the arm's own model.

    The answer is asked for in a new conversation, which keeps only the system message. If a
    description is empty, `missing` decides: "abstain", "fail" the sample, or "keep" it and ask
    anyway.
    """

    caption: Text = CAPTION_PROMPT
    frame: Text = ANSWER_FROM_CAPTION_PROMPT
    each: bool = True
    captioner: Model | None = None
    answerer: Model | None = None
    options: CallOptions = field(default_factory=lambda: CallOptions(max_tokens=1024))
    ask: Ask = field(default_factory=Ask)
    longest: int = 10_000
    missing: MissingAction = "abstain"

    def __post_init__(self) -> None:
        read_texts(self)
        if "{descriptions}" not in get_text(self.frame):
            raise ValueError("frame has no {descriptions}, so the answer would not use the images")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the blind conversation. Raises ModelError, and ValueError if there
        is no view."""
        if not state.views:
            raise ValueError(f"sample {state.sample.id} has no image that could be described")
        groups = {f"image {number}": (view,) for number, view in enumerate(state.views, 1)}
        described, empty = [], []
        for name, views in groups.items() if self.each else [("the images", state.views)]:
            what = f"the description of {name}"
            text, notes = ask_description(
                self, state, (*views, get_text(self.caption)), what, model
            )
            state = state.with_notes(*notes)
            described.append(f"{name[0].upper()}{name[1:]}: {text or '(no description)'}")
            empty += [] if text else [f"{what} is empty"]
        return answer_without_images(self, state, model, empty, descriptions="\n\n".join(described))


def ask_description(
    stage: CaptionThenAnswer | RedrawThenAnswer, state: State, parts: Parts, what: str, model: Model
) -> tuple[str, list[str]]:
    """Return the reply to a single user turn outside the conversation, without <think> parts and
    cut to the `longest` that the stage allows, and notes on what was cut off. Raises ModelError."""
    own = stage.captioner if isinstance(stage, CaptionThenAnswer) else stage.drawer
    sent = (Message("user", parts),)
    reply = (own or model)(sent, draw=state.draw, options=stage.options)
    for note in check_token_count(sent, reply):
        remark(note)
    text, notes = strip_thoughts(reply.text).strip(), []
    if reply.finish == "length":
        notes.append(f"{what} was cut off by its token limit")
    if len(text) > stage.longest:
        notes.append(
            f"only the first {stage.longest} of {len(text)} characters of {what} were used"
        )
    return text[: stage.longest], notes


def answer_without_images(
    stage: CaptionThenAnswer | RedrawThenAnswer,
    state: State,
    model: Model,
    lacking: Sequence[str],
    **texts: str,
) -> State:
    """Ask in a new conversation without images. The prompt is the stage's `frame`, filled in with
    `texts`; the prompt and the views of the state stay unchanged. If anything is `lacking`,
    `missing` may end the sample first.
    """
    if lacking:
        state = handle_missing(state, stage.missing, lacking)
        if state.ended:
            return state
    prompt = fill_in(stage.frame, prompt=state.prompt, **texts)
    opening = tuple(message for message in state.messages if message.role == "system")
    ask = replace(stage.ask, images="none")
    asked = ask(state.replace(prompt=prompt, messages=opening), stage.answerer or model)
    return asked.replace(prompt=state.prompt)


REDRAW_PROMPT = """\
Redraw this image as one complete SVG document, as true to it as you can: same size and \
proportions, and \
every shape with its place, size, rotation, colour and outline, and all text. Give the SVG code \
and nothing else."""
ANSWER_FROM_SVG_PROMPT = """Answer the question from the following SVG code alone.

{code}

{prompt}"""


@dataclass(frozen=True)
class RedrawThenAnswer:
    """Asks for each view as SVG code, then for the answer from the code alone: Do You See Me, App.
    M.

    `redraw` asks for the code and does not contain the question; `options` limits the length of the
    code, and only its first `longest` characters are used. `frame` is the prompt of the answering
    turn, in which `{code}` and `{prompt}` are filled in; it is sent as `ask` specifies, without
    images. `drawer` and `answerer` name other models, as `{ref: NAME}`; null uses the arm's own
    model. The answer is asked for in a new conversation, which keeps only the system message.

    With `compare` each SVG is rendered (see `prompting.turns.blind`), and the record measures its
    structural similarity to the view (`ssim`) and that of a blank page (`ssim_blank`), which is
    high too if the view is a drawing. The renderings are in the trace, which `looktwice view
    --sample` shows.

    If an SVG cannot be rendered (broken, with a script or external references, or without
    resvg-py), a note gives the reason, and its code is used anyway. If a reply contains no complete
    SVG, `missing` decides: "abstain", "fail" the sample, or "keep" it and ask with the reply
    itself.
    """

    redraw: Text = REDRAW_PROMPT
    frame: Text = ANSWER_FROM_SVG_PROMPT
    drawer: Model | None = None
    answerer: Model | None = None
    options: CallOptions = field(default_factory=lambda: CallOptions(max_tokens=8192))
    ask: Ask = field(default_factory=Ask)
    compare: bool = True
    longest: int = 100_000
    missing: MissingAction = "abstain"

    def __post_init__(self) -> None:
        read_texts(self)
        if "{code}" not in get_text(self.frame):
            raise ValueError("frame has no {code}, so the answer would not use the images")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the blind conversation. Raises ModelError, and ValueError if there
        is no view."""
        if not state.views:
            raise ValueError(f"sample {state.sample.id} has no image that could be redrawn")
        codes, lacking = list[str](), list[str]()
        drawn, alike = list[View](), list[tuple[float, float]]()
        for number, view in enumerate(state.views, 1):
            what = f"the redrawing of image {number}"
            text, notes = ask_description(self, state, (view, get_text(self.redraw)), what, model)
            code = find_svg(text)
            codes.append(code or text)
            if not code:
                lacking.append(f"{what} contains no complete SVG")
            elif self.compare:
                pixels, scores, note = compare_drawing(code, view.pixels)
                notes.append(f"image {number}: {note}")
                drawn += [View(Picture(pixels))] if pixels is not None else []
                alike += [scores] if scores else []
            state = state.with_notes(*notes)
        for name, values in zip(("ssim", "ssim_blank"), zip(*alike, strict=True), strict=False):
            state = state.measured(name, fmean(values))
        if drawn:
            step = Step("redrawn", 0.0, (), tuple(drawn), state.prompt)
            state = state.replace(trace=(*state.trace, step))
        if len(codes) > 1:
            codes = [f"Image {number}:\n{code}" for number, code in enumerate(codes, 1)]
        return answer_without_images(self, state, model, lacking, code="\n\n".join(codes))


def compare_drawing(
    code: str, pixels: Pixels
) -> tuple[Pixels | None, tuple[float, float] | None, str]:
    """Render the SVG at the size of an image. Return the rendering or None, the structural
    similarities of the rendering and of a blank page to the image or None, and a note on them."""
    try:
        drawn = render_svg(code, pixels.shape[1], pixels.shape[0])
    except SvgError as exc:
        return None, None, f"the SVG was not drawn: {exc}"
    alike, blank = (
        measure_similarity(pixels, drawn),
        measure_similarity(pixels, np.full_like(pixels, 255)),
    )
    if math.isnan(alike):
        return drawn, None, "the SVG was drawn; the image is too small to be compared"
    note = f"the SVG has an SSIM of {alike:.3f} with the image, a blank page {blank:.3f}"
    return drawn, (alike, blank), note
