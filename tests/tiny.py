"""Tiny networks, built from the settings in `tiny.yaml` or in the format of an original file."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} : {% for part in message['content'] %}{% if"
    " part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %} {% endfor %}<end> {%"
    " endfor %}{% if add_generation_prompt %}assistant : {% endif %}"
)
SPECIAL = ["<pad>", "<end>", "<unk>", "<image>", "<|vision_start|>", "<|vision_end|>"]
SPECIAL += ["<|image_pad|>", "<|video_pad|>", "<fake_token_around_image>", "<global-img>"]


@cache
def settings() -> dict[str, Any]:
    """Return the settings of all networks of transformers by name."""
    rooms = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    return {name: node for room in rooms.values() for name, node in room.items()}


def tiny(name: str, place: Path, *more: str) -> Path:
    """Build a network by name and return its folder or file."""
    if name in WRITTEN:
        WRITTEN[name](place, *more)
        return place
    node = settings()[name]
    if "parts" in node:
        seed()
        for part, settings_of_part in node["parts"].items():
            build_node(settings_of_part).save_pretrained(place / part)
        return place
    network = open_tiny(name)
    if name == "video":  # saving it as usual would rename the tracker's tensors
        from safetensors.torch import save_file

        network.config.save_pretrained(place)
        tensors = {key: tensor.clone() for key, tensor in network.state_dict().items()}
        save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    else:
        network.save_pretrained(place)
    for part in node.get("beside", ()):
        build_node(part).save_pretrained(place)
    if "preprocessor" in node:
        (place / "preprocessor_config.json").write_text(json.dumps(node["preprocessor"]))
    return place


def open_tiny(name: str) -> Any:
    """Build a network of transformers by name, in evaluation mode. Skips the test without
    transformers."""
    transformers = pytest.importorskip("transformers")
    node = settings()[name]
    seed()
    kind = getattr(transformers, node["network"])
    network, weights = kind(kind.config_class(**build_node(node["settings"]))), node.get("weights")
    if weights == "spread":
        spread_weights(network)
    elif weights:
        enlarge_weights(network, **weights)
    return network.eval()


def seed() -> None:
    """Seed torch, so that every build has the same weights."""
    pytest.importorskip("torch").manual_seed(0)


def build_node(node: Any) -> Any:
    """Return a setting, or the object of transformers or of this file that it describes."""
    transformers = pytest.importorskip("transformers")
    if isinstance(node, list):
        return [build_node(part) for part in node]
    if not isinstance(node, dict):
        return node
    given = {key: build_node(value) for key, value in node.items() if key != "new"}
    if "new" not in node:
        return given
    if template := getattr(given.get("tokenizer"), "chat_template", None):
        given["chat_template"] = template
    kind = PARTS.get(node["new"]) or getattr(transformers, node["new"], None)
    if kind is None:
        kind = getattr(pytest.importorskip("diffusers"), node["new"])
    return kind(**given)


def spread_weights(network: Any) -> None:
    """Scale the weights so that outputs depend on the image in every layer."""
    import torch

    with torch.no_grad():
        for name, weight in (*network.named_parameters(), *network.named_buffers()):
            if weight.ndim > 1 and weight.is_floating_point():  # some are initialised with zeros
                weight.copy_(torch.randn(weight.shape) * (2 * len(weight) / weight.numel()) ** 0.5)
            elif name.endswith("bias"):
                weight.copy_(torch.randn(weight.shape) / 4)


def enlarge_weights(network: Any, std: float, but: str = "none") -> None:
    """Scale the weights so that masks differ from each other and between places."""
    import torch

    with torch.no_grad():
        for name, tensor in network.named_parameters():
            if tensor.dim() > 1 or (name.endswith("bias") and but not in name):
                tensor.normal_(std=std)


# Tokenizers, and a backbone


def make_tokenizer(vocabulary: str = "a cat dog red box mug . the") -> Any:
    """Return a BERT tokenizer that knows these words."""
    from transformers import BertTokenizer

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", *vocabulary.split()]
    return BertTokenizer(vocab={token: number for number, token in enumerate(tokens)})


def make_chat_tokenizer(image: str) -> Any:
    """Return a tokenizer with a chat template in which `image` is the placeholder of a picture."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = [chr(code) for code in range(33, 127)]
    grid = [f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)]
    tokens = [*SPECIAL, *grid, *letters, "▁", "yes", "no"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    inner.decoder = decoders.Metaspace(prepend_scheme="never")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unk>",
        additional_special_tokens=SPECIAL[3:] + grid,
    )
    tokenizer.chat_template = TEMPLATE.replace("IMAGE", image)
    return tokenizer


def pyramid() -> dict[str, str]:
    """Return a backbone with feature maps of 1/2 to 1/16 of the size, like those of timm."""
    from torch import nn
    from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput

    class PyramidConfig(PreTrainedConfig):  # type: ignore[misc]
        model_type = "tiny_pyramid"

    class Pyramid(PreTrainedModel):  # type: ignore[misc]
        config_class = PyramidConfig

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            sizes = zip((3, 8, 16, 32), (8, 16, 32, 64), (4, 2, 2, 2), strict=True)
            self.levels = nn.ModuleList(nn.Conv2d(a, b, step, step) for a, b, step in sizes)
            self.post_init()

        def forward(self, pixel_values: Any, **_: Any) -> Any:
            maps = [pixel_values]
            for level in self.levels:
                maps.append(level(maps[-1]))
            return BaseModelOutput(last_hidden_state=maps[1:])

    AutoConfig.register("tiny_pyramid", PyramidConfig, exist_ok=True)
    AutoModel.register(PyramidConfig, Pyramid, exist_ok=True)
    return {"model_type": "tiny_pyramid"}


def make_clip_tokenizer() -> Any:
    """Return CLIP's tokenizer for lower-case texts."""
    from transformers import CLIPTokenizer

    letters = "abcdefghijklmnopqrstuvwxyz"
    ends = [f"{letter}</w>" for letter in letters]
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters, *ends]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=16)


PARTS: dict[str, Callable[..., Any]] = {
    "clip_words": make_clip_tokenizer,
    "words": make_tokenizer,
    "chat_words": make_chat_tokenizer,
    "pyramid": pyramid,
}

# Networks that need more than settings


def florence2(folder: Path) -> None:
    """Write Florence-2 with a tokenizer of letters and places."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import CLIPImageProcessorPil, Florence2Processor, PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "<image>"]
    letters = [chr(code) for code in range(32, 127) if chr(code) not in "<>"]
    vocabulary = {name: n for n, name in enumerate([*special, *letters])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    inner.add_tokens([AddedToken(f"<loc_{n}>", normalized=False) for n in range(1000)])
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), special, strict=False))
    extra = {"image_token": "<image>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, extra_special_tokens=extra, **names)
    network = open_tiny("florence2")
    network.generation_config.no_repeat_ngram_size = (
        1  # otherwise it would repeat one letter without end
    )
    network.save_pretrained(folder)
    size = {"height": 64, "width": 64}
    images = CLIPImageProcessorPil(size=size, crop_size=size, do_center_crop=False, resample=3)
    images.image_seq_length = 5  # one of the whole and four of places
    parts = ["pure_text", "ocr", "phrase_grounding", "polygons", "bboxes"]
    parts += [f"description_with_{what}" for what in ("bboxes", "bboxes_or_polygons", "polygons")]
    read = {part: {"PATTERN": None} for part in parts}
    Florence2Processor(images, tokenizer, post_processor_config=read).save_pretrained(folder)


def pp_ocr(folder: Path, kind: str, letters: str = "", **more: Any) -> Path:
    """Write a small text detector (PPOCRV5MobileDet) or recogniser (such as PPOCRV6SmallRec) with
    random weights."""
    import transformers

    seed()
    head = {"head_out_channels": len(letters)} if letters else {}
    config = getattr(transformers, f"{kind}Config")(**head)
    backbone = config.backbone_config
    if kind == "PPOCRV5MobileDet":
        config.neck_out_channels, config.layer_list_out_channels = 16, [8] * 4
        slim = {"scale": 0.25, "conv_symmetric_num": 1}
        config.backbone_config = type(backbone)(**slim, out_features=backbone.out_features)
    elif kind == "PPOCRV5ServerRec":
        backbone.stem_channels, backbone.stage_in_channels = [3, 8, 8], [8, 16, 32, 32]
        backbone.stage_mid_channels, backbone.stage_out_channels = [8] * 4, [16, 32, 32, 32]
    else:
        backbone.stem_channels, backbone.stage_out_channels = [3, 8, 16], [16] * 4
        backbone.block_configs = [
            [(size, 16, 16, stride, *last) for size, _, _, stride, *last in row]
            for row in backbone.block_configs
        ]
    goal = "TextRecognition" if letters else "ObjectDetection"
    network = getattr(transformers, f"{kind}For{goal}")(config)
    spread_weights(network)
    network.eval().save_pretrained(folder)
    version = "PPOCRV5Server" if "V5" in kind or not letters else "PPOCRV6Small"
    looks = {"image_processor_type": f"{version}{kind[-3:]}ImageProcessor"}
    text = json.dumps({**looks, "character_list": list(letters), **more})
    (folder / "preprocessor_config.json").write_text(text)
    return folder


# Original files


def loftr(file: Path) -> None:
    """Write LoFTR in its full shape with random weights, in its authors' format."""
    tensors = build_seeded("LoFTR", None).state_dict()
    save({"state_dict": {f"matcher.{name}": tensor for name, tensor in tensors.items()}}, file)


def disk(file: Path) -> None:
    """Write DISK in its full shape with random weights, in its authors' format."""
    save({"extractor": build_seeded("DISK").state_dict()}, file)


def aliked(file: Path) -> None:
    """Write ALIKED in its full shape with random weights, as safetensors."""
    from safetensors.torch import save_file

    save_file(build_seeded("ALIKED").state_dict(), file)


def head(file: Path, features: str) -> None:
    """Write LightGlue's head for these features, with the layer names of the published files."""
    from kornia.feature import LightGlue

    network = build_seeded("LightGlue", None, **{**LightGlue.features[features], "weights": None})
    save(
        {
            re.sub(r"^transformers\.(\d+)\.(\w+)", r"\2.\1", name): tensor
            for name, tensor in network.state_dict().items()
        },
        file,
    )


def build_seeded(kind: str, *given: Any, **settings: Any) -> Any:
    """Build a network of kornia with seeded weights."""
    import kornia.feature

    seed()
    return getattr(kornia.feature, kind)(*given, **settings)


def save(content: Any, file: Path) -> None:
    """Save with torch."""
    import torch

    torch.save(content, file)


TO_ORIGINAL = {  # pieces of transformers' names -> of segment_anything's
    "shared_embedding.positional_embedding": "pe_layer.positional_encoding_gaussian_matrix",
    "patch_embed.projection": "patch_embed.proj",
    "neck.conv1": "neck.0",
    "neck.layer_norm1": "neck.1",
    "neck.conv2": "neck.2",
    "neck.layer_norm2": "neck.3",
    ".point_embed.": ".point_embeddings.",
    "mask_embed.conv1": "mask_downscaling.0",
    "mask_embed.layer_norm1": "mask_downscaling.1",
    "mask_embed.conv2": "mask_downscaling.3",
    "mask_embed.layer_norm2": "mask_downscaling.4",
    "mask_embed.conv3": "mask_downscaling.6",
    "upscale_conv1": "output_upscaling.0",
    "upscale_layer_norm": "output_upscaling.1",
    "upscale_conv2": "output_upscaling.3",
    "layer_norm": "norm",
}


def sam_file(path: Path) -> None:
    """Write the tiny SAM as a checkpoint of segment_anything, with its tensor names."""
    import torch

    tensors = {"pixel_mean": torch.zeros(3, 1, 1), "pixel_std": torch.ones(3, 1, 1)}
    for name, tensor in open_tiny("sam").state_dict().items():
        if "shared_image" in name:
            continue
        for ours, theirs in TO_ORIGINAL.items():
            name = name.replace(ours, theirs)
        if name.startswith("vision_encoder"):
            name = name.replace("vision_encoder", "image_encoder").replace(".layers.", ".blocks.")
        if "iou_prediction_head" in name or "hypernetworks" in name:
            name = name.replace(".layers.0.", ".layers.1.")
        tensors[name.replace("proj_in", "layers.0").replace("proj_out", "layers.2")] = tensor
    save(tensors, path)


def dire_network() -> Any:
    """Build a transformers ResNet with bottlenecks and one output."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    seed()
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32, 48, 64], depths=[3, 4, 6, 3], num_labels=1
    )
    network = ResNetForImageClassification(config).eval()
    with torch.no_grad():
        for name, tensor in network.named_buffers():  # statistics of a trained network
            if "running" in name:
                tensor.uniform_(*((-0.2, 0.2) if "mean" in name else (0.5, 1.5)))
        for name, tensor in network.named_parameters():
            # otherwise sixteen blocks would sum to values in the thousands
            if name.endswith("layer.2.normalization.weight"):
                tensor.mul_(0.2)
        network.classifier[1].weight.mul_(2)
    return network


TO_TORCHVISION = {
    r"^resnet\.embedder\.embedder\.convolution": "conv1",
    r"^resnet\.embedder\.embedder\.normalization": "bn1",
    r"^classifier\.1": "fc",
    r"\.shortcut\.convolution": ".downsample.0",
    r"\.shortcut\.normalization": ".downsample.1",
}


def dire(file: Path) -> None:
    """Write this ResNet with torchvision's tensor names, as DIRE's checkpoints have them."""
    tensors = {}
    for name, tensor in dire_network().state_dict().items():
        for theirs, ours in TO_TORCHVISION.items():
            name = re.sub(theirs, ours, name)
        if stage := re.match(r"resnet\.encoder\.stages\.(\d)\.layers\.(\d)\.(.*)", name):
            rest = re.sub(r"layer\.(\d)\.convolution", lambda m: f"conv{int(m[1]) + 1}", stage[3])
            rest = re.sub(r"layer\.(\d)\.normalization", lambda m: f"bn{int(m[1]) + 1}", rest)
            name = f"layer{int(stage[1]) + 1}.{stage[2]}.{rest}"
        tensors[name] = tensor
    save({"model": tensors}, file)


WRITTEN: dict[str, Callable[..., None]] = {
    "florence2": florence2,
    "loftr": loftr,
    "disk": disk,
    "aliked": aliked,
    "head": head,
    "sam_file": sam_file,
    "dire": dire,
}
