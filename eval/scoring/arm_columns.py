"""The scored records of a run, or of one of its arms, as columns: counts and means are computed for
all records at once, and scored records are built from the columns when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from looktwice.eval.scoring.columns import (
    CODE_BY_VERDICT,
    DIGEST_BYTES,
    NO_DIGEST,
    NOT_SCORED_CODE,
    RECORD_COLUMNS,
    UNJUDGED,
    VERDICTS,
    Column,
    Columns,
    Pool,
    RecordColumns,
    Score,
    ScoredRecord,
    Verdict,
    Words,
)


@dataclass(frozen=True)
class RunColumns:
    """The scored records of a run, sorted by arm, sample and line: a column for each name in
    `COLUMN_TYPES` and one for "request" (a digest of 16 bytes), and the pools that decode the
    columns of codes."""

    columns: Columns
    pools: Mapping[str, Pool]

    @classmethod
    def from_records(cls, made: RecordColumns) -> RunColumns:
        """Return the columns without the records that later ones replace, and empty `made`, because
        a second copy of a large run would need as much memory again."""
        made.append_pending()
        columns = {name: np.asarray(column) for name, column in made.columns.items()}
        rows = _find_last(columns)
        rows = rows[np.lexsort((columns["sample"][rows], columns["arm"][rows]))]
        columns["request"] = np.frombuffer(bytes(made.requests), f"V{DIGEST_BYTES}")
        made.columns, made.requests = {}, bytearray()
        for name in [*columns]:
            columns[name] = columns[name][rows]
        return cls(columns, made.pools)

    def __len__(self) -> int:
        return len(self.columns["arm"])

    def select_arm(self, arm: int, ids: Sequence[str]) -> ArmColumns:
        """Return the scored records of one arm, whose task has samples with these ids."""
        begin, end = np.searchsorted(self.columns["arm"], [arm, arm + 1])
        own = {name: column[begin:end] for name, column in self.columns.items()}
        if (own["verdict"] == NOT_SCORED_CODE).any():
            own = _select(own, np.flatnonzero(own["verdict"] != NOT_SCORED_CODE))
        return ArmColumns(ids, own, self.pools)

    def count_unscored(self, arm: int) -> int:
        """Return the number of records of an arm that were not scored."""
        own = self.columns["arm"] == arm
        return int(np.count_nonzero(self.columns["verdict"][own] == NOT_SCORED_CODE))


def _find_last(columns: Columns) -> Column:
    """Return the rows that no later row with the same arm, sample and draw replaces, in order."""
    keys = np.stack([columns[name].astype(np.int64) for name in ("arm", "sample", "draw")])
    if not keys.shape[1]:
        return np.zeros(0, np.int64)
    highest = [int(part.max()) + 1 for part in keys]
    key = (keys[0] * highest[1] + keys[1]) * highest[2] + keys[2]
    _, from_end = np.unique(key[::-1], return_index=True)
    return np.sort(len(key) - 1 - from_end)


def _select(columns: Columns, rows: Column) -> dict[str, Column]:
    return {name: column[rows] for name, column in columns.items()}


@dataclass(frozen=True, eq=False)
class ArmColumns:
    """The scored records of one arm, sorted by the index of their sample in `ids`, then by line."""

    ids: Sequence[str]
    columns: Columns
    pools: Mapping[str, Pool] = field(repr=False)

    @classmethod
    def from_records(
        cls, ids: Sequence[str], scored: Mapping[str, Mapping[int, ScoredRecord]]
    ) -> ArmColumns:
        """Return the columns of scored records by sample and draw."""
        made, places = RecordColumns(), {name: place for place, name in enumerate(ids)}
        for name, draws in scored.items():
            for record in draws.values():
                made.add(0, places[name], record)
        return RunColumns.from_records(made).select_arm(0, ids)

    def __len__(self) -> int:
        return len(self.columns["sample"])

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def record(self, row: int) -> ScoredRecord:
        """Return a row as a scored record."""
        (record,) = self.records(slice(row, row + 1))
        return record

    def records(self, rows: slice | Column = slice(None)) -> list[ScoredRecord]:
        """Return some rows (by default all rows) as scored records."""
        words, groups = (self.pools[name].values for name in ("words", "group"))
        measured, judged = (self.pools[name].parsed_values for name in ("measured", "judged"))
        columns = (self.columns[name][rows].tolist() for name in RECORD_COLUMNS)
        records = list[ScoredRecord]()
        for place, draw, verdict, value, tokens_in, tokens_out, cost, calls, *codes in zip(
            *columns, self["request"][rows].tolist(), strict=True
        ):
            own: Words = words[codes[0]]
            records.append(
                ScoredRecord(
                    self.ids[place],
                    draw,
                    own.answer,
                    Score(VERDICTS[verdict], value, groups[codes[1]]),
                    own.reason,
                    own.detail,
                    own.read,
                    tokens_in,
                    tokens_out,
                    None if cost != cost else cost,
                    calls,
                    own.judge,
                    judged[codes[3]],
                    measured[codes[2]],
                    b"" if codes[4] == NO_DIGEST else codes[4],
                    own.kept,
                )
            )
        return records

    @cached_property
    def starts(self) -> Column:
        """The index of the first row of each sample that has rows, followed by the number of
        rows."""
        sample = self["sample"]
        new = np.flatnonzero(np.diff(sample, prepend=-1))
        return np.append(new, len(sample))

    @property
    def rows_by_draw(self) -> Column:
        """The indices of the rows, sorted by sample and draw."""
        return np.lexsort((self["draw"], self["sample"]))

    @cached_property
    def recorded_ids(self) -> list[str]:
        """The ids of the samples that have a record, in order."""
        return [self.ids[place] for place in self["sample"][self.starts[:-1]].tolist()]

    def has_verdict(self, *verdicts: Verdict) -> Column:
        """Return, for each row, whether its verdict is one of `verdicts`."""
        return np.isin(self["verdict"], [CODE_BY_VERDICT[verdict] for verdict in verdicts])

    def count_verdicts(self) -> dict[str, int]:
        """Return the number of records with each verdict."""
        counts = np.bincount(self["verdict"], minlength=len(VERDICTS)).tolist()
        return {verdict.value: count for verdict, count in zip(VERDICTS, counts, strict=True)}

    def count_groups(self) -> int:
        """Return the number of groups of samples that have records."""
        pool = self.pools["group"].values
        return sum(bool(pool[code]) for code in np.unique(self["group"]).tolist())

    @cached_property
    def is_unjudged(self) -> Column:
        """A mask of the rows that only a judge could score and that no judge has scored."""
        return self.has_words(lambda words: words.reason == UNJUDGED)

    def has_words(self, holds: Callable[[Words], bool]) -> Column:
        """Return, for each row, whether `holds` returns True for its `Words`."""
        pool = self.pools["words"].values
        used = np.unique(self["words"])
        true = [code for code in used.tolist() if holds(pool[code])]
        return np.isin(self["words"], true)

    def count_by_words(self, rows: Column | None = None) -> dict[Words, int]:
        """Count the rows (by default all rows) by their `Words`, in order of first appearance."""
        return self._count("words", rows)

    def count_by_judge_scores(self) -> dict[str, int]:
        """Count the rows by the judge's scores (JSON), in order of first appearance."""
        return self._count("judged")

    def count_by_measurements(self) -> dict[str, int]:
        """Count the rows by their measurements (JSON), in order of first appearance."""
        return self._count("measured")

    def _count(self, name: str, rows: Column | None = None) -> dict[Any, int]:
        own = self[name] if rows is None else self[name][rows]
        codes, first, counts = np.unique(own, return_index=True, return_counts=True)
        order = np.argsort(first)
        values = map(self.pools[name].values.__getitem__, codes[order].tolist())
        return dict(zip(values, counts[order].tolist(), strict=True))

    def iterate_words(self, rows: Column) -> Iterator[Words]:
        """Yield the texts (`Words`) of some rows."""
        pool = self.pools["words"].values
        return map(pool.__getitem__, self["words"][rows].tolist())

    def means(self, values: Column, wanted: Column) -> dict[str, float]:
        """Return, for each sample with wanted draws, the mean of `values` over these draws."""
        rows = np.flatnonzero(wanted)
        places, numbers = self["sample"][rows], values[rows].astype(float).tolist()
        if len(places) < 2 or bool((np.diff(places) > 0).all()):
            if len(places) == len(self.ids):
                return dict(zip(self.ids, numbers, strict=True))
            return dict(zip(map(self.ids.__getitem__, places.tolist()), numbers, strict=True))
        draws = dict[str, list[float]]()
        for place, number in zip(places.tolist(), numbers, strict=True):
            draws.setdefault(self.ids[place], []).append(number)
        return {name: fmean(own) for name, own in draws.items()}

    @property
    def graded_means(self) -> dict[str, float]:
        """The mean value of each sample over its draws, without draws that wait for a judge."""
        return self.means(self["value"], ~self.is_unjudged)

    def get_costs(self) -> list[float]:
        """Return the known costs of the records, in order."""
        cost = self["cost"]
        return cost[~np.isnan(cost)].tolist()  # type: ignore[no-any-return]

    def iterate_measurements(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield (sample, measurements) for each record with measurements, sorted by sample and
        draw."""
        pool = self.pools["measured"].values
        empty = [code for code, text in enumerate(pool) if not text]
        rows = np.flatnonzero(~np.isin(self["measured"], empty))
        rows = rows[np.lexsort((self["draw"][rows], self["sample"][rows]))]
        parsed = self.pools["measured"].parsed_values
        for row in rows.tolist():
            yield self.ids[self["sample"][row]], parsed[self["measured"][row]]

    @cached_property
    def first_rows(self) -> Column:
        """The rows of the first draws, by sample."""
        return np.flatnonzero(self["draw"] == 0)

    def get_requests(self) -> Column:
        """Return, for each id, the digest of the first draw's request; `NO_DIGEST` if it is not
        known."""
        requests = np.full(len(self.ids), NO_DIGEST, f"V{DIGEST_BYTES}")
        requests[self["sample"][self.first_rows]] = self["request"][self.first_rows]
        return requests

    def get_kept_notes(self) -> list[Sequence[str]]:
        """Return, for each id, the notes of stages that found nothing to do in the first draw."""
        rows = self.first_rows[self.has_words(lambda words: bool(words.kept))[self.first_rows]]
        kept = list[Sequence[str]]([()]) * len(self.ids)
        for place, words in zip(
            self["sample"][rows].tolist(), self.iterate_words(rows), strict=True
        ):
            kept[place] = words.kept
        return kept

    def count_missing(self, planned: int, draws: int) -> int:
        """Return how many draws of the planned samples have no record; each sample should have
        `draws` draws, or more if a record has a higher draw number."""
        starts = self.starts[:-1]
        if not len(starts):
            return planned * draws
        highest = np.maximum.reduceat(self["draw"], starts) + 1
        lacking = np.maximum(highest, draws) - np.diff(self.starts)
        begun = np.sort(lacking)[:planned]
        return int(begun.sum()) + max(0, planned - len(starts)) * draws

    def only(self, names: set[str]) -> ArmColumns:
        """Return the records of some of the samples."""
        known = np.array([name in names for name in self.ids], bool)
        rows = np.flatnonzero(known[self["sample"]]) if len(self) else self["sample"]
        return ArmColumns(self.ids, _select(self.columns, rows), self.pools)


class ScoredColumns(Mapping[str, Mapping[int, ScoredRecord]]):
    """A mapping of an arm's scored records by sample and draw, built from columns; `names` are the
    samples of the arm, with or without records."""

    def __init__(self, columns: ArmColumns, names: Sequence[str] | Mapping[str, Any]) -> None:
        self.columns, self._names = columns, names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Mapping[int, ScoredRecord]:
        if (rows := self._rows.get(name)) is None:
            if name not in self._names:
                raise KeyError(name)
            return {}
        return {scored.draw: scored for scored in self.columns.records(slice(*rows))}

    @cached_property
    def _rows(self) -> Mapping[str, tuple[int, int]]:
        starts = self.columns.starts.tolist()
        spans = pairwise(starts)
        return dict(zip(self.columns.recorded_ids, spans, strict=True))

    def only(self, names: set[str]) -> ScoredColumns:
        """Return the records of some of the samples."""
        return ScoredColumns(
            self.columns.only(names), {name: None for name in self._names if name in names}
        )
