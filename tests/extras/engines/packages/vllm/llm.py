"""The offline engine: `enqueue_chat` adds requests, and each `step` makes a token of every one."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace
from typing import Any

from tests.extras.engines.network import (
    BOS,
    IMAGE_TOKENS,
    NETWORK,
    Seen,
    Tokenizer,
    cut,
    read_pixels,
)
from tests.extras.engines.upstream import FACTS

from .outputs import CompletionOutput, Logprob, RequestOutput
from .sampling_params import VLLMValidationError


class EngineCoreClient:
    def shutdown(self, timeout: Any = None) -> None:
        NETWORK.closed += 1


class BaseRenderer:
    def shutdown(self) -> None:
        """Do nothing, because no renderer runs."""


class LLMEngine:
    """Unfinished requests by the id in their results, with the tokens that are still to be made."""

    def __init__(self) -> None:
        self.engine_core, self.owner = EngineCoreClient(), threading.get_ident()
        self.unfinished: dict[str, tuple[Seen, RequestOutput, list[int]]] = {}

    def step(self) -> list[RequestOutput]:
        assert threading.get_ident() == self.owner, "LLM is not thread-safe"
        NETWORK.gate.wait()
        if NETWORK.dies_of is not None:
            raise NETWORK.dies_of
        for _, _, tokens in self.unfinished.values():
            del tokens[-1:]
        names = [name for name, (_, _, tokens) in self.unfinished.items() if not tokens]
        over = [self.unfinished.pop(name) for name in names]
        for seen, _, _ in over:
            NETWORK.end(seen)
        return [output for _, output, _ in over]


class LLM:
    def __init__(
        self,
        model: Any,
        *,
        runner: Any = "auto",
        convert: Any = "auto",
        tokenizer: Any = None,
        tokenizer_mode: Any = "auto",
        skip_tokenizer_init: Any = False,
        trust_remote_code: Any = False,
        allowed_local_media_path: Any = "",
        allowed_media_domains: Any = None,
        tensor_parallel_size: Any = 1,
        dtype: Any = "auto",
        quantization: Any = None,
        revision: Any = None,
        tokenizer_revision: Any = None,
        chat_template: Any = None,
        seed: Any = 0,
        gpu_memory_utilization: Any = 0.92,
        cpu_offload_gb: Any = 0,
        offload_group_size: Any = 0,
        offload_num_in_group: Any = 1,
        offload_prefetch_step: Any = 1,
        offload_params: Any = None,
        enforce_eager: Any = False,
        enable_return_routed_experts: Any = False,
        return_sampling_mask: Any = False,
        disable_custom_all_reduce: Any = False,
        hf_token: Any = None,
        hf_overrides: Any = None,
        mm_processor_kwargs: Any = None,
        pooler_config: Any = None,
        structured_outputs_config: Any = None,
        profiler_config: Any = None,
        attention_config: Any = None,
        kv_cache_memory_bytes: Any = None,
        compilation_config: Any = None,
        quantization_config: Any = None,
        logits_processors: Any = None,
        spec_method: Any = None,
        spec_model: Any = None,
        spec_tokens: Any = None,
        **kwargs: Any,
    ) -> None:
        unknown = set(kwargs) - set(FACTS["vllm"]["arguments"].split())
        if unknown:
            name = sorted(unknown)[0]
            raise TypeError(f"EngineArgs.__init__() got an unexpected keyword argument '{name}'")
        mine = {"model": model, "dtype": dtype, "revision": revision, **kwargs}
        mine |= {"memory": gpu_memory_utilization, "gpus": tensor_parallel_size}
        NETWORK.open(mine)
        self.llm_engine, self.renderer, self.counter = LLMEngine(), BaseRenderer(), 0
        self.model_config = SimpleNamespace(is_multimodal_model=NETWORK.sees)
        self.interleaved = kwargs.get("interleave_mm_strings", False)

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer()

    def chat(
        self,
        messages: Any,
        sampling_params: Any = None,
        use_tqdm: Any = True,
        lora_request: Any = None,
        priority: Any = None,
        chat_template: Any = None,
        chat_template_content_format: Any = "auto",
        add_generation_prompt: Any = True,
        continue_final_message: Any = False,
        tools: Any = None,
        chat_template_kwargs: Any = None,
        tokenization_kwargs: Any = None,
        mm_processor_kwargs: Any = None,
    ) -> list[RequestOutput]:
        conversations = messages if isinstance(messages[0], list) else [messages]
        for conversation in conversations:
            self.enqueue_chat(conversation, sampling_params)
        outputs = list[RequestOutput]()
        while len(outputs) < len(conversations):
            outputs += self.llm_engine.step()
        return sorted(outputs, key=lambda output: int(output.request_id))

    def enqueue_chat(
        self,
        messages: Any,
        sampling_params: Any = None,
        use_tqdm: Any = True,
        lora_request: Any = None,
        priority: Any = None,
        chat_template: Any = None,
        chat_template_content_format: Any = "auto",
        add_generation_prompt: Any = True,
        continue_final_message: Any = False,
        tools: Any = None,
        chat_template_kwargs: Any = None,
        tokenization_kwargs: Any = None,
        mm_processor_kwargs: Any = None,
    ) -> list[str]:
        assert threading.get_ident() == self.llm_engine.owner, "LLM is not thread-safe"
        parts = [part for turn in messages for part in turn["content"]]
        images = [read_pixels(part["image_pil"]) for part in parts if part["type"] == "image_pil"]
        videos = [part["video_url"]["url"] for part in parts if part["type"] == "video_url"]
        if images and not NETWORK.sees:
            raise ValueError("the model is not a multimodal model")
        assert not any("reasoning_content" in turn for turn in messages), "vLLM reads `reasoning`"
        assert self.interleaved, "else all pictures stand before all texts"
        template: dict[str, Any] = {"tokenize": False, "chat_template": Tokenizer.chat_template}
        template |= {"tools": tools, "add_generation_prompt": True}
        text = Tokenizer().apply_chat_template(messages, **template, **(chat_template_kwargs or {}))
        prompt = [BOS, *map(ord, text), *[0] * IMAGE_TOKENS * len(images)]
        if len(prompt) > NETWORK.context:
            raise VLLMValidationError(
                f"This model's maximum context length is {NETWORK.context} tokens."
            )
        seen = Seen(text, images, sampling_params, videos)
        name = str(self.counter)
        self.counter += 1
        output = make_output(name, prompt, NETWORK.begin(seen), sampling_params)
        self.llm_engine.unfinished[name] = seen, output, list(output.outputs[0].token_ids)
        return [f"{name}-1a2b3c4d"]


def make_output(name: str, prompt: list[int], whole: str, params: Any) -> RequestOutput:
    """Return the finished result of a request."""
    constraint = params.structured_outputs
    if constraint is not None and constraint.choice is not None:
        whole = constraint.choice[-1]
    text, reason, count = cut(whole, params.stop or (), params.max_tokens)
    tokens = Tokenizer().encode(whole, add_special_tokens=False)[:count]
    likely = None
    if params.logprobs is not None:
        likely = [make_candidates(token, params.logprobs) for token in tokens]
    reason = NETWORK.reason or reason
    made = CompletionOutput(0, text, tokens, None, likely, finish_reason=reason)
    return RequestOutput(name, None, prompt, None, [made], True, num_cached_tokens=7)


def make_candidates(token: int, number: int) -> dict[int, Logprob]:
    """Return the chosen token among the `number` most likely ones, where it is the second."""
    others = [(ord("z"), -0.5), (token, -1.0), (ord("y"), -math.inf)][:number]
    found = {token: -1.0} | dict(others)
    return {n: Logprob(value, 1, Tokenizer().decode([n])) for n, value in found.items()}
