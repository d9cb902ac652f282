"""Do You See Me (Kanade and Ganu, 2025) from its official folders: a CSV and images for each
subtask, 2D and 3D."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.do_you_see_me.metrics import SweepScorer, standard_answer
from looktwice.eval.tasks.do_you_see_me.subtasks import SUBTASKS, Subtask, read_controls
from looktwice.eval.tasks.files import Files, open_files, open_picture, sha256
from looktwice.eval.tasks.row_errors import RowErrors, suggest_among
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.sample import Item, Sample

FILE = "dataset_info.csv"
COUNTED = "Rows and columns are counted from 0."


@dataclass(frozen=True)
class DoYouSeeMe:
    """The subtask `name` of `kind` 2D or 3D, from `path`: the whole tree, a half, a subtask's
    folder, or a zip.

    Names in 2D: shape_discrimination, joint_shape_color, letter_disambiguation, form_constancy,
    visual_spatial, figure_ground, visual_closure; in 3D the first five. `sweep` becomes control
    parameters in `meta`, by which accuracy is sliced and tested. Where the CSV has no question it
    is ours, after the README's samples. Listed `.svg` names are read as `.png`. `coordinates: said`
    adds to the questions with 0-based coordinates that they are. Missing images fail their own
    samples, or, with `missing: leave_out`, are not asked and counted in the facts; `blind` asks
    without any image, which shows what the keys alone give away. Raises TaskError.
    """

    name: str
    path: Path
    kind: Literal["2D", "3D"] = "2D"
    missing: Literal["fail", "leave_out"] = "fail"
    blind: bool = False
    coordinates: Literal["as_published", "said"] = "as_published"
    subset: Subset = field(default_factory=Subset)

    def __post_init__(self) -> None:
        if self.kind not in SUBTASKS:
            raise TaskError(f"kind is 2D or 3D, found {self.kind!r}")
        known = SUBTASKS[self.kind]
        if self.name not in known:
            raise TaskError(
                f"no {self.kind} subtask is named {self.name!r}{suggest_among(self.name, known)}"
            )

    @property
    def subtask(self) -> Subtask:
        """What is known of it."""
        return SUBTASKS[self.kind][self.name]

    @property
    def facts(self) -> Facts:
        """The one split, the sha256 of the CSV, the errata, and what was left out."""
        self._rows  # noqa: B018  what is left out is known only then
        sha = sha256(self._data)
        notes = ["asked without images"] if self.blind else []
        notes += ["the question is ours: the CSV has none"] if self.subtask.question else []
        return Facts(
            f"all ({self.kind})",
            f"as in the file, sha256 {sha[:12]}",
            self.subtask.errata,
            "; ".join(notes),
            f"sha256 {sha}",
            self._left_out.sentences,
            spec(self.scorer),
        )

    @property
    def scorer(self) -> SweepScorer:
        """Exact match, and accuracy along the control parameters."""
        names = (*self.subtask.controls, *(("shape",) if self.name == "visual_closure" else ()))
        return SweepScorer(self.name, self.kind, self.subtask.form, names)

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order; images are read when they are looked at."""
        for place in self._chosen:
            row = self._rows[place]
            images = () if self.blind else (open_picture(self._files, row["image"]),)
            yield Item(Sample(row["id"], row["question"], images, meta=row["meta"]), row["answer"])

    @cached_property
    def _files(self) -> Files:
        return open_files(self.path)

    @cached_property
    def _folder(self) -> str:
        """The subtask's folder within the files; empty where `path` is that folder."""
        for name in self.subtask.folders:
            found = [
                PurePosixPath(entry).parent.as_posix()
                for entry in self._files.ending(f"{name}/{FILE}")
            ]
            found = [folder for folder in found if not _in_other_half(folder, self.kind)]
            if found:
                return f"{found[0]}/"
        if Path(self.path).name in self.subtask.folders and self._files.has(FILE):
            return ""
        raise TaskError(
            f"{self.path} has no {self.subtask.folders[0]}/{FILE}; `path` is the folder that holds"
            " 2D_DoYouSeeMe and 3D_DoYouSeeMe, one of these, or a zip of them"
        )

    @cached_property
    def _data(self) -> bytes:
        return self._files.read(f"{self._folder}{FILE}")

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(f"{self._folder}{FILE}", "lines")

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        self._left_out.clear()
        kept, absent, total = [], RowErrors(self._left_out.source, "lines"), 0
        times: Counter[str] = Counter()
        for number, cells in enumerate(self._cells(), 2):
            total += 1
            try:
                row = self._row(cells, times)
            except ValueError as exc:
                self._left_out.add(number, str(exc))
                continue
            if self.missing == "leave_out" and not self.blind and not self._files.has(row["image"]):
                absent.add(number, f"there is no image {row['image']}")
            else:
                kept.append(row)
        self._left_out.check_share(total)
        if not kept:
            raise TaskError(
                f"{self.path}: not one of the {total} images of {self.name} exists;"
                f" {absent.found[0]}"
            )
        self._left_out.found += absent.found
        return kept

    def _cells(self) -> Iterator[Mapping[str, str]]:
        try:
            reader = csv.DictReader(io.StringIO(self._data.decode("utf-8-sig")))
            names = reader.fieldnames or ()
        except (UnicodeDecodeError, csv.Error) as exc:
            raise TaskError(f"{self._folder}{FILE} is no CSV ({exc})") from exc
        needed = ("filename", "answer", "sweep", *(() if self.subtask.question else ("question",)))
        if lacking := [name for name in needed if name not in names]:
            raise TaskError(
                f"{self._folder}{FILE} lacks the columns {', '.join(lacking)}; it has"
                f" {', '.join(names) or 'none'}"
            )
        yield from reader

    def _row(self, cells: Mapping[str, str], times: Counter[str]) -> dict[str, Any]:
        filename, said = (cells["filename"] or "").strip(), (cells["answer"] or "").strip()
        answer = standard_answer(said, self.subtask.form)
        if not filename or "/" in filename or "\\" in filename:
            raise ValueError(f"filename is a file of this folder, found {filename!r}")
        if answer is None:
            raise ValueError(f"{filename}: the answer {said!r} is no {self.subtask.form}")
        question = (cells.get("question") or "").strip() or self.subtask.question
        if not question:
            raise ValueError(f"{filename} has no question")
        zero_based = self.kind == "3D" and self.name == "visual_spatial"
        if zero_based and self.coordinates == "said":
            question = f"{question} {COUNTED}"
        stem = PurePosixPath(filename).stem
        times[stem] += 1
        meta: dict[str, Any] = {
            "image": stem,
            **read_controls(self.subtask, cells["sweep"] or "", filename),
        }
        meta |= {
            "sweep": cells["sweep"] or "",
            "subtask": self.name,
            "kind": self.kind,
            "prompt": question,
        }
        meta |= (
            {"coordinates": "from 0" if zero_based else "from 1"}
            if self.name == "visual_spatial"
            else {}
        )
        image = (
            f"{self._folder}{stem}.png"
            if filename.endswith(".svg")
            else f"{self._folder}{filename}"
        )
        identifier = f"{self.kind}_{self.name}_{stem}" + (
            f"_q{times[stem]}" if self._several else ""
        )
        return {
            "id": identifier,
            "question": question,
            "answer": answer,
            "image": image,
            "meta": meta,
        }

    @property
    def _several(self) -> bool:
        """Whether one image has several questions."""
        return self.kind == "2D" and self.name in ("joint_shape_color", "visual_spatial")

    @cached_property
    def _chosen(self) -> list[int]:
        rows = [(row["id"], {**row["meta"], "answer": row["answer"]}) for row in self._rows]
        return self.subset.choose(rows)


def _in_other_half(folder: str, kind: str) -> bool:
    """Whether a folder of the same name is the other dimension's, as zips that hold both have
    it."""
    return f"{'3D' if kind == '2D' else '2D'}_DoYouSeeMe" in PurePosixPath(folder).parts
