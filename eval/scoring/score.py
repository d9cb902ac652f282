"""Reads and scores the records of a run without any model call: right, wrong, unreadable or
failed."""

from __future__ import annotations

import gc
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from looktwice.eval.readers.reader import get_reader_name
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.judgements import read_judgements
from looktwice.eval.records.records import PointRow, RecordLines, RunError, RunFolder
from looktwice.eval.scoring.arm_columns import RunColumns, ScoredColumns
from looktwice.eval.scoring.columns import RecordColumns
from looktwice.eval.scoring.labels import make_labels
from looktwice.eval.scoring.record_scorer import (
    JudgementsByRecord,
    ReadingCache,
    RecordScorer,
    read_prices,
)
from looktwice.eval.scoring.verdict import PointScores, RunScores, build_scorer, get_cluster
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError, is_foreign
from looktwice.pipelines.state import Stage

if TYPE_CHECKING:
    from looktwice.pipelines.config.plan import Plan


MIN_STORED_BYTES = 1 << 19
"""The smallest size in bytes of a records.jsonl whose verdicts are stored (about 700 records)."""


def score_run(
    folder: RunFolder,
    reader: Stage | None = None,
    judge: str = "",
    *,
    plan: Plan | None = None,
    plugins: Sequence[str] = (),
    all_arms: bool = False,
) -> RunScores:
    """Read and score the records of a run's current plan, or, with `all_arms`, of all its plans.

    If `reader` is given, it replaces the readers of the run. Readers and the benchmarks' scorers
    are the objects of `plan` if the run was just made from it; otherwise they are built from
    points.yaml, with classes of looktwice and the loaded `plugins`. If the run was judged, the
    judgements of one judge are used: `judge` names it, "" takes the one with the most verdicts in
    each pass, "none" uses none. No judge is called here. Raises RunError if `folder` is not a run
    folder, and if a class of a plugin is missing. If a reader raises an exception, only that record
    is FAILED.
    """
    judged = read_judgements(folder.path, judge)
    present, older = folder.current_and_earlier_points
    shown = [*present, *older] if all_arms else present
    names, planned = make_labels([*present, *older]), folder.facts.get("planned") or {}
    tools = ScoringTools(folder, plan, tuple(plugins), reader, judged.group_by_record())
    # without a plan, all existing draws count
    whole = all_arms or not folder.facts.get("arms")
    scorers = [tools.make_record_scorer(point) for point in shown]
    keep = reader is None and not judge and type(folder) is RunFolder  # others may replace answers
    columns = score_records(folder, shown, scorers, whole=whole, keep=keep)
    clusters = _map_clusters_by_task(folder, shown)
    ids = {task: list(rows) for task, rows in folder.samples_by_task.items()}
    arms, hidden_draws = list[PointScores](), 0
    for place, (point, scorer) in enumerate(zip(shown, scorers, strict=True)):
        samples = folder.samples_by_task.get(point.task_id, {})
        contestant, task = names[point.id]
        hidden_draws += 0 if point.replies_of else columns.count_unscored(place)
        arm = PointScores(
            point,
            samples,
            ScoredColumns(columns.select_arm(place, ids.get(point.task_id, [])), samples),
            contestant=contestant,
            task=task,
            planned=0 if place >= len(present) else planned.get(point.task_id),
            scorer=scorer.scorer,
            score=scorer,
            is_older=place >= len(present),
            run_clusters=clusters[point.task],
        )
        arms.append(_set_reader_names(arm))
    hidden = () if all_arms else tuple(" on ".join(names[point.id]) for point in older)
    return RunScores(folder, tuple(arms), judged, hidden, hidden_draws)


def score_records(
    folder: RunFolder,
    points: Sequence[PointRow],
    scorers: Sequence[RecordScorer],
    *,
    whole: bool,
    keep: bool,
) -> RunColumns:
    """Score every record that one of the points reads. Draws that a point no longer has are scored
    only if `whole` is true. With `keep`, verdicts stored in the run's folder are reused, and new
    ones are stored there."""
    places = {
        task: {name: place for place, name in enumerate(rows)}
        for task, rows in folder.samples_by_task.items()
    }
    kept = loaded = None
    if keep and _is_large(folder):
        from looktwice.eval.scoring.kept import StoredVerdicts

        kept = StoredVerdicts.of(folder, points, scorers, places, whole)
        loaded = kept.load() if kept else None
    made, lines = loaded or (RecordColumns(), RecordLines(folder.path / "records.jsonl"))
    is_complete, before = True, lines.end
    readers = defaultdict[str, list[int]](list)  # the indices of the points that read a record
    for arm, point in enumerate(points):
        readers[point.records_id].append(arm)
    tasks = [(places.get(p.task_id, {}), folder.samples_by_task.get(p.task_id, {})) for p in points]
    with pause_collection():
        for record in lines:
            for arm in readers.get(record.point, ()):
                own, rows = tasks[arm]
                place = own.get(record.sample)
                if place is None:
                    is_complete = False  # its sample may be added later
                elif not whole and record.draw >= points[arm].draws:
                    made.add_unscored(arm, place, record.draw)
                else:
                    scored = scorers[arm](record, rows[record.sample])
                    made.add(arm, place, scored, lines.begin)
    if kept and is_complete and lines.end > before:
        kept.save(made, lines)
    return RunColumns.from_records(made)


def _is_large(folder: RunFolder) -> bool:
    path = folder.path / "records.jsonl"
    return path.exists() and path.stat().st_size >= MIN_STORED_BYTES


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause cyclic garbage collection, because scores and reports create millions of objects and no
    cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _map_clusters_by_task(
    folder: RunFolder, points: Sequence[PointRow]
) -> Mapping[str, Mapping[str, str]]:
    """Return the cluster of each sample, by task name and sample id. Clusters are taken from the
    task's first variant, because other variants may change the pictures."""
    clusters = defaultdict[str, dict[str, str]](dict)
    for task, task_id in dict.fromkeys((point.task, point.task_id) for point in points):
        for name, row in folder.samples_by_task.get(task_id, {}).items():
            clusters[task].setdefault(name, get_cluster(task, row))
    return clusters


def _set_reader_names(scores: PointScores) -> PointScores:
    """Return the scores with the names of the reader, if it was needed, and of each judge whose
    judgements were used."""
    names, was_needed = dict[str, None](), False
    for words in scores.columns.count_by_words():
        if words.judge:
            names[f"judge {words.judge}"] = None
        else:
            was_needed |= words.read or words.reason == "unread"
    if was_needed and isinstance(scores.score, RecordScorer):
        names = {get_reader_name(scores.score.reader): None} | names
    return replace(scores, reader=" + ".join(names))


@dataclass(frozen=True)
class ScoringTools:
    """Builds the scorers of a run's records, from the arms of its plan or else from points.yaml."""

    folder: RunFolder
    plan: Plan | None = None
    plugins: tuple[str, ...] = ()
    reader: Stage | None = None
    judgements: JudgementsByRecord = field(default_factory=dict)
    memory: ReadingCache = field(default_factory=ReadingCache)

    def make_record_scorer(self, point: PointRow) -> RecordScorer:
        """Return the scorer of one point's records. Raises RunError if a class cannot be built."""
        if point.id in self.plan_scorers:
            return self.plan_scorers[point.id]
        try:
            binder = Binder.for_run(self.folder.path, self.plugins)
            reader = self.reader or (binder.build(point.read) if point.read else Robust())
            scorer, prices = build_scorer(point.facts, binder), read_prices(point, binder)
        except ConfigError as exc:
            raise RunError(f"{self.folder.path}: {self._explain(point, exc)}") from exc
        return RecordScorer(self.folder, reader, scorer, self.judgements, prices, self.memory)

    @cached_property
    def plan_scorers(self) -> Mapping[str, RecordScorer]:
        """The scorers of the plan's arms by id, built from the plan's own objects rather than from
        points.yaml. Raises ConfigError."""
        if self.plan is None:
            return {}
        binder = Binder.for_checked_paths(self.plan.plugins)
        scorers = {}
        for arm in (*self.plan.points, *self.plan.readings):
            try:
                scorer = build_scorer({"scorer": arm.task.facts.scorer}, binder)
            except ConfigError as exc:
                place = f"tasks.{arm.task_name}: the scorer of its facts"
                raise ConfigError([f"{place}: {exc}"]) from exc
            reader, prices = self.reader or arm.read, read_prices(arm, binder)
            scorers[arm.id] = RecordScorer(
                self.folder, reader, scorer, self.judgements, prices, self.memory
            )
        return scorers

    def _explain(self, point: PointRow, exc: ConfigError) -> str:
        """Explain which class cannot be built, and what to type if it belongs to a plugin that was
        not named."""
        nodes = {"reader": point.read, "scorer": point.facts.get("scorer") or {}}
        for kind, node in nodes.items():
            use = str(node.get("use", ""))
            module, _, rest = use.partition(".")
            if module in self.plugins or not is_foreign(use) or (kind == "reader" and self.reader):
                continue
            name = rest.rpartition(".")[2]
            replaced = f"pass score_table(..., reader={name}()), " if kind == "reader" else ""
            if module == "__main__":
                return (
                    f"its {kind} {use} is a class of the script or notebook that made the run. Call"
                    f" evaluate() there again, which repeats no request, {replaced}or move the"
                    " class to a file of its own"
                )
            files = {module: module if "." in rest else f"{module}.py"}
            for plugin in self.folder.facts.get("plugins") or ():
                files[str(plugin["name"])] = str(plugin["path"])
            options = " ".join(f"--plugin {shlex.quote(path)}" for path in files.values())
            return (
                f"its {kind} {use} is a class of the plugin {files[module]}, and a plugin is loaded"
                " only if you name it: add it to the command, as in `looktwice score"
                f" {shlex.quote(str(self.folder.path))} {options}`; in Python"
                f" {replaced and replaced + 'or '}import {module} and pass `plugins=[{module!r}]`"
            )
        return f"{point.contestant} on {point.task} cannot be scored: {exc}"
