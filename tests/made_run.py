"""Writes small run folders by hand, so that scoring and reports are tested without the runner."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from looktwice.eval.analysis.analyses import analysis
from looktwice.eval.display.table import make_table
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records import Record, RunFolder
from looktwice.eval.records.records import PointRow, SampleRow
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.model import canonical
from looktwice.pipelines.runtime.stores import Blobs

ROBUST = {"use": "eval.readers.Robust"}


@dataclass
class MadeRun:
    """Collects points, samples and records; `write` makes the folder."""

    path: Path
    points: list[PointRow] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    @property
    def blobs(self) -> Blobs:
        return Blobs(self.path / "blobs")

    def task(self, name: str, keys: Sequence[str | None], choices: int = 2, **more: Any) -> str:
        """Samples s0, s1 ... with these keys; gives the task id. `meta` lists their fields."""
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
        """A point; gives its id."""
        number = len(self.points)
        read = more.pop("read", ROBUST)
        self.points.append(
            PointRow(
                f"p{number}", contestant, task, more.pop("task_id", f"id-{task}"), read=read, **more
            )
        )
        return f"p{number}"

    def answers(self, point: str, answers: Sequence[str | None], draw: int = 0) -> None:
        """Answers of a stage to the samples of the point's task; None leaves one out."""
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
        """A task, and what each contestant answers to it; gives the folder, written."""
        self.task(task, keys)
        for name, answers in said.items():
            self.answers(self.point(name, task, baseline=name == baseline), answers)
        return self.write().path

    def record(self, point: str, sample: str, **fields: Any) -> None:
        """One record; `sha` is the sample's own unless given."""
        row = next(row for row in self._samples(point) if row.id == sample)
        self.records.append(Record(point, sample, fields.pop("sha", row.sha), **fields))

    def reply(self, point: str, sample: str, text: str, draw: int = 0, **reply: Any) -> None:
        """A record of one call with this reply, its message kept in the blobs."""
        sha = self.blobs.put(canonical({"role": "user", "parts": ["Which one?"]}).encode())
        call = {"messages": [sha], "draw": draw, "reply": {"text": text, **reply}}
        self.record(point, sample, draw=draw, calls=(call,))

    def write(self) -> RunFolder:
        """The folder on disk."""
        self.path.mkdir(parents=True, exist_ok=True)
        rows = json.loads(json.dumps([asdict(point) for point in self.points]))
        (self.path / "points.yaml").write_text(yaml.safe_dump(rows), encoding="utf-8")
        lines = "".join(canonical(asdict(row)) + "\n" for row in self.samples)
        (self.path / "samples.jsonl").write_text(lines, encoding="utf-8")
        records = "".join(record.to_line() for record in self.records)
        (self.path / "records.jsonl").write_text(records, encoding="utf-8")
        return RunFolder(self.path)

    def _samples(self, point: str) -> list[SampleRow]:
        task = next(row.task_id for row in self.points if row.id == point)
        return [row for row in self.samples if row.task == task]


def analyse(name: str, *runs: RunScores) -> TextTable:
    """The table of an analysis of scored runs; an empty one where it has nothing to say."""
    tables = analysis(name).tables(make_table(runs))
    return tables[0].table if tables else TextTable((), [])


def lines_of(table: TextTable) -> list[dict[str, str]]:
    """The lines of a table, their cells by title."""
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def join_attributes(thing: object, names: str) -> tuple[Any, ...]:
    """Some attributes of a row, an arm or a comparison, named in one text."""
    return tuple(getattr(thing, name) for name in names.split())
