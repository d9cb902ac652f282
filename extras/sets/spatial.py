"""OmniSpatial, a JSON list with images in folders by task type, and Spatial-DISE, a CSV with images
in tar files."""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.answer_cells import read_answer_key
from looktwice.eval.tasks.base import Subset, TaskError
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion
from looktwice.extras.sets.rules import SetScorer
from looktwice.extras.sets.set_task import ListedTask, SetTask, get_letter, get_options, get_text
from looktwice.pipelines.disk import MAX_LINE_BYTES
from looktwice.pipelines.picture import Picture, PictureError

OMNI_SPATIAL_SCORER = SetScorer(rule="omni_spatial")


@dataclass(frozen=True)
class OmniSpatial(ListedTask):
    """OmniSpatial (arXiv 2506.03135): `path` is the folder with `data.json`, or
    OmniSpatial-test.zip, or its folder; `hub: qizekun/OmniSpatial` downloads it.

    Objects have `id` ("15_1", of the image 15.png in the folder of the task type), `question`,
    `options`, `answer` (a number from 0), `task_type` and `sub_task_type`; the last two are in
    `meta`. Ids repeat between task types, so a sample's id is `task_type/id`. Raises TaskError.
    """

    path: Path | None = None
    scorer: Scorer | None = OMNI_SPATIAL_SCORER
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""

    _file = "data.json"
    _zip_name = "OmniSpatial-test.zip"
    _patterns = (_zip_name,)

    def _questions(self, number: int, cells: Any) -> Questions:
        name, question, task, part = (
            get_text(cells, name) for name in ("id", "question", "task_type", "sub_task_type")
        )
        choices = get_options(cells)
        answer = get_letter(cells.get("answer"), len(choices))
        meta = {"task_type": task, "sub_task_type": part}
        images = (f"{task}/{name.partition('_')[0]}.png",)
        return [RowQuestion(number, f"{task}/{name}", question, choices, answer, meta, images)]

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        return tuple(map(self._open, question.images))


MERGED_IMAGE_COLUMNS = ("image",)
SEPARATE_IMAGE_COLUMNS = (
    "question_image_path",
    "question_image_1_path",
    "question_image_2_path",
    *(f"option_{letter}_image_path" for letter in "abcd"),
)
META_COLUMNS = ("category", "difficulty", "source", "dise_category")


@dataclass(frozen=True)
class SpatialDise(SetTask):
    """Spatial-DISE (arXiv 2510.13394): `path` is the folder of the hub's files, with the CSV and
    the tar files of the folder `image`, which are read without unpacking;
    `hub: TACPS-liv/Spatial-DISE` downloads them.

    `part` is the benchmark of 559 questions, or a split of the larger set. `images` selects one
    picture in which question and options are "merged", or "separate" pictures. Options are letters
    that refer to the picture. `meta` has category, difficulty, source and dise_category.
    Raises TaskError.
    """

    path: Path | None = None
    part: Literal["benchmark", "train", "val", "test"] = "benchmark"
    images: Literal["merged", "separate"] = "merged"
    scorer: Scorer | None = None
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""

    _patterns = ("DISE-bench/*.csv", "dataset/*.csv", "image/*.tar")

    @property
    def _file(self) -> str:  # type: ignore[override]
        """The path of the part's CSV file."""
        return "DISE-benchmark.csv" if self.part == "benchmark" else f"dataset/{self.part}.csv"

    def _cells(self) -> Iterator[tuple[int, Any]]:
        csv.field_size_limit(MAX_LINE_BYTES)
        lines = self._data.decode("utf-8-sig").splitlines()
        rows = csv.DictReader(lines, skipinitialspace=True, restkey="", restval="")
        for number, row in enumerate(rows):
            yield number, {str(name).strip(): str(cell).strip() for name, cell in row.items()}

    def _questions(self, number: int, cells: Mapping[str, str]) -> Questions:
        question = get_text(cells, "question")
        letters = dict.fromkeys(
            option.strip()[:1].upper()
            for option in cells.get("options", "").replace("\uff0c", ",").split(",")
        )
        choices = tuple(filter(ascii_uppercase[:8].count, filter(None, letters))) or tuple("ABCD")
        if choices != tuple(ascii_uppercase[: len(choices)]):
            raise ValueError(f"options must be A, B ..., found {cells.get('options')!r:.80}")
        answer = read_answer_key(cells.get("answer"), choices)
        columns = MERGED_IMAGE_COLUMNS if self.images == "merged" else SEPARATE_IMAGE_COLUMNS
        names = filter(None, (cells.get(column, "") for column in columns))
        members = dict.fromkeys(name.removeprefix("images/").lstrip("/\\") for name in names)
        if not members:
            raise ValueError(f"no image is named in {', '.join(columns)}")
        meta = {name: cells.get(name, "") for name in META_COLUMNS}
        name = f"{self.part}_{number}"
        return [RowQuestion(number, name, question, choices, answer, meta, tuple(members))]

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        return tuple(Picture.lazy(partial(self._read, name), name) for name in question.images)

    @cached_property
    def _image_locations(self) -> Mapping[str, tuple[Path, int, int]]:
        """The tar file that holds each image, and the image's offset and length in it, by name.
        Raises TaskError."""
        shards = sorted((self._root / "image").glob("*.tar"))
        if not shards:
            raise TaskError(f"{self._root}/image contains no tar files; download them from the hub")
        members = {}
        for shard in shards:
            try:
                with tarfile.open(shard) as opened:
                    for member in opened:
                        if member.isfile():
                            members[member.name] = shard, member.offset_data, member.size
            except tarfile.TarError as exc:
                raise TaskError(f"{shard} is damaged ({exc}); download it again") from exc
        return members

    def _read(self, name: str) -> bytes:
        if name not in self._image_locations:
            raise PictureError(f"no tar file in {self._root}/image has the image {name}")
        shard, offset, size = self._image_locations[name]
        with shard.open("rb") as file:
            file.seek(offset)
            return file.read(size)
