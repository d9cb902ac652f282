"""Blind answers: the images are told in words first, and a conversation without any image answers from these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from looktwice.pipelines.model import Model, Reply, Want
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.history import spoken
from looktwice.prompting.sources import Missing, lack
from looktwice.prompting.texts import Text, filled, read_texts, said
from looktwice.prompting.turns import Ask, ask_alone

__all__ = ["CaptionThenAnswer", "blind"]

CAPTION = """Describe this image so completely that somebody who cannot see it could answer any question about it.
Go through it from corner to corner: every thing and person, how many of each, shape, colour, material, size, what \
lies beside, above, in front of and behind what, light and shade, text, and the style of the picture.
Where marks are drawn on it, such as circles, boxes, points or letters, say of each what it is called and what exactly \
lies under it.
Only describe; do not guess what might be asked."""
FRAME = """The question below belongs to images that you cannot see. This is how they were described to you.

{descriptions}

{prompt}"""


@dataclass(frozen=True)
class CaptionThenAnswer:
    """Has each view described without the question, and answers from the descriptions alone: BLINK's Caption + LLM.

    BLINK, section 4.3: if a blind model answers as well as one that sees, a benchmark asks for no more than
    captioning. `caption` asks for a dense description that no task colours; with `each: false` one for all views
    together. `want` bounds it, and of one longer than `longest` characters the beginning counts. `frame` holds the
    answering turn, in which `{descriptions}` and `{prompt}` are filled in; it is sent as `ask` says, without images.
    `captioner` and `answerer` name other models, as `{ref: NAME}`; null is the point's own.

    The answer is a conversation of its own, which takes over nothing but a system text. Where a description is empty,
    `missing` says what becomes of the sample: no answer for that reason, a failure, or an answer all the same.
    """

    caption: Text = CAPTION
    frame: Text = FRAME
    each: bool = True
    captioner: Model | None = None
    answerer: Model | None = None
    want: Want = field(default_factory=lambda: Want(max_tokens=1024))
    ask: Ask = field(default_factory=Ask)
    longest: int = 10_000
    missing: Missing = "abstain"

    def __post_init__(self) -> None:
        read_texts(self)
        if "{descriptions}" not in said(self.frame):
            raise ValueError("frame has no {descriptions}, so nothing would be told of the images")

    def __call__(self, state: State, model: Model) -> State:
        """The state with the blind conversation. Raises ModelError, and ValueError where there is no view."""
        if not state.views:
            raise ValueError(f"sample {state.sample.id} has no image that could be described")
        captions, notes = self._captions(state, self.captioner or model)
        empty = [f"the description of {name} is empty" for name, text in captions.items() if not text]
        state = state.noted(*notes)
        if empty:
            state = lack(state, self.missing, empty)
            if state.ended:
                return state
        told = [f"{name[0].upper()}{name[1:]}: {text or '(no description)'}" for name, text in captions.items()]
        words = filled(self.frame, descriptions="\n\n".join(told), prompt=state.prompt)
        return blind(state, words, self.ask, self.answerer or model)

    def _captions(self, state: State, model: Model) -> tuple[Mapping[str, str], list[str]]:
        """The description of each image by its name, empty where none came, and notes."""
        groups: list[Sequence[View]] = [(view,) for view in state.views] if self.each else [state.views]
        names = [f"image {number}" for number in range(1, len(state.views) + 1)] if self.each else ["the images"]
        captions, notes = {}, list[str]()
        for name, views in zip(names, groups, strict=True):
            reply = ask_alone(state, (*views, said(self.caption)), model, self.want)
            captions[name], more = bounded(reply, self.longest, f"the description of {name}")
            notes += more
        return captions, notes


def blind(state: State, words: str, ask: Ask, model: Model) -> State:
    """The state with a conversation that opens with these words and shows no image; prompt and views stay."""
    opening = tuple(message for message in state.messages if message.role == "system")
    asked = replace(ask, images="none")(state.replace(prompt=words, messages=opening), model)
    return asked.replace(prompt=state.prompt)


def bounded(reply: Reply, longest: int, what: str) -> tuple[str, list[str]]:
    """What a reply says beside its thoughts, at most so many characters, and a note where it was cut off."""
    text, notes = spoken(reply.text).strip(), []
    if reply.finish == "length":
        notes.append(f"{what} was cut off by the bound on its tokens")
    if len(text) > longest:
        notes.append(f"of {what}, {len(text)} characters, the first {longest} were used")
    return text[:longest], notes
