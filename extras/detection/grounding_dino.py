"""Grounding DINO, and any other text-prompted detector of Hugging Face transformers, by hub id or
folder."""

from __future__ import annotations

import math
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from looktwice.extras.detection.boxes import Item, WordDetector, Words, select_boxes
from looktwice.extras.networks.checkpoints import (
    Tensors,
    count_distinct,
    load_weights,
    open_converted,
    open_tensors,
    rename_tensors,
    split_rows,
)
from looktwice.extras.networks.hub import load_from_hub
from looktwice.extras.networks.network import HubModel, refuse_nan
from looktwice.extras.networks.opening import (
    OPENING_LOCK,
    Place,
    get_first_line,
    import_torch,
    import_transformers,
)
from looktwice.extras.networks.packages import (
    INSTALL_COMMANDS,
    find_package_file,
    import_package,
    require_float32,
)
from looktwice.extras.networks.tensors import to_array
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import Boxes
from looktwice.specialists.rules import NoEvidence


@dataclass(frozen=True)
class GroundingDINO(WordDetector):
    """Boxes of objects named by text prompts, by Grounding DINO (Liu et al., ECCV 2024) or a
    similar network.

    Any id that Hugging Face transformers opens for zero-shot detection works (MM-Grounding DINO,
    OWLv2 ...). A box is kept if its score, a probability, is above `threshold`. Its label is the
    likeliest of the requested words, whatever their order, or empty if that word's score is not
    above `text_threshold`. If the words together exceed the network's token limit, several passes
    are made. The defaults of both thresholds are those of Visual Sketchpad (Hu et al., NeurIPS
    2024). At most `most` boxes are returned, highest score first.

    `model` may be the authors' file (`groundingdino_swint_ogc.pth`); it contains no vocabulary, so
    `tokenizer` names the id or folder of its BERT, or a `vocab.txt`. With `package`, the authors'
    own package groundingdino, which must be installed, runs that file; `tokenizer` is then a folder
    of BERT with its weights, or is left at its default, and the package downloads BERT.
    """

    model: str = "IDEA-Research/grounding-dino-tiny"
    threshold: float = 0.35
    text_threshold: float = 0.25
    most: int = 100
    tokenizer: str = "google-bert/bert-base-uncased"
    package: bool = False

    version: ClassVar[int] = 2

    model_class = "AutoModelForZeroShotObjectDetection"
    processor_class = "AutoProcessor"
    half_is_safe = False
    opening_settings = (*WordDetector.opening_settings, "tokenizer", "package")
    ranges = ("threshold, text_threshold >= 0", "threshold, text_threshold < 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.package:
            require_float32(self.dtype)

    def open_file(self, path: str) -> HubModel:
        """Open an original checkpoint. Raises WeightsError."""
        return open_grounding_dino(path, self.tokenizer)

    def open_network(self, place: Place) -> Any:
        """Open the network and its processor, or the network of the authors' package. Raises
        WeightsError."""
        if self.package:
            return open_grounding_dino_package(self.model, self.tokenizer, place)
        return super().open_network(place)

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[Boxes]:
        """Return the boxes of each image, in pixels of that image and clipped to it. Raises
        NoEvidence."""
        groups = [group_words(network, words) for _, words in items]
        if all(len(group) == 1 for group in groups):
            return self._detect(network, place, items)
        merged = list[Boxes]()
        for (image, _), group in zip(items, groups, strict=True):
            passes = [self._detect(network, place, [(image, words)])[0] for words in group]
            xyxy, scores, labels = (
                np.concatenate([getattr(boxes, name) for boxes in passes])
                for name in ("xyxy", "scores", "labels")
            )
            merged.append(select_boxes(xyxy, scores, labels.tolist(), image, self.most))
        return merged

    def _detect(self, network: Any, place: Place, items: Sequence[Item]) -> list[Boxes]:
        """Return the boxes of each image for words that fit into one pass."""
        if self.package:
            return [self._make_boxes(network.find(*item, self.threshold), *item) for item in items]
        images, words = [image for image, _ in items], [list(asked) for _, asked in items]
        process = network.processor.post_process_grounded_object_detection
        phrased = "text_threshold" in signature(process).parameters
        # transformers does not join a list in which a word contains a full stop
        text = [f"{'. '.join(asked)}." for asked in words] if phrased else words
        inputs = network.make_inputs(place, images=images, text=text, padding=True)
        outputs = network.model(**inputs)
        refuse_nan(outputs.logits, self.model, place.dtype)
        sizes = [image.shape[:2] for image in images]
        detections = process(
            outputs, target_sizes=sizes, text_labels=words, threshold=self.threshold
        )
        if phrased:
            for n, detection in enumerate(detections):
                kept = outputs.logits[n][outputs.logits[n].sigmoid().amax(-1) > self.threshold]
                tokenizer, ids = network.processor.tokenizer, inputs["input_ids"][n].tolist()
                detection["text_labels"] = find_most_likely_words(kept, ids, words[n], tokenizer)
        return list(map(self._make_boxes, detections, images, words))

    def _make_boxes(self, detection: Any, image: Pixels, asked: Sequence[str]) -> Boxes:
        scores, xyxy = to_array(detection["scores"]), to_array(detection["boxes"])
        # a tokenizer may change the spaces of a label and drop its accents
        words = {
            _normalize_label(part): word
            for word in asked
            for part in word.split(".")
            if _normalize_label(part)
        }
        words |= {_normalize_label(word): word for word in asked if _normalize_label(word)}
        words |= {word: word for word in asked}
        labels = [
            words.get(label) or words.get(_normalize_label(label), label)
            if score > self.text_threshold
            else ""
            for label, score in zip(detection["text_labels"] or (), scores, strict=True)
        ]
        return select_boxes(xyxy.reshape(-1, 4), scores, labels, image, self.most)


def group_words(network: Any, words: Words) -> list[Words]:
    """Split the words, in order, into groups that fit into one pass each. Raises NoEvidence for a
    word that is too long by itself."""
    if isinstance(network, GroundingDINOPackage):
        tokenizer, most = network.network.tokenizer, network.network.max_text_len
    else:
        tokenizer = network.processor.tokenizer
        most = getattr(
            network.config, "max_text_len", None
        )  # limit for all words as one text; None if words are encoded separately
    own = most or network.config.text_config.max_position_embeddings
    groups, room = list[Words](), 0
    for word in words:
        phrase = f"{word}." if most else word
        tokens = len(tokenizer(phrase, add_special_tokens=False)["input_ids"])
        if tokens < (2 if most else 1):  # a full stop is one
            raise NoEvidence(
                f"{word[:40]!r} contains no token that the network knows; leave it out"
            )
        if tokens > own - SPECIAL_TOKEN_COUNT:
            raise NoEvidence(
                f"{word[:40]!r} has {tokens} tokens; the network takes at most"
                f" {own - SPECIAL_TOKEN_COUNT} per"
                " word"
            )
        if not groups or (most and tokens > room):
            groups, room = [*groups, ()], own - SPECIAL_TOKEN_COUNT
        groups[-1] += (word,)
        room -= tokens
    return groups


def find_most_likely_words(
    logits: Any, tokens: Sequence[int], words: Sequence[str], tokenizer: Any
) -> list[str]:
    """Return, for each box, the phrase that contains its most likely token.

    `logits` is (boxes, tokens); a full stop ends a phrase, as in the text. Logits are compared
    rather than probabilities, because probabilities near 1 would be equal.
    """
    stop = tokenizer.convert_tokens_to_ids(".")
    around = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    # "st. bernard" has two parts
    owners = [word for word in words for _ in range(1 + word.count("."))]
    columns = dict[int, str]()
    for column, token in enumerate(tokens):
        if token == stop:
            owners = owners[1:]
        elif token not in around:  # an unknown token counts as a word
            columns[column] = owners[0]
    places, asked = list(columns), list(columns.values())
    return [asked[place] for place in logits[:, places].argmax(-1).tolist()]


def _normalize_label(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.lower())
    return "".join(letter for letter in plain if letter.isalnum())


SPECIAL_TOKEN_COUNT = 2  # tokens at the beginning and end of a text
HEAD_COUNT = 8  # heads of the deformable attention, as in transformers
TEXT_HEAD_CHANNELS = 64  # channels of an attention head of BERT
UNUSED_TENSORS = (
    "label_enc.",
    "bert.pooler.",
    "bert.embeddings.position_ids",
    "relative_position_index",
)
PROJECTIONS = ("query", "key", "value")


def open_grounding_dino(path: str, tokenizer: str) -> HubModel:
    """Open Grounding DINO from a file such as `groundingdino_swint_ogc.pth`.

    The file contains no vocabulary: `tokenizer` is the hub id or folder of the BERT that it was
    trained with, or a `vocab.txt`. Raises WeightsError.
    """
    tensors = open_tensors(path, "GroundingDINO")
    words, transformers = open_tokenizer(tokenizer), import_transformers()
    config = _read_config(transformers, tensors)
    named = {
        name: tensor
        for name, tensor in tensors.items()
        if not any(piece in name for piece in UNUSED_TENSORS)
    }
    named = split_rows(named, ".qkv.", *(f".{part}." for part in PROJECTIONS))
    for kind in ("weight", "bias"):
        named = split_rows(named, f".in_proj_{kind}", *(f".{part}.{kind}" for part in PROJECTIONS))
    # a backbone does not use the last norm of a Swin
    network = open_converted(
        "GroundingDinoForObjectDetection",
        config,
        rename_tensors(named, "grounding_dino"),
        path,
        "layernorm",
    )
    size = {"shortest_edge": 800, "longest_edge": 1333}
    images = transformers.GroundingDinoImageProcessorPil(size=size)
    return HubModel(network, transformers.GroundingDinoProcessor(images, words))


def open_tokenizer(tokenizer: str) -> Any:
    """Open the tokenizer of a hub id, a folder, or a `vocab.txt`. Raises WeightsError."""
    place = Path(tokenizer).expanduser()
    if not place.is_file():
        return load_from_hub("AutoTokenizer", tokenizer, None)
    words = place.read_text(encoding="utf-8").splitlines()
    return import_transformers().BertTokenizer(vocab={word: n for n, word in enumerate(words)})


def _read_config(transformers: Any, tensors: Tensors) -> Any:
    """Derive the configuration from the shapes of the tensors."""

    def count_rows(name: str) -> int:
        return int(tensors[name].shape[0])

    depths, heads = list[int](), list[int]()
    for stage in range(count_distinct(tensors, r"backbone\.0\.layers\.(\d+)\.")):
        name = f"backbone.0.layers.{stage}.blocks"
        depths.append(count_distinct(tensors, rf"{name}\.(\d+)\."))
        places, number = tensors[f"{name}.0.attn.relative_position_bias_table"].shape
        heads.append(number)
    swin = transformers.SwinConfig(
        embed_dim=count_rows("backbone.0.patch_embed.proj.weight"),
        depths=depths,
        num_heads=heads,
        window_size=(math.isqrt(places) + 1) // 2,
        out_indices=[2, 3, 4],
    )
    vocabulary, hidden = tensors["bert.embeddings.word_embeddings.weight"].shape
    bert = transformers.BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=count_distinct(tensors, r"bert\.encoder\.layer\.(\d+)\."),
        num_attention_heads=hidden // TEXT_HEAD_CHANNELS,
        intermediate_size=count_rows("bert.encoder.layer.0.intermediate.dense.weight"),
        max_position_embeddings=count_rows("bert.embeddings.position_embeddings.weight"),
    )
    levels, width = tensors["transformer.level_embed"].shape
    weights = count_rows("transformer.encoder.layers.0.self_attn.attention_weights.weight")
    return transformers.GroundingDinoConfig(
        backbone_config=swin,
        text_config=bert,
        d_model=width,
        num_queries=count_rows("transformer.tgt_embed.weight"),
        num_feature_levels=levels,
        encoder_layers=count_distinct(tensors, r"transformer\.encoder\.layers\.(\d+)\."),
        decoder_layers=count_distinct(tensors, r"transformer\.decoder\.layers\.(\d+)\."),
        encoder_n_points=weights // (HEAD_COUNT * levels),
        encoder_ffn_dim=count_rows("transformer.encoder.layers.0.linear1.weight"),
        decoder_ffn_dim=count_rows("transformer.decoder.layers.0.linear1.weight"),
    )


# configuration files by the encoder's number of channels
CONFIG_FILES = {96: "GroundingDINO_SwinT_OGC.py", 128: "GroundingDINO_SwinB_cfg.py"}
TEXT_ENCODER_NAME = "bert-base-uncased"
# in the files, but not used by the network
COMPUTED_TENSORS = ("bert.embeddings.position_ids", "label_enc.weight")


@dataclass(frozen=True, eq=False)
class GroundingDINOPackage:
    """The functions of the package groundingdino and one of its networks. The network stores its
    image, so one thread uses it at a time."""

    inference: Any
    network: Any
    device: str
    lock: Any = field(default_factory=threading.Lock)

    def find(self, pixels: Pixels, words: Sequence[str], threshold: float) -> dict[str, Any]:
        """Return boxes as edges in pixels, their scores, and for each box the phrase that contains
        its most likely token."""
        image = self.inference.Model.preprocess_image(np.ascontiguousarray(pixels[..., ::-1]))
        with self.lock:
            middles, scores, labels = self.inference.predict(
                self.network,
                image,
                " . ".join(words) + " .",
                threshold,
                0.0,
                self.device,
                remove_combined=True,
            )
        size = import_torch().tensor([pixels.shape[1], pixels.shape[0]])
        middle, half = middles[:, :2] * size, middles[:, 2:] * size / 2
        boxes = import_torch().cat([middle - half, middle + half], 1)
        return {"boxes": boxes, "scores": scores, "text_labels": labels}


def open_grounding_dino_package(model: str, tokenizer: str, place: Place) -> GroundingDINOPackage:
    """Open the package's network with the tensors of an original file such as
    `groundingdino_swint_ogc.pth`.

    `tokenizer` is a folder with BERT, or the hub id of one that the package then downloads. Raises
    WeightsError if the package or BERT is missing, or if the file belongs to another network or
    lacks a tensor.
    """
    inference = import_package("groundingdino.util.inference")
    configs = import_package("groundingdino.util.slconfig")
    tensors = open_tensors(model, "GroundingDINO")
    name = CONFIG_FILES.get(tensors["backbone.0.patch_embed.proj.weight"].shape[0])
    if name is None:
        raise WeightsError(
            f"{model} has an encoder of unknown size; the package supports"
            f" {' and '.join(CONFIG_FILES.values())}"
        )
    settings = configs.SLConfig.fromfile(
        str(find_package_file("groundingdino-py", "groundingdino", "config", name))
    )
    settings.device, bert = place.device, Path(tokenizer).expanduser()
    settings.text_encoder_type = str(bert) if bert.is_dir() else TEXT_ENCODER_NAME
    try:
        with OPENING_LOCK:
            network = inference.build_model(settings)
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        raise WeightsError(
            f"the package groundingdino could not be opened with {settings.text_encoder_type}"
            f" ({get_first_line(exc)}); set `tokenizer` to a folder with {TEXT_ENCODER_NAME} and"
            f" its weights, or run: {INSTALL_COMMANDS['groundingdino']}"
        ) from exc
    tensors = {key: tensor for key, tensor in tensors.items() if key not in COMPUTED_TENSORS}
    return GroundingDINOPackage(
        inference, load_weights(network, tensors, model).to(place.device), place.device
    )
