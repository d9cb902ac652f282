"""`looktwice show`: shows one sample of a run as a page and in lines, running its stages with
recorded replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from looktwice.eval.display.sample_figures import Shown
from looktwice.eval.display.sample_page import file_names, page, words
from looktwice.eval.readers.reader import reader_name
from looktwice.eval.records.judgements import judgements
from looktwice.eval.records.records import (
    PointRow,
    Record,
    RunError,
    RunFolder,
    SampleRow,
    refuse_run_file,
)
from looktwice.eval.runs.replay import build_stages, rerun, use_recorded_findings
from looktwice.eval.scoring.labels import labels
from looktwice.eval.scoring.score_run import ScoringTools
from looktwice.eval.scoring.verdict import ScoredRecord, Verdict
from looktwice.eval.tasks.base import TaskError, find_item
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import CallOptions, Reply
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Call, Stage, State, Step


def show_sample(
    run: Path,
    sample: str,
    out: Path | None = None,
    plugins: Sequence[str] = (),
    cache: Path | None = None,
) -> Iterator[str]:
    """Write the page of one sample and yield its content as lines; a sample of several tasks has a
    page for each.

    The stages run again on the task's data, or on the stored pictures if that data is gone or must
    not be read. `cache` is the cache folder of the run with the results of its specialists (None:
    `.cache` beside it). Raises RunError.
    """
    shown = ShownRun(run, plugins)
    folder = shown.folder
    ids = file_names(row.id for row in folder.samples.values())
    rows = [row for row in folder.samples.values() if row.id == sample]
    if not rows:
        raise RunError(
            f"{run} has no sample {sample!r}; it has {len(ids)}, such as"
            f" {', '.join(sorted(ids)[:5])}"
        )
    if out is not None:
        refuse_run_file(out)
    whole = out or folder.path / "show" / f"{ids[sample]}.html"
    tasks = {folder.points[name].task_id: task for name, (_, task) in shown.names.items()}
    for row in rows:
        path = whole
        if len(rows) > 1:  # the name is told from those of the run's other samples
            name = f"{whole.stem} {tasks.get(row.task, row.task)}"
            path = whole.with_name(f"{file_names([name])[name]}{whole.suffix}")
        with use_recorded_findings(folder, cache):
            sections = list(shown.arms(row))
        write_file(path, page(sample, row.sample["question"], row.answer, sections))
        yield f"{sample}: {row.sample['question']}  (key: {row.answer})"
        for section in sections:
            yield section.label
            yield from words(section)
        asked = {key[0] for key in folder.records(sample)}
        points = shown.points(row)
        if missing := [label for label, point in points.items() if point.recorded_as not in asked]:
            yield f"not asked yet: {', '.join(missing)}"
        yield from (f"shown with the stored pictures, for {fault}" for fault in shown.binder.faults)
        shown.binder.faults.clear()
        yield f"page: {path}"


def sample_page(run: Path, task: str, sample: str, plugins: Sequence[str] = ()) -> str:
    """The page of one sample of the task with this id, as `show_sample` writes it. Raises
    RunError."""
    shown = ShownRun(run, plugins)
    row = shown.folder.samples_of[task][sample]
    with use_recorded_findings(shown.folder, None):
        sections = list(shown.arms(row))
    return page(sample, row.sample["question"], row.answer, sections)


class ShownRun:
    """A run as its samples are shown: its arms by the labels of the tables, and what builds and
    scores them."""

    def __init__(self, run: Path, plugins: Sequence[str]) -> None:
        self.folder = RunFolder(run)
        self.binder = Binder(Scope.of_records(self.folder.path, plugins))
        self.present, older = self.folder.present_and_older
        self.names = labels([*self.present, *older])
        judged = judgements(self.folder.path).by_record()
        self.tools = ScoringTools(self.folder, plugins=tuple(plugins), judgements=judged)

    def points(self, row: SampleRow) -> dict[str, PointRow]:
        """The points of the sample's task, by the labels and in the order of the tables."""
        points = [point for point in self.present if point.task_id == row.task]
        return {self.names[point.id][0]: point for point in points}

    def arms(self, row: SampleRow) -> Iterator[Shown]:
        """Every point that has a record of the sample."""
        folder, points = self.folder, self.points(row)
        records, given = folder.records(row.id).values(), row.without_pixels(folder.blobs)
        for point in islice(points.values(), 1):
            given = self._sample(point, row) or given
        for label, point in points.items():
            score = self.tools.record_scorer(point)
            for record in (record for record in records if record.point == point.recorded_as):
                stages = build_stages(folder, point, self.binder)
                state, error = rerun(folder, point, stages, given, record)
                if error and not record.error:
                    # only the pictures that were sent are kept, say, not the sample's own
                    state, error = _as_recorded(folder, given, record), ""
                scored = score(record, row)
                failed = scored.verdict is Verdict.FAILED
                why = record.error or error or (scored.detail if failed else "")
                draw = f", draw {record.draw}" if point.draws > 1 else ""
                system = (point.spec.get("model") or {}).get("system", "")
                outcome = _outcome(scored, row, score.reader)
                yield Shown(f"{label}{draw}", state, why, outcome, stages, system)

    def _sample(self, point: PointRow, row: SampleRow) -> Sample | None:
        """The sample as the task gives it, if that is still the same."""
        task = self.binder.node(point.spec["task"], "task")
        with suppress(TaskError):
            item = find_item(task, row.id) if task is not None else None
            if item is not None and item.sample.sha == row.sha:
                return item.sample
        return None


def _as_recorded(folder: RunFolder, sample: Sample, record: Record) -> State:
    """A state with the conversations and the answer that were recorded, as of one stage."""
    calls = []
    for number, call in enumerate(record.calls):
        messages, reply = folder.messages(record, number), call.get("reply")
        sent = messages[:-1] if reply else messages
        made = Reply.from_dict(reply) if reply else None
        error, model = call.get("error", ""), call.get("model", "")
        calls.append(Call(sent, record.draw, CallOptions(), made, error, model))
    seconds = record.timings.get("seconds", 0.0)
    step = Step("as recorded", seconds, tuple(calls), (), sample.question)
    return State(
        sample,
        prompt=sample.question,
        answer=record.answer,
        reason=record.reason,
        trace=(step,),
        notes=record.notes,
    )


def _outcome(scored: ScoredRecord, row: SampleRow, reader: Stage) -> str:
    """The verdict as tables count it, the answer and who found it or why there is none, and the
    key."""
    value = f" ({scored.score.value:.2f})" if 0 < scored.score.value < 1 else ""
    key = "the key is hidden" if row.answer is None else f"the key is {row.answer!r}"
    if scored.answer is None:
        answer = scored.reason
    elif scored.read or scored.judge:
        answer = f"{scored.answer!r}, read by {scored.judge or reader_name(reader)}"
    else:
        answer = f"{scored.answer!r}, set by a stage"
    detail = scored.detail.removeprefix(f"{scored.reason}: ").partition("\n")[0]
    why = f": {detail}" if scored.reason and detail and detail != answer else ""
    return f"{scored.verdict.upper()}{value}: {answer or detail}{why}; {key}"
