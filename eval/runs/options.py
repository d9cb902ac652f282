"""What a run is told that changes no answer, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from looktwice.pipelines.counted import counted
from looktwice.pipelines.ranges import Ranged

WORKERS = 16

Done = Mapping[str, set[tuple[str, int]]]
"""The samples and draws of each arm, by its id, that have a record already."""


@dataclass(frozen=True)
class RunOptions(Ranged):
    """Options of a run that do not change any answer.

    `limit` keeps only the first samples of each task, `shard` (i, n) the samples whose hashed id
    falls in shard i of n. With `keep_failed`, samples that FAILED in an earlier run are not run
    again. `budget` is the money that the run may cost in all, by the `prices` of its models;
    `max_requests` how many requests it may send this time.
    """

    workers: int = WORKERS
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    keep_failed: bool = False
    budget: float | None = None
    max_requests: int | None = None
    ranges: ClassVar[tuple[str, ...]] = ("workers, limit >= 1",)


def default_workers(models: Iterable[Any]) -> int:
    """How many threads a run has where nobody says: 16, and as many more as the largest `in_flight`
    that a model sets, so that stages go on while as many requests are under way."""
    limits = [model.in_flight for model in models if hasattr(model, "in_flight")]
    if not limits:
        return WORKERS
    from looktwice.pipelines.models.limits import IN_FLIGHT

    return WORKERS + max((limit for limit in limits if limit != IN_FLIGHT), default=0)


@dataclass(frozen=True)
class RunSummary:
    """Outcome of a run: its folder, the numbers of records written, kept and failed, and whether it
    was stopped.

    `why` is the sentence of an endpoint that could not be asked, where that stopped the run, and
    `signal` the number of the signal that did. `told` is what the companions say at the end.
    """

    folder: Path
    written: int
    kept: int
    failed: int
    stopped: bool
    why: str = ""
    signal: int = 0
    told: Sequence[str] = ()

    @property
    def sentences(self) -> Iterator[str]:
        """How many records the run wrote, and why it stopped, where it did."""
        there = f"{self.written} new, {self.kept} were there, {self.failed} failed"
        yield f"records: {self.folder}  ({there})"
        if self.failed:
            yield (
                f"{counted(self.failed, 'sample')} FAILED; the report says why, and the same"
                " command asks again"
            )
        if self.why:
            # what was spent counts in the next run too, so with the same budget nothing is asked
            later = "" if "--budget" in self.why else ", and the same command goes on later"
            yield f"stopped: {self.why}; what was answered is kept{later}"
