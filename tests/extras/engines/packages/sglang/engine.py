"""The engine, whose requests run as tasks of the event loop of the thread that opened it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from tests.extras.engines.network import IMAGE_TOKENS, NETWORK, Seen, Tokenizer, cut, read_pixels
from tests.extras.engines.upstream import FACTS

from .sampling_params import SamplingParams


class Engine:
    def __init__(self, **kwargs: Any) -> None:
        unknown = set(kwargs) - set(FACTS["sglang"]["arguments"].split())
        if unknown:
            raise TypeError(f"Unexpected keyword argument '{sorted(unknown)[0]}'")
        NETWORK.open(kwargs)
        config = SimpleNamespace(is_multimodal=NETWORK.sees)
        processor = Tokenizer() if NETWORK.sees else None
        self.tokenizer_manager = SimpleNamespace(
            model_config=config, processor=processor, tokenizer=Tokenizer()
        )
        self.owner = threading.get_ident()

    def generate(
        self,
        prompt: Any = None,
        sampling_params: Any = None,
        input_ids: Any = None,
        image_data: Any = None,
        audio_data: Any = None,
        video_data: Any = None,
        mm_hashes: Any = None,
        mm_content_hashes: Any = None,
        return_logprob: Any = False,
        logprob_start_len: Any = None,
        top_logprobs_num: Any = None,
        token_ids_logprob: Any = None,
        lora_path: Any = None,
        custom_logit_processor: Any = None,
        require_reasoning: Any = False,
        return_hidden_states: Any = False,
        return_routed_experts: Any = False,
        routed_experts_start_len: Any = 0,
        stream: Any = False,
        bootstrap_host: Any = None,
        bootstrap_port: Any = None,
        bootstrap_room: Any = None,
        routed_dp_rank: Any = None,
        disagg_prefill_dp_rank: Any = None,
        kv_hints: Any = None,
        data_parallel_rank: Any = None,
        external_trace_header: Any = None,
        rid: Any = None,
        session_params: Any = None,
        priority: Any = None,
        session_id: Any = None,
        *,
        cache_salt: Any = None,
    ) -> list[dict[str, Any]]:
        pictures = image_data or [None] * len(prompt)

        async def ask() -> list[dict[str, Any]]:
            rows = zip(prompt, pictures, strict=True)
            asked = [
                self.async_generate(text, sampling_params, None, shown) for text, shown in rows
            ]
            return await asyncio.gather(*asked)

        return asyncio.run(ask())

    async def async_generate(
        self,
        prompt: Any = None,
        sampling_params: Any = None,
        input_ids: Any = None,
        image_data: Any = None,
        audio_data: Any = None,
        video_data: Any = None,
        mm_hashes: Any = None,
        mm_content_hashes: Any = None,
        return_logprob: Any = False,
        logprob_start_len: Any = None,
        top_logprobs_num: Any = None,
        token_ids_logprob: Any = None,
        lora_path: Any = None,
        custom_logit_processor: Any = None,
        require_reasoning: Any = False,
        return_hidden_states: Any = False,
        return_routed_experts: Any = False,
        routed_experts_start_len: Any = 0,
        stream: Any = False,
        bootstrap_host: Any = None,
        bootstrap_port: Any = None,
        bootstrap_room: Any = None,
        routed_dp_rank: Any = None,
        disagg_prefill_dp_rank: Any = None,
        kv_hints: Any = None,
        data_parallel_rank: Any = None,
        external_trace_header: Any = None,
        rid: Any = None,
        session_params: Any = None,
        priority: Any = None,
        session_id: Any = None,
        *,
        cache_salt: Any = None,
    ) -> dict[str, Any]:
        assert threading.get_ident() == self.owner, "its sockets belong to one event loop"
        params = SamplingParams(**sampling_params)
        params.verify()
        text = prompt if input_ids is None else Tokenizer().decode(input_ids)
        images = [read_pixels(image) for image in image_data or ()] if NETWORK.sees else []
        tokens_in = len(text) + IMAGE_TOKENS * len(images) + (input_ids is None)
        if tokens_in > NETWORK.context:
            raise ValueError(
                f"The input ({tokens_in} tokens) is longer than the model's context length"
            )
        seen = Seen(text, images, params, video_data or ())
        whole = NETWORK.begin(seen)
        if params.regex:
            whole = params.regex[1:-1].split("|")[-1]
        text, reason, count = cut(whole, params.stop or (), params.max_new_tokens)
        tokens = Tokenizer().encode(whole, add_special_tokens=False)[:count]
        for _ in tokens:
            while not NETWORK.gate.is_set():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
        NETWORK.end(seen)
        reason = NETWORK.reason or reason
        facts: dict[str, Any] = {"id": "1", "finish_reason": {"type": reason}}
        facts |= {"prompt_tokens": tokens_in, "cached_tokens": 7, "completion_tokens": count}
        if return_logprob:
            facts["output_token_logprobs"] = [(-1.0, token, None) for token in tokens]
        if top_logprobs_num:
            facts["output_top_logprobs"] = [
                [(-0.5, ord("z"), None), (-1.0, token, None), (-float("inf"), ord("y"), None)][
                    :top_logprobs_num
                ]
                for token in tokens
            ]
        return {"text": text, "output_ids": tokens, "meta_info": facts}

    def shutdown(self) -> None:
        NETWORK.closed += 1
