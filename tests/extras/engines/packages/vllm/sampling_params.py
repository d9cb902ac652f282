"""Sampling parameters, with the ranges that vLLM 0.33 checks."""

import math
from dataclasses import dataclass, field
from typing import Any


class VLLMValidationError(Exception):
    """A request that vLLM refuses."""


@dataclass
class StructuredOutputsParams:
    json: Any = None
    regex: Any = None
    choice: Any = None
    grammar: Any = None
    json_object: Any = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: Any = None
    structural_tag: Any = None
    _backend: Any = field(default=None, init=False)
    _backend_was_auto: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        kinds = self.json, self.regex, self.choice, self.grammar, self.json_object
        if sum(kind is not None for kind in (*kinds, self.structural_tag)) != 1:
            raise VLLMValidationError("You must use one kind of structured outputs constraint")


@dataclass
class SamplingParams:
    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    watermarking: Any = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: Any = None
    stop: Any = None
    stop_token_ids: Any = None
    ignore_eos: bool = False
    max_tokens: Any = 16
    min_tokens: int = 0
    logprobs: Any = None
    prompt_logprobs: Any = None
    prompt_logprob_token_ids: Any = None
    prompt_logprob_start: Any = None
    logprob_token_ids: Any = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: Any = field(default_factory=str)
    stream_interval: Any = None
    skip_clone: bool = False
    output_text_buffer_length: int = 0
    _eos_token_id: Any = None
    _all_stop_token_ids: Any = field(default_factory=set)
    _watermarking_skipped: bool = False
    structured_outputs: Any = None
    logit_bias: Any = None
    allowed_token_ids: Any = None
    extra_args: Any = None
    bad_words: Any = None
    _bad_words_token_ids: Any = None
    skip_reading_prefix_cache: Any = None
    thinking_token_budget: Any = None
    repetition_detection: Any = None
    routed_experts_prompt_start: int = 0
    trace_decode_token_ids: Any = None

    def __post_init__(self) -> None:
        refused = {
            "temperature must be in [0, 2]": math.isfinite(self.temperature)
            and 0 <= self.temperature <= 2,
            "top_p must be in (0, 1]": 0 < self.top_p <= 1,
            "top_k must be 0 (disable), or at least 1": self.top_k >= -1,
            "max_tokens must be at least 1": self.max_tokens is None or self.max_tokens >= 1,
            "logprobs must be non-negative or -1": self.logprobs is None or self.logprobs >= -1,
            "stop cannot contain an empty string.": all(self.stop or ()),
        }
        for message, holds in refused.items():
            if not holds:
                raise VLLMValidationError(message)
