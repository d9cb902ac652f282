"""One call of the model: which images and texts it is sent, in what order, and what of earlier
turns is sent again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Literal

from looktwice.pipelines.model import CallOptions, Message, Model, Reply, strip_thoughts
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.state import Stage, State, remark
from looktwice.pipelines.view import View
from looktwice.prompting.ranges import check_ranges
from looktwice.prompting.views.layout import check_tag, write_tag
from looktwice.prompting.wording.instructions import JsonAnswer, Text, read_texts, text_of

IMAGE_OMITTED = "[an image was shown here]"
NO_REPLY = "[no reply]"


@dataclass(frozen=True)
class History:
    """What of the earlier turns is sent with a new one. The state and the record keep the turns
    unchanged.

    `images` "all" sends every image again, "latest" those of the newest turn that has any (the new
    one included), "none" only those of the new turn; a short text replaces the others, also in
    few-shot examples. `thoughts` are the parts of a reply in <think> and similar tags: "drop"
    leaves them out, as reasoning models expect; reasoning that the server returned separately is
    never sent. Replies are cut after `longest` characters, in case one repeats itself without end.
    """

    images: Literal["all", "latest", "none"] = "all"
    thoughts: Literal["drop", "keep"] = "drop"
    longest: int = 20_000

    def __post_init__(self) -> None:
        check_ranges(self, "longest >= 1")

    def __call__(self, messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
        """The messages as they are sent, and a note for each reply that was cut.

        A turn is all messages between two replies; the newest turn is always sent unchanged.
        """
        replies = [message for message in messages if message.role == "assistant"]
        notes = [note for message in replies for note in self._cut(self._words(message))[1]]
        turns = list(accumulate((message.role == "assistant" for message in messages), initial=0))[
            :-1
        ]
        seen = {turns[-1]} if messages else set()
        if self.images == "latest":
            seen = {
                max(
                    (turn for turn, message in zip(turns, messages, strict=True) if message.views),
                    default=0,
                )
            }
        sent = []
        for turn, message in zip(turns, messages, strict=True):
            if message.views and self.images != "all" and turn not in seen:
                shown = (IMAGE_OMITTED if isinstance(p, View) else p for p in message.parts)
                message = replace(message, parts=tuple(shown))
            if message.role == "assistant":
                text = self._cut(self._words(message))[0]
                if not text.strip() and not message.tool_calls:
                    text = NO_REPLY  # several servers refuse an empty turn
                if text != message.text:
                    message = replace(message, parts=(text,))
            sent.append(message)
        return tuple(sent), tuple(notes)

    def _words(self, message: Message) -> str:
        return strip_thoughts(message.text) if self.thoughts == "drop" else message.text

    def _cut(self, text: str) -> tuple[str, list[str]]:
        if len(text) <= self.longest:
            return text, []
        note = (
            f"of an earlier reply of {len(text)} characters the first {self.longest} were sent on"
        )
        return text[: self.longest] + " [...]", [note]


Parts = tuple[str | View, ...]
MIN_TOKENS = 16  # per image; no known processor makes fewer of an image of usual size
NO_MODEL = NoModel("a reader may not call a model: it only reads what was said")


@dataclass(frozen=True)
class Ask:
    """Sends the views and the prompt as one user turn, and adds the reply to the conversation: one
    call.

    `images` places the views before or after the words, nowhere, or `inline`: each where the prompt
    has `<image 1>`, `<image 2>` and so on, and those that it does not name before the words.
    `attach` selects all views, only those that are "new" to the conversation, or none. `tags` is a
    text before each image, such as "Image {n}:"; `{n}` is the number of the view, `{source}` that
    of the sample's image which it shows, both from 1. `options` are passed to the model, such as
    `{effort: high}` for a reasoning model. `system` is the system text of the conversation.
    `history` says what of earlier turns is sent again, and `output` names the stage whose JSON
    schema the reply must follow.

    A note in the record warns if the server counted fewer tokens than the words and images must
    have. Raises ModelError, and ValueError if there is nothing to send or `<image 3>` names no
    view.
    """

    images: Literal["before", "after", "inline", "none"] = "before"
    attach: Literal["all", "new", "none"] = "all"
    options: CallOptions = field(default_factory=CallOptions)
    system: Text = ""
    tags: str = ""
    history: History = field(default_factory=History)
    output: JsonAnswer | None = None

    def __post_init__(self) -> None:
        read_texts(self)
        check_tag("tags", self.tags)

    def __call__(self, state: State, model: Model) -> State:
        """The state with the turn and its reply; `state.draw` is the number of the draw."""
        parts = self.parts(state)
        if not parts:
            raise ValueError(
                f"sample {state.sample.id}: there is nothing to ask, neither a prompt nor an image"
            )
        opened, system = state.messages, text_of(self.system)
        if system and all(message.role != "system" for message in opened):
            opened = (Message("system", (system,)), *opened)
        messages = (*opened, Message("user", parts))
        sent, notes = self.history(messages)
        options = (
            self.options
            if self.output is None
            else replace(self.options, schema=self.output.schema(state.sample))
        )
        reply = model(sent, draw=state.draw, options=options)
        return state.replace(messages=(*messages, reply.as_message())).with_notes(
            *notes, *check_token_count(sent, reply)
        )

    def parts(self, state: State) -> Parts:
        """The texts and views that are sent, in their order."""
        already_sent: set[str] = set()  # the pictures that earlier turns send again
        if self.attach == "new":
            sent, _ = self.history((*state.messages, Message("user", ())))
            already_sent = {view.picture.sha for message in sent for view in message.views}
        shown = {
            n: view
            for n, view in enumerate(state.views, 1)
            if not already_sent or view.picture.sha not in already_sent
        }
        if self.images == "none" or self.attach == "none":
            shown = {}
        if self.images == "inline":
            return self._inline(state, shown)
        words = (state.prompt,) if state.prompt else ()
        views = self._tagged(state, shown)
        return (*words, *views) if self.images == "after" else (*views, *words)

    def _inline(self, state: State, shown: dict[int, View]) -> Parts:
        pieces = re.split(r"<image (\d+)>", state.prompt)
        named = [int(number) for number in pieces[1::2]]
        if missing := [number for number in named if not 1 <= number <= len(state.views)]:
            raise ValueError(
                f"sample {state.sample.id}: the prompt says <image {missing[0]}>, there are"
                f" {len(state.views)} views"
            )
        parts = [
            *self._tagged(state, {n: view for n, view in shown.items() if n not in named}),
            pieces[0],
        ]
        for number, words in zip(named, pieces[2::2], strict=True):
            parts += [
                *self._tagged(state, {number: shown[number]} if number in shown else {}),
                words,
            ]
        stripped = (part.strip() if isinstance(part, str) else part for part in parts)
        return tuple(part for part in stripped if part != "")

    def _tagged(self, state: State, views: dict[int, View]) -> Parts:
        if not self.tags:
            return tuple(views.values())
        return tuple(
            p
            for n, view in views.items()
            for p in (write_tag(self.tags, n, view, state.sample.id), view)
        )


def ask_separately(state: State, parts: Parts, model: Model, options: CallOptions) -> Reply:
    """The reply to a single user turn outside the conversation. Raises ModelError."""
    sent = (Message("user", parts),)
    reply = model(sent, draw=state.draw, options=options)
    for note in check_token_count(sent, reply):
        remark(note)
    return reply


def read_answer(state: State, read: Stage) -> tuple[str | None, str]:
    """What a reader finds in the last turn of a conversation: the answer, or None and the
    reason."""
    after = read(state.replace(answer=None, reason=""), NO_MODEL)
    return after.answer, after.reason


def measure_turns(state: State, calls: Sequence[int], answers: Sequence[str | None]) -> State:
    """The state with the call that ended each turn and, where answers were read, these and how
    often they changed.

    A note says the same in words: "answers: A, B, ?; 1 change".
    """
    state = state.measured("turn_call", tuple(calls))
    if not answers:
        return state
    given = [answer for answer in answers if answer is not None]
    flips = sum(a != b for a, b in pairwise(given))
    shown = ", ".join(
        "?" if answer is None else " ".join(answer.split())[:40] for answer in answers
    )
    note = f"answers: {shown}; {flips} change{'' if flips == 1 else 's'}"
    return (
        state.with_notes(note)
        .measured("turn_answer", tuple(answers))
        .measured("answer_changes", flips)
    )


def check_token_count(sent: Sequence[Message], reply: Reply) -> list[str]:
    """A note if the server counted too few tokens: it may have dropped the images, or not have
    counted them."""
    words = sum(len(message.text.split()) for message in sent)
    images, counted = sum(len(message.views) for message in sent), reply.usage.tokens_in
    if not images or not 0 < counted < words + MIN_TOKENS * images:
        return []
    what = f"{images} image{'s' if images > 1 else ''} and {words} words"
    return [f"the server counted {counted} tokens for {what}: it may not have looked at the images"]
