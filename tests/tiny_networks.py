"""Networks of transformers with a handful of weights, built from their configurations and saved to
a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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


def depth_anything(folder: Path, kind: str = "relative", layers: int = 8) -> Path:
    """Depth Anything over a DINOv2 of 8 layers, of which it reads every second, as version 2; 4 are
    version 1's."""
    from transformers import (
        DepthAnythingConfig,
        DepthAnythingForDepthEstimation,
        Dinov2Config,
        DPTImageProcessorPil,
    )

    seeded()
    backbone = Dinov2Config(
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=70,
        patch_size=14,
        out_features=[f"stage{n * layers // 4}" for n in (1, 2, 3, 4)],
        reshape_hidden_states=False,
        apply_layernorm=True,
        initializer_range=0.2,
    )
    config = DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=32,
        patch_size=14,
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        head_hidden_size=8,
        depth_estimation_type=kind,
        initializer_range=0.1,
    )
    DepthAnythingForDepthEstimation(config).save_pretrained(folder)
    size = {"height": 70, "width": 70}
    DPTImageProcessorPil(
        size=size, keep_aspect_ratio=True, ensure_multiple_of=14, do_pad=False
    ).save_pretrained(folder)
    return folder


def depth_anything_1(folder: Path) -> Path:
    """Depth Anything, version 1."""
    return depth_anything(folder, layers=4)


def depth_anything_metric(folder: Path) -> Path:
    """Depth Anything that gives metres."""
    return depth_anything(folder, "metric")


def dpt(folder: Path) -> Path:
    """DPT, of which no configuration says what its numbers mean."""
    from transformers import DPTConfig, DPTForDepthEstimation, DPTImageProcessorPil

    seeded()
    config = DPTConfig(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=64,
        patch_size=16,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        is_hybrid=False,
    )
    DPTForDepthEstimation(config).eval().save_pretrained(folder)
    DPTImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(folder)
    return folder


def grounding_dino(folder: Path, kind: str = "GroundingDino") -> Path:
    """Grounding DINO over a small Swin and a two-layer BERT."""
    import transformers
    from transformers import (
        BertConfig,
        GroundingDinoImageProcessorPil,
        GroundingDinoProcessor,
        SwinConfig,
    )

    seeded()
    tokenizer = words(folder)
    backbone = SwinConfig(
        image_size=64,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )
    text = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    config = getattr(transformers, f"{kind}Config")(
        backbone_config=backbone,
        text_config=text,
        d_model=64,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=12,
        max_text_len=32,
    )
    getattr(transformers, f"{kind}ForObjectDetection")(config).eval().save_pretrained(folder)
    images = GroundingDinoImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 96})
    GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def mm_grounding_dino(folder: Path) -> Path:
    """MM-Grounding DINO, the same network with heads of its own."""
    return grounding_dino(folder, "MMGroundingDino")


TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} : {% for part in message['content'] %}{% if"
    " part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %} {% endfor %}<end> {%"
    " endfor %}{% if add_generation_prompt %}assistant : {% endif %}"
)
SPECIAL = [
    "<pad>",
    "<end>",
    "<unk>",
    "<image>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
SPECIAL += ["<fake_token_around_image>", "<global-img>"]


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


def llava(folder: Path) -> Path:
    """LLaVA 1.5 over a two-layer CLIP and a two-layer Llama."""
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    seeded()
    tokenizer = chat_words("<image>")
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
        projection_dim=32,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=LlamaConfig(**_text(len(tokenizer))),
        image_token_index=3,
        vision_feature_layer=-1,
        image_seq_length=4,
        pad_token_id=0,
    )
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    images = CLIPImageProcessorPil(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
    )
    LlavaProcessor(
        images,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    ).save_pretrained(folder)
    return folder


def llava_next(folder: Path) -> Path:
    """LLaVA-NeXT over a two-layer CLIP and a two-layer Llama."""
    from transformers import (
        CLIPVisionConfig,
        LlamaConfig,
        LlavaNextConfig,
        LlavaNextForConditionalGeneration,
        LlavaNextImageProcessorPil,
        LlavaNextProcessor,
    )

    seeded()
    tokenizer = chat_words("<image>")
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
        projection_dim=32,
    )
    pinpoints = [[28, 56], [56, 28], [56, 56]]
    config = LlavaNextConfig(
        vision_config=vision,
        text_config=LlamaConfig(**_text(len(tokenizer))),
        image_token_index=3,
        vision_feature_layer=-1,
        image_grid_pinpoints=pinpoints,
        image_seq_length=4,
        pad_token_id=0,
    )
    LlavaNextForConditionalGeneration(config).save_pretrained(folder)
    images = LlavaNextImageProcessorPil(
        size={"shortest_edge": 28},
        crop_size={"height": 28, "width": 28},
        image_grid_pinpoints=pinpoints,
    )
    LlavaNextProcessor(
        images,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    ).save_pretrained(folder)
    return folder


def idefics3(folder: Path) -> Path:
    """Idefics3 (SmolVLM's class) over a two-layer vision transformer and a two-layer Llama."""
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    seeded()
    tokenizer = chat_words("<image>")
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    config = Idefics3Config(
        vision_config=vision,
        text_config={"model_type": "llama", **_text(len(tokenizer))},
        image_token_id=3,
        scale_factor=2,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    Idefics3ForConditionalGeneration(config).save_pretrained(folder)
    images = Idefics3ImageProcessorPil(
        size={"longest_edge": 56}, max_image_size={"longest_edge": 28}
    )
    processor = Idefics3Processor(
        images, tokenizer, image_seq_len=1, chat_template=tokenizer.chat_template
    )
    processor.save_pretrained(folder)
    return folder


def qwen2_5_vl(folder: Path) -> Path:
    """Qwen2.5-VL over a two-layer vision transformer; saved as its own releases are, without a
    processor class."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": 32,
        "patch_size": 14,
        "fullatt_block_indexes": [1],
        "window_size": 56,
    }
    return _qwen(folder, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, vision)


def qwen2_vl(folder: Path) -> Path:
    """Qwen2-VL over a two-layer vision transformer."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    vision = {
        "depth": 2,
        "embed_dim": 32,
        "hidden_size": 32,
        "num_heads": 2,
        "mlp_ratio": 2,
        "patch_size": 14,
    }
    return _qwen(folder, Qwen2VLConfig, Qwen2VLForConditionalGeneration, vision)


def qwen3_vl(folder: Path) -> Path:
    """Qwen3-VL over a two-layer vision transformer."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": 32,
        "patch_size": 14,
        "deepstack_visual_indexes": [0],
        "num_position_embeddings": 16,
    }
    return _qwen(folder, Qwen3VLConfig, Qwen3VLForConditionalGeneration, vision)


def _qwen(folder: Path, config_class: Any, model_class: Any, vision: dict[str, Any]) -> Path:
    from transformers import Qwen2VLImageProcessorPil

    seeded()
    tokenizer = chat_words("<|vision_start|><|image_pad|><|vision_end|>")
    text = _text(len(tokenizer)) | {
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4}
    }
    config = config_class(
        text_config=text,
        vision_config=vision,
        image_token_id=6,
        video_token_id=7,
        vision_start_token_id=4,
        vision_end_token_id=5,
    )
    model_class(config).save_pretrained(folder)
    Qwen2VLImageProcessorPil(
        size={"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 64}
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def glpn(folder: Path) -> Path:
    """GLPN, a network for metric depth of another family."""
    from transformers import GLPNConfig, GLPNForDepthEstimation, GLPNImageProcessorPil

    seeded()
    config = GLPNConfig(
        depths=[1, 1, 1, 1],
        sr_ratios=[8, 4, 2, 1],
        hidden_sizes=[8, 16, 24, 32],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
    )
    GLPNForDepthEstimation(config).eval().save_pretrained(folder)
    GLPNImageProcessorPil().save_pretrained(folder)
    return folder


def owlv2(folder: Path) -> Path:
    """OWLv2 over a CLIP of two layers."""
    from transformers import (
        Owlv2Config,
        Owlv2ForObjectDetection,
        Owlv2ImageProcessorPil,
        Owlv2Processor,
    )

    seeded()
    inner = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    tokenizer = words(folder)
    text = {**inner, "vocab_size": len(tokenizer), "max_position_embeddings": 16}
    vision = {**inner, "image_size": 96, "patch_size": 16}
    config = Owlv2Config(text_config=text, vision_config=vision, projection_dim=32)
    Owlv2ForObjectDetection(config).eval().save_pretrained(folder)
    Owlv2Processor(
        Owlv2ImageProcessorPil(size={"height": 96, "width": 96}), tokenizer
    ).save_pretrained(folder)
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
