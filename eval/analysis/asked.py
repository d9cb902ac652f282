"""A question to finished runs that takes settings, and says what it found in sentences or on a
page: what `looktwice analyse RUN NAME KEY=VALUE` asks beside the tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records.records import RunError, refuse_run_file
from looktwice.eval.scoring.verdict import RunScores


class Asked(NamedTuple):
    """What is asked: the table of the scored runs, the settings, where a page goes, and the
    plugins; `say` tells a sentence, and `show` a table with its title and note."""

    scored: Table
    settings: Mapping[str, Any]
    out: Path
    plugins: Sequence[str]
    say: Callable[[str], None]
    show: Callable[[TextTable, str, str], None]

    @property
    def run(self) -> RunScores:
        """The first run."""
        return self.scored.scores[0]

    def page(self, name: str) -> Path:
        """The file `out`, or the one of this name in the folder `out`; never one of a run's own."""
        page = self.out if self.out.suffix else self.out / name
        refuse_run_file(page)
        return page

    def refuse(self, needed: str, advice: str) -> NoReturn:
        """Raises RunError for a run without the arms to compare."""
        names = ", ".join(dict.fromkeys(scores.point.contestant for scores in self.run.points))
        if not any(scores.keyed for scores in self.run.points):
            raise RunError(
                f"{self.run.folder.path} has no keys, so nothing in it is right or wrong"
            )
        raise RunError(
            f"{self.run.folder.path} has no arms to compare: it needs the contestants {needed},"
            f" and has {names}; {advice}"
        )


class Finding(NamedTuple):
    """A question with settings: its title, the names of the settings, and what tells the answer."""

    title: str
    settings: tuple[str, ...]
    tell: Callable[[Asked], None]
