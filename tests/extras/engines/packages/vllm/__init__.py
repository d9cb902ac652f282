"""A stand-in for vLLM with its signatures (`signatures.yaml`); it refuses the same arguments as
vLLM."""

from .llm import LLM as LLM
from .sampling_params import SamplingParams as SamplingParams

__version__ = "0.33.0"
