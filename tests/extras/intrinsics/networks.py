"""Files of Ordinal Shading with random tensors, by the names and shapes of the authors' classes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Shape = tuple[int, ...]
Named = Iterator[tuple[str, Shape]]


class Widths(NamedTuple):
    """The numbers of channels and blocks of both networks."""

    base: int
    groups: int
    depths: tuple[int, ...]
    features: int
    stem: int
    stages: tuple[tuple[int, int, int], ...]  # blocks, side of the kernels, channels
    small_features: int


FULL = Widths(
    64,
    32,
    (3, 4, 23, 3),
    256,
    32,
    ((1, 3, 24), (3, 3, 32), (3, 5, 48), (5, 3, 96), (5, 5, 136), (6, 5, 232), (1, 3, 384)),
    64,
)
"""ResNeXt-101 32x8d and EfficientNet-lite3, as released."""
TINY = Widths(
    8,
    4,
    (1, 2, 1, 1),
    8,
    8,
    ((1, 3, 8), (2, 3, 8), (1, 5, 12), (2, 3, 12), (1, 5, 16), (1, 5, 16), (1, 3, 20)),
    8,
)
PREFIXES = ("layer1.3", "layer1.4", "layer2.0", "layer3.0", "layer3.1", "layer4.0", "layer4.1")


def _norm(name: str, channels: int) -> Named:
    for kind in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{kind}", (channels,)


def _conv(name: str, out: int, inner: int, side: int) -> Named:
    yield f"{name}.weight", (out, inner, side, side)
    yield f"{name}.bias", (out,)


def list_large(widths: Widths) -> Named:
    """Yield the names and shapes of the network with a ResNeXt encoder."""
    last, outs = widths.base, list[int]()
    yield "pretrained.layer1.0.weight", (last, 3, 7, 7)
    yield from _norm("pretrained.layer1.1", last)
    for layer, depth in enumerate(widths.depths, 1):
        out = inner = widths.base * 2 ** (layer - 1) * 4
        for block in range(depth):
            name = (
                f"pretrained.layer1.4.{block}" if layer == 1 else f"pretrained.layer{layer}.{block}"
            )
            shapes = (inner, last, 1), (inner, inner // widths.groups, 3), (out, inner, 1)
            for number, (channels, given, side) in enumerate(shapes, 1):
                yield f"{name}.conv{number}.weight", (channels, given, side, side)
                yield from _norm(f"{name}.bn{number}", channels)
            if block == 0:
                yield f"{name}.downsample.0.weight", (out, last, 1, 1)
                yield from _norm(f"{name}.downsample.1", out)
            last = out
        outs.append(out)
    yield from _list_decoder(outs, [widths.features] * 4, widths.features)


def list_small(widths: Widths) -> Named:
    """Yield the names and shapes of the network with an EfficientNet-lite encoder."""
    last, outs = widths.stem, list[int]()
    yield "pretrained.layer1.0.weight", (last, 5, 3, 3)
    yield from _norm("pretrained.layer1.1", last)
    for prefix, (depth, side, out) in zip(PREFIXES, widths.stages, strict=True):
        for block in range(depth):
            name, wide = f"pretrained.{prefix}.{block}", last * 6
            shapes = [
                ("conv_pw", wide, last, 1),
                ("conv_dw", wide, 1, side),
                ("conv_pwl", out, wide, 1),
            ]
            if prefix == PREFIXES[0]:
                shapes = [("conv_dw", last, 1, side), ("conv_pw", out, last, 1)]
            for number, (part, channels, given, kernel) in enumerate(shapes, 1):
                yield f"{name}.{part}.weight", (channels, given, kernel, kernel)
                yield from _norm(f"{name}.bn{number}", channels)
            last = out
        outs.append(out)
    features = [widths.small_features * 2**n for n in range(4)]
    yield from _list_decoder([outs[n] for n in (1, 2, 4, 6)], features, widths.small_features, True)


def _list_decoder(
    outs: Sequence[int], features: Sequence[int], last: int, is_small: bool = False
) -> Named:
    for layer, (given, own) in enumerate(zip(outs, features, strict=True), 1):
        yield f"scratch.layer{layer}_rn.weight", (own, given, 3, 3)
        name = f"scratch.refinenet{layer}"
        for unit in (1, 2):
            for number in (1, 2):
                yield from _conv(f"{name}.resConfUnit{unit}.conv{number}", own, own, 3)
        if is_small:
            yield from _conv(f"{name}.out_conv", own // 2 if layer > 1 else own, own, 1)
    yield from _conv("scratch.output_conv.0", last // 2, last, 3)
    yield from _conv("scratch.output_conv.2", 32, last // 2, 3)
    yield from _conv("scratch.output_conv.4", 1, 32, 1)


def draw_tensors(listed: Named, seed: int) -> dict[str, Any]:
    """Return random tensors by name: small biases, variances around 1, and weights that keep the
    scale of what they are given."""
    import torch

    dice, tensors = torch.Generator().manual_seed(seed), {}
    for name, shape in listed:
        drawn = torch.randn(shape, generator=dice)
        if name.endswith("running_var"):
            drawn = 0.5 + drawn.abs()
        elif len(shape) == 1:
            drawn = 0.1 * drawn + (1 if name.endswith("weight") else 0)
        else:
            drawn = drawn * (0.5 / drawn[0].numel()) ** 0.5
        tensors[name] = drawn
    return tensors


def write_ordinal_shading(file: Path, widths: Widths = TINY) -> str:
    """Write a file with both networks and return its path."""
    import torch

    parts = {"ord_state_dict": list_large(widths), "iid_state_dict": list_small(widths)}
    drawn = {name: draw_tensors(listed, seed) for seed, (name, listed) in enumerate(parts.items())}
    torch.save(drawn, file)
    return str(file)
