"""Implements `looktwice replay`: runs the stages of a run again with its recorded replies, and
compares the records exactly.

Every stage runs again on the task's own data; only the models are not called. Each record must be
identical, with every message and picture that was sent (by sha256) and every note, mark and answer.
Times are not compared.

A replay verifies that these stages produce these requests from the task's data and these answers
from these replies, and that the questions, correct answers and stored pictures come from the task.
The replies themselves are compared with the run's cache. If the cache lacks a reply, an edit of
that reply cannot be detected; the number of such replies is reported.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.records.records import PointRow, Record, RunFolder, SampleRow, read_message
from looktwice.eval.records.writer import describe_failure, describe_reply, make_record
from looktwice.eval.runs.dry_run import HashOnlyBlobs
from looktwice.eval.runs.requests import Request
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply, make_message_json
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.pipeline import RecordingModel, run_stages
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage, State

MAX_PRINTED_DIFFERENCES = 5
DATA_CHANGED_REASON = "the task's data is missing or has changed"
TASK_NOT_BUILT_REASON = "the task cannot be built again"


def digest_request(
    messages: Sequence[Mapping[str, Any]], draw: int, options: Mapping[str, Any], **model: str
) -> str:
    """Return the sha256 of a request whose messages are in the form of `make_message_json` and
    whose options are in that of `CallOptions.to_dict`; together with the `model` that was asked,
    this is the request's key in the cache."""
    request = {"messages": list(messages), "draw": draw, "options": dict(options), **model}
    return hashlib.sha256(write_canonical(request).encode()).hexdigest()


class RecordedReplies:
    """A model that answers each request with the recorded answers of one record, in order: a reply,
    or the same ModelError.

    The keys of `answers` are digests from `digest_request`. Raises ModelError if no recorded answer
    to a request is left.
    """

    def __init__(self, answers: Mapping[str, Sequence[Reply | str]], identity: str) -> None:
        self.answers, self.identity = answers, identity
        self.asked, self.lock = Counter[str](), threading.Lock()

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the next recorded answer to this request."""
        sent = [make_message_json(message) for message in messages]
        digest = digest_request(sent, draw, options.to_dict())
        recorded = self.answers.get(digest, ())
        with self.lock:
            number = self.asked[digest]
            self.asked[digest] += 1
        if number >= len(recorded):
            text = " ".join(messages[-1].text.split())[:80] if messages else ""
            raise ModelError(
                f"the record holds {format_count(len(recorded), 'answer')} to this request, which"
                f" was sent {format_count(number + 1, 'time')}: {text!r}"
            )
        answer = recorded[number]
        if isinstance(answer, str):
            raise ModelError(answer.removeprefix("ModelError: "))
        return answer


class RecordedRun:
    """A run folder whose stages run again with its recorded replies and the stored results of its
    specialists.

    `cache` is the cache folder of the run (None: `.cache` beside it). Raises RunError.
    """

    def __init__(self, path: Path, plugins: Sequence[str] = (), cache: Path | None = None) -> None:
        self.folder, self.cache = RunFolder(path), cache or path.parent / ".cache"
        self.binder = Binder.for_run(path, plugins)
        self._stages: dict[str, dict[str, Stage]] = {}

    def use_stored_results(self) -> AbstractContextManager[None]:
        """Use the stored results of specialists inside the context, because the results of networks
        differ in the last digits with the batch size."""
        store = self.cache / "findings"
        return use_result_store(store if store.is_dir() else None)

    def build_task(self, point: PointRow) -> Any:
        """Build the task of a point, or return None and add the reason to the binder's faults."""
        return self.binder.build_node(point.spec["task"], "task")

    def build_stages(self, point: PointRow) -> dict[str, Stage]:
        """Build the stages of a point as points.yaml describes them. Raises ConfigError."""
        if point.id in self._stages:
            return self._stages[point.id]
        binder, stages = self.binder, dict[str, Any]()
        for slot, node in point.spec["stages"].items():
            stages[slot] = binder.build_node(node, f"stages.{slot}")
        if None in stages.values():
            plugins = self.folder.facts.get("plugins") or ()
            paths = [p["path"] for p in plugins if p["name"] not in binder.scope.plugins]
            named = " ".join(f"--plugin {shlex.quote(path)}" for path in paths)
            where = "; code is loaded only if you name it, so add to the command: "
            problem = f"{self.folder.path}: its stages cannot be built again"
            raise ConfigError([problem + (where + named if named else ""), *binder.faults])
        self._stages[point.id] = stages
        return stages

    def rerun(self, point: PointRow, sample: Sample, record: Record) -> tuple[State, str]:
        """Run all stages with the replies in the record; return the final state, and the error if a
        stage failed."""
        models = self._models(record)
        # a second model identical to the arm's own is recorded under ""
        recorder = RecordingModel(
            models[""],
            sample.id,
            wrap_second=lambda model: models.get(model.identity) or models[""],
        )
        stages, request = self.build_stages(point), Request.from_record(self.folder, record)
        if request is None:
            trial = run_stages(stages, sample, point.seed, record.draw, recorder)
        else:
            asked = request.override_stages(stages), sample, point.seed, request.draw, recorder
            trial = run_stages(*asked, request.apply_to)
            trial = trial._replace(state=trial.state.replace(draw=record.draw))
        return trial.state, describe_failure(trial.error) if trial.error else ""

    def digest_call(self, call: Mapping[str, Any], **model: str) -> str:
        """Return the digest of a recorded call."""
        sent = [read_message(self.folder.blobs, sha) for sha in call["messages"]]
        return digest_request(sent, call.get("draw", 0), call.get("options", {}), **model)

    def _models(self, record: Record) -> dict[str, RecordedReplies]:
        """Return models, by name, that answer with the replies and times of the record; the arm's
        own model has the name ""."""
        answers: dict[str, dict[str, list[Reply | str]]] = {"": {}}
        timings = [*(record.timings.get("calls") or ()), *({} for _ in record.calls)]
        for call, timing in zip(record.calls, timings, strict=False):
            answer: Reply | str = call.get("error", "")
            if call.get("reply"):
                answer = replace(Reply.from_dict(call["reply"]), seconds=timing.get("seconds", 0.0))
            of_model = answers.setdefault(call.get("model", ""), {})
            of_model.setdefault(self.digest_call(call), []).append(answer)
        return {
            name: RecordedReplies(replies, name or "as recorded")
            for name, replies in answers.items()
        }


class Replay(RecordedRun):
    """The result of a replay: `same_count` is the number of identical records, `differences` has a
    sentence for each record that differs, and `left_out` counts the records that were not replayed,
    by reason.

    `replies` counts the recorded replies by whether the cache has a reply to the same request.
    """

    def __init__(self, path: Path, plugins: Sequence[str] = (), cache: Path | None = None) -> None:
        super().__init__(path, plugins, cache)
        self.same_count, self.differences = 0, list[str]()
        self.left_out, self.replies = Counter[str](), Counter[bool]()
        self._whole: set[str] = set()

    @property
    def all_reproduced(self) -> bool:
        """True if every record that did not fail in the run was reproduced."""
        return not self.differences and not self.left_out.keys() & {
            DATA_CHANGED_REASON,
            TASK_NOT_BUILT_REASON,
        }

    def run(self) -> None:
        """Replay every record. Raises CacheError, and ConfigError if stages cannot be built."""
        for point in self.folder.points.values():
            self.build_stages(point)  # missing stages are reported before anything runs
        with self.use_stored_results():
            for item, records in self._list_samples():
                for record in records:
                    point = self.folder.points[record.point]
                    if what := self._find_difference(point, item, record):
                        where = f"{record.sample}, draw {record.draw}, point {point.id}"
                        self.differences.append(f"{where}: {what}")
                    else:
                        self.same_count += 1

    def _list_samples(self) -> Iterator[tuple[Item, list[Record]]]:
        """Yield every sample of the tasks with its records; count the records that cannot be
        replayed."""
        points = self.folder.points
        waiting = defaultdict[tuple[str, str], list[Record]](list)
        for record in self.folder.records().values():
            if record.error:
                self.left_out["failed in the run"] += 1
            elif record.point not in points:
                self.left_out["the arm is not in points.yaml"] += 1
            else:
                waiting[points[record.point].task_id, record.sample].append(record)
        for task_id, point in {point.task_id: point for point in points.values()}.items():
            rows, task = self.folder.samples_by_task.get(task_id, {}), self.build_task(point)
            if task is None:
                for key in [key for key in waiting if key[0] == task_id]:
                    self.left_out[TASK_NOT_BUILT_REASON] += len(waiting.pop(key))
                continue
            with suppress(TaskError, OSError):
                for item in task:
                    name = item.sample.id
                    is_same = name in rows and rows[name].sha == item.sample.sha
                    if is_same and (records := waiting.pop((task_id, name), None)):
                        yield item, records
        if gone := sum(map(len, waiting.values())):
            self.left_out[DATA_CHANGED_REASON] += gone

    def _find_difference(self, point: PointRow, item: Item, record: Record) -> str:
        """Describe the first difference, which may be in the sample, a picture, a reply, or a field
        of the replayed record; return an empty string if there is none."""
        row, sample = self.folder.samples_by_task[point.task_id][record.sample], item.sample
        now = SampleRow(row.task, sample.sha, item.answer, sample.to_dict(), item.truth)
        for name, old in asdict(row).items():
            if write_canonical(old) != write_canonical(getattr(now, name)):
                return f"samples.jsonl: {name} differs from the task's"
        for sha in record.pictures:
            if not self._is_intact(sha):
                return f"the stored picture {sha[:12]} is not the one that was sent"
        for number, call in enumerate(record.calls, 1):
            if call.get("reply") and self._has_other_reply(point, call):
                return f"the reply of call {number} differs from the cache's"
        return self._compare(point, sample, record)

    def _is_intact(self, sha: str) -> bool:
        """Return whether a stored picture matches its hash; a missing picture counts as a match."""
        if sha not in self._whole and sha in self.folder.blobs:
            if hashlib.sha256(self.folder.blobs.get(sha)).hexdigest() != sha:
                return False
            self._whole.add(sha)
        return True

    def _has_other_reply(self, point: PointRow, call: Mapping[str, Any]) -> bool:
        model = call.get("model")
        if not model and (node := point.spec.get("model")):
            # empty if the model cannot be built because its plugin is not named
            binder = Binder(self.binder.scope, built_objects=self.binder.built_objects)
            model = getattr(binder.build_node(node, "model"), "identity", "")
        key = self.digest_call(call, model=str(model or ""))
        reply = self._store.get(key) if self._store else None
        self.replies[reply is not None] += 1
        recorded = Reply.from_dict(call["reply"])
        return reply is not None and describe_reply(reply) != describe_reply(recorded)

    @cached_property
    def _store(self) -> Store | None:
        return Store(self.cache, "--cache") if (self.cache / "replies.sqlite").is_file() else None

    def _compare(self, point: PointRow, sample: Sample, record: Record) -> str:
        state, error = self.rerun(point, sample, record)
        name = _find_differing_field(point, sample, record, state, error)
        return f"{name} differ" + (f" ({error.splitlines()[0]})" if error else "") if name else ""


def _find_differing_field(
    point: PointRow, sample: Sample, record: Record, state: State, error: str
) -> str:
    """Return the name of the first field that differs in a new record of the replayed state, or ""
    if there is none."""
    arm: Any = point  # a record contains only the id of its arm
    again = make_record(arm, sample, record.sample_sha, state, HashOnlyBlobs(Path()), error)
    old, new = json.loads(record.to_line()), json.loads(again.to_line())
    differing = (
        n for n in old if n != "timings" and write_canonical(old[n]) != write_canonical(new[n])
    )
    return next(differing, "")


def replay(run: Path, plugins: Sequence[str] = (), cache: Path | None = None) -> Replay:
    """Replay every record of a run; `cache` is its cache folder (None: `.cache` beside it).

    Raises RunError, and ConfigError if its stages cannot be built.
    """
    result = Replay(run, plugins, cache)
    result.run()
    return result


def describe_replay(result: Replay) -> Iterator[str]:
    """Yield the result of a replay as lines for a terminal; the last one states whether all records
    were reproduced."""
    different = len(result.differences)
    yield from (
        f"different: {sentence}" for sentence in result.differences[:MAX_PRINTED_DIFFERENCES]
    )
    if different > MAX_PRINTED_DIFFERENCES:
        yield f"and {different - MAX_PRINTED_DIFFERENCES} more"
    yield from result.binder.faults
    for reason, count in result.left_out.items():
        yield f"not replayed: {format_count(count, 'record')} ({reason})"
    if compared := result.replies[True]:
        yield f"compared with the cache: {format_count(compared, 'reply', 'replies')}"
    if alone := result.replies[False]:
        yield (
            "not in the cache, so edits would go unnoticed:"
            f" {format_count(alone, 'reply', 'replies')}"
        )
    verdict = f"identical, {different} different" if different else "identical bit for bit"
    yield f"replayed without a model: {format_count(result.same_count, 'record')} {verdict}"
