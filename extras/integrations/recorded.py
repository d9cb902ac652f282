"""A run folder that grows while clients send requests: the recorded questions as a task, and the
recorder that writes them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path

from looktwice.eval.records.records import RunError, RunFolder, SampleRow
from looktwice.eval.records.schema import MAX_DRAWS
from looktwice.eval.records.writer import RunWriter, describe_failure, make_point_rows, make_record
from looktwice.eval.runs.provenance import describe_plugin, list_versions
from looktwice.eval.runs.requests import Request
from looktwice.eval.tasks.base import Facts
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import NOT_IDENTITY, Arm, digest, identity
from looktwice.pipelines.pipeline import RecordingModel, StageFailed, find_cause, run_stage
from looktwice.pipelines.sample import Item, Sample, hash_json
from looktwice.pipelines.state import State


@dataclass(frozen=True)
class Requests:
    """The questions that clients of `looktwice serve` asked, with the correct answers that they
    sent along, from the run `folder` in which the questions were recorded (default: the run that
    names this task).

    Raises TaskError, RunError.
    """

    folder: Path = field(default=Path("."), metadata=NOT_IDENTITY)

    @property
    def facts(self) -> Facts:
        """The facts that tables list about the questions, such as the split and the version of the
        labels."""
        return Facts(note="asked by clients of looktwice serve, who sent the correct answers")

    def __len__(self) -> int:
        return len(RunFolder(self.folder).samples)

    def __iter__(self) -> Iterator[Item]:
        run = RunFolder(self.folder)
        rows = run.samples.values()
        return (Item(row.without_pixels(run.blobs), row.answer) for row in rows)


@dataclass(eq=False)
class Recorder:
    """A context manager that writes clients' questions and answers into the run folder at `path`.

    A question keeps its id; a different question with the same id gets a new id. Each further
    answer of a contestant to a question is a new draw.
    """

    path: Path
    arms: Sequence[Arm] = ()
    name: str = ""
    plugins: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.writer, self.lock = RunWriter(self.path), threading.Lock()
        self.shas = dict[str, str]()
        self.taken = defaultdict[tuple[str, str], set[int]](set)

    def __enter__(self) -> Recorder:
        """Open the folder. Raises RunError if it holds another kind of run, or is in use."""
        with ExitStack() as stack:
            stack.enter_context(self.writer)
            run = RunFolder(self.path)
            facts = run.facts
            if facts.get("arms"):
                raise RunError(f"{self.path} is the run of a study; name another folder with --out")
            self.add(self.arms)
            self.shas |= {row.id: row.sha for row in run.samples.values()}
            for record in run.last_records():
                self.taken[record.point, record.sample].add(record.draw)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            described = {
                "name": self.name,
                "started": facts.get("started") or now,
                "plugins": list(map(describe_plugin, self.plugins)),
                "versions": dict(list_versions()),
                "planned": {
                    digest(identity(Requests())): 0
                },  # the number of questions is up to clients: none is missing
                "finished": True,
            }
            self.writer.write_yaml("run.yaml", described)
            self.close = stack.pop_all().close
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def add(self, arms: Sequence[Arm]) -> None:
        """Record contestants. Raises RunError if a setting contains a secret key."""
        with self.lock:
            self.writer.add_points(make_point_rows(Plan(self.name, tuple(arms))))

    def record_question(
        self, sample: Sample, task: str, answer: str | None = None
    ) -> tuple[Sample, SampleRow]:
        """Return a question with its final id, and its line in the file of samples. A new question
        is written with its pictures and, if the client sent it, the correct answer. Raises
        PictureError."""
        for picture in sample.images:
            self.writer.blobs.put(picture.source, picture.sha)
        row = SampleRow(task, hash_json(plain := sample.to_dict()), answer, plain)
        with self.lock:
            if self.shas.get(sample.id, row.sha) != row.sha:
                sample = replace(sample, id=f"{sample.id}-{row.sha[:8]}")
                plain = sample.to_dict()
                row = SampleRow(task, hash_json(plain), answer, plain)
            if sample.id not in self.shas:
                self.writer.add_sample(row)
                self.shas[sample.id] = row.sha
        return sample, row

    def reserve_draws(self, arm: Arm, sample: str, number: int) -> list[int]:
        """Reserve and return the numbers of the next draws; beyond the maximum of a run, the last
        number is reused."""
        with self.lock:
            taken = self.taken[arm.id, sample]
            free = (draw for draw in count() if draw not in taken)
            draws = [min(draw, MAX_DRAWS - 1) for draw in islice(free, number)]
            taken.update(draws)
        return draws

    def record_answer(
        self,
        arm: Arm,
        request: Request,
        sample: Sample,
        sha: str,
        draw: int,
        model: RecordingModel,
        watch: Callable[[str, State, State], None] = lambda slot, before, after: None,
    ) -> State:
        """Run the stages of a contestant, and write the record to disk.

        `watch` receives the slot of every stage, and the states before and after it. Raises
        StageFailed.
        """
        state, failed = request.apply_to(State.start(sample, arm.seed, request.draw)), None
        try:
            for slot, stage in request.override_stages(arm.stages).items():
                if not state.ended:
                    before, state = state, run_stage(slot, stage, state, model)
                    watch(slot, before, state)
        except StageFailed as exc:
            state, failed = exc.state, exc
        error = describe_failure(find_cause(failed)) if failed else ""
        state = state.replace(draw=draw)
        record = make_record(arm, sample, sha, state, self.writer.blobs, error)
        self.writer.record(record)
        self.writer.flush()
        if failed:
            raise failed
        return state
