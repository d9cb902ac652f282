"""The configurations bundled with the package, and lookup of configurations by name."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def list_configs() -> dict[str, Path]:
    """Return the configurations bundled with the package, by name without `.yaml`."""
    folder = Path(str(files("looktwice"))) / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_config(text: str | Path, folder: Path = Path()) -> Path:
    """Find a configuration: a file in `folder`, with or without `.yaml`, else a bundled one, else
    the path as given."""
    path = folder / text
    matches = [near for near in (path, Path(f"{path}.yaml")) if near.is_file()]
    return matches[0] if matches else list_configs().get(str(text).removesuffix(".yaml"), path)
