"""Keeps what a run printed and reported, so that a resume with nothing to do says it again without reading a record."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from looktwice.eval.records.checked import parse_line
from looktwice.pipelines.config.build import FOLDERS, is_foreign
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.disk import read_file, write_file
from looktwice.pipelines.models.keys import known_keys
from looktwice.pipelines.shapes import fields, text

__all__: list[str] = []

KEPT = fields({"of": text, "said": text})
READ = ("records.jsonl", "samples.jsonl", "judged.jsonl")
REWRITTEN = ("points.yaml", "run.yaml")
"""What every run writes anew, mostly the same."""
WRITTEN = ("report.html", "report.md", "report.csv", "effects.csv")


@dataclass(frozen=True)
class KeptResults:
    """What was printed for a run, beside its report, with a digest of all that both follow from.

    It counts as long as nothing of that changed: the files of the run, the plan, the code, the libraries, the keys
    that are masked, the terminal, and the report itself. A run with classes that are not looktwice's is never kept, as
    nobody knows what they look at.
    """

    run: Path
    plan: Plan
    console: Console

    def say_again(self) -> bool:
        """Print what was printed; nothing, and False, where something of what it follows from may have changed."""
        said = self._said() if self._can_be_kept else None
        if said is not None:
            self.say(said)
        return said is not None

    def say(self, said: str) -> None:
        """Print what the console has made of a table."""
        if self.console.legacy_windows:  # which knows no codes for colours
            self.console.print(Text.from_ansi(said), soft_wrap=True, end="")
        else:
            self.console.file.write(said)
            self.console.file.flush()

    def keep(self, said: str) -> None:
        """Keep what was printed, now that the report is written, unless something changed since `inputs` was seen."""
        if self._can_be_kept and self.inputs == self._digest_of_inputs():
            with suppress(OSError):  # the results are there; only the next time takes longer
                write_file(self._path, json.dumps({"of": self._of, "said": said}))

    @cached_property
    def inputs(self) -> str:
        """The digest of all that the results follow from, as it was at the first look."""
        return self._digest_of_inputs()

    @property
    def _path(self) -> Path:
        return self.run / ".results"

    @property
    def _of(self) -> str:
        return _digest(self.inputs, [_state(self.run / name) for name in WRITTEN])

    def _said(self) -> str | None:
        with suppress(OSError, ValueError):
            kept = parse_line(read_file(self._path), KEPT)
            return str(kept["said"]) if kept["of"] == self._of else None
        return None

    @property
    def _can_be_kept(self) -> bool:
        arms = (*self.plan.points, *self.plan.readings)
        own = all(_is_own(part) for arm in arms for part in (arm.read, arm.task, arm.model, *arm.stages.values()))
        scorers = [spec(arm.task.facts.scorer or {}).get("use", "") for arm in arms] if own else []
        return own and not (self.plan.plugins or any(map(is_foreign, scorers)))

    @cached_property
    def _code(self) -> list[tuple[str, tuple[int, ...] | None]]:
        return sorted(_sources())

    def _digest_of_inputs(self) -> str:
        return _digest(
            [_state(self.run / name) for name in READ],
            [(self.run / name).read_bytes() for name in REWRITTEN],
            [str(self.run), str(self.run.resolve())],  # sentences name it
            [sys.version, *((place, _state(Path(place))) for place in sys.path if place.endswith("-packages"))],
            self._code,
            [self.console.options, self.console.color_system, self.console.no_color, self.console.safe_box],
            _digest_of_keys(),
        )


def _digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _digest_of_keys() -> str:
    """What is masked, which must not be guessed from a run's files: a password may be short."""
    keys = "\n".join(known_keys()).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(keys, salt=b"looktwice", n=2**14, r=8, p=1).hex() if keys else ""


def _is_own(part: Any) -> bool:
    return part is None or type(part).__module__.startswith("looktwice.")


def _state(path: Path) -> tuple[int, ...] | None:
    """What changes with a file's content; None where it is not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _sources() -> Iterator[tuple[str, tuple[int, ...] | None]]:
    """Every file of looktwice itself, which changes under an editable install without a new version."""
    for name in FOLDERS:
        for place in import_module(f"looktwice.{name}").__path__:
            for folder, inner, files in os.walk(place):
                inner[:] = [each for each in inner if each != "__pycache__"]
                for file in files:
                    yield f"{folder}/{file}", _state(Path(folder, file))
