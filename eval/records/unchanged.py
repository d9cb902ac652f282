"""Arms whose stages differ and that sent the same: what changed no request cannot change an answer.

One rule for `check`, which tries a few samples, and for the records of a run: what each arm sent is
compared sample by sample with what the arm sent that differs from it in one slot, or that its delta
is against.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from looktwice.eval.records.records import PointRow, Record
from looktwice.pipelines.counted import counted
from looktwice.prompting.evidence import KEPT

__all__ = ["SentByArm", "kept_notes", "listed", "request_of", "say_unchanged"]

# the share of samples, and of a slot's values, above which it is said that nothing was done
MOSTLY = 0.5
SHOWN = 3  # arms that a sentence names


@dataclass(frozen=True)
class SentByArm:
    """What one arm sent: by sample the digest that `request_of` gives, and why stages `kept` views
    as they were.

    `contestant` and `task` are its labels in tables, `rival` is the id of the arm that its delta is
    against. Of the slots in `made_up` nothing can be said, as what they do follows from replies
    that a dry run makes up.
    """

    point: PointRow
    contestant: str
    task: str
    requests: Mapping[str, bytes]
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rival: str = ""
    made_up: Collection[str] = ()

    @property
    def stages(self) -> dict[str, str]:
        """The settings of every slot, as one text each."""
        return {slot: repr(node) for slot, node in self.point.spec.get("stages", {}).items()}

    @property
    def apart_from_stages(self) -> str:
        """What two arms must share for their requests to be compared: task, model and seed."""
        return repr([self.point.task_id, self.point.spec.get("model"), self.point.seed])


@dataclass(frozen=True)
class Variants:
    """Arms of one task, model and seed that differ in these slots alone."""

    slots: str
    arms: Sequence[SentByArm]
    several_slots: bool = False


def request_of(record: Record) -> bytes:
    """A digest of all that a record sent to models and answered by itself; without a call, of what
    it measured, too.

    Empty where that is not known: of a sample that failed, and of a record that does not hold its
    messages.
    """
    if record.error or not all(call.get("messages") for call in record.calls):
        return b""
    sent = [
        [call["messages"], *map(call.get, ("draw", "options", "model"))] for call in record.calls
    ]
    own = [record.answer, record.reason, *([] if sent else [record.confidence, record.measured])]
    return hashlib.blake2b(
        repr([sent, own]).encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()


def kept_notes(record: Record) -> tuple[str, ...]:
    """What its stages noted that found nothing to do."""
    return tuple([sys.intern(note) for note in record.notes if note.endswith(KEPT)])


def say_unchanged(arms: Sequence[SentByArm]) -> list[str]:
    """A sentence for each slot whose settings changed no request, or few, and for stages that
    mostly found nothing."""
    tasks, ends = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    explained = set[str]()
    for variants in [*_by_slot(arms), *_against_rivals(arms)]:
        if variants.several_slots and variants.arms[1].point.id in explained:
            continue
        classes = _alike(variants.arms)
        explained |= {arm.point.id for alike in classes if len(alike) > 1 for arm in alike}
        for beginning, end in _sentences(variants, classes):
            tasks[beginning].append(variants.arms[0].task)
            ends[beginning].append(end)
    sentences = []
    for beginning, (end, *more) in ends.items():
        repeated = len({*more} - {end})
        alike = f"; the same of {counted(repeated, 'more comparison')}" if repeated else ""
        sentences.append(f"{beginning} of {_each(tasks[beginning])}{end}{alike}")
    return [*sentences, *_say_nothing_found(arms)]


def _by_slot(arms: Sequence[SentByArm]) -> Iterator[Variants]:
    """For every slot the arms that are the same but for it."""
    every = dict.fromkeys(slot for arm in arms for slot in arm.stages)
    alike = defaultdict[tuple[str, str, frozenset[tuple[str, str]]], list[SentByArm]](list)
    for arm in arms:
        stages, shared = arm.stages, arm.apart_from_stages
        for slot in every:
            rest = frozenset(pair for pair in stages.items() if pair[0] != slot)
            alike[slot, shared, rest].append(arm)
    for (slot, *_), variants in alike.items():
        if len(variants) > 1 and not any(slot in arm.made_up for arm in variants):
            yield Variants(slot, variants)


def _against_rivals(arms: Sequence[SentByArm]) -> Iterator[Variants]:
    """Each arm that differs in several slots from the one that its delta is against."""
    by_id = {arm.point.id: arm for arm in arms}
    for arm in arms:
        rival = by_id.get(arm.rival)
        if rival is None or rival.apart_from_stages != arm.apart_from_stages:
            continue
        mine, others = arm.stages, rival.stages
        slots = [slot for slot in {**others, **mine} if mine.get(slot) != others.get(slot)]
        if len(slots) > 1 and not {*slots} & {*arm.made_up, *rival.made_up}:
            yield Variants(" + ".join(slots), [rival, arm], several_slots=True)


def _alike(arms: Sequence[SentByArm]) -> list[list[SentByArm]]:
    """The arms in classes of those that sent the same for every sample that both know of."""
    classes: list[list[SentByArm]] = []
    for arm in arms:
        for alike in classes:
            same = _compare_requests(arm, alike[0])
            if next(same, False) and all(same):  # of many arms most differ in the first sample
                alike.append(arm)
                break
        else:
            classes.append([arm])
    return classes


def _compare_requests(arm: SentByArm, rival: SentByArm) -> Iterator[bool]:
    """Of each sample of which it is known what both sent, whether that was the same."""
    pairs = ((request, rival.requests.get(name)) for name, request in arm.requests.items())
    yield from (request == against for request, against in pairs if request and against)


def _count_same(arm: SentByArm, rival: SentByArm) -> tuple[int, int]:
    """On how many samples both sent the same, and on how many that is known."""
    compared = [*_compare_requests(arm, rival)]
    return sum(compared), len(compared)


def _sentences(
    variants: Variants, classes: Sequence[Sequence[SentByArm]]
) -> Iterator[tuple[str, str]]:
    """What is said before and after the names of the tasks."""
    slots, arms = variants.slots, variants.arms
    largest = max(classes, key=len)
    # fewer may be alike on purpose, as controls are
    if len(largest) > len(arms) * MOSTLY and len(largest) > 1:
        samples = _samples(*_count_same(*largest[:2]))
        sent = "answer" if arms[0].point.spec.get("model") is None else "request"
        many = f"{slots}: {counted(len(arms), 'value')}, {counted(len(classes), sent)}"
        yield f"changed nothing: {many} on {samples}", f": {_names(largest)} sent the same"
    first = next((arm for arm in arms if slots not in arm.stages), arms[0])
    for alike in classes:
        same, compared = _count_same(alike[0], first)
        if compared * MOSTLY < same < compared:
            equal = f"the request of {_names(alike)} equals that of {first.contestant}"
            kept = [name for name in alike[0].requests if alike[0].kept.get(name)]
            reason = (
                f"; nothing found on {len(kept)}: {_commonest_reason(alike[0], kept)}"
                if kept
                else ""
            )
            yield f"changed little: {slots}: {equal} on {_samples(same, compared)}", reason


def _say_nothing_found(arms: Sequence[SentByArm]) -> list[str]:
    """The arms of which a stage left most samples of a task as they were, with its commonest
    reason."""
    contestants = defaultdict[tuple[str, str, str], list[str]](list)
    for arm in arms:
        asked = [name for name, request in arm.requests.items() if request]
        kept = [name for name in asked if arm.kept.get(name)]
        if len(kept) > len(asked) * MOSTLY:
            reason = _commonest_reason(arm, kept)
            contestants[_samples(len(kept), len(asked)), arm.task, reason].append(arm.contestant)
    tasks = defaultdict[tuple[str, str, str], list[str]](list)
    for (samples, task, reason), names in contestants.items():
        tasks[listed(names), samples, reason].append(task)
    return [
        f"found nothing: {names} on {samples} of {_each(where)}: {reason}"
        for (names, samples, reason), where in tasks.items()
    ]


def _commonest_reason(arm: SentByArm, samples: Sequence[str]) -> str:
    """What stages said most often of these samples, which they left as they were."""
    ((reason, _),) = Counter(reason for name in samples for reason in arm.kept[name]).most_common(1)
    return reason


def _samples(same: int, compared: int) -> str:
    return (
        f"all {counted(same, 'sample')}"
        if same == compared
        else f"{same} of {counted(compared, 'sample')}"
    )


def _names(arms: Sequence[SentByArm]) -> str:
    return listed([arm.contestant for arm in arms])


def _each(tasks: Sequence[str]) -> str:
    return f"each of {listed(tasks)}" if len({*tasks}) > 1 else tasks[0]


def listed(names: Sequence[str]) -> str:
    """The first of some names, each once, and how many more there are."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - SHOWN} more" if len(unique) > SHOWN else ""
    return f"{', '.join(unique[:SHOWN])}{more}"
