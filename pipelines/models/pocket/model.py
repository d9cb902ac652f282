"""Pocket as a model: messages in, a reply of a few words out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from looktwice.pipelines.config.spec import settings
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import (
    CallOptions,
    FinishReason,
    Messages,
    ModelError,
    Reply,
    Usage,
    make_request_key,
)
from looktwice.pipelines.models.pocket.network import (
    ANSWER,
    END,
    MAX_REPLY_TOKENS,
    MAX_VIEWS,
    ONE_THREAD,
    PLACES_PER_SIDE,
    SPECIAL_TOKENS,
    VOCABULARY,
    Conversation,
    Floats,
    detokenize,
    fit_pixels,
    load_bundled_weights,
    tokenize_reply,
    tokenize_text,
)
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.view import View

LOGPROB_DIGITS = (
    5  # of a log-probability, so that records do not depend on the processor's last bits
)


@dataclass(frozen=True)
class Pocket:
    """looktwice's own very small vision-language network, in this process: no key, no hub, no GPU,
    no torch.

    It was trained only on generated scenes (`eval.tasks.MarkedScenes`; docs/pocket.md says which,
    and what it can and cannot do), reads some 350 words and answers in a few. It sees up to four
    different views, each scaled to 128 pixels on its longer side, and the last 72 words of the
    text. `temperature` 0 is greedy; otherwise a reply depends only on `seed`, the draw and the
    request, and `top_p` samples from the most likely words that make up this share. A reply ends
    after `max_tokens` words, or before any text of `stop`. `CallOptions.choices` are scored by
    their log-probability, as in `LocalVLM`, and `logprobs` are supported; tools, schemas and
    reasoning effort are not.
    """

    temperature: float = 0.0
    top_p: float | None = None
    max_tokens: int = MAX_REPLY_TOKENS
    stop: tuple[str, ...] | None = None
    seed: int = 0
    multiprocess: ClassVar[bool] = True  # as in `ChatAPI`

    def __post_init__(self) -> None:
        is_share = self.top_p is None or 0 < self.top_p <= 1
        if self.temperature < 0 or self.max_tokens < 1 or not is_share:
            raise ValueError(
                "temperature must be 0 or more, max_tokens 1 or more, top_p in (0, 1]; found"
                f" {self.temperature}, {self.max_tokens} and {self.top_p}"
            )

    @cached_property
    def identity(self) -> str:
        """The weights and every setting."""
        return write_canonical({**settings(self), "weights": load_bundled_weights().sha})

    def refuse(self, options: CallOptions) -> None:
        """Raise ModelError for options that Pocket does not support; `check` calls this, too."""
        lacking = [
            name for name in ("schema", "effort", "tools") if getattr(options, name) is not None
        ]
        if lacking:
            raise ModelError(
                f"Pocket does not support {' or '.join(lacking)}; leave it out, or use another"
                " model"
            )

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask once. Raises ModelError, and PictureError for a view that cannot be decoded."""
        full = options.fill_from(self)
        self.refuse(full)
        start, weights, rng = time.perf_counter(), load_bundled_weights(), None
        tokens, inputs = make_network_inputs(messages)
        if full.temperature:
            key = make_request_key(self.identity, messages, draw, options)
            drawn = hashlib.sha256(f"{full.seed or self.seed}\n{key}".encode()).digest()
            rng = np.random.default_rng(int.from_bytes(drawn[:8]))
        with ONE_THREAD:
            views = [weights.encode_view(sha, pixels) for sha, pixels in inputs.items()]
            conversation = Conversation(weights, tokens, views)
            reply = (
                _choose_text(conversation, full.choices)
                if full.choices
                else _generate_words(conversation, full, rng)
            )
        asked = len(tokens) + PLACES_PER_SIDE * PLACES_PER_SIDE * len(inputs)
        return replace(
            reply,
            usage=Usage(asked, reply.usage.tokens_out),
            seconds=time.perf_counter() - start,
            served_by={"model": "pocket", "engine": "looktwice", "version": weights.sha[:12]},
        )


def make_network_inputs(messages: Messages) -> tuple[list[int], dict[str, Pixels]]:
    """Return the tokens of a conversation and its distinct views, fitted to the network, by the
    sha256 of their pictures in order of first appearance.

    Raises ModelError, and PictureError for a view that cannot be decoded.
    """
    texts, views = list[str](), dict[str, View]()
    for turn in messages:
        if turn.role != "assistant":
            texts.append(turn.text)
        views |= {view.picture.payload.sha: view for view in turn.views}
    tokens = tokenize_text("\n".join(texts))
    if not tokens:
        raise ModelError("Pocket was sent no text; send a question")
    if len(views) > MAX_VIEWS:
        raise ModelError(
            f"Pocket accepts at most {MAX_VIEWS} different views, found {len(views)}; send fewer"
        )
    return tokens, {sha: fit_pixels(view.pixels)[0] for sha, view in views.items()}


def _generate_words(
    conversation: Conversation, options: CallOptions, rng: np.random.Generator | None
) -> Reply:
    """Generate a reply word by word, with its alternatives, finish reason and token count."""
    words, top, token = list[int](), list[Mapping[str, float]](), ANSWER
    text, count = "", 0
    finish: FinishReason = "length"
    while finish == "length" and count < min(
        MAX_REPLY_TOKENS, options.max_tokens or MAX_REPLY_TOKENS
    ):
        likely, count = conversation.write(token), count + 1
        token = int(likely.argmax()) if rng is None else _sample_token(rng, likely, options)
        if options.logprobs:
            top.append(_list_alternatives(likely, options.logprobs, token))
        if token == END:
            finish = "stop"
            continue
        words.append(token)
        text = detokenize(words)
        if ends := [at for stop in options.stop or () if (at := text.find(stop)) >= 0]:
            text, finish = text[: min(ends)], "stop"
    return Reply(text, finish, usage=Usage(0, count), logprobs=tuple(top))


def _sample_token(rng: np.random.Generator, likely: Floats, options: CallOptions) -> int:
    scaled = likely.astype(np.float64) / (options.temperature or 1)
    shares = np.exp(scaled - scaled.max())
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")
    if options.top_k is not None:
        shares[order[options.top_k :]] = 0
        shares /= shares.sum()
    if options.top_p is not None:
        before = np.cumsum(shares[order]) - shares[order]
        shares[order[before >= options.top_p]] = 0
        shares /= shares.sum()
    return int(rng.choice(len(shares), p=shares))


def _list_alternatives(likely: Floats, count: int, token: int) -> Mapping[str, float]:
    """Return the chosen token and then the most likely others, `count` in all; the end token is the
    empty text."""
    words = [
        number
        for number in map(int, np.argsort(-likely, kind="stable"))
        if number != token and (number == END or number >= len(SPECIAL_TOKENS))
    ]
    return {
        "" if number < len(SPECIAL_TOKENS) else VOCABULARY[number]: round(
            float(likely[number]), LOGPROB_DIGITS
        )
        for number in [token, *words][:count]
    }


def _choose_text(conversation: Conversation, choices: Sequence[str]) -> Reply:
    """Return the most likely of the `choices`, with the log-probability of each, the most likely
    first, summed over its tokens and its end. Raises ModelError for unknown words."""
    likely: dict[str, float] = {}
    for choice in choices:
        tokens, twin = tokenize_reply(choice), conversation.fork()
        if not 0 < len(tokens) <= MAX_REPLY_TOKENS:
            raise ModelError(
                f"the choice {choice!r} is not a possible reply of Pocket, which has 1 to"
                f" {MAX_REPLY_TOKENS - 1} words of its vocabulary"
            )
        steps = zip([ANSWER, *tokens], tokens, strict=False)
        total = sum(float(twin.write(before)[token]) for before, token in steps)
        likely[choice] = round(total, LOGPROB_DIGITS)
    ranked = dict(sorted(likely.items(), key=lambda pair: -pair[1]))
    return Reply(next(iter(ranked)), logprobs=(ranked,))
