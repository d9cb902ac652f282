"""Depth Anything, and any other depth network of Hugging Face transformers, by hub id, folder or
original file."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import cv2
import numpy as np

from looktwice.extras.features.backbones import (
    read_dinov2_settings,
    rename_dinov2,
    use_authors_positions,
)
from looktwice.extras.networks.checkpoints import (
    Tensors,
    open_converted,
    open_tensors,
    refuse_file,
    rename_tensors,
)
from looktwice.extras.networks.hub import check_tensors, explain_unreachable_hub
from looktwice.extras.networks.network import HubModel, HubNetwork, Network
from looktwice.extras.networks.opening import Place, import_torch, import_transformers
from looktwice.extras.networks.packages import download_network, fix_random_draws, import_package
from looktwice.extras.networks.tensors import MEAN, STD, to_array, to_batch
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError, hash_weights
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.results import DepthMap

MIN_INPUT_SIDE = 518  # pixels; the authors' `input_size`, the minimum of both sides of an image
# model types that return distances, according to their papers
METRIC_TYPES = ("depth_pro", "glpn", "prompt_depth_anything", "zoedepth")


@dataclass(frozen=True)
class DepthAnything(HubNetwork[tuple[Pixels], DepthMap]):
    """Depth of one image by Depth Anything V1 or V2 (Yang et al., CVPR and NeurIPS 2024) or another
    depth network.

    `model` is any id that Hugging Face transformers opens for depth estimation;
    `LiheYoung/depth-anything-large-hf` is V1. `resize` "authors" follows the authors' own code: the
    image is resized with cubic interpolation, keeping its aspect ratio, so that both sides have at
    least 518 pixels and are multiples of 14; the map is resized to the image bilinearly, as each
    version's code does. "hub" leaves both steps to the processor that was saved with the network,
    which scales the side that is closer to 518 to this length and so uses fewer pixels; networks
    other than Depth Anything always use their processor.

    The direction of the values follows from the configuration: Depth Anything's relative models
    give inverse depth; metric ones, GLPN, ZoeDepth and Depth Pro give distances. If the
    configuration does not determine it (DPT), set `larger_is_nearer`. The small model of version 2
    is Apache-2.0, the larger ones CC-BY-NC.
    """

    model: str = "depth-anything/Depth-Anything-V2-Small-hf"
    larger_is_nearer: bool | None = None
    resize: Literal["authors", "hub"] = "authors"

    result = DepthMap
    image_count = 1
    needs_colors = True
    model_class = "AutoModelForDepthEstimation"
    unused_tensors = ("mask_token", "pooler")  # used only for training and classification
    version: ClassVar[int] = 2

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """Estimate the depth of the first image, at the image's size; further images are ignored.

        Raises WeightsError, and NoEvidence for an image that has a single colour or is too small.
        """
        return self.predict((image,))

    def open_file(self, path: str) -> HubModel:
        """Open an original checkpoint. Raises WeightsError."""
        return open_depth_anything(path)

    def is_larger_nearer(self, config: Any) -> bool:
        """Return whether larger values are nearer, according to the network's configuration or else
        the setting.

        Raises WeightsError if neither determines it, or if the setting contradicts the
        configuration.
        """
        kind, setting = config.model_type, self.larger_is_nearer
        configured = False if kind in METRIC_TYPES else None
        if kind == "depth_anything":
            configured = config.depth_estimation_type == "relative"
        if configured is None and setting is None:
            raise WeightsError(
                f"{self.model}: the configuration of a {kind} does not say whether its depth is"
                " inverse depth or a distance; set larger_is_nearer: true for inverse depth (MiDaS,"
                " Intel/dpt-large), false for distances (DPT over DINOv2 for NYU or KITTI)"
            )
        if None not in (configured, setting) and configured != setting:
            given = (
                "inverse depth (larger is nearer)"
                if configured
                else "a distance (smaller is nearer)"
            )
            raise WeightsError(
                f"{self.model}: its configuration declares {given}, which larger_is_nearer:"
                f" {str(setting).lower()} contradicts; leave it out"
            )
        return bool(setting if configured is None else configured)

    def forward(self, network: Any, place: Place, items: Sequence[tuple[Pixels]]) -> list[DepthMap]:
        """Return one map for each image."""
        images, nearer = [image for (image,) in items], self.is_larger_nearer(network.config)
        authors = self.resize == "authors" and network.config.model_type == "depth_anything"
        maps = (run_as_authors if authors else run_by_processor)(network, place, images)
        return [DepthMap(to_array(depth), nearer) for depth in maps]


def compute_authors_size(width: int, height: int, multiple: int) -> tuple[int, int]:
    """Return the width and height of the input as in the authors' code: neither is under
    `MIN_INPUT_SIDE`."""
    scale = max(MIN_INPUT_SIDE / width, MIN_INPUT_SIDE / height)
    least = math.ceil(MIN_INPUT_SIDE / multiple) * multiple
    columns, rows = (
        max(least, round(side * scale / multiple) * multiple) for side in (width, height)
    )
    return columns, rows


def run_as_authors(network: Any, place: Place, images: Sequence[Pixels]) -> Sequence[Any]:
    """Compute the maps of images of one size with the authors' preprocessing."""
    height, width = images[0].shape[:2]
    size = compute_authors_size(width, height, network.config.patch_size)
    inputs = []
    for image in images:
        large = cv2.resize(image / 255.0, size, interpolation=cv2.INTER_CUBIC)
        inputs.append((large - MEAN) / STD)
    batch = to_batch(inputs, place).to(place.torch_dtype)
    depths = network.model(pixel_values=batch).predicted_depth[:, None].float()
    # version 1 reads the last four blocks of its encoder, version 2 four that are spread over it
    read = list(network.config.backbone_config.out_indices)
    spread = read != list(range(read[0], read[0] + len(read)))
    interpolate = import_torch().nn.functional.interpolate
    full = interpolate(depths, (height, width), mode="bilinear", align_corners=spread)
    return list(full[:, 0])


def run_by_processor(network: Any, place: Place, images: Sequence[Pixels]) -> Sequence[Any]:
    """Compute the maps of images with the processor that was saved with the network."""
    for image in images:
        require_pixels(image, getattr(network.processor, "size_divisor", None) or 1)
    outputs = network.model(**network.make_inputs(place, images=list(images)))
    sizes = [image.shape[:2] for image in images]
    if network.config.model_type == "zoedepth":
        return list(map(remove_padding, outputs.predicted_depth, sizes))
    finish = network.processor.post_process_depth_estimation
    return [output["predicted_depth"] for output in finish(outputs, target_sizes=sizes)]


def remove_padding(depth: Any, size: tuple[int, int]) -> Any:
    """Return ZoeDepth's map (h, w) at the size of its image, without the padding that its processor
    adds to each side.

    The padding is three times the square root of half the side (`depth_model.py` of its authors).
    The processor can remove the padding itself only with torchvision.
    """
    (height, width), (rim, side) = size, (int(math.sqrt(length / 2) * 3) for length in size)
    interpolate = import_torch().nn.functional.interpolate
    whole = height + 2 * rim, width + 2 * side
    padded = interpolate(depth[None, None].float(), whole, mode="bicubic")
    return padded[0, 0, rim : rim + height, side : side + width]


# layers that the head of version 2 reads, by the encoder's number of layers
HEAD_LAYERS = {12: (3, 6, 9, 12), 24: (5, 12, 18, 24), 40: (10, 20, 30, 40)}
MAX_DEPTH_METRES = {"hypersim": 20, "vkitti": 80}  # the maximum depths of version 2's metric files


def open_depth_anything(path: str) -> HubModel:
    """Open Depth Anything from a file such as `depth_anything_v2_vits.pth` or
    `depth_anything_vitl14.pth`.

    The file does not state which layers the network reads, or whether its depth is in metres; both
    follow from the file's name, which must be one of the authors'. Raises WeightsError.
    """
    transformers, tensors = import_transformers(), open_tensors(path, "Depth Anything")
    encoder, head = Tensors(), Tensors()
    for name, tensor in tensors.items():
        if name.startswith("pretrained."):
            encoder[name.removeprefix("pretrained.")] = tensor
        elif name.startswith("depth_head."):
            head[name] = tensor
    settings = read_dinov2_settings(encoder)
    layers, metric = parse_file_name(path, settings["num_hidden_layers"])
    backbone = transformers.Dinov2Config(
        **settings,
        out_features=[f"stage{n}" for n in layers],
        apply_layernorm=True,
        reshape_hidden_states=False,
    )
    narrow, wide = tensors["depth_head.scratch.output_conv2.0.weight"].shape[:2]
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone,
        patch_size=settings["patch_size"],
        reassemble_hidden_size=settings["hidden_size"],
        neck_hidden_sizes=[len(tensors[f"depth_head.projects.{n}.weight"]) for n in range(4)],
        fusion_hidden_size=wide * 2,
        head_hidden_size=narrow,
        **metric,
    )
    named = {f"backbone.{name}": tensor for name, tensor in rename_dinov2(encoder).items()}
    named |= rename_tensors(head, "depth_anything")
    network = open_converted("DepthAnythingForDepthEstimation", config, named, path)
    use_authors_positions(network.backbone.embeddings)
    processor = transformers.DPTImageProcessorPil(
        size={"height": MIN_INPUT_SIDE, "width": MIN_INPUT_SIDE},
        keep_aspect_ratio=True,
        ensure_multiple_of=settings["patch_size"],
        do_pad=False,
        image_mean=list(MEAN),
        image_std=list(STD),
        resample=3,
    )
    return HubModel(network, processor)


def parse_file_name(path: str, depth: int) -> tuple[Sequence[int], dict[str, Any]]:
    """Parse a file name into the layers to read and the settings of metric depth. Raises
    WeightsError if it is not one of the authors' names."""
    name = Path(path).name
    layers: Sequence[int] = range(depth - 3, depth + 1)
    if re.match(r"depth_anything_v2_\w*vit[sblg]\b", name) and depth in HEAD_LAYERS:
        layers = HEAD_LAYERS[depth]
    elif not re.match(r"depth_anything_vit[sbl]14\b", name):
        raise WeightsError(
            f"{path} holds Depth Anything, but neither its tensors nor its name show the version,"
            " and versions 1 and 2 read different layers; name it as its authors do,"
            " depth_anything_v2_vits.pth or depth_anything_vits14.pth"
        )
    if "metric" not in name:
        return layers, {}
    farthest = [metres for scenes, metres in MAX_DEPTH_METRES.items() if scenes in name]
    if not farthest:
        raise WeightsError(
            f"{path} gives depth in metres, and only its name determines the maximum depth; name it"
            " as its authors do, depth_anything_v2_metric_hypersim_vits.pth or"
            " depth_anything_v2_metric_vkitti_vits.pth"
        )
    return layers, {"depth_estimation_type": "metric", "max_depth": farthest[0]}


RELEASE_FILES = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class DepthAnything3(Network[tuple[Pixels], DepthMap]):
    """Depth of one image by Depth Anything 3 (Lin et al., arXiv 2511.10647), which needs its
    authors' package to be installed.

    `model` is an id of its releases, or a folder with their `config.json` and `model.safetensors`:
    DA3MONO-LARGE, DA3-SMALL and DA3-BASE are Apache-2.0, DA3-LARGE and larger CC-BY-NC. All of them
    give distances (larger is farther), the nested ones in metres, the others on an arbitrary scale.
    The package resizes the longer side to 504 pixels and chooses the precision itself; its map is
    resized to the image bilinearly. Each image is processed alone, because the package treats
    several images as views of one scene.
    """

    model: str = "depth-anything/DA3MONO-LARGE"

    result = DepthMap
    extra = "hf"
    image_count = 1
    needs_colors = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype != "auto":
            raise ValueError(
                f"the package chooses the precision itself, found dtype: {self.dtype}; leave"
                " dtype out"
            )

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """Estimate the depth of the first image, at the image's size; further images are ignored.

        Raises WeightsError, and NoEvidence for a single-coloured image.
        """
        return self.predict((image,))

    def open_network(self, place: Place) -> Any:
        """Open the package's network with the tensors of its files. Raises WeightsError."""
        os.environ.setdefault(
            "DA3_LOG_LEVEL", "WARN"
        )  # otherwise it prints three lines for each image
        takes = f"an id of its releases or a folder with their {' and '.join(RELEASE_FILES)}"
        refuse_file(self.model, takes)
        api, folder = import_package("depth_anything_3.api"), self._folder()
        from safetensors.torch import load_model

        try:
            settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            network = api.DepthAnything3(**settings)
            missing, surplus = load_model(network, folder / "model.safetensors", strict=False)
        except (OSError, ValueError, KeyError, RuntimeError) as exc:
            reason = " ".join(str(exc).split())[:200]
            raise WeightsError(
                f"{self.model} is not a network of the package depth_anything_3 ({reason}); set"
                f" model: to {takes}"
            ) from exc
        loading = {"missing_keys": missing, "unexpected_keys": surplus}
        return check_tensors(self.model, network, loading).to(place.device).eval()

    def forward(self, network: Any, place: Place, items: Sequence[tuple[Pixels]]) -> list[DepthMap]:
        """Return one map for each image."""
        maps = []
        for (pixels,) in items:
            with (
                fix_random_draws()
            ):  # the distance of the sky is a random sample of the distances of other pixels
                depth = network.inference([pixels]).depth[0]
            size = pixels.shape[1], pixels.shape[0]
            sized = cv2.resize(np.asarray(depth, np.float32), size, interpolation=cv2.INTER_LINEAR)
            maps.append(DepthMap(np.asarray(sized, np.float64), larger_is_nearer=False))
        return maps

    def weights_id(self) -> str:
        """Return the hash of the files."""
        return hash_weights(self._folder())

    def _folder(self) -> Path:
        """Return the folder of the files, after downloading them if `model` is not a folder. Raises
        WeightsError."""
        place = Path(self.model).expanduser()
        if place.is_dir():
            return place
        from huggingface_hub import snapshot_download

        def fetch_folder() -> Path:
            is_unreachable = bool(explain_unreachable_hub(self.model, self.revision))
            return Path(
                snapshot_download(
                    self.model,
                    revision=self.revision,
                    allow_patterns=list(RELEASE_FILES),
                    local_files_only=is_unreachable,
                )
            )

        return download_network(f"{self.model} (model:)", fetch_folder)
