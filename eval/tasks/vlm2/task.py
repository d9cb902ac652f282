"""VLM2-Bench (Zhang et al., 2025) from its official files: nine subtasks, JSON lines beside images
and videos."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.files import (
    DataLocation,
    Files,
    FolderFiles,
    locate_data,
    open_files,
    open_picture,
    sha256,
)
from looktwice.eval.tasks.row_errors import RowErrors, suggest_among
from looktwice.eval.tasks.table_files import open_table
from looktwice.eval.tasks.vlm2.metrics import CountScorer, GroupScorer, PairScorer, VideoScorer
from looktwice.eval.tasks.vlm2.rows import Question, from_lines, from_tsv
from looktwice.eval.tasks.vlm2.video import VideoFrames
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

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
"""For each subtask where its questions may lie (one folder's name is misspelt officially) and where
its media."""
VIDEOS = (".mp4", ".mov", ".avi")
PAIRED = ("GC-Mat", "GC-Trk", "OC-Cpr", "PC-Cpr")
ERRATA: Mapping[str, tuple[str, ...]] = {
    "GC-Mat": ("the paper says 260 pairs; every published score is a share of 259 ids",),
    "GC-Trk": ("the paper says 220 pairs; every published score is a share of 219 ids",),
    "OC-Cnt": (
        "the paper's construction table lists other counts than the keys; the keys are used",
    ),
    "PC-VID": (
        (
            "the paper's first table includes VID in its averages although the footnote says that"
            " it does not"
        ),
    ),
}


@dataclass(frozen=True)
class Vlm2Bench:
    """The subtask `name` (GC-Mat, GC-Trk, OC-Cpr, OC-Cnt, OC-Grp, PC-Cpr, PC-Cnt, PC-Grp, PC-VID).

    `path` is the folder that holds `jsonl/` and `data/`, the official zip, or VLMEvalKit's TSV
    (images only); in its place `hub` names a data set of the Hugging Face hub, and `revision` its
    commit. Keys: T or F, a whole number, a letter (the choices are read out of the question), and
    for VID the highest score that a judge may give. `meta["prompt"]` is the official text,
    `meta["pair"]` joins the questions that count as one. VID's videos become `frames` pictures
    evenly from first to last, or one every 1/`fps` seconds; their times are `meta["seconds"]`. A
    second question under one id is left out and counted; missing images and videos that do not
    decode fail their own samples. Raises TaskError.
    """

    name: str
    path: Path | None = None
    frames: int | None = 8
    fps: float | None = None
    subset: Subset = field(default_factory=Subset)
    hub: str = ""
    revision: str = ""

    def __post_init__(self) -> None:
        if self.name not in SUBTASKS:
            raise TaskError(
                "no subtask of VLM2-Bench is named"
                f" {self.name!r}{suggest_among(self.name, SUBTASKS)}"
            )
        if (self.frames is None) == (self.fps is None):
            raise TaskError(
                "a video is sampled by `frames` or by `fps`: set one of them, and the other to null"
            )
        if (self.frames is not None and self.frames < 1) or (
            self.fps is not None and self.fps <= 0
        ):
            raise TaskError(
                f"frames and fps are above 0, found frames={self.frames}, fps={self.fps}"
            )
        if (self.path is None) == (not self.hub):
            raise TaskError("say where the data lie: either `path` or `hub`, and not both")

    @property
    def facts(self) -> Facts:
        """The one split, the sha256 of the questions, the errata, and what was left out."""
        self._questions  # noqa: B018  what is left out is known only then
        sha = self._sha
        notes = [f"VID: {self._sampling}"] if self.name == "PC-VID" else []
        notes += self._pair_notes() if self.name in PAIRED else []
        return Facts(
            "all",
            f"as in the file, sha256 {sha[:12]}",
            ERRATA.get(self.name, ()),
            "; ".join(notes),
            self._place[1] or f"sha256 {sha}",
            self._left_out.sentences,
            spec(self.scorer),
        )

    @property
    def scorer(self) -> Scorer:
        """The benchmark's own rules for this subtask."""
        if self.name in PAIRED:
            return PairScorer(self.name)
        if self.name == "PC-VID":
            return VideoScorer()
        return CountScorer(self.name) if self.name.endswith("Cnt") else GroupScorer(self.name)

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order."""
        for place in self._chosen:
            question = self._questions[place]
            meta, images = {"subtask": self.name, **question.meta}, self._pictures(question)
            if self.name == "PC-VID":
                images, meta["seconds"] = self._frames(question)
            sample = Sample(question.id, question.words, images, question.choices, meta=meta)
            yield Item(sample, question.answer)

    def _pictures(self, question: Question) -> tuple[Picture, ...]:
        if question.cells is not None:
            return tuple(question.cells())
        return tuple(open_picture(self._files, self._found(name)) for name in question.images)

    def _found(self, name: str) -> str:
        """Where an image lies: as its path says, in the subtask's folder, or there by its name
        alone."""
        media = f"{self._prefix}{SUBTASKS[self.name][1]}"
        places = (f"{self._prefix}{name}", f"{media}/{name}", name, f"{media}/{Path(name).name}")
        return next((place for place in places if self._has(place)), places[0])

    def _has(self, name: str) -> bool:
        try:
            return self._files.has(name)
        except (
            TaskError
        ):  # it leads out of the data set; looked at, it says so and fails its own sample alone
            return False

    def _frames(self, question: Question) -> tuple[tuple[Picture, ...], list[float]]:
        folder, vid = f"{self._prefix}{SUBTASKS[self.name][1]}", question.meta["pair"]
        names = [f"{folder}/{vid}{suffix}" for suffix in VIDEOS]
        name = next((name for name in names if self._has(name)), "")
        if not name:
            return (
                open_picture(self._files, names[0]),
            ), []  # says which file is missing when it is looked at
        files = self._files
        source = files.root / name if isinstance(files, FolderFiles) else partial(files.read, name)
        video = VideoFrames(source, name, self.frames, self.fps)
        return video.pictures, video.times

    @property
    def _sampling(self) -> str:
        return (
            f"{self.frames} frames from first to last"
            if self.frames
            else f"{self.fps:g} frames per second"
        )

    @cached_property
    def _place(self) -> DataLocation:
        return locate_data(self.path, self.hub, self.revision, ["*.zip", "jsonl/**", "data/**"])

    @cached_property
    def _is_tsv(self) -> bool:
        return self._place[0].suffix.lower() == ".tsv"

    @cached_property
    def _files(self) -> Files:
        folder, _ = self._place
        zips = (
            sorted(folder.glob("*.zip"))
            if folder.is_dir() and not (folder / "jsonl").exists()
            else []
        )
        return open_files(zips[0] if len(zips) == 1 else folder)

    @cached_property
    def _file(self) -> str:
        found = [name for tail in SUBTASKS[self.name][0] for name in self._files.ending(tail)]
        if not found:
            raise TaskError(
                f"{self._files.root} has no {SUBTASKS[self.name][0][0]}; `path` is the folder or"
                " zip that holds jsonl/ and data/, or VLM2Bench_img.tsv"
            )
        return found[0]

    @property
    def _prefix(self) -> str:
        """What stands before `jsonl/` and `data/`: a zip may hold them in a folder of its own."""
        return self._file.partition("jsonl/")[0]

    @cached_property
    def _data(self) -> bytes:
        return self._files.read(self._file)

    @cached_property
    def _sha(self) -> str:
        if self._is_tsv:
            return open_table(self._place[0]).sha
        return sha256(self._data)

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(
            self._place[0].name if self._is_tsv else self._file, "rows" if self._is_tsv else "lines"
        )

    @cached_property
    def _questions(self) -> list[Question]:
        self._left_out.clear()
        if self._is_tsv:
            return from_tsv(self._place[0], self.name, self._left_out)
        return from_lines(self._data, self.name, self._left_out)

    def _pair_notes(self) -> list[str]:
        sides = Counter((question.meta["pair"], question.answer) for question in self._questions)
        pairs = Counter(pair for pair, _ in sides)
        shared = sorted({pair for (pair, _), count in sides.items() if count > 1})
        single = [pair for pair, count in pairs.items() if count < 2]
        said = [f"{len(pairs)} pair ids"]
        said += (
            [f"{len(shared)} shared by more than two questions, such as {shared[0]}"]
            if shared
            else []
        )
        said += [f"{len(single)} with one question only, such as {single[0]}"] if single else []
        return ["; ".join(said)]

    @cached_property
    def _chosen(self) -> list[int]:
        rows = [(q.id, {**q.meta, "answer": q.answer}) for q in self._questions]
        return self.subset.choose(rows)
