"""vLLM in this process: one thread owns the engine, adds the requests of all others to its batch at
any time, and delivers each result when it is finished."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from PIL import Image

from looktwice.extras.engines.faults import (
    make_death_error,
    make_device_error,
    make_opening_error,
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

ENGINE_NAME = "VLLM"
VLLM_ARGUMENTS = {
    "model": "model",
    "revision": "revision",
    "dtype": "dtype",
    "gpu_memory_utilization": "memory",
    "tensor_parallel_size": "gpus",
    "trust_remote_code": "no setting",
}


@dataclass(frozen=True)
class VLLM(EngineModel):
    """Answers with a vLLM engine in this process (`vllm.LLM`); a turn may hold several images.

    `model` is a hub id or a local folder, `revision` pins a commit. A reply has at most
    `max_tokens` tokens, and ends before any string in `stop`; with a `temperature` of 0 the most
    likely tokens are taken, and `top_p` and `top_k` limit sampling; `logprobs` is the number of
    alternatives per token. `dtype` is the type of the weights, `system` the system message of every
    conversation. A picture of more than `max_pixels` pixels is shrunk to that area. `template`
    holds variables of the chat template, such as `enable_thinking: false`, and `engine` further
    arguments of `vllm.LLM`, such as `max_model_len`. `memory` is the share of each GPU's memory
    that the engine reserves (vLLM's default if None), so two models on one GPU need 0.45 each;
    `gpus` is the number of GPUs.

    Requests of up to `in_flight` threads are batched continuously. Pictures are passed as pixels,
    at their positions between the texts. Sampled requests have a seed derived from `seed`, the draw
    and the request. As the arithmetic depends on the size of a batch, a reply may still depend on
    other requests; the variable VLLM_BATCH_INVARIANT=1 prevents that on recent GPUs.
    `CallOptions.choices` and `schema` constrain decoding; tools and thoughts are read from the
    reply as in `LocalVLM`.
    """

    package: ClassVar[str] = "vllm"
    reserved_arguments: ClassVar[Mapping[str, str]] = VLLM_ARGUMENTS

    def check_device(self) -> None:
        """Raise ModelError if vLLM finds no device to run on."""
        require_package(self.package)
        try:
            platform = import_module("vllm.platforms").current_platform
        except Exception as exc:  # any error of its libraries if there is no driver
            raise make_opening_error(ENGINE_NAME, self.model, exc) from exc
        if platform.is_unspecified():
            raise make_device_error(ENGINE_NAME, "its platform is unspecified")

    def start(self) -> Engine:
        """Open the engine. Raises vLLM's own errors."""
        self.check_device()
        arguments: dict[str, Any] = {"disable_log_stats": True, "interleave_mm_strings": True}
        if self.memory is not None:
            arguments["gpu_memory_utilization"] = self.memory
        arguments |= {"dtype": self.dtype, "tensor_parallel_size": self.gpus}
        arguments |= {"revision": self.commit, **self.engine}
        return VLLMEngine(self.model, arguments, self.template)


@dataclass(eq=False)
class VLLMEngine:
    """An open `vllm.LLM`; `pending_requests` holds the future of each unfinished request.

    vLLM's offline interface is not thread-safe. `enqueue_chat` renders a conversation with the
    model's chat template and adds it to the running batch; each `step` returns the finished
    requests.
    """

    model: str
    arguments: Mapping[str, Any]
    template: Mapping[str, Any]
    queue: list[tuple[Request, Future[Completion]]] = field(default_factory=list)
    pending_requests: dict[str, Future[Completion]] = field(default_factory=dict)
    condition: threading.Condition = field(default_factory=threading.Condition)
    end_reason: BaseException | None = None
    version: str = ""
    accepts_pictures: bool = False
    thought_end: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.is_open = Future[None]()
        self.worker = threading.Thread(target=self._work, name="looktwice-vllm", daemon=True)
        self.worker.start()
        self.is_open.result()

    def submit(self, request: Request) -> Future[Completion]:
        """Queue a request, and return the future of its completion, which raises ModelError."""
        future = Future[Completion]()
        with self.condition:
            if self.end_reason is not None:
                raise self.end_reason
            self.queue.append((request, future))
            self.condition.notify()
        return future

    def close(self) -> None:
        """Shut the engine down and free the GPU; unanswered requests fail."""
        self._end(make_death_error(ENGINE_NAME))
        self.worker.join()

    def _end(self, reason: BaseException) -> None:
        with self.condition:
            self.end_reason = self.end_reason or reason
            self.condition.notify()

    def _work(self) -> None:
        try:
            vllm = import_module("vllm")
            self.llm = vllm.LLM(self.model, **self.arguments)
            self.version, self.accepts_pictures = (
                vllm.__version__,
                self.llm.model_config.is_multimodal_model,
            )
            tokenizer = self.llm.get_tokenizer()
            self.thought_end = tokenizer.encode(THOUGHT_END, add_special_tokens=False)
        except BaseException as exc:
            self.is_open.set_exception(exc)
            return
        self.is_open.set_result(None)
        try:
            while self._take_turn():
                pass
        except BaseException as exc:  # fail the requests that would wait for this thread
            self._end(make_death_error(ENGINE_NAME, exc))
        for future in [*self.pending_requests.values(), *(future for _, future in self.queue)]:
            future.set_exception(self.end_reason or make_death_error(ENGINE_NAME))
        self._shut_down()

    def _take_turn(self) -> bool:
        """Add the requests that arrived, and run one step of the engine; return False once it is
        shut down."""
        with self.condition:
            while not (self.queue or self.pending_requests or self.end_reason):
                self.condition.wait()
            if self.end_reason is not None:
                return False
            arrived, self.queue = self.queue, []
        for request, future in arrived:
            self._add(request, future)
        for output in self.llm.llm_engine.step() if self.pending_requests else ():
            if output.finished:
                self.pending_requests.pop(output.request_id).set_result(read_output(output))
        return True

    def _add(self, request: Request, future: Future[Completion]) -> None:
        try:
            (given,) = self.llm.enqueue_chat(
                make_conversation(request),
                make_sampling(request),
                use_tqdm=False,
                tools=list(request.chat.tools) or None,
                chat_template_kwargs=dict(self.template) or None,
            )
        except Exception as exc:
            future.set_exception(make_request_error(ENGINE_NAME, exc))
            return
        self.pending_requests[strip_suffix(given)] = future

    def _shut_down(self) -> None:
        with suppress(Exception):  # an engine whose process has ended cannot be shut down
            self.llm.renderer.shutdown()
        with suppress(Exception):
            self.llm.llm_engine.engine_core.shutdown()
        del self.llm


def strip_suffix(given: str) -> str:
    """Return the id under which vLLM reports a request: `enqueue_chat` returns it with a dash and
    random letters at its end, unless VLLM_DISABLE_REQUEST_ID_RANDOMIZATION is set."""
    return given.partition("-")[0]


def make_conversation(request: Request) -> list[dict[str, Any]]:
    """Return the turns as `LLM.chat` takes them, with pictures as Pillow images of our pixels at
    their positions between the texts. A thought goes into `reasoning`."""
    images, videos = iter(request.chat.images), iter(request.videos)

    def convert(part: Mapping[str, Any]) -> Mapping[str, Any]:
        if part["type"] == "image":
            return {"type": "image_pil", "image_pil": Image.fromarray(next(images))}
        if part["type"] == "video":
            return {"type": "video_url", "video_url": {"url": next(videos)}}
        return part

    turns = list[dict[str, Any]]()
    for turn in request.chat.turns:
        made = {**turn, "content": [convert(part) for part in turn["content"]]}
        if thought := made.pop("reasoning_content", ""):
            made["reasoning"] = thought
        turns.append(made)
    return turns


def make_sampling(request: Request) -> Any:
    """Return the sampling parameters of a request. vLLM's own defaults, such as 16 tokens and
    temperature 1, never apply. Raises vLLM's own errors for invalid values."""
    options, params = request.options, import_module("vllm.sampling_params")
    constraint: dict[str, Any] = {}
    if options.choices is not None:
        constraint = {"choice": list(options.choices)}
    elif options.schema is not None:
        constraint = {"json": dict(options.schema)} if options.schema else {"json_object": True}
    return params.SamplingParams(
        temperature=options.temperature or 0.0,
        top_p=1.0 if options.top_p is None else options.top_p,
        top_k=options.top_k or 0,
        max_tokens=options.max_tokens,
        stop=list(options.stop or ()),
        seed=request.seed,
        logprobs=options.logprobs,
        structured_outputs=params.StructuredOutputsParams(**constraint) if constraint else None,
    )


def read_output(output: Any) -> Completion:
    """Return the completion in a finished `RequestOutput`."""
    made = output.outputs[0]
    return Completion(
        text=made.text,
        finish_reason=made.finish_reason or "stop",
        tokens=list(made.token_ids),
        tokens_in=len(output.prompt_token_ids or ()),
        cached_tokens=output.num_cached_tokens or 0,
        logprobs=tuple(collect_candidates(list_candidates(token)) for token in made.logprobs or ()),
    )


def list_candidates(token: Mapping[int, Any]) -> Iterator[tuple[str, float]]:
    """Yield text and log-probability of each candidate of a token, the chosen one first."""
    for found in token.values():
        yield found.decoded_token or "", found.logprob
