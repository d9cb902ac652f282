"""One line of VLM2-Bench's files, or one row of its TSV, checked and turned into a question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.cells import as_list, as_text, image_cells, picture_from_cell
from looktwice.eval.tasks.files import open_files
from looktwice.eval.tasks.row_errors import RowErrors
from looktwice.eval.tasks.table_files import TextTable
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.picture import Picture

FULL = {"AB": "1", "ABA": "2"}
"""The highest score that a judge may give a description, by kind of video."""
OBJECT = re.compile(
    r"\bthe same ([a-z][a-z -]*?)(?= in the |[.?])|\bhow many different ([a-z][a-z -]*?)s are ",
    re.I,
)
"""The object in "are the same {obj}.", "show the same {obj} in the input images" or "How many
different {obj}s are"."""


@dataclass(frozen=True, eq=False)
class Question:
    """A question as its file has it; `images` are paths, or `cells` gives the pictures of a TSV's
    row."""

    id: str
    words: str
    choices: tuple[str, ...]
    answer: str | None
    images: tuple[str, ...]
    meta: Mapping[str, Any]
    cells: Callable[[], list[Picture]] | None = None


def from_lines(data: bytes, name: str, left_out: RowErrors) -> list[Question]:
    """The questions of a JSONL file; lines that are none are left out. Raises TaskError where these
    are too many."""
    kept, total, seen = [], 0, Counter[str]()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        total += 1
        try:
            question = _from_line(line, name, seen)
        except ValueError as exc:
            left_out.add(number, str(exc))
            continue
        if not left_out.repeats(number, question.id):
            kept.append(question)
    left_out.check_share(total)
    return kept


def _from_line(line: bytes, name: str, seen: Counter[str]) -> Question:
    try:
        row = read_json(line)
    except ValueError as exc:
        raise ValueError(f"no JSON object ({exc})") from exc
    if not isinstance(row, dict):
        raise ValueError(f"a JSON object is needed, found {type(row).__name__}")
    needed = (
        ("vid", "question") if name == "PC-VID" else ("q_id", "question", "gt_answer", "images")
    )
    if missing := [key for key in needed if key not in row]:
        raise ValueError(f"lacks {', '.join(missing)}; it has {', '.join(sorted(row))}")
    return _video(row) if name == "PC-VID" else _question(row, name, seen)


def _question(row: Mapping[str, Any], name: str, seen: Counter[str]) -> Question:
    identifier, words = str(row["q_id"]), str(row["question"])
    images = tuple(str(image) for image in as_list(row["images"]))
    if not images:
        raise ValueError(f"{identifier} has no images")
    answer = _key(row["gt_answer"], name)
    meta = _object_type(words) if name.startswith("OC") else {}
    meta |= {key: row[key] for key in ("task", "type") if isinstance(row.get(key), str)}
    meta |= {"prompt": f"\n{words}", "q_id": identifier}
    if name.endswith("Cpr"):
        meta["pair"] = _pair(identifier, answer)
    if name.startswith("GC"):
        meta["pair"] = identifier
        side = f"{identifier}_{'p' if answer == 'T' else 'n'}"
        seen[side] += 1
        identifier = side if seen[side] == 1 else f"{side}{seen[side]}"
    if name.endswith("Cnt"):
        meta["image_len"] = _length(row, len(images))
    choices = _choices(words) if name.endswith("Grp") else ()
    if choices and answer not in ascii_uppercase[: len(choices)]:
        raise ValueError(
            f"{identifier}: the key {row['gt_answer']!r} is none of its {len(choices)} choices"
        )
    question = words.rpartition("Choices:")[0].strip() if choices else words
    return Question(identifier, question, choices, answer, images, meta)


def _object_type(words: str) -> dict[str, Any]:
    """The type of object as the field `type`, where a question names it as in the paper's templates
    (appendix, OC)."""
    found = OBJECT.search(words)
    return {"type": (found[1] or found[2]).lower()} if found else {}


def _video(row: Mapping[str, Any]) -> Question:
    vid = str(row["vid"])
    if not vid or "/" in vid or "\\" in vid or ".." in vid:
        raise ValueError(f"`vid` names a file of the video folder, found {vid!r}")
    kind = "ABA" if "ABA" in vid else "AB"
    words = str(row["question"])
    meta = {"prompt": f"\n{words}", "type": kind, "pair": vid}
    return Question(vid, words, (), FULL[kind], (), meta)


def _key(found: Any, name: str) -> str:
    said = as_text(found).strip()
    if name.endswith("Cnt"):
        if not said.isdecimal() or int(said) < 1:
            raise ValueError(f"gt_answer of a count is a whole number above 0, found {found!r}")
        return str(int(said))
    if name.endswith("Grp"):
        letter = said.partition(")")[0].strip()
        if not re.fullmatch("[A-Z]", letter):
            raise ValueError(f'gt_answer is a choice such as "D) 1 and 2", found {found!r}')
        return letter
    if said not in ("T", "F"):
        raise ValueError(f'gt_answer is "T" or "F", found {found!r}')
    return said


def _pair(identifier: str, answer: str) -> str:
    """`17_p`, `tf_17_n`: the id without its side, which must agree with the key."""
    plain = identifier.removeprefix("tf_")
    pair, _, side = plain.rpartition("_")
    if not pair or side not in ("p", "n"):
        raise ValueError(f"q_id is <id>_p or <id>_n, found {identifier!r}")
    if (side == "p") != (answer == "T"):
        raise ValueError(
            f"{identifier}: its side says {'T' if side == 'p' else 'F'}, its key {answer}"
        )
    return pair


def _length(row: Mapping[str, Any], images: int) -> int:
    """How long the sequence is: `image_seq_len`, else the length of `image_seq`, else that of
    `images`."""
    for found in (row.get("image_seq_len"), row.get("image_seq")):
        if isinstance(found, list) and found:
            return len(found)
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    return images


def _choices(words: str) -> tuple[str, ...]:
    _, colon, tail = words.rpartition("Choices:")
    if not colon:
        return ()
    found = re.findall(r"(?:^|[\s;,])([A-Z])\)\s*(.*?)(?=[\s;,]+[A-Z]\)|$)", tail.strip(), re.S)
    texts = tuple(said.strip(" ;,.\n") for _, said in found)
    ordered = "".join(letter for letter, _ in found) == ascii_uppercase[: len(found)]
    return (
        texts if len(texts) > 1 and ordered and all(texts) and len(set(texts)) == len(texts) else ()
    )


def from_tsv(path: Path, name: str, left_out: RowErrors) -> list[Question]:
    """The questions of one category of VLMEvalKit's TSV. Raises TaskError for wrong columns and
    unknown categories."""
    table = TextTable(path, "tsv")
    needed = ("index", "question", "answer", "category")
    if missing := [column for column in needed if column not in table.columns]:
        raise TaskError(
            f"{path} lacks the columns {', '.join(missing)}; it has {', '.join(table.columns)}"
        )
    files = open_files(path.parent)
    kept, total, seen, categories = [], 0, Counter[str](), set()
    for number, cells in enumerate(
        table.rows([*needed, *({"image_seq_len"} & set(table.columns))])
    ):
        categories.add(as_text(cells["category"]))
        if as_text(cells["category"]).casefold() != name.casefold():
            continue
        total += 1
        try:
            question = _tsv_question(cells, name, seen)
        except ValueError as exc:
            left_out.add(number, str(exc))
            continue
        if not left_out.repeats(number, question.id):
            kept.append((number, question))
    if not total:
        raise TaskError(
            f"{path} has no category {name.casefold()}; it has {', '.join(sorted(categories))}"
        )
    left_out.check_share(total)

    def cells_of(number: int, identifier: str) -> Callable[[], list[Picture]]:
        def read() -> list[Picture]:
            found = image_cells(
                table.row_at(number), [c for c in ("image", "image_path") if c in table.columns][:1]
            )
            return [
                picture_from_cell(cell, f"{identifier} image {i}", files)
                for i, cell in enumerate(found, 1)
            ]

        return read

    return [_with_pictures(q, cells_of(number, q.id), name) for number, q in kept]


def _tsv_question(cells: Mapping[str, Any], name: str, seen: Counter[str]) -> Question:
    index = as_text(cells["index"])
    row = {"question": cells["question"], "gt_answer": cells["answer"], "images": ["in the table"]}
    if name.startswith("GC"):
        question = _question({**row, "q_id": index}, name, Counter())
        return Question(
            index,
            question.words,
            (),
            question.answer,
            (),
            {**question.meta, "pair": index.rpartition("_")[0] or index},
        )
    return _question({**row, "q_id": index}, name, seen)


def _with_pictures(question: Question, cells: Callable[[], list[Picture]], name: str) -> Question:
    """With its pictures, and for counts with how many there are."""
    meta = dict(question.meta)
    if name.endswith("Cnt"):
        meta["image_len"] = len(cells())
    return Question(question.id, question.words, question.choices, question.answer, (), meta, cells)
