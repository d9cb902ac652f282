"""Runs: every record is written, shared work is done once, failures are isolated."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from looktwice.eval.readers import Robust
from looktwice.eval.records import Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.runs.options import count_default_workers
from looktwice.eval.runs.run import Run
from looktwice.eval.runs.run_models import RunModels
from looktwice.eval.runs.trial import Progress
from looktwice.eval.scoring import Verdict
from looktwice.eval.scoring.notes import list_notes
from looktwice.eval.scoring.score import score_run
from looktwice.eval.tasks import Facts, TaskError
from looktwice.pipelines.config import Plan
from looktwice.pipelines.config.plan import add_id
from looktwice.pipelines.config.spec import Arm, asks_model
from looktwice.pipelines.model import Message, Model, ModelError, Reply
from looktwice.pipelines.models import ChatAPI, Scripted
from looktwice.pipelines.models.stops import CacheError
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask
from looktwice.prompting.wording import MultipleChoice
from tests.optional import extension

toolkits = extension("toolkits")


@dataclass(frozen=True)
class Greys:
    """Flat pictures whose grey value and answer key follow from their number."""

    n: int = 6
    seed: int = 0
    twice: bool = False
    broken: int = -1
    keys: str = "AB"

    @property
    def facts(self) -> Facts:
        return Facts("made")

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Item]:
        for i in range(self.n):
            picture = Picture(np.full((30, 40, 3), (10 * i + self.seed) % 256, np.uint8))
            if i == self.broken:
                picture = Picture.encoded(b"no image", f"broken {i}")
            name, meta = f"grey_{0 if self.twice else i}", {"half": i % 2}
            sample = Sample(name, "Which?", (picture,), ("one", "two"), meta=meta)
            yield Item(sample, self.keys[i % 2])


@dataclass(frozen=True)
class Counting:
    """Returns the state, counts its calls and records the grey value of the first pixel."""

    name: str = "a"
    fails: bool = False
    seen: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        self.seen.append(int(state.views[0].pixels[0, 0, 0]))
        if self.fails:
            raise RuntimeError("this stage is broken")
        return state.replace(prompt=f"{state.prompt} {self.name}")


ASK: dict[str, Stage] = {"ask": Ask()}


def point(
    task: Any = Greys(2), stages: Any = ASK, model: Any = None, name: str = "a", **more: Any
) -> Arm:
    used = model or Scripted("(A)") if any(map(asks_model, stages.values())) else None
    made = Arm(name, {}, "greys", task, used, stages, Robust(), 1, 0, name == "a", "", "")
    return add_id(replace(made, **more))


def run(points: list[Arm] | Arm, folder: Path, **more: Any) -> Run:
    chosen = {k: more.pop(k) for k in list(more) if k in ("limit", "shard", "keep_failed")}
    options = RunOptions(workers=more.pop("workers", 4), **chosen)
    arms = (points,) if isinstance(points, Arm) else tuple(points)
    return Run(Plan("test", arms), folder, options, **more)


def records(folder: Path) -> dict[tuple[str, str, int], Record]:
    return RunFolder(folder).records()


def strip_times(folder: Path) -> list[dict[str, Any]]:
    """The records without times, in a fixed order."""
    rows = [json.loads(record.to_line()) for record in records(folder).values()]
    for row in rows:
        row.pop("timings")
    return sorted(rows, key=lambda row: (row["point"], row["sample"], row["draw"]))


def verdicts(folder: Path, place: int = 0, reader: Any = None) -> list[Verdict]:
    return [
        scored.verdict for scored in score_run(RunFolder(folder), reader).points[place].all_records
    ]


@pytest.mark.parametrize("workers", [1, 8])
def test_every_sample_has_a_record_with_any_number_of_workers(workers: int, tmp_path: Path) -> None:
    def points() -> list[Arm]:
        asked: dict[str, Stage] = {"choose": MultipleChoice(), **ASK}
        marked = {"mark": Circles(), **asked}
        return [point(Greys(), asked), point(Greys(), marked, Scripted("(B)"), "b")]

    outcome = run(points(), tmp_path / "many", workers=workers)()
    assert (
        outcome.written_count,
        outcome.kept_count,
        outcome.failed_count,
        outcome.is_stopped,
    ) == (12, 0, 0, False)
    run(points(), tmp_path / "one", workers=1)()
    assert strip_times(tmp_path / "many") == strip_times(tmp_path / "one")
    assert {key[:2] for key in records(tmp_path / "many")} == {
        (arm.id, f"grey_{i}") for arm in points() for i in range(6)
    }
    assert sorted(verdicts(tmp_path / "one")) == [Verdict.RIGHT] * 3 + [Verdict.WRONG] * 3


def test_the_record_holds_the_request_and_the_reply(tmp_path: Path) -> None:
    stages = {"choose": MultipleChoice(), "ask": Ask(system="Look.")}
    one = point(Greys(1), stages, Scripted([Reply("(A)", reasoning="hm")]))
    run(one, tmp_path)()
    (record,), folder = records(tmp_path).values(), RunFolder(tmp_path)
    system, user, assistant = folder.messages(record)
    assert (system.role, system.text) == ("system", "Look.")
    assert "Which?" in user.text and (user.views[0].pixels == 0).all()
    assert (assistant.text, record.replies[0].reasoning) == ("(A)", "hm")
    assert folder.blobs.get(record.pictures[0])[:4] == b"\x89PNG"
    assert record.timings["stages"].keys() == {"choose", "ask"}
    assert folder.points[one.id].spec["stages"]["ask"]["system"] == "Look."
    assert folder.samples[one.task_id, "grey_0"].answer == "A"


def test_shared_leading_stages_run_once(tmp_path: Path) -> None:
    task, first, models = Greys(5), Counting("first"), [Scripted("(A)"), Scripted("(B)")]
    points = [
        point(task, {"first": first, "then": Counting(name), **ASK}, model, f"{name}{i}")
        for name in ("x", "y")
        for i, model in enumerate(models)
    ]
    run(points, tmp_path)()
    assert len(first.seen) == 5 and [len(model.asked) for model in models] == [10, 10]
    assert len(records(tmp_path)) == 20


def test_a_failing_stage_gives_a_failed_record_and_the_run_continues(tmp_path: Path) -> None:
    bad = {"bad": Counting("z", fails=True), "sly": HiddenCaller(), **ASK}
    stages: list[Any] = [{"fine": Counting(), **ASK}, bad, {"sly": HiddenCaller()}]
    points = [
        point(Greys(3, broken=1), each, name=n) for n, each in zip("abc", stages, strict=True)
    ]
    assert run(points, tmp_path)().failed_count == 1 + 3 + 3
    errors = {key: record.error for key, record in records(tmp_path).items()}
    assert "broken 1: not a readable image" in errors[points[0].id, "grey_1", 0]
    assert "RuntimeError: this stage is broken" in errors[points[1].id, "grey_0", 0]
    assert "asks = False" in errors[points[2].id, "grey_0", 0]
    assert errors[points[0].id, "grey_2", 0] == ""
    assert verdicts(tmp_path, 1) == [Verdict.FAILED] * 3


def test_calls_before_a_failure_are_kept(tmp_path: Path) -> None:
    def answer(messages: Any) -> str:
        if len(messages) > 1:
            raise ModelError("the second call fails")
        return "(A)"

    run(point(Greys(1), {"ask": Ask(), "again": Ask()}, Scripted(answer)), tmp_path)()
    (record,), why = records(tmp_path).values(), "ModelError: the second call fails"
    calls = [("reply" in call, call.get("error", "")) for call in record.calls]
    assert calls == [(True, ""), (False, why)]
    assert record.error.startswith(why) and record.answer is None


def test_resuming_asks_only_missing_and_failed_samples(tmp_path: Path) -> None:
    fails = threading.Event()
    fails.set()

    def answer(messages: Any) -> str:
        if fails.is_set() and messages[0].views[0].pixels[0, 0, 0] == 20:
            raise ModelError("not today")
        return "(A)"

    model = Scripted(answer)
    one = point(Greys(4), model=model)
    assert run(one, tmp_path)().failed_count == 1
    assert len(model.asked) == 4
    assert run(one, tmp_path, keep_failed=True)().written_count == 0
    fails.clear()
    outcome = run(one, tmp_path)()
    assert (outcome.written_count, outcome.kept_count, outcome.failed_count) == (1, 3, 0)
    assert len(model.asked) == 5
    assert records(tmp_path)[one.id, "grey_2", 0].error == ""


def test_new_points_are_appended_to_the_same_run(tmp_path: Path) -> None:
    model = Scripted("(A)")
    first, second = point(model=model), point(Greys(2), {"ask": Ask(images="after")}, model, "b")
    run(first, tmp_path)()
    run([first, second], tmp_path)()
    assert [row.contestant for row in RunFolder(tmp_path).points.values()] == ["a", "b"]
    assert len(model.asked) == 4


def test_changed_questions_are_refused_and_a_corrected_answer_key_is_applied(
    tmp_path: Path,
) -> None:
    one = point(Greys(3), model=(model := Scripted("(A)")))
    run(one, tmp_path)()
    before = strip_times(tmp_path)
    for task, says in ((Greys(3, seed=5), "3 samples changed"), (Greys(2), "for example grey_2")):
        with pytest.raises(RunError, match=says):
            run(replace(one, task=task), tmp_path)()
    assert strip_times(tmp_path) == before
    run(replace(one, task=Greys(3, keys="AA")), tmp_path)()
    assert len(model.asked) == 3 and verdicts(tmp_path) == [Verdict.RIGHT] * 3


@pytest.mark.parametrize(
    ("task", "says"), [(Greys(3, twice=True), "occurs twice"), (Greys(0), "empty")]
)
def test_faults_of_a_task_lose_no_record(task: Greys, says: str, tmp_path: Path) -> None:
    run(point(), tmp_path)()
    with pytest.raises(TaskError, match=says):
        run(point(task, model=Scripted("(B)"), name="b"), tmp_path)()
    assert len(records(tmp_path)) >= 2


def test_limit_and_shards(tmp_path: Path) -> None:
    one = point(Greys(6))
    run(one, tmp_path / "limit", limit=2)()
    assert sorted(key[1] for key in records(tmp_path / "limit")) == ["grey_0", "grey_1"]
    made = iter(Greys(6))
    assert len([*run(one, tmp_path / "made", limit=2).questions.select_items(made)]) == 2
    assert next(made).sample.id == "grey_2"  # no further one is generated, which may take long
    names = []
    for number in (1, 2, 3):
        run(one, tmp_path / str(number), shard=(number, 3))()
        names += [key[1] for key in records(tmp_path / str(number))]
    assert sorted(names) == [f"grey_{i}" for i in range(6)]


@dataclass(frozen=True)
class HiddenCaller:
    """Asks a model but declares that it does not."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        return Ask()(state, model)


@pytest.mark.parametrize("how", ["stop", "drain", "error"])
def test_an_interrupted_run_is_not_finished(tmp_path: Path, how: str) -> None:
    def answer(messages: Any) -> str:
        if how == "error":
            raise CacheError("the store is damaged")
        getattr(study.progress, how).set()
        return "(A)"

    study = run(point(Greys(40), model=Scripted(answer)), tmp_path, workers=1)
    if how == "error":
        with pytest.raises(CacheError, match="damaged"):
            study()
        assert not records(tmp_path)
    else:
        assert study().is_stopped
    assert RunFolder(tmp_path).facts["finished"] is False
    assert len(records(tmp_path)) < 40


@pytest.mark.parametrize(
    ("part", "number"), [({}, 18), ({"limit": 2}, 6), ({"limit": 9}, 18), ({"shard": (1, 3)}, 3)]
)
def test_the_planned_number_of_records(tmp_path: Path, part: dict[str, Any], number: int) -> None:
    points = [point(Greys(6), draws=draws) for draws in (1, 2)]
    study = run(points, tmp_path, **part)
    assert study.questions.count_records() == study().written_count == number
    assert RunFolder(tmp_path).facts["planned"] == {points[0].task_id: number // 3}
    assert RunFolder(tmp_path).facts["arms"] == [arm.id for arm in study.plan.points]
    run(points, tmp_path)()  # the samples of the other part are not lost
    assert run(points, tmp_path, **part)().written_count == 0


@pytest.mark.parametrize(
    ("limits", "workers"), [([], 16), ([None], 16), ([64, None], 16), ([4], 20), ([8, 192], 208)]
)
def test_there_are_more_threads_than_calls_in_flight(
    limits: list[int | None], workers: int
) -> None:
    """Threads that wait for a reply leave enough others for the stages."""
    models = [
        Scripted("(A)") if limit is None else ChatAPI("m", "http://127.0.0.1:9", in_flight=limit)
        for limit in limits
    ]
    assert count_default_workers(models) == workers


@pytest.mark.parametrize(("cores", "workers", "threads"), [(8, 3, 2), (4, 16, 1), (None, 1, 1)])
def test_the_workers_share_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int | None, workers: int, threads: int
) -> None:
    told: list[int] = []
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr("cv2.setNumThreads", told.append)
    run(point(Greys(1)), tmp_path, workers=workers)()
    assert told == [threads]


@pytest.mark.parametrize(("name", "asked"), [("records.jsonl", 3), ("samples.jsonl", 2)])
def test_a_truncated_last_line_is_rewritten(tmp_path: Path, name: str, asked: int) -> None:
    one = point(model=(model := Scripted("(A)")))
    run(one, tmp_path)()
    lines = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(lines[:-40])
    assert run(one, tmp_path)().kept_count == 4 - asked
    assert len(model.asked) == asked and len(records(tmp_path)) == 2
    assert len((tmp_path / name).read_bytes().splitlines()) == 2


def test_a_run_with_a_missing_or_damaged_points_file(tmp_path: Path) -> None:
    one = point(model=(model := Scripted("(A)")))
    run(one, tmp_path)()
    (tmp_path / "points.yaml").write_text("[")
    with pytest.raises(RunError, match=r"(?s)damaged.*remove it"):
        run(one, tmp_path)()
    (tmp_path / "points.yaml").unlink()
    assert run(one, tmp_path)().kept_count == len(model.asked) == 2
    assert list(RunFolder(tmp_path).points) == [one.id]


@dataclass(frozen=True)
class First:
    """The first letter of the reply in brackets."""

    def __call__(self, state: State, model: Model) -> State:
        return state.replace(answer=state.reply[state.reply.index("(") + 1])


def test_another_reader_rescores_old_records_without_a_call(tmp_path: Path) -> None:
    run(point(model=(model := Scripted("either (A) or (B)"))), tmp_path)()
    assert verdicts(tmp_path, reader=toolkits.BlinkOfficial()) == [Verdict.UNREADABLE] * 2
    assert verdicts(tmp_path, reader=First()) == [Verdict.RIGHT, Verdict.WRONG]
    assert len(model.asked) == 2


def test_nan_is_never_written_to_a_record() -> None:
    record = Record("p", "s", "sha", confidence=float("nan"), timings={"total": float("inf")})
    assert Record.from_line(record.to_line()).confidence is None


@dataclass(frozen=True)
class AskTwo:
    """Asks the model, then shows the reply to a second one."""

    judge: Model

    def __call__(self, state: State, model: Model) -> State:
        state = Ask()(state, model)
        verdict = self.judge((*state.messages, Message("user", ("Is that so?",))))
        return state.replace(answer=verdict.text)


def test_a_second_model_is_wrapped_stored_and_named_like_the_first(tmp_path: Path) -> None:
    first, second = Scripted("(A)"), Scripted("B")
    wrapped: list[str] = []

    class Noted(RunModels):
        def wrap(self, model: Any) -> Any:
            wrapped.append(model.identity)
            return model

    noted = Noted(Progress(), tmp_path, False)
    run(point(Greys(2), {"two": AskTwo(second)}, first), tmp_path, models=noted)()
    assert sorted(wrapped) == ["scripted: '(A)'", "scripted: 'B'"]
    assert (len(first.asked), len(second.asked)) == (2, 2)
    for record in records(tmp_path).values():
        calls = [(call["reply"]["text"], call.get("model", "")) for call in record.calls]
        assert (record.answer, calls) == ("B", [("(A)", ""), ("B", "scripted: 'B'")])


def test_a_limited_run_is_reported_as_such(tmp_path: Path) -> None:
    one, file = point(Greys(6)), tmp_path / "run.yaml"
    run(one, tmp_path, limit=2)()
    facts = RunFolder(tmp_path).facts
    said = list_notes(score_run(RunFolder(tmp_path)))
    assert said == ["partly asked (limit 2): greys: 2 of 6 samples"] and facts["finished"] is True
    file.write_text(file.read_text().replace(facts["started"], "before"))
    run(one, tmp_path)()
    assert list_notes(score_run(RunFolder(tmp_path))) == []
    assert RunFolder(tmp_path).facts["started"] == "before"


def test_samples_are_written_before_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    real = Path.open

    def spy(path: Path, *args: Any, **more: Any) -> Any:
        names.append(path.name)
        return real(path, *args, **more)

    monkeypatch.setattr(Path, "open", spy)
    writer = RunWriter(tmp_path)  # its thread has not started
    writer.record(Record("p", "s", "sha"))
    writer.add_sample(SampleRow("t", "sha", None, {"id": "s"}))
    writer.flush()
    assert names == ["samples.jsonl", "records.jsonl"]


def test_fresh_does_not_move_a_run_in_progress(tmp_path: Path) -> None:
    study = Study(Plan("test", (point(Greys(1)),)), tmp_path, fresh=True)
    study()
    with RunWriter(tmp_path / "test"), pytest.raises(RunError, match="being written"):
        study()
    study()
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("test.")]) == 1


@dataclass(frozen=True)
class Abstaining:
    """Abstains."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        return state.abstain("nothing to see")


def test_later_stages_are_skipped_after_an_abstention(tmp_path: Path) -> None:
    model = Scripted("(A)")
    asks = (Ask(), Ask(images="after"))
    run(
        [
            point(Greys(2), {"doubt": Abstaining(), "ask": ask}, model, name)
            for name, ask in zip("ab", asks, strict=True)
        ],
        tmp_path,
    )()
    reasons = [record.reason for record in records(tmp_path).values()]
    assert model.asked == [] and reasons == ["abstained: nothing to see"] * 4
