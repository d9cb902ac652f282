"""Provenance of a run: the versions, plugins, files and data that run.yaml names, and the shards of
its samples."""

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

from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.sample import Item

LIBRARIES = (
    "looktwice fpng numpy opencv-python-headless pillow scikit-image torch kornia transformers"
)
MAX_HASHED_BYTES = 1_000_000  # bytes; larger files are data, which have digests of their own


def describe_plugin(name: str) -> dict[str, str]:
    """Return a plugin's entry in run.yaml: its name, the path for `--plugin`, and the sha256 if it
    is a single file."""
    file = Path(getattr(sys.modules.get(name), "__file__", None) or name)
    if file.name == "__init__.py" or not file.is_file():
        return {"name": name, "path": name, "sha": ""}
    return {"name": name, "path": str(file), "sha": hashlib.sha256(file.read_bytes()).hexdigest()}


def find_changed_plugins(facts: Mapping[str, Any], plugins: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for every plugin whose file changed since the run described by `facts` was
    made."""
    shas = {plugin["name"]: plugin.get("sha") for plugin in facts.get("plugins") or ()}
    for plugin in map(describe_plugin, plugins):
        if shas.get(plugin["name"]) and shas[plugin["name"]] != plugin["sha"]:
            yield (
                f"{plugin['path']} changed since this run began; existing records are kept. If a"
                " class now computes something else, raise its `version`, or start over with"
                " --again all"
            )


def hash_files(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the sha256 of each file of up to a megabyte, such as a prompt text, by the path of the
    setting that names it."""
    return {
        place: hashlib.sha256(file.read_bytes()).hexdigest()
        for place, file in files.items()
        if file.is_file() and file.stat().st_size <= MAX_HASHED_BYTES
    }


class DataDigest:
    """The sha256 of each part of a task's items, in order. Shards compare it to make sure that they
    share one data set."""

    def __init__(self) -> None:
        self._parts = {
            part: hashlib.sha256() for part in ("samples", "questions", "keys", "pictures")
        }

    def hash_items(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items and add them to the digest; reads every picture."""
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
                self._parts[part].update(write_canonical(value).encode() + b"\n")
            yield item

    def to_dict(self) -> dict[str, str]:
        """Return the digests by part: the samples' ids, questions, correct answers and pictures."""
        return {part: digest.hexdigest() for part, digest in self._parts.items()}


def get_shard(identifier: str, shards: int) -> int:
    """Return the number of a sample's shard, from 0."""
    return int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:8], "big") % shards


@cache
def list_versions() -> Mapping[str, str]:
    """Return the versions of Python, looktwice and the libraries that affect results."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES.split():
        # missing: another build of the same library, or a tree that is not installed
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
