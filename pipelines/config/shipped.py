"""The configurations that come with the package, and how a configuration is found by name."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def shipped() -> dict[str, Path]:
    """The configurations that come with the package, by name without `.yaml`."""
    folder = Path(str(files("looktwice"))) / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_config(text: str | Path, folder: Path = Path()) -> Path:
    """The file of that name in `folder`, with or without `.yaml`, else the shipped one, else what
    was asked for."""
    path = folder / text
    beside = [near for near in (path, Path(f"{path}.yaml")) if near.is_file()]
    return beside[0] if beside else shipped().get(str(text).removesuffix(".yaml"), path)
