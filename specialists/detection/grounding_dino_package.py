"""Grounding DINO by its authors' package groundingdino."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import OPENING, Place, WeightsError, first_line, import_torch
from looktwice.specialists.networks.checkpoint_kinds import require_kind, unwrap
from looktwice.specialists.networks.checkpoints import find_package_file, load_weights, read_tensors
from looktwice.specialists.networks.packages import INSTALL, import_package

CONFIGS = {96: "GroundingDINO_SwinT_OGC.py", 128: "GroundingDINO_SwinB_cfg.py"}  # by the channels of the encoder
BERT = "bert-base-uncased"
COMPUTED = ("bert.embeddings.position_ids", "label_enc.weight")  # in the files, and of no use to the network


@dataclass(frozen=True, eq=False)
class GroundingDINOPackage:
    """The package's functions and a network of it, which keeps the image in itself: one thread looks at a time."""

    inference: Any
    network: Any
    device: str
    turn: Any = field(default_factory=threading.Lock)

    def find(self, pixels: Pixels, words: Sequence[str], threshold: float) -> dict[str, Any]:
        """Boxes as edges in pixels, their scores, and the words of the likeliest token of each, all of them."""
        image = self.inference.Model.preprocess_image(np.ascontiguousarray(pixels[..., ::-1]))
        with self.turn:
            middles, scores, labels = self.inference.predict(
                self.network, image, " . ".join(words) + " .", threshold, 0.0, self.device, remove_combined=True
            )
        size = import_torch().tensor([pixels.shape[1], pixels.shape[0]])
        middle, half = middles[:, :2] * size, middles[:, 2:] * size / 2
        boxes = import_torch().cat([middle - half, middle + half], 1)
        return {"boxes": boxes, "scores": scores, "text_labels": labels}


def open_grounding_dino_package(model: str, tokenizer: str, place: Place) -> GroundingDINOPackage:
    """The package's network with the tensors of an original file such as `groundingdino_swint_ogc.pth`.

    `tokenizer` is a folder with BERT, or an id of it, which the package then fetches. Raises WeightsError where the
    package or BERT is missing, or the file is of another network or lacks a tensor.
    """
    inference, configs = import_package("groundingdino.util.inference"), import_package("groundingdino.util.slconfig")
    tensors = unwrap(read_tensors(model))
    require_kind(model, tensors, "GroundingDINO")
    name = CONFIGS.get(tensors["backbone.0.patch_embed.proj.weight"].shape[0])
    if name is None:
        raise WeightsError(f"{model} has an encoder of another size than {' and '.join(CONFIGS.values())}")
    settings = configs.SLConfig.fromfile(str(find_package_file("groundingdino-py", "groundingdino", "config", name)))
    settings.device, bert = place.device, Path(tokenizer).expanduser()
    settings.text_encoder_type = str(bert) if bert.is_dir() else BERT
    try:
        with OPENING:
            network = inference.build_model(settings)
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        raise WeightsError(
            f"the package groundingdino could not be opened with {settings.text_encoder_type} ({first_line(exc)}); set "
            f"tokenizer: to a folder with {BERT}, its weights too, or type: {INSTALL['groundingdino']}"
        ) from exc
    tensors = {key: each for key, each in tensors.items() if key not in COMPUTED}
    return GroundingDINOPackage(inference, load_weights(network, tensors, model).to(place.device), place.device)
