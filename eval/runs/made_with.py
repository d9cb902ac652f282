"""What a run is made with: its models, wrapped with cache, retries and limits, watched, counted and
closed, and what they have cost in all; and the versions, plugins, files and data that run.yaml
names."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from looktwice.pipelines.model import canonical
from looktwice.pipelines.sample import Item

LIBRARIES = (
    "looktwice fpng numpy opencv-python-headless pillow scikit-image torch kornia transformers"
)
LARGEST = 1_000_000  # bytes; data say themselves which they are


def describe_plugin(name: str) -> dict[str, str]:
    """A plugin as run.yaml holds it: what `--plugin` takes to load it again, and the sha256 of a
    single file."""
    file = Path(getattr(sys.modules.get(name), "__file__", None) or name)
    if file.name == "__init__.py" or not file.is_file():
        return {"name": name, "path": name, "sha": ""}
    return {"name": name, "path": str(file), "sha": hashlib.sha256(file.read_bytes()).hexdigest()}


def changed_plugins(facts: Mapping[str, Any], plugins: Sequence[str]) -> Iterator[str]:
    """A sentence for every plugin whose file is not the one with which the run was made that
    `facts` describe."""
    shas = {plugin["name"]: plugin.get("sha") for plugin in facts.get("plugins") or ()}
    for plugin in map(describe_plugin, plugins):
        if shas.get(plugin["name"]) and shas[plugin["name"]] != plugin["sha"]:
            yield (
                f"{plugin['path']} changed since this run was begun; what is recorded stays. A"
                " class that now computes something else needs a higher `version`, or start"
                " over: --again all"
            )


def hash_files(files: Mapping[str, Path]) -> dict[str, str]:
    """The sha256 of each file of up to a megabyte, such as a text of a prompt, by the place where
    it is named."""
    return {
        place: hashlib.sha256(file.read_bytes()).hexdigest()
        for place, file in files.items()
        if file.is_file() and file.stat().st_size <= LARGEST
    }


class DataDigest:
    """The sha256 of each part of a task's items, in their order, by which shards tell that they are
    of one data set."""

    def __init__(self) -> None:
        self._parts = {
            part: hashlib.sha256() for part in ("samples", "questions", "keys", "pictures")
        }

    def through(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, which are looked at on their way; every picture is read."""
        for item in items:
            plain = item.sample.to_dict()
            choices = plain.pop("choices")
            pictures = [choice for choice in choices if not isinstance(choice, str)]
            parts = {
                "samples": plain.pop("id"),
                "pictures": [plain.pop("images"), pictures],
                "questions": plain | {"choices": [c for c in choices if isinstance(c, str)]},
                "keys": [item.answer, dict(item.truth)],
            }
            for part, value in parts.items():
                self._parts[part].update(canonical(value).encode() + b"\n")
            yield item

    def to_dict(self) -> dict[str, str]:
        """The digests by part: the samples' ids, and their questions, keys and pictures."""
        return {part: digest.hexdigest() for part, digest in self._parts.items()}


def shard_of(identifier: str, shards: int) -> int:
    """The number of a sample's shard, from 0."""
    return int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:8], "big") % shards


@cache
def installed_versions() -> Mapping[str, str]:
    """Of Python, looktwice and the libraries that decide what is computed."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES.split():
        # another build of the same library, or a tree that is not installed
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
