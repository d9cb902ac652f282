"""Loading of networks from the model hub or a local folder: with all their tensors, and never with
remote code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from looktwice.extras.networks.opening import (
    OPENING_LOCK,
    FetchError,
    Place,
    get_first_line,
    import_extra,
    import_torch,
    import_transformers,
)
from looktwice.pipelines.runtime.weights import WeightsError, hash_weights

DOWNLOAD_ADVICE = (
    "download it on a connected machine (`hf download ID --local-dir DIR`) and set model: DIR"
)


HUB_TIMEOUT_SECONDS = 10.0  # timeout of a request to the hub; its library would retry for minutes


def load_from_hub(
    model_class: str, model: str, revision: str | None, unused: Sequence[str] = (), **settings: Any
) -> Any:
    """Call `transformers.<model_class>.from_pretrained` for a hub id or a local folder, never with
    remote code.

    If the hub does not answer, the local cache is used. Raises WeightsError, which names the id,
    the sources that were tried and the command to type. A network (recognised by the setting
    `use_safetensors`) must find exactly its own tensors in its files; only tensors with a component
    of their dotted name in `unused` may be missing or additional.
    """
    kind = getattr(import_transformers(), model_class)
    check_folder(model)
    return _from_pretrained(kind, model, revision, unused, trust_remote_code=False, **settings)


def check_folder(model: str) -> None:
    """Raise WeightsError for a path to a missing folder; a hub id is accepted."""
    if not Path(model).expanduser().is_dir() and _looks_like_path(model):
        raise WeightsError(
            f"there is no folder {model!r}; name a folder saved with save_pretrained, or a hub id"
        )


def find_place(model: str, device: str, dtype: str, half: str, extra: str = "hf") -> Place:
    """Return the device and dtype of a network given by id or folder, as `Place.resolve` does. If
    torch is missing and there is no such folder, the WeightsError says both."""
    try:
        import_torch(extra)
    except WeightsError as exc:
        if Path(model).expanduser().exists():
            raise
        raise WeightsError(
            f"{exc}; there is no folder {model!r} here, so it was taken as an id of the hub"
        ) from exc
    return Place.resolve(device, dtype, half, extra)


def load_diffusers_part(
    model_class: str, model: str, revision: str | None, subfolder: str, **settings: Any
) -> Any:
    """Load a part of a diffusers pipeline, by the pipeline's id or folder and the part's subfolder.
    Raises the same errors as `load_from_hub`."""
    kind = getattr(import_extra("diffusers", "diffusion"), model_class)
    return _from_pretrained(kind, model, revision, (), subfolder=subfolder, **settings)


def _from_pretrained(
    kind: Any, model: str, revision: str | None, unused: Sequence[str], **settings: Any
) -> Any:
    is_network = "use_safetensors" in settings
    settings |= {"output_loading_info": True} if is_network else {}
    place = Path(model).expanduser()
    local = place.is_dir()
    unreachable = "" if local else explain_unreachable_hub(model, revision)
    if unreachable:
        settings["local_files_only"] = True
    try:
        with OPENING_LOCK:
            source = str(place) if local else model
            opened = kind.from_pretrained(source, revision=revision, **settings)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as exc:
        hub = f"the model hub at revision {revision or 'main'} and its local cache"
        tried = f"the folder {place}" if local else hub
        part = f" of its part {settings['subfolder']!r}" if "subfolder" in settings else ""
        reason, advice = get_first_line(exc), _find_advice(exc)
        if unreachable:
            reason, advice = f"the hub did not answer: {unreachable}", DOWNLOAD_ADVICE
        raise (WeightsError if local else FetchError)(
            f"{model}: {kind.__name__}{part} could not be opened from {tried} ({reason}); {advice}"
        ) from exc
    return check_tensors(model, opened[0], opened[1], unused) if is_network else opened


COMPUTED_TENSORS = {
    "num_batches_tracked",  # counts training steps
    "position_ids",  # this and the next two follow from the settings, and older files hold them
    "inv_freq",
    "relative_position_index",
}
"""Components of the dotted names of tensors that every network computes from its settings."""


def check_tensors(
    model: str, network: Any, loading: Mapping[str, Any], unused: Sequence[str] = ()
) -> Any:
    """Return the network after checking its tensors: the library that loads it silently fills
    `missing_keys` with random numbers and drops unexpected tensors.

    Raises WeightsError if a tensor is missing or unexpected, except tensors that no result depends
    on: those with a component of their dotted name in `unused` or `COMPUTED_TENSORS`.
    """
    free, kind = {*unused, *COMPUTED_TENSORS}, type(network).__name__
    missing, surplus = (
        sorted(name for name in loading[keys] if free.isdisjoint(name.split(".")))
        for keys in ("missing_keys", "unexpected_keys")
    )
    if missing:
        raise WeightsError(
            f"{model}: its files lack {len(missing)} of the {len(network.state_dict())} tensors of"
            f" {kind} ({_format_names(missing)}), which would be random numbers; use its"
            " complete files,"
            f" or the id or folder of a {kind}"
        )
    if surplus:
        raise WeightsError(
            f"{model}: its files hold {len(surplus)} tensors that {kind} does not have"
            f" ({_format_names(surplus)}), so the files belong to another network, and these"
            f" tensors would be dropped; use the id or folder of a {kind}, or, if no result depends"
            " on these tensors, list them in `unused_tensors` of a subclass of your own"
        )
    return network


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")


def explain_unreachable_hub(model: str, revision: str | None) -> str:
    """Return the reason why the model hub cannot be reached, as the hub's library states it; empty
    if the hub sends any response."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    # errors of its HTTP library, which has changed over time
    network_errors: tuple[Any, ...] = (OSError, *HfHubHTTPError.__bases__)
    try:
        HfApi().model_info(model, revision=revision, timeout=HUB_TIMEOUT_SECONDS)
    except HfHubHTTPError:
        return ""
    except network_errors as exc:
        return get_first_line(exc)
    except ValueError:  # not an id; opening it gives a better error
        return ""
    return ""


def name_weights(model: str, revision: str | None) -> str:
    """Return an identifier for the weights and processor behind an id or folder.

    This is the digest of a folder's files, or the hub commit: the one in the local cache, or else
    the hub's current one. The identifier is empty for a missing folder, and if the hub does not
    answer.
    """
    if Path(model).expanduser().is_dir():
        return hash_weights(model)
    return "" if _looks_like_path(model) else _get_hub_commit(model, revision)


@lru_cache(maxsize=256)
def _get_hub_commit(model: str, revision: str | None) -> str:
    # its HTTP library may raise any exception; opening the model reports what is wrong
    with suppress(Exception):
        from huggingface_hub import HfApi, constants
        from huggingface_hub.file_download import repo_folder_name

        folder = repo_folder_name(repo_id=model, repo_type="model")
        ref = Path(constants.HF_HUB_CACHE, folder, "refs", revision or "main")
        if ref.is_file():
            return ref.read_text(encoding="ascii").strip()
        return str(
            HfApi().model_info(model, revision=revision, timeout=HUB_TIMEOUT_SECONDS).sha or ""
        )
    return ""


def _looks_like_path(model: str) -> bool:
    return model.startswith(("/", ".", "~")) or model.count("/") > 1 or "\\" in model


ERROR_ADVICE: Sequence[tuple[Sequence[str], str]] = (
    (
        ("torchvision",),
        "it needs the torchvision version that matches torch; type: pip install torchvision",
    ),
    (
        ("timm",),
        "it needs timm, and the torchvision version that matches torch; type: pip install timm",
    ),
    (
        ("gated", "401", "403"),
        "it is gated: accept its terms on its page, then type `hf auth login`, or set model: to a"
        " local folder",
    ),
    (("connect", "offline", "name or service", "timed out"), DOWNLOAD_ADVICE),
)
"""Groups of words that occur in the errors of libraries, each with its advice; the first group that
matches counts."""


def _find_advice(exc: BaseException | None) -> str:
    """Return advice on an exception, which may depend on the exception's causes."""
    chain: list[BaseException] = []
    while exc is not None and exc not in chain:
        chain.append(exc)
        exc = exc.__cause__ or exc.__context__
    text = " ".join(f"{type(link).__name__} {link}" for link in chain).lower()
    matching = (advice for signs, advice in ERROR_ADVICE if any(sign in text for sign in signs))
    return next(matching, f"check the id or folder; {DOWNLOAD_ADVICE}")
