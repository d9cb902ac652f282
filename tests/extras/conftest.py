"""Builds each tiny network once, and frees opened networks after each file."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from looktwice.extras.networks import close_networks
from tests.eval.conftest import made as made
from tests.tiny import tiny

SUFFIX = {"loftr": ".ckpt", "aliked": ".safetensors"}
SUFFIX |= dict.fromkeys(("disk", "head", "dire", "sam_file"), ".pth")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """A function that builds a tiny network on first use and returns its folder or file."""
    place, paths = tmp_path_factory.mktemp("tiny"), dict[str, Path]()

    def build(name: str, *more: str) -> str:
        key = "-".join((name, *more)) + SUFFIX.get(name, "")
        if key not in paths:
            paths[key] = tiny(name, place / key, *more)
        return str(paths[key])

    return build


@pytest.fixture(scope="module", autouse=True)
def _free_networks() -> Iterator[None]:
    yield
    close_networks()
    gc.freeze()  # the libraries that they imported stay, as in `tests/conftest.py`
