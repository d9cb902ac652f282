"""RefSpatial-Bench and Point-Bench: questions whose answer is a point in a mask."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

import numpy as np

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import Subset, TaskError
from looktwice.eval.tasks.files import Files, open_files, open_picture
from looktwice.eval.tasks.image_cells import read_picture_cell
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion
from looktwice.eval.tasks.table_files import TableFile, open_table, require_columns
from looktwice.extras.sets.point_answers import MaskPixels, PointScorer
from looktwice.extras.sets.set_task import ListedTask, get_text, map_names
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.marks import Mask, Point
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Item

KEY_TEXT = "a point in the mask"
"""The key of every question; the mask itself is in the truth."""
REF_SPATIAL_SCORER, POINT_BENCH_SCORER = (
    PointScorer(),
    PointScorer(form="point_objects", count="all"),
)
TEXT_COLUMNS = ("id", "object", "prompt", "suffix", "step")


@dataclass(frozen=True)
class RefSpatial(ListedTask):
    """RefSpatial-Bench (arXiv 2506.04308): `path` is the hub's folder, in which the task `name` is
    a parquet file or a folder with `question.json`, which the authors' script reads. `path` may
    also be that file or that folder.

    The question is `prompt`, and `meta` has `object`, `suffix` (the form of the answer) and `step`
    (the number of reasoning steps). The truth is the mask: pixels whose first channel is above 0.
    Raises TaskError.
    """

    path: Path | None = None
    name: Literal["location", "placement", "unseen"] = "location"
    scorer: Scorer | None = REF_SPATIAL_SCORER
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""

    units = "questions"
    note = "`unseen` is meant for models that were trained on RefSpatial"
    _patterns = ("data/*.parquet",)

    @property
    def _file(self) -> str:  # type: ignore[override]
        """The path of the task's JSON file."""
        folder = self.name.capitalize()
        return f"{folder}/question.json" if (self._root / folder).is_dir() else "question.json"

    @cached_property
    def _table(self) -> TableFile | None:
        """The parquet file of the task; None if the task has only a JSON file."""
        path = self._root
        found = (
            [path] if path.suffix == ".parquet" else sorted(path.rglob(f"{self.name}-*.parquet"))
        )
        return open_table(found[0]) if found else None

    @cached_property
    def _sha(self) -> str:
        return self._table.sha if self._table else str(super()._sha)

    def _cells(self) -> Iterator[tuple[int, Any]]:
        if self._table is None:
            yield from super()._cells()
            return
        require_columns(self._root, [*TEXT_COLUMNS, "image", "mask"], self._table.columns)
        yield from enumerate(self._table.rows(TEXT_COLUMNS))

    def _questions(self, number: int, cells: Any) -> Questions:
        question = get_text(cells, "prompt")
        meta = {name: str(cells.get(name) or "") for name in ("object", "suffix")}
        meta["step"] = str(cells.get("step"))
        images: tuple[str, ...] = ()
        if self._table is None:
            images = get_text(cells, "rgb_path"), get_text(cells, "mask_path")
        name = str(cells.get("id"))
        return [RowQuestion(number, name, question, (), KEY_TEXT, meta, images)]

    def __iter__(self) -> Iterator[Item]:
        """Yield the items in order."""
        if self._table is None:
            yield from super().__iter__()
            return
        chosen = {question.number: question for question in self._selected_questions}
        rows = self._table.read_rows_at(sorted(chosen), ("image", "mask"))
        yield from (self._item(chosen[number], cells) for number, cells in rows)

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        return (self._open_part(question, cells, 0),)

    def _item(self, question: RowQuestion, cells: Any) -> Item:
        item = super()._item(question, cells)
        mask = self._open_part(question, cells, 1)
        return Item(
            item.sample, item.answer, describe_mask(mask, question.id, 0, any_channel=False)
        )

    def _open_part(self, question: RowQuestion, cells: Mapping[str, Any], part: int) -> Picture:
        """Return the image (0) or the mask (1) of a question."""
        if question.images:
            return self._open(question.images[part])
        name = ("image", "mask")[part]
        return read_picture_cell(cells[name], f"{question.id} {name}", None)


@dataclass(frozen=True)
class PointBench(ListedTask):
    """Point-Bench (arXiv 2505.09990): `path` is the folder with `data.json` and either
    `selected_images.zip` and `selected_masks.zip`, as the hub has them, or the folders `images` and
    `masks`.

    The question is `user_input`, and `meta` has `category`: affordable, counting, spatial,
    reasoning, steerable. With `pixmo_metadata.csv` beside `data.json`, the existing points of
    steerable questions become marks, which a marker may draw and `prompting.wording.MarksAsText`
    may write. The truth is the mask (any channel above 127) and, for counting, `count`. Objects
    without a mask are left out, as in the authors' code. Raises TaskError.
    """

    path: Path | None = None
    scorer: Scorer | None = POINT_BENCH_SCORER
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""

    units = "questions"
    _file = "data.json"
    _patterns = ("data.json", "selected_*.zip", "pixmo_metadata.csv")

    def _cells(self) -> Iterator[tuple[int, Any]]:
        for number, cells in super()._cells():
            if not isinstance(cells, Mapping) or "mask_filename" in cells:
                yield number, cells

    def _questions(self, number: int, cells: Any) -> Questions:
        question = get_text(cells, "user_input")
        names = get_text(cells, "image_filename"), get_text(cells, "mask_filename")
        count = int(cells.get("count") or 0)
        meta = {"category": str(cells.get("category") or ""), "points": count}
        name = f"{number}/{names[0]}"
        return [RowQuestion(number, name, question, (), KEY_TEXT, meta, names)]

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        return (self._open_by_name("images", question.images[0]),)

    def _item(self, question: RowQuestion, cells: Any) -> Item:
        item = super()._item(question, cells)
        sample = item.sample
        count = sample.meta["points"]
        marks = tuple(self._list_existing_points(question, sample.images[0]))
        meta = {"category": sample.meta["category"]}
        sample = type(sample)(sample.id, sample.question, sample.images, (), marks, meta)
        mask = self._open_by_name("masks", question.images[1])
        return Item(sample, item.answer, describe_mask(mask, question.id, count, any_channel=True))

    def _open_by_name(self, kind: str, name: str) -> Picture:
        """Open an image or a mask by its file name, in any folder."""
        files, by_name = self._folders[kind]
        found = by_name.get(normalize("NFC", name))
        return open_picture(files, found or f"{kind}/{name}")

    @cached_property
    def _folders(self) -> Mapping[str, tuple[Files, Mapping[str, str]]]:
        """The folder or zip of the images and that of the masks, each with its file paths by name.
        Raises TaskError."""
        root, folders = self._root / self._file_path.parent, {}
        for kind in ("images", "masks"):
            path = root / f"selected_{kind}.zip"
            path = path if path.is_file() else root / kind
            if not path.exists():
                raise TaskError(
                    f"{root} has neither selected_{kind}.zip nor a folder {kind}; download both"
                )
            files = open_files(path)
            folders[kind] = files, map_names(files)
        return folders

    @cached_property
    def _points_by_image(self) -> Mapping[str, Any]:
        """The existing points of steerable questions, in hundredths of the image's size, by
        image."""
        path = self._root / self._file_path.parent / "pixmo_metadata.csv"
        if not path.is_file():
            return {}
        rows = csv.DictReader(StringIO(path.read_text("utf-8")))
        try:
            return {row["image_filename"]: read_json(row["points"] or "[]") for row in rows}
        except (KeyError, ValueError) as exc:
            raise TaskError(f"{path} needs image_filename and points as JSON ({exc!r})") from exc

    def _list_existing_points(self, question: RowQuestion, image: Picture) -> Iterator[Point]:
        if question.meta["category"] != "steerable":
            return
        for number, point in enumerate(self._points_by_image.get(question.images[0], ()), 1):
            width, height = image.size
            yield Point(str(number), point["x"] * width / 100, point["y"] * height / 100)


def describe_mask(picture: Picture, name: str, count: int, any_channel: bool) -> Mapping[str, Any]:
    """Return the truth of a question: its mask, and the number of points asked for.

    With `any_channel`, the mask is where any channel is above 127, else where the first channel is
    above 0. Raises PictureError for an empty mask.
    """
    pixels = picture.pixels
    mask: MaskPixels = pixels.max(axis=2) > 127 if any_channel else pixels[:, :, 0] > 0
    if not np.any(mask):
        raise PictureError(f"{name}: its mask is empty")
    plain = Mask("", mask).to_dict()
    truth: dict[str, Any] = {"places": [{"mask": {k: plain[k] for k in ("size", "counts")}}]}
    return truth | ({"count": count} if count else {})
