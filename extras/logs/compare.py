"""Comparison of logs on the samples that they share: matching, paired differences, flipped samples,
and samples without a partner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import ValueMatrix, correct
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.log import Log, make_names_unique, normalize_answer
from looktwice.extras.logs.scorers import (
    agree_on_scorers,
    count_same_replies,
    describe_scorer_mismatch,
    get_scorers,
)
from looktwice.pipelines.config.classes import extend_hint, suggest_names

if TYPE_CHECKING:
    import pandas

__all__ = [
    "ALL_TASKS",
    "Contrast",
    "LogComparison",
    "Matching",
    "compare_logs",
    "find_name",
    "match_samples",
]

ALL_TASKS = "all tasks"
BY_ID, BY_PICTURES, BY_WORDS = "id", "pictures and question", "question"


@dataclass(frozen=True)
class Matching:
    """The matched samples of two logs: `places` maps positions in the first log to positions in the
    second.

    `match_counts` gives the number of matches for each way of matching. `unmatched_in_base` are the
    positions in the first log without a partner, `unmatched_in_log` those in the second log, and
    `refused_places` the positions in the first log that match a sample with a different correct
    answer.
    """

    places: Mapping[int, int]
    match_counts: Mapping[str, int]
    unmatched_in_base: Sequence[int]
    unmatched_in_log: Sequence[int]
    refused_places: Collection[int]


def match_samples(base: Log, log: Log) -> Matching:
    """Match the samples of two logs.

    Ids are matched first, within a task if ids repeat across tasks; where ids are bare numbers and
    both logs hold the questions, the question texts must agree as well. The remaining samples are
    matched by the hashes of their pictures and the text of the question and its choices, or by the
    text alone if one log holds no pictures; duplicates are left out. Pairs whose correct answers
    differ are refused, because the logs must then differ in the labels or in the order of the
    choices. Raises TaskError if nothing matches.
    """
    by = dict.fromkeys(_match_ids(base, log).items(), BY_ID)
    if len(by) < min(len(base.units), len(log.units)):
        base, log = base.whole, log.whole
        for way in (BY_PICTURES, BY_WORDS):
            mine, theirs = ({pair[side] for pair in by} for side in (0, 1))
            sides = [base.units.drop(index=list(mine)), log.units.drop(index=list(theirs))]
            if way == BY_WORDS and all((units["pictures"] != "").any() for units in sides):
                break  # both logs hold pictures, and those of the remaining samples differ
            contents = [_join_content(units, way == BY_PICTURES) for units in sides]
            by |= dict.fromkeys(_pair_unique_texts(*contents).items(), way)
    keys = [units["key"].map(normalize_answer).tolist() for units in (base.units, log.units)]
    same = dict[tuple[int, int], str]()
    for pair, way in by.items():
        key, rival = keys[0][pair[0]], keys[1][pair[1]]
        # a missing key, or a letter in one log and words in the other, may agree
        if not key or not rival or key == rival or (len(key) == 1) != (len(rival) == 1):
            same[pair] = way
    apart = sorted(by.keys() - same.keys())
    refused = [mine for mine, _ in apart]
    if not same:
        raise TaskError(
            f"{base.name} and {log.name} share no sample{_explain_no_match(base, log, apart)}"
        )
    places = dict(sorted(same))
    left = [place for place in range(len(base.units)) if place not in places]
    right = sorted(set(range(len(log.units))).difference(places.values()))
    return Matching(places, Counter(same.values()), left, right, refused)


def _explain_no_match(base: Log, log: Log, apart: Sequence[tuple[int, int]]) -> str:
    """Explain why two logs share no sample, and what to type; `apart` holds the pairs that differ
    only in their correct answers."""
    if apart:
        units = base.units.loc[apart[0][0]], log.units.loc[apart[0][1]]
        return (
            f" with the same key: {len(apart)} match except for their keys; {units[0]['sample']!r}"
            f" has {units[0]['key']!r} in {base.name} and {units[1]['key']!r} in {log.name}. Name"
            " the column of keys with --column key=COLUMN"
        )
    tasks = [side.units["task"].unique().tolist() for side in (base, log)]
    if "" not in (*tasks[0], *tasks[1]) and not {*tasks[0]} & {*tasks[1]}:
        return (
            f": the tasks are {', '.join(tasks[0])} in the first and {', '.join(tasks[1])} in the"
            " second; compare contestants that answer the same task, or name another --baseline"
        )
    ids = [side.units["sample"].iloc[0] for side in (base, log)]
    return (
        f"; their ids look like {ids[0]!r} and {ids[1]!r}. Name the column of ids with --column"
        " sample=COLUMN"
    )


def _match_ids(base: Log, log: Log) -> dict[int, int]:
    """Match samples by id; ids that are bare numbers do not match if the question texts differ."""
    ids = base.units["sample"], log.units["sample"]
    if not (ids[0].is_unique and ids[1].is_unique):
        ids = base.units["task"] + "\0" + ids[0], log.units["task"] + "\0" + ids[1]
    places = _pair_unique_texts(*ids)
    numbers = base.units["sample"].str.fullmatch(r"\d+")
    if numbers.any():
        mine, theirs = (_normalize_words(side.whole.units["question"]) for side in (base, log))
        for place, partner in list(places.items()):
            # an empty text is contained in every other text
            asked, answered = mine[place], theirs[partner]
            if numbers[place] and asked not in answered and answered not in asked:
                del places[place]
    return places


def _pair_unique_texts(mine: pandas.Series, theirs: pandas.Series) -> dict[int, int]:
    """Map positions in one log to positions in the other by the texts that occur exactly once in
    each; ignore empty texts."""
    mine, theirs = (
        texts[(texts != "") & ~texts.duplicated(keep=False)] for texts in (mine, theirs)
    )
    places = dict(zip(theirs, theirs.index, strict=True))
    return {place: places[text] for place, text in mine.items() if text in places}


def _normalize_words(texts: pandas.Series) -> pandas.Series:
    return texts.str.casefold().str.split().str.join(" ")


def _join_content(units: pandas.DataFrame, with_pictures: bool) -> pandas.Series:
    """Join question, choices and, if requested, picture hashes; "" if the question or a picture is
    missing."""
    words, pictures = _normalize_words(units["question"]), units["pictures"]
    content, is_whole = (
        words + "\0" + _normalize_words(units["choices"].map(" \0 ".join)),
        words != "",
    )
    if with_pictures:
        content, is_whole = pictures + "\0" + content, is_whole & (pictures != "")
    return content.where(is_whole, "")


def explain_unmatched(
    mine: pandas.DataFrame, theirs: pandas.DataFrame, places: Sequence[int]
) -> list[str]:
    """Explain for each sample at `places` why it has no partner in the other log; both logs must
    hold their questions."""
    ids, there = mine["sample"], set(theirs["sample"])
    twice, reasons = ids.duplicated(keep=False), []
    with_pictures = bool((mine["pictures"] != "").any() and (theirs["pictures"] != "").any())
    contents, rivals = (_join_content(units, with_pictures) for units in (mine, theirs))
    repeated = {*contents[contents.duplicated()], *rivals[rivals.duplicated()]} & {*rivals} - {""}
    for place in places:
        if twice[place]:
            reasons.append("its id occurs twice")
        elif contents[place] in repeated:
            kind = "its pictures and question" if with_pictures else "its question"
            unknown = "" if ids[place] in there else "its id is not there, and "
            reasons.append(f"{unknown}{kind} occur{'' if with_pictures else 's'} twice")
        elif ids[place] in there:
            reasons.append("its id belongs to another question there")
        elif not mine["question"][place]:
            reasons.append("its id is not there, and its question is unknown")
        else:
            reasons.append("neither its id nor its question is there")
    return reasons


@dataclass(frozen=True)
class Contrast:
    """A comparison of two contestants on the shared samples of one task, or of all tasks.

    `value` is the contestant's mean over the shared samples, `baseline_value` the baseline's.
    `fell_out` is the number of matched samples that failed, or have no value, in either log.
    `p_holm` and `p_bh` are corrected over the contrasts of single tasks, or over those of
    ALL_TASKS. `people` is the accuracy of
    people on these tasks, weighted by their samples, if it is published for each. `scorer` names
    the scorer of both logs, or the contestant's and then the baseline's if they differ.
    """

    task: str
    contestant: str
    baseline: str
    value: float
    baseline_value: float
    paired: Estimate
    fell_out: int
    p_holm: float = 1.0
    p_bh: float = 1.0
    people: float | None = None
    scorer: str = ""


@dataclass(frozen=True)
class LogComparison:
    """A comparison of logs with the first one, the baseline, on the baseline's samples; `matchings`
    has an entry for each of the other logs. With `pairs`, the other logs are also compared with
    each other."""

    logs: tuple[Log, ...]
    matchings: tuple[Matching, ...]
    pairs: bool = False

    def __repr__(self) -> str:
        names = ", ".join(log.name for log in self.logs)
        return f"LogComparison({names}; {len(self.values)} samples)"

    @cached_property
    def units(self) -> list[pandas.DataFrame]:
        """The samples of each log in the order of the baseline; where a log has no partner for a
        sample, the row is empty."""
        base, units = self.logs[0].units, [self.logs[0].units]
        for log, matching in zip(self.logs[1:], self.matchings, strict=True):
            places = [matching.places.get(place, -1) for place in base.index]
            units.append(log.units.reindex(places).reset_index(drop=True))
        return units

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """An array (n, logs) of the values that the baseline's n samples have in each log.

        A value is NaN if the sample has no partner, failed, has no correct answer, or was graded by
        a scorer other than the one in the baseline.
        """
        values = np.column_stack([units["value"] for units in self.units]).astype(float)
        return np.where(self.scored_differently, np.nan, values)

    @cached_property
    def scored_differently(self) -> NDArray[np.bool_]:
        """A mask (n, logs) of the samples whose values cannot be compared with the baseline's,
        because another scorer of the same harness graded them."""
        columns = [get_scorers(units) for units in self.units]
        apart = []
        for log, scorers in zip(self.logs, columns, strict=True):
            is_alike = log.harness == self.logs[0].harness
            both = (columns[0] != "") & (scorers != "") if is_alike else False
            apart.append(both & (columns[0] != scorers))
        return np.column_stack([np.broadcast_to(part, len(columns[0])) for part in apart])

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The contrasts of each log with the baseline, over all tasks and by task; with `pairs`,
        also those of the other logs with each other, over all tasks."""
        contrasts, rivals = list[Contrast](), range(1, len(self.logs))
        for number in rivals:
            contrasts += self._compare_with_base(number, 0)
        for first, second in combinations(rivals, 2) if self.pairs else ():
            contrasts += islice(self._compare_with_base(second, first), 1)
        return tuple(correct(contrasts, lambda c: c.paired.p, lambda c: c.task == ALL_TASKS))

    @cached_property
    def items(self) -> pandas.DataFrame:
        """A row per sample of the baseline: task, sample, question, key, and the value and answer
        in each log.

        `flipped` names the logs in which the value differs from the baseline's.
        """
        frame = self.logs[0].units[["task", "sample", "question", "key"]].copy()
        flips = np.full(len(frame), "", object)
        for number, log in enumerate(self.logs):
            frame[f"{log.name}: value"] = self.values[:, number]
            frame[f"{log.name}: answer"] = self.units[number]["answer"].fillna("")
            if (scorers := self.units[number]["scorer"].fillna("")).any():
                frame[f"{log.name}: scorer"] = scorers
            for place in self._find_flips(number):
                flips[place] += f"; {log.name}" if flips[place] else log.name
        return frame.assign(flipped=flips)

    @cached_property
    def unmatched(self) -> pandas.DataFrame:
        """A row per sample without a partner: the `log` that holds it, the log that it was matched
        `against`, task, sample, and the reason."""
        import pandas

        base, parts = self.logs[0], []
        for log, matching in zip(self.logs[1:], self.matchings, strict=True):
            for own, rival, places in (
                (base, log, matching.unmatched_in_base),
                (log, base, matching.unmatched_in_log),
            ):
                alone = own.units.loc[list(places)].assign(log=own.name, against=rival.name)
                reasons = explain_unmatched(own.whole.units, rival.whole.units, places)
                parts.append(alone.assign(why=reasons))
            parts[-2].loc[list(matching.refused_places), "why"] = "the keys differ"
        return pandas.concat(parts)[["log", "against", "task", "sample", "why"]]

    def flipped(self, contestant: str) -> pandas.DataFrame:
        """Return the items on which a log, named by its contestant, and the baseline have different
        values. Raises TaskError for an unknown name."""
        names = [log.name for log in self.logs]
        return self.items.iloc[self._find_flips(find_name(contestant, names, "log"))]

    def count_same_replies(self, number: int) -> int:
        """Count the flipped samples whose reply is identical in this log and in the baseline, so
        that only the scoring differs."""
        places = self._find_flips(number)
        pairs = [
            units.loc[places, ["task", "sample"]] for units in (self.units[0], self.units[number])
        ]
        return count_same_replies(self.logs[0], self.logs[number], *pairs) if len(places) else 0

    def _find_flips(self, number: int) -> NDArray[np.int64]:
        gap = self.values[:, number] - self.values[:, 0]
        return np.flatnonzero(np.nan_to_num(gap))

    def _compare_with_base(self, number: int, base: int) -> Iterator[Contrast]:
        names, tasks = [log.name for log in self.logs], self.logs[0].units["task"].to_numpy()
        who, against = names[number], names[base]
        matched = self.units[number]["sample"].notna() & self.units[base]["sample"].notna()
        single = [*dict.fromkeys(tasks.tolist())]
        for task in [ALL_TASKS, *single] if len(single) > 1 else [ALL_TASKS]:
            part = np.full(len(tasks), True) if task == ALL_TASKS else tasks == task
            values = self._clustered_values.where(part)
            if (paired := values.compare_arms(who, against)) is not None:
                both = values.valid_mask(who, against)
                level = float(self._human_accuracies[part][both].mean())
                mine, theirs = (float(values[name][both].mean()) for name in (who, against))
                fell_out = int((matched[part]).sum() - both.sum())
                people = None if np.isnan(level) else level
                by = self._name_scorers(number, base, part)
                about = mine, theirs, paired, fell_out
                yield Contrast(task, who, against, *about, people=people, scorer=by)

    def _name_scorers(self, number: int, base: int, part: NDArray[np.bool_]) -> str:
        """Name the scorers of the samples in `part` in two logs; name them only once if they are
        the same."""
        sides = []
        for place in (number, base):
            names = self.units[place]["scorer"][part].fillna("")
            sides.append(", ".join(filter(None, dict.fromkeys(names))))
        return " | ".join(dict.fromkeys(sides))

    @cached_property
    def _clustered_values(self) -> ValueMatrix[str, int]:
        """The values with their clusters; samples in one cluster belong to the same group, or else
        have the same pictures."""
        names = tuple(log.name for log in self.logs)
        codes = self.logs[0].clusters.factorize()[0]
        tasks = self.logs[0].units["task"].factorize()[0]
        return ValueMatrix(self.values.T, names, tuple(range(len(codes))), codes, tasks)

    @cached_property
    def _human_accuracies(self) -> NDArray[np.float64]:
        """The accuracy of people on the task of each sample, (n,); NaN if none is published."""
        levels = {task: level for log in reversed(self.logs) for task, level in log.people.items()}
        return np.array([levels.get(task, np.nan) for task in self.logs[0].units["task"]])


def compare_logs(
    logs: Sequence[Log], baseline: str = "", only: Sequence[str] = (), pairs: bool = False
) -> LogComparison:
    """Compare logs with the first one or with `baseline`; `only` limits the other logs to these
    names, and with `pairs` they are also compared with each other.

    A log that shares no sample with the baseline has no contrast, and the summary says so. Logs of
    one harness are compared by a scorer that they share. Raises TaskError for fewer than two logs,
    for an unknown name, and if no log shares a sample or a scorer with the baseline.
    """
    named = make_names_unique(logs)
    names = [log.name for log in named]
    if len(named) < 2:
        raise TaskError(f"a comparison needs at least two logs, found {', '.join(names) or 'none'}")
    base, *others = [named[place] for place in find_places(names, baseline, only)]
    matchings, refusals = list[Matching](), list[TaskError]()
    for log in others:
        try:
            matchings.append(match_samples(base, log))
        except TaskError as exc:
            refusals.append(exc)
            alone = range(len(base.units)), range(len(log.units))
            matchings.append(Matching({}, Counter(), *alone, refused_places=()))
    if others and len(refusals) == len(others):
        raise refusals[0]
    agreed = agree_on_scorers((base, *others), matchings)
    compared = LogComparison(agreed, tuple(matchings), pairs)
    apart = compared.scored_differently
    matched = np.column_stack([units["sample"].notna() for units in compared.units])
    if (apart.any(axis=0) & (apart == matched).all(axis=0))[1:].all():
        raise TaskError(describe_scorer_mismatch(agreed[0], agreed[1]))
    return compared


def find_places(names: Sequence[str], baseline: str, only: Collection[str]) -> list[int]:
    """Return the position of the baseline (default: the first), then the positions of `only`
    (default: all others). Raises TaskError for an unknown name, and if `only` names just the
    baseline."""
    first = find_name(baseline, names, "log") if baseline else 0
    wanted = {find_name(name, names, "log") for name in only} or {*range(len(names))}
    if wanted == {first}:
        others = ", ".join(name for place, name in enumerate(names) if place != first)
        raise TaskError(
            f"--only {names[first]}: this is the baseline itself; name one of {others}, or another"
            " --baseline"
        )
    return [first, *sorted(wanted - {first})]


def find_name(name: str, names: Sequence[str], kind: str) -> int:
    """Return the position of a name among logs or variants.

    A name without the variant is accepted if only one entry begins with it. Raises TaskError for an
    unknown name; its message suggests the closest one.
    """
    if name not in names:
        longer = [entry for entry in names if entry.startswith((f"{name} (", f"{name} ["))]
        if len(longer) == 1:
            return names.index(longer[0])
        near = f"; did you mean {longer[0]!r}?" if longer else suggest_names(name, names)
        there = extend_hint(near, f"the {kind}s are {', '.join(names)}")
        raise TaskError(f"no {kind} is named {name!r}{there}")
    return names.index(name)
