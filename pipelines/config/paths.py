"""Where a configuration lies, which files it may read, and what to type for more."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

ALLOW = "LOOKTWICE_ALLOW"


def shipped() -> dict[str, Path]:
    """The configurations that come with the package, by name without `.yaml`."""
    folder = Path(str(files("looktwice.configs")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_config(text: str | Path, folder: Path = Path()) -> Path:
    """The file of that name in `folder`, with or without `.yaml`, else the shipped one, else what was asked for."""
    path = folder / text
    beside = [near for near in (path, Path(f"{path}.yaml")) if near.is_file()]
    return beside[0] if beside else shipped().get(str(text).removesuffix(".yaml"), path)


class OutsideError(ValueError):
    """A path that a configuration, or what else `what` says, may not read unasked; `root` is what to allow."""

    def __init__(self, text: str, folder: Path, found: Path, what: str = "configuration") -> None:
        self.root = found if found.is_dir() else found.parent
        earlier = os.environ.get(ALLOW, "")
        for_good = f"{earlier}{os.pathsep}{self.root}" if earlier else str(self.root)
        super().__init__(
            f"{text!r} lies outside the {what}'s folder {folder}, at {found}; a {what} from elsewhere "
            f"must not read your files, so if you trust this one, add --allow {_quoted(_shortest(self.root))}, or for "
            f"good set the environment variable {ALLOW}={_quoted(for_good)}"
        )


_of_command: tuple[str, ...] = ()


@contextmanager
def use_roots(roots: Sequence[str]) -> Iterator[None]:
    """Inside, every thread may read these folders too, as if LOOKTWICE_ALLOW named them. Raises FileNotFoundError."""
    global _of_command
    allowed_roots(roots)
    before, _of_command = _of_command, (*_of_command, *roots)
    try:
        yield
    finally:
        _of_command = before


def allowed_roots(roots: Sequence[str] = ()) -> tuple[Path, ...]:
    """The folders that everything may read: these, and those of LOOKTWICE_ALLOW. Raises FileNotFoundError."""
    missing = [root for root in roots if not Path(root).expanduser().exists()]
    if missing:
        raise FileNotFoundError(f"--allow {missing[0]}: there is no such folder")
    usual = filter(None, os.environ.get(ALLOW, "").split(os.pathsep))
    return tuple(Path(root).expanduser().resolve() for root in (*roots, *_of_command, *usual))


def _quoted(text: str) -> str:
    return shlex.quote(text) if os.name == "posix" else f'"{text}"'


def _shortest(path: Path) -> str:
    """The path from the root or from the working folder, whichever is shorter to type."""
    try:
        return min(os.path.relpath(path), str(path), key=len)
    except ValueError:  # another drive
        return str(path)
