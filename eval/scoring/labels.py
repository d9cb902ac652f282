"""The labels of points in tables, and the baseline that each point is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.pipelines.model import canonical

MOST = 3  # differing settings that a label shows


def labels(points: Sequence[PointRow]) -> dict[str, tuple[str, str]]:
    """The labels (contestant, task) of every point by id, no pair twice.

    A run that was continued with an edited configuration holds points of one name that were built
    differently: the later ones say what differs, "plain {mark.color=gray}", or are numbered where
    too many settings do. Different tasks of one name are numbered.
    """
    plain = {point.id: (contestant_label(point), task_label(point)) for point in points}
    counts = Counter(plain.values())
    twice = {label for label, count in counts.items() if count > 1}
    built: dict[str, dict[str, PointRow]] = {}
    asked: dict[str, list[str]] = {}
    out: dict[str, tuple[str, str]] = {}
    for point in points:
        who, what = plain[point.id]
        if who in {contestant for contestant, _ in twice}:
            who = _distinguish(who, point, built.setdefault(who, {}))
        if what in {task for _, task in twice}:
            what = _number(what, point.task_id, asked)
        out[point.id] = who, what
    return out


def _distinguish(label: str, point: PointRow, seen: dict[str, PointRow]) -> str:
    kind = canonical([{**point.spec, "task": None}, point.seed])
    first = seen.setdefault(kind, point) if kind in seen or not seen else next(iter(seen.values()))
    number = list(seen).index(kind) if kind in seen else len(seen)
    seen.setdefault(kind, point)
    if number == 0:
        return label
    mine, others = _leaves(point.spec), _leaves(first.spec)
    differing = [place for place in {**others, **mine} if mine.get(place) != others.get(place)]
    if not 0 < len(differing) <= MOST:
        return f"{label} #{number + 1}"
    return f"{label} {{{', '.join(_short(place, mine.get(place)) for place in differing)}}}"


def _leaves(spec: Any, place: str = "") -> dict[str, Any]:
    """Every setting of the stages and the model by its dotted place."""
    if isinstance(spec, Mapping):
        inner = (
            _leaves(v, f"{place}.{k}" if place else str(k))
            for k, v in spec.items()
            if place or k != "task"
        )
        return {key: value for leaves in inner for key, value in leaves.items()}
    return {place: spec}


def _number(label: str, kind: str, seen: dict[str, list[str]]) -> str:
    kinds = seen.setdefault(label, [])
    if kind not in kinds:
        kinds.append(kind)
    return f"{label} #{kinds.index(kind) + 1}" if kinds.index(kind) else label


def contestant_changes(point: PointRow) -> dict[str, Any]:
    """The changes that belong to who answers: stages, model, draws."""
    return {place: value for place, value in point.changes.items() if not _is_of_task(place)}


def task_changes(point: PointRow) -> dict[str, Any]:
    """The changes that belong to what is asked; places of other tasks are left out."""
    return {
        place: value
        for place, value in point.changes.items()
        if _is_of_task(place) and _touches(place, point.task)
    }


def contestant_label(point: PointRow, without: str = "") -> str:
    """The contestant and its changes: "plain [mark.radius=15]"; `without` leaves out one place."""
    return label_with_changes(point.contestant, contestant_changes(point), without)


def task_label(point: PointRow, without: str = "") -> str:
    """The task and its changes: "correspondence [strength=0.5]"; `without` leaves out one place."""
    return label_with_changes(point.task, task_changes(point), without)


def baselines(run: RunScores) -> dict[str, PointScores | None]:
    """Point id -> the arm that it is compared with: of the present plan, where that has one on the
    same samples."""
    by_id = run.by_id
    present, older = ([s.point for s in run.points if s.older is old] for old in (False, True))
    rivals = {name: baseline_of(scores.point, present, older) for name, scores in by_id.items()}
    return {name: by_id[point.id] if point else None for name, point in rivals.items()}


def baseline_of(
    point: PointRow, points: Sequence[PointRow], older: Sequence[PointRow] = ()
) -> PointRow | None:
    """The baseline's point on the same samples at the same setting, else the baseline's first.

    The same setting is the one with all of the point's changes that the baseline has: a sweep of a
    stage that it has dropped leaves it as it is. A changed point of the baseline itself is compared
    with its unchanged, else its first point. Of several that fit (the configuration was edited
    between two runs) it is the latest. None where there is nothing to compare. `older` are looked
    at where none of `points` is the baseline's.
    """
    mine, others = (
        [arm for arm in arms if arm.baseline and arm.task_id == point.task_id]
        for arms in (points, older)
    )
    rivals = mine or others
    wanted = {} if point.baseline else contestant_changes(point)
    alike = [arm for arm in rivals if contestant_changes(arm).items() <= wanted.items()]
    closest = max(reversed(alike), key=lambda arm: len(contestant_changes(arm)), default=None)
    chosen = closest or next(iter(rivals), None)
    return None if chosen is None or chosen.id == point.id else chosen


def factor_value(point: PointRow, place: str) -> float | None:
    """The number that a point has at a dotted place: from its changes, or else from what was
    built."""
    value = (
        point.changes[place]
        if place in point.changes
        else setting_at(point.spec, _spec_path(place))
    )
    return as_number(value)


def as_number(value: object) -> float | None:
    """A value as a number; None where it is none, as truth values are."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def setting_of(point: PointRow, place: str) -> str | float | None:
    """What a point has at a dotted place, changed or not: a number or a word, of a stage its class
    or "none"."""
    whole = {**point.spec, "read": point.read, "draws": point.draws, "seed": point.seed}
    value = point.changes[place] if place in point.changes else setting_at(whole, _spec_path(place))
    if isinstance(value, Mapping):
        value = str(value.get("use", "")).rpartition(".")[2]
    if value is None:
        return (
            "none"
            if place in point.changes or (place.startswith("stages.") and place.count(".") == 1)
            else None
        )
    return value if isinstance(value, str | float | int) else str(value)


def label_with_changes(name: str, changes: Mapping[str, Any], without: str = "") -> str:
    """A name with its changes by dotted place in short: "plain [mark.radius=15, no zoom]"."""
    short = [_short(place, value) for place, value in changes.items() if place != without]
    return f"{name} [{', '.join(short)}]" if short else name


def _short(place: str, value: Any) -> str:
    head, _, rest = place.partition(".")
    if head == "tasks":
        rest = rest.partition(".")[2]
    short = rest if head in ("stages", "task", "tasks") and rest else place
    return f"no {short}" if value is None else f"{short}={value}"


def _is_of_task(place: str) -> bool:
    return place.partition(".")[0] in ("task", "tasks")


def _touches(place: str, task: str) -> bool:
    head, _, rest = place.partition(".")
    return head == "task" or rest.partition(".")[0] == task


def _spec_path(place: str) -> list[str]:
    parts = place.split(".")
    if parts[0] in ("tasks", "models"):
        return [parts[0].removesuffix("s"), *parts[2:]]
    return parts


def setting_at(spec: Any, path: Sequence[str]) -> Any:
    """What a spec holds at a path; None where it has nothing there."""
    for part in path:
        spec = spec.get(part) if isinstance(spec, Mapping) else None
    return spec
