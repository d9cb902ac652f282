"""The samples' own images, for the page of a report: from the tasks of its runs, where their data
is still there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Any

from looktwice.eval.records.records import RunFolder
from looktwice.eval.tasks.base import MadeTask, TaskError
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample


def recorded_tasks(
    folders: Sequence[RunFolder], plugins: Sequence[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """The tasks of runs by task id, made again from their records, and why some cannot be or must
    not be read."""
    tasks, faults = dict[str, Any](), list[str]()
    for folder in folders:
        binder = Binder(Scope.of_records(folder.path, tuple(plugins)))
        for point in folder.points.values():
            if point.task_id not in tasks and "task" in point.spec:
                # not asked whether it is empty: it would read its data
                task = binder.node(point.spec["task"], "task")
                tasks[point.task_id] = () if task is None else task
        faults += binder.faults
    return tasks, faults


def sample_images(tasks: Mapping[str, Any]) -> Callable[[str, str], tuple[Picture, ...]]:
    """A function (task id, sample id) -> the sample's own images, empty if the task's data is not
    available.

    `tasks` are by task id.
    """
    loaded: dict[str, dict[str, Sample]] = {}

    def images(task_id: str, sample: str) -> tuple[Picture, ...]:
        task = tasks.get(task_id, ())
        if isinstance(task, MadeTask):
            return item.sample.images if (item := task.item(sample)) else ()
        if task_id not in loaded:
            loaded[task_id] = {}
            with suppress(TaskError):  # it is not here any more
                loaded[task_id] = {item.sample.id: item.sample for item in task}
        match = loaded[task_id].get(sample)
        return tuple(map(copy, match.images)) if match else ()  # what is read of them is not kept

    return images
