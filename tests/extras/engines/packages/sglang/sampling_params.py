"""Sampling parameters, with the ranges that SGLang 0.5.23 checks."""

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class SamplingParams:
    max_new_tokens: Any = 128
    stop: Any = None
    stop_token_ids: Any = None
    stop_regex: Any = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = field(default=1 << 30)
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_new_tokens: int = 0
    n: int = 1
    beam_width: Any = None
    json_schema: Any = None
    regex: Any = None
    ebnf: Any = None
    structural_tag: Any = None
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    no_stop_trim: bool = False
    stream_interval: Any = None
    logit_bias: Any = None
    sampling_seed: Any = None
    custom_params: Any = None
    watermark: Any = None
    stop_strs: Any = None
    stop_regex_strs: Any = None
    stop_str_max_len: int = 0
    stop_regex_max_len: int = 0
    is_normalized: bool = False
    ebnf_full_assistant: bool = False

    def verify(self) -> None:
        refused = {
            "temperature must be a non-negative finite number": math.isfinite(self.temperature)
            and self.temperature >= 0,
            "top_p must be in (0, 1]": 0 < self.top_p <= 1,
            "top_k must be -1 (disable) or at least 1": self.top_k >= 1 or self.top_k == -1,
            "at most 32 stop strings are allowed": len(self.stop or ()) <= 32,
            "Only one of json_schema, regex, ebnf, or structural_tag can be set.": None
            in (self.json_schema, self.regex),
        }
        for message, holds in refused.items():
            if not holds:
                raise ValueError(message)
