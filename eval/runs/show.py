"""`looktwice show`: shows one sample of a run as a page and in lines, running its stages with
recorded replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    folder, binder = RunFolder(run), Binder(Scope.of_records(Path(run), plugins))
    present, older = folder.present_and_older
    names = labels([*present, *older])
    rows = [row for row in folder.samples.values() if row.id == sample]
    if not rows:
        ids = sorted({row.id for row in folder.samples.values()})
        raise RunError(
            f"{run} has no sample {sample!r}; it has {len(ids)}, such as {', '.join(ids[:5])}"
        )
    records = list(folder.records(sample).values())
    tools = ScoringTools(folder, plugins=tuple(plugins), judgements=judgements(run).by_record())
    for row, path in _pages(folder, rows, names, out):
        points = {names[point.id][0]: point for point in present if point.task_id == row.task}
        with use_recorded_findings(folder, cache):
            shown = list(_arms(tools, points, row, records, binder))
        write_file(path, page(sample, row.sample["question"], row.answer, shown))
        yield f"{sample}: {row.sample['question']}  (key: {row.answer})"
        for one in shown:
            yield one.label
            yield from words(one)
        asked = {record.point for record in records}
        if missing := [label for label, point in points.items() if point.recorded_as not in asked]:
            yield f"not asked yet: {', '.join(missing)}"
        yield from (f"shown with the stored pictures, for {fault}" for fault in binder.faults)
        binder.faults.clear()
        yield f"page: {path}"


def sample_page(run: Path, task: str, sample: str, plugins: Sequence[str] = ()) -> str:
    """The page of one sample of the task with this id, as `show_sample` writes it. Raises
    RunError."""
    folder, binder = RunFolder(run), Binder(Scope.of_records(run, tuple(plugins)))
    present, older = folder.present_and_older
    names, row = labels([*present, *older]), folder.samples_of[task][sample]
    points = {names[point.id][0]: point for point in present if point.task_id == task}
    tools = ScoringTools(folder, plugins=tuple(plugins), judgements=judgements(run).by_record())
    with use_recorded_findings(folder, None):
        shown = list(_arms(tools, points, row, list(folder.records(sample).values()), binder))
    return page(sample, row.sample["question"], row.answer, shown)


def _pages(
    folder: RunFolder,
    rows: Sequence[SampleRow],
    names: Mapping[str, tuple[str, str]],
    out: Path | None,
) -> Iterator[tuple[SampleRow, Path]]:
    """Each row with its file, whose name is told from those of the run's other samples."""
    if out is not None:
        refuse_run_file(out)
    path = (
        out
        or folder.path
        / "show"
        / f"{file_names(row.id for row in folder.samples.values())[rows[0].id]}.html"
    )
    tasks = {folder.points[name].task_id: task for name, (_, task) in names.items()}
    for row in rows:
        ending = f" {tasks.get(row.task, row.task)}" if len(rows) > 1 else ""
        name = f"{path.stem}{ending}"
        yield row, path.with_name(f"{file_names([name])[name] if ending else name}{path.suffix}")


def _arms(
    tools: ScoringTools,
    points: Mapping[str, PointRow],
    row: SampleRow,
    records: Sequence[Record],
    binder: Binder,
) -> Iterator[Shown]:
    """Every point that has a record of the sample, by the labels and in the order of the tables."""
    folder = tools.folder
    given = next(
        (_sample(folder, point, row, binder) for point in points.values()),
        row.without_pixels(folder.blobs),
    )
    for label, point in points.items():
        score = tools.record_scorer(point)
        for record in (record for record in records if record.point == point.recorded_as):
            stages = build_stages(folder, point, binder)
            state, error = rerun(folder, point, stages, given, record)
            if (
                error and not record.error
            ):  # as where only the pictures that were sent are kept, not the sample's own
                state, error = _as_recorded(folder, given, record), ""
            found = score(record, row)
            why = record.error or error or (found.detail if found.verdict is Verdict.FAILED else "")
            draw = f", draw {record.draw}" if point.draws > 1 else ""
            system = (point.spec.get("model") or {}).get("system", "")
            outcome = _outcome(found, row, score.reader)
            yield Shown(f"{label}{draw}", state, why, outcome, stages, system)


def _as_recorded(folder: RunFolder, sample: Sample, record: Record) -> State:
    """A state with the conversations and the answer that were recorded, as of one stage."""
    calls = []
    for number, call in enumerate(record.calls):
        messages, reply = folder.messages(record, number), call.get("reply")
        sent = messages[:-1] if reply else messages
        made = Reply.from_dict(reply) if reply else None
        calls.append(
            Call(
                sent, record.draw, CallOptions(), made, call.get("error", ""), call.get("model", "")
            )
        )
    step = Step(
        "as recorded", record.timings.get("seconds", 0.0), tuple(calls), (), sample.question
    )
    return State(
        sample,
        (),
        sample.question,
        (),
        record.answer,
        record.reason,
        trace=(step,),
        notes=record.notes,
    )


def _outcome(scored: ScoredRecord, row: SampleRow, reader: Stage) -> str:
    """The verdict as tables count it, the answer and who found it or why there is none, and the
    key."""
    value = f" ({scored.score.value:.2f})" if 0 < scored.score.value < 1 else ""
    key = "the key is hidden" if row.answer is None else f"the key is {row.answer!r}"
    if scored.answer is None:
        said = scored.reason
    elif scored.read or scored.judge:
        said = f"{scored.answer!r}, read by {scored.judge or reader_name(reader)}"
    else:
        said = f"{scored.answer!r}, set by a stage"
    detail = scored.detail.removeprefix(f"{scored.reason}: ").partition("\n")[0]
    why = f": {detail}" if scored.reason and detail and detail != said else ""
    return f"{scored.verdict.upper()}{value}: {said or detail}{why}; {key}"


def _sample(folder: RunFolder, point: PointRow, row: SampleRow, binder: Binder) -> Sample:
    task = binder.node(point.spec["task"], "task")
    try:
        current = find_item(task, row.id) if task is not None else None
    except TaskError:
        current = None
    known = current is not None and current.sample.sha == row.sha
    return current.sample if current and known else row.without_pixels(folder.blobs)
