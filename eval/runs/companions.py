"""Companions and executors: the two interfaces through which other code takes part in a run.

A companion receives every record, and may choose which samples are asked; the display, the ledger
and the races of `choose:` are companions. An executor runs the trials instead of the run's own
threads, in other processes or on other machines. A subclass overrides the methods that it needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from looktwice.eval.records.records import Key, Record, RunError, SampleRow
from looktwice.eval.runs.options import Done, RunOptions, RunSummary, Spending
from looktwice.eval.runs.questions import Questions
from looktwice.eval.runs.trial import Progress, Trial
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.clock import track_time
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import ModelWrapper, Reply, close_model, raise_if_stopped
from looktwice.pipelines.sample import Item


@dataclass(eq=False)
class Models:
    """The models of a run, called directly and closed at its end.

    A subclass adds cache, limits and retries to the models that are called over a network. `cache`
    is the folder of the reply cache; with `only_cached`, requests that are not in it are not sent.
    `say` prints a message to the user, and `parts` holds the usage of the run's other processes.
    """

    progress: Progress
    cache: Path
    only_cached: bool = False
    say: Callable[[str], None] = lambda sentence: None

    def __post_init__(self) -> None:
        self.models, self.parts = list[Any](), dict[int, Any]()

    @property
    def cached_reply_count(self) -> int:
        """The number of replies in the cache before the run."""
        return 0

    @property
    def may_defer_samples(self) -> bool:
        """True if samples may have to wait for a batched reply."""
        return False

    def wrap(self, model: Any) -> Any:
        """Return the model that the stages call. Raises RunError if the model lacks something, such
        as a file."""
        if lacks := getattr(model, "missing", str)():
            raise RunError(lacks)
        self.models.append(model)
        return model

    def wait_for_batches(self) -> None:
        """Wait for the batched replies that samples need. Raises Stopped."""

    def get_spending(self) -> Spending:
        """Return the tokens and cost of this run so far."""
        return Spending(0, 0, None)

    def list_remarks(self) -> Iterator[str]:
        """Yield the remarks to print at the end of a run."""
        return iter(())

    def close(self) -> None:
        """Close every model."""
        for model in self.models:
            close_model(model)


@dataclass(frozen=True)
class StoppableModel(ModelWrapper):
    """A model in this process that starts no call once `stop` is set."""

    stop: threading.Event = field(repr=False)

    def for_sample(self, sample: str) -> StoppableModel:
        """Return this wrapper around the model of one sample, if the model has one per sample."""
        select = getattr(self.model, "for_sample", None)
        return replace(self, model=select(sample)) if select else self

    def wrap_call(self, ask: Callable[[], Reply]) -> Reply:
        """Ask the model. Raises what the model raises, and Stopped."""
        raise_if_stopped(self.stop.is_set())
        with track_time("model"):
            return ask()


class RunStart(NamedTuple):
    """What a run starts from: its writer, the correct answer and sha of every sample in
    samples.jsonl (`known_samples`), the keys of existing records (`done_keys`), and the ids of the
    samples that have not changed, by task id (`unchanged_samples`)."""

    writer: Any
    known_samples: dict[tuple[str, str], tuple[str | None, str]]
    done_keys: set[Key]
    unchanged_samples: Mapping[str, Sequence[str]]

    def write_sample(self, row: SampleRow) -> None:
        """Write a line of samples.jsonl, unless the file already has it."""
        if self.known_samples.get((row.task, row.id)) != (row.answer, row.sha):
            self.known_samples[row.task, row.id] = row.answer, row.sha
            self.writer.add_sample(row)


class RunContext(Protocol):
    """The part of a run that its companions and executor may use."""

    plan: Plan
    folder: Path
    options: RunOptions
    models: Models | None
    progress: Progress
    questions: Questions

    @property
    def max_records(self) -> int:
        """The largest number of records that the run may write."""

    @property
    def scorers(self) -> Mapping[str, RecordScorer]:
        """The scorer of each arm's records, by arm id."""

    @property
    def chooser(self) -> Companion | None:
        """The companion that chooses the questions to ask, or None."""

    def note(
        self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord | None = None
    ) -> None:
        """Count a new record and notify the companions, with its verdict if it is known."""

    def skip(self, number: int) -> None:
        """Count records that existed already and notify the companions."""


class Companion:
    """A participant in a run; each method does nothing unless a subclass overrides it.

    A companion that `chooses` overrides `select`, and sets `max_records`, the largest number of
    records that it may ask for.
    """

    chooses: ClassVar[bool] = False
    max_records: int = 0

    def begin(self, run: RunContext) -> None:
        """Prepare, before anything is asked or written. Raises RunError for a run that it cannot
        join."""

    def start(self, done: Done) -> None:
        """Handle the records of earlier commands, before the first trial."""

    def select(
        self, arms: Sequence[Arm], items: Iterator[Item]
    ) -> Iterator[tuple[Item, Sequence[Arm]]]:
        """Yield the items of a task in order, each with the arms to ask."""
        for item in items:
            yield item, arms

    def record(self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord) -> None:
        """Handle a record that was written and scored; called from any thread."""

    def skip(self, number: int) -> None:
        """Handle a number of records that existed already."""

    def facts(self) -> Mapping[str, Any]:
        """Return the entries of this companion for run.yaml."""
        return {}

    def end(self, study: Any, summary: RunSummary) -> Iterable[str]:
        """Return lines to print between the run and its report; `study` is the `Study` that ran."""
        return ()

    def close(self) -> None:
        """Clean up at the end of the run, even after an error."""


class Executor:
    """Runs the trials of a run; trials that it returns are left to the run's own threads.

    An executor that `wraps_models` adds cache and limits to the models itself, in the process that
    calls them.
    """

    wraps_models: ClassVar[bool] = False

    def start(self, run: RunContext) -> None:
        """Start processes or machines, before anything is written. Raises RunError for a run that
        it cannot execute."""

    def execute(self, run: RunContext, work: RunStart, trials: Iterator[Trial]) -> Iterator[Trial]:
        """Run the trials and return those left for the run itself. Raises KeyboardInterrupt on
        Ctrl-C."""
        return trials

    def close(self) -> None:
        """Clean up at the end of the run, even after an error."""
