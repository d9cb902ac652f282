"""Texts that a configuration spells out, or keeps word for word in a file beside it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

LONGEST = 1_000_000  # bytes


@dataclass(frozen=True)
class TextFile:
    """The text that stands in a UTF-8 file; a configuration writes `{file: NAME}` where a text is expected."""

    file: Path


Text = str | TextFile
"""A setting that is a text or names the file that holds it."""


def read_texts(stage: Any) -> None:
    """Replace every TextFile among a frozen stage's settings by what the file says; called in `__post_init__`.

    What the file said then is the setting: it is part of the point's identity, and the run can be gone through again
    without the file. The line break at the file's end is left out. Raises ValueError.
    """
    for each in fields(stage):
        value = getattr(stage, each.name)
        if isinstance(value, TextFile):
            object.__setattr__(stage, each.name, _read_file(each.name, value.file))


def text_of(text: Text) -> str:
    """The text of a setting that `read_texts` has seen to."""
    return text if isinstance(text, str) else _read_file("text", text.file)


def fill_in(text: Text, **parts: str) -> str:
    """The text with `{name}` replaced by each part; other braces stay as they are, so that JSON can stand in it."""
    whole, rest = "", text_of(text)
    while rest:
        places = [(rest.find(f"{{{name}}}"), name) for name in parts if f"{{{name}}}" in rest]
        if not places:
            break
        at, name = min(places)
        whole, rest = whole + rest[:at] + parts[name], rest[at + len(name) + 2 :]
    return whole + rest


def _read_file(name: str, file: Path) -> str:
    try:
        data = Path(file).read_bytes()
        if len(data) > LONGEST:
            raise ValueError(f"{name}: {file} has {len(data)} bytes; a text has at most {LONGEST}")
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise ValueError(f"{name}: {file} cannot be read as a UTF-8 text ({exc})") from exc
    return text.replace("\r\n", "\n").removesuffix("\n")
