"""VLM2-Bench (Zhang et al., 2025) from its official files: nine subtasks, JSON lines beside images
and videos."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import AbsentTask, RowErrors, Subset, TaskError, suggest_among
from looktwice.eval.tasks.cells import Row, as_list, as_text
from looktwice.eval.tasks.files import Files, FolderFiles, open_files, open_picture
from looktwice.eval.tasks.image_cells import list_image_cells
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion
from looktwice.eval.tasks.table_files import TextTable, require_columns
from looktwice.eval.tasks.table_task import TableTask
from looktwice.extras.vlm2.metrics import (
    CountScorer,
    GroupScorer,
    PairScorer,
    VideoScorer,
    get_side,
)
from looktwice.extras.vlm2.video import VideoFrames
from looktwice.pipelines.json_input import list_json_lines, parse_json_object
from looktwice.pipelines.sample import Item

SUBTASKS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "GC-Mat": (("jsonl/gc/vanilla/gc_mat.jsonl",), "data/gc/processed"),
    "GC-Trk": (("jsonl/gc/vanilla/gc_trk.jsonl",), "data/gc/processed"),
    "OC-Cpr": (("jsonl/oc/vanilla/oc_cpr.jsonl",), "data/oc/original_obj"),
    "OC-Cnt": (("jsonl/oc/vanilla/oc_cnt.jsonl",), "data/oc/original_obj"),
    "OC-Grp": (("jsonl/oc/vanilla/oc_grp.jsonl",), "data/oc/original_obj"),
    "PC-Cpr": (("jsonl/pc/vanilla/pc_cpr.jsonl",), "data/pc/image/picks_face"),
    "PC-Cnt": (("jsonl/pc/vanilla/pc_cnt.jsonl",), "data/pc/image/picks_face"),
    "PC-Grp": (("jsonl/pc/vanilla/pc_grp.jsonl",), "data/pc/image/picks_face"),
    "PC-VID": (
        ("jsonl/pc/vallina/pc_v_open-ended.jsonl", "jsonl/pc/vanilla/pc_v_open-ended.jsonl"),
        "data/pc/video/UNI",
    ),
}
"""For each subtask, the possible files of its questions (the official name of one folder is
misspelt) and the folder of its media."""
VIDEO_ENDINGS = (".mp4", ".mov", ".avi")
SCORERS: Mapping[str, Callable[[str], Scorer]] = {
    "Mat": PairScorer,
    "Trk": PairScorer,
    "Cpr": PairScorer,
    "Cnt": CountScorer,
    "Grp": GroupScorer,
    "VID": lambda name: VideoScorer(),
}
KEY_FORMS = {
    "Cnt": (r"0*([1-9]\d*)", "a whole number above 0"),
    "Grp": (r"([A-Z])\s*(?:\).*)?", 'a choice such as "D) 1 and 2"'),
}
"""The form of a correct answer by kind of subtask; for all others it is T or F."""
ERRATA: Mapping[str, tuple[str, ...]] = {
    "GC-Mat": ("the paper says 260 pairs; every published score is a share of 259 ids",),
    "GC-Trk": ("the paper says 220 pairs; every published score is a share of 219 ids",),
    "OC-Cnt": ("the counts in the paper's construction table differ from the answers used here",),
    "PC-VID": (
        (
            "the paper's first table includes VID in its averages although the footnote says that"
            " it does not"
        ),
    ),
}


TSV_COLUMNS = ("index", "question", "answer", "category")
FULL_GRADES = {"AB": "1", "ABA": "2"}
"""The highest grade that a judge may give a description, by kind of video."""
OBJECT_PATTERN = re.compile(
    r"\bthe same ([a-z][a-z -]*?)(?= in the |[.?])|\bhow many different ([a-z][a-z -]*?)s are ",
    re.I,
)
"""The object in "are the same {obj}.", "show the same {obj} in the input images" or "How many
different {obj}s are"."""


@dataclass(frozen=True)
class Vlm2Bench(TableTask):
    """The subtask `name` (GC-Mat, GC-Trk, OC-Cpr, OC-Cnt, OC-Grp, PC-Cpr, PC-Cnt, PC-Grp, PC-VID).

    `path` is the folder that holds `jsonl/` and `data/`, the official zip, or VLMEvalKit's TSV
    (images only); instead, `hub` names a data set of the Hugging Face hub, and `revision` its
    commit. Correct answers are T or F, a whole number, a letter (the choices are parsed from the
    question), and for VID the highest grade that a judge may give. `meta["prompt"]` is the official
    text, `meta["pair"]` joins the questions that count as one. VID's videos become `frames`
    pictures, evenly spaced from first to last, or one every 1/`fps` seconds; their times are
    `meta["seconds"]`. A second question with the same id is left out and counted; missing images
    and undecodable videos fail their own samples. `subset` selects some of the questions. Raises
    TaskError.
    """

    name: str
    path: Path | None = None
    frames: int | None = 8
    fps: float | None = None
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""

    def __post_init__(self) -> None:
        if self.name not in SUBTASKS:
            raise TaskError(
                f"VLM2-Bench has no subtask {self.name!r}{suggest_among(self.name, SUBTASKS)}"
            )
        if (self.frames is None) == (self.fps is None):
            raise TaskError(
                "videos are sampled by `frames` or by `fps`: set one of them, and the other to null"
            )
        if not (self.frames or self.fps or 0) > 0:
            raise TaskError(
                f"frames and fps must be above 0, found frames={self.frames}, fps={self.fps}"
            )

    split = "all"
    _patterns = ("*.zip", "jsonl/**", "data/**")

    @property
    def errata(self) -> tuple[str, ...]:
        """The known errata of the subtask."""
        return ERRATA.get(self.name, ())

    @property
    def scorer(self) -> Scorer:
        """The benchmark's own scorer for this subtask."""
        return SCORERS[self._kind](self.name)

    @property
    def _kind(self) -> str:
        """The kind of the subtask: Mat, Trk, Cpr, Cnt, Grp or VID."""
        return self.name[3:]

    @property
    def note(self) -> str:
        """A note on how videos are sampled, or on pairs that do not have exactly two questions."""
        if self._kind == "VID":
            frames = f"{self.frames} frames from first to last"
            return f"VID: {frames if self.frames else f'{self.fps:g} frames per second'}"
        if SCORERS[self._kind] is not PairScorer:
            return ""
        sides = Counter(
            (q.meta["pair"], get_side(self.name, q.meta, q.answer)) for q in self._usable_questions
        )
        pairs = Counter(pair for pair, _ in sides)
        shared = sorted({pair for pair, key in sides if sides[pair, key] > 1})
        single = [pair for pair in pairs if pairs[pair] < 2]
        notes = [f"{len(pairs)} pair ids"]
        odd = {"shared by more than two questions": shared, "with one question only": single}
        notes += [f"{len(ids)} {what}, such as {ids[0]}" for what, ids in odd.items() if ids]
        return "; ".join(notes)

    @cached_property
    def _is_tsv(self) -> bool:
        return self._location[0].suffix.lower() == ".tsv"

    @cached_property
    def _files(self) -> Files:
        place, _ = self._location
        if self._is_tsv:
            return open_files(place.parent)
        zips = [] if (place / "jsonl").exists() else sorted(place.glob("*.zip"))
        return open_files(zips[0] if len(zips) == 1 else place)

    @cached_property
    def _file(self) -> str:
        tails, _ = SUBTASKS[self.name]
        if file := self._find_file(tails):
            return file
        raise AbsentTask(
            f"{self._files.root} has no {tails[0]}; set `path` to the folder or zip with jsonl/"
            " and data/, or to VLM2Bench_img.tsv",
            "VLM2-Bench",
            [name for name, (tails, _) in SUBTASKS.items() if self._find_file(tails)],
            len(SUBTASKS),
        )

    def _find_file(self, tails: Sequence[str]) -> str:
        return next((name for tail in tails for name in self._files.find_by_suffix(tail)), "")

    def require_present(self) -> None:
        """Raise AbsentTask if a local `path` has no file of this subtask."""
        if not self.hub and not self._is_tsv:
            self._file  # noqa: B018  raises if it is missing

    @property
    def _prefix(self) -> str:
        """The path before `jsonl/` and `data/`: a zip may hold them in a folder."""
        return self._file.partition("jsonl/")[0]

    @cached_property
    def table(self) -> TextTable:
        """The table whose rows are the questions. Raises TaskError."""
        if self._is_tsv:
            table = TextTable(self._location[0], "tsv")
            require_columns(table.file, TSV_COLUMNS, table.columns)
            return table
        return TextTable(Path(self._file), "jsonl", self._files.read(self._file))

    @property
    def _image_columns(self) -> Sequence[str]:
        if not self._is_tsv:
            return []
        return [name for name in ("image", "image_path") if name in self.table.columns][:1]

    @property
    def _text_columns(self) -> list[str]:
        return [*TSV_COLUMNS, *(self._image_columns if self._kind == "Cnt" else [])]

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(self.table.file.name) if self._is_tsv else RowErrors(self._file, "lines")

    def _cells(self) -> Iterator[tuple[int, Any]]:
        if not self._is_tsv:
            yield from list_json_lines(self.table.data or b"")
            return
        name, categories = self.name.casefold(), set[str]()
        for number, cells in super()._cells():
            category = as_text(cells["category"])
            categories.add(category)
            if category.casefold() == name:
                yield number, cells
        if name not in map(str.casefold, categories):
            raise TaskError(
                f"{self.table.file} has no category {name}; it has {', '.join(sorted(categories))}"
            )

    def _questions(self, number: int, cells: Any) -> Questions:
        if self._is_tsv:
            images = list_image_cells(cells, self._image_columns)
            names = {"q_id": "index", "question": "question", "gt_answer": "answer"}
            named = {key: cells[name] for key, name in names.items()}
            named |= {"q_id": as_text(named["q_id"]), "image_seq": images}
            return [self._question(number, named)]
        row = parse_json_object(cells)
        video = self._kind == "VID"
        needed = ("vid", "question") if video else ("q_id", "question", "gt_answer", "images")
        if missing := [key for key in needed if key not in row]:
            raise ValueError(f"it lacks {', '.join(missing)}; it has {', '.join(sorted(row))}")
        return [self._video(number, row) if video else self._question(number, row)]

    def _video(self, number: int, row: Row) -> RowQuestion:
        vid, words = str(row["vid"]), str(row["question"])
        if not vid or "/" in vid or "\\" in vid or ".." in vid:
            raise ValueError(f"`vid` must name a file in the video folder, found {vid!r}")
        kind = "ABA" if "ABA" in vid else "AB"
        meta = {"subtask": self.name, "prompt": f"\n{words}", "type": kind, "pair": vid}
        return RowQuestion(number, vid, words, (), FULL_GRADES[kind], meta)

    def _question(self, number: int, row: Row) -> RowQuestion:
        """Build the question of a JSON line, or of a TSV row, which has no field `images`."""
        identifier, words, sort = str(row["q_id"]), str(row["question"]), self._kind
        images = tuple(map(str, as_list(row.get("images"))))
        if not images and not self._is_tsv:
            raise ValueError(f"{identifier} has no images")
        pattern, wanted = KEY_FORMS.get(sort, ("([TF])", '"T" or "F"'))
        key = re.fullmatch(pattern, as_text(row["gt_answer"]).strip(), re.S)
        if key is None:
            raise ValueError(f"gt_answer must be {wanted}, found {row['gt_answer']!r}")
        answer = key[1]
        meta: dict[str, Any] = {"subtask": self.name}
        if self.name.startswith("OC") and (named := OBJECT_PATTERN.search(words)):
            meta["type"] = (named[1] or named[2]).lower()
        meta |= {key: row[key] for key in ("task", "type") if isinstance(row.get(key), str)}
        meta |= {"prompt": f"\n{words}", "q_id": identifier}
        if sort == "Cpr":
            meta["pair"] = _parse_pair(identifier)
        elif sort == "Cnt":
            lengths = (row.get("image_seq_len"), row.get("image_seq"))
            counts = (len(length) if isinstance(length, list) else length for length in lengths)
            meta["image_len"] = next((n for n in counts if type(n) is int and n > 0), len(images))
        elif sort != "Grp" and self._is_tsv:
            meta["pair"] = identifier.rpartition("_")[0] or identifier
        elif sort != "Grp":
            meta["pair"] = identifier
            identifier += "_p" if answer == "T" else "_n"
            self._repeat_counts[identifier] += 1
            times = self._repeat_counts[identifier]
            identifier += str(times) if times > 1 else ""
        choices = _parse_choices(words) if sort == "Grp" else ()
        if choices and answer not in ascii_uppercase[: len(choices)]:
            raise ValueError(
                f"{identifier}: gt_answer {row['gt_answer']!r} is not one of its choices"
            )
        question = words.rpartition("Choices:")[0].strip() if choices else words
        return RowQuestion(number, identifier, question, choices, answer, meta, images)

    def _item(self, question: RowQuestion, cells: Row) -> Item:
        if self._kind != "VID":
            return super()._item(question, cells)
        folder = f"{self._prefix}{SUBTASKS[self.name][1]}"
        names = [f"{folder}/{question.id}{suffix}" for suffix in VIDEO_ENDINGS]
        name = next(filter(self._has_file, names), "")
        if not name:  # when read, the picture says which file is missing
            asked = replace(question, images=(names[0],), meta={**question.meta, "seconds": []})
            return super()._item(asked, cells)
        files = self._files
        source = files.root / name if isinstance(files, FolderFiles) else partial(files.read, name)
        video = VideoFrames(source, name, self.frames, self.fps)
        item = super()._item(
            replace(question, meta={**question.meta, "seconds": video.times}), cells
        )
        return replace(item, sample=replace(item.sample, images=video.pictures))

    def _pictures(self, question: RowQuestion, cells: Row) -> Pictures:
        if self._is_tsv:
            return super()._pictures(question, cells)
        return tuple(open_picture(self._files, self._find_media(name)) for name in question.images)

    def _find_media(self, name: str) -> str:
        """Return the path at which an image exists: as given, relative to the subtask's folder, or
        by its file name alone in that folder."""
        media = f"{self._prefix}{SUBTASKS[self.name][1]}"
        base = Path(name).name
        candidates = (f"{self._prefix}{name}", f"{media}/{name}", name, f"{media}/{base}")
        return next(filter(self._has_file, candidates), candidates[0])

    def _has_file(self, name: str) -> bool:
        try:
            return self._files.has(name)
        except TaskError:  # the path leaves the data set; reading it raises the error
            return False


def _parse_pair(identifier: str) -> str:
    """Return the pair's part of an id such as `17_p` or `tf_17_n`; `p` and `n` name the side, which
    need not be the correct answer."""
    plain = identifier.removeprefix("tf_")
    pair, _, side = plain.rpartition("_")
    if not pair or side not in ("p", "n"):
        raise ValueError(f"q_id must be <id>_p or <id>_n, found {identifier!r}")
    return pair


def _parse_choices(words: str) -> tuple[str, ...]:
    """Parse the choices that a question lists; empty unless they are lettered from A on and all
    different."""
    _, heading, tail = words.rpartition("Choices:")
    listed = re.findall(r"(?:^|[\s;,])([A-Z])\)\s*(.*?)(?=[\s;,]+[A-Z]\)|$)", tail.strip(), re.S)
    texts = {text.strip(" ;,.\n"): letter for letter, text in listed}
    letters = "".join(texts.values())
    whole = heading and len(texts) == len(listed) > 1 and "" not in texts
    return tuple(texts) if whole and ascii_uppercase.startswith(letters) else ()
