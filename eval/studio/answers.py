"""What a studio's page asks for, whoever carries it: a server, or a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field

from looktwice.eval.display.printable import printable
from looktwice.eval.records.records import RunError
from looktwice.eval.studio.desk import Desk
from looktwice.eval.studio.draft import Draft
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.json_input import CLOSED, read_as

SCRIPTS = ("studio_forms.js", "studio_marks.js", "studio.js")
FAULTS = (ConfigError, RunError, TaskError, ValueError, LookupError, OSError)
"""What may be wrong with what is asked, which the page tells."""
LINE = re.compile(r"^draft\.|[0-9a-f]{16}\.jsonl: .*\s+line 1: ")  # that nobody wrote by hand
PLACE = re.compile("(?:`|the )?(question|choices|answer|draws)\\b")


@dataclass(frozen=True)
class Asked:
    """What the page sends: a draft, and what is wanted of it."""

    __pydantic_config__ = CLOSED
    draft: Draft
    after: Annotated[int, Field(ge=0)] | None = None
    text: str = ""


WORKS: Mapping[str, Callable[[Desk, Asked], Any]] = {
    "render": lambda desk, asked: desk.render(asked.draft, asked.after),
    "ask": lambda desk, asked: desk.ask(asked.draft),
    "read": lambda desk, asked: {"draft": desk.read(asked.draft, asked.text).to_dict()},
    "pack": lambda desk, asked: desk.pack(asked.draft),
    "upload": lambda desk, asked: None,
}
"""By what a page says. What is uploaded is a picture's bytes, all else is JSON."""


def answer(desk: Desk, what: str, data: bytes) -> Any:
    """What a page gets: plain values, or the bytes of a file. Raises FAULTS."""
    return desk.take(data) if what == "upload" else WORKS[what](desk, read_as(Asked, data))


def say_faults(desk: Desk, exc: Exception) -> list[str]:
    """What is wrong, in sentences that begin with a place, without the folder's name."""
    faults = exc.faults if isinstance(exc, ConfigError) else (str(exc),)
    sentences = list[str]()
    for fault in faults:
        sentence = LINE.sub("", printable(fault).replace(f"{desk.folder}/", ""))
        place = PLACE.match(sentence)
        sentences.append(f"{place[1]}: {sentence}" if place else sentence)
    return sentences


def read_file(name: str) -> str:
    """One of the page's own files."""
    return files("looktwice.eval").joinpath("templates", name).read_text(encoding="utf-8")
