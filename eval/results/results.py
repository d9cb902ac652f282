"""Results for notebooks: the scored runs, the samples whose verdict a variant flipped, and the
files for a paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO
from itertools import product
from operator import attrgetter
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, overload

from looktwice.eval.analysis.factors import effects_csv
from looktwice.eval.analysis.finding import Finding, find
from looktwice.eval.display.printable import load_template
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.records.records import Record, RunError, SampleRow
from looktwice.eval.results.record_table import record_table, write_parquet
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import ValueMatrix
from looktwice.pipelines.config.classes import suggest_names
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.extensions import find_extension
from looktwice.pipelines.picture import Picture, PictureError, make_thumbnail_url
from looktwice.pipelines.state import Stage

if TYPE_CHECKING:
    import pandas

Arm = tuple[RunScores, PointScores]
MAX_SHOWN_FLIPS, MAX_THUMBNAIL_SIDE, MAX_REPLY_CHARACTERS = 24, 200, 400
"""Limits for display in a notebook: the number of samples, the longest side of a thumbnail in
pixels, and the characters of a reply."""
FLIP_COLUMNS: Mapping[str, str] = {
    "task": "task",
    "sample": "sample",
    "gained": "gained",
    "question": "question",
    "key": "row.answer",
    "answer_before": "before.scored.answer",
    "answer_after": "after.scored.answer",
    "verdict_before": "before.scored.verdict.value",
    "verdict_after": "after.scored.verdict.value",
    "reply_before": "before.reply",
    "reply_after": "after.reply",
}
"""The columns of `Flips.to_pandas`, and the attribute of a flip with each value."""


def _open_part(name: str) -> Any:
    part = find_extension("parts", name)
    if part is None:
        raise RunError(f"{name} are written by an extension that is not installed")
    return part.open()


@dataclass(frozen=True)
class FirstDraw:
    """The first draw of one of two contestants on a sample: its score, its record, and the run that
    stores its pictures."""

    scored: ScoredRecord
    record: Record | None
    run: RunScores = field(repr=False)

    @property
    def reply(self) -> str:
        """The text of the last reply; empty if a stage answered."""
        last = self.record.last_reply if self.record else None
        return str(last["text"]) if last else ""

    @property
    def outcome(self) -> str:
        """The answer, or the reason why there is none."""
        return self.scored.answer or self.scored.reason or self.scored.verdict.value

    @property
    def pictures(self) -> list[Picture]:
        """The pictures that were sent, loaded on first access."""
        blobs: Any = self.run.folder.blobs
        return [
            Picture.lazy(partial(blobs.get, sha), f"picture {sha[:12]}")
            for sha in (self.record.pictures if self.record else ())
        ]

    @property
    def thumbnails(self) -> Iterator[tuple[str, str]]:
        """The data URL of each picture, or the reason why there is none."""
        for picture in self.pictures:
            try:
                yield make_thumbnail_url(picture, MAX_THUMBNAIL_SIDE), ""
            except (PictureError, OSError) as exc:
                yield "", str(exc)


@dataclass(frozen=True)
class Flip:
    """A sample on which one of two contestants is right and the other is not; it is `gained` if the
    second is right."""

    task: str
    row: SampleRow
    before: FirstDraw
    after: FirstDraw

    @property
    def gained(self) -> bool:
        """True if the second contestant is right."""
        return self.after.scored.verdict is Verdict.RIGHT

    @property
    def sample(self) -> str:
        """The sample's id."""
        return self.row.id

    @property
    def question(self) -> str:
        """The text of the question."""
        return str(self.row.sample["question"])

    @property
    def choices(self) -> str:
        """The text choices with their letters."""
        letters = zip(ascii_uppercase, self.row.sample["choices"], strict=False)
        return "; ".join(f"({letter}) {text}" for letter, text in letters if isinstance(text, str))


@dataclass(frozen=True)
class Flips(Sequence[Flip]):
    """The samples that flip between `before` and `after`, gained ones first.

    `n` samples have a correct answer and failed for neither contestant; `left_out` counts the
    others. Of several draws, the first counts. `difference` is the paired difference over the `n`
    samples. A notebook shows the first 24 flips with pictures and replies.
    """

    before: str
    after: str
    items: tuple[Flip, ...] = field(repr=False)
    n: int
    left_out: int
    difference: Estimate

    @overload
    def __getitem__(self, index: int) -> Flip: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Flip]: ...
    def __getitem__(self, index: int | slice) -> Flip | Sequence[Flip]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    @property
    def gained(self) -> list[Flip]:
        """The samples on which only `after` is right."""
        return [flip for flip in self.items if flip.gained]

    @property
    def lost(self) -> list[Flip]:
        """The samples on which only `before` is right."""
        return [flip for flip in self.items if not flip.gained]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row per flip: task, sample, question, correct answer, whether it was gained, and
        the answers, verdicts and replies of both contestants."""
        import pandas

        read = attrgetter(*FLIP_COLUMNS.values())
        return pandas.DataFrame([read(flip) for flip in self.items], columns=[*FLIP_COLUMNS])

    def __repr__(self) -> str:
        lines = [
            f"  {'+' if flip.gained else '-'} {flip.task} {flip.sample}: {flip.before.outcome} ->"
            f" {flip.after.outcome}, correct: {flip.row.answer}"
            for flip in self.items
        ]
        return "\n".join([self.summary, *lines])

    def _repr_html_(self) -> str:
        return str(
            load_template("flips.html.j2").render(
                flips=self, most=MAX_SHOWN_FLIPS, characters=MAX_REPLY_CHARACTERS
            )
        )

    @property
    def summary(self) -> str:
        """A sentence with the number gained and lost, and the difference."""
        gap, left_out = (self.difference, f" ({self.left_out} left out)" if self.left_out else "")
        return (
            f"{self.after} against {self.before}: {len(self.gained)} gained, {len(self.lost)} lost"
            f" of {self.n} samples{left_out}; {100 * gap.value:+.1f} points"
            f" [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}], p = {gap.p:.4g} ({gap.test})"
        )


@dataclass(frozen=True)
class Results:
    """The results of one or several runs; `table` holds the rows of report.csv and the scores from
    which they were computed.

        results = Results.open("runs/study")
        results.flips("plain", "circles")  # in a notebook: samples with pictures and replies
        results.to_pandas().groupby("contestant")["score"].mean()

    Contestants have the same names as in the table; a name that several runs share becomes "name
    (run)".
    """

    table: Table

    @classmethod
    def open(
        cls,
        *runs: str | Path,
        reader: Stage | None = None,
        judge: str = "",
        plugins: Sequence[str] = (),
        all_arms: bool = False,
    ) -> Results:
        """Read and score run folders; the arguments are those of `score_table`. Raises RunError."""
        if not runs:
            raise RunError("Results.open needs a run folder, such as Results.open('runs/study')")
        return cls(score_table(list(runs), reader, judge=judge, plugins=plugins, all_arms=all_arms))

    @property
    def finding(self) -> Finding:
        """The findings of the study, as rows and sentences."""
        return find(self.table)

    def effects(self) -> pandas.DataFrame:
        """Return the effect of each factor of a sweep and of each change of `each`: the columns of
        effects.csv, as shares."""
        import pandas

        return pandas.read_csv(StringIO(effects_csv(self.table)))

    def with_names(self, names: Mapping[str, str]) -> Results:
        """Return the results with contestants renamed, for example for a paper: {"plain
        [mark.radius=9]": "small ring"}. Raises RunError for an unknown name."""
        contestants = {row.contestant for row in self.table.rows}
        for name in names:
            if name not in contestants:
                known = ", ".join(sorted(contestants))
                near = suggest_names(name, contestants) or f"; there are {known}"
                raise RunError(f"there is no contestant {name!r}{near}")

        def rename(old: str) -> str:
            return names.get(old, old)

        rows, runs = list[Row](), list[RunScores]()
        for row in self.table.rows:
            who, against = rename(row.contestant), rename(row.baseline)
            rows.append(replace(row, contestant=who, baseline=against))
        for run in self.table.scores:
            arms = (replace(arm, contestant=rename(arm.contestant)) for arm in run.points)
            runs.append(replace(run, points=tuple(arms)))
        return Results(replace(self.table, rows=tuple(rows), scores=tuple(runs)))

    @property
    def contestants(self) -> list[str]:
        """The names of the contestants, with their changes: valid arguments of `flips`."""
        return list(self._arms_by_name)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row per record, with the columns of `eval.results.record_table.FIELDS`;
        `table.to_pandas()` returns the means."""
        return record_table(self.table.scores).to_pandas()

    def flips(self, before: str, after: str, task: str = "") -> Flips:
        """Return the samples on which one of two contestants is right and the other is not, on one
        task or on all.

        Compares the first draws on the samples that have a correct answer and failed for neither.
        Raises RunError for an unknown contestant or task, and if the two have no task in common.
        """
        pairs, theirs = list[tuple[Arm, Arm]](), self._find_arms(after, task)
        for arm, rival in product(self._find_arms(before, task), theirs):
            mine, against = arm[1], rival[1]
            # in runs of other data, tasks of the same name count as equal
            alike = (mine.task, mine.point.task) == (against.task, against.point.task)
            if alike or mine.point.task_id == against.point.task_id:
                pairs.append((arm, rival))
        if not pairs:
            named = f" named {task!r}" if task else ""
            raise RunError(f"{before!r} and {after!r} have no task in common{named}")
        hits: tuple[dict[tuple[int, str], float], ...] = {}, {}
        clusters = dict[tuple[int, str], str]()
        for number, pair in enumerate(pairs):
            for side, (_, scores) in zip(hits, pair, strict=True):
                for name, first in scores.first_records.items():
                    side[number, name] = float(first.verdict is Verdict.RIGHT)
            clusters |= {(number, name): group for name, group in pair[0][1].clusters.items()}
        values = ValueMatrix.of(
            {"before": hits[0], "after": hits[1]}, clusters, lambda unit: unit[0]
        )
        difference = values.compare_arms("after", "before")
        if difference is None:
            raise RunError(f"{before!r} and {after!r} share no sample that has a correct answer")
        changed = values.where(values.valid_mask() & (values["before"] != values["after"])).units
        flips = _build_flips([(*pairs[number], name) for number, name in changed])
        flips.sort(key=lambda flip: not flip.gained)
        left_out = values.count_unpaired("before", "after")
        return Flips(before, after, tuple(flips), difference.n, left_out, difference)

    def save_figures(self, folder: str | Path) -> list[Path]:
        """Write the figures of a paper to a folder, each as SVG and PDF, and return their paths.
        Needs matplotlib."""
        paths: list[Path] = _open_part("figures")(self.table, Path(folder))
        return paths

    def to_latex(self) -> str:
        """Return the accuracies as a LaTeX table with booktabs: the best of a column in bold, and
        stars for significance."""
        text: str = _open_part("latex")(self.table)
        return text

    def save_latex(self, path: str | Path) -> Path:
        """Write `to_latex()` to a file and return its path."""
        write_file(Path(path), self.to_latex())
        return Path(path)

    def save_parquet(self, path: str | Path) -> int:
        """Write a row per record, as in `to_pandas`, to a Parquet file; return their number."""
        return write_parquet(self.table.scores, Path(path))

    @property
    def _arms_by_name(self) -> Mapping[str, Sequence[Arm]]:
        by_run = defaultdict[str, dict[str, list[Arm]]](lambda: defaultdict(list))
        for run in self.table.scores:
            for scores in run.points:
                by_run[scores.contestant][run.name].append((run, scores))
        arms = dict[str, Sequence[Arm]]()
        for name, runs in by_run.items():
            for run_name in runs:
                arms[name if len(runs) == 1 else f"{name} ({run_name})"] = runs[run_name]
        return arms

    def _find_arms(self, name: str, task: str) -> list[Arm]:
        arms = self._arms_by_name
        if name not in arms:
            older = [label for run in self.table.scores for label in run.older_labels]
            near = suggest_names(name, arms) or f"; there are {', '.join(arms)}"
            if name in (label.rpartition(" on ")[0] for label in older):
                near = "; an earlier plan of the folder has it: Results.open(..., all_arms=True)"
            raise RunError(f"there is no contestant {name!r}{near}")
        tasks = dict.fromkeys(scores.task for _, scores in arms[name])
        asked = [arm for arm in arms[name] if task in ("", arm[1].task, arm[1].point.task)]
        if not asked:
            raise RunError(
                f"{name!r} was not asked {task!r}; its tasks are {', '.join(map(repr, tasks))}"
            )
        return asked


def _build_flips(changed: Sequence[tuple[Arm, Arm, str]]) -> list[Flip]:
    """Build the flips of these samples, reading the records of each run once."""
    names = {name for *_, name in changed}
    runs = {run.folder.path: run for *arms, _ in changed for run, _ in arms}
    records = dict[tuple[Path, str, str], Record]()
    for path, run in runs.items():
        for record in run.folder.last_records(names):
            if record.draw == 0:
                records[path, record.point, record.sample] = record

    def make_first_draw(arm: Arm, name: str) -> FirstDraw:
        run, scores = arm
        record = records.get((run.folder.path, scores.point.records_id, name))
        return FirstDraw(scores.scored[name][0], record, run)

    return [
        Flip(
            before[1].task,
            before[1].samples[name],
            make_first_draw(before, name),
            make_first_draw(after, name),
        )
        for before, after, name in changed
    ]
