"""Computes the rows of report.csv for a run: arms, means over tasks, benchmarks' own metrics,
slices, circular evaluation, and reference levels: a baseline, majority, chance and people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring.columns import parse_values
from looktwice.eval.scoring.labels import find_baselines
from looktwice.eval.scoring.metrics import (
    CIRCULAR_METRIC,
    MEASURED_PREFIX,
    METRICS,
    TURN_END_PREFIX,
    TURNS_PREFIX,
    compute_chance_levels,
    list_right_by_draw,
    make_measured_metrics,
    split_by_measurement,
)
from looktwice.eval.scoring.row import (
    COMPARISON_COLUMNS,
    Row,
    Rows,
    compare,
    correct_p_values,
    fill_row,
    make_arm_rows,
    make_comparable_accuracy,
    make_empty_row,
    make_macro_row,
    make_micro_row,
)
from looktwice.eval.scoring.verdict import Metric, PointScores, RunScores, Scorer
from looktwice.eval.statistics.intervals import mean_interval
from looktwice.pipelines.json_input import write_canonical

MAJORITY, CHANCE, GUESSER = "majority (key)", "chance (level)", "guesser (level)"
CHAIN_STAGE = "prompting.wording.ChainOfThought"
ROTATING_STAGES = "prompting.controls.PermuteChoices", "prompting.controls.PermuteLabels"
Rivals = Mapping[str, PointScores | None]
"""By point id, the arm with which the point is compared."""


def run_rows(run: RunScores, by: Sequence[str]) -> list[Row]:
    """Return, for each contestant, the rows of its tasks, their macro and micro means, and slices
    by the fields in `by` (meta fields or measurements).

    The rows of circular evaluation, turns, majority and chance follow at the end.
    """
    rivals = find_baselines(run)
    by_contestant = defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        by_contestant[scores.contestant].append(scores)
    rows, complete = list[Row](), list[Row]()
    for arms in by_contestant.values():
        own = list[Row]()
        for arm in arms:
            rival, plain = rivals[arm.point.id], make_empty_row(run, arm)
            accuracy, *others = make_arm_rows(arm, plain)
            accuracy = _compare(accuracy, [(arm, rival)]) if rival else accuracy
            own += [accuracy, *others, *list_metric_rows(arm, plain, rival)]
        own += [*_make_mean_rows(own, arms, rivals), *_list_total_rows(arms, own)]
        for arm in arms:
            for part, sliced in _list_slices(arm, by):
                plain = make_empty_row(run, arm, part)
                own += [*make_arm_rows(sliced, plain), *list_metric_rows(sliced, plain)]
            vars(arm).pop(
                "comparable_values", None
            )  # a number per sample, which few tables need again
        rows += [replace(row, units=None) for row in own]
    rows = [*correct_p_values(rows), *list_circular_rows(run)]
    if _may_have_turns(run):
        from looktwice.eval.scoring.turns import list_turn_metrics

        for arm, metric in list_turn_metrics(run):
            rows.append(fill_row(make_empty_row(run, arm), metric))
    rows += _make_level_rows(run, by)
    whole = len({scores.point.task for scores in run.points})
    people = get_human_accuracies(run)
    for row in rows:
        if row.task in ("macro", "micro"):
            row = replace(row, of_tasks=whole)
        levels = [people[name] for name in list_published_names(row) if name in people]
        is_known = levels and not row.slice
        complete.append(replace(row, people=levels[0] / 100) if is_known else row)
    return complete


def _may_have_turns(run: RunScores) -> bool:
    """Return whether a stage recorded the ends of turns, or an arm has a chain of thought."""
    for arm in run.points:
        if CHAIN_STAGE in repr(arm.point.spec.get("stages")):
            return True
        if any(f'"{TURN_END_PREFIX}call"' in text for text in arm.columns.count_by_measurements()):
            return True
    return False


def _compare(row: Row, pairs: Sequence[tuple[PointScores, PointScores]]) -> Row:
    """Return a row of accuracy with the comparison over all tasks of the pairs."""
    names = dict.fromkeys(rival.contestant for _, rival in pairs)
    metrics = [
        (make_comparable_accuracy(arm), make_comparable_accuracy(rival)) for arm, rival in pairs
    ]
    return compare(row, ", ".join(names), metrics)


def _make_mean_rows(rows: Rows, arms: Sequence[PointScores], rivals: Rivals) -> list[Row]:
    """Return the macro and micro rows of a contestant; micro accuracy has the paired test over all
    its tasks."""
    means = list[Row]()
    for metric in METRICS:
        of_metric = [row for row in rows if row.metric == metric]
        means += [make_macro_row(of_metric), make_micro_row(of_metric)]
    pairs = [(arm, rival) for arm in arms if (rival := rivals[arm.point.id]) is not None]
    if len(pairs) == len(arms):
        if len(pairs) == 1:  # the mean over one task is that task's own
            own = next(row for row in rows if row.metric == "accuracy")
            means[1] = replace(
                means[1], **{name: getattr(own, name) for name in COMPARISON_COLUMNS}
            )
        else:
            means[1] = _compare(means[1], pairs)
        means[0] = replace(means[0], baseline=means[1].baseline)
    return means


def _list_slices(scores: PointScores, by: Sequence[str]) -> Iterator[tuple[str, PointScores]]:
    for names in by:
        fields = {name: split_by_measurement(scores, name) for name in names.split(",")}
        values, metas = defaultdict[tuple[str, ...], set[str]](set), scores.metas
        in_meta = set[str]().union(*metas.values())
        if not any(name in in_meta or measured for name, measured in fields.items()):
            continue  # other tasks have this field
        for sample, meta in metas.items():
            parts = (
                f"{name}={meta.get(name, measured.get(sample, ''))}"
                for name, measured in fields.items()
            )
            values[tuple(parts)].add(sample)
        for part, samples in sorted(values.items()):
            yield ", ".join(part), scores.only(samples)


# ---- reference levels


def _make_level_rows(run: RunScores, by: Sequence[str]) -> list[Row]:
    """Return the rows of the majority and chance levels: for all tasks, for the macro and micro
    means, for benchmark totals and for slices."""
    tasks = list({scores.point.task_id: scores for scores in run.points}.values())
    levels = defaultdict[str, list[Row]](list)
    rows, own, totals = list[Row](), list[Row](), list[Row]()
    for arm in tasks:
        for row in make_reference_rows(arm, make_empty_row(run, arm)):
            levels[row.contestant].append(row)
            own += [row] if is_benchmark_metric(row) else []
    for of_level in levels.values():
        plain = [row for row in of_level if not is_benchmark_metric(row)]
        rows += [*plain, make_macro_row(plain), make_micro_row(plain)] if plain else []
        totals += _list_total_rows(tasks, of_level) if plain else []
    rows += [*own, *totals]
    for scores in tasks:
        for part, sliced in _list_slices(scores, by):
            rows += make_reference_rows(sliced, make_empty_row(run, scores, part))
    return rows


def is_benchmark_metric(row: Row) -> bool:
    """Return whether the metric of a row is specific to a benchmark rather than common to all
    tasks."""
    return row.metric not in (*METRICS, "missing") and not row.metric.startswith(
        (MEASURED_PREFIX, TURNS_PREFIX)
    )


def make_reference_rows(scores: PointScores, plain: Row) -> list[Row]:
    """Return the rows of reference levels: the majority class, chance for accuracy and for each
    metric that has a chance level, and, if the benchmark's scorer knows it, the best guesser who
    sees the image without marks and question.

    There is no majority row if the stored key is not an answer but, for example, a maximum number
    of points.
    """
    samples, scorer, rows = scores.keyed_samples, scores.scorer, list[Row]()
    if not samples:
        return rows
    plain = replace(plain, point="", metric="accuracy", n=len(samples), reader="")
    if scorer is None or scorer.key_is_answer:
        keys = Counter(sorted(row.answer or "" for row in samples.values()))
        [(key, right)] = keys.most_common(1)
        units = {name: float(row.answer == key) for name, row in samples.items()}
        majority = fill_row(plain, Metric("accuracy", units, clusters=scores.clusters))
        majority = replace(majority, contestant=MAJORITY, right=right, wrong=len(samples) - right)
        rows.append(replace(majority, unreadable=0, failed=0))
    levels = compute_chance_levels(samples, None if plain.slice else scorer)
    for metric in sorted(levels, key=lambda metric: metric != "accuracy"):
        rows.append(replace(plain, contestant=CHANCE, metric=metric, value=levels[metric]))
    if scorer is not None and (guessed := scorer.guesser(samples)) is not None:
        rows.append(replace(plain, contestant=GUESSER, value=guessed))
    return rows


def get_human_accuracies(run: RunScores) -> Mapping[str, float]:
    """Return human accuracies in percent, by task, `task.metric` or total: the rows of `published:`
    that are marked `people`.

    Rows of a split other than the task's (for a total, other than any task's) are left out. If
    several rows have the same name, the first one counts.
    """
    levels = dict[str, float]()
    for row in (run.config.get("published") or {}).values():
        for name, value in (row.get("accuracy") or {}).items() if row.get("people") else ():
            if not comes_from_another_split(run, row, str(name)):
                levels.setdefault(str(name), float(value))
    return levels


def comes_from_another_split(run: RunScores, published: Mapping[str, Any], name: str) -> bool:
    """Return whether a value in a row of `published:` belongs to a split other than the run's, if
    both name a split."""
    wanted, task = published.get("split"), name.partition(".")[0]
    splits = {scores.point.task: scores.point.facts.get("split") for scores in run.points}
    asked = [splits[task]] if task in splits else [*splits.values()]
    return bool(wanted) and any(split and split != wanted for split in asked)


def list_published_names(row: Row) -> tuple[str, ...]:
    """Return the names that `published:` may use for the value of this row: the task,
    `task.metric`, or the metric of a total."""
    if row.metric == "accuracy":
        return (row.task_name or row.task,)
    return (f"{row.task_name}.{row.metric}", *(() if row.point else (row.metric,)))


# ---- the metrics of benchmarks, judges and stages


def list_task_metrics(scores: PointScores) -> list[Metric]:
    """Return the metrics of the task's scorer; if a metric over samples sets no clusters, it gets
    the clusters of the samples."""
    scorer: Scorer | None = scores.scorer
    metrics = list[Metric]()
    for metric in scorer.metrics(scores) if scorer and not scores.failure else ():
        if not metric.clusters and metric.units.keys() <= scores.samples.keys():
            metric = replace(metric, clusters=scores.clusters)
        metrics.append(metric)
    return metrics


def _list_judge_metrics(scores: PointScores) -> Iterator[Metric]:
    """Yield `cot_score`, its criteria, and the metrics of steps, which are means over the replies
    that a judge graded."""
    judged = map(parse_values, scores.columns.count_by_judge_scores())
    criteria = dict.fromkeys(name for values in judged for name in values)

    def of_criterion(name: str) -> dict[str, float]:
        return scores.means(lambda draw: draw.judged.get(name))

    means = {f"cot_{name}": of_criterion(name) for name in criteria if not name.startswith("step")}
    if means:
        graded = next(iter(means.values()))
        both = {sample: fmean(by[sample] for by in means.values()) for sample in graded}
        means = {"cot_score": both} | means
    means |= {name: of_criterion(name) for name in criteria if name.startswith("step")}
    for name, units in means.items():
        yield Metric(name, units, "reply", clusters=scores.clusters)


def list_metric_rows(
    scores: PointScores, plain: Row, rival: PointScores | None = None
) -> Iterator[Row]:
    """Yield a row for each metric of the task's scorer, of a judge, and of measurements by stages,
    compared with the rival on the metric's own units.

    Slices of slices are left out, because they would need one row for every pair of values.
    Comparisons and measurements of slices are left out, too.
    """
    mine, theirs = (
        [
            *list_task_metrics(arm),
            *_list_judge_metrics(arm),
            *(() if plain.slice else make_measured_metrics(arm)),
        ]
        if arm
        else []
        for arm in (scores, rival)
    )
    others = {metric.name: metric for metric in theirs if not metric.slice}
    for metric in mine:
        if plain.slice and metric.slice:
            continue
        row = fill_row(plain, metric)
        if metric.name.startswith(MEASURED_PREFIX) and metric.value is not None:
            clusters = [*map(metric.clusters.__getitem__, metric.units)]
            low, high = mean_interval([*metric.units.values()], clusters)
            row = replace(row, low=low, high=high, clusters=len(set(clusters)))
        if rival and metric.name in others and metric.p is None and not metric.slice:
            row = compare(row, rival.contestant, [(metric, others[metric.name])])
        yield row


def _list_total_rows(arms: Sequence[PointScores], rows: Rows) -> Iterator[Row]:
    """Yield the totals of every benchmark of which each subtask occurs exactly once, for one
    contestant or chance level."""
    suites = defaultdict[str, list[tuple[Scorer, str]]](list)
    for scores in arms:
        if scores.scorer is not None and scores.scorer.suite:
            suites[scores.scorer.suite].append((scores.scorer, scores.task))
    by_name = {(row.task, row.metric): row for row in rows if not row.slice}
    for suite, members in suites.items():
        tasks = {scorer.part: task for scorer, task in members}
        for total in members[-1][0].totals if len(tasks) == len(members) else ():
            parts = [by_name.get((tasks.get(p, ""), name)) for p, name in total.parts.items()]
            usable = [row for row in parts if row is not None and row.value is not None and row.n]
            if len(usable) == len(parts):
                mean = (make_micro_row if total.pooled else make_macro_row)(usable)
                mean = replace(mean, metric=total.metric, task=suite, task_name=suite)
                yield replace(mean, n_groups=None, unit="")


def list_headline_rows(runs: Sequence[RunScores], rows: Rows) -> list[Row]:
    """Return the rows of the benchmarks' headline metrics and totals, totals first."""
    names = defaultdict[tuple[str, str], set[str]](set)
    for run in runs:
        for scores in run.points:
            names[run.name, scores.task].add(CIRCULAR_METRIC)
            if (scorer := scores.scorer) is not None:
                quoted = scorer.headlines
                if quoted is None:
                    quoted = tuple(
                        metric.name for metric in list_task_metrics(scores) if not metric.slice
                    )
                for task in (scores.task, scorer.suite):
                    names[run.name, task] |= {*quoted}
    own = [row for row in rows if row.metric in names[row.run, row.task] and row.value is not None]
    return sorted(own, key=lambda row: row.unit != "")  # a total is over units of several kinds


def list_circular_rows(run: RunScores) -> Iterator[Row]:
    """Yield circular evaluation: a row for each contestant with rotated choices, in which a sample
    counts only if all its rotations are right.

    Points belong together if they differ only in the `by` of one rotating stage. Only samples whose
    rotations were all asked count.
    """
    families = defaultdict[str, dict[int, PointScores]](dict)
    for scores in run.points:
        point = scores.point
        if slot := _find_rotating_slot(point):
            node = point.spec["stages"][slot]
            stages = {**point.spec["stages"], slot: {**node, "by": None}}
            spec = {**point.spec, "stages": stages}
            family = write_canonical([point.contestant, point.task_id, point.seed, spec])
            families[family][node["by"]] = scores
    for rotations in families.values():
        first = rotations[min(rotations)]
        units = dict[str, float]()
        for name, sample in first.keyed_samples.items():
            count = sample.n_choices
            if count and {by % count for by in rotations} == set(range(count)):
                draws = list_right_by_draw(scores.draws(name) for scores in rotations.values())
                units |= {name: fmean(map(all, draws))} if draws else {}
        if units and len(rotations) > 1:
            name = f"{first.point.contestant} [{len(rotations)} rotations]"
            plain = replace(make_empty_row(run, first), point="", contestant=name)
            row = fill_row(plain, Metric(CIRCULAR_METRIC, units, clusters=first.clusters))
            yield replace(row, n_groups=len(rotations))


def _find_rotating_slot(point: PointRow) -> str:
    """Return the slot of the only stage that rotates the choices; empty if there is none or
    several."""
    slots = []
    for slot, node in (point.spec.get("stages") or {}).items():
        settings = node if isinstance(node, Mapping) else {}
        if settings.get("use") in ROTATING_STAGES and settings.get("order") == "rotated":
            slots.append(slot)
    return slots[0] if len(slots) == 1 else ""
