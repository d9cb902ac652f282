"""Weight files of torch: functions that read them as named tensors, recognize the network that they
belong to, rename the tensors and load them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from looktwice.extras.networks.hub import check_tensors
from looktwice.extras.networks.opening import (
    OPENING_LOCK,
    find_weights_file,
    get_first_line,
    import_torch,
    import_transformers,
)
from looktwice.pipelines.runtime.weights import WeightsError

WEIGHT_SUFFIXES = (".pth", ".pt", ".ckpt", ".bin", ".safetensors", ".onnx", ".dat", ".tar", ".gguf")
Tensors = dict[str, Any]  # torch tensors by their names in a file
# keys under one of which files store their tensors
WRAPPER_KEYS = ("state_dict", "model", "teacher", "extractor")
NAME_PREFIXES = ("module.", "matcher.")  # prefixes that all names may have
FOLDER_OR_ID_PHRASE = "an id or a folder of Hugging Face transformers"


@cache
def read_originals() -> dict[str, Any]:
    """Load `originals.yaml`, which says how to recognize original checkpoints, and how to translate
    the names of their tensors to those of transformers."""
    text = Path(__file__).with_name("originals.yaml").read_text("utf-8")
    originals: dict[str, Any] = yaml.safe_load(text)
    return originals


KNOWN_FIRST_BYTES = (  # first bytes of files that torch cannot read, and advice
    (b"<", "a web page, saved instead of the file; download it again"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself; type: git lfs pull"),
    (b"GGUF", "a llama.cpp file, which looktwice cannot read"),
    (
        b"\x08",
        "an ONNX file; for YuNet use specialists.detection.YuNet, otherwise use a torch file",
    ),
    (
        b"\x01\x01",
        "a dlib file; use specialists.detection.FaceRecognition with models: set to its folder",
    ),
)


def is_weights_file(model: str) -> bool:
    """Return whether a setting names a weight file, rather than a folder or a hub id."""
    place = Path(model).expanduser()
    return place.is_file() or (place.suffix in WEIGHT_SUFFIXES and not place.is_dir())


def _unwrap_tensors(content: Mapping[str, Any]) -> Tensors:
    """Extract the named tensors from the dictionaries in which a file's author wrapped them, and
    strip prefixes from their names."""
    for name in WRAPPER_KEYS:
        if isinstance(inner := content.get(name), Mapping):
            return _unwrap_tensors(inner)
    for prefix in NAME_PREFIXES:
        if all(name.startswith(prefix) for name in content):
            content = {name.removeprefix(prefix): tensor for name, tensor in content.items()}
    return dict(content)


def find_network_kind(tensors: Tensors) -> dict[str, Any] | None:
    """Return the entry in `originals.yaml` of the network that has these tensors, with its `name`
    and the class to `use` for it; return None for an unknown network."""
    kinds = read_originals()["kinds"]
    return next((kind for kind in kinds if tensors.keys() >= {*kind["signs"]}), None)


def open_tensors(path: str | Path, *names: str) -> Tensors:
    """Read the tensors of a file that belongs to one of the networks `names`. Raises WeightsError,
    with a description of the file, if it belongs to another network."""
    tensors = read_tensors(path)
    kind = find_network_kind(tensors)
    if kind is not None and kind["name"] in names:
        return tensors
    raise WeightsError(
        f"{describe_tensors(path, tensors)}; expected a file of {' or '.join(names)}, or"
        f" {FOLDER_OR_ID_PHRASE}"
    )


def describe_tensors(path: str | Path, tensors: Tensors) -> str:
    """Describe a file that holds these tensors, in a sentence without the full stop."""
    kind = find_network_kind(tensors)
    if kind is not None:
        return f"{path} is a checkpoint of {kind['name']}; to open it, use {kind['use']}"
    if Path(path).expanduser().with_name("config.json").is_file():
        return (
            f"{path} is part of a folder of transformers; set model: to the folder"
            f" {Path(path).parent}"
        )
    first = next(iter(tensors), "")
    return (
        f"{path} is a checkpoint of an unknown network, with {len(tensors)} entries such as"
        f" {first!r}"
    )


def describe_first_bytes(file: Path) -> str:
    """Describe, by its first bytes, a file that torch cannot read; empty if the bytes are
    unknown."""
    with file.open("rb") as opened:
        start = opened.read(64).lstrip(b" \n\r\t")
    if not start:
        return f"{file} is empty; download it again"
    return next(
        (f"{file} is {what}" for sign, what in KNOWN_FIRST_BYTES if start.startswith(sign)), ""
    )


# names of buffers that are learned rather than computed
LEARNED_BUFFERS = (".running_mean", ".running_var", "positional_embedding")


def read_tensors(path: str | Path) -> Tensors:
    """Read the named tensors of a `.safetensors`, `.pt`, `.pth` or `.ckpt` file, on the CPU; code
    in the file is never run. Raises WeightsError."""
    file = find_weights_file(path)
    torch = import_torch()
    from safetensors.torch import load_file

    try:
        if file.suffix == ".safetensors":
            content = load_file(file)
        else:
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as exc:  # torch may raise any exception on other files
        raise WeightsError(
            describe_first_bytes(file)
            or (
                f"{file} could not be read as a file that contains only tensors"
                f" ({type(exc).__name__}: {get_first_line(exc)}); download it again, or save it"
                " with safetensors"
            )
        ) from exc
    if not isinstance(content, Mapping):
        raise WeightsError(
            f"{file} contains a {type(content).__name__} instead of named tensors; use a file of"
            " weights"
        )
    return _unwrap_tensors(content)


def describe_file(path: str | Path) -> str:
    """Describe a weight file, in a sentence without the full stop; empty if its kind is unknown."""
    try:
        tensors = read_tensors(path)
    except WeightsError:
        return describe_first_bytes(Path(path).expanduser())
    return describe_tensors(path, tensors) if find_network_kind(tensors) else ""


def refuse_file(model: str, takes: str = FOLDER_OR_ID_PHRASE) -> None:
    """Raise WeightsError, with a description of the file, if the setting `model` names a weight
    file; `takes` describes the value that is expected instead."""
    if is_weights_file(model):
        raise WeightsError(f"{describe_tensors(model, read_tensors(model))}; expected {takes}")


def load_weights(network: Any, tensors: Tensors, source: str | Path) -> Any:
    """Load tensors into a network and return it in evaluation mode; buffers that the network
    computes itself may be missing.

    Raises WeightsError if a learned tensor, including the mean or variance of a normalization, is
    missing, unknown or of another shape. If the file `source` belongs to another known network, the
    message names that network.
    """
    name, kind = type(network).__name__, find_network_kind(tensors)
    what = describe_tensors(source, tensors)
    if kind is not None and kind["name"].split()[-1].lower() != name.removesuffix("Model").lower():
        raise WeightsError(f"{what}; expected a file of {name}")
    try:
        left = network.load_state_dict(dict(tensors), strict=False)
    except (RuntimeError, AttributeError) as exc:
        reason = " ".join(str(exc).split())[:200]
        subject = f"{what}; it" if kind else source
        raise WeightsError(
            f"{subject} does not fit {name} ({reason}); use a file of {name}"
        ) from exc
    learned = dict(network.named_parameters())
    missing = [key for key in left.missing_keys if key in learned or key.endswith(LEARNED_BUFFERS)]
    if missing or left.unexpected_keys:
        odd = f"{missing[0]} is missing" if missing else f"{left.unexpected_keys[0]} is unknown"
        raise WeightsError(f"{source} does not fit {name} ({odd}); use a file of {name}")
    return network.eval()


def rename_tensors(tensors: Tensors, *networks: str) -> Tensors:
    """Rename the tensors as in transformers, by the rules for `networks` in `originals.yaml`."""
    renamed = {}
    for name, tensor in tensors.items():
        for network in networks:
            for theirs, ours in read_originals()["names"][network].items():
                name = re.sub(theirs, ours, name)
        renamed[name] = tensor
    return renamed


def split_rows(tensors: Tensors, joined: str, *parts: str) -> Tensors:
    """Split each tensor whose name contains `joined` into equal blocks of rows, one for each of
    `parts`; the part replaces `joined` in the name of its block."""
    split: Tensors = {}
    for name, tensor in tensors.items():
        names = [name.replace(joined, part) for part in parts] if joined in name else [name]
        split |= zip(names, tensor.chunk(len(names)), strict=True)
    return split


def count_distinct(tensors: Tensors, pattern: str) -> int:
    """Count the distinct values that a pattern's first group has in the names of the tensors."""
    return len({match[1] for name in tensors if (match := re.match(pattern, name))})


def open_converted(model_class: str, config: Any, tensors: Tensors, path: str, *unused: str) -> Any:
    """Open a network of transformers in evaluation mode, with tensors that have the names of the
    hub's files.

    Raises WeightsError if a tensor is unknown, missing, or has another shape. Tensors with a
    component of their name in `unused` may be missing or unknown.
    """
    kind = getattr(import_transformers(), model_class)
    try:
        with OPENING_LOCK:
            network, loading = kind.from_pretrained(
                None, config=config, state_dict=dict(tensors), output_loading_info=True
            )
    except (RuntimeError, ValueError, OSError) as exc:
        raise WeightsError(
            f"{path} does not fit {model_class} ({get_first_line(exc)}); use the file of a release"
        ) from exc
    return check_tensors(path, network, loading, unused).eval()
