"""What goes along with a run, and what works through its samples: the two doors of the run itself.

A companion hears of every record, and may choose what is asked; the display, the ledger and the
races of `choose:` are companions. An executor works through the trials of a run in place of its
threads, in other processes or on other machines. A subclass writes the methods that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from looktwice.eval.display.progress import Spent
from looktwice.eval.records.records import Key, Record, SampleRow
from looktwice.eval.runs.options import Done, RunOptions, RunSummary
from looktwice.eval.runs.questions import Questions
from looktwice.eval.runs.trial import Progress, Trial
from looktwice.eval.scoring.score import RecordScorer
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import close_model
from looktwice.pipelines.sample import Item


@dataclass(eq=False)
class Models:
    """The models of a run, asked as they are and closed at its end.

    A subclass puts cache, limits and retries around those that are asked over a network: `cache` is
    the folder of the reply store, of which `only_cached` sends nothing that it does not hold.
    `say` tells the user, and `parts` is what other processes of the run have used.
    """

    progress: Progress
    cache: Path
    only_cached: bool = False
    say: Callable[[str], None] = lambda sentence: None

    def __post_init__(self) -> None:
        self.models, self.parts = list[Any](), dict[int, Any]()

    @property
    def cached(self) -> int:
        """How many replies the store held before the run."""
        return 0

    @property
    def waits(self) -> bool:
        """Whether samples may wait for a reply."""
        return False

    def wrap(self, model: Any) -> Any:
        """The model that the stages ask. Raises RunError."""
        self.models.append(model)
        return model

    def collect(self) -> None:
        """Wait for the replies that samples wait for. Raises Stopped."""

    def spent(self) -> Spent:
        """What was asked for so far in this run."""
        return Spent(0, 0, None)

    def remarks(self) -> Iterator[str]:
        """What has to be said at the end."""
        return iter(())

    def close(self) -> None:
        """Close every model."""
        for model in self.models:
            close_model(model)


class Work(NamedTuple):
    """What a run begins with: its writer, the key and sha of every sample that samples.jsonl holds,
    what needs no asking, and the sample ids of each task that is as it was (task id -> ids)."""

    writer: Any
    known: dict[tuple[str, str], tuple[str | None, str]]
    done: set[Key]
    same: Mapping[str, Sequence[str]]

    def sample(self, row: SampleRow) -> None:
        """Write a line of samples.jsonl, if it is not there as it is."""
        if self.known.get((row.task, row.id)) != (row.answer, row.sha):
            self.known[row.task, row.id] = row.answer, row.sha
            self.writer.sample(row)


class RunContext(Protocol):
    """What of a run its companions and executor may use."""

    plan: Plan
    folder: Path
    options: RunOptions
    models: Models | None
    progress: Progress
    questions: Questions

    @property
    def most(self) -> int:
        """How many records the run may take."""

    @property
    def scorers(self) -> Mapping[str, RecordScorer]:
        """What scores the records of each arm, by its id."""

    @property
    def chooser(self) -> Companion | None:
        """The companion that chooses what is asked, if one does."""

    def note(self, arm: Arm, row: SampleRow, record: Record) -> None:
        """Count a record that was written, and tell the companions of it."""

    def skip(self, number: int) -> None:
        """Count records that were there already, and tell the companions."""


class Companion:
    """Goes along with a run; every method does nothing unless a subclass writes it.

    One that `chooses` writes `select`, and sets `most`, the number of records that it may take.
    """

    chooses: ClassVar[bool] = False
    most: int = 0

    def begin(self, run: RunContext) -> None:
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

    def end(self, study: Any, summary: RunSummary) -> Iterable[str]:
        """After the run, before its report: what is told of it. `study` is the `Study` that ran."""
        return ()

    def close(self) -> None:
        """At the end, however it ends."""


class Executor:
    """Works through the trials of a run; what it gives back, the threads of the run do.

    One that `wraps_models` puts cache and limits around the models by itself, where it asks them.
    """

    wraps_models: ClassVar[bool] = False

    def start(self, run: RunContext) -> None:
        """Before the run is written, so that what takes long to begin is ready. Raises RunError for
        a run that it cannot do."""

    def execute(self, run: RunContext, work: Work, trials: Iterator[Trial]) -> Iterator[Trial]:
        """Do the trials, and give back those that the run itself is to do. Raises what a Ctrl-C
        raises."""
        return trials

    def close(self) -> None:
        """At the end, however it ends."""
