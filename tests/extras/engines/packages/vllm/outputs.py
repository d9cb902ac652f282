"""Results of a request."""

from dataclasses import dataclass
from typing import Any


@dataclass
class Logprob:
    logprob: float
    rank: Any = None
    decoded_token: Any = None


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: Any
    cumulative_logprob: Any
    logprobs: Any
    routed_experts: Any = None
    finish_reason: Any = None
    stop_reason: Any = None
    lora_request: Any = None
    sampling_mask: Any = None
    spec_decode_metrics: Any = None
    weight_versions: Any = None


class RequestOutput:
    def __init__(
        self,
        request_id: Any,
        prompt: Any,
        prompt_token_ids: Any,
        prompt_logprobs: Any,
        outputs: Any,
        finished: Any,
        metrics: Any = None,
        lora_request: Any = None,
        encoder_prompt: Any = None,
        encoder_prompt_token_ids: Any = None,
        num_cached_tokens: Any = None,
        num_cache_creation_tokens: Any = None,
        *,
        prompt_token_id_logprobs: Any = None,
        kv_transfer_params: Any = None,
        ec_transfer_params: Any = None,
        **kwargs: Any,
    ) -> None:
        self.request_id, self.prompt_token_ids = request_id, prompt_token_ids
        self.outputs, self.finished, self.num_cached_tokens = outputs, finished, num_cached_tokens
