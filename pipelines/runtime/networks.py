"""Networks in memory: one of each per process, opened once however many threads ask, and closed by
the runner."""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from looktwice.pipelines.disk import write_file

FETCH = "fetch it where there is a network with `hf download ID --local-dir DIR` and set model: DIR"
HUB_S = 10.0  # seconds in which the hub has to answer once; its library would try for minutes
AGAIN_S = 60.0  # seconds after which what could not be fetched is tried anew

LARGE = 8 << 20  # bytes of a file whose digest is kept

# transformers is not thread-safe: a second thread may find it half imported
OPENING = threading.RLock()

Dtype = Literal["auto", "float32", "float16", "bfloat16"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Thing = TypeVar("Thing")


class WeightsError(ValueError):
    """A network that cannot be opened; the message says its id, what was tried and what to type."""


class FetchError(WeightsError):
    """Weights that another machine did not give; for a minute, the same is said again without
    another try."""


@dataclass(frozen=True)
class Place:
    """Where a network runs: `device` and `dtype` as torch names them."""

    device: str
    dtype: str

    @classmethod
    def of(cls, device: str, dtype: str, half: str = "float16") -> Place:
        """What "auto" stands for here: CUDA, else MPS, else CPU; the precision `half` on CUDA, else
        float32.

        Raises WeightsError for a device that this machine lacks.
        """
        torch = import_torch()
        there = {
            "cpu": True,
            "cuda": torch.cuda.is_available(),
            "mps": torch.backends.mps.is_available(),
        }
        if device == "auto":
            device = next(name for name in ("cuda", "mps", "cpu") if there[name])
        if not there[device]:
            able = ", ".join(name for name, found in there.items() if found)
            raise WeightsError(
                f"device {device!r} was asked for, torch finds only {able} here; set device: auto"
            )
        if dtype == "auto":
            dtype = half if device == "cuda" else "float32"
        return cls(device, dtype)

    @property
    def torch_dtype(self) -> Any:
        """The dtype object."""
        return getattr(import_torch(), self.dtype)


class _Store:
    """Resources by key: the first thread that asks opens one while the others wait.

    A failure is forgotten, for a file may be put right at any time; what could not be fetched is
    remembered for `AGAIN_S`, or each sample of a run would wait for the same silence.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turns: dict[Hashable, threading.Lock] = {}
        self.things: dict[Hashable, Any] = {}
        self.failed: dict[Hashable, tuple[float, FetchError]] = {}

    def get(self, key: Hashable, open_: Callable[[], Any]) -> Any:
        with self.lock:
            turn = self.turns.setdefault(key, threading.Lock())
        with turn:
            since, failure = self.failed.get(key, (0.0, None))
            if failure is not None and time.monotonic() - since < AGAIN_S:
                raise FetchError(str(failure))
            if key not in self.things:
                try:
                    self.things[key] = open_()
                except FetchError as exc:
                    self.failed[key] = time.monotonic(), exc
                    raise
            return self.things[key]

    def close(self) -> None:
        with self.lock:
            things, self.things, self.failed, self.turns = list(self.things.values()), {}, {}, {}
        if not things:
            return
        for thing in reversed(things):
            if callable(close := getattr(thing, "close", None)):
                close()
        del things
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()


_STORE = _Store()

Elsewhere = Callable[..., Any]
"""Gives what a method of a network's owner gives for arguments, in another process."""

_elsewhere: Elsewhere | None = None


def run_elsewhere(place: Elsewhere | None) -> None:
    """From now on the networks of this process lie elsewhere; None brings them back."""
    global _elsewhere
    _elsewhere = place


def elsewhere() -> Elsewhere | None:
    """Where the networks of this process lie, if not here."""
    return _elsewhere


def open_shared(key: Hashable, open_: Callable[[], Thing]) -> Thing:
    """The resource that this process shares under `key`, opened at its first use. Raises
    WeightsError."""
    thing: Thing = _STORE.get(key, open_)
    return thing


def close_networks() -> None:
    """Free the memory of every network; a later use opens it again."""
    _STORE.close()


def import_torch() -> Any:
    """The torch module. Raises WeightsError with what to type where it is missing."""
    try:
        import torch
    except ImportError as exc:
        raise WeightsError("torch is not installed; type: pip install 'looktwice[torch]'") from exc
    return torch


def import_transformers() -> Any:
    """The transformers module. Raises WeightsError with what to type where it is missing."""
    import_torch()
    try:
        with OPENING:
            import transformers
    except ImportError as exc:
        raise WeightsError(
            "transformers is not installed; type: pip install 'looktwice[hf]'"
        ) from exc
    import logging

    # its retries, a line each, would drown the one sentence at their end
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def import_diffusers() -> Any:
    """The diffusers module. Raises WeightsError with what to type where it is missing."""
    import_torch()
    try:
        with OPENING:
            import diffusers
    except ImportError as exc:
        raise WeightsError(
            "diffusers is not installed; type: pip install 'looktwice[diffusion]'"
        ) from exc
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    return diffusers


def from_hub(
    model_class: str, model: str, revision: str | None, unused: Sequence[str] = (), **settings: Any
) -> Any:
    """`transformers.<model_class>.from_pretrained` of a hub id or a local folder, never with remote
    code.

    Where the hub does not answer, its local cache is looked into. Raises WeightsError with the id,
    what was tried and what to type. A network, which is what has the setting `use_safetensors`,
    must find all its tensors in its files and no others, but for those with a name of `unused`
    between their dots.
    """
    kind = getattr(import_transformers(), model_class)
    check_folder(model)
    return _from_pretrained(kind, model, revision, unused, trust_remote_code=False, **settings)


def check_folder(model: str) -> None:
    """Raises WeightsError for the path of a folder that is not there; a hub id is fine."""
    if not Path(model).expanduser().is_dir() and _looks_like_path(model):
        raise WeightsError(
            f"there is no folder {model!r}; give a folder saved with save_pretrained, or a hub id"
        )


def diffusers_part(
    model_class: str, model: str, revision: str | None, subfolder: str, **settings: Any
) -> Any:
    """A part of a diffusers pipeline, by the pipeline's id or folder and the part's subfolder.
    Errors as `from_hub`."""
    kind = getattr(import_diffusers(), model_class)
    return _from_pretrained(kind, model, revision, (), subfolder=subfolder, **settings)


def _from_pretrained(
    kind: Any, model: str, revision: str | None, unused: Sequence[str], **settings: Any
) -> Any:
    settings |= {"output_loading_info": True} if "use_safetensors" in settings else {}
    place = Path(model).expanduser()
    local = place.is_dir()
    silence = "" if local else hub_silence(model, revision)
    if silence:
        settings["local_files_only"] = True
    try:
        with OPENING:
            found = kind.from_pretrained(
                str(place) if local else model, revision=revision, **settings
            )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as exc:
        tried = (
            f"the folder {place}"
            if local
            else f"the model hub at revision {revision or 'main'} and its local cache"
        )
        part = f" of its part {settings['subfolder']!r}" if "subfolder" in settings else ""
        said, advice = (
            (f"the hub did not answer: {silence}", FETCH)
            if silence
            else (first_line(exc), _advice(exc))
        )
        raise (WeightsError if local else FetchError)(
            f"{model}: {kind.__name__}{part} could not be opened from {tried} ({said}); {advice}"
        ) from exc
    return (
        check_tensors(model, found[0], found[1], unused) if "use_safetensors" in settings else found
    )


COMPUTED = {
    "num_batches_tracked",  # counts steps of training
    "position_ids",  # this and the next two follow from the settings, and older files hold them
    "inv_freq",
    "relative_position_index",
}
"""Tensors of which nothing depends on what a file holds, in any network, as they are named between
dots."""


def check_tensors(
    model: str, network: Any, loading: Mapping[str, Any], unused: Sequence[str] = ()
) -> Any:
    """The network, checked: its library fills `missing_keys` with random numbers and drops others
    without a word.

    Raises WeightsError where a tensor is missing or is none of the network's, but for those of
    which no result depends: that have a name of `unused`, or of `COMPUTED`, between their dots.
    """
    missing, surplus = (
        sorted(name for name in loading[keys] if not {*unused, *COMPUTED} & {*name.split(".")})
        for keys in ("missing_keys", "unexpected_keys")
    )
    kind = type(network).__name__
    if missing:
        raise WeightsError(
            f"{model}: its files lack {len(missing)} of the {len(network.state_dict())} tensors of"
            f" {kind} ({_some(missing)}), which would be random numbers; give its whole files, or"
            " the id or folder of such a network"
        )
    if surplus:
        raise WeightsError(
            f"{model}: its files hold {len(surplus)} tensors that {kind} does not have"
            f" ({_some(surplus)}), so they are of another network, of which a part would be"
            f" dropped; give the id or folder of a {kind}, or name them in `unused` of a class of"
            " your own if no result depends on them"
        )
    return network


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")


def hub_silence(model: str, revision: str | None) -> str:
    """Why the model hub cannot be reached, in the words of its library; empty where it answers,
    whatever it says."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    # of the library that it speaks HTTP with, which has been another from time to time
    unanswered: tuple[Any, ...] = (OSError, *HfHubHTTPError.__bases__)
    try:
        HfApi().model_info(model, revision=revision, timeout=HUB_S)
    except HfHubHTTPError:
        return ""
    except unanswered as exc:
        return first_line(exc)
    except ValueError:  # no id at all, which opening it will say better
        return ""
    return ""


def weights_hash(path: str | Path) -> str:
    """sha256 over a weights file, or over all files of a folder and below.

    That of a large file is kept in the user's cache folder (XDG_CACHE_HOME), with the size and time
    of which it is.
    """
    place = Path(path).expanduser().resolve()
    files = (
        [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    )
    digest = hashlib.sha256()
    for file in files:
        facts = file.stat()
        digest.update(f"{file.name}\n".encode())
        digest.update(_file_digest(file, facts.st_size, facts.st_mtime_ns))
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _file_digest(file: Path, size: int, changed: int) -> bytes:
    """The sha256 of a file, of this size and time; that of a large one is computed once for all
    commands."""
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "looktwice" / "digests"
    )
    note = folder / hashlib.sha256(str(file).encode()).hexdigest()[:32]
    version = f"{size} {changed} "
    if size >= LARGE:
        with suppress(OSError, ValueError):
            known = note.read_text(encoding="ascii")
            if known.startswith(version):
                return bytes.fromhex(known.removeprefix(version))
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").digest()
    if size >= LARGE:
        with suppress(OSError):  # then it is computed each time
            folder.mkdir(parents=True, exist_ok=True)
            write_file(note, version + digest.hex())
    return digest


def weights_name(model: str, revision: str | None) -> str:
    """What tells the weights of an id or folder, and of its processor, from all others.

    That is the digest of a folder's files, or the commit of the hub: the one that is in the local
    cache, else the one that the hub names. It is empty for a folder that is not there, and where
    the hub does not answer.
    """
    if Path(model).expanduser().is_dir():
        return weights_hash(model)
    return "" if _looks_like_path(model) else _hub_commit(model, revision)


@lru_cache(maxsize=256)
def _hub_commit(model: str, revision: str | None) -> str:
    # of whichever library it speaks HTTP with; to open the model will say what is wrong
    with suppress(Exception):
        from huggingface_hub import HfApi, constants
        from huggingface_hub.file_download import repo_folder_name

        folder = repo_folder_name(repo_id=model, repo_type="model")
        ref = Path(constants.HF_HUB_CACHE, folder, "refs", revision or "main")
        if ref.is_file():
            return ref.read_text(encoding="ascii").strip()
        return str(HfApi().model_info(model, revision=revision, timeout=HUB_S).sha or "")
    return ""


def weights_file(path: str | Path) -> Path:
    """The weights file that a setting names. Raises WeightsError where there is none."""
    place = Path(path).expanduser()
    if not place.is_file():
        raise WeightsError(f"there is no weights file {place}; set model: to the path of one")
    return place


def _looks_like_path(model: str) -> bool:
    return model.startswith(("/", ".", "~")) or model.count("/") > 1 or "\\" in model


def first_line(exc: BaseException) -> str:
    """The first line of what a library said, at most 300 characters of it."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return (lines[0] if lines else type(exc).__name__)[:300]


def _advice(exc: BaseException) -> str:
    text = " ".join(f"{type(each).__name__} {each}" for each in _chain(exc)).lower()
    if "torchvision" in text:
        return (
            "it needs torchvision of the version that belongs to torch; type: pip install"
            " torchvision"
        )
    if "timm" in text:
        return (
            "it needs timm, and torchvision of the version that belongs to torch; type: pip install"
            " timm"
        )
    if "gated" in text or "401" in text or "403" in text:
        return (
            "it is gated: accept its terms on its page, then type `hf auth login`, or set model: to"
            " a local folder"
        )
    if any(sign in text for sign in ("connect", "offline", "name or service", "timed out")):
        return FETCH
    return f"check the id or folder; {FETCH}"


def _chain(exc: BaseException | None) -> list[BaseException]:
    """An exception and those that led to it."""
    found: list[BaseException] = []
    while exc is not None and exc not in found:
        found.append(exc)
        exc = exc.__cause__ or exc.__context__
    return found
