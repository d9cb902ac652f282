"""Saves any task as a `Folder` task and as parquet in BLINK's columns, side by side in one
folder."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looktwice.eval.tasks.base import Task, TaskError
from looktwice.pipelines.disk import whole_file, write_file
from looktwice.pipelines.picture import Payload, Picture
from looktwice.pipelines.sample import Item

ENDINGS = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}
GROUP = 64  # questions in a row group: what a reader holds in memory at a time
MOST_IMAGES = 4  # BLINK has image_1 to image_4


@dataclass
class SavedQuestions:
    """What lies in a folder now: how many questions and images, and why there is no parquet file,
    if there is none."""

    folder: Path
    split: str
    questions: int = 0
    images: set[str] = field(default_factory=set)
    no_parquet: str = ""

    @property
    def parquet(self) -> Path:
        """BLINK's file of this split."""
        return self.folder / f"{self.split}-00000-of-00001.parquet"


def save(task: Task, name: str, out: Path, split: str = "val") -> SavedQuestions:
    """Write `out/name/`: samples.jsonl with images/ for `Folder`, and a parquet file for
    `Blink(out, name)`.

    Questions are numbered `SPLIT_NAME_1` as BLINK's are. Nothing is drawn into images, and bytes
    that a model would be sent as they are stay as they are; marks are in the JSON lines, and as
    text in a column `marks`, which BLINK does not have. Questions without choices get the closed
    ones that their keys imply (T and F; 1 to the number of images); where there are none, or more
    than four images, there is no parquet file. Raises TaskError where something lies there already.
    """
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise TaskError(
            f"the task {name!r} names a folder; use letters, digits, '.', '_' and '-' only"
        )
    if (out / name).exists():
        raise TaskError(
            f"{out / name} is there already; remove it, or name another folder with --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=out))
    try:
        saved = SavedQuestions(building, split)
        with (building / "samples.jsonl").open("w", encoding="utf-8") as lines:
            _write_parquet(saved, _rows(task, name, saved, lines))
        building.chmod(0o755)
        building.rename(out / name)
    finally:
        shutil.rmtree(
            building, ignore_errors=True
        )  # what is left of a set that could not be finished
    saved.folder = out / name
    return saved


def _rows(task: Task, name: str, saved: SavedQuestions, lines: Any) -> Iterator[dict[str, Any]]:
    """Writes the line and the images of every question, and gives its row."""
    (saved.folder / "images").mkdir()
    for number, item in enumerate(task, 1):
        idx = f"{saved.split}_{name}_{number}"
        images = [_save_image(picture, saved) for picture in item.sample.images]
        lines.write(json.dumps(_jsonl_line(idx, item, images, saved), ensure_ascii=False) + "\n")
        saved.questions = number
        if not saved.no_parquet:
            try:
                yield _blink_row(idx, name, item, images, saved)
            except ValueError as exc:
                saved.no_parquet = str(exc)


def _save_image(picture: Picture, saved: SavedQuestions) -> tuple[str, Payload]:
    payload = picture.payload
    file = f"images/{payload.sha[:16]}.{ENDINGS[payload.media_type]}"
    if file not in saved.images:
        write_file(saved.folder / file, payload.data)
        saved.images.add(file)
    return file, payload


def _jsonl_line(
    idx: str, item: Item, images: Sequence[tuple[str, Payload]], saved: SavedQuestions
) -> dict[str, Any]:
    sample = item.sample
    choices = [
        c if isinstance(c, str) else {"image": _save_image(c, saved)[0]} for c in sample.choices
    ]
    line = {
        "id": idx,
        "question": sample.question,
        "images": [file for file, _ in images],
        "choices": choices or None,
        "answer": f"({item.answer})" if item.answer and choices else item.answer,
        "marks": [mark.to_dict() for mark in sample.marks],
        "meta": {**sample.meta, "made_as": sample.id},
    }
    return {key: value for key, value in line.items() if value not in (None, [])}


def _blink_row(
    idx: str, name: str, item: Item, images: Sequence[tuple[str, Payload]], saved: SavedQuestions
) -> dict[str, Any]:
    """One row in BLINK's columns. Raises ValueError where they cannot hold the question."""
    sample = item.sample
    if not 1 <= len(images) <= MOST_IMAGES:
        raise ValueError(
            f"{sample.id} has {len(images)} images, and BLINK's columns hold one to {MOST_IMAGES}"
        )
    choices, answer = _as_closed(item)
    cells = [{"bytes": payload.data, "path": Path(file).name} for file, payload in images]
    lettered = [
        f"({letter}) {choice}" for letter, choice in zip("ABCDEFGHIJ", choices, strict=False)
    ]
    prompt = "\n".join([sample.question, "Select from the following choices.", *lettered])
    return {
        "idx": idx,
        "question": sample.question,
        "sub_task": str(sample.meta.get("subtask") or name).replace("_", " "),
        **{f"image_{place}": cell for place, cell in enumerate(cells, 1)},
        "choices": list(choices),
        "answer": f"({answer})" if answer else "hidden",
        "prompt": sample.meta.get("prompt", prompt) if sample.choices else prompt,
        "explanation": "",
        "marks": json.dumps([mark.to_dict() for mark in sample.marks]) if sample.marks else None,
    }


def _as_closed(item: Item) -> tuple[tuple[str, ...], str | None]:
    """The choices as texts and the key's letter; of an open question the closed ones that its key
    implies."""
    sample, answer = item.sample, item.answer
    if sample.choices:
        if not all(isinstance(choice, str) for choice in sample.choices):
            raise ValueError(f"{sample.id} has pictures as choices, and BLINK's are texts")
        return tuple(str(choice) for choice in sample.choices), answer
    length = sample.meta.get("image_len")
    choices = (
        ("T", "F") if answer in ("T", "F") else tuple(str(n) for n in range(1, (length or 0) + 1))
    )
    if answer not in choices:
        raise ValueError(f"{sample.id} has no choices, and its key {answer!r} implies none")
    return choices, "ABCDEFGHIJ"[choices.index(answer)]


def _write_parquet(saved: SavedQuestions, rows: Iterator[dict[str, Any]]) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = _schema(pa)
    with whole_file(saved.parquet) as whole, ParquetWriter(whole, schema) as writer:
        held: list[Mapping[str, Any]] = []
        for row in rows:
            held.append(row)
            if len(held) == GROUP:
                writer.write_table(pa.Table.from_pylist(held, schema))
                held = []
        if held:
            writer.write_table(pa.Table.from_pylist(held, schema))
    if saved.no_parquet:
        saved.parquet.unlink()


def _schema(pa: Any) -> Any:
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = [(name, pa.string()) for name in ("idx", "question", "sub_task")]
    columns += [(f"image_{number}", image) for number in range(1, MOST_IMAGES + 1)]
    columns += [("choices", pa.list_(pa.string()))]
    return pa.schema(
        [*columns, *((name, pa.string()) for name in ("answer", "prompt", "explanation", "marks"))]
    )
