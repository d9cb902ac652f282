"""Compares logs on the samples that they share: paired differences, what flipped, and what matches
nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.logs.log import Log, name_apart
from looktwice.eval.logs.match import Matching, match
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import compare_paired, correct
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.row_errors import suggest_name

if TYPE_CHECKING:
    import pandas

__all__ = ["ALL", "Contrast", "LogComparison", "compare_logs"]

ALL = "all tasks"


@dataclass(frozen=True)
class Contrast:
    """A contestant against another on the samples of a task that both have, or on those of ALL.

    `value` and `other` are the means over the shared samples, `fell_out` counts the matched ones
    that failed on either side or have no value; `p_holm` and `p_bh` are corrected over the
    contrasts of single tasks, or over those of ALL. `people` is what people reach on these tasks,
    weighted by their samples, where it is published of each.
    """

    task: str
    contestant: str
    baseline: str
    value: float
    other: float
    paired: Estimate
    fell_out: int
    p_holm: float = 1.0
    p_bh: float = 1.0
    people: float | None = None


@dataclass(frozen=True)
class LogComparison:
    """Logs on the samples of the first, which is the baseline; `matchings` tell for each other log
    what matched."""

    logs: tuple[Log, ...]
    matchings: tuple[Matching, ...]

    def __repr__(self) -> str:
        return (
            f"LogComparison({', '.join(log.name for log in self.logs)}; {len(self.values)} samples)"
        )

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """What each of n samples of the baseline is worth, (n, logs); NaN for no partner, a
        failure, or no key."""
        return np.column_stack(
            [self._aligned(number, "value").astype(float) for number in range(len(self.logs))]
        )

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """Each log against the baseline, over all and by task, then the others with one another
        over all."""
        found = [
            contrast for number in range(1, len(self.logs)) for contrast in self._against(number, 0)
        ]
        for one, other in combinations(range(1, len(self.logs)), 2):
            found += list(self._against(other, one))[:1]
        return tuple(
            correct(
                found, lambda contrast: contrast.paired.p, lambda contrast: contrast.task == ALL
            )
        )

    @cached_property
    def items(self) -> pandas.DataFrame:
        """A row per sample of the baseline: task, sample, question, key, and of each log the value
        and the answer.

        `flipped` names the logs whose value differs from the baseline's.
        """
        frame = self.logs[0].units[["task", "sample", "question", "key"]].copy()
        for number, log in enumerate(self.logs):
            frame[f"{log.name}: value"] = self.values[:, number]
            frame[f"{log.name}: answer"] = self._aligned(number, "answer")
        names, base = [log.name for log in self.logs], self.values[:, :1]
        moved = (self.values != base) & ~np.isnan(self.values) & ~np.isnan(base)
        frame["flipped"] = [
            "; ".join(name for name, on in zip(names, row, strict=True) if on) for row in moved
        ]
        return frame

    @cached_property
    def unmatched(self) -> pandas.DataFrame:
        """Every sample without a partner: `log`, `against`, task, sample and why."""
        import pandas

        base, parts = self.logs[0], []
        for log, matching in zip(self.logs[1:], self.matchings, strict=True):
            for one, other, places in ((base, log, matching.left), (log, base, matching.right)):
                part = one.units.loc[places, ["task", "sample"]].assign(
                    log=one.name, against=other.name
                )
                part["why"] = [
                    matching.why.get(place, "") if one is base else "" for place in places
                ]
                parts.append(part)
        return pandas.concat(parts)[["log", "against", "task", "sample", "why"]]

    def flipped(self, contestant: str) -> pandas.DataFrame:
        """The items on which this log and the baseline are worth unlike. Raises TaskError for an
        unknown name."""
        number = _place_of(contestant, self.logs)
        gap = self.values[:, number] - self.values[:, 0]
        return self.items[np.nan_to_num(gap) != 0]

    def _aligned(self, number: int, column: str) -> NDArray[Any]:
        """A column of a log's units in the order of the baseline's units; None or NaN where there
        is no partner."""
        units = self.logs[number].units[column]
        if number == 0:
            return np.asarray(units)
        pairs = self.matchings[number - 1].pairs
        found = np.full(
            len(self.logs[0].units), np.nan if units.dtype.kind == "f" else "", dtype=object
        )
        found[pairs["one"].to_numpy()] = units.to_numpy()[pairs["other"].to_numpy()]
        return found

    def _against(self, number: int, base: int) -> Iterator[Contrast]:
        tasks = self.logs[0].units["task"].to_numpy()
        names = list(dict.fromkeys(tasks.tolist()))
        matched = self._matched(number) & self._matched(base)
        for task in [ALL, *names] if len(names) > 1 else [ALL]:
            part = matched if task == ALL else matched & (tasks == task)
            both = part & ~np.isnan(self.values[:, [number, base]]).any(axis=1)
            if both.any():
                mine, theirs = self.values[both, number], self.values[both, base]
                clusters = None if self._clusters is None else self._clusters[both].tolist()
                paired = compare_paired(mine, theirs, clusters)
                lost = int(part.sum() - both.sum())
                who = self.logs[number].name, self.logs[base].name
                level = float(self._people[both].mean())
                known = None if np.isnan(level) else level
                yield Contrast(
                    task, *who, float(mine.mean()), float(theirs.mean()), paired, lost, people=known
                )

    @cached_property
    def _people(self) -> NDArray[np.float64]:
        """What people reach on the task of each sample, (n,); NaN where nothing is published."""
        levels = {task: level for log in reversed(self.logs) for task, level in log.people.items()}
        return np.array([levels.get(task, np.nan) for task in self.logs[0].units["task"]])

    def _matched(self, number: int) -> NDArray[np.bool_]:
        found = np.ones(len(self.logs[0].units), bool)
        if number:
            found[:] = False
            found[self.matchings[number - 1].pairs["one"].to_numpy()] = True
        return found

    @cached_property
    def _clusters(self) -> NDArray[np.int64] | None:
        """A number for the group of each sample, else for its pictures, else for itself; None where
        all stand alone."""
        codes = self.logs[0].clusters.factorize()[0]
        return None if len(np.unique(codes)) == len(codes) else codes


def compare_logs(logs: Sequence[Log], baseline: str = "") -> LogComparison:
    """Compare logs with the first, or with the one that is named.

    Raises TaskError for fewer than two logs, for an unknown baseline, and for a log that shares no
    sample with it.
    """
    named = name_apart(logs)
    if len(named) < 2:
        raise TaskError(
            f"a comparison needs two logs, found {', '.join(log.name for log in named) or 'none'}"
        )
    place = _place_of(baseline, named) if baseline else 0
    ordered = [named[place], *named[:place], *named[place + 1 :]]
    return LogComparison(tuple(ordered), tuple(match(ordered[0], log) for log in ordered[1:]))


def _place_of(name: str, logs: Sequence[Log]) -> int:
    names = [log.name for log in logs]
    if name not in names:
        raise TaskError(
            f"no log is named {name!r}{suggest_name(name, names)}; there are {', '.join(names)}"
        )
    return names.index(name)


def contrast_row(contrast: Contrast) -> Mapping[str, object]:
    """A contrast as a row of compare.csv; shares and differences lie in -1..1."""
    paired = contrast.paired
    return {
        "contestant": contrast.contestant,
        "baseline": contrast.baseline,
        "task": contrast.task,
        "value": contrast.value,
        "baseline_value": contrast.other,
        "difference": paired.value,
        "low": paired.low,
        "high": paired.high,
        "p": paired.p,
        "p_holm": contrast.p_holm,
        "n": paired.n,
        "clusters": paired.clusters,
        "better": paired.better,
        "worse": paired.worse,
        "fell_out": contrast.fell_out,
        "detectable": paired.detectable,
        "test": paired.test,
        "people": contrast.people,
    }
