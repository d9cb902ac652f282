"""An executor that processes a run's samples in Ray tasks, on this machine or on a cluster; one
process writes all results.

Each block of samples is a task: it gets the whole plan, processes its samples in threads as a local
run does, and streams each record back with its pictures and messages. Samples without a record from
a lost task are processed again in another one. If there are GPUs, actors hold the networks for all
tasks.
"""

from __future__ import annotations

import importlib
import logging
import queue
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from looktwice.eval.records.records import Key, Record, RunError, SampleRow
from looktwice.eval.runs.companions import Executor, RunContext, RunStart
from looktwice.eval.runs.options import RunOptions
from looktwice.eval.runs.provenance import describe_plugin, get_shard
from looktwice.eval.runs.run import Run
from looktwice.eval.runs.run_models import RunModels
from looktwice.eval.runs.trial import Progress, Trial
from looktwice.eval.scoring.kept import hash_code
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.extras.executors.cluster import (
    MAX_HOST_CALLS,
    AskLimits,
    HostPool,
    LimitCoordinator,
    NetworkHost,
    apply_limits,
)
from looktwice.extras.executors.joined_verdicts import JoinedVerdicts, RecordReaders, VerdictsByArm
from looktwice.extras.networks.opening import close_networks, use_remote_networks
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.config.paths import allow_access, read_allowed
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.model import is_deferring
from looktwice.pipelines.models.limits import LimitKey, Load
from looktwice.pipelines.runtime.install import format_install
from looktwice.pipelines.runtime.stores import Blobs, use_result_store

BLOCKS_PER_TASK = (
    4  # per concurrent task; a smaller block means less work to repeat if a task is lost
)
MAX_BLOCK_ATTEMPTS = 5  # lost tasks of a block after which the run fails
STOP_CHECK_INTERVAL = 1.0  # seconds between checks whether the run is being stopped


@dataclass(frozen=True)
class Job:
    """The settings of every task: the pickled plan, the options, the number of blocks, and the
    number of tasks at a time.

    `roots` are folders that tasks may read, because the command line or LOOKTWICE_ALLOW named them
    on this machine. `code_digest` is the digest of this machine's looktwice: tasks with another one
    score nothing.
    """

    plan: bytes
    plugins: tuple[str, ...]
    options: RunOptions
    cache: str
    only_cached: bool
    block_count: int
    task_count: int
    roots: tuple[str, ...]
    code_digest: str


@dataclass(frozen=True)
class SentRecord:
    """A line of samples.jsonl, or a record with its sample, those of its blobs that were not sent
    before, and its verdicts."""

    row: SampleRow
    line: str = ""
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    verdicts: VerdictsByArm = field(default_factory=dict)


@dataclass(eq=False)
class RayExecutor(Executor):
    """Runs trials in Ray tasks: `on` is "ray" for this machine, or "ray://HOST:PORT" for a cluster.

    With `gpus`, networks are held by actors that get this share of a GPU each, as many as fit.
    """

    wraps_models = True
    on: str = "ray"
    gpus: float = 0.0

    def start(self, run: RunContext) -> None:
        """Connect to Ray. Raises RunError if Ray is missing or cannot be reached, or the run cannot
        be split."""
        options = run.options
        if (options.shard, options.budget, options.max_requests) != ((1, 1), None, None):
            raise RunError(
                "--on ray makes its own shards, and supports neither --budget nor --max-requests;"
                " leave them out"
            )
        if any(map(is_deferring, run.plan.models)):
            raise RunError(
                "--on ray: a model with a batch API gains nothing from more machines; leave out"
                " --on"
            )
        if run.chooser:
            raise RunError("--on ray asks all questions; leave out --on, or `choose:` of the study")
        self.connection.enter_context(_connect_ray(parse_address(self.on)))

    def execute(self, run: RunContext, work: RunStart, trials: Iterator[Trial]) -> Iterator[Trial]:
        """Process the plan in tasks. Raises RunError if the plan cannot be sent."""
        there = run.questions.find_done_by_arm(work.done_keys)
        run.skip(sum(len(there.get(arm.id, ())) for arm in run.plan.points))
        dispatch = Dispatch(self, run, work)
        dispatch()
        dispatch.verdicts.save(work.writer)
        return iter(())

    def close(self) -> None:
        """Disconnect from Ray, unless it was connected before."""
        self.connection.close()

    def __post_init__(self) -> None:
        parse_address(self.on)  # report invalid settings first
        self.connection = ExitStack()


class Dispatch:
    """The tasks of a run: each processes one block, and a block whose task is lost gets a new
    one."""

    def __init__(self, executor: RayExecutor, run: RunContext, work: RunStart) -> None:
        self.run, self.work, self.ray = run, work, _import_ray()
        ray, plan = self.ray, run.plan
        nodes = ray.cluster_resources()
        gpus, tasks = nodes.get("GPU", 0), max(1, int(nodes.get("CPU", 1)))
        if gpus < executor.gpus:
            raise RunError(
                f"--gpus {executor.gpus:g}: the nodes of Ray have {format_count(int(gpus), 'GPU')};"
                " leave --gpus out, or add nodes"
            )
        try:
            pickled = bytes(ray.cloudpickle.dumps(plan))
        except (TypeError, AttributeError, ValueError) as exc:
            raise RunError(f"the study cannot be sent to other processes: {exc}") from exc
        plugins = tuple(describe_plugin(name)["path"] for name in plan.plugins)
        roots = tuple(str(root) for root in read_allowed().folders if root.exists())
        models: Any = run.models
        cache, blocks = str(models.cache.absolute()), BLOCKS_PER_TASK * tasks
        options = run.options, cache, models.only_cached, blocks, tasks, roots
        job = Job(pickled, plugins, *options, hash_code())
        self.verdicts = JoinedVerdicts(run)
        self.arms = {arm.id: arm for arm in plan.points}
        self.done: dict[int, set[Key]] = {block: set() for block in range(blocks)}
        for key in work.done_keys:
            self.done[get_shard(key[1], blocks)].add(key)
        self.coordinator = ray.remote(LimitCoordinator).options(num_cpus=0).remote(tasks)
        # actors that hold networks; a lost one is restarted, and its calls are repeated
        lives = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": MAX_HOST_CALLS}
        host = ray.remote(NetworkHost).options(num_cpus=0, num_gpus=executor.gpus, **lives)
        number = int(gpus / executor.gpus) if executor.gpus else 0
        hosts = [host.remote(plugins, cache) for _ in range(number)]
        begin = ray.remote(num_returns="streaming", max_retries=0)(run_block).remote
        self.begin = partial(begin, ray.put(job), coordinator=self.coordinator, hosts=hosts)
        self.running: dict[Any, int] = {}
        self.lost: Counter[int] = Counter()

    def __call__(self) -> None:
        """Wait until every block is done, or the run is stopped. Raises RunError, and the errors of
        tasks."""
        for block in self.done:
            self._start(block)
        while self.running:
            if self.run.progress.stop.is_set():
                for stream in self.running:
                    self.ray.cancel(stream, force=True)
                return
            if self.run.progress.drain.is_set():
                self.ray.get(self.coordinator.request_stop.remote())
            for stream in self.ray.wait(list(self.running), timeout=STOP_CHECK_INTERVAL)[0]:
                self._take(stream)

    def _start(self, block: int) -> None:
        self.running[self.begin(block, self.done[block])] = block

    def _take(self, stream: Any) -> None:
        """Handle the next item that a task has sent, or its end."""
        block = self.running.pop(stream)
        try:
            self._store_record(self.ray.get(next(stream)), self.done[block])
            self.running[stream] = block
        except StopIteration:
            return
        except self.ray.exceptions.RayTaskError as exc:
            if not isinstance(exc.cause, EndpointGivenUp):
                raise exc.cause from exc
            self.run.progress.give_up(str(exc.cause))
        except self.ray.exceptions.RayError as exc:
            self.lost[block] += 1
            if self.lost[block] >= MAX_BLOCK_ATTEMPTS:
                raise RunError(
                    f"block {block} was lost {MAX_BLOCK_ATTEMPTS} times: {str(exc).splitlines()[0]}"
                ) from exc
            self._start(block)

    def _store_record(self, sent: SentRecord, done: set[Key]) -> None:
        row, scored, line = sent.row, sent.verdicts, sent.line
        self.work.write_sample(row)
        self.verdicts.add_sample(row)
        if line:
            for sha, data in sent.blobs.items():
                self.work.writer.blobs.put(data, sha)
            record = self.work.writer.record(received := Record.from_line(line))
            if record is not received:  # a key was masked, or it is too large
                line, scored = record.to_line(), {}
            self.verdicts.add(record, line, scored)
            done.add(record.key)
            self.run.note(self.arms[record.point], row, record, scored.get(record.point))


@dataclass(eq=False)
class BlockRun(Run):
    """The part of a run that one task executes; its records go to `sink`, with their verdicts if
    `is_scoring` is true."""

    sink: Any = None
    is_scoring: bool = True

    def notify_companions(
        self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord | None = None
    ) -> None:
        """Send a record with its verdicts."""
        line = record.to_line()
        verdicts = self._read(Record.from_line(line), row) if self.is_scoring else {}
        self.sink.send(row, record, line, verdicts)

    @cached_property
    def _read(self) -> RecordReaders:
        return RecordReaders(self.plan, self.scorers)


@dataclass(eq=False)
class LimitedModels(RunModels):
    """The models of one task, which gets its limits from the coordinator before it calls one of
    them."""

    ask: Any = None

    def wrap(self, model: Any) -> Any:
        """Return the model that the stages call here."""
        wrapped = super().wrap(model)
        apply_limits(self.ask, self.progress.drain)
        return wrapped


class EndpointGivenUp(RunError):
    """An endpoint that a task gave up on; the message is the reason."""


def run_block(
    job: Job, block: int, done: set[Key], coordinator: Any, hosts: Sequence[Any]
) -> Iterator[SentRecord]:
    """Process the samples of a block, and yield each record as soon as it exists."""
    ray, task = _import_ray(), uuid.uuid4().hex

    def ask(loads: Mapping[LimitKey, Load]) -> tuple[bool, dict[LimitKey, int]]:
        return ray.get(coordinator.ask.remote(task, loads))  # type: ignore[no-any-return]

    if ask({})[0]:
        return
    for plugin in job.plugins:
        load_plugin(plugin)
    outbox: queue.Queue[SentRecord | BaseException | None] = queue.Queue(maxsize=64)
    with tempfile.TemporaryDirectory(prefix="looktwice-") as folder, allow_access(job.roots):
        sink = QueueWriter(Blobs(Path(folder) / "blobs"), outbox)
        progress = Progress()
        models = LimitedModels(progress, Path(job.cache), job.only_cached, ask=ask)
        run = BlockRun(
            ray.cloudpickle.loads(job.plan),
            Path(folder),
            replace(job.options, shard=(block + 1, job.block_count)),
            models,
            in_parts=True,
            progress=progress,
            sink=sink,
            is_scoring=hash_code() == job.code_digest,
        )
        drain = progress.drain

        def work() -> None:
            try:
                with use_result_store(Path(job.cache) / "findings"):
                    run.execute_into(sink, done)
                outbox.put(EndpointGivenUp(run.progress.why) if run.progress.why else None)
            except BaseException as exc:
                outbox.put(exc)

        use_remote_networks(HostPool(ray, hosts) if hosts else None)
        for target in (work, partial(_poll_limits, ask, drain)):
            threading.Thread(target=target, daemon=True).start()
        try:
            while (sent := outbox.get()) is not None:
                if isinstance(sent, BaseException):
                    raise sent
                yield sent
        finally:
            drain.set()
            models.close()
            close_networks()
            use_remote_networks(None)
            coordinator.leave.remote(task)


def _poll_limits(ask: AskLimits, drain: threading.Event) -> None:
    while not drain.wait(STOP_CHECK_INTERVAL):
        apply_limits(ask, drain)


@dataclass(eq=False)
class QueueWriter:
    """A stand-in for a `RunWriter` that puts the records of a run into a queue, together with their
    blobs."""

    blobs: Blobs
    outbox: queue.Queue[Any]
    sent: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_sample(self, row: SampleRow) -> None:
        """Queue a line of samples.jsonl."""
        self.outbox.put(SentRecord(row))

    def record(self, record: Record) -> Record:
        """Return the record unchanged: `send` queues it once its sample is known."""
        return record

    def send(self, row: SampleRow, record: Record, line: str, scored: VerdictsByArm) -> None:
        """Queue a record, as a line, with its blobs that were not sent before and its verdicts."""
        named = {*record.pictures, *(sha for call in record.calls for sha in call["messages"])}
        with self.lock:  # keeps a record behind the one that its pictures were sent with
            new, self.sent = named - self.sent, self.sent | named
            blobs = {sha: self.blobs.get(sha) for sha in new}
            self.outbox.put(SentRecord(row, line, blobs, scored))


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as exc:
        raise RunError(f"--on ray needs Ray; type: {format_install('ray')}") from exc


@contextmanager
def _connect_ray(address: str) -> Iterator[None]:
    """Connect to Ray for the duration of a block; an existing connection is used and kept."""
    ray = _import_ray()
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(
            address=address or "local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as exc:
        raise RunError(
            f"--on {address or 'ray'}: {str(exc).splitlines()[0]}; is the cluster running?"
        ) from exc
    try:
        yield
    finally:
        ray.shutdown()


def parse_address(text: str) -> str:
    """Parse the address in `--on ray[://HOST:PORT]`; empty for this machine. Raises RunError."""
    if text == "ray":
        return ""
    if text.startswith("ray://") and len(text) > len("ray://"):
        return text
    raise RunError(
        f"--on {text}: write `ray` for this machine, or `ray://HOST:10001` for a cluster"
    )
