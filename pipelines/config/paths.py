"""The fence: which folders and hosts a configuration, a run folder or a folder of questions may
reach, the one question about more of them, and the answer, which is remembered.

A source reads its own folder, and what the command line names. If it reads elsewhere, the user is
asked once for all folders that it reads and all hosts that it names. The answer lies in a file of
its own in `looktwice/allowed` of the user's configuration folder, which is `XDG_CONFIG_HOME`, by
default `~/.config`. It holds for these folders and hosts, whatever else changes in the source.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.json_input import read_as

REPLIES = "_replies"
ALLOW = "LOOKTWICE_ALLOW"
URL = re.compile(r"(?i)(?:https?|wss?|grpcs?)://\S+")
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")

Ask = Callable[[str], bool]


class Allowed(NamedTuple):
    """Folders and hosts that may be reached, and plugins whose code may run."""

    folders: tuple[Path, ...] = ()
    hosts: frozenset[str] = frozenset()
    plugins: tuple[str, ...] = ()


@dataclass
class Session:
    """What one command may reach, how it asks, and the questions that were answered with no."""

    allow: tuple[str, ...] = ()
    ask: Ask | None = None
    process: int = field(default_factory=os.getpid)
    refused: set[str] = field(default_factory=set)

    @property
    def can_ask(self) -> bool:
        """Whether somebody can answer: not from a thread, nor from a forked process."""
        is_main = threading.current_thread() is threading.main_thread()
        return self.ask is not None and is_main and self.process == os.getpid()

    def agrees(self, question: str) -> bool:
        """Whether the user says yes; nothing is asked twice."""
        if self.ask is None or not self.can_ask or question in self.refused:
            return False
        if not self.ask(question):
            self.refused.add(question)
            return False
        return True


_session = Session()


def agrees(question: str) -> bool:
    """Return whether the user answers yes to a question of the command that runs now."""
    return _session.agrees(question)


@contextmanager
def use_fence(allow: Sequence[str], ask: Ask | None = None) -> Iterator[None]:
    """Inside, every thread may reach these folders and hosts too, as if LOOKTWICE_ALLOW named
    them, and more is asked by `ask`. Raises FileNotFoundError."""
    global _session
    read_allowed(allow)
    before = _session
    _session = Session((*before.allow, *allow), ask or before.ask)
    try:
        yield
    finally:
        _session = before


def read_allowed(texts: Sequence[str] = ()) -> Allowed:
    """These folders and hosts, those of the command and those of LOOKTWICE_ALLOW. Raises
    FileNotFoundError."""
    folders, hosts = list[Path](), set[str]()
    usual = list(filter(None, os.environ.get(ALLOW, "").split(os.pathsep)))
    for text in (*texts, *_session.allow, *usual):
        path = Path(text).expanduser()
        if path.exists() or (text in usual and not HOST.fullmatch(text)):
            folders.append(path.resolve())
        elif URL.fullmatch(text) or HOST.fullmatch(text):
            hosts.add(_host(text))
        else:
            raise FileNotFoundError(f"--allow {text}: there is no such folder")
    return Allowed(tuple(folders), frozenset(hosts))


def _host(text: str) -> str:
    return (urlsplit(text).hostname or text if URL.fullmatch(text) else text).lower()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# ---- the answers


@dataclass(frozen=True)
class Grant:
    """What lies at `path` may reach these folders and hosts, and run these plugins."""

    path: str
    folders: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


def granted(path: Path | None) -> Allowed:
    """What the user let the source at `path` reach."""
    grant = _read(path) if path is not None else None
    if grant is None:
        return Allowed()
    return Allowed(tuple(map(Path, grant.folders)), frozenset(grant.hosts), grant.plugins)


def remember(
    path: Path, folders: Iterable[Path] = (), hosts: Iterable[str] = (), plugins: Iterable[str] = ()
) -> None:
    """From now on the source at `path` may reach these, too. Raises OSError."""
    before = granted(path)
    read = sorted({str(folder) for folder in (*before.folders, *folders)})
    sent, run = {*before.hosts, *hosts}, {*before.plugins, *plugins}
    grant = Grant(str(path.resolve()), tuple(read), tuple(sorted(sent)), tuple(sorted(run)))
    write_file(_place(path), json.dumps(asdict(grant), indent=1))


def _read(path: Path) -> Grant | None:
    try:
        grant: Grant = read_as(Grant, _place(path).read_bytes())
    except (OSError, ValueError):
        return None
    return grant


def _place(path: Path) -> Path:
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    name = f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
    return Path(configuration) / "looktwice" / "allowed" / name


# ---- the gate


class Wish(NamedTuple):
    """A path that lies outside: where it is named, its text, and where it leads."""

    place: str
    text: str
    real: Path

    @property
    def root(self) -> Path:
        """The folder to allow; only the file itself where that is the home or above it."""
        if self.real.is_dir():
            return self.real
        with suppress(RuntimeError):  # no home
            home = Path.home()
            if self.real.parent in (home, *home.parents):
                return self.real
        return self.real.parent


@dataclass
class Pending:
    """What a source wishes to reach: paths that are not allowed, and hosts with the place that
    names them. `outside` tells whether it reads outside at all."""

    scope: Scope
    wishes: list[Wish] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)
    outside: bool = False

    @property
    def roots(self) -> list[Path]:
        """The folders to allow, without those below another."""
        roots = list(dict.fromkeys(wish.root for wish in self.wishes))
        return [r for r in roots if not any(r != o and r.is_relative_to(o) for o in roots)]

    def settle(self) -> None:
        """Ask for what is not allowed, and remember a yes. Raises OutsideError."""
        if not (self.wishes or (self.outside and self.hosts)):
            return
        source = self.scope.source
        if source is None or not _session.agrees(self.question):
            raise OutsideError(self)
        remember(source, self.roots, self.hosts)

    @property
    def question(self) -> str:
        """What the user is asked, without the `[y/N]`."""
        name = shortest(self.scope.source or self.scope.folder)
        reads = "reads outside its own folder"
        if self.wishes:
            reads = f"reads {_listed(map(shortest, self.roots))}, outside its own folder"
        sends = f", and sends to {_listed(self.hosts)}" if self.hosts else ""
        return f"{name} {reads}{sends}. Do you trust it? A yes is remembered"


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


class OutsideError(ValueError):
    """A path, or a host beside one, that is not allowed. `advice` says what to type."""

    def __init__(self, pending: Pending) -> None:
        scope, hosts = pending.scope, pending.hosts
        options = [*(quoted(shortest(root)) for root in pending.roots), *hosts]
        typed = " ".join(f"--allow {option}" for option in options)
        self.advice = f"if you trust it, add {typed} (or set {ALLOW})"
        named = dict[Path, Wish]()
        for wish in pending.wishes:
            named.setdefault(wish.root, wish)
        folder = f"lies outside the {scope.what}'s folder {scope.folder}"
        faults = [
            f"{wish.place}{': ' * bool(wish.place)}{wish.text!r} {folder}, at {wish.real}"
            for wish in named.values()
        ]
        faults += [
            f"{place}: what it reads outside its own folder may be sent to {host}"
            for host, place in hosts.items()
        ]
        super().__init__(f"{'; '.join(faults)}; {self.advice}")


_pending: ContextVar[dict[Path | None, Pending] | None] = ContextVar("pending", default=None)


@contextmanager
def ask_once() -> Iterator[None]:
    """Inside, the gate lets everything pass and notes what it would have stopped; at the end the
    user is asked once for all that a source reaches. Raises ConfigError where the answer is no, or
    where nobody can answer."""
    if _pending.get() is not None:
        yield
        return
    noted = dict[Path | None, Pending]()
    token = _pending.set(noted)
    try:
        yield
    except ConfigError as exc:  # what is wrong comes first; who cannot be asked is told both
        faults = [] if _session.can_ask else [*_refusals(noted)]
        raise ConfigError([*exc.faults, *faults]) from exc
    finally:
        _pending.reset(token)
    if faults := [*_refusals(noted)]:
        raise ConfigError(faults)


def _refusals(noted: dict[Path | None, Pending]) -> Iterator[str]:
    for pending in noted.values():
        try:
            pending.settle()
        except OutsideError as exc:
            yield str(exc)


def pass_fence(text: str, real: Path, roots: Sequence[Path], scope: Scope, place: str = "") -> None:
    """The one gate: raises OutsideError for a path that lies, all links followed, neither below one
    of the `roots` nor in a folder that is allowed."""
    if any(real.is_relative_to(root) for root in roots):
        return
    noted, pending = _pending.get(), Pending(scope)
    if noted is not None:
        pending = noted.setdefault(scope.source, pending)
        pending.outside = True
    if any(map(real.is_relative_to, (*scope.allowed.folders, *granted(scope.source).folders))):
        return
    # who is told at once says the place himself
    pending.wishes.append(Wish("" if noted is None else place, text, real))
    if noted is None:
        pending.settle()


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
    of a run, which the user may allow to read more. `own` are more folders that are its own.
    """

    folder: Path = Path()
    given: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    allowed: Allowed = field(default_factory=Allowed)
    what: str = "configuration"
    source: Path | None = None
    own: tuple[Path, ...] = ()

    @classmethod
    def of_records(cls, run: Path, plugins: Sequence[str] = ()) -> Scope:
        """That of a run's own records, which name every file in full, and which somebody may have
        sent.

        They reach the run's folder, the working folder and what the user allows.
        """
        here, names = (Path.cwd().resolve(),), tuple(plugins)
        if granted(run).plugins:
            from looktwice.pipelines.config.plugin_code import load_run_plugins

            names = (*names, *load_run_plugins(run, names))
        return cls(run, (), names, read_allowed(), "run", source=run, own=here)

    def path(self, text: str, place: str = "") -> Path:
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
        pass_fence(text, real, (*roots, *self.own), self, place)
        if not (real.is_file() or real.is_dir()):
            raise ValueError(f"{text!r} is a pipe or a device ({real}); name a file or a folder")
        return real

    def host(self, text: str, place: str = "") -> str:
        """The host of a setting that is a URL, which is noted for the question; empty for any other
        text, for this machine and for what the command line names."""
        if not URL.fullmatch(text) or text in self.given or _is_loopback(_host(text)):
            return ""
        host, noted = _host(text), _pending.get()
        is_allowed = host in self.allowed.hosts or host in granted(self.source).hosts
        if noted is not None and not is_allowed:
            noted.setdefault(self.source, Pending(self)).hosts.setdefault(host, place)
        return host
