"""Redrawn answers: the model writes each image as SVG, and a conversation that sees the code alone answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from looktwice.pipelines.model import Model, Want
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.state import State, Step
from looktwice.pipelines.view import View
from looktwice.prompting.captions import blind, bounded
from looktwice.prompting.sources import Missing, lack
from looktwice.prompting.svg import NotRendered, render_svg, similarity, svg_in
from looktwice.prompting.texts import Text, filled, read_texts, said
from looktwice.prompting.turns import Ask, ask_alone

__all__ = ["RedrawThenAnswer"]

REDRAW = """Redraw this image as one complete SVG document, as true to it as you can: same size and proportions, and \
every shape with its place, size, rotation, colour and outline, and all text. Give the SVG code and nothing else."""
FRAME = """Answer the question from the following SVG code alone.

{code}

{prompt}"""


@dataclass(frozen=True)
class RedrawThenAnswer:
    """Has each view written as SVG without the question, and answers from the code alone: Do You See Me, App. M.

    `redraw` asks for the code, `want` bounds it; `frame` holds the answering turn, in which `{code}` and `{prompt}`
    are filled in, sent as `ask` says, without images. `drawer` and `answerer` name other models, as `{ref: NAME}`;
    null is the point's own. The answer is a conversation of its own, which takes over nothing but a system text.

    With `compare` each SVG is drawn (see `prompting.svg`) and the record notes its structural similarity to what was
    shown, beside that of a blank page, which on drawings is high as well; the drawings stand in the trace, so that
    `looktwice show` has them. What is not drawn, because it is broken, refers to something outside itself or holds a
    script, or because resvg-py is missing, is noted with the reason and asked about all the same: code is only words.
    Where a reply holds no finished SVG, `missing` says what becomes of the sample; "keep" asks with the reply itself.
    """

    redraw: Text = REDRAW
    frame: Text = FRAME
    drawer: Model | None = None
    answerer: Model | None = None
    want: Want = field(default_factory=lambda: Want(max_tokens=8192))
    ask: Ask = field(default_factory=Ask)
    compare: bool = True
    longest: int = 100_000
    missing: Missing = "abstain"

    def __post_init__(self) -> None:
        read_texts(self)
        if "{code}" not in said(self.frame):
            raise ValueError("frame has no {code}, so nothing would be told of the images")

    def __call__(self, state: State, model: Model) -> State:
        """The state with the blind conversation. Raises ModelError, and ValueError where there is no view."""
        if not state.views:
            raise ValueError(f"sample {state.sample.id} has no image that could be redrawn")
        codes, drawn, lacking = list[str](), list[View](), list[str]()
        for number, view in enumerate(state.views, 1):
            code, text, notes = self._redrawn(state, view, number, model)
            codes.append(code or text)
            lacking += [] if code else [f"the redrawing of image {number} holds no finished SVG"]
            if code and self.compare:
                picture, note = compared(code, view)
                notes.append(f"image {number}: {note}")
                drawn += [View(picture)] if picture else []
            state = state.noted(*notes)
        if drawn:
            state = state.replace(trace=(*state.trace, Step("redrawn", 0.0, (), tuple(drawn), state.prompt)))
        if lacking:
            state = lack(state, self.missing, lacking)
            if state.ended:
                return state
        told = "\n\n".join(f"Image {n}:\n{code}" if len(codes) > 1 else code for n, code in enumerate(codes, 1))
        return blind(state, filled(self.frame, code=told, prompt=state.prompt), self.ask, self.answerer or model)

    def _redrawn(self, state: State, view: View, number: int, model: Model) -> tuple[str | None, str, list[str]]:
        """The SVG of a view, or None; all that the reply says; notes."""
        reply = ask_alone(state, (view, said(self.redraw)), self.drawer or model, self.want)
        text, notes = bounded(reply, self.longest, f"the redrawing of image {number}")
        return svg_in(text), text, notes


def compared(code: str, view: View) -> tuple[Picture | None, str]:
    """The drawing of an SVG in the size of a view, or None, and what to note of it."""
    width, height = view.size
    try:
        pixels = render_svg(code, width, height)
    except NotRendered as exc:
        return None, f"the SVG was not drawn: {exc}"
    found = similarity(view.pixels, pixels)
    if math.isnan(found):
        return Picture(pixels), "the SVG was drawn; the image is too small to be compared"
    blank = similarity(view.pixels, np.full_like(view.pixels, 255))
    return Picture(pixels), f"the SVG has SSIM {found:.3f} with the image, where a blank page has {blank:.3f}"
