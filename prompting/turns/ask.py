"""A single call of the model: the images and texts that are sent, their order, the earlier turns
that are sent again, and the confidence of the reply."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Literal

from looktwice.pipelines.model import CallOptions, Message, Model, Reply
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.sample import PLACEHOLDERS_FIELD
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.wording.instructions import JsonAnswer, Parts, Text, get_text, read_texts

OMITTED_IMAGE_TEXT = "[an image was shown here]"
MISSING_REPLY_TEXT = "[no reply]"
MAX_TOKEN_ALTERNATIVES = 20  # per token: OpenAI's maximum


@dataclass(frozen=True)
class History(Ranged):
    """Selects the parts of earlier turns that are sent with a new turn. The state and the record
    keep the turns unchanged.

    `images` "all" sends every image again, "latest" those of the newest turn that has any
    (including the new one), "none" only those of the new turn; a short text replaces the other
    images, also in few-shot examples. `thoughts` are the parts of a reply in <think> and similar
    tags: "drop" removes them, as reasoning models expect. `attached` is what the provider attached
    to a reply beyond its text and calls, such as `reasoning_content` and thought signatures: "keep"
    sends it back unchanged, as reasoning models with tools require; "drop" removes it, for a server
    that rejects fields of its own replies. Replies are cut after `longest` characters, in case one
    repeats itself endlessly.
    """

    images: Literal["all", "latest", "none"] = "all"
    thoughts: Literal["drop", "keep"] = "drop"
    attached: Literal["keep", "drop"] = "keep"
    longest: int = 20_000

    ranges = ("longest >= 1",)

    def __call__(self, messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
        """Return the messages as they are sent, and a note for each reply that was cut.

        A turn consists of all messages between two replies; the newest turn is always sent
        unchanged.
        """
        turns = [*accumulate((message.role == "assistant" for message in messages), initial=0)]
        fresh = turns[-2] if messages else 0  # the turn of the newest message
        if self.images == "latest":
            shown = (turn for turn, message in zip(turns, messages, strict=False) if message.views)
            fresh = max(shown, default=0)
        sent, notes = [], []
        for turn, message in zip(turns, messages, strict=False):
            if message.views and self.images != "all" and turn != fresh:
                parts = (OMITTED_IMAGE_TEXT if isinstance(p, View) else p for p in message.parts)
                message = replace(message, parts=tuple(parts))
            if message.role == "assistant":
                message = message if self.attached == "keep" else _drop_attached(message)
                text = strip_thoughts(message.text) if self.thoughts == "drop" else message.text
                if len(text) > self.longest:
                    notes.append(
                        f"only the first {self.longest} of {len(text)} characters of an earlier"
                        " reply were sent"
                    )
                    text = text[: self.longest] + " [...]"
                if not text.strip() and not message.tool_calls:
                    text = MISSING_REPLY_TEXT  # several servers reject an empty turn
                if text != message.text:
                    message = replace(message, parts=(text,))
            sent.append(message)
        return tuple(sent), tuple(notes)


def _drop_attached(message: Message) -> Message:
    calls = tuple(replace(call, attached={}) for call in message.tool_calls)
    return Message(message.role, message.parts, calls, message.call_id)


MIN_TOKENS_PER_IMAGE = 16  # per image; no known processor uses fewer for an image of usual size
NO_MODEL = NoModel("a reader must not call a model: it only reads the replies")


@dataclass(frozen=True)
class Ask:
    """Sends the views and the prompt as one user turn, and adds the reply to the conversation; it
    makes one call.

    `images` places the views before or after the text, nowhere, or `inline`: each where the prompt
    has `<image 1>`, `<image 2>` and so on, and those without a placeholder before the text. Other
    placeholders are recognised, too: `<image1>`, `<|image_1|>`, and, in the order of the images,
    `<image>`, `<|image_pad|>` and the like. With `images: placed`, placeholders refer to the
    sample's original images: a changed view takes the place of its source, and new views follow it.
    Texts that record the positions of their images (`meta["placed"]`, as `looktwice serve` makes
    them) are sent without placeholders in every other mode.

    `attach` selects all views, only those that are "new" to the conversation, or none. `tags` is a
    text before each image, such as "Image {n}:"; `{n}` is the number of the view, `{source}` the
    number of the sample's image that it shows, both from 1, `{seconds}` the time of a video frame.
    `options` are passed to the model, such
    as `{effort: high}` for a reasoning model. `system` is the system message of the conversation.
    `history` sets which parts of earlier turns are sent again, and `output` names the stage whose
    JSON schema the reply must follow. `confidence: choices` also requests the likelihoods of tokens
    (`logprobs`, from models that provide them), from which the sample gets its confidence: the
    likelihood of the likeliest choice, as a share of the sum over all choices.

    A note in the record warns if the server counted fewer tokens than the text and images must
    have. Raises ModelError, and ValueError if there is nothing to send or `<image 3>` names no
    view.
    """

    images: Literal["before", "after", "inline", "placed", "none"] = "before"
    attach: Literal["all", "new", "none"] = "all"
    options: CallOptions = field(default_factory=CallOptions)
    system: Text = ""
    tags: str = ""
    history: History = field(default_factory=History)
    output: JsonAnswer | None = None
    confidence: Literal["none", "choices"] = "none"

    def __post_init__(self) -> None:
        read_texts(self)
        if self.tags:
            from looktwice.prompting.views.layout import check_tag

            check_tag("tags", self.tags)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the turn and its reply; `state.draw` is the number of the draw."""
        parts = self.make_parts(state)
        if not parts:
            raise ValueError(
                f"sample {state.sample.id} has neither a prompt nor an image, so there is nothing"
                " to ask"
            )
        opened, system = state.messages, get_text(self.system)
        if system and all(message.role != "system" for message in opened):
            opened = (Message("system", (system,)), *opened)
        messages = (*opened, Message("user", parts))
        sent, notes = self.history(messages)
        options = self.options
        if self.output is not None:
            options = replace(options, schema=self.output.make_schema(state.sample))
        if self.confidence == "choices" and options.logprobs is None:
            options = replace(options, logprobs=MAX_TOKEN_ALTERNATIVES)
        reply = model(sent, draw=state.draw, options=options)
        state = state.replace(messages=(*messages, reply.as_message()))
        if self.confidence == "choices":
            state = add_confidence(state, reply)
        return state.with_notes(*notes, *check_token_count(sent, reply))

    def make_parts(self, state: State) -> Parts:
        """Return the texts and views that are sent, in order."""
        already_sent: set[str] = set()  # pictures of earlier turns that are sent again
        if self.attach == "new":
            sent, _ = self.history((*state.messages, Message("user", ())))
            already_sent = {view.picture.sha for message in sent for view in message.views}
        placed = self.images == "placed"
        shown: dict[
            int, Parts
        ] = {}  # by the number of the view, or of the image whose place it takes
        if self.tags:
            from looktwice.prompting.views.layout import format_tag
        if "none" not in (self.images, self.attach):
            for number, view in enumerate(state.views, 1):
                if not already_sent or view.picture.sha not in already_sent:
                    tag = format_tag(self.tags, number, view, state.sample.id) if self.tags else ""
                    sources = [part.source + 1 for part in view.parts]
                    place = min(sources, default=0) if placed else number
                    shown[place] = (*shown.get(place, ()), tag, view)
        words, *pieces = split_prompt(state, self.images)
        named = [int(number) for number in pieces[::2]]
        wrong = [number for number in named if not 1 <= number <= len(state.views)]
        if wrong and not placed:
            raise ValueError(
                f"sample {state.sample.id}: the prompt names <image {wrong[0]}>, but there are"
                f" {len(state.views)} views"
            )
        before = [part for n, parts in shown.items() if n not in named for part in parts]
        parts = [words, *before] if self.images == "after" else [*before, words]
        for number, words in zip(named, pieces[1::2], strict=True):
            parts += [*shown.get(number, ()), words]
        if self.images == "inline":
            parts = [part.strip() if isinstance(part, str) else part for part in parts]
        return tuple(part for part in parts if part != "")


def add_confidence(state: State, reply: Reply) -> State:
    """Return the state with a confidence: the likelihood of the likeliest choice, as a share of the
    sum over all choices, which is measured as `choice_mass`.

    The likelihoods are those of the first token of the reply that is a choice's letter, or of the
    full choices if the reply had to be one of them. A note says if no likelihood was returned.
    """
    choices = [*state.sample.letters, *map(_strip_marks, state.sample.choices)]
    for candidates in reply.logprobs:
        shares: dict[str, float] = {}
        for text, likelihood in candidates.items():
            if (name := _strip_marks(text)) in choices:
                shares[name] = shares.get(name, 0.0) + math.exp(likelihood)
        mass = sum(shares.values())
        if _strip_marks(next(iter(candidates), "")) in choices and mass > 0:
            confidence = min(1.0, max(shares.values()) / mass)
            return state.replace(confidence=confidence).measured("choice_mass", min(1.0, mass))
    return state.with_notes(
        "the server returned no likelihood of a choice, so there is no confidence"
    )


def _strip_marks(text: Any) -> str:
    """Return a token or choice without brackets, spaces and the markers that tokenizers add."""
    return re.sub(r"[\W_]", "", str(text))


def split_prompt(state: State, images: str = "none") -> list[str]:
    """Split the prompt at its images: text, image number, text, and so on.

    A placeholder that refers to no image stays in the text as "image 2". If the images are sent
    elsewhere, the text of a `placed` sample comes without the placeholders.
    """
    is_placed = state.sample.meta.get(PLACEHOLDERS_FIELD)
    if images not in ("inline", "placed") and not is_placed:
        return [state.prompt]
    if not is_placed:
        from looktwice.prompting.turns.image_places import split_at_images

        shown = state.views if images == "inline" else state.sample.images
        words, *pieces = split_at_images(state.prompt, len(shown))
    else:
        words, *pieces = re.split(r"<image (\d+)>", state.prompt)
    if images == "inline":
        return [words, *pieces]
    between, places = [words], {str(n) for n, _ in enumerate(state.sample.images, 1)}
    for number, words in zip(pieces[::2], pieces[1::2], strict=True):
        if number in places:
            places.remove(number)
            between += [number, words]
        else:
            between[-1] += f"image {number}{words}"
    if images == "placed":
        return between
    return ["\n".join(words for words in between[::2] if words.strip())]


def read_answer(state: State, read: Stage) -> tuple[str | None, str]:
    """Return the answer that a reader finds in the last turn of a conversation, or None and the
    reason."""
    after = read(state.replace(answer=None, reason=""), NO_MODEL)
    return after.answer, after.reason


def measure_turns(state: State, calls: Sequence[int], answers: Sequence[str | None]) -> State:
    """Return the state with measures of its turns: the index of the call that ended each turn and,
    if answers were read, the answers and how often they changed.

    A note says the same in words, such as "answers: A, B, ?; 1 change".
    """
    state = state.measured("turn_call", tuple(calls))
    if not answers:
        return state
    given = [answer for answer in answers if answer is not None]
    flips = sum(first != second for first, second in pairwise(given))
    shown = [" ".join(answer.split())[:40] if answer is not None else "?" for answer in answers]
    note = f"answers: {', '.join(shown)}; {flips} change{'' if flips == 1 else 's'}"
    state = state.with_notes(note).measured("turn_answer", tuple(answers))
    return state.measured("answer_changes", flips)


def check_token_count(sent: Sequence[Message], reply: Reply) -> list[str]:
    """Return a note if the server counted too few tokens: it may have dropped the images, or may
    not have counted them."""
    words = sum(len(message.text.split()) for message in sent)
    images, counted = sum(len(message.views) for message in sent), reply.usage.tokens_in
    if not images or not 0 < counted < words + MIN_TOKENS_PER_IMAGE * images:
        return []
    what = f"{images} image{'s' if images > 1 else ''} and {words} words"
    return [f"the server counted {counted} tokens for {what}: it may not have looked at the images"]
