"""The questions that a run asks: the items of each task within its limit and shard, and whether
they still match those of an earlier run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from looktwice.eval.records.records import Key, RunError, RunFolder
from looktwice.eval.runs.options import RunOptions
from looktwice.eval.runs.provenance import DataDigest, get_shard, list_versions
from looktwice.eval.tasks.base import GeneratedTask, TaskError, check_items, count_items
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.sample import Item


@dataclass(eq=False)
class Questions:
    """The questions of a plan under the options of a run; `digests` holds the digest of each task's
    items by task id, once `planned_counts` has counted them."""

    plan: Plan
    options: RunOptions
    digests: dict[str, DataDigest] = field(default_factory=lambda: defaultdict(DataDigest))

    @property
    def is_complete(self) -> bool:
        """True if neither a limit nor a shard leaves samples out."""
        return self.options.limit is None and self.options.shard == (1, 1)

    @property
    def tasks(self) -> dict[str, Any]:
        """The tasks by id."""
        return {arm.task_id: arm.task for arm in self.plan.points}

    def group_arms(self) -> dict[tuple[str, int, int], list[Arm]]:
        """Return the arms by (task id, seed, draw); each group takes one pass over the items of its
        task."""
        groups: dict[tuple[str, int, int], list[Arm]] = defaultdict(list)
        for arm in self.plan.points:
            for draw in range(arm.draws):
                groups[arm.task_id, arm.seed, draw].append(arm)
        return groups

    def select_items(self, task: Any) -> Iterator[Item]:
        """Return the items within the limit and the shard. Raises TaskError for a duplicate id and
        for an empty task."""
        return filter(self._in_shard, self._all_items(task))

    def _in_shard(self, item: Item) -> bool:
        number, shards = self.options.shard
        return get_shard(item.sample.id, shards) == number - 1

    def _all_items(self, task: Any) -> Iterator[Item]:
        seen, name = set[str](), type(task).__name__
        for item in check_items(task):
            if item.sample.id in seen:
                raise TaskError(
                    f"{name}: the id {item.sample.id!r} occurs twice; ids must be unique"
                )
            seen.add(item.sample.id)
            yield item
            if len(seen) == self.options.limit:  # making the next one may be slow
                return
        if not seen:
            raise TaskError(f"{name}: the task is empty; check its path, split and subset")

    def count_records(self) -> int:
        """Return the number of records of the whole plan."""
        return sum(self.planned_counts[arm.task_id] * arm.draws for arm in self.plan.points)

    @cached_property
    def planned_counts(self) -> Mapping[str, int]:
        """The number of samples within limit and shard, by task id; a sample's shard depends on its
        id."""
        planned = {}
        for name, task in self.tasks.items():
            if self.options.shard[1] > 1:
                items = self.digests[name].hash_items(self._all_items(task))
                planned[name] = sum(map(self._in_shard, items))
            else:
                planned[name] = len(range(count_items(task))[: self.options.limit])
        return planned

    def find_done_by_arm(self, done: Collection[Key]) -> dict[str, set[tuple[str, int]]]:
        """Return the planned (sample, draw) pairs of each arm that need not be asked."""
        by_arm: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for arm_id, sample, draw in done:
            by_arm[arm_id].add((sample, draw))
        if self.is_complete or not by_arm:
            return by_arm
        ids, asked = dict[str, set[str]](), dict[str, set[tuple[str, int]]]()
        for name, task in self.tasks.items():
            ids[name] = {item.sample.id for item in self.select_items(task)}
        for arm in self.plan.points:
            asked[arm.id] = {pair for pair in by_arm[arm.id] if pair[0] in ids[arm.task_id]}
        return asked

    def find_unchanged(
        self, folder: RunFolder, answered: set[tuple[str, str]]
    ) -> dict[str, list[str]]:
        """Return the sample ids of each task (by id) whose samples have not changed since the
        earlier run.

        Raises RunError if questions with answers changed under the same ids. A sample that has only
        failed so far may change, for example if an unreadable image was repaired. Generated
        questions depend only on settings and versions.
        """
        same: dict[str, list[str]] = {}
        as_made = self.is_complete and folder.facts.get("versions") == list_versions()
        for task_id, task in self.tasks.items():
            old = folder.samples_by_task.get(task_id, {})
            if as_made and isinstance(task, GeneratedTask) and len(old) == len(task):
                same[task_id] = [*old]
                continue
            now, changed = dict[str, None](), list[str]()
            is_same = True
            for item in self.select_items(task) if old else ():
                name, row = item.sample.id, old.get(item.sample.id)
                now[name] = None
                if row is None or row.sha != item.sample.sha:
                    is_same = False
                    changed += [name] if row and (task_id, name) in answered else []
                is_same = is_same and row is not None and row.answer == item.answer
            if now and is_same:
                same[task_id] = [*now]
            gone = [name for name in old if self.is_complete and name not in now]
            if names := changed or gone:
                problem = "changed under the same id" if changed else "no longer in the task"
                raise RunError(
                    f"{folder.path}: {format_count(len(names), 'sample')} {problem} since the"
                    " first run,"
                    f" for example {', '.join(names[:3])}; choose another --out, or start over"
                    " with --again all"
                )
        return same
