"""What goes along with a run, and what works through its samples: the two doors of the run itself.

A companion hears of every record, and may choose what is asked; the display, the ledger and the
races of `choose:` are companions. An executor works through the trials of a run in place of its
threads, in other processes or on other machines. A subclass writes the methods that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.runs.options import Done, RunSummary
from looktwice.eval.runs.walk import Walk
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.sample import Item

if TYPE_CHECKING:
    from looktwice.eval.runs.predict import Run, Work
    from looktwice.eval.runs.study import Study


class Companion:
    """Goes along with a run; every method does nothing unless a subclass writes it.

    One that `chooses` writes `select`, and sets `most`, the number of records that it may take.
    """

    chooses: ClassVar[bool] = False
    most: int = 0

    def begin(self, run: Run) -> None:
        """Before anything is asked or written. Raises RunError for a run that it cannot join."""

    def start(self, done: Done) -> None:
        """Once it is known what an earlier command has done."""

    def select(
        self, arms: Sequence[Arm], items: Iterator[Item]
    ) -> Iterator[tuple[Item, Sequence[Arm]]]:
        """The items of a task, one after the other, each with the arms that are asked it."""
        for item in items:
            yield item, arms

    def record(self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord) -> None:
        """A record was written and scored; called from any thread."""

    def skip(self, number: int) -> None:
        """So many records were there already."""

    def facts(self) -> Mapping[str, Any]:
        """What run.yaml says of it."""
        return {}

    def end(self, study: Study, summary: RunSummary) -> Iterable[str]:
        """After the run, before its report: what is told of it."""
        return ()


class Executor:
    """Works through the trials of a run; what it gives back, the threads of the run do.

    One that `wraps_models` puts cache and limits around the models by itself, where it asks them.
    """

    wraps_models: ClassVar[bool] = False

    def start(self, run: Run) -> None:
        """Before the run is written, so that what takes long to begin is ready. Raises RunError for
        a run that it cannot do."""

    def execute(self, run: Run, work: Work, trials: Iterator[Walk]) -> Iterator[Walk]:
        """Do the trials, and give back those that the run itself is to do. Raises what a Ctrl-C
        raises."""
        return trials

    def close(self) -> None:
        """At the end, however it ends."""
