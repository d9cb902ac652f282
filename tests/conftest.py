"""Closes the network except for loopback, and finds the optional data folder."""

import functools
import gc
import importlib.util
import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.paths import DATA

# A model hub that is contacted would only hit the closed network below, after its own retries.
os.environ["HF_HUB_OFFLINE"] = "1"
gc.disable()  # until all tests are collected, see `pytest_collection_finish`


class NetworkClosed(RuntimeError):
    """Raised for any connection outside. It is not an OSError, so that retries cannot hide it."""


def is_loopback(host: object) -> bool:
    """Return whether a host name or address, in the form of socket functions, is this machine."""
    if isinstance(host, bytes):
        host = host.decode()
    if host is None or host in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _guarded_connect(original: Callable[..., Any]) -> Callable[..., Any]:
    def connect(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_loopback(address[0]):
            raise NetworkClosed(
                f"a test tried to connect to {address!r}; serve it on 127.0.0.1 instead"
            )
        return original(self, address)

    return connect


def _guarded_lookup(original: Callable[..., Any]) -> Callable[..., Any]:
    def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_loopback(host):
            raise NetworkClosed(f"a test tried to look up {host!r}; serve it on 127.0.0.1 instead")
        return original(host, *args, **kwargs)

    return lookup


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Use an empty configuration folder, so that tests neither read nor change the user's
    permissions."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("configuration"))


@pytest.fixture(scope="session", autouse=True)
def closed_network() -> Iterator[None]:
    """Allow only loopback in this process. Subprocesses of a test are not restricted."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _guarded_connect(getattr(socket.socket, name)))
        for name in ("getaddrinfo", "gethostbyname"):
            patch.setattr(socket, name, _guarded_lookup(getattr(socket, name)))
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_built_once() -> Iterator[None]:
    """Build the commands only once, because building takes 30 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(get_command))
        yield


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget modules that a test imported from its own folder."""
    before, paths, own = set(sys.modules), list(sys.path), str(tmp_path_factory.getbasetemp())
    yield
    sys.path[:] = paths
    for name in sys.modules.keys() - before:
        file = getattr(sys.modules[name], "__file__", None)
        if isinstance(file, str) and file.startswith(own):
            del sys.modules[name]


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real benchmark files: `LOOKTWICE_DATA`, or `shared/data` next to the checkout."""
    if not DATA.is_dir():
        pytest.skip(f"no data folder at {DATA}; name one in LOOKTWICE_DATA")
    return DATA


def _has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` if CUDA is missing."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs torch with CUDA"))


def pytest_collection_finish() -> None:
    """Freeze the collected objects and collect garbage less often, which took 5 % of the time."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
