"""Where a configuration lies, which files it may read, what to type for more, and what the user
allowed for good.

What is allowed lies in a file of its own in `looktwice/allowed` of the user's configuration folder,
which is `XDG_CONFIG_HOME`, by default `~/.config`, and holds for as long as what was allowed stays
the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

from looktwice.pipelines.disk import write_file
from looktwice.pipelines.json_input import read_as

REPLIES = "_replies"

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


class OutsideError(ValueError):
    """A path that a configuration, or what else asks, may not read unasked.

    `root` is the folder to allow, and `advice` says what to type.
    """

    def __init__(self, text: str, real: Path, scope: Scope) -> None:
        self.root = real if real.is_dir() else real.parent
        once, before = f"add --allow {quoted(shortest(self.root))}", ""
        if scope.source:
            remembered = "which remembers it until it changes, or this time"
            once = f"type `{scope.command}`, {remembered} {once}"
            allowance = _read(_place(scope.source))
            if changed := allowance.changed if allowance else []:
                before = f"; it was allowed before, and {', '.join(changed)} changed since"
        self.advice = f"if you trust this one, {once}{before}"
        super().__init__(
            f"{text!r} lies outside the {scope.what}'s folder {scope.folder}, at {real}; a"
            f" {scope.what} from elsewhere must not read your files, so {self.advice}"
        )


def pass_fence(text: str, real: Path, roots: Sequence[Path], scope: Scope) -> None:
    """The one gate: raises OutsideError for a path that lies, all links followed, below none of the
    `roots`."""
    if any(real.is_relative_to(root) for root in roots):
        return
    if _noted is None:
        raise OutsideError(text, real, scope)
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


@dataclass(frozen=True)
class Scope:
    """What a configuration may reach: its own folder, what the command line names or allows, and
    named plugins.

    What is guarded: a configuration that somebody else wrote must not read this machine's files and
    send them to the server that it names. Links are followed first, so a link in its folder opens
    nothing. `what` names in faults what the paths stand in, and `source` is its file, or the folder
    of a run, which the user may allow to read more.
    """

    folder: Path = Path()
    given: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    allowed: tuple[Path, ...] = ()
    what: str = "configuration"
    source: Path | None = None

    @classmethod
    def of_records(cls, run: Path, plugins: Sequence[str] = ()) -> Scope:
        """That of a run's own records, which name every file in full, and which somebody may have
        sent.

        They reach the run's folder, the working folder and what the user allows.
        """
        roots = (Path.cwd().resolve(), *allowed_roots(), *allowed_to(run))
        return cls(run, plugins=tuple(plugins), allowed=roots, what="run", source=run)

    @property
    def command(self) -> str:
        """What to type so that what `source` asks for is remembered."""
        files = [getattr(sys.modules.get(name), "__file__", None) or name for name in self.plugins]
        options = [f" --plugin {quoted(str(file))}" for file in files]
        return f"looktwice allow {quoted(shortest(self.source or self.folder))}{''.join(options)}"

    def path(self, text: str) -> Path:
        """A path of the configuration as a real one. Raises OutsideError, and ValueError where it
        does not exist.

        A path given on the command line counts from the working folder, any other from the file's
        own folder. Beside given data its recorded replies may be read: with `data/blink`,
        `data/blink_replies` is given too.
        """
        base, roots = self.folder, [self.folder]
        if any(text.startswith(given) for given in self.given):
            base = Path()
            roots = [Path(given + more) for given in self.given for more in ("", REPLIES)]
        real = (base / Path(text).expanduser()).resolve()
        roots = [root.expanduser().resolve() for root in roots]
        if not real.exists():
            raise ValueError(f"{text!r} does not exist (looked for {real})")
        pass_fence(text, real, (*roots, *self.allowed), self)
        if not (real.is_file() or real.is_dir()):
            raise ValueError(f"{text!r} is a pipe or a device ({real}); name a file or a folder")
        return real


@dataclass(frozen=True)
class Allowance:
    """What lies at `path` may read what lies at or below `reads`, until one of its `files` changes.

    These are the files that name what is read, with their sha256.
    """

    path: str
    files: Mapping[str, str]
    reads: tuple[str, ...]

    @property
    def changed(self) -> list[str]:
        """The files that are no longer as they were allowed; while there is one, nothing is."""
        return [
            file
            for file, sha in self.files.items()
            if not Path(file).is_file() or _sha256(Path(file)) != sha
        ]


def allow(path: Path, files: Iterable[Path], reads: Iterable[Path]) -> None:
    """From now on `path` may read these, as long as its `files` stay as they are. Raises
    OSError."""
    whole = {str(file.resolve()): _sha256(file) for file in files}
    allowance = Allowance(str(path.resolve()), whole, tuple(sorted({str(read) for read in reads})))
    write_file(_place(path), json.dumps(asdict(allowance), indent=1))


def allowed_to(path: Path) -> tuple[Path, ...]:
    """What was allowed to what lies at `path`; nothing once one of its files has changed."""
    allowance = _read(_place(path))
    return tuple(map(Path, allowance.reads)) if allowance and not allowance.changed else ()


def forget(path: Path) -> bool:
    """Take back what was allowed; whether there was anything."""
    try:
        _place(path).unlink()
    except FileNotFoundError:
        return False
    return True


def allowances() -> Iterator[Allowance]:
    """All that is allowed, by path."""
    read = filter(None, map(_read, _folder().glob("*.json")))
    yield from sorted(read, key=lambda allowance: allowance.path)


def _read(place: Path) -> Allowance | None:
    try:
        allowance: Allowance = read_as(Allowance, place.read_bytes())
    except (OSError, ValueError):
        return None
    return allowance


def _place(path: Path) -> Path:
    return _folder() / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"


def _folder() -> Path:
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(configuration) / "looktwice" / "allowed"


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
