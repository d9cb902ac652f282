"""Texts of a prompt: given in the configuration or in a file, filled in, and added to the
prompt."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from looktwice.pipelines.disk import read_file
from looktwice.pipelines.state import State, WithoutModel

LONGEST = 1_000_000  # bytes


@dataclass(frozen=True)
class TextFile:
    """The text of the UTF-8 `file`; a configuration writes `{file: NAME}` where a text is
    expected."""

    file: Path


Text = str | TextFile
"""A setting that is a text, or names a file that holds it."""


def read_texts(stage: Any) -> None:
    """Replace every TextFile among a frozen stage's settings by the file's text; called in
    `__post_init__`.

    The text becomes the setting, so it is part of the stage's identity and a run can be replayed
    without the file. One line break at the end is removed. Raises ValueError if the file cannot be
    read.
    """
    for each in fields(stage):
        value = getattr(stage, each.name)
        if isinstance(value, TextFile):
            object.__setattr__(stage, each.name, _read_file(each.name, value.file))


class Wording(WithoutModel):
    """A stage whose settings may be texts in files."""

    def __post_init__(self) -> None:
        read_texts(self)


def text_of(text: Text) -> str:
    """The text of a setting, read from its file if `read_texts` has not done so."""
    return text if isinstance(text, str) else _read_file("text", text.file)


def fill_in(text: Text, **parts: str) -> str:
    """The text with each `{name}` replaced by the part of that name; other braces are kept, as in
    JSON."""
    whole, rest = "", text_of(text)
    while rest:
        places = [(rest.find(f"{{{name}}}"), name) for name in parts if f"{{{name}}}" in rest]
        if not places:
            break
        at, name = min(places)
        whole, rest = whole + rest[:at] + parts[name], rest[at + len(name) + 2 :]
    return whole + rest


def add_lines(state: State, *lines: str) -> State:
    """The state with more lines below its prompt; empty ones are left out."""
    return state.replace(prompt="\n".join(line for line in (state.prompt, *lines) if line))


def _read_file(name: str, file: Path) -> str:
    try:
        data = read_file(Path(file))
        if len(data) > LONGEST:
            raise ValueError(f"{name}: {file} has {len(data)} bytes; a text has at most {LONGEST}")
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise ValueError(f"{name}: {file} cannot be read as a UTF-8 text ({exc})") from exc
    return text.replace("\r\n", "\n").removesuffix("\n")
