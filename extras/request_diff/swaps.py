"""Requests of one side with one factor taken from the other side, to measure the effect of a
difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from string import ascii_uppercase

from looktwice.extras.request_diff.factors import NO_VALUE, Prompt, find_picture_partners
from looktwice.extras.request_diff.looks import get_appearance
from looktwice.extras.request_diff.requests import OPTION_NAMES, Request
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import View
from looktwice.prompting.views import Encode
from looktwice.prompting.views.resize import resize_view

PICTURE_FIRST_BY_ORDER = {"picture, words": True, "words, picture": False}
Parts = tuple[str | View, ...]


class InseparableFactor(ValueError):
    """Raised if a factor cannot be changed on its own; the message is the reason."""


@dataclass(frozen=True)
class Swap:
    """A pair of requests that ask the same question."""

    mine: Request
    theirs: Request

    def __call__(self, factor: str) -> Request:
        """Return the first request with one factor of the second. Raises InseparableFactor."""
        if factor in OPTION_NAMES:
            settings = {k: v for k, v in self.mine.settings.items() if k != factor}
            if factor in self.theirs.settings:
                settings[factor] = self.theirs.settings[factor]
            return replace(self.mine, settings=settings)
        match factor:
            case "codec" | "size" | "what pictures show":
                return self.swap_appearance(factor)
            case "template" | "form of the choices" | "order of the choices":
                return self.swap_wording(factor)
            case "system words" | "earlier turns":
                return self.swap_turns(factor)
            case "number of pictures":
                return self.swap_count()
            case "order of pictures":
                return self.swap_order()
            case "place of pictures":
                return self.swap_placement()
        raise InseparableFactor("this factor of a request cannot be changed")

    @cached_property
    def prompts(self) -> tuple[Prompt, Prompt]:
        """The text parts of both requests."""
        return Prompt.from_request(self.mine), Prompt.from_request(self.theirs)

    @cached_property
    def partners(self) -> dict[int, int]:
        """The number of each picture's counterpart in the second request, by the picture's number
        in the first."""
        return find_picture_partners(self.mine.pictures, self.theirs.pictures)

    def _swap_question(self, parts: Parts) -> Request:
        asked = self.mine.last_user_turn
        messages = [
            _replace_parts(message, parts) if message is asked else message
            for message in self.mine.messages
        ]
        return replace(self.mine, messages=tuple(messages))

    def _swap_pictures(self, make: Callable[[int, View], View]) -> Request:
        """Return the first request with its pictures replaced: `make` gets each picture's number
        and view, and returns the new view."""
        numbers, messages = count(), list[Message]()
        for message in self.mine.messages:
            parts = (p if isinstance(p, str) else make(next(numbers), p) for p in message.parts)
            messages.append(_replace_parts(message, tuple(parts)))
        return replace(self.mine, messages=tuple(messages))

    def swap_appearance(self, factor: str) -> Request:
        """Return the first request with the codec, the size or the content of the second request's
        pictures."""

        def make(number: int, view: View) -> View:
            if number not in self.partners:
                return view
            rival = self.theirs.pictures[self.partners[number]]
            return reencode_like(view, View.of(rival), factor)

        return self._swap_pictures(make)

    def swap_order(self) -> Request:
        """Return the first request with its pictures in the order of the second request."""
        shown = [view for message in self.mine.messages for view in message.views]
        numbers = sorted(self.partners)
        ordered = dict(zip(numbers, sorted(numbers, key=self.partners.__getitem__), strict=True))
        return self._swap_pictures(lambda number, view: shown[ordered.get(number, number)])

    def swap_count(self) -> Request:
        """Return the first request with as many pictures as the second request has.

        Pictures that the second lacks are removed; pictures that only the second has are appended.
        """
        asked, theirs = self.mine.last_user_turn, self.theirs.last_user_turn
        if len(self.mine.pictures) > len(asked.views):
            raise InseparableFactor("earlier turns have pictures too")
        number, parts = 0, list[str | View]()
        for part in asked.parts:
            if isinstance(part, str) or number in self.partners:
                parts.append(part)
            number += not isinstance(part, str)
        last = max((n for n, part in enumerate(parts) if not isinstance(part, str)), default=-1)
        more = [v for n, v in enumerate(theirs.views) if n not in self.partners.values()]
        return self._swap_question((*parts[: last + 1], *more, *parts[last + 1 :]))

    def swap_placement(self) -> Request:
        """Return the first request with all pictures before or after the text, as in the second
        request."""
        first = PICTURE_FIRST_BY_ORDER.get(self.prompts[1].place_of_pictures)
        if first is None:
            raise InseparableFactor("the other side has words between the pictures")
        asked = self.mine.last_user_turn
        words = (self.prompts[0].text,)
        return self._swap_question((*asked.views, *words) if first else (*words, *asked.views))

    def swap_turns(self, factor: str) -> Request:
        """Return the first request with the system message or the earlier turns of the second
        request."""
        mine, theirs = self.mine, self.theirs
        system, turns = (theirs, mine) if factor == "system words" else (mine, theirs)
        messages = [turn for turn in system.messages if turn.role == "system"]
        for turn in turns.messages:
            if turn.role != "system" and turn is not theirs.last_user_turn:
                messages.append(turn)
        messages += [mine.last_user_turn] if turns is theirs else []
        return replace(mine, messages=tuple(messages))

    def swap_wording(self, factor: str) -> Request:
        """Return the first request with the template, or the form or order of the choices, of the
        second request."""
        mine, theirs = self.prompts
        if (mine.choice_list is None) != (theirs.choice_list is None):
            raise InseparableFactor("one side lists no choices")
        if mine.choice_list is None or theirs.choice_list is None:
            return self._swap_text(theirs.text)
        around, style, units, texts = (
            mine,
            mine.choice_list.style,
            mine.choice_prefixes,
            mine.choice_list.texts,
        )
        if factor == "template":
            around = theirs
        elif factor == "form of the choices":
            style, units = theirs.choice_list.style, theirs.choice_prefixes
        else:
            texts = theirs.choice_list.texts
        before, after = around.restyle(style)
        listed = units[0] + texts[0]  # further choices follow the pattern of the second
        for letter, choice in zip(ascii_uppercase[1:], texts[1:], strict=False):
            listed += re.sub(r"(?<!\w)B(?!\w)", letter, units[1]) + choice
        return self._swap_text(before + listed + after)

    def _swap_text(self, text: str) -> Request:
        asked = self.mine.last_user_turn
        indices = [n for n, part in enumerate(asked.parts) if isinstance(part, str)]
        if len(indices) != 1:
            raise InseparableFactor("there are words between the pictures")
        return self._swap_question(
            (*asked.parts[: indices[0]], text, *asked.parts[indices[0] + 1 :])
        )


def _replace_parts(message: Message, parts: Parts) -> Message:
    # `replace` does not work on a stored message
    return Message(message.role, parts, message.tool_calls, message.call_id, message.attached)


def reencode_like(view: View, rival: View, factor: str) -> View:
    """Return a view with one factor (codec, size or content) of another view of the same scene.

    If nothing else differs, return the other view itself. Since the loss of a codec cannot be
    undone, a change to a lossless codec takes the pixels of the other view, at this view's size.
    """
    appearances = get_appearance(view.picture), get_appearance(rival.picture)
    differing = {
        name for name in ("codec", "size") if len({getattr(a, name) for a in appearances}) > 1
    }
    if differing == {factor}:
        return rival
    codec, source, size = appearances[0].codec, view, view.size
    if factor == "size":
        size = rival.size
    elif factor == "codec":
        codec = appearances[1].codec
        source = rival if appearances[1].is_lossless and not appearances[0].is_lossless else view
    else:
        source = rival
    return make_encoder(codec).encode(resize_view(View.of(Picture(source.pixels)), size))


def make_encoder(codec: str) -> Encode:
    """Return the stage that encodes with a codec as described by `Appearance.codec`. Raises
    InseparableFactor for an unsupported codec."""
    if codec == "PNG":
        return Encode("png")
    if codec.startswith("WebP"):
        return Encode("webp", lossless=True) if "lossless" in codec else Encode("webp", 80)
    name, _, rest = codec.removesuffix(" ").partition(" ")
    numbers = re.findall(r"(?<![\d:])\d+(?![\d:])", rest)
    if name != "JPEG" or not numbers:
        raise InseparableFactor(f"looktwice cannot write {codec or NO_VALUE}")
    chroma = next((c for c in ("4:4:4", "4:2:2", "4:2:0") if c in rest), "4:2:0")
    return Encode("jpeg", int(numbers[0]), chroma)  # type: ignore[arg-type]
