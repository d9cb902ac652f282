"""BLINK (Fu et al., 2024) from its official parquet files, one folder for each of its fourteen tasks, and totals."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, ClassVar

from looktwice.eval.scoring.benchmark import Scorer, Total
from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.row_errors import RowErrors, suggest_name
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Item, Sample

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

NAMES = (
    "Art_Style", "Counting", "Forensic_Detection", "Functional_Correspondence", "IQ_Test", "Jigsaw",
    "Multi-view_Reasoning", "Object_Localization", "Relative_Depth", "Relative_Reflectance",
    "Semantic_Correspondence", "Spatial_Relation", "Visual_Correspondence", "Visual_Similarity",
)  # fmt: skip
ALL = dict.fromkeys(NAMES, "accuracy")
WITHOUT_REFLECTANCE = {name: metric for name, metric in ALL.items() if name != "Relative_Reflectance"}


@dataclass(frozen=True)
class BlinkScorer(Scorer):
    """The task `name`: plain accuracy. The official total is `blink_macro`; VLMEvalKit's is `blink_micro`."""

    name: str

    suite: ClassVar[str] = "BLINK"
    totals: ClassVar[tuple[Total, ...]] = (
        Total("blink_macro", ALL),
        Total("blink_micro", ALL, pooled=True),
        Total("blink_macro_without_reflectance", WITHOUT_REFLECTANCE),
        Total("blink_micro_without_reflectance", WITHOUT_REFLECTANCE, pooled=True),
    )

    headlines: ClassVar[tuple[str, ...]] = ("blink_macro",)


WORDS = ("idx", "question", "sub_task", "choices", "answer", "prompt")
IMAGES = ("image_1", "image_2", "image_3", "image_4")
TEXT, TEXTS, IMAGE = "a text", "a list of texts", "an image with its bytes"
KINDS = {**dict.fromkeys(WORDS, TEXT), "choices": TEXTS, **dict.fromkeys(IMAGES, IMAGE)}
BATCH = 16  # rows with their images in memory at a time
BUFFER = 1 << 20  # bytes of a file that are read at once; a memory map would count whole files as memory
ERRATA = {
    "Relative_Reflectance": (
        "val labels were matched to the wrong questions until the release of 2025-09-03; the offline key "
        "val_answers.json of 2024 still has the wrong ones, so scores on the two keys cannot be compared",
    )
}


@dataclass(frozen=True)
class Blink:
    """The task `name` of BLINK from PATH/NAME/SPLIT-*-of-*.parquet, read a few rows at a time.

    `path` is the folder of all tasks, `split` is val or test.

    `question` and `choices` are the columns of these names; the official text, which already ends with the lettered
    choices, is `meta["prompt"]`, verbatim. The official runner also puts a disclaimer of its own before the prompts
    of Art_Style, Forensic_Detection and Jigsaw: that text is in no column and is left out here. The column
    `explanation` is left out because it gives answers away. `meta["row"]` counts from 0 through all files. The key
    "(B)" becomes "B", and "hidden" None. Raises TaskError.
    """

    path: Path
    name: str
    split: str = "val"
    subset: Subset = field(default_factory=Subset)

    def __post_init__(self) -> None:
        folder = Path(self.path)
        if not folder.is_dir():
            raise TaskError(f"there is no folder {folder}; `path` is the folder that holds BLINK's task folders")
        present = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        if self.name in present:
            return
        hint = suggest_name(self.name, {*NAMES, *present} - {self.name})
        known = f"BLINK's {self.name} is not in it." if self.name in NAMES else f"no task is named {self.name!r}{hint}"
        raise TaskError(f"{folder}: {known} It has {', '.join(present) or 'no folders'}")

    @property
    def facts(self) -> Facts:
        """The split, the sha256 of its files as label version (the files name none), and the known errata."""
        digest = hashlib.sha256()
        for file in self._files:
            with file.open("rb") as source:
                digest.update(hashlib.file_digest(source, "sha256").digest())
        sha, own = digest.hexdigest(), spec(BlinkScorer(self.name))
        errata = ERRATA.get(self.name, ())
        return Facts(self.split, f"as in the file, sha256 {sha[:12]}", errata, revision=f"sha256 {sha}", scorer=own)

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order; the images of a few rows are in memory at a time, encoded."""
        start, wanted = 0, set(self._chosen)
        for file in self._files:
            with _open(file) as source:
                for number, pictures in _images(source, start, wanted):
                    yield self._item(number, pictures)
                start += source.metadata.num_rows

    @cached_property
    def _files(self) -> list[Path]:
        folder = Path(self.path) / self.name
        files = sorted(folder.glob("*-*-of-*.parquet"))
        found = [file for file in files if file.name.startswith(f"{self.split}-")]
        if not found:
            splits = sorted({file.name.split("-")[0] for file in files})
            raise TaskError(
                f"{folder} has no {self.split}-*-of-*.parquet; it has the splits {', '.join(splits) or 'none'}"
            )
        total = found[0].stem.split("-of-")[-1]
        if not total.isdecimal() or len(found) != int(total):
            raise TaskError(f"{folder}: {len(found)} of {total} files of the split {self.split}; fetch the others")
        return found

    @cached_property
    def _words(self) -> list[dict[str, Any]]:
        """Every row without its images, the key read; checked."""
        place = self._files[0] if len(self._files) == 1 else self._files[0].parent
        rows = _check_rows([row for file in self._files for row in _read(file)], RowErrors(place))
        if not rows:
            raise TaskError(f"{place} has no rows; fetch it again")
        return rows

    @cached_property
    def _chosen(self) -> list[int]:
        rows = [(row["idx"], {"subtask": row["sub_task"], "answer": row["answer"]}) for row in self._words]
        return self.subset.choose(rows, self._files[0])

    def _item(self, number: int, pictures: tuple[Picture, ...]) -> Item:
        row = self._words[number]
        meta = {"subtask": row["sub_task"], "prompt": row["prompt"], "row": number}
        return Item(Sample(row["idx"], row["question"], pictures, tuple(row["choices"]), meta=meta), row["answer"])


def _open(file: Path) -> ParquetFile:
    """A parquet file that is read page by page, with the columns that BLINK has. Raises TaskError."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        source = ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
    except (OSError, pyarrow.ArrowException) as exc:
        raise TaskError(f"{file} is no parquet file that can be read ({exc}); fetch it again") from exc
    found = source.schema_arrow.names
    if missing := [name for name in (*WORDS, *IMAGES) if name not in found]:
        raise TaskError(f"{file} lacks the columns {', '.join(missing)}; it has {', '.join(found)}")
    if wrong := [column for column in source.schema_arrow if column.name in KINDS and not _is_kind(column)]:
        said = (f"{column.name} is {column.type} and not {KINDS[column.name]}" for column in wrong)
        raise TaskError(f"{file} has other columns than BLINK's: {'; '.join(said)}")
    return source


def _is_kind(column: Any) -> bool:
    from pyarrow import types

    checks = {
        TEXT: (types.is_string, types.is_large_string),
        TEXTS: (types.is_list, types.is_large_list),
        IMAGE: (types.is_struct, types.is_null),
    }
    return any(check(column.type) for check in checks[KINDS[column.name]])


def _batches(source: ParquetFile, **choice: Any) -> Iterator[list[dict[str, Any]]]:
    import pyarrow

    try:
        for batch in source.iter_batches(use_threads=False, **choice):
            yield batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as exc:
        raise TaskError(f"a BLINK parquet file is damaged ({exc}); fetch it again") from exc


def _read(file: Path) -> list[dict[str, Any]]:
    with _open(file) as source:
        return [row for batch in _batches(source, columns=list(WORDS)) for row in batch]


def _check_rows(rows: list[dict[str, Any]], faults: RowErrors) -> list[dict[str, Any]]:
    for number, row in enumerate(rows):
        faults.repeats(number, str(row["idx"]))
        if problem := _find_problem(row):
            faults.add(number, problem)
    faults.raise_any()
    return [{**row, "answer": None if row["answer"] == "hidden" else row["answer"][1]} for row in rows]


def _find_problem(row: Mapping[str, Any]) -> str:
    if empty := [name for name in ("idx", "question", "sub_task", "prompt") if not row[name]]:
        return f"{', '.join(empty)}: empty, but every question needs them"
    choices = row["choices"]
    if not choices or len(choices) < 2 or None in choices:
        return f"{row['idx']} needs at least two texts as choices, found {choices!r}"
    keys = [f"({letter})" for letter in ascii_uppercase[: len(choices)]]
    if row["answer"] not in (*keys, "hidden"):
        return f"{row['idx']} has the answer {row['answer']!r}; with its choices it can be {', '.join(keys)} or hidden"
    return ""


def _images(source: ParquetFile, start: int, wanted: set[int]) -> Iterator[tuple[int, tuple[Picture, ...]]]:
    """The numbers of the wanted rows of one file and their images; row groups without any are not read."""
    first = start
    for group in range(source.metadata.num_row_groups):
        end = first + source.metadata.row_group(group).num_rows
        if not wanted.isdisjoint(range(first, end)):
            columns = ["idx", *IMAGES]
            batches = _batches(source, batch_size=BATCH, row_groups=[group], columns=columns)
            for number, row in enumerate((row for batch in batches for row in batch), first):
                if number in wanted:
                    yield number, tuple(_picture(row, name) for name in _image_columns(row))
        first = end


def _image_columns(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns up to the last image, at least the first: an image that is missing before another must fail."""
    return IMAGES[: max((end for end, name in enumerate(IMAGES, 1) if row[name] is not None), default=1)]


def _picture(row: Mapping[str, Any], column: str) -> Picture:
    name, data = f"{row['idx']} {column}", (row[column] or {}).get("bytes")
    return Picture.encoded(data, name) if data else Picture.lazy(_no_bytes(name), name)


def _no_bytes(name: str) -> Callable[[], bytes]:
    def fetch() -> bytes:
        raise PictureError(f"{name}: the parquet file holds no bytes for it; fetch a file with embedded images")

    return fetch
