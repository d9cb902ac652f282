"""`looktwice show`: shows one sample of a run as a page and in lines, running its stages with recorded replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from looktwice.eval.display.sample_page import page, words
from looktwice.eval.records.records import PointRow, Record, RunError, RunFolder, SampleRow
from looktwice.eval.runs.replay import build_stages, rerun, use_recorded_findings
from looktwice.eval.scoring.labels import label_with_changes
from looktwice.eval.tasks.base import MadeTask, TaskError, find_item
from looktwice.pipelines.config.build import Binder, Scope
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample


def show_sample(
    run: Path, sample: str, out: Path | None = None, plugins: Sequence[str] = (), cache: Path | None = None
) -> Iterator[str]:
    """Write the page of one sample and yield its content as lines. Raises RunError.

    The stages run again on the task's data, or on the stored pictures if that data is no longer available.
    `cache` is the cache folder of the run with the results of its specialists (None: `.cache` beside it).
    """
    folder, binder = RunFolder(run), Binder(Scope(Path("/"), (), tuple(plugins)))
    points = folder.points
    rows = [row for row in folder.samples.values() if row.id == sample]
    if not rows:
        ids = sorted({row.id for row in folder.samples.values()})
        raise RunError(f"{run} has no sample {sample!r}; it has {len(ids)}, such as {', '.join(ids[:5])}")
    records = [record for key, record in folder.records().items() if key[1] == sample]
    for row in rows:
        pairs = [(points[r.point], r) for r in records if points[r.point].task_id == row.task]
        labelled = []
        with use_recorded_findings(folder, cache):
            for point, record in pairs:
                given, stages = _sample(folder, point, row, binder), build_stages(folder, point, binder)
                state, error = rerun(folder, point, stages, given, record)
                labelled.append((_label(point, record), state, record.error or error))
        path = out or run / "show" / f"{sample.replace('/', '_')}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(sample, row.sample["question"], row.answer, labelled), encoding="utf-8")
        yield f"{sample}: {row.sample['question']}  (key: {row.answer})"
        for label, state, error in labelled:
            yield label
            yield from words(state)
            yield from ([f"  FAILED: {error.splitlines()[0]}"] if error else [])
        yield f"page: {path}"


def sample_images(plan: Plan) -> Callable[[str, str], tuple[Picture, ...]]:
    """A function (task id, sample id) -> the sample's own images, empty if the task's data is not available."""
    tasks = {point.task_id: point.task for point in plan.points}
    loaded: dict[str, dict[str, Sample]] = {}

    def images(task_id: str, sample: str) -> tuple[Picture, ...]:
        task = tasks.get(task_id, ())
        if isinstance(task, MadeTask):
            return item.sample.images if (item := task.item(sample)) else ()
        if task_id not in loaded:
            loaded[task_id] = {item.sample.id: item.sample for item in task}
        match = loaded[task_id].get(sample)
        return match.images if match else ()

    return images


def _sample(folder: RunFolder, point: PointRow, row: SampleRow, binder: Binder) -> Sample:
    task = binder.node(point.spec["task"], "task")
    try:
        current = find_item(task, row.id) if task is not None else None
    except TaskError:
        current = None
    known = current is not None and current.sample.sha == row.sha
    return current.sample if current and known else row.without_pixels(folder.blobs)


def _label(point: PointRow, record: Record) -> str:
    draw = f", draw {record.draw}" if point.draws > 1 else ""
    return label_with_changes(point.contestant, point.changes) + draw
