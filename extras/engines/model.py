"""The common parts of both engines' models: the settings, a request, and the reply to it."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from looktwice.extras.engines.chat_template import Chat, build_chat, split_reply
from looktwice.extras.engines.faults import make_opening_error, make_vision_error, require_package
from looktwice.extras.networks.hub import check_folder, name_weights
from looktwice.extras.networks.opening import get_remote_call, open_shared
from looktwice.pipelines.config.spec import NOT_IDENTITY, settings
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import (
    SAMPLING_RANGES,
    CallOptions,
    Messages,
    ModelError,
    Reply,
    Usage,
    make_request_key,
)
from looktwice.pipelines.models.limits import LIMIT_RANGES
from looktwice.pipelines.models.wire import FINISH_BY_REASON
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.runtime.weights import WeightsError

DEFAULT_IN_FLIGHT = 64
THOUGHT_END = "</think>"
UNSUPPORTED_OPTIONS = ("effort", "tool_choice")


@dataclass(frozen=True, eq=False)
class Request:
    """One request: the chat, its videos as data URLs, its options, and the seed of its sampling
    (None: greedy, or drawn by the engine)."""

    chat: Chat
    videos: tuple[str, ...]
    options: CallOptions
    seed: int | None

    @property
    def has_pictures(self) -> bool:
        """True if the chat shows pictures or videos."""
        return bool(self.chat.images or self.videos)

    @property
    def is_sampled(self) -> bool:
        """True if tokens are sampled, False if decoding is greedy."""
        return bool(self.options.temperature)


@dataclass(frozen=True, eq=False)
class Completion:
    """An engine's completion of a request: the text without the stop string, the engine's finish
    reason, the token ids, and the candidates for each token."""

    text: str
    finish_reason: str
    tokens: Sequence[int]
    tokens_in: int
    cached_tokens: int = 0
    logprobs: tuple[Mapping[str, float], ...] = ()


class Engine(Protocol):
    """An open engine, shared by all threads of this process."""

    version: str
    accepts_pictures: bool
    thought_end: Sequence[int]  # the tokens of "</think>"

    def submit(self, request: Request) -> Future[Completion]:
        """Queue a request, and return the future of its completion, which raises ModelError."""

    def close(self) -> None:
        """Shut the engine down and free the GPU; unanswered requests fail."""


@dataclass(frozen=True)
class EngineModel(Ranged):
    """A model in an engine of this process; subclasses name the engine and open it."""

    model: str
    revision: str | None = None
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int = 512
    stop: tuple[str, ...] | None = None
    logprobs: int | None = None
    seed: int | None = None
    system: str = ""
    max_pixels: int | None = None
    template: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "auto"
    engine: Mapping[str, Any] = field(default_factory=dict)
    memory: float | None = field(default=None, metadata=NOT_IDENTITY)
    gpus: int = field(default=1, metadata=NOT_IDENTITY)
    in_flight: int = field(default=DEFAULT_IN_FLIGHT, metadata=NOT_IDENTITY)
    remote: ClassVar[bool] = True  # replies are cached and rate-limited like a server's
    package: ClassVar[str] = ""
    reserved_arguments: ClassVar[
        Mapping[str, str]
    ] = {}  # engine argument -> the setting that sets it
    ranges = (
        *SAMPLING_RANGES,
        LIMIT_RANGES[0],
        "memory > 0",
        "memory <= 1",
        "top_k, gpus, max_pixels >= 1",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if taken := sorted(self.reserved_arguments.keys() & self.engine.keys()):
            pairs = ", ".join(f"{name} by `{self.reserved_arguments[name]}`" for name in taken)
            raise ValueError(f"engine must not hold arguments that other settings set: {pairs}")

    @cached_property
    def identity(self) -> str:
        """The weights, and every setting that may change replies."""
        weights = {"weights": self.weights} if self.weights else {}
        return write_canonical({**settings(self), "model": self.model, **weights})

    @cached_property
    def weights(self) -> str:
        """The digest of a folder's files, or the commit of a hub model; empty if unavailable."""
        return name_weights(self.model, self.revision)

    @property
    def commit(self) -> str | None:
        """The commit in the identity, even if the hub has a newer one; None for a folder."""
        return None if Path(self.model).expanduser().is_dir() else self.weights or self.revision

    def check(self) -> None:
        """Raise ModelError if the package, a GPU or the folder is missing; opens no engine."""
        if get_remote_call() is not None:
            return
        require_package(self.package)
        try:
            check_folder(self.model)
        except WeightsError as exc:
            raise ModelError(str(exc)) from exc
        self.check_device()

    def check_device(self) -> None:
        """Raise ModelError if the engine finds no device to run on."""
        raise NotImplementedError

    def start(self) -> Engine:
        """Open the engine. Raises ModelError and the engine's own errors."""
        raise NotImplementedError

    def refuse(self, options: CallOptions) -> None:
        """Raise ModelError for options that an engine in this process does not support."""
        if lacking := [name for name in UNSUPPORTED_OPTIONS if getattr(options, name) is not None]:
            raise ModelError(
                f"{type(self).__name__} does not support {' or '.join(lacking)}; leave it out, set"
                " a variable of the chat template in `template`, or serve the model over HTTP"
            )
        if options.choices is not None and options.schema is not None:
            raise ModelError("a reply cannot follow both `choices` and a `schema`; leave one out")

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask once. Raises ModelError, also if the engine cannot be opened, and PictureError."""
        full = options.fill_from(self)
        self.refuse(full)
        seed = self.derive_seed(messages, draw, options, full) if full.temperature else None
        chat = build_chat(messages, self.system, full.tools, self.max_pixels)
        views = [view for message in messages for view in message.views if view.picture.frames]
        videos = tuple(view.picture.payload.data_url for view in views)
        request, ask = Request(chat, videos, full, seed), get_remote_call()
        return cast(Reply, ask(self, "answer", request)) if ask else self.answer(request)

    def derive_seed(
        self, messages: Messages, draw: int, options: CallOptions, full: CallOptions
    ) -> int | None:
        """Return the seed of a sampled request, derived from the given seed, the draw and the
        request."""
        key = make_request_key(self.identity, messages, draw, options)
        drawn = hashlib.sha256(f"{full.seed or 0}\n{key}".encode()).digest()
        return int.from_bytes(drawn[:7], "big")

    def answer(self, request: Request) -> Reply:
        """Return the reply to a request, which the engine batches with those of other threads.
        Raises ModelError."""
        engine, start = self.open(), time.perf_counter()
        if request.has_pictures and not engine.accepts_pictures:
            raise make_vision_error(type(self).__name__, self.model)
        completion = engine.submit(request).result()
        return self.convert_completion(
            engine, completion, request.options, time.perf_counter() - start
        )

    def open(self) -> Engine:
        """Return the open engine, shared by all equal models of this process. Raises
        ModelError."""
        place = self.memory, self.gpus
        key = ("engine", self.package, self.engine_identity, place)
        return open_shared(key, self._start)

    @cached_property
    def engine_identity(self) -> str:
        """The weights and the arguments of the engine, except for its memory and number of GPUs."""
        given = {"dtype": self.dtype, "template": dict(self.template), **self.identity_arguments}
        weights = {"model": self.model, "revision": self.revision, "weights": self.weights}
        return write_canonical({**weights, **given, "engine": dict(self.engine)})

    @property
    def identity_arguments(self) -> Mapping[str, Any]:
        """Further arguments of the engine that follow from settings and may change replies."""
        return {}

    def _start(self) -> Engine:
        require_package(self.package)
        try:
            return self.start()
        except ModelError:
            raise
        except Exception as exc:
            raise make_opening_error(type(self).__name__, self.model, exc) from exc

    def convert_completion(
        self, engine: Engine, completion: Completion, options: CallOptions, seconds: float
    ) -> Reply:
        """Convert a completion to a reply. Raises ModelError if the engine aborted it."""
        finish = FINISH_BY_REASON.get(completion.finish_reason, "stop")
        if finish == "failed":
            raise ModelError(
                f"{type(self).__name__} aborted the reply"
                f" (finish reason {completion.finish_reason!r:.40})",
                retryable=True,
            )
        whole = completion.text
        if THOUGHT_END in whole and "<think>" not in whole:
            whole = f"<think>{whole}"  # the template put "<think>" at the prompt's end
        text, reasoning, calls = split_reply(whole, bool(options.tools))
        thought = count_tokens_through(completion.tokens, engine.thought_end) if reasoning else 0
        facts = {
            "model": self.model,
            "engine": self.package,
            "version": engine.version,
            "revision": self.commit or "",
            "finish_reason": ""
            if completion.finish_reason in FINISH_BY_REASON
            else completion.finish_reason[:40],
        }
        return Reply(
            text=text,
            finish="tool" if calls and finish == "stop" else finish,
            reasoning=reasoning,
            tool_calls=calls,
            usage=Usage(
                completion.tokens_in, len(completion.tokens), thought, completion.cached_tokens
            ),
            seconds=seconds,
            logprobs=completion.logprobs,
            served_by={name: fact for name, fact in facts.items() if fact},
            attached={"reasoning_content": reasoning} if reasoning else {},
        )


def count_tokens_through(tokens: Sequence[int], end: Sequence[int]) -> int:
    """Count the tokens up to and including the first occurrence of `end`; 0 if there is none."""
    size = len(end)
    places = range(len(tokens) - size + 1) if size else ()
    return next((n + size for n in places if list(tokens[n : n + size]) == list(end)), 0)


def collect_candidates(candidates: Iterable[tuple[str, float]]) -> Mapping[str, float]:
    """Return the candidates for one token by text, without those whose value is not finite. If
    several have the same text, the most likely one is kept."""
    likely: dict[str, float] = {}
    for text, value in candidates:
        if math.isfinite(value):
            likely[text] = max(value, likely.get(text, -math.inf))
    return likely
