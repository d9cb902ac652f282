"""Notes below the table of a run: the baseline of delta, missing samples, arms that are left out,
and arms that sent identical requests, because a stage that changed no request cannot change an
answer.

`check`, which tries a few samples, and a finished run use the same rule: the requests of two arms
that differ in one slot, or of an arm and its baseline, are compared sample by sample.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from looktwice.eval.records.records import PointRow, get_looks
from looktwice.eval.scoring.columns import DIGEST_BYTES, NO_DIGEST, Column, Words
from looktwice.eval.scoring.labels import find_baselines, find_priced_nodes, get_contestant_changes
from looktwice.eval.scoring.verdict import (
    UNJUDGED,
    PointScores,
    RunScores,
    Verdict,
    find_commonest_failure,
)
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.counted import format_count, format_list, shorten_text
from looktwice.pipelines.model import format_prices
from looktwice.pipelines.state import NO_MARK_NOTE

WHY_UNREADABLE = {
    "unread": "because the reader found no answer",
    "refused": "because the model refused",
    "empty": "because the reply is empty",
    "cut_off": "because the reply was cut off; raise `max_tokens`",
    "filtered": "because the server's filter withheld the reply",
    "abstained": "because a stage abstained",
    UNJUDGED: "because no judge has graded it; `looktwice judge` asks one",
}
"""The end of a sentence for each member of REASONS."""
MAX_UNCHANGED_SHARE = 0.5
"""The share of samples, or of a slot's values, above which a note says that nothing changed."""
COST_FILE = ".spent"  # the file of a run folder that holds its total cost
DRAWING_TASK_PATH = "eval.tasks.MarkQuestions"  # a task that leaves markers nothing to draw
MAX_NAMED_ARMS = 3  # arms that a sentence names
SLOT_SEPARATOR = " + "  # separates two slots
UNKNOWN_REQUEST = np.void(NO_DIGEST)  # the digest of a request that is not known
LOOK_CALL_PREFIX = '"look {'  # occurs in the line of a record with a tool call


def list_notes(run: RunScores) -> list[str]:
    """Return the notes of a run, one sentence each: warnings of its tasks, the baseline, prices,
    samples without a record, failures, incomplete tasks, and arms of earlier plans."""
    warnings = set()
    for scores in run.points:
        for part in str(scores.point.facts.get("note")).split("; "):
            if part.startswith("warning: "):
                warnings.add((scores.task, f"{part} ({scores.task})"))
    prices = list_prices(scores.point for scores in run.points)
    sentences = [sentence for _, sentence in sorted(warnings)]
    return [
        *sentences,
        *_describe_comparison(run),
        *prices,
        *_describe_left_out(run),
        *_describe_refused_calls(run),
    ]


def list_prices(arms: Iterable[PointRow | Arm]) -> list[str]:
    """Return a sentence for each model with prices; it gives the date and source of the prices if
    they are known."""
    lines = dict.fromkeys(
        f"prices of {node.get('model') or node.get('use')}: {format_prices(node['prices'])}"
        for arm in arms
        for _, node in find_priced_nodes(arm)
    )
    return list(lines)


def _describe_refused_calls(run: RunScores) -> Iterator[str]:
    """Name the arms whose models called tools but had every call refused, so that no tool was
    run."""
    idle = dict[str, Counter[str]]()
    for scores in run.points:
        measured = (measured for _, measured in scores.columns.iterate_measurements())
        looks = [values["looks"] for values in measured if "looks" in values]
        if looks and not any(looks) and not scores.point.replies_of:
            idle[scores.point.id] = Counter()
    labels, reasons = list[str](), Counter[str]()
    for scores, record in run.records(holding=LOOK_CALL_PREFIX) if idle else ():
        for look in get_looks(record) if scores.point.id in idle else ():
            idle[scores.point.id][look.reason if look.outcome == "refused" else ""] += 1
    for scores in run.points:
        refused = idle.get(scores.point.id)
        if refused and "" not in refused:
            labels.append(f"{scores.contestant} on {scores.task}")
            reasons += refused
    if labels:
        why = shorten_text(reasons.most_common(1)[0][0], 160)
        yield (
            f"refused: all {format_count(reasons.total(), 'tool call')} of"
            f" {_join_names(labels)}, so no tool"
            f" was run; most often because {why}"
        )


def _describe_comparison(run: RunScores) -> Iterator[str]:
    """Describe the baseline of delta: one arm, or for each arm the one at the same setting."""
    rivals, alike, rest, own = find_baselines(run), list[str](), list[str](), list[str]()
    names = {rival.contestant for rival in rivals.values() if rival}
    if len(names) < 2:
        yield from (f"delta: against {name}" for name in names)
        return
    for scores in run.points:
        if (rival := rivals[scores.point.id]) is None:
            continue
        if scores.point.contestant == rival.point.contestant:
            own.append(rival.contestant)
        elif get_contestant_changes(scores.point) == get_contestant_changes(rival.point):
            alike.append(rival.point.contestant)
        else:
            rest.append(rival.contestant)
    parts = [f"against {alike[0]} at the same setting"] if alike else []
    parts += [f"{'otherwise ' if alike else ''}against {_format_nearest(rest)}"] if rest else []
    parts += [f"its own arms against {_format_nearest(own)}"] if own else []
    yield f"delta: {'; '.join(parts)}"


def _format_earlier_arms(names: Sequence[str]) -> str:
    arms = format_count(len(names), "arm of an earlier plan", "arms of earlier plans")
    return f"{arms}, {_join_names(names)}"


def _format_nearest(names: Sequence[str]) -> str:
    return names[0] if len({*names}) == 1 else f"the nearest setting among {_join_names(names)}"


def _describe_left_out(run: RunScores) -> Iterator[str]:
    """Describe missing records, failed and unreadable answers with their most common reason,
    incomplete tasks, and earlier plans."""
    failed, unreadable, missing, answered = Counter[Words](), Counter[Words](), 0, 0
    earlier = list[str]()
    for scores in run.points:
        failed.update(scores.count_by_words(Verdict.FAILED))
        unreadable.update(scores.count_by_words(Verdict.UNREADABLE))
        if not scores.point.replies_of:
            missing += scores.missing
            answered += len(scores.columns)
        if scores.is_older:
            earlier.append(f"{scores.contestant} on {scores.task}")
    if missing:
        planned = format_count(missing + answered, "planned answer")
        are = "is" if missing == 1 else "are"
        is_paid = (run.folder.path / COST_FILE).exists()
        larger = ", with a larger --budget if the budget is used up" * is_paid
        yield (
            f"unfinished: {missing} of {planned} {are} missing and excluded from all means; the"
            f" same command resumes the run{larger}"
        )
    if failed:
        often = "with" if failed.total() == 1 else "most often with"
        yield (
            f"failed: {format_count(failed.total(), 'answer')}, {often}"
            f" {find_commonest_failure(failed)}"
        )
    if unreadable:
        yield (
            f"unreadable: {format_count(unreadable.total(), 'answer')},"
            f" {find_commonest_reason(unreadable)}"
        )
    yield from _describe_partial_tasks(run)
    if earlier:
        yield f"also shown, and included in Holm's correction: {_format_earlier_arms(earlier)}"
    older, draws = list[str](), format_count(run.older_draw_count, "answer")
    if run.older_labels:
        older.append(_format_earlier_arms(run.older_labels))
    older += [f"{draws} of an earlier plan that had more draws"] if run.older_draw_count else []
    if older:
        yield (f"not shown: {'; '.join(older)}; `--all` (in Python `all_arms=True`) shows them")


def find_commonest_reason(unreadable: Counter[Words]) -> str:
    """Describe the most common reason for unreadable answers, quoting the first such answer."""
    reasons = Counter[str]()
    for words, number in unreadable.items():
        reasons[words.reason] += number
    ((reason, count),) = reasons.most_common(1)
    most = "" if count == unreadable.total() else f"{count} of them "
    first = next(entry.detail for entry in unreadable if entry.reason == reason)
    sentence = first.removeprefix(reason).removeprefix(": ").partition("\n")[0]
    detail = shorten_text(sentence, 300).rstrip(".")  # the sentence continues
    example = f", for example: {detail}" if detail else ""
    return f"{most}{WHY_UNREADABLE.get(reason, reason)}{example}"


def _describe_partial_tasks(run: RunScores) -> Iterator[str]:
    """Name the tasks with samples that a limit or a shard left out and that were never asked."""
    facts, limits = run.folder.facts, list[str]()
    whole, limit, limited = facts.get("samples") or {}, facts.get("limit"), False
    tasks = defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        if not scores.is_older:
            tasks[scores.point.task_id].append(scores)
    for task, arms in tasks.items():
        asked = []
        for arm in arms:
            planned = len(arm.samples) if arm.planned is None else arm.planned
            asked.append(max(planned, len(arm.columns.recorded_ids)))
        few, most = min(asked), max(asked)
        if few < whole.get(task, few):
            limited = limited or few == limit
            numbers = str(few) if few == most else f"{few} to {most}"
            limits.append(f"{arms[0].task}: {numbers} of {format_count(whole[task], 'sample')}")
    if limits:
        yield f"partly asked{f' (limit {limit})' if limited else ''}: {', '.join(limits)}"


# ---- stages that changed nothing


@dataclass(frozen=True)
class ArmRequests:
    """The requests of one arm: for each sample of its task, in order, the digest `Record.request`
    (`UNKNOWN_REQUEST` if there is none), and the reasons for which stages left views unchanged
    (`kept_notes`).

    `contestant` and `task` are its labels in tables, `rival_id` is the id of the arm that it is
    compared with. Slots in `made_up_slots` are not assessed, because their effect depends on the
    scripted replies of a dry run.
    """

    point: PointRow
    contestant: str
    task: str
    requests: Column
    kept_notes: Sequence[Sequence[str]] = ()
    rival_id: str = ""
    made_up_slots: Collection[str] = ()

    @property
    def stages(self) -> dict[str, str]:
        """The settings of every slot, each as one string."""
        return {slot: repr(node) for slot, node in self.point.spec.get("stages", {}).items()}

    @property
    def other_settings(self) -> str:
        """The task, model and seed, which two arms must share for their requests to be compared."""
        return repr([self.point.task_id, self.point.spec.get("model"), self.point.seed])

    @property
    def are_known(self) -> Column:
        """For each sample, whether its request is known."""
        known: Column = self.requests != UNKNOWN_REQUEST
        return known

    def sends_same_as(self, rival: ArmRequests) -> list[bool]:
        """Return, for each sample whose requests are known for both arms, whether the two are
        identical."""
        count = min(len(self.requests), len(rival.requests))
        are_known = self.are_known[:count] & rival.are_known[:count]
        return (self.requests[:count] == rival.requests[:count])[are_known].tolist()  # type: ignore[no-any-return]

    def find_reason(self, places: Sequence[int]) -> str:
        """Return the most common reason for which stages left these samples unchanged."""
        return Counter(why for place in places for why in self.kept_notes[place]).most_common(1)[0][
            0
        ]


Arms = Sequence[ArmRequests]


def pack_requests(requests: Iterable[bytes]) -> Column:
    """Return digests as a column."""
    return np.array([*requests], f"V{DIGEST_BYTES}")


def list_unchanged_notes(run: RunScores) -> list[str]:
    """Return notes on stages that changed few or no requests in the first draw of every sample,
    which explains a delta of zero."""
    rivals, arms = find_baselines(run), []
    for scores in run.points:
        if scores.is_older or scores.point.replies_of:  # another reader is not a stage
            continue
        requests, kept = scores.columns.get_requests(), scores.columns.get_kept_notes()
        rival = rivals[scores.point.id]
        names, against = (scores.contestant, scores.task), rival.point.id if rival else ""
        arms.append(ArmRequests(scores.point, *names, requests, kept, against))
    return describe_unchanged(arms)


def describe_unchanged(arms: Arms) -> list[str]:
    """Return a sentence for each slot whose settings changed few or no requests, and for stages
    that found nothing on most samples."""
    tasks, ends = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    explained = set[str]()
    for slots, variants in (*_group_by_slot(arms), *_compare_with_rivals(arms)):
        if SLOT_SEPARATOR in slots and variants[1].point.id in explained:
            continue
        classes = _group_by_requests(variants)
        for alike in classes:
            explained |= {arm.point.id for arm in alike} if len(alike) > 1 else set()
        for beginning, end in _write_sentences(slots, variants, classes):
            tasks[beginning].append(variants[0].task)
            ends[beginning].append(end)
    sentences = []
    for beginning, (end, *more) in ends.items():
        repeated = len({*more} - {end})
        alike_too = (
            f"; likewise for {format_count(repeated, 'more comparison')}" if repeated else ""
        )
        sentences.append(f"{beginning} of {_prefix_each(tasks[beginning])}{end}{alike_too}")
    return [*sentences, *_describe_empty_stages(arms)]


def _group_by_slot(arms: Arms) -> Iterator[tuple[str, Arms]]:
    """Yield, for every slot, the arms that differ only in that slot."""
    alike = defaultdict[tuple[str, str, frozenset[tuple[str, str]]], list[ArmRequests]](list)
    every = dict.fromkeys(slot for arm in arms for slot in arm.stages)
    for arm in arms:
        stages, shared = arm.stages, arm.other_settings
        for slot in every:
            rest = frozenset((stages | {slot: ""}).items())
            alike[slot, shared, rest].append(arm)
    for (slot, *_), variants in alike.items():
        if len(variants) > 1 and not any(slot in arm.made_up_slots for arm in variants):
            yield slot, variants


def _compare_with_rivals(arms: Arms) -> Iterator[tuple[str, Arms]]:
    """Yield each arm that differs in several slots from the arm that it is compared with."""
    by_id = {arm.point.id: arm for arm in arms}
    for arm in arms:
        rival = by_id.get(arm.rival_id)
        if rival is None or rival.other_settings != arm.other_settings:
            continue
        mine, others = arm.stages, rival.stages
        slots = [slot for slot in {**others, **mine} if mine.get(slot) != others.get(slot)]
        if len(slots) > 1 and not {*slots} & {*arm.made_up_slots, *rival.made_up_slots}:
            yield SLOT_SEPARATOR.join(slots), [rival, arm]


def _group_by_requests(arms: Arms) -> list[list[ArmRequests]]:
    """Return classes of arms that sent identical requests for every sample for which both requests
    are known."""
    classes = list[list[ArmRequests]]()
    for arm in arms:
        for alike in classes:
            same = arm.sends_same_as(alike[0])
            if same and all(same):
                alike.append(arm)
                break
        else:
            classes.append([arm])
    return classes


def _write_sentences(slots: str, arms: Arms, classes: Sequence[Arms]) -> Iterator[tuple[str, str]]:
    """Yield the text before and after the names of the tasks."""
    largest = max(classes, key=len)
    # a smaller class may be identical on purpose, such as controls
    if len(largest) > len(arms) * MAX_UNCHANGED_SHARE and len(largest) > 1:
        samples = _count_samples(largest[0].sends_same_as(largest[1]))
        sent = "answer" if arms[0].point.spec.get("model") is None else "request"
        many = f"{slots}: {format_count(len(arms), 'value')}, {format_count(len(classes), sent)}"
        yield f"changed nothing: {many} on {samples}", f": {_join_arms(largest)} sent the same"
    first = next((arm for arm in arms if slots not in arm.stages), arms[0])
    for alike in classes:
        same = alike[0].sends_same_as(first)
        if len(same) * MAX_UNCHANGED_SHARE < sum(same) < len(same):
            equal = f"the request of {_join_arms(alike)} equals that of {first.contestant}"
            kept = [place for place, notes in enumerate(alike[0].kept_notes) if notes]
            reason = f"; nothing found on {len(kept)}: {alike[0].find_reason(kept)}" if kept else ""
            yield f"changed little: {slots}: {equal} on {_count_samples(same)}", reason


def _describe_empty_stages(arms: Arms) -> Iterator[str]:
    """Name the arms in which a stage left most samples of a task unchanged, with the most common
    reason."""
    contestants = defaultdict[tuple[str, str, str], list[str]](list)
    for arm in arms:
        places = np.flatnonzero(arm.are_known).tolist() if any(arm.kept_notes) else []
        kept = [bool(arm.kept_notes[place]) for place in places]
        if sum(kept) > len(kept) * MAX_UNCHANGED_SHARE:
            reason = arm.find_reason([*compress(places, kept)])
            task = arm.point.spec.get("task") or {}
            if task.get("use") == DRAWING_TASK_PATH and reason.endswith(NO_MARK_NOTE):
                continue
            contestants[_count_samples(kept), arm.task, reason].append(arm.contestant)
    tasks = defaultdict[tuple[str, str, str], list[str]](list)
    for (samples, task, reason), names in contestants.items():
        tasks[_join_names(names), samples, reason].append(task)
    for (arms_alike, samples, reason), where in tasks.items():
        yield f"found nothing: {arms_alike} on {samples} of {_prefix_each(where)}: {reason}"


def _count_samples(same: Sequence[bool]) -> str:
    compared = format_count(len(same), "sample")
    return f"all {compared}" if all(same) else f"{sum(same)} of {compared}"


def _join_arms(arms: Arms) -> str:
    return _join_names([arm.contestant for arm in arms])


def _prefix_each(tasks: Sequence[str]) -> str:
    return f"each of {_join_names(tasks)}" if len({*tasks}) > 1 else tasks[0]


def _join_names(names: Sequence[str]) -> str:
    """List the first few names, each of them once, and the number of other names."""
    return format_list(list(dict.fromkeys(names)), MAX_NAMED_ARMS)
