"""Batches of images and maps as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.networks.opening import Place, import_torch

# ImageNet's mean and standard deviation of red, green and blue in 0..1
MEAN, STD = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def to_batch(images: Sequence[NDArray[Any]], place: Place) -> Any:
    """Stack images (height, width, channels) of one size into a tensor (n, channels, height, width)
    of the same type on the network's device."""
    batch = import_torch().from_numpy(np.stack(images)).to(place.device)
    return batch.permute(0, 3, 1, 2).contiguous()


def normalize(batch: Any, mean: Any = MEAN, std: Any = STD) -> Any:
    """Normalize a batch (n, 3, height, width) with values 0..1 by each channel's mean and standard
    deviation."""
    mean, std = (batch.new_tensor(values).view(3, 1, 1) for values in (mean, std))
    return (batch - mean) / std


def resize(batch: Any, size: tuple[int, int], antialias: bool = False) -> Any:
    """Resize maps (n, channels, height, width) bilinearly to another height and width."""
    interpolate = import_torch().nn.functional.interpolate
    return interpolate(batch, size, mode="bilinear", align_corners=False, antialias=antialias)


def to_array(values: Any) -> NDArray[Any]:
    """Convert a tensor of any precision and device to an array of floats."""
    return np.asarray(values.float().cpu().numpy())
