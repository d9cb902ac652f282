"""The device on which the stand-in runs."""

from typing import Any

from tests.extras.engines.network import NETWORK


def get_device(device_id: Any = None) -> str:
    if not NETWORK.has_gpu:
        raise RuntimeError(
            "No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin is available."
        )
    return "cuda"
