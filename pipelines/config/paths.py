"""Access control: which folders and hosts a configuration, a run folder or a folder of questions
may reach, and the user's remembered permission to reach more.

A source may read its own folder and what the command line names. If it reads elsewhere, the user is
asked once about all the folders that it reads and the hosts that it names. The answer is stored in
a file of its own in `looktwice/allowed` of the user's configuration folder, which is
`XDG_CONFIG_HOME`, by default `~/.config`. It stays valid for these folders and hosts, whatever else
changes in the source.
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

REPLIES_SUFFIX = "_replies"
ALLOW_VARIABLE = "LOOKTWICE_ALLOW"
URL_PATTERN = re.compile(r"(?i)(?:https?|wss?|grpcs?)://\S+")
HOST_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")

Confirm = Callable[[str], bool]


class AccessRights(NamedTuple):
    """The folders and hosts that may be reached, and the plugins that may run."""

    folders: tuple[Path, ...] = ()
    hosts: frozenset[str] = frozenset()
    plugins: tuple[str, ...] = ()


@dataclass
class Session:
    """The access rights of one command, the function that asks the user, and the questions that the
    user answered with no."""

    allow: tuple[str, ...] = ()
    ask: Confirm | None = None
    process_id: int = field(default_factory=os.getpid)
    refused_questions: set[str] = field(default_factory=set)

    @property
    def can_ask(self) -> bool:
        """True if the user can be asked: only from the main thread of the original process."""
        is_main = threading.current_thread() is threading.main_thread()
        return self.ask is not None and is_main and self.process_id == os.getpid()

    def confirm(self, question: str) -> bool:
        """Ask the user and return whether the answer is yes; after a no, the question is not
        repeated."""
        if self.ask is None or not self.can_ask or question in self.refused_questions:
            return False
        if not self.ask(question):
            self.refused_questions.add(question)
            return False
        return True


_session = Session()


def confirm(question: str) -> bool:
    """Ask the user of the running command, and return whether the answer is yes."""
    return _session.confirm(question)


@contextmanager
def allow_access(allow: Sequence[str], ask: Confirm | None = None) -> Iterator[None]:
    """Allow these folders and hosts inside the context and in every thread, as LOOKTWICE_ALLOW
    does; further access is requested through `ask`. Raises FileNotFoundError."""
    global _session
    read_allowed(allow)
    before = _session
    _session = Session((*before.allow, *allow), ask or before.ask)
    try:
        yield
    finally:
        _session = before


def read_allowed(allow_values: Sequence[str] = ()) -> AccessRights:
    """Return the folders and hosts in `allow_values` (those of `--allow`), in the running session
    and in LOOKTWICE_ALLOW. Raises FileNotFoundError."""
    folders, hosts = list[Path](), set[str]()
    usual = list(filter(None, os.environ.get(ALLOW_VARIABLE, "").split(os.pathsep)))
    for text in (*allow_values, *_session.allow, *usual):
        path = Path(text).expanduser()
        if path.exists() or (text in usual and not HOST_PATTERN.fullmatch(text)):
            folders.append(path.resolve())
        elif URL_PATTERN.fullmatch(text) or HOST_PATTERN.fullmatch(text):
            hosts.add(_get_host(text))
        else:
            raise FileNotFoundError(f"--allow {text}: no such folder")
    return AccessRights(tuple(folders), frozenset(hosts))


def _get_host(text: str) -> str:
    return (urlsplit(text).hostname or text if URL_PATTERN.fullmatch(text) else text).lower()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# ---- stored permissions


@dataclass(frozen=True)
class Grant:
    """A stored permission: the source at `path` may reach these folders and hosts, and run these
    plugins."""

    path: str
    folders: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


def read_grant(path: Path | None) -> AccessRights:
    """Return what the user has allowed the source at `path` to reach."""
    grant = _read_grant(path) if path is not None else None
    if grant is None:
        return AccessRights()
    return AccessRights(tuple(map(Path, grant.folders)), frozenset(grant.hosts), grant.plugins)


def save_grant(
    path: Path, folders: Iterable[Path] = (), hosts: Iterable[str] = (), plugins: Iterable[str] = ()
) -> None:
    """Store the permission for the source at `path` to reach these folders and hosts and to run
    these plugins, in addition to earlier permissions. Raises OSError."""
    before = read_grant(path)
    read = sorted({str(folder) for folder in (*before.folders, *folders)})
    sent, run = {*before.hosts, *hosts}, {*before.plugins, *plugins}
    grant = Grant(str(path.resolve()), tuple(read), tuple(sorted(sent)), tuple(sorted(run)))
    write_file(_get_grant_path(path), json.dumps(asdict(grant), indent=1))


def _read_grant(path: Path) -> Grant | None:
    try:
        grant: Grant = read_as(Grant, _get_grant_path(path).read_bytes())
    except (OSError, ValueError):
        return None
    return grant


def _get_grant_path(path: Path) -> Path:
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    name = f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
    return Path(configuration) / "looktwice" / "allowed" / name


# ---- the check


class OutsidePath(NamedTuple):
    """A path outside the allowed folders: the entry that names it, its text, and the real path."""

    place: str
    text: str
    real_path: Path

    @property
    def root(self) -> Path:
        """The folder to allow, or only the file if its folder is the home folder or above."""
        if self.real_path.is_dir():
            return self.real_path
        with suppress(RuntimeError):  # no home folder
            home = Path.home()
            if self.real_path.parent in (home, *home.parents):
                return self.real_path
        return self.real_path.parent


@dataclass
class PendingAccess:
    """Access that a source needs: paths that are not allowed, and hosts with the place that names
    each. `reads_outside` is true if the source reads anything outside its own folder."""

    scope: Scope
    outside_paths: list[OutsidePath] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)
    reads_outside: bool = False

    @property
    def roots(self) -> list[Path]:
        """The folders to allow, without those that lie inside another one."""
        roots = list(dict.fromkeys(outside_path.root for outside_path in self.outside_paths))
        return [r for r in roots if not any(r != o and r.is_relative_to(o) for o in roots)]

    def request_access(self) -> None:
        """Ask the user to allow the access, and store the permission. Raises OutsideError if it is
        denied."""
        if not (self.outside_paths or (self.reads_outside and self.hosts)):
            return
        source = self.scope.source
        if source is None or not _session.confirm(self.question):
            raise OutsideError(self)
        save_grant(source, self.roots, self.hosts)

    @property
    def question(self) -> str:
        """The question for the user, without the `[y/N]`."""
        name = shorten_path(self.scope.source or self.scope.folder)
        reads = "reads outside its own folder"
        if self.outside_paths:
            reads = f"reads {_join_names(map(shorten_path, self.roots))}, outside its own folder"
        sends = f", and sends to {_join_names(self.hosts)}" if self.hosts else ""
        return f"{name} {reads}{sends}. Do you trust it? A yes is remembered"


def _join_names(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


class OutsideError(ValueError):
    """Raised for a path, or a host to send files to, that is not allowed. `advice` says what to
    type."""

    def __init__(self, pending: PendingAccess) -> None:
        scope, hosts = pending.scope, pending.hosts
        options = [*(quote_for_shell(shorten_path(root)) for root in pending.roots), *hosts]
        typed = " ".join(f"--allow {option}" for option in options)
        self.advice = f"if you trust it, add {typed} (or set {ALLOW_VARIABLE})"
        named = dict[Path, OutsidePath]()
        for outside_path in pending.outside_paths:
            named.setdefault(outside_path.root, outside_path)
        folder = f"lies outside the {scope.kind}'s folder {scope.folder}"
        faults = [
            f"{outside.place}{': ' * bool(outside.place)}{outside.text!r} {folder}"
            f"{f', at {outside.real_path}' * (outside.text != str(outside.real_path))}"
            for outside in named.values()
        ]
        faults += [
            f"{place}: files read outside its own folder may be sent to {host}"
            for host, place in hosts.items()
        ]
        super().__init__(f"{'; '.join(faults)}; {self.advice}")


_pending_accesses: ContextVar[dict[Path | None, PendingAccess] | None] = ContextVar(
    "pending", default=None
)


@contextmanager
def ask_once() -> Iterator[None]:
    """Collect denied accesses inside the context and ask the user once, at its end, for everything
    that a source needs. Raises ConfigError if the answer is no or nobody can answer."""
    if _pending_accesses.get() is not None:
        yield
        return
    noted = dict[Path | None, PendingAccess]()
    token = _pending_accesses.set(noted)
    try:
        yield
    except ConfigError as exc:  # other faults come first; if nobody can be asked, both are reported
        faults = [] if _session.can_ask else [*_list_refusals(noted)]
        raise ConfigError([*exc.faults, *faults]) from exc
    finally:
        _pending_accesses.reset(token)
    if faults := [*_list_refusals(noted)]:
        raise ConfigError(faults)


def _list_refusals(accesses: dict[Path | None, PendingAccess]) -> Iterator[str]:
    for pending in accesses.values():
        try:
            pending.request_access()
        except OutsideError as exc:
            yield str(exc)


def check_access(
    text: str, real: Path, roots: Sequence[Path], scope: Scope, place: str = ""
) -> None:
    """Check a path; every access goes through here. Raises OutsideError if the path, with links
    resolved, is neither below one of the `roots` nor in an allowed folder."""
    if any(real.is_relative_to(root) for root in roots):
        return
    noted, pending = _pending_accesses.get(), PendingAccess(scope)
    if noted is not None:
        pending = noted.setdefault(scope.source, pending)
        pending.reads_outside = True
    if any(map(real.is_relative_to, (*scope.allowed.folders, *read_grant(scope.source).folders))):
        return
    # if it is raised at once, the caller adds the place
    pending.outside_paths.append(OutsidePath("" if noted is None else place, text, real))
    if noted is None:
        pending.request_access()


def require_permission(permission: tuple[str, str], scope: Scope) -> str:
    """Check that the user granted a permission that a class needs, by `--allow` or by answering
    yes, and return its name. Raises ValueError.

    An example of a permission is `("python-code", "runs Python code that a model writes")`.
    """
    name, does = permission
    allowed = (scope.allowed, read_allowed(), read_grant(scope.source))
    if any(name in known.hosts for known in allowed):
        return name
    source = shorten_path(scope.source or scope.folder)
    question = f"{source} {does}. Do you trust it? A yes is remembered"
    if scope.source is None or not _session.confirm(question):
        raise ValueError(
            f"it {does}, which you must allow first; add --allow {name} (or set {ALLOW_VARIABLE})"
        )
    with suppress(OSError):  # the next command asks again
        save_grant(scope.source, hosts=[name])
    return name


def quote_for_shell(text: str) -> str:
    """Quote a string for the shell."""
    return shlex.quote(text) if os.name == "posix" else f'"{text}"'


def shorten_path(path: Path) -> str:
    """Return the absolute or the relative path, whichever is shorter."""
    try:
        return min(os.path.relpath(path), str(path), key=len)
    except ValueError:  # another drive
        return str(path)


@dataclass(frozen=True)
class Scope:
    """The files, hosts and plugins that a configuration may reach: its own folder, what the command
    line names or allows, and named plugins.

    This protects against a configuration from somebody else that reads files of this machine and
    sends them to a server that it names. Links are resolved first, so that a link in its folder
    grants no access. `kind` is what messages call the source of the paths, and `source` is its
    file, or the folder of a run, which the user may allow to read more. `own_folders` lists other
    folders that it may read.
    """

    folder: Path = Path()
    given_paths: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    allowed: AccessRights = field(default_factory=AccessRights)
    kind: str = "configuration"
    source: Path | None = None
    own_folders: tuple[Path, ...] = ()

    @classmethod
    def for_records(cls, run: Path, plugins: Sequence[str] = ()) -> Scope:
        """Create the scope of a run's records, which contain absolute paths and may come from
        somebody else.

        They may reach the run's folder, the working folder and what the user allows.
        """
        here = (Path.cwd().resolve(),)
        return cls(run, (), tuple(plugins), read_allowed(), "run", source=run, own_folders=here)

    def resolve_path(self, text: str, place: str = "") -> Path:
        """Resolve a path of the configuration. Raises OutsideError, and ValueError if it does not
        exist.

        A path given on the command line is relative to the working folder, any other to the file's
        own folder. Recorded replies next to data that the user named are allowed, too: `data/blink`
        also allows `data/blink_replies`.
        """
        base, roots = self.folder, [self.folder]
        if any(text.startswith(given) for given in self.given_paths):
            base = Path()
            roots = [
                Path(given + more) for given in self.given_paths for more in ("", REPLIES_SUFFIX)
            ]
        real = (base / Path(text).expanduser()).resolve()
        roots = [root.expanduser().resolve() for root in roots]
        if not real.exists():
            looked = f" (looked for {real})" if text != str(real) else ""
            raise ValueError(f"{text!r} does not exist{looked}")
        check_access(text, real, (*roots, *self.own_folders), self, place)
        if not (real.is_file() or real.is_dir()):
            raise ValueError(f"{text!r} is a pipe or a device; name a file or a folder")
        return real

    def find_host(self, text: str, place: str = "") -> str:
        """Return the host of a setting that is a URL, and record it so that the user can be asked;
        "" for any other text, for this machine, and for URLs given on the command line."""
        if (
            not URL_PATTERN.fullmatch(text)
            or text in self.given_paths
            or _is_loopback(_get_host(text))
        ):
            return ""
        host, noted = _get_host(text), _pending_accesses.get()
        is_allowed = host in self.allowed.hosts or host in read_grant(self.source).hosts
        if noted is not None and not is_allowed:
            noted.setdefault(self.source, PendingAccess(self)).hosts.setdefault(host, place)
        return host
