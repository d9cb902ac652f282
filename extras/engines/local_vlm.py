"""A multimodal model in this process: any image-text-to-text network of Hugging Face transformers,
by hub id."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.engines.chat_template import (
    Chat,
    build_chat,
    open_processor,
    render_template,
    split_reply,
)
from looktwice.extras.networks.hub import check_folder, find_place, load_from_hub, name_weights
from looktwice.extras.networks.opening import (
    Batcher,
    Device,
    Dtype,
    Place,
    get_remote_call,
    import_torch,
    import_transformers,
    is_out_of_memory,
    open_shared,
)
from looktwice.pipelines.config.spec import NOT_IDENTITY, settings
from looktwice.pipelines.extensions import find_extension
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import (
    CallOptions,
    FinishReason,
    Messages,
    ModelError,
    Reply,
    Tool,
    Usage,
    make_request_key,
)
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.runtime.weights import WeightsError


@dataclass(frozen=True, eq=False)
class _Network:
    """A loaded network with its processor; `note` describes missing features of the processor."""

    model: Any
    processor: Any
    note: str

    @property
    def config(self) -> Any:
        """The network's configuration."""
        return self.model.config

    @property
    def tokenizer(self) -> Any:
        return getattr(self.processor, "tokenizer", self.processor)

    @property
    def end_tokens(self) -> set[int]:
        """The tokens that end a reply."""
        ends = self.model.generation_config.eos_token_id
        return {self.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}

    def generate(self, inputs: Any, options: CallOptions) -> list[Reply]:
        """Generate the replies to prompts of equal length."""
        chosen: dict[str, Any] = dict.fromkeys(("temperature", "top_p", "top_k"))
        if options.temperature:
            top_p = options.top_p or 1.0
            top_k = options.top_k or 0
            chosen = {"temperature": options.temperature, "top_p": top_p, "top_k": top_k}
        if options.stop:
            chosen |= {"stop_strings": list(options.stop), "tokenizer": self.tokenizer}
        output = self.model.generate(
            **inputs,
            do_sample=bool(options.temperature),
            max_new_tokens=options.max_tokens,
            return_dict_in_generate=True,
            output_scores=bool(options.logprobs),
            **chosen,
        )
        counts, replies = inputs["attention_mask"].sum(1).tolist(), list[Reply]()
        for row, tokens in enumerate(output.sequences[:, inputs["input_ids"].shape[1] :].tolist()):
            end = next(
                (n for n, token in enumerate(tokens) if token in self.end_tokens), len(tokens)
            )
            tokens = tokens[: end + 1]  # the rest is padding
            likely: list[Mapping[str, float]] = []
            for scores in output.scores[: len(tokens)] if options.logprobs else ():
                most = min(options.logprobs or 0, scores.shape[-1])
                best = scores[row].float().log_softmax(-1).topk(most)
                pairs = zip(best.indices, best.values, strict=True)
                likely.append({self.tokenizer.decode([n]): float(p) for n, p in pairs})
            replies.append(self.decode_reply(tokens, counts[row], options, tuple(likely)))
        return replies

    def decode_reply(
        self,
        tokens: list[int],
        tokens_in: int,
        options: CallOptions,
        logprobs: tuple[Mapping[str, float], ...] = (),
    ) -> Reply:
        """Decode tokens into a reply."""
        whole = self.tokenizer.decode(tokens, skip_special_tokens=True)
        stops = [whole.index(stop) for stop in options.stop or () if stop in whole]
        text, reasoning, calls = split_reply(whole[: min(stops, default=None)], bool(options.tools))
        is_over = bool(stops) or not self.end_tokens.isdisjoint(tokens[-1:])
        finish: FinishReason = "tool" if calls else "stop" if is_over else "length"
        usage = Usage(tokens_in, len(tokens))
        thought = {"reasoning_content": reasoning} if reasoning else {}
        more: dict[str, Any] = {"usage": usage, "logprobs": logprobs, "attached": thought}
        return Reply(text, finish, reasoning, calls, **more)

    def choose(self, inputs: Any, choices: Sequence[str]) -> Reply:
        """Return the allowed text that is the most likely continuation of the prompt, by the summed
        log-probability of its tokens. Raises ModelError for a choice without tokens."""
        torch, likely = import_torch(), dict[str, float]()
        for choice in choices:
            encoded = self.tokenizer(choice, add_special_tokens=False, return_tensors="pt")
            tokens = encoded["input_ids"].to(self.model.device)
            if not tokens.numel():
                raise ModelError(
                    f"the choice {choice!r} has no tokens in this model; use a text"
                    " that has some, or leave it out"
                )
            longer = dict(inputs) | {"input_ids": torch.cat((inputs["input_ids"], tokens), 1)}
            for name, fill in (("attention_mask", 1), ("mm_token_type_ids", 0)):
                if name in longer:
                    longer[name] = torch.cat((inputs[name], torch.full_like(tokens, fill)), 1)
            logits = self.model(**longer).logits[0, -tokens.shape[1] - 1 : -1]
            likely[choice] = float(logits.float().log_softmax(-1).gather(1, tokens.T).sum())
        best = max(likely, key=lambda choice: likely[choice])
        return Reply(best, usage=Usage(int(inputs["attention_mask"].sum()), 0), logprobs=(likely,))


class ReplyStart(NamedTuple):
    """The internal state of a network at the start of a reply.

    `log_probabilities` (vocabulary,) holds the log-probability of each first token. `attention`
    (layers, heads, image tokens) is the attention from the last prompt token to the image tokens.
    `gradient` is the derivative of the most likely token's log-probability with respect to that
    attention, or to the input pixel values, in the same shape; None if not requested. `inputs` are
    the network's inputs, made from pictures of these `sizes` (height, width).
    """

    log_probabilities: NDArray[np.float64]
    attention: NDArray[np.float64]
    gradient: NDArray[np.float64] | None
    network: Any
    inputs: Any
    sizes: Sequence[tuple[int, int]]

    def find_first_tokens(self, choices: Sequence[str]) -> list[int]:
        """Return the first token of each choice."""
        encoded = (self.network.tokenizer(text, add_special_tokens=False) for text in choices)
        return [tokens["input_ids"][0] for tokens in encoded]


@dataclass(frozen=True)
class _VLMRequest:
    """One request: the chat, its options, and the seed for sampling (None: greedy)."""

    chat: Chat
    options: CallOptions
    seed: int | None


@dataclass(frozen=True)
class LocalVLM(Ranged):
    """Answers with a Hugging Face network (LLaVA, LLaVA-NeXT, Idefics3, Qwen2.5-VL ...) in this
    process; a turn may hold several images.

    `model` is a hub id or a local folder, `revision` pins a commit. A reply has at most
    `max_tokens` tokens, and ends before any string in `stop`; `top_p` limits sampling; `system` is
    the system message of every conversation. Greedy requests (`temperature` 0) of several threads
    are batched, up to `batch` at once. Sampled requests run one at a time, each with a seed derived
    from `seed`, the draw and the request, so that a reply never depends on other requests. A
    picture of more than `max_pixels` pixels is shrunk to that area; to make the views reflect this,
    use a resizing stage. `dtype` "auto" is bfloat16 on CUDA, float32 elsewhere; `device` "auto"
    takes CUDA, else MPS, else the CPU. `CallOptions.choices` are scored by their log-probability as
    the continuation (summed over their tokens): the most likely one is the reply, and
    `Reply.logprobs` holds all of them. Tools are passed to the chat template if it supports them,
    and `<tool_call>` blocks in the reply become tool calls.
    """

    model: str
    revision: str | None = None
    temperature: float = 0.0
    top_p: float | None = None
    max_tokens: int = 512
    stop: tuple[str, ...] | None = None
    seed: int = 0
    max_pixels: int | None = None
    system: str = ""
    dtype: Dtype = "auto"
    device: Device = field(default="auto", metadata=NOT_IDENTITY)
    batch: int = field(default=8, metadata=NOT_IDENTITY)
    remote: ClassVar[bool] = (
        True  # replies are cached, and go through the same wrappers as a server's
    )
    ranges = ("temperature, top_p >= 0", "top_p <= 1", "batch, max_tokens, max_pixels >= 1")

    @cached_property
    def identity(self) -> str:
        """The weights, the processor, and every setting that may change replies."""
        weights = {"weights": self.weights} if self.weights else {}
        return write_canonical({**settings(self), "model": self.model, **weights})

    @cached_property
    def weights(self) -> str:
        """The digest of a folder's files, or the commit of a hub model; empty if unavailable."""
        return name_weights(self.model, self.revision)

    def check(self) -> None:
        """Raise ModelError if the device, the packages or the folder are missing; loads nothing."""
        if get_remote_call() is not None:
            return
        try:
            check_folder(self.model)
            self._find_place()
            if find_spec("transformers") is None:
                import_transformers()
        except WeightsError as exc:
            raise ModelError(str(exc)) from exc
        folder = Path(self.model).expanduser()
        if folder.is_dir() and not (folder / "config.json").is_file():
            raise ModelError(
                f"the folder {self.model!r} has no config.json; name the folder of a network"
            )

    def refuse(self, options: CallOptions) -> None:
        """Raise ModelError for options that a network in this process does not support."""
        names = ("schema", "effort", "tool_choice")
        if lacking := [name for name in names if getattr(options, name) is not None]:
            raise ModelError(
                f"LocalVLM does not support {' or '.join(lacking)}; leave it out, or serve the"
                " model"
                " over HTTP"
            )

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask once. Raises PictureError, and ModelError, including when the network cannot be
        opened."""
        full = options.fill_from(self)
        self.refuse(full)
        seed = None
        if full.temperature and full.choices is None:
            key = make_request_key(self.identity, messages, draw, options)
            drawn = hashlib.sha256(f"{full.seed or self.seed}\n{key}".encode()).digest()
            seed = int.from_bytes(drawn[:7], "big")
        request = _VLMRequest(self.make_chat(messages, full.tools), full, seed)
        try:
            ask = get_remote_call()
            return cast(Reply, ask(self, "answer", request)) if ask else self.answer(request)
        except WeightsError as exc:
            raise ModelError(str(exc)) from exc
        except Exception as exc:
            if not is_out_of_memory(exc):
                raise
            raise ModelError(
                f"{self.model}: out of memory with one request; set max_pixels or max_tokens lower"
            ) from exc

    def answer(self, request: _VLMRequest) -> Reply:
        """Return the reply to a request, batched with similar ones. Raises WeightsError and the
        network's own errors."""

        def make_batch_key(request: _VLMRequest) -> Any:
            """Return the batching key: greedy requests with equal settings share a batch,
            separately with and without pictures."""
            shown = bool(request.chat.images), bool(request.chat.videos)
            return request.seed, shown, write_canonical(request.options.to_dict())

        key = ("vlm batcher", self.identity, self.device, self.batch)
        batcher: Batcher[_VLMRequest, Reply] = open_shared(
            key,
            lambda: Batcher(self._forward, self.batch, make_batch_key, f"LocalVLM {self.model}"),
        )
        return batcher(request)

    def _find_place(self) -> Place:
        return find_place(self.model, self.device, self.dtype, half="bfloat16")

    def network(self, **chosen: Any) -> _Network:
        """Return the loaded network, shared by all equal models of this process. Raises
        WeightsError.

        `chosen` are transformers settings, such as `attn_implementation`, for which a separate
        network is loaded.
        """
        place = self._find_place()
        key = ("vlm", self.model, self.revision, self.weights, place, write_canonical(chosen))
        return open_shared(key, lambda: self._open(place, chosen))

    def _open(self, place: Place, chosen: Mapping[str, Any]) -> _Network:
        commit = None if Path(self.model).expanduser().is_dir() else self.weights
        revision = (
            commit or self.revision
        )  # the commit in its identity, even if the hub has a newer one
        processor, note = open_processor(self.model, revision)
        getattr(processor, "tokenizer", processor).padding_side = "left"
        given = {"dtype": place.torch_dtype, "use_safetensors": True, **chosen}
        model = load_from_hub(
            "AutoModelForImageTextToText", self.model, revision, ("pooler",), **given
        )
        return _Network(model.to(place.device).eval(), processor, note)

    def _forward(self, requests: Sequence[_VLMRequest]) -> list[Reply]:
        network, torch, start = self.network(), import_torch(), time.perf_counter()
        options, seed = requests[0].options, requests[0].seed
        with torch.inference_mode(), torch.random.fork_rng(enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            if options.choices is None:
                inputs = self.make_inputs(network, [request.chat for request in requests])
                replies = network.generate(inputs, options)
            else:
                prompts = [self.make_inputs(network, [request.chat]) for request in requests]
                replies = [network.choose(prompt, options.choices) for prompt in prompts]
        from transformers import __version__

        facts = {
            "model": self.model,
            "engine": "transformers",
            "version": __version__,
            "revision": getattr(network.config, "_commit_hash", None),
            "processor": network.note,
        }
        served = {name: fact for name, fact in facts.items() if fact}
        seconds = (time.perf_counter() - start) / len(requests)
        return [replace(reply, seconds=seconds, served_by=served) for reply in replies]

    def compute_reply_start(
        self, messages: Messages, gradient: Literal["attention", "pixels", ""] = ""
    ) -> ReplyStart:
        """Return the attention to the pictures and the first-token probabilities before a reply.

        Loads the network a second time, with readable attention. Raises WeightsError, PictureError
        and the network's own errors.
        """
        network, torch = self.network(attn_implementation="eager"), import_torch()
        chat = self.make_chat(messages)
        inputs = self.make_inputs(network, [chat])
        seen = (inputs["input_ids"][0] == network.config.image_token_id).cpu()
        with torch.set_grad_enabled(bool(gradient)):
            pixels = [inputs["pixel_values"].requires_grad_()] if gradient == "pixels" else []
            output = network.model(
                **inputs, output_attentions=True, use_cache=False, logits_to_keep=1
            )
            likely = output.logits[0, -1].float().log_softmax(-1)
            layers = output.attentions
            grown: Any = torch.autograd.grad(likely.max(), pixels or layers) if gradient else ()

        def stack_rows(tensors: Sequence[Any]) -> NDArray[np.float64]:
            last = [tensor[0, :, -1].detach().float().cpu()[:, seen] for tensor in tensors]
            return np.stack([layer.double().numpy() for layer in last])

        first = likely.detach().cpu().double().numpy()
        sizes = [image.shape[:2] for image in chat.images]
        growth = (
            grown[0].double().cpu().numpy() if pixels else stack_rows(grown) if gradient else None
        )
        return ReplyStart(first, stack_rows(layers), growth, network, inputs, sizes)

    def make_chat(self, messages: Messages, tools: Sequence[Tool] | None = None) -> Chat:
        """Return the conversation as sent to this model: with its system message, and with pictures
        shrunk to its limit."""
        return build_chat(messages, self.system, tools, self.max_pixels)

    def make_inputs(self, network: _Network, chats: Sequence[Chat]) -> Any:
        """Return the inputs for chats that all have pictures or all have none. Raises
        ModelError."""
        texts = [render_template(network.processor, chat) for chat in chats]
        images = [list(chat.images) for chat in chats] if chats[0].images else None
        more: dict[str, Any] = {"return_tensors": "pt", "padding": True}
        if videos := [video for chat in chats for video in chat.videos]:
            part = find_extension("parts", "video_inputs")
            more |= part.open()(network.processor, videos) if part else {}
        inputs = network.processor(text=texts, images=images, **more)
        return inputs.to(network.model.device, network.model.dtype)
