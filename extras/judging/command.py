"""The implementation of `looktwice judge`, which asks a model about each reply of a run and stores
its verdicts.

Nothing else calls a model after a run. Verdicts are appended to `judged.jsonl` in the run folder as
they arrive, one per line; scoring and reports use them afterwards without any call. A judge's
tokens are counted separately from those of the models under test.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console

from looktwice.eval.analysis.judges import describe_agreement, describe_judgements
from looktwice.eval.records.judgements import (
    EVERY_PASS,
    NO_JUDGE,
    REASONING_PASS,
    STEPS_PASS,
    Judgement,
    append_judgements,
    hash_judged_text,
    read_judgements,
)
from looktwice.eval.records.records import Record, RunError, RunFolder
from looktwice.eval.runs.display import Display
from looktwice.eval.runs.options import Spending
from looktwice.eval.scoring.columns import explain_missing_reply
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import PointScores
from looktwice.extras.judging.passes import JudgeCase, JudgePass, JudgeVerdict, Wording, list_passes
from looktwice.extras.judging.solutions import AnnotatedSolutions
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError, extend_hint, suggest_names
from looktwice.pipelines.config.load import read_config, resolve_references
from looktwice.pipelines.config.overrides import parse_override
from looktwice.pipelines.config.paths import ask_once
from looktwice.pipelines.model import Model, ModelError, Stopped, close_model
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.models.http_client import get_http_loop
from looktwice.pipelines.models.wrappers import EndpointWatch, wrap_model
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.pipeline import RecordingModel
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.state import Stage

_MAX_QUEUED_REPLIES = 2048  # replies that are queued at a time


@dataclass(frozen=True)
class _Job:
    """One reply to be judged in one pass."""

    judge_pass: JudgePass
    case: JudgeCase
    record: Record


@dataclass(frozen=True)
class RunJudge:
    """Judges the replies of a run folder with a model, which every table shows under `name`.

    `passes` names the passes to run; if empty, every pass runs for which the run has replies,
    except the passes that run only when named. `wording` replaces the prompt of the pass with the
    user's own. `reader` decides which replies are unreadable, by default the run's own. `columns`
    names the columns of BLINK-Twice's file that hold the clues and the truth. `cache` is the folder
    of the reply cache (None: next to the run folder, where `looktwice run` keeps it), and `plugins`
    are the modules whose classes the run may name. Replies that were judged before with the same
    prompt are not judged again; failed calls are repeated. Raises RunError.
    """

    run: Path
    name: str
    model: Model
    passes: Sequence[str] = ()
    reader: Stage | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    workers: int = 16
    cache: Path | None = None
    only_cached: bool = False
    plugins: Sequence[str] = ()
    wording: Wording | None = None
    console: Console = field(default_factory=lambda: Console(stderr=True))

    def __call__(self, say: Callable[[str], None]) -> int:
        """Run the judge, then report the number of judged replies, the tokens and the agreement;
        return the number of failed calls.

        Raises RunError, CacheError.
        """
        folder = RunFolder(self.run)
        # raises RunError if this is not a run folder, before anything is written
        folder.points  # noqa: B018
        known = list_passes()
        if unknown := [name for name in self.passes if name not in known]:
            raise RunError(
                f"--pass {unknown[0]}: there is no such pass; the passes are {', '.join(known)}"
            )
        if self.wording and len(self.passes) != 1:
            raise RunError(
                "--prompt replaces the prompt of one pass; add --pass with one of"
                f" {', '.join(known)}"
            )
        lock = FileLock(self.run / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise RunError(f"{self.run} is being written by another process; wait for it") from None
        try:
            self._refuse_namesake()
            solutions = AnnotatedSolutions(self.run, self.columns)
            scored = score_run(folder, self.reader, judge=NO_JUDGE, plugins=self.plugins)
            jobs = list(self._list_jobs(folder, scored.points, solutions))
            failed = self._run_jobs(jobs) if jobs else 0
        finally:
            lock.release()
        judged = read_judgements(self.run)
        for sentence in (
            *solutions.notes,
            *(() if jobs else ["nothing is left to judge"]),
            *describe_judgements(judged.lines, self.name),
            *judged.explain_counting,
            *describe_agreement([*judged.lines, *list_reader_verdicts(folder, scored.points)]),
        ):
            say(sentence)
        return failed

    @property
    def identity(self) -> str:
        """A digest of everything that affects the judge's verdicts."""
        words = self.wording.text if self.wording else ""
        return hashlib.sha256((self.model.identity + words).encode()).hexdigest()[:16]

    def _refuse_namesake(self) -> None:
        named = (line for line in read_judgements(self.run).lines if line.judge == self.name)
        if {line.identity for line in named} - {self.identity}:
            raise RunError(
                f"{self.run} was judged under the name {self.name!r} by another model, server,"
                " settings or prompt; give this judge, or its prompt file, another name, so that"
                " tables can distinguish the two"
            )

    def _list_jobs(
        self, folder: RunFolder, arms: Sequence[PointScores], solutions: AnnotatedSolutions
    ) -> Iterator[_Job]:
        """Yield every reply that a pass covers and that this judge has not judged yet."""
        done = {line.key for line in read_judgements(self.run).lines if not line.error}
        records = folder.records()
        known = list_passes()
        passes = [known[name] for name in self.passes]
        passes = passes or [judging for judging in known.values() if not judging.only_if_named]
        if self.wording:
            passes = [*map(self.wording.build_pass, passes)]
        for scores in arms:
            for judging in passes:
                for entry in scores.all_records if judging.covers_point(scores.point) else ():
                    record = records[scores.point.records_id, entry.sample, entry.draw]
                    if record.error or record.answer is not None or explain_missing_reply(record):
                        continue
                    row = scores.samples[entry.sample]
                    sample = row.without_pixels(folder.blobs, record.choices)
                    text = record.replies[-1].text
                    case = JudgeCase(sample, row.answer or "", text, entry)
                    if judging.name in (REASONING_PASS, STEPS_PASS):
                        case = solutions(case, scores.point)
                    job = _Job(judging, case, record)
                    key = self._make_judgement(job, JudgeVerdict()).key
                    if judging.covers(case) and key not in done:
                        done.add(key)
                        yield job

    def _run_jobs(self, jobs: Sequence[_Job]) -> int:
        """Run the jobs in threads and write each verdict; return the number of failed calls."""
        failed, stop, spent, dead = 0, threading.Event(), Counter[str](), list[str]()

        def give_up(why: str) -> None:
            dead.append(why)
            stop.set()

        model = self._wrap(stop, EndpointWatch(give_up))
        display = Display(self.console, len(jobs), lambda: Spending(spent["in"], spent["out"]))
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="looktwice-judge")
        try:
            with display:
                for start in range(0, len(jobs), _MAX_QUEUED_REPLIES):
                    batch = jobs[start : start + _MAX_QUEUED_REPLIES]
                    for asked in as_completed(
                        [pool.submit(self._ask, model, job) for job in batch]
                    ):
                        line = asked.result()
                        if dead:
                            raise RunError(
                                f"{dead[0]}; the verdicts so far are saved; repeat the command"
                                " to continue"
                            )
                        append_judgements(self.run, line)
                        failed += bool(line.error)
                        if not line.cached:
                            spent.update({"in": line.tokens_in, "out": line.tokens_out})
                        display.add("judged")
        except KeyboardInterrupt:
            # no new calls; calls in flight must not delay the exit
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            get_http_loop().cancel()
            raise
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
            close_model(model)
        return failed

    def _ask(self, model: Model, job: _Job) -> Judgement:
        """Return one verdict, or the reason why it is missing."""
        recorder = RecordingModel(model, job.record.sample)
        try:
            reply = recorder((job.judge_pass.ask(job.case),))
        except (ModelError, PictureError) as exc:
            return self._make_judgement(job, JudgeVerdict(), error=f"{type(exc).__name__}: {exc}")
        except Stopped:
            return self._make_judgement(job, JudgeVerdict(), error="stopped")
        text = strip_thoughts(reply.text)
        verdict = JudgeVerdict(reason=f"no words ({reply.finish})")
        if text.strip():
            verdict = job.judge_pass.parse(text, job.case)
        usage = {"tokens_in": reply.usage.tokens_in, "tokens_out": reply.usage.tokens_out}
        return self._make_judgement(job, verdict, said=text, cached=reply.cached, **usage)

    def _make_judgement(self, job: _Job, verdict: JudgeVerdict, **more: Any) -> Judgement:
        record = job.record
        return Judgement(
            job.judge_pass.name,
            record.point,
            record.sample,
            record.draw,
            self.name,
            self.identity,
            hash_judged_text(record),
            job.judge_pass.version,
            **vars(verdict),
            **more,
        )

    def _wrap(self, stop: threading.Event, watch: EndpointWatch) -> Model:
        """If the model is called over a network, wrap it with the cache, retries and limits."""
        if not getattr(self.model, "remote", False):
            return self.model
        try:
            self.model.check()  # type: ignore[attr-defined]
        except ModelError as exc:
            raise RunError(str(exc)) from exc
        store = Store(self.cache or self.run.parent / ".cache", "--cache")
        len(store)  # fail here, with one sentence, if the store cannot be read
        return wrap_model(self.model, store, stop, only_cached=self.only_cached, watch=watch)


def list_reader_verdicts(folder: RunFolder, arms: Sequence[PointScores]) -> Iterator[Judgement]:
    """Yield the answers that the reader found in all replies, as verdicts of a judge called "the
    reader"."""
    records = folder.records()
    for scores in arms:
        for entry in scores.all_records if not scores.point.replies_of else ():
            if entry.read and entry.answer is not None:
                record = records[scores.point.records_id, entry.sample, entry.draw]
                asked = {own: letter for letter, own in (record.letters or {}).items()}
                yield Judgement(
                    EVERY_PASS,
                    record.point,
                    record.sample,
                    record.draw,
                    "the reader",
                    "",
                    hash_judged_text(record),
                    answer=asked.get(entry.answer, entry.answer),
                )


@ask_once()
def build_judge_model(
    run: Path, name: str, config: Path | None, overrides: Sequence[str], plugins: Sequence[str] = ()
) -> Model:
    """Build the model `name` under `models:` of the run's stored configuration, or of `config`,
    after the overrides.

    The override `models.judge={use: ..., model: ...}` adds one. Paths in the model's settings are
    relative to the folder of `config`, or without it to the working folder. Raises RunError, and
    ConfigError with every fault.
    """
    folder = RunFolder(run)
    folder.points  # noqa: B018  a folder that is no run is the first thing to say
    source = config if config is not None else folder.facts.get("config") or {}
    node, scope, faults = read_config(source, overrides, plugins)
    if config is None:
        scope = replace(scope, source=run)
    if strange := [
        place for text in overrides if not (place := parse_override(text)[0]).startswith("models.")
    ]:
        faults.append(
            f"{strange[0]}: a judge's settings belong under `models:`, such as"
            f" models.{name or 'judge'}.model=NAME"
        )
    node = resolve_references({**node, "models": node.get("models") or {}}, faults)
    models = {key: value for key, value in (node.get("models") or {}).items() if value is not None}
    if name not in models:
        unknown = f"--model {name}: there is no such model under"
        advice = (
            f"add one with 'models.{name or 'judge'}={{use: pipelines.models.ChatAPI, model:"
            " ...}', or give --config FILE"
        )
        faults.append(
            f"{unknown if name else 'name a judge with --model, one of'} `models:`"
            f" ({', '.join(models) or 'none'}){extend_hint(suggest_names(name, models), advice)}"
        )
        raise ConfigError(faults)
    binder = Binder(scope, models, faults)
    made: Model = binder.build_node(models[name], f"models.{name}", "model")
    if binder.faults:
        raise ConfigError(binder.faults)
    return made
