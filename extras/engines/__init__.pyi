from .local_vlm import LocalVLM as LocalVLM
from .sglang_engine import SGLang as SGLang
from .vllm_engine import VLLM as VLLM
