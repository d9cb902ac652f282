"""Original checkpoints of Segment Anything, SAM-HQ, SAM 2 and 2.1, converted for Hugging Face
transformers."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.networks.checkpoints import (
    Tensors,
    count_distinct,
    load_weights,
    open_converted,
    open_tensors,
    rename_tensors,
)
from looktwice.extras.networks.opening import Place, import_torch, import_transformers
from looktwice.extras.networks.packages import import_package
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import Floats, Masks, argsort_descending
from looktwice.specialists.rules import Checked

HEAD_COUNT = 8  # heads of the mask decoder: not visible in shapes, and the same in every release
PERCEPTRON_PATTERN = re.compile(
    r"(.*\.(?:\w+_head|hf_mlp|output_hypernetworks_mlps\.\d+))\.layers\.(\d+)\.(.*)"
)
SHARED_EMBEDDING_NAME = "prompt_encoder.shared_embedding.positional_embedding"


def open_sam_file(path: str) -> tuple[Any, bool]:
    """Open the network of an original file, in evaluation mode; return it and whether it pads
    images to a square.

    Sizes are derived from the shapes, so pruned or tiny networks of the same architecture open too.
    Raises WeightsError.
    """
    tensors = open_tensors(path, "SAM", "SAM-HQ", "SAM 2")
    if "no_mem_embed" in tensors:
        return _open_sam2(path, tensors), False
    transformers, kind = import_transformers(), "Sam"
    settings = _read_settings(tensors)
    if "mask_decoder.hf_token.weight" in tensors:
        kind = "SamHQ"
        settings["mask_decoder_config"]["vit_dim"] = settings["vision_config"]["hidden_size"]
    config = getattr(transformers, f"{kind}Config")(**settings)
    named = {name: tensor for name, tensor in tensors.items() if not name.startswith("pixel_")}
    named = rename_tensors(rename_perceptrons(named), "sam", "mask_decoder")
    named["shared_image_embedding.positional_embedding"] = named[SHARED_EMBEDDING_NAME]
    network = open_converted(f"{kind}Model", config, named, path)
    if kind == "SamHQ":
        fix_sam_hq(network)
    return network, True


def fix_sam_hq(network: Any) -> None:
    """Make an opened SAM-HQ of Hugging Face transformers compute masks from the decoder's output
    for the image.

    Its code (5.23) uses the decoder's input instead, with rows and columns exchanged.
    """
    seen = threading.local()
    decoder = network.mask_decoder

    def store_image(_: Any, __: Any, output: Any) -> None:
        seen.image = output[1]  # (images, prompts, places, channels)

    def replace_input(_: Any, given: Any) -> Any:
        return (seen.image.transpose(2, 3).reshape(given[0].shape),)

    decoder.transformer.register_forward_hook(store_image)
    decoder.upscale_conv1.register_forward_pre_hook(replace_input)


def rename_perceptrons(tensors: Tensors) -> Tensors:
    """Rename the layers of perceptrons as in transformers: `proj_in`, `layers.N` and `proj_out`."""
    named = {}
    for name, tensor in tensors.items():
        if match := PERCEPTRON_PATTERN.match(name):
            head, place, rest = match[1], int(match[2]), match[3]
            last = count_distinct(tensors, rf"{re.escape(head)}\.layers\.(\d+)\.") - 1
            layer = {0: "proj_in", last: "proj_out"}.get(place, f"layers.{place - 1}")
            name = f"{head}.{layer}.{rest}"
        named[name] = tensor
    return named


def _read_settings(tensors: Tensors) -> dict[str, Any]:
    """Derive the configuration of a version 1 network from the shapes of its tensors."""
    size = tensors["image_encoder.pos_embed"].shape[1]
    patch = tensors["image_encoder.patch_embed.proj.weight"].shape[2]
    width, hidden = tensors["image_encoder.neck.0.weight"].shape[:2]
    blocks = count_distinct(tensors, r"image_encoder\.blocks\.(\d+)\.")
    global_layers, window = list[int](), 2 * 14 - 1
    for n in range(blocks):
        reach, channels = tensors[f"image_encoder.blocks.{n}.attn.rel_pos_h"].shape
        if reach == 2 * size - 1:
            global_layers.append(n)
        else:
            window = reach
    image = {"image_size": size * patch, "patch_size": patch}
    positions = tensors["prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"]
    return {
        "vision_config": image
        | {
            "hidden_size": hidden,
            "num_hidden_layers": blocks,
            "num_attention_heads": hidden // channels,
            "mlp_dim": tensors["image_encoder.blocks.0.mlp.lin1.weight"].shape[0],
            "window_size": (window + 1) // 2,
            "global_attn_indexes": global_layers,
            "output_channels": width,
            "num_pos_feats": positions.shape[1],
        },
        "prompt_encoder_config": image
        | {
            "image_embedding_size": size,
            "hidden_size": width,
            "mask_input_channels": tensors["prompt_encoder.mask_downscaling.3.weight"].shape[0],
        },
        # torch's epsilon is used in the decoder's transformer
        "mask_decoder_config": read_decoder_settings(tensors, width, "mask_decoder", "lin1")
        | {"layer_norm_eps": 1e-5},
    }


def read_decoder_settings(tensors: Tensors, width: int, decoder: str, mlp: str) -> dict[str, Any]:
    """Derive the configuration of a mask decoder: `decoder` is the prefix of its tensors in the
    file, `mlp` the name of the first weights of each layer's perceptron."""
    first = f"{decoder}.transformer.layers.0."
    within = tensors[f"{first}cross_attn_token_to_image.q_proj.weight"].shape[0]
    return {
        "hidden_size": width,
        "mlp_dim": tensors[f"{first}mlp.{mlp}.weight"].shape[0],
        "num_hidden_layers": count_distinct(tensors, rf"{decoder}\.transformer\.layers\.(\d+)\."),
        "num_attention_heads": HEAD_COUNT,
        "attention_downsample_rate": width // within,
        "num_multimask_outputs": tensors[f"{decoder}.mask_tokens.weight"].shape[0] - 1,
        "iou_head_depth": count_distinct(
            tensors, rf"{decoder}\.iou_prediction_head\.layers\.(\d+)\."
        ),
        "iou_head_hidden_dim": tensors[f"{decoder}.iou_prediction_head.layers.0.weight"].shape[0],
    }


INPUT_SIDE = 1024  # pixels of the square input of every release


# Settings that are not visible in shapes, by blocks in each stage (tiny, small, base plus, large):
# heads at the first stage, windows by stage, and the blocks with global attention
RELEASES = {
    (1, 2, 7, 2): (1, [8, 4, 14, 7], [5, 7, 9]),
    (1, 2, 11, 2): (1, [8, 4, 14, 7], [7, 10, 13]),
    (2, 3, 16, 3): (2, [8, 4, 14, 7], [12, 16, 20]),
    (2, 6, 36, 4): (2, [8, 4, 16, 8], [23, 33, 43]),
}
# the tensors that images need; the others are for video
IMAGE_TENSORS_PATTERN = re.compile(
    r"image_encoder\.|sam_prompt_encoder\.|sam_mask_decoder\.|no_mem_embed$"
)
POINT_PREFIX = "sam_prompt_encoder.point_embeddings."


def _open_sam2(path: str, tensors: Tensors) -> Any:
    """Open `Sam2Model` from the tensors of a file like `sam2.1_hiera_tiny.pt`. Raises
    WeightsError."""
    kept = {name: tensor for name, tensor in tensors.items() if IMAGE_TENSORS_PATTERN.match(name)}
    points = [kept.pop(name) for name in sorted(kept) if name.startswith(POINT_PREFIX)]
    named = rename_tensors(rename_perceptrons(kept), "sam2", "mask_decoder")
    named["prompt_encoder.point_embed.weight"] = import_torch().cat(points)
    named["shared_image_embedding.positional_embedding"] = named[SHARED_EMBEDDING_NAME]
    width = tensors["no_mem_embed"].shape[-1]
    stages = Counter[int]()
    for n in range(count_distinct(tensors, r"image_encoder\.trunk\.blocks\.(\d+)\.")):
        stages[len(tensors[f"image_encoder.trunk.blocks.{n}.mlp.layers.1.bias"])] += 1
    widths, depth = sorted(stages), tuple(stages[stage] for stage in sorted(stages))
    if depth not in RELEASES:
        raise WeightsError(
            f"{path} is a SAM 2 with {depth} blocks in its stages, which no release has; use the"
            " file of a release, or an id or folder of transformers"
        )
    heads, windows, global_layers = RELEASES[depth]
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": widths[0],
        "num_attention_heads": heads,
        "image_size": [INPUT_SIDE, INPUT_SIDE],
        "blocks_per_stage": list(depth),
        "embed_dim_per_stage": widths,
        "num_attention_heads_per_stage": [heads * 2**n for n in range(len(depth))],
        "window_size_per_stage": windows,
        "global_attention_blocks": global_layers,
        "window_positional_embedding_background_size": list(
            tensors["image_encoder.trunk.pos_embed"].shape[2:]
        ),
    }
    vision = {
        "model_type": "sam2_vision_model",
        "backbone_config": backbone,
        "backbone_channel_list": widths[::-1],
        "backbone_feature_sizes": [[INPUT_SIDE // step, INPUT_SIDE // step] for step in (4, 8, 16)],
        "fpn_hidden_size": width,
    }
    prompts = {
        "hidden_size": width,
        "image_size": INPUT_SIDE,
        "patch_size": 16,
        "mask_input_channels": tensors["sam_prompt_encoder.mask_downscaling.3.weight"].shape[0],
    }
    config = import_transformers().Sam2Config(
        vision_config=vision,
        prompt_encoder_config=prompts,
        mask_decoder_config=read_decoder_settings(tensors, width, "sam_mask_decoder", "layers.0"),
    )
    return open_converted("Sam2Model", config, named, path)


@dataclass(frozen=True)
class MaskFilter(Checked):
    """Decides which masks to keep, with the defaults of Kirillov et al. (ICCV 2023, appendix B).

    A mask is kept if its predicted IoU is above `iou` and its stability above `stability`: the IoU
    of the two masks that result if the threshold of the logits is raised and lowered by one. Of
    masks whose boxes overlap by more than `overlap` IoU, the one with the highest score is kept.
    `smallest` is the minimum share of the image that a mask covers. At most `most` masks are kept,
    those with the highest scores. SAM 2 predicts lower IoU: its authors use an `iou` of 0.8.
    """

    iou: float = 0.88
    stability: float = 0.95
    overlap: float = 0.7
    smallest: float = 0.0
    most: int = 64

    ranges = (
        "iou, stability, overlap, smallest >= 0",
        "iou, stability, overlap, smallest <= 1",
        "most >= 1",
    )


# the package's names of networks, by the encoder's number of channels
BUILD_NAMES = {768: "vit_b", 1024: "vit_l", 1280: "vit_h"}


@dataclass(frozen=True, eq=False)
class SamPackage:
    """The authors' package segment_anything and one of its networks, which several threads may
    use."""

    package: Any
    network: Any

    def embed(self, images: Sequence[Pixels]) -> list[Any]:
        """Return a predictor of the package for each image."""
        return [(self.package.SamPredictor(self.network), image) for image in images]

    def decode(self, seen: Any, prompts: Floats, size: Any, several: bool) -> tuple[Any, Any]:
        """Decode the masks of n prompts as logits (n, k, height, width), and their predicted IoU
        (n, k).

        Boxes (n, 4) and points (n, 2) are passed in the package's convention: in pixels, to which
        it adds half a pixel itself.
        """
        predictor, image = seen
        if not predictor.is_image_set:
            predictor.set_image(image)
        boxes, transform = prompts.shape[1] == 4, predictor.transform
        change = transform.apply_boxes if boxes else transform.apply_coords
        torch, device = import_torch(), self.network.device
        places = torch.as_tensor(change(prompts, size), device=device, dtype=torch.float32)
        given = {
            "point_coords": None if boxes else places[:, None],
            "point_labels": None if boxes else torch.ones(len(prompts), 1, device=device),
            "boxes": places if boxes else None,
        }
        logits, iou, _ = predictor.predict_torch(
            **given, multimask_output=several, return_logits=True
        )
        return logits, iou

    def make_mask(self, logits: Any, size: Any) -> NDArray[np.bool_]:
        """Return one mask from logits at the size of the image."""
        return np.asarray((logits > 0).cpu().numpy())

    def generate_masks(
        self, pixels: Pixels, points: Floats, filter: MaskFilter, most: int
    ) -> Masks:
        """Generate the masks of all points, `most` at once, that pass the filter."""
        height, width = pixels.shape[:2]
        generator = self.package.SamAutomaticMaskGenerator(
            self.network,
            points_per_side=None,
            point_grids=[(points + 0.5) / (width, height)],
            points_per_batch=most,
            pred_iou_thresh=filter.iou,
            stability_score_thresh=filter.stability,
            box_nms_thresh=filter.overlap,
        )
        least = max(1.0, filter.smallest * height * width)
        large = [mask for mask in generator.generate(pixels) if mask["area"] >= least]
        best = sorted(large, key=lambda mask: -mask["predicted_iou"])[: filter.most]
        masks = [np.asarray(mask["segmentation"], bool) for mask in best]
        return sort_by_area(masks, [mask["predicted_iou"] for mask in best], pixels)


def sort_by_area(masks: list[NDArray[np.bool_]], scores: list[float], pixels: Pixels) -> Masks:
    """Sort the masks of an image by descending area."""
    rows = Masks(
        np.reshape(masks, (-1, *pixels.shape[:2])), np.array(scores), np.full(len(masks), "")
    )
    return rows[argsort_descending(rows.masks.sum((1, 2)))]


def open_sam_package(model: str, place: Place) -> SamPackage:
    """Open the package's network with the tensors of an original file such as
    `sam_vit_b_01ec64.pth`.

    Raises WeightsError if the package is missing, or if the file is of another network or lacks a
    tensor.
    """
    package, tensors = import_package("segment_anything"), open_tensors(model, "SAM")
    width = tensors["image_encoder.pos_embed"].shape[-1]
    if width not in BUILD_NAMES:
        raise WeightsError(
            f"{model} has an encoder of {width} channels; the package supports {list(BUILD_NAMES)}"
        )
    network = package.sam_model_registry[BUILD_NAMES[width]]()
    return SamPackage(package, load_weights(network, tensors, model).to(place.device))
