"""Compares the arms of a run with the baseline of their task; each is labelled by its only
difference, such as "radius 9"."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from looktwice.eval.display.table import Table
from looktwice.eval.scoring.labels import (
    ALL_TASKS,
    find_baselines,
    get_contestant_changes,
    get_setting,
)
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.run_rows import CHANCE
from looktwice.eval.scoring.verdict import ABSTAINED, PointScores, RunScores
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import ALPHA
from looktwice.pipelines.config.classes import flatten_changes, is_within
from looktwice.pipelines.config.spec import get_public_path
from looktwice.pipelines.json_input import write_canonical
from looktwice.specialists.answers import Chance, Guess


@dataclass(frozen=True)
class FindingRow:
    """An arm compared with the baseline of its task: `label` names its only difference.

    `accuracy` and `difference` (from the baseline) are shares; they are None if every answer
    failed, for the reason `failure`, or if nothing can be compared. `failed_count` counts the
    failed samples, which are wrong in `accuracy` and excluded from `difference`. `p_holm` is the p
    of the difference after Holm's correction; `is_significant` is True if it is below the level.
    `answered_accuracy` is that of the answers without abstentions, and `abstained_share` the share
    on which a stage abstained. `arm` is the id of its point, empty for all tasks.
    """

    label: str
    arm: str
    contestant: str
    accuracy: Estimate | None
    difference: Estimate | None
    p_holm: float | None
    is_significant: bool
    is_baseline: bool
    failure: str
    failed_count: int
    answered_accuracy: Estimate | None = None
    abstained_share: float = 0.0

    @property
    def change(self) -> float:
        """The difference from the baseline in -1..1, 0 if there is none."""
        return self.difference.value if self.difference else 0.0


@dataclass(frozen=True)
class TaskArms:
    """The arms of one task, or of all, with their rows, sorted by accuracy, the best first.

    `title` also names the run if there are several. `base` is the arm that they are compared with,
    or else the first; `name` includes its swept settings. `chance` is the chance level in 0..1,
    `human_accuracy` that of people. `row_without_stage` is the row of the arm that lacks a stage
    whose settings are swept and otherwise equals the baseline. `is_one_change` is True if there are
    other arms, and each differs from `base` only in its model or in one stage."""

    task: str
    title: str
    base: PointScores
    name: str
    lines: Sequence[tuple[PointScores, FindingRow]]
    chance: float | None
    human_accuracy: float | None
    row_without_stage: FindingRow | None
    is_one_change: bool

    @property
    def rows(self) -> tuple[FindingRow, ...]:
        """The rows without their arms."""
        return tuple(row for _, row in self.lines)


def _select_agreeing_arms(arms: Sequence[PointScores], base: PointScores) -> list[PointScores]:
    """Return the arms that agree with the baseline in every setting that both change."""
    given = get_contestant_changes(base.point)
    changed = ((arm, get_contestant_changes(arm.point).items()) for arm in arms)
    return [arm for arm, own in changed if all(given.get(p, v) == v for p, v in own)]


@dataclass(frozen=True, eq=False)
class OneChangeStudy:
    """The arms of a run that differ in one change from the baseline of their task."""

    scored: Table
    run: RunScores

    @cached_property
    def accuracies(self) -> Mapping[str, Row]:
        """The accuracy rows: those of arms by the id of their point, those of chance and means by
        name and task."""
        return self._index_rows("accuracy")

    @cached_property
    def answered_rows(self) -> Mapping[str, Row]:
        """The rows of the accuracy without abstentions, by the keys of `accuracies`."""
        return self._index_rows("accuracy_answered")

    def _index_rows(self, metric: str) -> Mapping[str, Row]:
        rows = self.scored.where(run=self.run.name, metric=metric, slice="")
        return {row.point or f"{row.contestant} {row.task}": row for row in rows}

    @cached_property
    def rivals(self) -> Mapping[str, PointScores | None]:
        """The baseline of each arm by the id of its point, None if it has none."""
        return find_baselines(self.run)

    @cached_property
    def factors(self) -> list[tuple[str, ...]]:
        """The paths of settings that change together: each swept setting, and each entry of
        `each`."""
        config = self.run.config
        swept = [(place,) for place in config.get("sweep") or {}]
        return swept + [tuple(flatten_changes(change)) for change in config.get("each") or ()]

    @cached_property
    def tables(self) -> list[TaskArms]:
        """The compared arms of all tasks together, if there are several tasks, and of each task."""
        every, by_task = self.arms_on_every_task, defaultdict[str, list[PointScores]](list)
        for arm in self.run.points:
            if len(arm.columns) and not arm.is_older:
                by_task[arm.point.task_id].append(arm)
        shared = [arm for arm in every if not _is_guess(arm)]
        tables = [self.compare_arms(shared, ALL_TASKS)] if len(shared) > 1 else []
        return tables + [self.compare_arms(arms) for arms in by_task.values()]

    @cached_property
    def arms_on_every_task(self) -> list[PointScores]:
        """One arm of the baseline, and one of every other contestant with exactly the baseline's
        tasks; empty if the baseline has one task or there is no such contestant."""
        tasks = defaultdict[str, dict[str, PointScores]](dict)
        for arm in self.run.points:
            if len(arm.columns) and not arm.is_older:
                tasks[arm.contestant][arm.point.task_id] = arm
        whole = {t for mine in tasks.values() for t, arm in mine.items() if arm.point.baseline}
        arms = [next(iter(mine.values())) for mine in tasks.values() if mine.keys() == whole]
        return arms if len(whole) > 1 and len(arms) > 1 else []

    @property
    def alpha(self) -> float:
        """The significance level of one family of comparisons: for each run, single tasks are one
        family, and all tasks together another."""
        families = 2 if self.arms_on_every_task else 1
        return ALPHA / families / max(1, len(self.scored.scores))

    def compare_arms(self, arms: Sequence[PointScores], task: str = "") -> TaskArms:
        """Compare the arms of one task, or of all tasks, given the arms of the first."""
        base, lines = self.get_base_arm(arms), []
        for arm, label in self.label_arms(base, arms):
            place = f"{arm.contestant} micro" if task else arm.point.id
            if place in self.accuracies:  # the table may show only some rows
                lines.append((arm, self.compare_arm(arm, base, label, place)))
        lines.sort(key=lambda line: -(line[1].accuracy.value if line[1].accuracy else -1.0))
        places = get_contestant_changes(base.point)
        settings = [self.describe_settings(base, [place], base) for place in places]
        name = base.point.contestant + (f" ({', '.join(settings)})" if settings else "")
        of_task = {} if task else self.accuracies
        level, own_row = of_task.get(f"{CHANCE} {base.task}"), of_task.get(base.point.id)
        without = self.find_arm_without_stage(base, lines)
        counts = [_count_changes(base, arm) for arm, _ in lines]
        is_one_change = len(counts) > 1 and max(counts) < 2
        own = task or base.task
        title = own if len(self.scored.scores) == 1 else f"{own} of {self.run.name}"
        chance = level.value if level else None
        people = own_row.people if own_row else None
        return TaskArms(own, title, base, name, lines, chance, people, without, is_one_change)

    def get_base_arm(self, arms: Sequence[PointScores]) -> PointScores:
        """Return the arm with which most of a task's arms are compared, if it was asked, or else
        the first arm."""
        by_id = {arm.point.id: arm for arm in arms}
        counts = Counter[str]()
        for rival in map(self.rivals.__getitem__, by_id):
            if rival is not None and rival.point.id in by_id:
                counts[rival.point.id] += 1
        return by_id[counts.most_common(1)[0][0]] if counts else arms[0]

    def label_arms(
        self, base: PointScores, arms: Sequence[PointScores]
    ) -> Iterator[tuple[PointScores, str]]:
        """Yield the baseline, other contestants at the baseline's settings, and arms that differ
        from any of these in one change, each with its label."""
        given, own = get_contestant_changes(base.point), defaultdict[str, list[PointScores]](list)
        for arm in arms:
            own[arm.point.contestant].append(arm)
        for name, mine in own.items():
            is_base = name == base.point.contestant
            if not is_base:  # the arms at the baseline's settings, as far as both have them
                mine = _select_agreeing_arms(mine, base)
            first = base if is_base else next(iter(mine), None)
            if first is None or (not is_base and _is_guess(first)):
                continue
            added = [place for place in get_contestant_changes(first.point) if place not in given]
            for arm in mine:
                changes = self.describe_changes(arm, first)
                if arm is first:
                    more = (
                        f", {self.describe_settings(arm, added, first)}"
                        if added and len(mine) > 1
                        else ""
                    )
                    yield arm, name + more
                elif len(changes) == 1:
                    yield arm, changes[0] if is_base else f"{name}, {changes[0]}"

    @cached_property
    def short_labels(self) -> Mapping[str, str]:
        """The short label of each arm by its label in tables: the arm's swept settings, such as
        "radius 9", after the name of its contestant unless it is the baseline's. Labels that two
        arms would share are left out."""
        short, by_task = dict[str, str](), defaultdict[str, list[PointScores]](list)
        for arm in self.run.points:
            if not arm.is_older:
                by_task[arm.point.task_id].append(arm)
        for arms in by_task.values():
            base = self.get_base_arm(arms)
            for name in dict.fromkeys(arm.point.contestant for arm in arms):
                mine = [arm for arm in arms if arm.point.contestant == name]
                is_base = name == base.point.contestant
                first = base if is_base else next(iter(_select_agreeing_arms(mine, base)), mine[0])
                for arm in mine:
                    changes = ", ".join(self.describe_changes(arm, first))
                    label = changes if is_base and changes else f"{name}, {changes}"
                    short.setdefault(arm.contestant, label if changes else name)
        counts = Counter(short.values())
        return {name: label for name, label in short.items() if counts[label] == 1}

    def describe_changes(self, arm: PointScores, base: PointScores) -> list[str]:
        """Describe the changes that turn the baseline into an arm, in one phrase for each factor of
        the study."""
        own, given = get_contestant_changes(arm.point), get_contestant_changes(base.point)
        differing = defaultdict[Any, list[str]](list)
        for place in {**given, **own}:
            if (place in own) != (place in given) or own[place] != given[place]:
                owners = [f for f in self.factors if any(is_within(place, p) for p in f)]
                differing[owners[0] if owners else place].append(place)
        return [self.describe_settings(arm, places, base) for places in differing.values()]

    def describe_settings(self, arm: PointScores, places: Sequence[str], base: PointScores) -> str:
        """Describe the settings of an arm at some paths, such as "radius 9" or "no zoom"; a stage
        of the same class as in the baseline is described only by its settings."""
        parts = []
        for place in places:
            name, value = self.shorten_path(place), get_setting(arm.point, place)
            is_none = place in arm.point.changes and arm.point.changes[place] is None
            text = _shorten_value(name, str(value), str(get_setting(base.point, place)))
            parts.append(f"no {name}" if is_none else text)
        return ", ".join(parts)

    def shorten_path(self, place: str) -> str:
        """Return the last part of a path, if no other changed path of the study ends with it."""
        last = place.rpartition(".")[2]
        if self.path_endings[last] > 1:
            return place.removeprefix("stages.")
        return "style" if last == "use" else last

    @cached_property
    def path_endings(self) -> Counter[str]:
        """The number of changed paths of the study that share each last part."""
        places = {place for arm in self.run.points for place in get_contestant_changes(arm.point)}
        return Counter(place.rpartition(".")[2] for place in places)

    def compare_arm(
        self, arm: PointScores, base: PointScores, label: str, place: str
    ) -> FindingRow:
        """Compare an arm with the baseline, from its accuracy row with the key `place`."""
        scored, difference = self.accuracies[place], None
        accuracy, abstained = _make_share(scored), self.measure_abstention(arm, scored)
        is_compared = self.rivals[arm.point.id] is base and accuracy is not None
        compared = scored.compared or 0
        if is_compared and scored.delta is not None and scored.p is not None:
            difference = Estimate(
                scored.delta,
                scored.delta if scored.delta_low is None else scored.delta_low,
                scored.delta if scored.delta_high is None else scored.delta_high,
                compared,
                scored.n_clusters or compared,
                scored.p,
                scored.better or 0,
                scored.worse or 0,
                scored.detectable or 1.0,
                scored.test,
            )
        p_holm = scored.p_holm if difference else None
        return FindingRow(
            label,
            scored.point,
            arm.contestant,
            accuracy,
            difference,
            p_holm,
            p_holm is not None and p_holm < self.alpha,
            arm is base and base.point.baseline,
            scored.failure,
            scored.failed or 0,
            _make_share(self.answered_rows.get(place)) if abstained else None,
            abstained,
        )

    def measure_abstention(self, arm: PointScores, scored: Row) -> float:
        """Return the share of an arm's answers on which a stage abstained, or, if the row is over
        all tasks, of its contestant's answers."""
        arms = [arm]
        if not scored.point:
            arms = [one for one in self.run.points if one.contestant == arm.contestant]
        given = count = 0
        for one in arms:
            keyed = np.array([name in one.keyed_samples for name in one.columns.ids], bool)
            rows = np.flatnonzero(keyed[one.columns["sample"]])
            words = one.columns.count_by_words(rows).items()
            given += len(rows)
            count += sum(number for word, number in words if word.reason == ABSTAINED)
        return count / max(1, given)

    def find_arm_without_stage(
        self, base: PointScores, lines: Sequence[tuple[PointScores, FindingRow]]
    ) -> FindingRow | None:
        """Return the row of the arm that lacks a stage whose settings are swept, and otherwise
        equals the baseline."""
        swept = {place.split(".")[1] for places in self.factors for place in places if "." in place}
        own = _get_stages(base)
        rests = [{s: own[s] for s in own if s != slot} for slot in swept & own.keys()]
        return next((row for arm, row in lines if _get_stages(arm) in rests), None)


def _shorten_value(name: str, value: str, given: str) -> str:
    """Return "name value"; for a stage of the class `given`, only its settings: "radius 3" for
    VPBenchStyle(style=radius 3)."""
    cls, _, settings = value.removesuffix(")").partition("(")
    if not settings or cls != given.partition("(")[0]:
        return f"{name} {value}"
    field, _, only = settings.partition("=")
    if "=" in only:
        return f"{name} {settings}"
    return only if cls.lower().endswith(field) else f"{name} {field} {only}"


def _make_share(row: Row | None) -> Estimate | None:
    """Return the value of a row with its interval, or None if it has no value."""
    if row is None or row.value is None:
        return None
    low, high = row.low or 0.0, row.value if row.high is None else row.high
    return Estimate(row.value, low, high, row.n, row.clusters or row.n)


def _count_changes(base: PointScores, arm: PointScores) -> int:
    """Return the number of stages in which two arms differ, plus one if their models differ; slots
    do not matter. If it is unknown how an arm was built, return 2."""
    if arm is not base and not (arm.point.spec and base.point.spec):
        return 2
    own, given = (
        Counter(write_canonical(node) for node in _get_stages(one).values()) for one in (arm, base)
    )
    stages = max((own - given).total(), (given - own).total())
    return stages + (arm.point.spec.get("model") != base.point.spec.get("model"))


def is_specialist(scores: PointScores) -> bool:
    """Return whether the records of an arm show answers without any model call, and its stages do
    not guess."""
    if scores.columns["calls"].any():
        return False
    given = scores.columns.count_by_words()
    answered = any(words.answer is not None or words.reason == ABSTAINED for words in given)
    stages = write_canonical(scores.point.spec.get("stages"))
    random = any(
        write_canonical({"use": get_public_path(kind)})[1:-1] in stages for kind in (Chance, Guess)
    )
    return answered and not random


def _is_guess(arm: PointScores) -> bool:
    """Return whether an arm only answers at random: it made no call, and is no specialist, not even
    one that guesses instead of abstaining."""
    is_silent = not arm.failure and not arm.columns["calls"].any()
    rules = (
        write_canonical(node.get("use")) for node in _get_stages(arm).values() if "use" in node
    )
    return (
        is_silent
        and not is_specialist(arm)
        and write_canonical(get_public_path(Guess)) not in rules
    )


def _get_stages(arm: PointScores) -> dict[str, Any]:
    """Return the stages of an arm by slot."""
    stages = arm.point.spec.get("stages") or {}
    return {slot: node for slot, node in stages.items() if node is not None}
