"""Options of a run that change no answer, and the summary of its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from looktwice.pipelines.counted import format_count
from looktwice.pipelines.ranges import Ranged

DEFAULT_WORKERS = 16

Done = Mapping[str, set[tuple[str, int]]]
"""The (sample, draw) pairs of each arm, by arm id, that have a record already."""


@dataclass(frozen=True)
class RunOptions(Ranged):
    """Options of a run that do not change any answer.

    `limit` keeps only the first samples of each task, `shard` (i, n) the samples whose hashed id
    falls in shard i of n. With `keep_failed`, samples that FAILED in an earlier run are not run
    again. `budget` is the most that the run may cost in total, by the `prices` of its models;
    `max_requests` is the number of requests that this command may send.
    """

    workers: int = DEFAULT_WORKERS
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    keep_failed: bool = False
    budget: float | None = None
    max_requests: int | None = None
    ranges: ClassVar[tuple[str, ...]] = ("workers, limit >= 1",)


def count_default_workers(models: Iterable[Any]) -> int:
    """Return the default number of threads: 16, plus the largest `in_flight` that a model sets, so
    that stages keep running while those requests are pending."""
    limits = [model.in_flight for model in models if hasattr(model, "in_flight")]
    if not limits:
        return DEFAULT_WORKERS
    from looktwice.pipelines.models.limits import DEFAULT_IN_FLIGHT

    return DEFAULT_WORKERS + max(
        (limit for limit in limits if limit != DEFAULT_IN_FLIGHT), default=0
    )


@dataclass(frozen=True)
class RunSummary:
    """Outcome of a run: its folder, the numbers of records written, kept and failed, and whether it
    was stopped.

    `why` is the fault of the endpoint that stopped the run, and `signal` the number of the signal
    that stopped it. `lines` are the lines that the companions print at the end.
    """

    folder: Path
    written_count: int
    kept_count: int
    failed_count: int
    is_stopped: bool
    why: str = ""
    signal: int = 0
    lines: Sequence[str] = ()

    @property
    def sentences(self) -> Iterator[str]:
        """Sentences on how many records the run wrote, and why it stopped if it did."""
        counts = f"{self.written_count} new, {self.kept_count} existing, {self.failed_count} failed"
        yield f"records: {self.folder}  ({counts})"
        if self.failed_count:
            yield (
                f"{format_count(self.failed_count, 'sample')} FAILED; the report says why, and the"
                " same command retries"
            )
        if self.why:
            # the cost so far also counts in the next run: with the same budget it sends no request
            later = "" if "--budget" in self.why else ", and the same command resumes the run"
            yield f"stopped: {self.why}; answers so far are kept{later}"


class Spending(NamedTuple):
    """The tokens that a run has paid for so far, and their list price if known."""

    tokens_in: int
    tokens_out: int
    cost: float | None = None
