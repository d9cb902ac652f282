"""The source files of this checkout, with or without git, and copies of it."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.paths import ROOT

FOLDERS = ("pipelines", "prompting", "specialists", "eval", "extras", "configs")
LINKS = {f"typings/looktwice/{folder}" for folder in FOLDERS}
GENERATED = {"PKG-INFO", "setup.cfg"}  # by setuptools, in an sdist
NO_SOURCE = shutil.ignore_patterns(
    "__pycache__", ".*", "build", "dist", "runs", "*.egg-info", *GENERATED
)


def source_files() -> set[str]:
    """Their paths below the root, the links in typings/ among them."""
    files = _git_files() if (ROOT / ".git").exists() else _all_files()
    return {
        name for name in files if not any(name.startswith(f"{link}/") for link in LINKS)
    } | LINKS


def copy_source(target: Path, link: Callable[[Path], object]) -> Path:
    """A copy without builds, caches and results; `link` makes what stands in place of each link."""
    for name in source_files() - LINKS:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)  # with its time: compiled files of it stay good
    for name in LINKS:
        link(target / name)
    return target


def symbolic_link(path: Path) -> None:
    """As a checkout has it."""
    path.symlink_to(Path("../..") / path.name, target_is_directory=True)


def text_file(path: Path) -> None:
    """As a checkout without symbolic links has it: a file that holds the target."""
    path.write_text(f"../../{path.name}")


def nothing(path: Path) -> None:
    """As an unpacked sdist has it."""


def _git_files() -> set[str]:
    """What git holds, or would take in with `git add .`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return {name for name in listed if name and (ROOT / name).is_file()}


def _all_files() -> set[str]:
    found = {".ci/run", ".gitignore"}
    for path in ROOT.iterdir():
        if path.name not in NO_SOURCE(str(ROOT), [path.name]):
            below = [path] if path.is_file() else path.rglob("*")
            found |= {
                p.relative_to(ROOT).as_posix()
                for p in below
                if p.is_file() and "__pycache__" not in p.parts
            }
    return found
