"""Plugins that a study names under `plugins:`, and the check whether their code may run.

A study from somebody else may name code, too. A plugin therefore runs only after the user has named
it with `--plugin` or answered yes; both are remembered for the study and the runs made from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from looktwice.pipelines.config.classes import ConfigError, load_plugin
from looktwice.pipelines.config.paths import (
    Scope,
    confirm,
    quote_for_shell,
    read_grant,
    save_grant,
    shorten_path,
)


def load_study_plugins(plugins: Any, scope: Scope) -> tuple[str, ...]:
    """Load the plugins that a configuration names, and return the names of all plugin modules.

    A path is relative to the study's folder; `scope.plugins` are already loaded, because the user
    named them. Raises ConfigError if one cannot or must not be loaded.
    """
    if not isinstance(plugins, list) or not all(isinstance(text, str) for text in plugins):
        return scope.plugins  # reported with the other entries of the wrong type
    codes = {text: _find_code(text, scope) for text in plugins}
    if gone := [code for code in codes.values() if _is_file(code) and not Path(code).is_file()]:
        raise ConfigError([f"plugins: there is no file {code}" for code in gone])
    by_user = [*scope.given_paths, *map(find_code, scope.plugins)]
    trusted = read_grant(scope.source).plugins
    asked = [code for text, code in codes.items() if not {text, code} & {*by_user, *trusted}]
    if asked and (scope.source is None or not confirm(_make_question(asked, scope))):
        raise ConfigError([_make_refusal(code) for code in asked])
    if scope.source is not None and not {*codes.values()} <= {*trusted}:
        with suppress(OSError):  # the next command asks again
            save_grant(scope.source, plugins=codes.values())
    return (*scope.plugins, *_load_new(codes.values(), scope.plugins))


def load_run_plugins(run: Path, loaded: Sequence[str]) -> tuple[str, ...]:
    """Load the existing plugins that the user allowed for the run, except those in `loaded`, and
    return the names of their modules. Raises ConfigError if one cannot be loaded."""
    existing = [
        code for code in read_grant(run).plugins if not _is_file(code) or Path(code).is_file()
    ]
    return _load_new(existing, loaded)


def find_code(name: str) -> str:
    """Return the file of a loaded single-file plugin; for a package, return its name."""
    file = getattr(sys.modules.get(name), "__file__", None)
    is_single = file and Path(file).name != "__init__.py"
    return str(Path(file).resolve()) if file and is_single else name


def _load_new(codes: Iterable[str], loaded: Sequence[str]) -> tuple[str, ...]:
    names = {Path(code).stem if _is_file(code) else code: code for code in codes}
    new = {name: code for name, code in names.items() if name not in loaded}
    return tuple(
        name if _is_file(code) and find_code(name) == code else load_plugin(code)
        for name, code in new.items()
    )


def _is_file(text: str) -> bool:
    return text.endswith(".py")


def _find_code(text: str, scope: Scope) -> str:
    if not _is_file(text):
        return text
    folder = Path() if text in scope.given_paths else scope.folder
    return str((folder / Path(text).expanduser()).resolve())


def _make_question(codes: Sequence[str], scope: Scope) -> str:
    source = shorten_path(scope.source or scope.folder)
    names = ", ".join(map(_format_code, codes))
    return f"{source} runs the Python code of {names}. Do you trust it? A yes is remembered"


def _make_refusal(code: str) -> str:
    option = f"--plugin {quote_for_shell(_format_code(code))}"
    return (
        f"plugins: {_format_code(code)} is Python code, which runs only after you allow it; type"
        f" {option} once, which is remembered for this study (in Python: plugins=[...])"
    )


def _format_code(code: str) -> str:
    return shorten_path(Path(code)) if _is_file(code) else code
