"""The command `make`, which saves every task of a configuration as a question set.

Each set is a folder for a `Folder` task, and in it a parquet file with BLINK's columns.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.tasks.base import Task, TaskError
from looktwice.extras.make.files import format_lettered_prompt
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.load import read_config, resolve_references
from looktwice.pipelines.config.paths import ask_once
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import open_atomic, write_file
from looktwice.pipelines.picture import Payload, Picture
from looktwice.pipelines.sample import Item

FILE_EXTENSIONS = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}
ROW_GROUP_SIZE = 64  # questions in a row group, which a reader loads at once
MAX_IMAGES = 4  # BLINK has image_1 to image_4


@dataclass
class SavedQuestions:
    """A folder of saved questions: the number of questions, the image files, and the reason if no
    parquet file was written."""

    folder: Path
    split: str
    question_count: int = 0
    image_paths: set[str] = field(default_factory=set)
    no_parquet_reason: str = ""

    @property
    def parquet(self) -> Path:
        """The path of this split's file in BLINK's format."""
        return self.folder / f"{self.split}-00000-of-00001.parquet"

    def write(self, task: Task, name: str) -> None:
        """Write all questions, and a file in BLINK's format if its columns can hold them."""
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        text, image = pa.string(), pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        columns = dict.fromkeys(("idx", "question", "sub_task"), text)
        columns |= dict.fromkeys((f"image_{n}" for n in range(1, MAX_IMAGES + 1)), image)
        columns["choices"] = pa.list_(text)
        columns |= dict.fromkeys(("answer", "prompt", "explanation", "marks"), text)
        schema = pa.schema(list(columns.items()))
        (self.folder / "images").mkdir()
        rows = self._write_rows(task, name)
        with open_atomic(self.parquet) as whole, ParquetWriter(whole, schema) as writer:
            while group := list(islice(rows, ROW_GROUP_SIZE)):
                writer.write_table(pa.Table.from_pylist(group, schema))
        if self.no_parquet_reason:
            self.parquet.unlink()

    def _write_rows(self, task: Task, name: str) -> Iterator[dict[str, Any]]:
        """Write the JSON line and the images of each question; yield the questions as rows in
        BLINK's format, until one does not fit."""
        with (self.folder / "samples.jsonl").open("w", encoding="utf-8") as lines:
            for number, item in enumerate(task, 1):
                idx = f"{self.split}_{name}_{number}"
                images = [self._save_image(picture) for picture in item.sample.images]
                line = self._make_line(idx, item, [file for file, _ in images])
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
                self.question_count = number
                if not self.no_parquet_reason:
                    try:
                        yield _format_blink_row(idx, name, item, images)
                    except ValueError as exc:
                        self.no_parquet_reason = str(exc)

    def _make_line(self, idx: str, item: Item, images: list[str]) -> dict[str, Any]:
        sample, answer = item.sample, item.answer
        choices: list[Any] = list(sample.choices)
        for place, choice in enumerate(choices):
            if isinstance(choice, Picture):
                choices[place] = {"image": self._save_image(choice)[0]}
        line = {
            "id": idx,
            "question": sample.question,
            "images": images,
            "choices": choices,
            "answer": f"({answer})" if answer and choices else answer,
            "marks": [mark.to_dict() for mark in sample.marks],
            "meta": {**sample.meta, "made_as": sample.id},
        }
        return {key: value for key, value in line.items() if value not in (None, [])}

    def _save_image(self, picture: Picture) -> tuple[str, Payload]:
        payload = picture.payload
        file = f"images/{payload.sha[:16]}.{FILE_EXTENSIONS[payload.media_type]}"
        if file not in self.image_paths:
            write_file(self.folder / file, payload.data)
            self.image_paths.add(file)
        return file, payload


def save_task(task: Task, name: str, out: Path, split: str = "val") -> SavedQuestions:
    """Write `out/name/`: samples.jsonl with images/ for `Folder`, and a parquet file for
    `Blink(out, name)`.

    Questions get ids such as `SPLIT_NAME_1`, as in BLINK. Nothing is drawn into images, and a file
    whose bytes a model would receive unchanged is saved unchanged. Marks are stored in the JSON
    lines, and as text in a column `marks`, which BLINK does not have. Questions without choices get
    the choices that their keys imply (T and F; 1 to the number of images). If a key implies none,
    or if a question has more than four images, no parquet file is written. Raises TaskError if the
    folder exists.
    """
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise TaskError(
            f"the task's name {name!r} becomes a folder; use only letters, digits, '.', '_' and '-'"
        )
    if (out / name).exists():
        raise TaskError(
            f"{out / name} exists already; remove it, or name another folder with --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=out))
    try:
        saved = SavedQuestions(building, split)
        saved.write(task, name)
        building.chmod(0o755)
        building.rename(out / name)
    finally:
        # remove what is left of an unfinished set
        shutil.rmtree(building, ignore_errors=True)
    saved.folder = out / name
    return saved


def _format_blink_row(
    idx: str, name: str, item: Item, images: Sequence[tuple[str, Payload]]
) -> dict[str, Any]:
    """Format one question as a BLINK row. Raises ValueError if it does not fit."""
    sample = item.sample
    if not 1 <= len(images) <= MAX_IMAGES:
        raise ValueError(
            f"{sample.id} has {len(images)} images, but BLINK's columns hold one to {MAX_IMAGES}"
        )
    choices, answer = _make_closed_question(item)
    prompt = format_lettered_prompt(sample.question, choices)
    row = {
        "idx": idx,
        "question": sample.question,
        "sub_task": str(sample.meta.get("subtask") or name).replace("_", " "),
        "choices": choices,
        "answer": f"({answer})" if answer else "hidden",
        "prompt": sample.meta.get("prompt", prompt) if sample.choices else prompt,
        "explanation": "",
        "marks": json.dumps([mark.to_dict() for mark in sample.marks]) if sample.marks else None,
    }
    for place, (file, payload) in enumerate(images, 1):
        row[f"image_{place}"] = {"bytes": payload.data, "path": Path(file).name}
    return row


def _make_closed_question(item: Item) -> tuple[list[str], str | None]:
    """Return the choices as texts and the letter of the correct one; for an open question, use the
    choices that its key implies."""
    sample, answer = item.sample, item.answer
    if sample.choices:
        choices = [choice for choice in sample.choices if isinstance(choice, str)]
        if len(choices) < len(sample.choices):
            raise ValueError(f"{sample.id} has pictures as choices, but BLINK's choices are texts")
        return choices, answer
    choices = list(map(str, range(1, (sample.meta.get("image_len") or 0) + 1)))
    if answer in ("T", "F"):
        choices = ["T", "F"]
    if answer not in choices:
        raise ValueError(f"{sample.id} has no choices, and its key {answer!r} does not imply any")
    return choices, ascii_uppercase[choices.index(answer)]


def make_questions(
    config: Path,
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
    out: Path = Path("made"),
    split: str = "val",
) -> Iterator[str]:
    """Save each task into `out/NAME`, and yield lines that list the files. Raises ConfigError,
    TaskError, PictureError."""
    if not split.isalnum():
        raise TaskError(
            f"--split {split}: every question's id begins with it, so use only letters and digits"
        )
    for name, task in build_tasks(config, overrides, plugins).items():
        saved = save_task(task, name, out, split)
        files = (
            "samples.jsonl" if saved.no_parquet_reason else f"samples.jsonl, {saved.parquet.name}"
        )
        asked, images = (
            format_count(saved.question_count, "question"),
            format_count(len(saved.image_paths), "image"),
        )
        yield f"{name}: {asked}, {images} in {saved.folder} ({files})"
        if saved.no_parquet_reason:
            yield f"  no parquet: {saved.no_parquet_reason}"
        yield from (f"  {line}" for line in task.facts.left_out)


@ask_once()
def build_tasks(
    config: Path, overrides: Sequence[str] = (), plugins: Sequence[str] = ()
) -> dict[str, Any]:
    """Build the tasks of a configuration; ignore its other entries. Raises ConfigError."""
    node, scope, faults = read_config(config, overrides, plugins)
    node = resolve_references(node, faults)
    binder = Binder(scope, faults=faults)
    name = config.stem.removeprefix("make_")
    nodes = {("task", name): node.get("task")}
    nodes |= {(f"tasks.{key}", str(key)): task for key, task in (node.get("tasks") or {}).items()}
    built = {
        name: binder.build_node(task, place, "task")
        for (place, name), task in nodes.items()
        if task is not None
    }
    if not built:
        raise ConfigError(
            [
                "tasks: there is no task to make; add one, such as `Jigsaw: {use: eval.make.Jigsaw,"
                " ...}`"
            ]
        )
    if binder.faults:
        raise ConfigError(binder.faults)
    return built
