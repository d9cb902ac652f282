"""Reads and scores the records of a run, without any model call."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from looktwice.eval.readers.reader import reader_name
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.judgements import judgements
from looktwice.eval.records.records import PointRow, RunError, RunFolder
from looktwice.eval.scoring.benchmark import build_scorer
from looktwice.eval.scoring.labels import labels
from looktwice.eval.scoring.score import JudgementsByRecord, RecordScorer, prices_of
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, cluster_of
from looktwice.pipelines.config.build import build
from looktwice.pipelines.config.classes import ConfigError, is_foreign
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.state import Stage


def score_run(
    folder: RunFolder,
    reader: Stage | None = None,
    judge: str = "",
    *,
    plan: Plan | None = None,
    plugins: Sequence[str] = (),
    all_arms: bool = False,
) -> RunScores:
    """Read and score the records of a run's present plan, or with `all_arms` of every plan that it
    ever had.

    `reader` replaces the readers of the run. They and the benchmarks' scorers are the objects of
    `plan` where the run was just made from it; else they are built as points.yaml names them, from
    looktwice and the loaded `plugins`. If the run was judged, the judgements of one judge are used:
    `judge` names it, "" takes the one that read most, "none" uses no judge. No judge is called
    here. Raises RunError if `folder` is not a run folder, and where a class of a plugin is missing.
    A reader that raises makes only that record FAILED.
    """
    judged = judgements(folder.path, judge)
    present, older = folder.present_and_older
    shown = [*present, *older] if all_arms else present
    names, planned = labels([*present, *older]), folder.facts.get("planned") or {}
    tools = ScoringTools(folder, plan, tuple(plugins), reader, judged.by_record())
    clusters = _clusters_by_task(folder, shown)
    arms: list[PointScores] = []
    scored: list[dict[str, dict[int, ScoredRecord]]] = []
    readers = defaultdict[str, list[int]](list)  # the places of the arms that read a record
    for place, point in enumerate(shown):
        scorer, samples = tools.record_scorer(point), folder.samples_of.get(point.task_id, {})
        scored.append({name: {} for name in samples})
        contestant, task = names[point.id]
        arms.append(
            PointScores(
                point,
                samples,
                scored[place],
                contestant=contestant,
                task=task,
                planned=0 if place >= len(present) else planned.get(point.task_id),
                scorer=scorer.scorer,
                score=scorer,
                older=place >= len(present),
                run_clusters=clusters[point.task],
            )
        )
        readers[point.recorded_as].append(place)
    # without a plan, all draws that there are count
    whole, hidden_draws = all_arms or not folder.facts.get("arms"), 0
    for record in folder.last_records():  # one at a time: a large run is never in memory as a whole
        for place in readers.get(record.point, ()):
            arm = arms[place]
            if not whole and record.draw >= arm.point.draws:
                hidden_draws += not arm.point.replies_of
            elif arm.score and (row := arm.samples.get(record.sample)):
                scored[place][record.sample][record.draw] = arm.score(record, row)
    hidden = () if all_arms else tuple(" on ".join(names[point.id]) for point in older)
    return RunScores(folder, tuple(map(_with_readers, arms)), judged, hidden, hidden_draws)


def _clusters_by_task(
    folder: RunFolder, points: Sequence[PointRow]
) -> Mapping[str, Mapping[str, str]]:
    """By a task's name the cluster of each sample: that of its first variant, as others may change
    the pictures."""
    clusters: dict[str, dict[str, str]] = defaultdict(dict)
    for task, task_id in dict.fromkeys((point.task, point.task_id) for point in points):
        for name, row in folder.samples_of.get(task_id, {}).items():
            clusters[task].setdefault(name, cluster_of(task, row))
    return clusters


def _with_readers(scores: PointScores) -> PointScores:
    """Named is what extracted the answers: the reader if it was needed, and each judge whose
    judgements were used."""
    names = dict.fromkeys(f"judge {entry.judge}" for entry in scores.all if entry.judge)
    alone = [entry for entry in scores.all if not entry.judge]
    was_needed = any(entry.read or entry.reason == "unread" for entry in alone)
    if was_needed and isinstance(scores.score, RecordScorer):
        names = {reader_name(scores.score.reader): None} | names
    return replace(scores, reader=" + ".join(names))


@dataclass(frozen=True)
class ScoringTools:
    """Makes the scorers of a run's records: from the arms of its plan, else from what points.yaml
    names."""

    folder: RunFolder
    plan: Plan | None = None
    plugins: tuple[str, ...] = ()
    reader: Stage | None = None
    judgements: JudgementsByRecord = field(default_factory=dict)

    def record_scorer(self, point: PointRow) -> RecordScorer:
        """The scorer of the records of one point. Raises RunError where a class cannot be built."""
        if point.id in self.of_plan:
            return self.of_plan[point.id]
        try:
            scope = Scope.of_records(self.folder.path, self.plugins)
            reader = self.reader or (build(point.read, scope) if point.read else Robust())
            scorer, prices = build_scorer(point.facts, scope), prices_of(point, scope)
        except ConfigError as exc:
            raise RunError(f"{self.folder.path}: {self._explain(point, exc)}") from exc
        return RecordScorer(self.folder, reader, scorer, self.judgements, prices)

    @cached_property
    def of_plan(self) -> Mapping[str, RecordScorer]:
        """The scorers of the plan's arms by id, with the objects of the plan itself. Raises
        ConfigError."""
        if self.plan is None:
            return {}
        # the plan's own paths were checked
        scope = Scope(Path("/"), plugins=tuple(self.plan.plugins))
        scorers = {}
        for arm in (*self.plan.points, *self.plan.readings):
            try:
                scorer = build_scorer({"scorer": arm.task.facts.scorer}, scope)
            except ConfigError as exc:
                place = f"tasks.{arm.task_name}: the scorer of its facts"
                raise ConfigError([f"{place}: {exc}"]) from exc
            reader, prices = self.reader or arm.read, prices_of(arm, scope)
            scorers[arm.id] = RecordScorer(self.folder, reader, scorer, self.judgements, prices)
        return scorers

    def _explain(self, point: PointRow, exc: ConfigError) -> str:
        """Which class cannot be built and, where it is of a plugin that was not named, what to
        type."""
        nodes = {"reader": point.read, "scorer": point.facts.get("scorer") or {}}
        for kind, node in nodes.items():
            use = str(node.get("use", ""))
            module, _, rest = use.partition(".")
            if module in self.plugins or not is_foreign(use) or (kind == "reader" and self.reader):
                continue
            name = rest.rpartition(".")[2]
            replaced = f"give score_table(..., reader={name}()), " if kind == "reader" else ""
            if module == "__main__":
                return (
                    f"its {kind} {use} is a class of the script or notebook that made the run. Call"
                    f" evaluate() there again, which asks nothing twice, {replaced}or keep the"
                    " class in a file of its own"
                )
            files = {module: module if "." in rest else f"{module}.py"}
            for plugin in self.folder.facts.get("plugins") or ():
                files[str(plugin["name"])] = str(plugin["path"])
            options = " ".join(f"--plugin {shlex.quote(path)}" for path in files.values())
            return (
                f"its {kind} {use} is a class of the plugin {files[module]}, and code is loaded"
                " only where you name it: add it to the command, as in `looktwice score"
                f" {shlex.quote(str(self.folder.path))} {options}`; in Python"
                f" {replaced and replaced + 'or '}import {module} and give `plugins=[{module!r}]`"
            )
        return f"{point.contestant} on {point.task} cannot be scored: {exc}"
