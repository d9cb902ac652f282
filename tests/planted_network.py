"""A network with known attention."""

import json
from pathlib import Path
from typing import Any

from tests.tiny import tiny

MORE = 3.0  # a patch or token with ink gets e ** MORE times the attention of a blank one


def write_ink_seeker(folder: Path, heads: int = 2) -> Path:
    """Write a network in which every vision patch and every word attends to patches that are not
    white.

    In both encoders a state stands for ink, words or nothing, normalized to a length of 32 ** 0.5.
    Keys and queries agree in the dimension of each head that is rotated least, so that distance has
    no effect. Values are zero. Only the first `heads` of the vision encoder's two heads attend.
    """
    from safetensors.torch import load_file, save_file

    tiny("qwen2_5_vl", folder)
    # of two heads of 16; products of keys and questions are divided by 16 ** 0.5
    least, sharp = ([7, 23], MORE * 16**0.5)
    planted: list[tuple[str, Any, float]] = [
        ("patch_embed.proj.weight", 0, -1),  # white is 0 after the processor below
        ("attn.qkv.bias", [3, 19][:heads], sharp / 32**0.5),
        ("attn.qkv.weight", ([35, 51], [0, 0]), 1),
        ("merger.mlp.0.weight", (0, [0, 32, 64, 96]), 1),
        ("merger.mlp.2.weight", (0, 0), 1),  # four patches, a token
        ("embed_tokens.weight", (slice(None), 1), 1),
        ("q_proj.weight", (least, [1, 1]), 1),
        ("k_proj.weight", (least, [0, 0]), sharp / 32),
    ]
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if "norm" not in name and "ln_q" not in name:
            tensor.zero_()
        for end, index, value in planted:
            if name.endswith(end):
                tensor[index] = value
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings |= {"image_mean": [1, 1, 1], "image_std": [1, 1, 1]}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder
