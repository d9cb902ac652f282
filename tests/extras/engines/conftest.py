"""Fixtures that replace the packages vLLM and SGLang by stand-ins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from looktwice.extras.networks import close_networks
from tests.extras.engines.network import NETWORK, Network, use_network

PACKAGES = Path(__file__).with_name("packages")


def forget_packages() -> None:
    """Forget the imported stand-ins."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("vllm", "sglang"):
            del sys.modules[name]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """The network behind both stand-ins, which are importable; the engines are closed at the
    end."""
    monkeypatch.syspath_prepend(str(PACKAGES))
    forget_packages()
    use_network(Network())
    yield NETWORK
    NETWORK.gate.set()
    close_networks()
    forget_packages()
