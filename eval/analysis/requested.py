"""A request for an analysis with settings, `looktwice analyse RUN NAME KEY=VALUE`, which prints
sentences or writes a page in addition to the tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records.records import RunError, refuse_run_file
from looktwice.eval.scoring.verdict import RunScores


class AnalysisRequest(NamedTuple):
    """A request: the table of the scored runs, the settings, the path for a page, and the plugins.
    `say` prints a sentence, and `show` a table with its title and note."""

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

    def get_page_path(self, name: str) -> Path:
        """Return the path of a page: the file `out`, or `name` in the folder `out`. Raises RunError
        for a run's own files."""
        page = self.out if self.out.suffix else self.out / name
        refuse_run_file(page)
        return page

    def refuse(self, needed: str, advice: str) -> NoReturn:
        """Raise RunError for a run without the arms to compare."""
        names = ", ".join(dict.fromkeys(scores.point.contestant for scores in self.run.points))
        if not any(scores.keyed_samples for scores in self.run.points):
            raise RunError(
                f"{self.run.folder.path} has no correct answers, so nothing in it can be scored"
            )
        raise RunError(
            f"{self.run.folder.path} has no arms to compare: it needs the contestants {needed},"
            f" but has {names}; {advice}"
        )


class AnalysisOnRequest(NamedTuple):
    """An analysis that runs only on request: its title, the names of its settings, and the function
    that answers a request."""

    title: str
    settings: tuple[str, ...]
    answer: Callable[[AnalysisRequest], None]
