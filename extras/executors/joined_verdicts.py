"""The verdicts of records that other processes scored, joined into the table that a run's folder
keeps, so that the process that writes the run scores nothing again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from looktwice.eval.records.records import PointRow, Record, RecordLines, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.companions import RunContext
from looktwice.eval.scoring import score
from looktwice.eval.scoring.columns import RecordColumns
from looktwice.eval.scoring.kept import StoredVerdicts
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.disk import open_file

VerdictsByArm = Mapping[str, ScoredRecord]
"""The verdicts of one record, by the id of each arm that reads it."""


@dataclass(frozen=True)
class RecordReaders:
    """Scores records for every arm that reads them: the arm that asked, and the arms that apply
    another reader to the same replies."""

    plan: Plan
    scorers: Mapping[str, RecordScorer]

    def __call__(self, record: Record, row: SampleRow) -> VerdictsByArm:
        return {name: self.scorers[name](record, row) for name in self._readers[record.point]}

    @cached_property
    def _readers(self) -> Mapping[str, list[str]]:
        readers = defaultdict[str, list[str]](list)
        for arm in (*self.plan.points, *self.plan.readings):
            readers[arm.replies_of or arm.id].append(arm.id)
        return readers


class JoinedVerdicts:
    """The verdicts of a run's records in the order in which one thread writes them, after those
    that its folder keeps. All are discarded if a record arrives without its verdicts."""

    def __init__(self, run: RunContext) -> None:
        self.run, folder = run, RunFolder(run.folder)
        self.lines = RecordLines(folder.path / "records.jsonl")
        self.points, _ = folder.current_and_earlier_points
        self.places = {
            task: {name: place for place, name in enumerate(rows)}
            for task, rows in folder.samples_by_task.items()
        }
        self.made: RecordColumns | None = RecordColumns()
        if self._file_size:
            loaded = kept.load() if (kept := self._open_table()) else None
            self.made, self.lines = loaded or (None, self.lines)

    def add_sample(self, row: SampleRow) -> None:
        """Add a sample that the run writes, unless it is known."""
        places = self.places.setdefault(row.task, {})
        places.setdefault(row.id, len(places))

    def add(self, record: Record, line: str, scored: VerdictsByArm) -> None:
        """Add a record that the run writes as this line."""
        lines, size = self.lines, len(line.encode())
        lines.begin, lines.end, lines.number = lines.end, lines.end + size, lines.number + 1
        readers = self._readers.get(record.point, ())
        if self.made is None or not scored.keys() >= {point.id for _, point in readers}:
            self.made = None
            return
        for arm, point in readers:
            place = self.places[point.task_id][record.sample]
            self.made.add(arm, place, scored[point.id], lines.begin)

    def save(self, writer: RunWriter) -> None:
        """Store the table, once the writer has written everything, unless a line or a sample is not
        in it."""
        writer.flush()
        if self.made is None or not score.MIN_STORED_BYTES <= self._file_size == self.lines.end:
            return
        with open_file(self.run.folder / "samples.jsonl") as file:
            count = sum(1 for _ in file)
        if count == sum(map(len, self.places.values())) and (kept := self._open_table()):
            kept.save(self.made, self.lines)

    @cached_property
    def _readers(self) -> Mapping[str, list[tuple[int, PointRow]]]:
        """The points that read each arm's records, with their indices."""
        readers = defaultdict[str, list[tuple[int, PointRow]]](list)
        for arm, point in enumerate(self.points):
            readers[point.records_id].append((arm, point))
        return readers

    @property
    def _file_size(self) -> int:
        path = self.lines.path
        return path.stat().st_size if path.exists() else 0

    def _open_table(self) -> StoredVerdicts | None:
        """Return the stored table of verdicts; None if the run cannot have one, or if a judge's
        answers count."""
        folder = RunFolder(self.run.folder)
        if (folder.path / "judged.jsonl").exists():
            return None
        scorers = [self.run.scorers[point.id] for point in self.points]
        return StoredVerdicts.of(folder, self.points, scorers, self.places, whole=False)
