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
from typing import Any, ClassVar, cast

from looktwice.pipelines.config.spec import NOT_IDENTITY, settings
from looktwice.pipelines.model import (
    CallOptions,
    Finish,
    Messages,
    ModelError,
    Reply,
    Tool,
    Usage,
    canonical,
    request_key,
)
from looktwice.pipelines.models.chat_template import (
    Chat,
    chat_of,
    open_processor,
    render_template,
    reply_text,
)
from looktwice.pipelines.runtime.batches import Batcher, out_of_memory
from looktwice.pipelines.runtime.hub import check_folder, from_hub, weights_name
from looktwice.pipelines.runtime.networks import (
    Device,
    Dtype,
    Place,
    WeightsError,
    elsewhere,
    import_torch,
    import_transformers,
    open_shared,
)


@dataclass(frozen=True, eq=False)
class _Network:
    """The opened network with its processor; `note` says what the processor cannot do."""

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


@dataclass(frozen=True)
class _Asked:
    """One request: the chat, what is wanted, and the seed of a sampled one (None: greedy)."""

    chat: Chat
    options: CallOptions
    seed: int | None


@dataclass(frozen=True)
class LocalVLM:
    """Answers with a Hugging Face network (LLaVA, LLaVA-NeXT, Idefics3, Qwen2.5-VL ...), several
    images a turn.

    `model` is a hub id or a local folder, `revision` pins a commit. A reply has at most
    `max_tokens`, and ends at a text of `stop`; `top_p` limits sampling; `system` stands in front of
    every conversation. Requests of several threads go through the network together, up to `batch`
    at once, where they are greedy (`temperature` 0); sampled ones go one by one, each with its own
    seed made from `seed`, the draw and the request, so that a reply never depends on its company. A
    picture of more than `max_pixels` is shrunk to that area; to have the views know of it, use a
    resizing stage. `dtype` "auto" is bfloat16 on CUDA, float32 elsewhere; `device` "auto" takes
    CUDA, else MPS, else the CPU. `CallOptions.choices` are scored by their log-probability as the
    continuation (summed over their tokens): the likeliest is the reply, and `Reply.logprobs` holds
    all of them. Tools go through the chat template where it knows them, and `<tool_call>` blocks in
    the reply to them become tool calls.
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
        True  # its replies are worth keeping, and go through the same wrappers as a server's
    )

    def __post_init__(self) -> None:
        if self.batch < 1 or self.max_tokens < 1 or self.temperature < 0:
            given = f"{self.batch}, {self.max_tokens} and {self.temperature}"
            raise ValueError(
                f"batch and max_tokens are 1 or more, temperature 0 or more; found {given}"
            )
        if self.max_pixels is not None and self.max_pixels < 1:
            raise ValueError(f"max_pixels is 1 or more, found {self.max_pixels}")

    @cached_property
    def identity(self) -> str:
        """The weights and processor, and every setting that may change replies; device and batch
        are not."""
        return canonical(
            {
                **settings(self),
                "model": self.model,
                **({"weights": self.weights} if self.weights else {}),
            }
        )

    @cached_property
    def weights(self) -> str:
        """The digest of a folder's files, or the commit of a hub's; empty where they cannot be
        had."""
        return weights_name(self.model, self.revision)

    def check(self) -> None:
        """Raises ModelError where the device, the packages or the folder are missing; opens
        nothing."""
        try:
            if elsewhere() is None:
                self._place()
                if find_spec("transformers") is None:
                    import_transformers()
                check_folder(self.model)
                folder = Path(self.model).expanduser()
                if folder.is_dir() and not (folder / "config.json").is_file():
                    raise WeightsError(
                        f"the folder {self.model!r} holds no config.json; give the folder of a"
                        " network"
                    )
        except WeightsError as exc:
            raise ModelError(str(exc)) from exc

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask once. Raises ModelError, also where the network cannot be opened, and
        PictureError."""
        full = options.filled_from(self)
        lacking = [name for name in ("schema", "effort") if getattr(full, name) is not None]
        if lacking:
            raise ModelError(
                f"LocalVLM knows no {' and no '.join(lacking)}; leave it out, or serve the model"
                " over HTTP"
            )
        seed = None
        if full.temperature and full.choices is None:
            key = request_key(self.identity, messages, draw, options)
            drawn = hashlib.sha256(f"{full.seed or self.seed}\n{key}".encode()).digest()
            seed = int.from_bytes(drawn[:7], "big")
        asked = _Asked(self.chat(messages, full.tools), full, seed)
        try:
            return (
                cast(Reply, ask(self, "answer", asked))
                if (ask := elsewhere())
                else self.answer(asked)
            )
        except WeightsError as exc:
            raise ModelError(str(exc)) from exc
        except Exception as exc:
            if not out_of_memory(exc):
                raise
            raise ModelError(
                f"{self.model}: out of memory with one request; set max_pixels or max_tokens lower"
            ) from exc

    def answer(self, asked: _Asked) -> Reply:
        """The reply to a request, in a batch with others like it. Raises WeightsError, and what the
        network raises."""
        return self._batcher()(asked)

    def _place(self) -> Place:
        return Place.of(self.device, self.dtype, half="bfloat16")

    def network(self, **chosen: Any) -> _Network:
        """The opened network, one for all equal models of this process. Raises WeightsError.

        `chosen` are settings of transformers by which another one is opened, such as
        `attn_implementation`.
        """
        place = self._place()
        key = ("vlm", self.model, self.revision, self.weights, place, canonical(chosen))
        return open_shared(key, lambda: self._open(place, chosen))

    def _open(self, place: Place, chosen: Mapping[str, Any]) -> _Network:
        commit = None if Path(self.model).expanduser().is_dir() else self.weights
        revision = commit or self.revision  # what its identity names, whatever the hub has by now
        processor, note = open_processor(self.model, revision)
        getattr(processor, "tokenizer", processor).padding_side = "left"
        given = {"dtype": place.torch_dtype, "use_safetensors": True, **chosen}
        model = from_hub("AutoModelForImageTextToText", self.model, revision, ("pooler",), **given)
        return _Network(model.to(place.device).eval(), processor, note)

    def _batcher(self) -> Batcher[_Asked, Reply]:
        key = ("vlm batcher", self.identity, self.device, self.batch)
        return open_shared(
            key, lambda: Batcher(self._forward, self.batch, _like, f"LocalVLM {self.model}")
        )

    def _forward(self, asked: Sequence[_Asked]) -> list[Reply]:
        network, torch, start = self.network(), import_torch(), time.perf_counter()
        with torch.inference_mode(), torch.random.fork_rng(enabled=asked[0].seed is not None):
            if asked[0].seed is not None:
                torch.manual_seed(asked[0].seed)
            inputs = self.inputs(network, [request.chat for request in asked])
            if asked[0].options.choices is not None:
                replies = [
                    _chosen(network, self.inputs(network, [request.chat]), request.options)
                    for request in asked
                ]
            else:
                replies = _generated(network, inputs, asked[0].options)
        seconds = (time.perf_counter() - start) / len(asked)
        return [
            replace(request, seconds=seconds, served_by=self._served(network))
            for request in replies
        ]

    def chat(self, messages: Messages, tools: Sequence[Tool] | None = None) -> Chat:
        """The conversation as this model is asked it: with its system text, and pictures no larger
        than it takes."""
        return chat_of(messages, self.system, tools, self.max_pixels)

    def inputs(self, network: _Network, chats: Sequence[Chat]) -> Any:
        """What the network takes for some chats, which all have pictures or all have none. Raises
        ModelError."""
        texts = [render_template(network.processor, chat) for chat in chats]
        images = [list(chat.images) for chat in chats] if chats[0].images else None
        inputs = network.processor(text=texts, images=images, return_tensors="pt", padding=True)
        return inputs.to(network.model.device, network.model.dtype)

    def _served(self, network: _Network) -> dict[str, str]:
        from transformers import __version__

        commit = getattr(network.model.config, "_commit_hash", None)
        facts = {
            "model": self.model,
            "engine": "transformers",
            "version": __version__,
            "revision": commit or "",
        }
        return {key: value for key, value in (facts | {"processor": network.note}).items() if value}


def _like(asked: _Asked) -> Any:
    """Greedy requests with equal settings go together, those with pictures apart from those
    without."""
    return (asked.seed, bool(asked.chat.images), canonical(asked.options.given()))


def _generated(network: _Network, inputs: Any, options: CallOptions) -> list[Reply]:
    sampling = {
        "do_sample": True,
        "temperature": options.temperature,
        "top_p": options.top_p or 1.0,
        "top_k": 0,
    }
    greedy = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    chosen = sampling if options.temperature else greedy
    if options.stop:
        chosen |= {"stop_strings": list(options.stop), "tokenizer": network.tokenizer}
    output = network.model.generate(
        **inputs,
        max_new_tokens=options.max_tokens,
        return_dict_in_generate=True,
        output_scores=bool(options.logprobs),
        **chosen,
    )
    width, ends = inputs["input_ids"].shape[1], _ends(network)
    rows = output.sequences[:, width:].tolist()
    counts = inputs["attention_mask"].sum(1).tolist()
    return [
        _reply(
            network,
            _until(tokens, ends),
            counts[row],
            options,
            _top(network, output.scores, row, options),
        )
        for row, tokens in enumerate(rows)
    ]


def _reply(
    network: _Network,
    tokens: list[int],
    tokens_in: int,
    options: CallOptions,
    top: tuple[Mapping[str, float], ...],
) -> Reply:
    text_out = network.tokenizer.decode(tokens, skip_special_tokens=True)
    ended = bool(tokens) and tokens[-1] in _ends(network)
    stops = [text_out.index(stop) for stop in options.stop or () if stop in text_out]
    text, reasoning, calls = reply_text(text_out[: min(stops, default=None)], bool(options.tools))
    finish: Finish = "stop" if ended or stops else "length"
    usage = Usage(tokens_in, len(tokens))
    return Reply(
        text,
        "tool" if calls else finish,
        reasoning,
        calls,
        usage=usage,
        logprobs=top[: len(tokens)],
    )


def _ends(network: _Network) -> set[int]:
    ends = network.model.generation_config.eos_token_id
    return {network.tokenizer.eos_token_id} | set(ends if isinstance(ends, list) else [ends])


def _until(tokens: list[int], ends: set[int]) -> list[int]:
    """The tokens up to the first end, which stays; what follows is padding."""
    stop = next((n for n, token in enumerate(tokens) if token in ends), len(tokens) - 1)
    return tokens[: stop + 1]


def _top(
    network: _Network, scores: Any, row: int, options: CallOptions
) -> tuple[Mapping[str, float], ...]:
    """For each new token the `options.logprobs` likeliest texts and their natural
    log-probabilities."""
    if not options.logprobs:
        return ()
    most = min(options.logprobs, scores[0].shape[-1])
    best = [step[row].float().log_softmax(-1).topk(most) for step in scores]
    decode = network.tokenizer.decode
    return tuple(
        {decode([n]): float(p) for n, p in zip(step_best.indices, step_best.values, strict=True)}
        for step_best in best
    )


def _chosen(network: _Network, inputs: Any, options: CallOptions) -> Reply:
    """The likeliest of the allowed texts as the continuation of the prompt."""
    choices = options.choices or ()
    scored = {choice: _likelihood(network, inputs, choice) for choice in choices}
    best = max(scored, key=lambda choice: scored[choice])
    usage = Usage(int(inputs["attention_mask"].sum()), 0)
    return Reply(best, usage=usage, logprobs=(scored,))


def _likelihood(network: _Network, inputs: Any, choice: str) -> float:
    """The summed log-probability of the tokens of a text after the prompt. Raises ModelError for an
    empty text."""
    torch = import_torch()
    tokens = network.tokenizer(choice, add_special_tokens=False, return_tensors="pt")["input_ids"]
    tokens = tokens.to(network.model.device)
    if not tokens.numel():
        raise ModelError(f"the choice {choice!r} is no token of this model; give it a text")
    longer = dict(inputs)
    longer["input_ids"] = torch.cat((inputs["input_ids"], tokens), 1)
    for name, fill in (("attention_mask", 1), ("mm_token_type_ids", 0)):
        if name in longer:
            longer[name] = torch.cat((inputs[name], torch.full_like(tokens, fill)), 1)
    log_p = network.model(**longer).logits[0, -tokens.shape[1] - 1 : -1].float().log_softmax(-1)
    return float(log_p.gather(1, tokens.T).sum())
