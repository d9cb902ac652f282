"""DIRE's classifier, applied to the image itself rather than to a reconstruction error: the
probability that an image was generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from looktwice.extras.networks.checkpoints import Tensors, count_distinct
from looktwice.extras.networks.network import Inputs, TensorNetwork, batch_norm
from looktwice.extras.networks.opening import Place, import_torch
from looktwice.extras.networks.tensors import normalize, to_batch
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError

BLOCK_COUNTS = ((3, 4, 6, 3), (3, 4, 23, 3), (3, 8, 36, 3))
"""The number of blocks in each of the four layers of ResNet-50, 101 and 152."""


@dataclass(frozen=True)
class Probability:
    """One probability, 0..1."""

    value: float


@dataclass(frozen=True)
class DIRE(TensorNetwork[Probability]):
    """The probability that a picture was generated, by DIRE's ResNet-50 (Wang et al., ICCV 2023).

    `model` is the file of its checkpoint, such as `lsun_adm.pth`, or of another ResNet-50, 101 or
    152 with one output and torchvision's tensor names. The network is given the image itself, with
    its shorter side resized to 256 pixels and cropped to the central 224 x 224, instead of the
    reconstruction error that it was trained on: this reproduces BLINK's reported value (91 of 132).
    """

    result = Probability
    kind = "a ResNet with one output, like DIRE's"
    min_side = 32  # smaller images, enlarged to 256 pixels, contain no traces of a generator
    needs_colors = True
    resizes_to_squares = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise ValueError(
                "`model` must be the file of DIRE's checkpoint, such as lsun_adm.pth; it is empty"
            )

    def __call__(self, pixels: Pixels, /) -> float:
        """Return the probability. Raises WeightsError, and NoEvidence for images that have a single
        colour or a side under 32 pixels."""
        return self.predict((pixels,)).value

    def finish(self, given: Inputs, result: Probability) -> float:
        """Return the probability as a number."""
        return result.value

    def run(self, tensors: Tensors, images: Any) -> Any:
        """Compute the logits (n,) of images (n, 3, height, width). Raises WeightsError."""
        if (depths := _count_blocks(tensors)) not in BLOCK_COUNTS or len(tensors["fc.weight"]) != 1:
            raise WeightsError(
                f"{self.model} has {depths} blocks in its four layers and"
                f" {len(tensors['fc.weight'])} outputs, but a ResNet-50 has"
                f" {BLOCK_COUNTS[0]} blocks, and DIRE one output; use the file of DIRE's checkpoint"
            )
        return run_resnet(tensors, images)[:, 0]

    def forward(
        self, network: Tensors, place: Place, items: Sequence[tuple[Pixels]]
    ) -> list[Probability]:
        """Return the probability of each picture."""
        inner = [crop_center(pixels) for (pixels,) in items]
        batch = normalize(to_batch(inner, place) / 255).to(place.torch_dtype)
        return [Probability(p) for p in self.run(network, batch).float().sigmoid().tolist()]


def crop_center(pixels: Pixels) -> NDArray[np.float32]:
    """Resize the shorter side to 256 pixels and return the central 224 x 224, 0..255."""
    height, width = pixels.shape[:2]
    size = (256, int(256 * height / width)) if width <= height else (int(256 * width / height), 256)
    small = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    return small[top : top + 224, left : left + 224]


def _count_blocks(tensors: Tensors) -> tuple[int, ...]:
    """Return the number of blocks in each of the four layers."""
    return tuple(count_distinct(tensors, rf"layer{layer}\.(\d+)\.") for layer in range(1, 5))


def run_resnet(tensors: Tensors, images: Any) -> Any:
    """Run a ResNet with bottlenecks (He et al., CVPR 2016; strides at the 3 x 3 convolutions) on
    tensors with torchvision's names."""
    functional = import_torch().nn.functional
    x = functional.conv2d(images, tensors["conv1.weight"], None, 2, 3)
    x = functional.max_pool2d(batch_norm(tensors, "bn1", x).relu(), 3, 2, 1)
    for layer, blocks in enumerate(_count_blocks(tensors), 1):
        for block in range(blocks):
            stride = 2 if layer > 1 and block == 0 else 1
            x = _run_bottleneck(tensors, f"layer{layer}.{block}", x, stride)
    return functional.linear(x.mean((2, 3)), tensors["fc.weight"], tensors["fc.bias"])


def _run_bottleneck(tensors: Tensors, name: str, x: Any, stride: int) -> Any:
    convolve = import_torch().nn.functional.conv2d
    inner = x
    for number, (step, rim) in enumerate(((1, 0), (stride, 1), (1, 0)), 1):
        inner = convolve(inner, tensors[f"{name}.conv{number}.weight"], None, step, rim)
        inner = batch_norm(tensors, f"{name}.bn{number}", inner)
        inner = inner.relu() if number < 3 else inner
    if f"{name}.downsample.0.weight" in tensors:
        x = convolve(x, tensors[f"{name}.downsample.0.weight"], None, stride)
        x = batch_norm(tensors, f"{name}.downsample.1", x)
    return (inner + x).relu()
