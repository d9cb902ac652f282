"""`looktwice replay`: runs the stages of a run again with its recorded replies, and compares the
records exactly.

Every stage runs again on the task's own data; only the models are not called again. Each record
must be identical: every message and picture that was sent (by its sha256), every note, mark and
answer. Times are not compared.

What it can vouch for: that these stages make these requests of the task's data, and these answers
of these replies; and that questions, keys and stored pictures are those of the task. The replies
themselves are compared with the cache of the run. Where it does not hold them, nobody can tell an
edited one, and it is said how many these are.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.records.records import PointRow, Record, RunFolder, SampleRow, read_message
from looktwice.eval.records.writer import describe_failure, describe_reply, make_record
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import (
    CallOptions,
    Messages,
    ModelError,
    Reply,
    canonical,
    message_json,
)
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.pipeline import RecordingModel, execute
from looktwice.pipelines.runtime.stores import Blobs, use_result_store
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.markers.base import NO_MARK

SHOWN = 5  # differences that are printed
GONE = "the task's data is gone or has changed"


def request_digest(
    messages: Sequence[Mapping[str, Any]], draw: int, options: Mapping[str, Any], **model: str
) -> str:
    """The sha256 of a request as `message_json` and `CallOptions.given` write it; with `model` its
    key in the cache."""
    whole = {"messages": list(messages), "draw": draw, "options": dict(options), **model}
    return hashlib.sha256(canonical(whole).encode()).hexdigest()


@dataclass(frozen=True)
class RecordedReplies:
    """Answers each request with the recorded answers of one record, in order: a reply, or the same
    ModelError.

    The keys of `answers` are `request_digest`s. Raises ModelError for a request without a recorded
    answer left.
    """

    answers: Mapping[str, Sequence[Reply | str]]
    identity: str = "as recorded"
    given: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """The next recorded answer to this request."""
        sent = [message_json(message) for message in messages]
        digest = request_digest(sent, draw, options.given())
        recorded = self.answers.get(digest, ())
        with self.lock:
            number = self.given.get(digest, 0)
            self.given[digest] = number + 1
        if number >= len(recorded):
            text = " ".join(messages[-1].text.split())[:80] if messages else ""
            raise ModelError(
                f"the record holds {len(recorded)} answers to this request, asked {number + 1}"
                f" times: {text!r}"
            )
        answer = recorded[number]
        if isinstance(answer, str):
            raise ModelError(answer.removeprefix("ModelError: "))
        return answer


@dataclass(frozen=True)
class ReplayResult:
    """How many records were reproduced exactly, which were not and why, in a sentence for each, and
    how many were not replayed, by reason.

    `faults` say which tasks cannot be built, such as those whose data nobody allowed to be read.
    `replies` counts the recorded replies by whether the cache holds the same.
    """

    same: int
    different: tuple[str, ...]
    left_out: Mapping[str, int]
    faults: tuple[str, ...] = ()
    replies: Mapping[bool, int] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether every record that did not fail was reproduced."""
        return not self.different and GONE not in self.left_out


class HashOnlyBlobs(Blobs):
    """Computes the sha256 of blobs without storing them."""

    def put(self, data: bytes, sha: str = "") -> str:
        """The sha256 of `data`."""
        return sha or hashlib.sha256(data).hexdigest()


def replay(run: Path, plugins: Sequence[str] = (), cache: Path | None = None) -> ReplayResult:
    """Replay every record of a run; `cache` is the cache folder of the run (None: `.cache` beside
    it).

    Raises RunError, and ConfigError where its stages cannot be built.
    """
    folder, binder = RunFolder(run), Binder(Scope.of_records(run, plugins))
    points, left_out = folder.points, Counter[str]()
    by_sample: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in folder.records().values():
        if record.error:
            left_out["failed when it was made"] += 1
        elif record.point not in points:
            left_out["of an arm that points.yaml does not hold"] += 1
        else:
            by_sample[points[record.point].task_id, record.sample].append(record)
    stages = {point.id: build_stages(folder, point, binder) for point in points.values()}
    originals, different = Originals(folder, cache or run.parent / ".cache", binder), list[str]()
    count = 0
    with use_recorded_findings(folder, cache):
        for item, records in _samples(folder, by_sample, binder, left_out):
            for record in records:
                count += 1
                point = points[record.point]
                if what := originals.differ(point, item, record) or _compare(
                    folder, point, stages[record.point], item.sample, record
                ):
                    different.append(
                        f"{record.sample}, draw {record.draw}, point {point.id}: {what}"
                    )
    same, faults = count - len(different), tuple(binder.faults)
    return ReplayResult(same, tuple(different), left_out, faults, originals.replies)


@dataclass(frozen=True)
class Originals:
    """What a run was made of, as far as it is there: the task's own questions and keys, and the
    replies of the cache.

    `replies` counts the recorded replies that were compared with the cache's (True) and that it
    does not hold (False).
    """

    folder: RunFolder
    cache: Path
    binder: Binder
    replies: Counter[bool] = field(default_factory=Counter)
    whole: set[str] = field(default_factory=set)

    def differ(self, point: PointRow, item: Item, record: Record) -> str:
        """What of the run differs from it; empty where nothing does. Raises CacheError."""
        row = self.folder.samples_of[point.task_id][record.sample]
        now = SampleRow(row.task, item.sample.sha, item.answer, item.sample.to_dict(), item.truth)
        for name, old in asdict(row).items():
            if canonical(old) != canonical(getattr(now, name)):
                return f"samples.jsonl: {name} differs from what the task gives"
        if changed := [sha for sha in record.pictures if not self._is_whole(sha)]:
            return f"the stored picture {changed[0][:12]} is not the one that was sent"
        for number, call in enumerate(record.calls, 1):
            if call.get("reply") and self._is_another(point, call):
                return f"the reply of call {number} differs from the cache's"
        return ""

    def _is_whole(self, sha: str) -> bool:
        """Whether a stored picture is that of its name; one that is gone is no other."""
        if sha not in self.whole and sha in self.folder.blobs:
            if hashlib.sha256(self.folder.blobs.get(sha)).hexdigest() != sha:
                return False
            self.whole.add(sha)
        return True

    def _is_another(self, point: PointRow, call: Mapping[str, Any]) -> bool:
        sent = [read_message(self.folder.blobs, sha) for sha in call["messages"]]
        model = call.get("model")
        if not model and (node := point.spec.get("model")):
            # none where it cannot be built, as its plugin is not named
            binder = Binder(self.binder.scope, built=self.binder.built)
            model = getattr(binder.node(node, "model"), "identity", "")
        key = request_digest(
            sent, call.get("draw", 0), call.get("options", {}), model=str(model or "")
        )
        reply = self._store.get(key) if self._store else None
        self.replies[reply is not None] += 1
        recorded = Reply.from_dict(call["reply"])
        return reply is not None and describe_reply(reply) != describe_reply(recorded)

    @cached_property
    def _store(self) -> Store | None:
        return Store(self.cache, "--cache") if (self.cache / "replies.sqlite").is_file() else None


@contextmanager
def use_recorded_findings(folder: RunFolder, cache: Path | None) -> Iterator[None]:
    """Inside, specialists return their stored results, since networks differ in the last digits by
    batch size.

    `cache` is the cache folder of the run (None: `.cache` beside it).
    """
    store = (cache or folder.path.parent / ".cache") / "findings"
    with use_result_store(store if store.is_dir() else None):
        yield


def describe_replay(result: ReplayResult) -> Iterator[str]:
    """The result of a replay in lines for a terminal; the last one says whether all records were
    reproduced."""
    different = len(result.different)
    yield from (f"different: {sentence}" for sentence in result.different[:SHOWN])
    if different > SHOWN:
        yield f"and {different - SHOWN} more"
    yield from result.faults
    for reason, count in result.left_out.items():
        yield f"not replayed: {counted(count, 'record')} ({reason})"
    if compared := result.replies.get(True):
        yield f"compared with the cache: {counted(compared, 'reply', 'replies')}"
    if alone := result.replies.get(False):
        yield (
            "in no cache, so that an edited one would not be noticed:"
            f" {counted(alone, 'reply', 'replies')}"
        )
    verdict = f"the same, {different} different" if different else "the same bit for bit"
    yield f"replayed without a model: {counted(result.same, 'record')} {verdict}"


def build_stages(folder: RunFolder, point: PointRow, binder: Binder) -> dict[str, Stage]:
    """The stages of a point as points.yaml describes them. Raises ConfigError."""
    stages = {
        slot: binder.node(node, f"stages.{slot}") for slot, node in point.spec["stages"].items()
    }
    if None in stages.values():
        plugins = folder.facts.get("plugins") or ()
        paths = [p["path"] for p in plugins if p["name"] not in binder.scope.plugins]
        named = " ".join(f"--plugin {shlex.quote(path)}" for path in paths)
        advice = "; code is loaded only where you name it, so add to the command: " if named else ""
        raise ConfigError(
            [f"{folder.path}: its stages cannot be built again{advice}{named}", *binder.faults]
        )
    return stages


def rerun(
    folder: RunFolder, point: PointRow, stages: Mapping[str, Stage], sample: Sample, record: Record
) -> tuple[State, str]:
    """The state after all stages, run with the record's own replies, and the error if a stage
    failed."""
    models = recorded_models(folder, record)
    # a second model that is the arm's own is recorded as that
    recorder = RecordingModel(
        models[""], sample.id, wrap_second=lambda model: models.get(model.identity) or models[""]
    )
    trial = execute(stages, sample, point.seed, record.draw, recorder)
    return trial.state, describe_failure(trial.error) if trial.error else ""


def recorded_models(folder: RunFolder, record: Record) -> dict[str, RecordedReplies]:
    """The models of a record by name, the arm's own under ""; they return the recorded replies with
    their times."""
    answers: dict[str, dict[str, list[Reply | str]]] = {"": defaultdict(list)}
    timings = [*(record.timings.get("calls") or ()), *({} for _ in record.calls)]
    for call, timing in zip(record.calls, timings, strict=False):
        sent = [read_message(folder.blobs, sha) for sha in call["messages"]]
        digest = request_digest(sent, call.get("draw", 0), call.get("options", {}))
        answer: Reply | str = call.get("error", "")
        if call.get("reply"):
            answer = replace(Reply.from_dict(call["reply"]), seconds=timing.get("seconds", 0.0))
        answers.setdefault(call.get("model", ""), defaultdict(list))[digest].append(answer)
    return {name: RecordedReplies(told, name or "as recorded") for name, told in answers.items()}


def _samples(
    folder: RunFolder,
    by_sample: Mapping[tuple[str, str], list[Record]],
    binder: Binder,
    left_out: Counter[str],
) -> Iterator[tuple[Item, list[Record]]]:
    """Every sample with its records, as the task yields it now; records of samples that are gone
    are counted."""
    waiting = dict(by_sample)
    nodes = {point.task_id: point.spec["task"] for point in folder.points.values()}
    for task_id, node in nodes.items():
        rows = folder.samples_of.get(task_id, {})
        with suppress(TaskError, OSError):
            for item in binder.node(node, "task") or ():
                name = item.sample.id
                is_same = name in rows and rows[name].sha == item.sample.sha
                if is_same and (records := waiting.pop((task_id, name), None)):
                    yield item, records
    if gone := sum(map(len, waiting.values())):
        left_out[GONE] += gone


def _compare(
    folder: RunFolder, point: PointRow, stages: Mapping[str, Stage], sample: Sample, record: Record
) -> str:
    """The first field of the record that differs in the replay; empty where none does."""
    state, error = rerun(folder, point, stages, sample, record)
    arm: Any = point  # of an arm, only its id goes into the record
    blobs = HashOnlyBlobs(folder.blobs.folder)
    again = make_record(arm, sample, record.sample_sha, state, blobs, error)
    if record.measured is None:  # it was made before stages measured anything
        again = replace(again, measured=None)
    if not record.notes:  # it was made before markers said that they met no mark
        notes = tuple(note for note in again.notes if not note.endswith(NO_MARK))
        again = replace(again, notes=notes)
    old, new = (json.loads(side.to_line()) for side in (record, again))
    why = f" ({error.splitlines()[0]})" if error else ""
    for name in old:
        if name != "timings" and canonical(old[name]) != canonical(new[name]):
            return f"{name} differ{why}"
    return ""
