"""Source files of this checkout, with or without git, and copies of it."""

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
    """Return the paths of the source files below the root, including the links in typings/."""
    files = _git_files() if (ROOT / ".git").exists() else _all_files()
    return {
        name for name in files if not any(name.startswith(f"{link}/") for link in LINKS)
    } | LINKS


def copy_source(target: Path, link: Callable[[Path], object]) -> Path:
    """Copy the checkout without builds, caches and results; `link` replaces each link."""
    for name in source_files() - LINKS:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)  # the modification time keeps compiled files valid
    for name in LINKS:
        link(target / name)
    return target


def symbolic_link(path: Path) -> None:
    """Create a symbolic link, as in a usual checkout."""
    path.symlink_to(Path("../..") / path.name, target_is_directory=True)


def text_file(path: Path) -> None:
    """Write a file that holds the target, as in a checkout without symbolic links."""
    path.write_text(f"../../{path.name}")


def omit_link(path: Path) -> None:
    """Create no link, as in an unpacked sdist."""


def _git_files() -> set[str]:
    """Return the files that git tracks or would add with `git add .`."""
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
