"""The labels of points in tables, the baseline with which each point is compared, and the settings
in the points' specs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.json_input import write_canonical

ALL_TASKS = "all tasks"
"""The label for results over all tasks."""
MAX_LABEL_SETTINGS = 3  # differing settings that a label shows


def make_labels(points: Sequence[PointRow]) -> dict[str, tuple[str, str]]:
    """Return the labels (contestant, task) of every point, by the point's id; no pair of labels
    occurs twice.

    A run that was continued with an edited configuration contains points that share a name but were
    built differently. The labels of the later ones show the differences, "plain {mark.color=gray}",
    or a number if too many settings differ. Different tasks with the same name are numbered.
    """
    plain = {
        point.id: (format_contestant_label(point), format_task_label(point)) for point in points
    }
    counts = Counter(plain.values())
    twice = {name for label, count in counts.items() if count > 1 for name in enumerate(label)}
    built = defaultdict[str, dict[str, PointRow]](dict)
    asked = defaultdict[str, dict[str, int]](dict)
    out = dict[str, tuple[str, str]]()
    for point in points:
        who, what = plain[point.id]
        if (1, what) in twice:
            number = asked[what].setdefault(point.task_id, len(asked[what]))
            what = f"{what} #{number + 1}" if number else what
        if (0, who) in twice:
            who = _distinguish(who, point, built[who])
        out[point.id] = who, what
    return out


def _distinguish(label: str, point: PointRow, seen: dict[str, PointRow]) -> str:
    kind = write_canonical([{**point.spec, "task": None}, point.seed])
    seen.setdefault(kind, point)
    number, first = [*seen].index(kind), next(iter(seen.values()))
    if number == 0:
        return label
    mine, others = _list_settings(point.spec), _list_settings(first.spec)
    differing = [place for place in {**others, **mine} if mine.get(place) != others.get(place)]
    if not 0 < len(differing) <= MAX_LABEL_SETTINGS:
        return f"{label} #{number + 1}"
    return (
        f"{label} {{{', '.join(_shorten_change(place, mine.get(place)) for place in differing)}}}"
    )


def _list_settings(spec: Any, place: str = "") -> dict[str, Any]:
    """Return every setting of the stages and the model, by its dotted path."""
    if isinstance(spec, Mapping):
        inner = (
            _list_settings(v, f"{place}.{k}" if place else str(k))
            for k, v in spec.items()
            if place or k != "task"
        )
        return {key: value for leaves in inner for key, value in leaves.items()}
    return {place: spec}


def get_contestant_changes(point: PointRow) -> dict[str, Any]:
    """Return the changes that affect the contestant: stages, model, draws."""
    changes = point.changes.items()
    return {p: value for p, value in changes if p.partition(".")[0] not in ("task", "tasks")}


def get_task_changes(point: PointRow) -> dict[str, Any]:
    """Return the changes that affect the task, without changes to other tasks."""
    changes = {}
    for place, value in point.changes.items():
        head, _, rest = place.partition(".")
        if head == "task" or (head == "tasks" and rest.partition(".")[0] == point.task):
            changes[place] = value
    return changes


def format_contestant_label(point: PointRow, without: str = "") -> str:
    """Return the contestant's name with its changes, "plain [mark.radius=15]", except the change at
    the path `without`."""
    return label_with_changes(point.contestant, get_contestant_changes(point), without)


def format_task_label(point: PointRow, without: str = "") -> str:
    """Return the task's name with its changes, "correspondence [strength=0.5]", except the change
    at the path `without`."""
    return label_with_changes(point.task, get_task_changes(point), without)


def find_baselines(run: RunScores) -> dict[str, PointScores | None]:
    """Return, by point id, the arm with which each point is compared, preferably an arm of the
    current plan."""
    by_id, plans = run.by_id, defaultdict[bool, list[PointRow]](list)
    for scores in run.points:
        plans[scores.is_older].append(scores.point)
    rivals = {}
    for name, scores in by_id.items():
        rival = find_baseline(scores.point, plans[False], plans[True])
        rivals[name] = by_id[rival.id] if rival else None
    return rivals


def find_baseline(
    point: PointRow, points: Sequence[PointRow], older: Sequence[PointRow] = ()
) -> PointRow | None:
    """Return the baseline's point on the same samples and at the same setting, or else the
    baseline's first point; None if there is no point to compare with.

    The baseline's point at the same setting has no changes besides those of `point`, and as many of
    these as possible; it stays the same in a sweep of a stage that the baseline lacks. A changed
    point of the baseline itself is compared with the baseline's unchanged point, or else its first.
    If several points match, because the configuration was edited between runs, the latest one
    counts. `older` points are used only if none of `points` belongs to the baseline.
    """
    mine, others = (
        [arm for arm in arms if arm.baseline and arm.task_id == point.task_id]
        for arms in (points, older)
    )
    rivals = mine or others
    wanted = {} if point.baseline else get_contestant_changes(point)
    chosen = find_closest(wanted, rivals) or next(iter(rivals), None)
    return None if chosen is None or chosen.id == point.id else chosen


def find_closest(changes: Mapping[str, Any], points: Sequence[PointRow]) -> PointRow | None:
    """Return the point that has the most of these changes and no others; if there are several, the
    latest."""
    alike = [point for point in points if get_contestant_changes(point).items() <= changes.items()]
    return max(reversed(alike), key=lambda point: len(get_contestant_changes(point)), default=None)


def get_factor_value(point: PointRow, place: str) -> float | None:
    """Return the number at a dotted path of a point, taken from its changes or else from its
    spec."""
    value = (
        point.changes[place]
        if place in point.changes
        else get_setting_at(point.spec, _get_spec_path(place))
    )
    return as_number(value)


def as_number(value: object) -> float | None:
    """Return a value as a float; None if it is not a number (booleans are not)."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def get_setting(point: PointRow, place: str) -> str | float | None:
    """Return the setting of a point at a dotted path, whether changed or not: a number or a string;
    for a stage, its class or "none"."""
    whole = {**point.spec, "read": point.read, "draws": point.draws, "seed": point.seed}
    value = (
        point.changes[place]
        if place in point.changes
        else get_setting_at(whole, _get_spec_path(place))
    )
    if isinstance(value, Mapping):
        value = str(value.get("use", "")).rpartition(".")[2]
    if value is None:
        is_slot = place.startswith("stages.") and place.count(".") == 1
        return "none" if place in point.changes or is_slot else None
    return value if isinstance(value, str | float | int) else str(value)


def label_with_changes(name: str, changes: Mapping[str, Any], without: str = "") -> str:
    """Return a name with its changes in short form: "plain [mark.radius=15, no zoom]"."""
    short = [_shorten_change(place, value) for place, value in changes.items() if place != without]
    return f"{name} [{', '.join(short)}]" if short else name


def _shorten_change(place: str, value: Any) -> str:
    head, _, rest = place.partition(".")
    if head == "tasks":
        rest = rest.partition(".")[2]
    short = rest if head in ("stages", "task", "tasks") and rest else place
    return f"no {short}" if value is None else f"{short}={value}"


def _get_spec_path(place: str) -> list[str]:
    parts = place.split(".")
    if parts[0] in ("tasks", "models"):
        return [parts[0].removesuffix("s"), *parts[2:]]
    return parts


def get_setting_at(spec: Any, path: Sequence[str]) -> Any:
    """Return the value at a path in a spec, or None if the spec has no such value."""
    for part in path:
        spec = spec.get(part) if isinstance(spec, Mapping) else None
    return spec


def find_priced_nodes(point: PointRow | Arm) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """Yield the nodes of the point's own model, if it has prices, and of the models inside its
    stages."""
    model = point.spec.get("model")
    if isinstance(model, Mapping) and model.get("prices"):
        yield True, model
    left = [point.spec.get("stages")]
    while left:
        node = left.pop(0)
        if isinstance(node, Mapping):
            if node.get("prices"):
                yield False, node
            node = list(node.values())
        left = [*(node if isinstance(node, list | tuple) else ()), *left]
