"""Pocket as a model: messages in, a reply of a few words out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from looktwice.pipelines.config.spec import settings
from looktwice.pipelines.model import (
    CallOptions,
    Finish,
    Messages,
    ModelError,
    Reply,
    Usage,
    canonical,
    request_key,
)
from looktwice.pipelines.models.pocket.network import (
    ONE_THREAD,
    REPLY,
    VIEWS,
    Conversation,
    Floats,
    shipped_weights,
)
from looktwice.pipelines.models.pocket.views import CELLS, fit_pixels
from looktwice.pipelines.models.pocket.words import (
    ANSWER,
    END,
    SPECIAL,
    VOCABULARY,
    read_words,
    reply_words,
    write_words,
)
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.view import View

DIGITS = 5  # of a log-probability, so that the last bits of another processor show in no record


@dataclass(frozen=True)
class Pocket:
    """A very small vision-language network of looktwice's own, in this process: no key, no hub, no
    GPU, no torch.

    It was trained on made scenes alone (`eval.tasks.MarkedScenes`; docs/pocket.md says on which,
    and what it can and cannot do), reads some 350 words and answers in a few. It sees up to four
    different views, each brought to 128 pixels at its longer side, and the last 72 words of what is
    said. `temperature` 0 is greedy; otherwise a reply depends on `seed`, the draw and the request
    alone, and `top_p` keeps the likeliest words that have this share. A reply ends after
    `max_tokens` words, or before any text of `stop`. `CallOptions.choices` are scored by their
    log-probability, as `LocalVLM` does, and `logprobs` are given; tools, schemas and reasoning
    effort are not known.
    """

    temperature: float = 0.0
    top_p: float | None = None
    max_tokens: int = REPLY
    stop: tuple[str, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if (
            self.temperature < 0
            or self.max_tokens < 1
            or not 0 < (self.top_p or 1) <= 1
            or self.top_p == 0
        ):
            given = f"{self.temperature}, {self.max_tokens} and {self.top_p}"
            raise ValueError(
                "temperature is 0 or more, max_tokens 1 or more, top_p above 0 up to 1; found"
                f" {given}"
            )

    @cached_property
    def identity(self) -> str:
        """The weights and every setting."""
        return canonical({**settings(self), "weights": shipped_weights().sha})

    def refuse(self, options: CallOptions) -> None:
        """Raises ModelError for options that Pocket does not know; `check` asks for it, too."""
        lacking = [name for name in ("schema", "effort", "tools") if getattr(options, name)]
        if lacking:
            raise ModelError(
                f"Pocket knows no {' and no '.join(lacking)}; leave it out, or ask another model"
            )

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask once. Raises ModelError, and PictureError for a view that cannot be decoded."""
        full = options.filled_from(self)
        self.refuse(full)
        start, weights = time.perf_counter(), shipped_weights()
        tokens, inputs = network_inputs(messages)
        counted = len(tokens) + CELLS * CELLS * len(inputs)
        sampled = (
            np.random.default_rng(self._seed(full, messages, draw, options))
            if full.temperature
            else None
        )
        with ONE_THREAD:
            talk = Conversation(
                weights, tokens, [weights.places(sha, pixels) for sha, pixels in inputs.items()]
            )
            text, top, finish, count = (
                _choose(talk, full.choices) if full.choices else _speak(talk, full, sampled)
            )
        served = {"model": "pocket", "engine": "looktwice", "version": weights.sha[:12]}
        seconds = time.perf_counter() - start
        return Reply(
            text,
            finish,
            usage=Usage(counted, count),
            seconds=seconds,
            logprobs=top,
            served_by=served,
        )

    def _seed(self, full: CallOptions, messages: Messages, draw: int, options: CallOptions) -> int:
        words = f"{full.seed or self.seed}\n{request_key(self.identity, messages, draw, options)}"
        return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8])


def network_inputs(messages: Messages) -> tuple[list[int], dict[str, Pixels]]:
    """The tokens of a conversation, and its different views by the sha256 of their pictures, fitted
    to the network.

    Raises ModelError, and PictureError for a view that cannot be decoded.
    """
    tokens = read_words(
        "\n".join(message.text for message in messages if message.role != "assistant")
    )
    if not tokens:
        raise ModelError("Pocket was asked nothing; give it a question")
    views = _distinct([view for message in messages for view in message.views])
    return tokens, {view.picture.payload.sha: fit_pixels(view.pixels)[0] for view in views}


def _distinct(views: Sequence[View]) -> list[View]:
    """The different pictures of a conversation in the order in which they came first."""
    first = {view.picture.payload.sha: view for view in reversed(views)}
    distinct = [first[sha] for sha in dict.fromkeys(view.picture.payload.sha for view in views)]
    if len(distinct) > VIEWS:
        raise ModelError(
            f"Pocket tells {VIEWS} different views apart, found {len(distinct)}; send it fewer"
        )
    return distinct


def _speak(
    talk: Conversation, options: CallOptions, sampled: np.random.Generator | None
) -> tuple[str, tuple[Mapping[str, float], ...], Finish, int]:
    """The reply word by word, its alternatives, why it ended, and the number of its tokens."""
    words, top, token, most = (
        list[int](),
        list[Mapping[str, float]](),
        ANSWER,
        min(REPLY, options.max_tokens or REPLY),
    )
    for _ in range(most):
        likely = talk.write(token)
        token = int(likely.argmax()) if sampled is None else _draw(sampled, likely, options)
        if options.logprobs:
            top.append(_alternatives(likely, options.logprobs, token))
        if token == END:
            return write_words(words), tuple(top), "stop", len(words) + 1
        words.append(token)
        text = write_words(words)
        if ends := [at for stop in options.stop or () if (at := text.find(stop)) >= 0]:
            return text[: min(ends)], tuple(top), "stop", len(words)
    return write_words(words), tuple(top), "length", len(words)


def _draw(sampled: np.random.Generator, likely: Floats, options: CallOptions) -> int:
    scaled = likely.astype(np.float64) / (options.temperature or 1)
    shares = np.exp(scaled - scaled.max())
    shares /= shares.sum()
    if options.top_p is not None:
        order = np.argsort(-shares, kind="stable")
        before = np.cumsum(shares[order]) - shares[order]
        shares[order[before >= options.top_p]] = 0
        shares /= shares.sum()
    return int(sampled.choice(len(shares), p=shares))


def _alternatives(likely: Floats, count: int, token: int) -> Mapping[str, float]:
    """The token that was said and then the likeliest others, `count` in all; the end is the empty
    text."""
    best = [
        int(number)
        for number in np.argsort(-likely, kind="stable")
        if number == END or number >= len(SPECIAL)
    ]
    ranked = [token, *(number for number in best if number != token)][:count]
    return {
        "" if number < len(SPECIAL) else VOCABULARY[number]: round(float(likely[number]), DIGITS)
        for number in ranked
    }


def _choose(
    talk: Conversation, choices: Sequence[str]
) -> tuple[str, tuple[Mapping[str, float], ...], Finish, int]:
    """The likeliest of the allowed texts, with the log-probability of each of them, the likeliest
    first."""
    scored = {choice: _likelihood(talk.copy(), choice) for choice in choices}
    ranked = dict(sorted(scored.items(), key=lambda ranking: -ranking[1]))
    return next(iter(ranked)), (ranked,), "stop", 0


def _likelihood(talk: Conversation, choice: str) -> float:
    """The summed log-probability of a text as the reply, with its end. Raises ModelError for
    unknown words."""
    total, before = 0.0, ANSWER
    tokens = reply_words(choice)
    if not tokens or len(tokens) > REPLY:
        raise ModelError(
            f"the choice {choice!r} is no reply of Pocket's, which has 1 to {REPLY - 1} words that"
            " it knows"
        )
    for token in tokens:
        total += float(talk.write(before)[token])
        before = token
    return round(total, DIGITS)
