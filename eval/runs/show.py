"""`looktwice show`: one sample of a run, its stages run again with the recorded replies, as a page and in lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from looktwice.eval.display.sample_page import page, words
from looktwice.eval.records.records import PointRow, Record, RunError, RunFolder, SampleRow
from looktwice.eval.runs.replay import build_stages, rerun, use_recorded_findings
from looktwice.eval.scoring.labels import label_with_changes
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.build import Binder, Scope
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample


def show_sample(
    run: Path, sample: str, out: Path | None = None, plugins: Sequence[str] = (), cache: Path | None = None
) -> Iterator[str]:
    """Write the page of one sample and say the same in lines. Raises RunError.

    The stages run again on the task's data; where that is gone, they are shown on the pictures that were kept.
    `cache` is the folder that the run kept (None: `.cache` beside it), with what its specialists found.
    """
    folder, binder = RunFolder(run), Binder(Scope(Path("/"), (), tuple(plugins)))
    points_there = folder.points
    rows = [row for row in folder.samples.values() if row.id == sample]
    if not rows:
        ids = sorted({row.id for row in folder.samples.values()})
        raise RunError(f"{run} has no sample {sample!r}; it has {len(ids)}, such as {', '.join(ids[:5])}")
    records = [record for key, record in folder.records().items() if key[1] == sample]
    for row in rows:
        pairs = [(points_there[r.point], r) for r in records if points_there[r.point].task_id == row.task]
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
    """A function (task id, sample id) -> the sample's own images, as long as the task's data is there."""
    tasks = {point.task_id: point.task for point in plan.points}
    found: dict[str, dict[str, Sample]] = {}

    def images(task_id: str, sample: str) -> tuple[Picture, ...]:
        if task_id not in found:
            found[task_id] = {item.sample.id: item.sample for item in tasks[task_id]} if task_id in tasks else {}
        there = found[task_id].get(sample)
        return there.images if there else ()

    return images


def _sample(folder: RunFolder, point: PointRow, row: SampleRow, binder: Binder) -> Sample:
    task = binder.node(point.spec["task"], "task")
    try:
        found = next((item.sample for item in task or () if item.sample.id == row.id), None)
    except TaskError:
        found = None
    return found if found is not None and found.sha == row.sha else row.without_pixels(folder.blobs)


def _label(point: PointRow, record: Record) -> str:
    draw = f", draw {record.draw}" if point.draws > 1 else ""
    return label_with_changes(point.contestant, point.changes) + draw
