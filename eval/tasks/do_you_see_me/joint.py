"""Do You See Me's joint form from a user's files: one image, a question of perception and one of reasoning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.cells import answer_key, as_text, choice_texts, image_cells, picture_from_cell
from looktwice.eval.tasks.do_you_see_me.metrics import JointScorer
from looktwice.eval.tasks.files import open_files
from looktwice.eval.tasks.row_errors import LeftOut
from looktwice.eval.tasks.table_files import TableFile, open_table
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.sample import Item, Sample

ROLES = ("perception", "reasoning")
COLUMNS = ("id", "image", *(f"{role}_{word}" for role in ROLES for word in ("question", "answer", "choices")))
NEEDED = tuple(name for name in COLUMNS if not name.endswith("choices"))


@dataclass(frozen=True)
class JointQuestions:
    """Two questions per image, asked separately, from a table (.jsonl, .csv, .tsv, .parquet).

    Its columns are id, image, perception_question, perception_answer, reasoning_question, reasoning_answer and, where
    there are any, perception_choices and reasoning_choices; `columns` maps these to the table's own names. The
    samples are `<id>/perception` and `<id>/reasoning`. The authors' own 150 images are not published. Raises TaskError.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    split: str = ""
    label_version: str = ""
    subset: Subset = field(default_factory=Subset)

    @property
    def facts(self) -> Facts:
        """The sha256 of the table and what was left out."""
        self._rows  # noqa: B018  what is left out is known only then
        sha = self._source.sha
        version = self.label_version or f"as in the file, sha256 {sha[:12]}"
        own = spec(JointScorer())
        return Facts(self.split, version, (), "", f"sha256 {sha}", self._left_out.sentences, own)

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """Both questions of an image, one after the other."""
        files = open_files(self.images or Path(self.path).parent)
        rows = {row["number"]: [] for row in self._rows}  # type: dict[int, list[dict[str, Any]]]
        for place in self._chosen:
            rows[self._rows[place]["number"]].append(self._rows[place])
        wanted = sorted(number for number, held in rows.items() if held)
        for number, cells in self._source.rows_at(wanted, [self._named["image"]]):
            found = image_cells(cells, [self._named["image"]]) or [None]
            for row in rows[number]:
                images = tuple(picture_from_cell(cell, f"{row['id']} image", files) for cell in found)
                yield Item(Sample(row["id"], row["question"], images, row["choices"], meta=row["meta"]), row["answer"])

    @cached_property
    def _source(self) -> TableFile:
        return open_table(self.path)

    @cached_property
    def _left_out(self) -> LeftOut:
        return LeftOut(Path(self.path).name)

    @cached_property
    def _named(self) -> dict[str, str]:
        there = self._source.columns
        found = {name: self.columns.get(name, name) for name in COLUMNS}
        wanted = [name for name in COLUMNS if name in NEEDED or name in self.columns]
        missing = [found[name] for name in wanted if found[name] not in there]
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown or missing:
            what = "no word of ours is" if unknown else "there is no column"
            raise TaskError(
                f"{self.path}: {what} {(unknown or missing)[0]!r}; "
                f"it has {', '.join(there)}, and needed are {', '.join(NEEDED)}: map them with `columns`"
            )
        return {name: column for name, column in found.items() if column in there}

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        self._left_out.begin()
        words = [column for name, column in self._named.items() if name != "image"]
        kept, total = [], 0
        for number, cells in enumerate(self._source.rows(words)):
            total += 1
            try:
                pair = [self._row(number, cells, role) for role in ROLES]
            except ValueError as exc:
                self._left_out.add(number, str(exc))
                continue
            if not self._left_out.repeats(number, pair[0]["meta"]["image"]):
                kept += pair
        self._left_out.check(total)
        return kept

    def _row(self, number: int, cells: Mapping[str, Any], role: str) -> dict[str, Any]:
        identifier, question = (as_text(cells[self._named[name]]) for name in ("id", f"{role}_question"))
        if not identifier or not question.strip():
            raise ValueError(f"id and {role}_question must not be empty")
        column = self._named.get(f"{role}_choices")
        choices = choice_texts(cells, [column] if column else [])
        answer = answer_key(cells[self._named[f"{role}_answer"]], choices)
        meta = {"image": identifier, "role": role, "row": number}
        return {
            "number": number, "id": f"{identifier}/{role}", "question": question, "choices": choices, "answer": answer,
            "meta": meta,
        }  # fmt: skip

    @cached_property
    def _chosen(self) -> list[int]:
        rows = [(row["id"], {**row["meta"], "answer": row["answer"]}) for row in self._rows]
        return self.subset.choose(rows)
