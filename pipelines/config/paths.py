"""Where a configuration lies, which files it may read, and what to type for more."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

ALLOW = "LOOKTWICE_ALLOW"


def shipped() -> dict[str, Path]:
    """The configurations that come with the package, by name without `.yaml`."""
    folder = Path(str(files("looktwice.configs")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_config(text: str | Path, folder: Path = Path()) -> Path:
    """The file of that name in `folder`, with or without `.yaml`, else the shipped one, else what
    was asked for."""
    path = folder / text
    beside = [near for near in (path, Path(f"{path}.yaml")) if near.is_file()]
    return beside[0] if beside else shipped().get(str(text).removesuffix(".yaml"), path)


@dataclass(frozen=True)
class Asker:
    """Who asks for a path: a `what` that lies in `folder`, which the user names by `typed`, and its
    plugins."""

    folder: Path
    what: str = "configuration"
    typed: str = ""
    plugins: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """What to type so that it is remembered."""
        files = [getattr(sys.modules.get(name), "__file__", None) or name for name in self.plugins]
        options = [f" --plugin {quoted(str(file))}" for file in files]
        return f"looktwice allow {quoted(self.typed)}{''.join(options)}"


class OutsideError(ValueError):
    """A path that a configuration, or what else asks, may not read unasked.

    `root` is the folder to allow, and `advice` says what to type.
    """

    def __init__(self, text: str, real: Path, asker: Asker) -> None:
        self.root = real if real.is_dir() else real.parent
        once = f"add --allow {quoted(shortest(self.root))}"
        remembered = f"type `{asker.command}`, which remembers it until it changes, or this time "
        self.advice = f"if you trust this one, {remembered if asker.typed else ''}{once}"
        super().__init__(
            f"{text!r} lies outside the {asker.what}'s folder {asker.folder}, at {real}; "
            f"a {asker.what} from elsewhere must not read your files, so {self.advice}"
        )


def pass_fence(text: str, real: Path, roots: Sequence[Path], asker: Asker) -> None:
    """The one gate: raises OutsideError for a path that lies, all links followed, below none of the
    `roots`."""
    if any(real.is_relative_to(root) for root in roots):
        return
    if _noted is None:
        raise OutsideError(text, real, asker)
    _noted.append(real)


@contextmanager
def note_outside() -> Iterator[list[Path]]:
    """Inside, the gate lets everything pass, and notes what it would have stopped."""
    global _noted
    _noted = noted = list[Path]()
    try:
        yield noted
    finally:
        _noted = None


_noted: list[Path] | None = None
_of_command: tuple[str, ...] = ()


@contextmanager
def use_roots(roots: Sequence[str]) -> Iterator[None]:
    """Inside, every thread may read these folders too, as if LOOKTWICE_ALLOW named them. Raises
    FileNotFoundError."""
    global _of_command
    allowed_roots(roots)
    before, _of_command = _of_command, (*_of_command, *roots)
    try:
        yield
    finally:
        _of_command = before


def allowed_roots(roots: Sequence[str] = ()) -> tuple[Path, ...]:
    """The folders that everything may read: these, and those of LOOKTWICE_ALLOW. Raises
    FileNotFoundError."""
    missing = [root for root in roots if not Path(root).expanduser().exists()]
    if missing:
        raise FileNotFoundError(f"--allow {missing[0]}: there is no such folder")
    usual = filter(None, os.environ.get(ALLOW, "").split(os.pathsep))
    return tuple(Path(root).expanduser().resolve() for root in (*roots, *_of_command, *usual))


def quoted(text: str) -> str:
    """The text as a shell takes it."""
    return shlex.quote(text) if os.name == "posix" else f'"{text}"'


def shortest(path: Path) -> str:
    """The path from the root or from the working folder, whichever is shorter to type."""
    try:
        return min(os.path.relpath(path), str(path), key=len)
    except ValueError:  # another drive
        return str(path)
