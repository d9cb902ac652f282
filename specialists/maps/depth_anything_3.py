"""Depth Anything 3, by its authors' package depth_anything_3."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, WeightsError, check_tensors, hub_silence, weights_hash
from looktwice.specialists.networks.checkpoints import fetch, refuse_file
from looktwice.specialists.networks.image_size import require_colors
from looktwice.specialists.networks.network import Network
from looktwice.specialists.networks.packages import fixed_draws, import_package
from looktwice.specialists.results import DepthMap

FILES = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class DepthAnything3(Network[tuple[Pixels], DepthMap]):
    """Depth of one image by Depth Anything 3 (Lin et al., arXiv 2511.10647), by its package, which is to be installed.

    `model` is an id of its releases, or a folder with their `config.json` and `model.safetensors`: DA3MONO-LARGE,
    DA3-SMALL and DA3-BASE are Apache-2.0, DA3-LARGE and larger CC-BY-NC. All of them give distances, larger is
    farther, on a scale of their own but for the nested ones, which give metres. The package brings the longer side to
    504 pixels and chooses the precision itself; its map is brought to the size of the image bilinearly. Each image is
    looked at alone, for several at once are views of one scene to it.
    """

    model: str = "depth-anything/DA3MONO-LARGE"

    result = DepthMap

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype != "auto":
            raise ValueError(f"the package chooses the precision itself, found dtype: {self.dtype}; leave dtype out")

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """The map of the first image, at its size; further images are not looked at.

        Raises NoEvidence for a single-coloured image, and WeightsError.
        """
        return self.predict((image,))

    def prepare(self, given: tuple[Any, ...]) -> tuple[Pixels]:
        """The first image. Raises NoEvidence for a single-coloured image."""
        return (require_colors(given[0]),)

    def open_network(self, place: Place) -> Any:
        """The package's network with the tensors of its files. Raises WeightsError."""
        os.environ.setdefault("DA3_LOG_LEVEL", "WARN")  # or it prints three lines for each image
        refuse_file(self.model, f"an id of its releases, or a folder with their {' and '.join(FILES)}")
        api, folder = import_package("depth_anything_3.api"), self._folder()
        from safetensors.torch import load_model

        try:
            network = api.DepthAnything3(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
            missing, surplus = load_model(network, folder / "model.safetensors", strict=False)
        except (OSError, ValueError, KeyError, RuntimeError) as exc:
            said = " ".join(str(exc).split())[:200]
            raise WeightsError(
                f"{self.model} is no network of the package depth_anything_3 ({said}); give an id of its releases or "
                f"a folder with their {' and '.join(FILES)}"
            ) from exc
        loading = {"missing_keys": missing, "unexpected_keys": surplus}
        return check_tensors(self.model, network, loading).to(place.device).eval()

    def forward(self, network: Any, place: Place, items: Sequence[tuple[Pixels]]) -> list[DepthMap]:
        """One map for each image."""
        found = []
        for (pixels,) in items:
            with fixed_draws():  # for the sky, whose distance it draws from that of other pixels
                depth = network.inference([pixels]).depth[0]
            height, width = pixels.shape[:2]
            sized = cv2.resize(np.asarray(depth, np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
            found.append(DepthMap(np.asarray(sized, np.float64), larger_is_nearer=False))
        return found

    def weights_id(self) -> str:
        """The hash of the files."""
        return weights_hash(self._folder())

    def _folder(self) -> Path:
        """Where the files lie, fetched from the hub where `model` is no folder. Raises WeightsError."""
        place = Path(self.model).expanduser()
        if place.is_dir():
            return place
        from huggingface_hub import snapshot_download

        def fetched() -> Path:
            silent = bool(hub_silence(self.model, self.revision))
            wanted = list(FILES)
            return Path(
                snapshot_download(self.model, revision=self.revision, allow_patterns=wanted, local_files_only=silent)
            )

        return fetch(f"{self.model} (model:)", fetched)
