"""DIRE's classifier on the images themselves, without reconstruction: how likely a generator made
them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import (
    Place,
    WeightsError,
    import_torch,
    weights_file,
    weights_hash,
)
from looktwice.specialists.networks.checkpoints import (
    read_tensors,
    refuse_other,
    try_tensors,
    unwrap,
)
from looktwice.specialists.networks.image_size import MEAN, STD, require_colors, require_size
from looktwice.specialists.networks.network import Network

MIN_SIDE = 32  # pixels; smaller images, enlarged to 256, keep no traces of a generator
# of ResNet-50, 101 and 152: blocks of their four layers
DEPTHS = ((3, 4, 6, 3), (3, 4, 23, 3), (3, 8, 36, 3))

Tensors = dict[str, Any]


@dataclass(frozen=True)
class Probability:
    """One probability, 0..1."""

    value: float


@dataclass(frozen=True)
class DIRE(Network[tuple[Pixels], Probability]):
    """The probability that a picture was generated, by the ResNet-50 of DIRE (Wang et al., ICCV
    2023).

    `model` is the file of its checkpoint, such as `lsun_adm.pth`, or of another ResNet-50, 101 or
    152 with one output under torchvision's names. The network is given the image itself, its
    shorter side resized to 256 pixels and cropped to the inner 224 x 224, and not the
    reconstruction error that it was trained on: this reproduces BLINK's reported value (91 of 132).
    """

    result = Probability

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise ValueError(
                "model is the file of DIRE's checkpoint, such as lsun_adm.pth; found none"
            )

    def __call__(self, pixels: Pixels, /) -> float:
        """The probability. Raises NoEvidence for single-coloured images or ones under 32 pixels,
        WeightsError."""
        return self.predict((pixels,)).value

    def prepare(self, given: tuple[Any, ...]) -> tuple[Pixels]:
        """The picture. Raises NoEvidence where it is single-coloured or under 32 pixels."""
        item = super().prepare(given)
        require_size(item[0], MIN_SIDE)
        require_colors(item[0])
        return item

    def finish(self, given: tuple[Any, ...], result: Probability) -> float:
        """The probability as a number."""
        return result.value

    def open_network(self, place: Place) -> Tensors:
        """The tensors of the network. Raises WeightsError."""
        tensors = unwrap(read_tensors(self.model))
        refuse_other(self.model, tensors, "a ResNet with one output, as DIRE's")
        if (
            "layer1.0.conv3.weight" not in tensors
            or getattr(tensors.get("fc.weight"), "shape", (0,))[0] != 1
        ):
            raise WeightsError(
                f"{self.model} holds no ResNet with bottlenecks and one output"
                " (layer1.0.conv3.weight, fc.weight); give DIRE's checkpoint, such as lsun_adm.pth"
            )
        if (depths := _depths(tensors)) not in DEPTHS:
            raise WeightsError(
                f"{self.model} holds {depths} blocks in four layers, ResNet-50 has {DEPTHS[0]}"
            )
        try_tensors(lambda: _resnet(tensors, import_torch().zeros(1, 3, 32, 32)), self.model)
        return {
            name: tensor.to(place.device, place.torch_dtype) for name, tensor in tensors.items()
        }

    def forward(
        self, network: Tensors, place: Place, items: Sequence[tuple[Pixels]]
    ) -> list[Probability]:
        """The probability of each picture."""
        torch = import_torch()
        looked_at = np.stack([_inner(item[0]) for item in items]).transpose(0, 3, 1, 2)
        batch = torch.from_numpy(looked_at).to(place.device, place.torch_dtype)
        logits = _resnet(network, batch)[:, 0].float()
        return [Probability(float(probability)) for probability in logits.sigmoid().cpu()]

    def batch_key(self, item: tuple[Pixels]) -> Hashable:
        """Pictures of all sizes go together: the network looks at squares."""
        return None

    def weights_id(self) -> str:
        """The hash of the file."""
        return weights_hash(weights_file(self.model))


def _inner(pixels: Pixels) -> Any:
    """The inner 224 x 224 pixels of a picture whose shorter side is 256, (224, 224, 3) as the
    network takes them."""
    height, width = pixels.shape[:2]
    size = (256, int(256 * height / width)) if width <= height else (int(256 * width / height), 256)
    small = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR), np.float32)
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    return (
        (small[top : top + 224, left : left + 224] / 255 - np.array(MEAN)) / np.array(STD)
    ).astype(np.float32)


def _depths(tensors: Mapping[str, Any]) -> tuple[int, ...]:
    """The number of blocks in each of the four layers."""
    blocks = {tuple(name.split(".")[:2]) for name in tensors}
    return tuple(sum(first == f"layer{layer}" for first, *_ in blocks) for layer in range(1, 5))


def _resnet(tensors: Mapping[str, Any], images: Any) -> Any:
    """A ResNet with bottlenecks (He et al., CVPR 2016; strides at the 3 x 3 convolutions), as
    torchvision names it."""
    functional = import_torch().nn.functional
    x = functional.relu(
        _normalize(tensors, "bn1", functional.conv2d(images, tensors["conv1.weight"], None, 2, 3))
    )
    x = functional.max_pool2d(x, 3, 2, 1)
    for layer, blocks in enumerate(_depths(tensors), 1):
        for block in range(blocks):
            x = _bottleneck(
                tensors, f"layer{layer}.{block}", x, 2 if layer > 1 and block == 0 else 1
            )
    return functional.linear(x.mean((2, 3)), tensors["fc.weight"], tensors["fc.bias"])


def _bottleneck(tensors: Mapping[str, Any], name: str, x: Any, stride: int) -> Any:
    functional = import_torch().nn.functional
    inner = x
    for number, (step, rim) in enumerate(((1, 0), (stride, 1), (1, 0)), 1):
        inner = functional.conv2d(inner, tensors[f"{name}.conv{number}.weight"], None, step, rim)
        inner = _normalize(tensors, f"{name}.bn{number}", inner)
        inner = functional.relu(inner) if number < 3 else inner
    if f"{name}.downsample.0.weight" in tensors:
        x = functional.conv2d(x, tensors[f"{name}.downsample.0.weight"], None, stride)
        x = _normalize(tensors, f"{name}.downsample.1", x)
    return functional.relu(inner + x)


def _normalize(tensors: Mapping[str, Any], name: str, x: Any) -> Any:
    parts = (
        tensors[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return import_torch().nn.functional.batch_norm(x, *parts)
