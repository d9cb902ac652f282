"""Networks of transformers with a handful of weights, built from their configurations and saved to
a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

INNER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def words(folder: Path, vocabulary: str = "a cat dog red box mug . the") -> Any:
    """A BERT tokenizer that knows these words."""
    from transformers import BertTokenizer

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", *vocabulary.split()]
    return BertTokenizer(
        vocab={token: number for number, token in enumerate(dict.fromkeys(tokens))}
    )


def seeded() -> None:
    """The same weights at every build."""
    import torch

    torch.manual_seed(0)


def save(
    folder: Path,
    kind: str,
    head: str,
    sizes: dict[str, Any],
    processor: str = "",
    takes: dict[str, Any] | None = None,
) -> Path:
    """A network of transformers of this kind and head with these sizes, and a processor of images,
    in a folder."""
    import transformers

    seeded()
    network = getattr(transformers, f"{kind}{head}")
    network(getattr(transformers, f"{kind}Config")(**sizes)).eval().save_pretrained(folder)
    if processor:
        images = getattr(transformers, f"{processor}ImageProcessorPil")
        images(**takes or {}).save_pretrained(folder)
    return folder


def grounding_dino(folder: Path, kind: str = "GroundingDino") -> Path:
    """Grounding DINO over a small Swin and a two-layer BERT."""
    import transformers

    tokenizer = words(folder)
    backbone = transformers.SwinConfig(
        image_size=64,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )
    text = INNER | {"intermediate_size": 32, "max_position_embeddings": 64}
    sizes = {"backbone_config": backbone, "d_model": 64, "num_queries": 12, "max_text_len": 32}
    sizes["text_config"] = transformers.BertConfig(vocab_size=len(tokenizer), **text)
    for part, layers in (("encoder", 1), ("decoder", 2)):
        sizes |= {f"{part}_layers": layers, f"{part}_attention_heads": 2, f"{part}_ffn_dim": 32}
    save(folder, kind, "ForObjectDetection", sizes)
    size = {"shortest_edge": 64, "longest_edge": 96}
    images = transformers.GroundingDinoImageProcessorPil(size=size)
    transformers.GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def mm_grounding_dino(folder: Path) -> Path:
    """MM-Grounding DINO, the same network with heads of its own."""
    return grounding_dino(folder, "MMGroundingDino")


def owlv2(folder: Path) -> Path:
    """OWLv2 over a CLIP of two layers."""
    from transformers import Owlv2ImageProcessorPil, Owlv2Processor

    inner, tokenizer = INNER | {"intermediate_size": 32}, words(folder)
    text = inner | {"vocab_size": len(tokenizer), "max_position_embeddings": 16}
    vision = inner | {"image_size": 96, "patch_size": 16}
    sizes = {"text_config": text, "vision_config": vision, "projection_dim": 32}
    save(folder, "Owlv2", "ForObjectDetection", sizes)
    images = Owlv2ImageProcessorPil(size={"height": 96, "width": 96})
    Owlv2Processor(images, tokenizer).save_pretrained(folder)
    return folder


TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} : {% for part in message['content'] %}{% if"
    " part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %} {% endfor %}<end> {%"
    " endfor %}{% if add_generation_prompt %}assistant : {% endif %}"
)
SPECIAL = ["<pad>", "<end>", "<unk>", "<image>", "<|vision_start|>", "<|vision_end|>"]
SPECIAL += ["<|image_pad|>", "<|video_pad|>", "<fake_token_around_image>", "<global-img>"]


def chat_words(image: str) -> Any:
    """A tokenizer of letters, digits and some words, with a chat template in which `image` stands
    for a picture."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = [chr(code) for code in range(33, 127)]
    grid = [f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)]
    vocabulary = {
        token: number
        for number, token in enumerate(dict.fromkeys([*SPECIAL, *grid, *letters, "▁", "yes", "no"]))
    }
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


def _text(size: int, **more: Any) -> dict[str, Any]:
    """The settings of a two-layer language model."""
    return {
        "vocab_size": size,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 1,
        "initializer_range": 0.5,
    } | more


VISION = INNER | {"intermediate_size": 64, "image_size": 28, "patch_size": 14}


def llava(folder: Path, kind: str = "Llava", **grid: Any) -> Path:
    """LLaVA 1.5 over a two-layer CLIP and a two-layer Llama."""
    import transformers

    tokenizer = chat_words("<image>")
    sizes = {
        "vision_config": transformers.CLIPVisionConfig(**VISION, projection_dim=32),
        "text_config": transformers.LlamaConfig(**_text(len(tokenizer))),
        "image_token_index": 3,
        "vision_feature_layer": -1,
        "image_seq_length": 4,
        "pad_token_id": 0,
    }
    save(folder, kind, "ForConditionalGeneration", sizes | grid)
    images = getattr(transformers, f"{'LlavaNext' if grid else 'CLIP'}ImageProcessorPil")
    getattr(transformers, f"{kind}Processor")(
        images(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}, **grid),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    ).save_pretrained(folder)
    return folder


def llava_next(folder: Path) -> Path:
    """LLaVA-NeXT over the same two."""
    return llava(folder, "LlavaNext", image_grid_pinpoints=[[28, 56], [56, 28], [56, 56]])


def idefics3(folder: Path) -> Path:
    """Idefics3 (SmolVLM's class) over a two-layer vision transformer and a two-layer Llama."""
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    tokenizer = chat_words("<image>")
    sizes = {
        "vision_config": VISION,
        "text_config": {"model_type": "llama", **_text(len(tokenizer))},
        "image_token_id": 3,
        "scale_factor": 2,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    }
    save(folder, "Idefics3", "ForConditionalGeneration", sizes)
    images = Idefics3ImageProcessorPil(
        size={"longest_edge": 56}, max_image_size={"longest_edge": 28}
    )
    Idefics3Processor(
        images, tokenizer, image_seq_len=1, chat_template=tokenizer.chat_template
    ).save_pretrained(folder)
    return folder


QWEN = {"depth": 2, "hidden_size": 32, "num_heads": 2, "patch_size": 14}
WIDE = QWEN | {"intermediate_size": 64, "out_hidden_size": 32}


def qwen2_5_vl(folder: Path) -> Path:
    """Qwen2.5-VL over a two-layer vision transformer; saved as its own releases are, without a
    processor class."""
    return _qwen(folder, "Qwen2_5_VL", WIDE | {"fullatt_block_indexes": [1], "window_size": 56})


def qwen2_vl(folder: Path) -> Path:
    """Qwen2-VL over a two-layer vision transformer."""
    return _qwen(folder, "Qwen2VL", QWEN | {"embed_dim": 32, "mlp_ratio": 2})


def qwen3_vl(folder: Path) -> Path:
    """Qwen3-VL over a two-layer vision transformer."""
    more = {"deepstack_visual_indexes": [0], "num_position_embeddings": 16}
    return _qwen(folder, "Qwen3VL", WIDE | more)


def _qwen(folder: Path, kind: str, vision: dict[str, Any]) -> Path:
    tokenizer = chat_words("<|vision_start|><|image_pad|><|vision_end|>")
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4}
    sizes = {
        "text_config": _text(len(tokenizer)) | {"rope_parameters": rope},
        "vision_config": vision,
        "image_token_id": 6,
        "video_token_id": 7,
        "vision_start_token_id": 4,
        "vision_end_token_id": 5,
    }
    size = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 64}
    save(folder, kind, "ForConditionalGeneration", sizes, "Qwen2VL", {"size": size})
    tokenizer.save_pretrained(folder)
    return folder


def resnet() -> Any:
    """A ResNet with bottlenecks and one output, of transformers."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    seeded()
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32, 48, 64], depths=[3, 4, 6, 3], num_labels=1
    )
    network = ResNetForImageClassification(config).eval()
    with torch.no_grad():
        for name, tensor in network.named_buffers():  # statistics that a trained network would have
            if "running" in name:
                tensor.uniform_(*((-0.2, 0.2) if "mean" in name else (0.5, 1.5)))
        for (
            name,
            tensor,
        ) in network.named_parameters():  # or sixteen blocks would add up to numbers of thousands
            if name.endswith("layer.2.normalization.weight"):
                tensor.mul_(0.2)
        network.classifier[1].weight.mul_(2)
    return network


def dire(file: Path) -> Path:
    """The network above under the names of torchvision, as DIRE's checkpoints are saved."""
    import re

    import torch

    held = {}
    for name, tensor in resnet().state_dict().items():
        name = name.replace("resnet.embedder.embedder.convolution", "conv1")
        name = name.replace("resnet.embedder.embedder.normalization", "bn1").replace(
            "classifier.1", "fc"
        )
        stage = re.match(r"resnet\.encoder\.stages\.(\d)\.layers\.(\d)\.(.*)", name)
        if stage:
            rest = re.sub(r"layer\.(\d)\.convolution", lambda m: f"conv{int(m[1]) + 1}", stage[3])
            rest = re.sub(r"layer\.(\d)\.normalization", lambda m: f"bn{int(m[1]) + 1}", rest)
            rest = rest.replace("shortcut.convolution", "downsample.0")
            rest = rest.replace("shortcut.normalization", "downsample.1")
            name = f"layer{int(stage[1]) + 1}.{stage[2]}.{rest}"
        held[name] = tensor
    torch.save({"model": held}, file)
    return file
