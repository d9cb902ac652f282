"""SGLang in this process: a thread runs its event loop, to which all others send their requests."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, ClassVar
from weakref import WeakSet

from PIL import Image

from looktwice.extras.engines.chat_template import Chat, render_template
from looktwice.extras.engines.faults import (
    make_death_error,
    make_device_error,
    make_request_error,
    require_package,
)
from looktwice.extras.engines.model import (
    THOUGHT_END,
    Completion,
    Engine,
    EngineModel,
    Request,
    collect_candidates,
)
from looktwice.pipelines.model import CallOptions, Messages, ModelError

ENGINE_NAME = "SGLang"
ANY_OBJECT_SCHEMA = '{"type": "object"}'
ALL_TOKENS = -1  # the `top_k` that keeps all tokens
SGLANG_ARGUMENTS = {
    "model_path": "model",
    "revision": "revision",
    "dtype": "dtype",
    "mem_fraction_static": "memory",
    "tp_size": "gpus",
    "enable_deterministic_inference": "seed",
    "skip_tokenizer_init": "no setting",
    "trust_remote_code": "no setting",
}


@dataclass(frozen=True)
class SGLang(EngineModel):
    """Answers with an SGLang engine in this process (`sglang.Engine`); a turn may hold several
    images.

    `model` is a hub id or a local folder, `revision` pins a commit. A reply has at most
    `max_tokens` tokens, and ends before any string in `stop`; with a `temperature` of 0 the most
    likely tokens are taken, and `top_p` and `top_k` limit sampling; `logprobs` is the number of
    alternatives per token. `dtype` is the type of the weights, `system` the system message of every
    conversation. A picture of more than `max_pixels` pixels is shrunk to that area. `template`
    holds variables of the chat template, such as `enable_thinking: false`, and `engine` further
    arguments of `sglang.Engine`, such as `context_length`. `memory` is the share of each GPU's
    memory for weights and cache (SGLang's default if None); `gpus` is the number of GPUs.

    Requests of up to `in_flight` threads are batched continuously. Pictures are passed as pixels,
    because SGLang decodes a JPEG on the GPU to slightly different pixels. SGLang obeys seeds only
    in deterministic inference, which is slower: a `seed` turns it on, and each sampled request then
    has a seed derived from it, the draw and the request. Without a `seed`, draws differ at random,
    and a reply may depend on other requests. `CallOptions.choices` and `schema` constrain decoding;
    tools and thoughts are read from the reply as in `LocalVLM`. Closing an engine ends all child
    processes of this process, as SGLang does.
    """

    package: ClassVar[str] = "sglang"
    reserved_arguments: ClassVar[Mapping[str, str]] = SGLANG_ARGUMENTS

    def check(self) -> None:
        """Raise ModelError if the package, a GPU or the folder is missing; opens no engine."""
        super().check()
        catch_crashes()

    def check_device(self) -> None:
        """Raise ModelError if SGLang finds no device to run on."""
        require_package(self.package)
        try:
            import_module("sglang.srt.utils").get_device()
        except (
            Exception
        ) as exc:  # RuntimeError, or any error of its libraries if there is no driver
            raise make_device_error(ENGINE_NAME, str(exc).partition("\n")[0]) from exc

    def derive_seed(
        self, messages: Messages, draw: int, options: CallOptions, full: CallOptions
    ) -> int | None:
        """Return the seed of a sampled request; None if the model has no seed. Raises ModelError if
        only the call has a seed, which the engine would ignore."""
        if self.seed is None:
            if options.seed is None:
                return None
            raise ModelError(
                "SGLang ignores seeds unless it was opened for them; set `seed` in the model's node"
            )
        return super().derive_seed(messages, draw, options, full)

    @property
    def identity_arguments(self) -> Mapping[str, Any]:
        """Further arguments of the engine that follow from settings and may change replies."""
        return {"enable_deterministic_inference": True} if self.seed is not None else {}

    def start(self) -> Engine:
        """Open the engine. Raises SGLang's own errors."""
        self.check_device()
        catch_crashes()
        arguments: dict[str, Any] = {"model_path": self.model, "revision": self.commit}
        arguments |= {"dtype": self.dtype, "tp_size": self.gpus, "log_level": "error"}
        if self.memory is not None:
            arguments["mem_fraction_static"] = self.memory
        return SGLangEngine({**arguments, **self.identity_arguments, **self.engine}, self.template)


@dataclass(eq=False)
class SGLangEngine:
    """An open `sglang.Engine` in the thread of its event loop.

    The thread that opens the engine must live as long as the engine: Linux ends the engine's
    processes with the thread that started them.
    """

    arguments: Mapping[str, Any]
    template: Mapping[str, Any]
    pending_requests: set[Future[Any]] = field(default_factory=set)
    # re-entrant, because a signal may arrive while it is held
    lock: Any = field(default_factory=threading.RLock)
    end_reason: ModelError | None = None
    version: str = ""
    accepts_pictures: bool = False
    thought_end: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.is_open = Future[None]()
        self.thread = threading.Thread(target=self._run, name="looktwice-sglang", daemon=True)
        OPEN_ENGINES.add(self)
        self.thread.start()
        self.is_open.result()

    def _run(self) -> None:
        try:
            sglang = import_module("sglang")  # first, because it chooses the kind of event loop
            self.loop = asyncio.new_event_loop()
        except BaseException as exc:
            self.is_open.set_exception(exc)
            return
        asyncio.set_event_loop(self.loop)
        try:
            self._open(sglang)
        except BaseException as exc:
            self.is_open.set_exception(exc)
        else:
            self.is_open.set_result(None)
            self.loop.run_forever()
        finally:
            self._close_loop()

    def _open(self, sglang: Any) -> None:
        self.engine = sglang.Engine(**self.arguments)
        self.manager = self.engine.tokenizer_manager
        self.version = sglang.__version__
        self.accepts_pictures = bool(self.manager.model_config.is_multimodal)
        tokenizer = self.manager.tokenizer
        self.thought_end = tokenizer.encode(THOUGHT_END, add_special_tokens=False)

    def _close_loop(self) -> None:
        """Cancel the engine's own tasks and close the loop."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()
        asyncio.set_event_loop(None)

    def submit(self, request: Request) -> Future[Completion]:
        """Queue a request, and return the future of its completion, which raises ModelError."""
        if self.end_reason is not None:
            raise self.end_reason
        asked = asyncio.run_coroutine_threadsafe(self._ask(request), self.loop)
        future = Future[Completion]()

        def deliver(asked: Future[Completion]) -> None:
            with self.lock:
                self.pending_requests.discard(asked)
            try:
                future.set_result(asked.result())
            except (CancelledError, asyncio.CancelledError):
                future.set_exception(self.end_reason or make_death_error(ENGINE_NAME))
            except ModelError as exc:
                future.set_exception(exc)
            except Exception as exc:
                future.set_exception(make_request_error(ENGINE_NAME, exc))

        with self.lock:
            self.pending_requests.add(asked)
        asked.add_done_callback(deliver)
        return future

    async def _ask(self, request: Request) -> Completion:
        found = await self.engine.async_generate(**self.make_arguments(request))
        return self.read_output(found)

    def make_arguments(self, request: Request) -> dict[str, Any]:
        """Return the arguments of `async_generate`. As in SGLang's server, a model with vision gets
        the rendered text, and any other model gets tokens, so that nothing is added to them."""
        arguments: dict[str, Any] = {"sampling_params": make_sampling(request)}
        if request.options.logprobs is not None:
            arguments["return_logprob"] = True
            arguments["top_logprobs_num"] = request.options.logprobs
        if request.chat.images:
            arguments["image_data"] = [Image.fromarray(pixels) for pixels in request.chat.images]
        if request.videos:
            arguments["video_data"] = list(request.videos)
        processor = TemplatedProcessor(
            self.manager.processor or self.manager.tokenizer, self.template
        )
        chat = request.chat if self.accepts_pictures else join_texts(request.chat)
        text = render_template(processor, chat)
        if self.accepts_pictures:
            return arguments | {"prompt": text}
        tokens = self.manager.tokenizer.encode(text, add_special_tokens=False)
        return arguments | {"input_ids": list(tokens)}

    def read_output(self, found: Mapping[str, Any]) -> Completion:
        """Return the completion in the result of `async_generate`. `async_generate` gives
        candidates as token ids without texts, the chosen one in a list of its own."""
        facts = found["meta_info"]
        chosen = facts.get("output_token_logprobs") or ()
        others = facts.get("output_top_logprobs") or [None] * len(chosen)
        rows = [[one, *(rest or ())] for one, rest in zip(chosen, others, strict=True)]
        decode = self.manager.tokenizer.decode
        return Completion(
            text=found["text"],
            finish_reason=str((facts.get("finish_reason") or {}).get("type") or "stop"),
            tokens=list(found["output_ids"]),
            tokens_in=int(facts["prompt_tokens"]),
            cached_tokens=int(facts.get("cached_tokens") or 0),
            logprobs=tuple(
                collect_candidates((decode([token]), value) for value, token, _ in row)
                for row in rows
            ),
        )

    def end(self, reason: ModelError) -> None:
        """Fail all unanswered and all later requests, with this reason."""
        self.end_reason = self.end_reason or reason
        with self.lock:
            waiting = list(self.pending_requests)
        for future in waiting:
            future.cancel()

    def close(self) -> None:
        """Shut the engine down and free the GPU; unanswered requests fail."""
        self.end(make_death_error(ENGINE_NAME))
        OPEN_ENGINES.discard(self)
        if not self.thread.is_alive():
            return
        with suppress(Exception):  # an engine whose processes have ended cannot be shut down
            self.engine.shutdown()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


OPEN_ENGINES: WeakSet[SGLangEngine] = WeakSet()
"""The engines of this process that have not been closed."""


def catch_crashes() -> None:
    """Handle the SIGQUIT that SGLang sends to this process if a process of an engine dies: the
    requests fail, whereas the signal alone would end this process. Only the main thread can set the
    handler; in other threads this does nothing."""
    if threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGQUIT) in (signal.SIG_DFL, None)
    ):
        signal.signal(signal.SIGQUIT, lambda number, frame: fail_open_engines())


def fail_open_engines() -> None:
    """Fail all requests of the open engines."""
    for engine in list(OPEN_ENGINES):
        engine.end(make_death_error(ENGINE_NAME))


@dataclass(frozen=True)
class TemplatedProcessor:
    """A processor or tokenizer whose chat template gets further variables."""

    processor: Any
    variables: Mapping[str, Any]

    @property
    def chat_template(self) -> Any:
        """The chat template."""
        return getattr(self.processor, "chat_template", None)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return getattr(self.processor, "tokenizer", self.processor)

    def apply_chat_template(self, turns: Sequence[Mapping[str, Any]], **settings: Any) -> Any:
        """Render turns."""
        return self.processor.apply_chat_template(turns, **{**self.variables, **settings})


def join_texts(chat: Chat) -> Chat:
    """Return a chat whose turns hold text rather than parts, as templates of language models take
    it."""
    turns = [
        {**turn, "content": "\n".join(part["text"] for part in turn["content"])}
        for turn in chat.turns
    ]
    return replace(chat, turns=turns)


def make_sampling(request: Request) -> dict[str, Any]:
    """Return the sampling parameters of a request. SGLang's own defaults, such as 128 tokens and
    temperature 1, never apply."""
    options = request.options
    sampling: dict[str, Any] = {
        "temperature": options.temperature or 0.0,
        "top_p": 1.0 if options.top_p is None else options.top_p,
        "top_k": options.top_k or ALL_TOKENS,
        "max_new_tokens": options.max_tokens,
        "stop": list(options.stop or ()),
    }
    if request.seed is not None:
        sampling["sampling_seed"] = request.seed
    if options.choices is not None:
        sampling["regex"] = "(" + "|".join(map(re.escape, options.choices)) + ")"
    elif options.schema is not None:
        sampling["json_schema"] = (
            json.dumps(options.schema) if options.schema else ANY_OBJECT_SCHEMA
        )
    return sampling
