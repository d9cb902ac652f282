"""The two networks of Ordinal Shading, which are MiDaS networks with other inputs and outputs,
evaluated from named tensors."""

from __future__ import annotations

from typing import Any

from looktwice.extras.features.backbones import EPSILON, convolve_same
from looktwice.extras.networks.checkpoints import Tensors, count_distinct
from looktwice.extras.networks.network import batch_norm
from looktwice.extras.networks.opening import import_torch

ENCODER_LAYERS = (1, 2, 3, 4)
HALVING_STAGES = ("layer1.4", "layer2.0", "layer3.0", "layer4.0")
"""The stages of EfficientNet-lite whose first block halves the map."""
LAYER_STAGES = (
    ("layer1.3", "layer1.4"),
    ("layer2.0",),
    ("layer3.0", "layer3.1"),
    ("layer4.0", "layer4.1"),
)
"""The names of the stages of EfficientNet-lite that form each layer of the encoder."""
EXPANDING_CONVOLUTIONS, SEPARABLE_CONVOLUTIONS = (
    ("conv_pw", "conv_dw", "conv_pwl"),
    ("conv_dw", "conv_pw"),
)
"""The names of the convolutions in the two kinds of blocks of EfficientNet-lite."""


def run_large(tensors: Tensors, images: Any) -> Any:
    """Run the network with a ResNeXt encoder on images (n, d, height, width) whose sides are
    multiples of 32; return maps in 0..1."""
    maps = []
    for layer in ENCODER_LAYERS:
        images = run_resnext_layer(tensors, layer, images)
        maps.append(images)
    return _decode(tensors, maps)


def run_small(tensors: Tensors, images: Any) -> Any:
    """Run the network with an EfficientNet-lite encoder on images (n, d, height, width) whose sides
    are multiples of 32; return maps in 0..1."""
    stem = convolve_same(tensors, "pretrained.layer1.0", images, 2)
    x = batch_norm(tensors, "pretrained.layer1.1", stem, EPSILON).clamp(0, 6)
    maps = []
    for stages in LAYER_STAGES:
        for stage in stages:
            x = _run_stage(tensors, stage, x)
        maps.append(x)
    return _decode(tensors, maps)


def run_resnext_layer(tensors: Tensors, layer: int, x: Any) -> Any:
    """Run the blocks of a layer of the encoder; layer 1 begins with the stem."""
    functional = import_torch().nn.functional
    name, stride = f"pretrained.layer{layer}", 1 if layer == 1 else 2
    if layer == 1:
        x = functional.conv2d(x, tensors[f"{name}.0.weight"], None, 2, 3)
        x = functional.max_pool2d(batch_norm(tensors, f"{name}.1", x).relu(), 3, 2, 1)
        name += ".4"
    for block in range(count_distinct(tensors, rf"{name}\.(\d+)\.conv1\.")):
        x = _run_bottleneck(tensors, f"{name}.{block}", x, stride if block == 0 else 1)
    return x


def _run_bottleneck(tensors: Tensors, name: str, x: Any, stride: int) -> Any:
    """Run a bottleneck block with a grouped 3 x 3 convolution (Xie et al., CVPR 2017)."""
    convolve, inner = import_torch().nn.functional.conv2d, x
    for number, (step, rim) in enumerate(((1, 0), (stride, 1), (1, 0)), 1):
        weight = tensors[f"{name}.conv{number}.weight"]
        groups = inner.shape[1] // weight.shape[1]
        inner = convolve(inner, weight, None, step, rim, groups=groups)
        inner = batch_norm(tensors, f"{name}.bn{number}", inner)
        inner = inner.relu() if number < 3 else inner
    if f"{name}.downsample.0.weight" in tensors:
        x = convolve(x, tensors[f"{name}.downsample.0.weight"], None, stride)
        x = batch_norm(tensors, f"{name}.downsample.1", x)
    return (inner + x).relu()


def _run_stage(tensors: Tensors, stage: str, x: Any) -> Any:
    """Run the blocks of a stage of EfficientNet-lite."""
    name = f"pretrained.{stage}"
    for block in range(count_distinct(tensors, rf"{name}\.(\d+)\.conv_dw\.")):
        stride = 2 if stage in HALVING_STAGES and block == 0 else 1
        inner, own = x, f"{name}.{block}"
        steps = (
            EXPANDING_CONVOLUTIONS
            if f"{own}.conv_pwl.weight" in tensors
            else SEPARABLE_CONVOLUTIONS
        )
        for norm, convolution in enumerate(steps, 1):
            step = stride if convolution == "conv_dw" else 1
            inner = convolve_same(tensors, f"{own}.{convolution}", inner, step)
            inner = batch_norm(tensors, f"{own}.bn{norm}", inner, EPSILON)
            inner = inner if norm == len(steps) else inner.clamp(0, 6)
        x = inner + x if stride == 1 and inner.shape == x.shape else inner
    return x


def _decode(tensors: Tensors, maps: list[Any]) -> Any:
    """Fuse the maps of the encoder from the coarsest to the finest, and return the network's
    output."""
    functional, path = import_torch().nn.functional, None
    for layer in reversed(ENCODER_LAYERS):
        x = functional.conv2d(
            maps[layer - 1], tensors[f"scratch.layer{layer}_rn.weight"], padding=1
        )
        path = _fuse(tensors, f"scratch.refinenet{layer}", path, x)
    out = _convolve(tensors, "scratch.output_conv.0", path)
    out = functional.interpolate(out, scale_factor=2, mode="bilinear")
    out = _convolve(tensors, "scratch.output_conv.2", out).relu()
    return _convolve(tensors, "scratch.output_conv.4", out).sigmoid()


def _fuse(tensors: Tensors, name: str, path: Any, x: Any) -> Any:
    """Add the map `x` to the features of the coarser maps (`path`), refine the sum, and double its
    size."""
    if path is not None:
        x = path + _refine(tensors, f"{name}.resConfUnit1", x)
    x = _refine(tensors, f"{name}.resConfUnit2", x)
    interpolate = import_torch().nn.functional.interpolate
    x = interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
    return _convolve(tensors, f"{name}.out_conv", x) if f"{name}.out_conv.weight" in tensors else x


def _refine(tensors: Tensors, name: str, x: Any) -> Any:
    """Add the result of two convolutions to a map.

    In the large network, which has no `out_conv`, the authors' first activation overwrites its
    input, so that the result is added to the activated map.
    """
    active = x.relu()
    inner = _convolve(tensors, f"{name}.conv2", _convolve(tensors, f"{name}.conv1", active).relu())
    is_small = f"{name.rpartition('.')[0]}.out_conv.weight" in tensors
    return inner + (x if is_small else active)


def _convolve(tensors: Tensors, name: str, x: Any) -> Any:
    """Apply a convolution that keeps the size of the map."""
    weight = tensors[f"{name}.weight"]
    convolve = import_torch().nn.functional.conv2d
    return convolve(x, weight, tensors[f"{name}.bias"], padding=weight.shape[-1] // 2)
