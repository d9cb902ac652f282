"""Writes small run folders by hand, so that scoring and reports are tested without a run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from looktwice.eval.analysis.analyses import get_analysis
from looktwice.eval.display.table import make_table
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records import Record, RunFolder
from looktwice.eval.records.records import PointRow, SampleRow
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.runtime.stores import Blobs

ROBUST = {"use": "eval.readers.Robust"}


@dataclass
class MadeRun:
    """Collects points, samples and records; `write` creates the folder."""

    path: Path
    points: list[PointRow] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    @property
    def blobs(self) -> Blobs:
        return Blobs(self.path / "blobs")

    def task(self, name: str, keys: Sequence[str | None], choices: int = 2, **more: Any) -> str:
        """Add samples s0, s1 ... with these answer keys and return the task id. `meta` lists their
        fields."""
        metas: Sequence[Mapping[str, Any]] = more.get("meta") or [{}] * len(keys)
        for number, (key, meta) in enumerate(zip(keys, metas, strict=True)):
            sample = {
                "id": f"s{number}",
                "question": "Which one?",
                "images": [],
                "choices": [f"choice {i}" for i in range(choices)],
                "marks": more.get("marks", []),
                "meta": dict(meta),
            }
            self.samples.append(SampleRow(f"id-{name}", f"sha-{name}-{number}", key, sample))
        return f"id-{name}"

    def point(self, contestant: str, task: str, **more: Any) -> str:
        """Add a point and return its id."""
        number = len(self.points)
        read = more.pop("read", ROBUST)
        self.points.append(
            PointRow(
                f"p{number}", contestant, task, more.pop("task_id", f"id-{task}"), read=read, **more
            )
        )
        return f"p{number}"

    def answers(self, point: str, answers: Sequence[str | None], draw: int = 0) -> None:
        """Add a record for each sample of the task of a point; None skips a sample."""
        for sample, answer in zip(self._samples(point), answers, strict=False):
            if answer is not None:
                self.record(point, sample.id, answer=answer, draw=draw)

    def arms(
        self,
        task: str,
        keys: Sequence[str | None],
        baseline: str = "",
        **said: Sequence[str | None],
    ) -> Path:
        """Add a task and the answers of each contestant, write the run, and return its folder."""
        self.task(task, keys)
        for name, answers in said.items():
            self.answers(self.point(name, task, baseline=name == baseline), answers)
        return self.write().path

    def record(self, point: str, sample: str, **fields: Any) -> None:
        """Add a record. Its `sha` is that of the sample by default."""
        row = next(row for row in self._samples(point) if row.id == sample)
        self.records.append(Record(point, sample, fields.pop("sha", row.sha), **fields))

    def reply(self, point: str, sample: str, text: str, draw: int = 0, **reply: Any) -> None:
        """Add a record of one call with this reply, and store its message in the blobs."""
        sha = self.blobs.put(write_canonical({"role": "user", "parts": ["Which one?"]}).encode())
        call = {"messages": [sha], "draw": draw, "reply": {"text": text, **reply}}
        self.record(point, sample, draw=draw, calls=(call,))

    def write(self) -> RunFolder:
        """Write the run to disk and return its folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        rows = json.loads(json.dumps([asdict(point) for point in self.points]))
        (self.path / "points.yaml").write_text(yaml.safe_dump(rows), encoding="utf-8")
        lines = "".join(write_canonical(asdict(row)) + "\n" for row in self.samples)
        (self.path / "samples.jsonl").write_text(lines, encoding="utf-8")
        records = "".join(record.to_line() for record in self.records)
        (self.path / "records.jsonl").write_text(records, encoding="utf-8")
        return RunFolder(self.path)

    def _samples(self, point: str) -> list[SampleRow]:
        task = next(row.task_id for row in self.points if row.id == point)
        return [row for row in self.samples if row.task == task]


def analyse(name: str, *runs: RunScores) -> TextTable:
    """Return the table of an analysis of scored runs; it is empty if there is nothing to report."""
    tables = get_analysis(name).tables(make_table(runs))
    return tables[0].table if tables else TextTable((), [])


def lines_of(table: TextTable) -> list[dict[str, str]]:
    """Return the lines of a table, each as a mapping of titles to cells."""
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def join_attributes(thing: object, names: str) -> tuple[Any, ...]:
    """Return the attributes of an object that a space-separated text names."""
    return tuple(getattr(thing, name) for name in names.split())
