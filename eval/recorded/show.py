"""Implements `looktwice view --sample`: shows one sample of a run as a page and as lines, running
its stages with recorded replies."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from looktwice.eval.display.printable import make_file_names
from looktwice.eval.display.sample_page import ShownArm, format_arm, render_sample
from looktwice.eval.readers.reader import get_reader_name
from looktwice.eval.recorded.replay import RecordedRun
from looktwice.eval.records.judgements import read_judgements
from looktwice.eval.records.records import PointRow, Record, RunError, SampleRow, refuse_run_file
from looktwice.eval.scoring.labels import make_labels
from looktwice.eval.scoring.score import ScoringTools
from looktwice.eval.scoring.verdict import ScoredRecord, Verdict
from looktwice.eval.tasks.base import TaskError, find_item
from looktwice.pipelines.config.classes import suggest_names
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import CallOptions, Reply
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Call, Stage, State, Step


def show_sample(shown: ShownRun, sample: str, out: Path | None = None) -> Iterator[str]:
    """Write the page of one sample and yield its content as lines; a sample of several tasks gets a
    page for each.

    The stages run again on the task's data, or on the stored pictures if that data is missing or
    must not be read. Raises RunError.
    """
    folder, faults, run = shown.folder, shown.binder.faults, shown.folder.path
    ids = make_file_names(row.id for row in folder.samples.values())
    rows = shown.rows(sample)
    if out is not None:
        refuse_run_file(out)
    whole = out or folder.path / "show" / f"{ids[sample]}.html"
    tasks = {folder.points[name].task_id: task for name, (_, task) in shown.names.items()}
    asked = {key[0] for key in folder.records(sample)}
    for row in rows:
        path = whole
        if len(rows) > 1:  # the name must differ from those of the run's other samples
            name = f"{whole.stem} {tasks.get(row.task, row.task)}"
            path = whole.with_name(f"{make_file_names([name])[name]}{whole.suffix}")
        sections = shown.arms(row)
        write_file(path, _render_row(run, row, sections))
        yield f"{sample}: {row.sample['question']}  (correct answer: {row.answer})"
        for section in sections:
            yield section.label
            yield from format_arm(section)
        points = shown.points(row)
        if missing := [label for label, point in points.items() if point.records_id not in asked]:
            yield f"not asked yet: {', '.join(missing)}"
        while faults:
            yield f"showing stored pictures, because {faults.pop(0)}"
        yield f"page: {path}"
        yield f"studio: {_format_studio_command(run, sample)}"


def render_sample_page(run: Path, task: str, sample: str, plugins: Sequence[str] = ()) -> str:
    """Return the page of one sample of this task, as `show_sample` writes it. Raises RunError."""
    shown = ShownRun(run, plugins)
    row = shown.folder.samples_by_task[task][sample]
    return _render_row(run, row, shown.arms(row))


def _render_row(run: Path, row: SampleRow, sections: Sequence[ShownArm]) -> str:
    """Return the page of a sample of a run, with the command that opens it in the studio."""
    command = _format_studio_command(run, row.id)
    return render_sample(row.id, row.sample["question"], row.answer, sections, studio=command)


def _format_studio_command(run: Path, sample: str) -> str:
    """Return the command that opens this sample in the studio."""
    return f"looktwice studio {shlex.quote(str(run))} {shlex.quote(sample)}"


class ShownRun(RecordedRun):
    """A run whose samples are shown: its arms, by their labels in tables, and the tools that score
    them.

    `cache` is the cache folder of the run with the results of its specialists (None: `.cache`
    beside it). `only` selects the arms to show, by their contestants or their labels in tables; by
    default all. Raises RunError.
    """

    def __init__(
        self,
        path: Path,
        plugins: Sequence[str] = (),
        cache: Path | None = None,
        only: Sequence[str] = (),
    ) -> None:
        super().__init__(path, plugins, cache)
        self.present, older = self.folder.current_and_earlier_points
        self.names = make_labels([*self.present, *older])
        by_id = {point.id: {point.contestant, self.names[point.id][0]} for point in self.present}
        arms = set().union(*by_id.values())
        for name in only:
            if name not in arms:
                who = ", ".join(dict.fromkeys(point.contestant for point in self.present))
                near = suggest_names(name, arms) or f"; there are {who}"
                raise RunError(f"--arm {name} does not exist{near}")
        if only:
            self.present = [point for point in self.present if by_id[point.id] & {*only}]
        judged = read_judgements(path).group_by_record()
        self.tools = ScoringTools(self.folder, plugins=tuple(plugins), judgements=judged)

    def rows(self, sample: str, task: str = "") -> list[SampleRow]:
        """Return the rows of a sample, for each task or only for `task`. Raises RunError."""
        tasks = self.folder.samples_by_task
        rows = [rows[sample] for id, rows in tasks.items() if sample in rows and task in (id, "")]
        if not rows:
            ids = sorted({row.id for row in self.folder.samples.values()})
            raise RunError(
                f"{self.folder.path} has no sample {sample!r}; it has {len(ids)}, such as"
                f" {', '.join(ids[:5])}"
            )
        return rows

    def points(self, row: SampleRow) -> dict[str, PointRow]:
        """Return the points of the sample's task, by label and in the order of the tables."""
        points = [point for point in self.present if point.task_id == row.task]
        return {self.names[point.id][0]: point for point in points}

    def arms(self, row: SampleRow) -> list[ShownArm]:
        """Return a section for every record of the sample, that is, for each draw of each point."""
        points, sections = self.points(row), list[ShownArm]()
        records = self.folder.records(row.id).values()
        with self.use_stored_results():
            sample = self.sample(next(iter(points.values()), None), row)
            for label, point in points.items():
                for record in records:
                    if record.point == point.records_id:
                        sections.append(self._show_record(label, point, sample, record, row))
        return sections

    def _show_record(
        self, label: str, point: PointRow, sample: Sample, record: Record, row: SampleRow
    ) -> ShownArm:
        state, error = self.rerun(point, sample, record)
        if error and not record.error:
            # for example, if only the sent pictures are stored, not the sample's own
            state, error = self._rebuild_state(sample, record), ""
        score = self.tools.make_record_scorer(point)
        scored = score(record, row)
        failed = scored.detail if scored.verdict is Verdict.FAILED else ""
        draw = f", draw {record.draw}" if point.draws > 1 else ""
        system = (point.spec.get("model") or {}).get("system", "")
        why, outcome = record.error or error or failed, _describe_outcome(scored, row, score.reader)
        return ShownArm(f"{label}{draw}", state, why, outcome, self.build_stages(point), system)

    def sample(self, point: PointRow | None, row: SampleRow) -> Sample:
        """Return the task's sample if it is unchanged, else the recorded sample with stored
        pictures."""
        with suppress(TaskError):
            task = self.build_task(point) if point is not None else None
            item = find_item(task, row.id) if task is not None else None
            if item is not None and item.sample.sha == row.sha:
                return item.sample
        return row.without_pixels(self.folder.blobs)

    def _rebuild_state(self, sample: Sample, record: Record) -> State:
        """Build a state with the recorded conversations and answer, as if from one stage."""
        calls = []
        for number, call in enumerate(record.calls):
            messages, reply = self.folder.messages(record, number), call.get("reply")
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


def _describe_outcome(scored: ScoredRecord, row: SampleRow, reader: Stage) -> str:
    """Describe the verdict, the answer with its source or the reason for its absence, and the
    correct answer."""
    value = f" ({scored.score.value:.2f})" if 0 < scored.score.value < 1 else ""
    key = (
        "the correct answer is hidden"
        if row.answer is None
        else f"the correct answer is {row.answer!r}"
    )
    if scored.answer is None:
        answer = scored.reason
    elif scored.read or scored.judge:
        answer = f"{scored.answer!r}, read by {scored.judge or get_reader_name(reader)}"
    else:
        answer = f"{scored.answer!r}, set by a stage"
    detail = scored.detail.removeprefix(f"{scored.reason}: ").partition("\n")[0]
    why = f": {detail}" if scored.reason and detail and detail != answer else ""
    return f"{scored.verdict.upper()}{value}: {answer or detail}{why}; {key}"
