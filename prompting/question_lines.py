"""Reads JSONL files that refer to pictures, such as few-shot examples and the marks of known
pictures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from looktwice.pipelines.disk import read_file
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Sample

__all__: list[str] = []

Parsed = TypeVar("Parsed")


def read_lines(path: Path, parse: Callable[[Any, Path, int], Parsed]) -> tuple[Parsed, ...]:
    """Parse each line with `parse`, which receives the JSON value, the path and the line number.
    Raises a ValueError that names the line."""
    path, parsed = Path(path), []
    try:
        lines = read_file(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise ValueError(
            f"{path} cannot be read ({exc}); expected one JSON object per line"
        ) from exc
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                parsed.append(parse(read_json(line), path, number))
            except (ValueError, TypeError, KeyError, PictureError) as exc:
                raise ValueError(f"{path} line {number}: {exc}") from exc
    if not parsed:
        raise ValueError(f"{path} contains no line with data; write one JSON object per line")
    return tuple(parsed)


def fill_in_sha(stage: Any, content: Sequence[Any]) -> None:
    """Set the `sha` of a stage to the hash of `content`, which are the plain values of the lines in
    the file at its `path`. Raises ValueError if the stage already has a different one."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    if stage.sha and stage.sha != digest:
        raise ValueError(
            f"{stage.path} or its images have changed: their sha is {digest}, expected {stage.sha}"
        )
    object.__setattr__(stage, "sha", digest)


def parse_sample(row: Mapping[str, Any], path: Path, name: str) -> Sample:
    """Return the question of a line as a sample, with its `image` or `images`, which must lie below
    the file's folder. Raises ValueError, PictureError."""
    names = row.get("images") or ([row["image"]] if row.get("image") else [])
    meta = {"prompt": row["prompt"]} if isinstance(row.get("prompt"), str) else {}
    marks = tuple(mark_from_dict(mark) for mark in row.get("marks") or ())
    choices = tuple(str(choice) for choice in row.get("choices") or ())
    images = []
    for image in names:
        file = (path.parent / str(image)).resolve()
        if not file.is_relative_to(path.parent.resolve()):
            raise ValueError(f"the image {image!r} lies outside {path.parent}")
        images.append(Picture.open(file))
        images[-1].size  # noqa: B018  fails now for a missing image, not once per sample
    return Sample(name, str(row.get("question", "")), tuple(images), choices, marks, meta)
