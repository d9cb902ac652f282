"""Runs: every record there, shared work done once, failures kept apart, and going on where it was
stopped."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from looktwice.eval.readers import BlinkOfficial, Robust
from looktwice.eval.records import Record, RunError, RunFolder, RunWriter
from looktwice.eval.runs import RunOptions
from looktwice.eval.runs.predict import Run
from looktwice.eval.scoring import Verdict
from looktwice.eval.scoring.notes import notes
from looktwice.eval.scoring.score_run import score_run
from looktwice.eval.tasks import Facts, TaskError
from looktwice.pipelines.config import Plan
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.plan import with_id
from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Message, Model, ModelError, Reply
from looktwice.pipelines.models import CacheError, Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask
from looktwice.prompting.wording import MultipleChoice


@dataclass(frozen=True)
class Greys:
    """Flat pictures whose grey value and key follow from the number."""

    n: int = 6
    seed: int = 0
    twice: bool = False
    broken: int = -1

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
            name = f"grey_{0 if self.twice else i}"
            yield Item(
                Sample(name, "Which?", (picture,), ("one", "two"), meta={"half": i % 2}),
                "AB"[i % 2],
            )


@dataclass(frozen=True)
class Counting:
    """Passes the state on, counts its calls and keeps the grey value of the first pixel."""

    name: str = "a"
    fails: bool = False
    seen: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        self.seen.append(int(state.views[0].pixels[0, 0, 0]))
        if self.fails:
            raise RuntimeError("this stage is broken")
        return state.replace(prompt=f"{state.prompt} {self.name}")


def point(name: str, task: Any, stages: dict[str, Stage], model: Any = None, **more: Any) -> Arm:
    used = model if any(asks_model(stage) for stage in stages.values()) else None
    made = Arm(
        name,
        {},
        "greys",
        task,
        used,
        stages,
        Robust(),
        more.pop("draws", 1),
        0,
        name == "a",
        "",
        "",
    )
    return with_id(replace(made, **more))


def run(points: list[Arm], folder: Path, **more: Any) -> Run:
    options = RunOptions(
        workers=more.pop("workers", 4),
        **{k: more.pop(k) for k in list(more) if k in ("limit", "shard", "keep_failed")},
    )
    return Run(Plan("test", tuple(points)), folder, options, **more)


def records(folder: Path) -> dict[tuple[str, str, int], Record]:
    return RunFolder(folder).records()


def plain(folder: Path) -> list[dict[str, Any]]:
    """The records without times, in a fixed order."""
    rows = [json.loads(record.to_line()) for record in records(folder).values()]
    for row in rows:
        row.pop("timings")
    return sorted(rows, key=lambda row: (row["point"], row["sample"], row["draw"]))


def test_every_sample_of_every_point_has_a_record(tmp_path: Path) -> None:
    task, model = Greys(), Scripted("(B)")
    asked: dict[str, Stage] = {"choose": MultipleChoice(), "ask": Ask()}
    points = [
        point("a", task, dict(asked), model),
        point("b", task, {"mark": Circles(), **asked}, model),
    ]
    outcome = run(points, tmp_path)()
    assert (outcome.written, outcome.kept, outcome.failed, outcome.stopped) == (12, 0, 0, False)
    assert {key[:2] for key in records(tmp_path)} == {
        (p.id, f"grey_{i}") for p in points for i in range(6)
    }
    scores = score_run(RunFolder(tmp_path))
    verdicts = [scored.verdict for scored in scores.points[0].all]
    assert (verdicts.count(Verdict.RIGHT), verdicts.count(Verdict.WRONG)) == (3, 3)


def test_the_record_holds_what_was_sent_and_what_came_back(tmp_path: Path) -> None:
    one = point(
        "a",
        Greys(1),
        {"choose": MultipleChoice(), "ask": Ask(system="Look.")},
        Scripted([Reply("(A)", reasoning="hm")]),
    )
    run([one], tmp_path)()
    (record,), folder = records(tmp_path).values(), RunFolder(tmp_path)
    system, user, assistant = folder.messages(record)
    assert (system.role, system.text) == ("system", "Look.")
    assert "Which?" in user.text
    assert (user.views[0].pixels == 0).all()
    assert (assistant.text, record.replies[0].reasoning) == ("(A)", "hm")
    assert folder.blobs.get(record.pictures[0])[:4] == b"\x89PNG"
    assert record.timings["stages"].keys() == {"choose", "ask"}
    assert folder.points[one.id].spec["stages"]["ask"]["system"] == "Look."
    assert folder.samples[one.task_id, "grey_0"].answer == "A"


def test_shared_first_stages_run_once(tmp_path: Path) -> None:
    task, first = Greys(5), Counting("first")
    models = [Scripted("(A)"), Scripted("(B)")]
    points = [
        point(f"{name}{i}", task, {"first": first, "then": Counting(name), "ask": Ask()}, model)
        for name in ("x", "y")
        for i, model in enumerate(models)
    ]
    run(points, tmp_path)()
    assert len(first.seen) == 5
    assert [len(model.asked) for model in models] == [10, 10]
    assert len(records(tmp_path)) == 20


def test_a_failing_stage_is_a_failed_record_and_the_rest_goes_on(tmp_path: Path) -> None:
    task = Greys(3, broken=1)
    points = [
        point("a", task, {"fine": Counting(), "ask": Ask()}, Scripted("(A)")),
        point("b", task, {"bad": Counting("z", fails=True), "ask": Ask()}, Scripted("(A)")),
    ]
    outcome = run(points, tmp_path)()
    assert outcome.failed == 4
    found = records(tmp_path)
    assert "broken 1: not an image" in found[points[0].id, "grey_1", 0].error
    assert "RuntimeError: this stage is broken" in found[points[1].id, "grey_0", 0].error
    assert found[points[0].id, "grey_2", 0].error == ""
    scores = score_run(RunFolder(tmp_path))
    assert [s.verdict for s in scores.points[1].all].count(Verdict.FAILED) == 3


def test_calls_before_a_failure_are_kept(tmp_path: Path) -> None:
    def answer(messages: Any) -> str:
        if len(messages) > 1:
            raise ModelError("the second call fails")
        return "(A)"

    one = point("a", Greys(1), {"ask": Ask(), "again": Ask()}, Scripted(answer))
    run([one], tmp_path)()
    (record,) = records(tmp_path).values()
    assert [("reply" in call, call.get("error", "")) for call in record.calls] == [
        (True, ""),
        (False, "ModelError: the second call fails"),
    ]
    assert record.error.startswith("ModelError: the second call fails")
    assert record.answer is None


def test_going_on_asks_only_what_is_missing_and_what_failed(tmp_path: Path) -> None:
    fails = threading.Event()
    fails.set()

    def answer(messages: Any) -> str:
        if fails.is_set() and messages[0].views[0].pixels[0, 0, 0] == 20:
            raise ModelError("not today")
        return "(A)"

    model = Scripted(answer)
    one = point("a", Greys(4), {"ask": Ask()}, model)
    assert run([one], tmp_path)().failed == 1
    assert len(model.asked) == 4
    assert run([one], tmp_path, keep_failed=True)().written == 0
    fails.clear()
    outcome = run([one], tmp_path)()
    assert (outcome.written, outcome.kept, outcome.failed) == (1, 3, 0)
    assert len(model.asked) == 5
    assert records(tmp_path)[one.id, "grey_2", 0].error == ""


def test_new_points_append_to_the_same_run(tmp_path: Path) -> None:
    task, model = Greys(2), Scripted("(A)")
    run([point("a", task, {"ask": Ask()}, model)], tmp_path)()
    run(
        [
            point("a", task, {"ask": Ask()}, model),
            point("b", task, {"ask": Ask(images="after")}, model),
        ],
        tmp_path,
    )()
    assert [row.contestant for row in RunFolder(tmp_path).points.values()] == ["a", "b"]
    assert len(model.asked) == 4


def test_changed_samples_under_old_ids_are_refused_with_a_count(tmp_path: Path) -> None:
    one = point("a", Greys(3), {"ask": Ask()}, Scripted("(A)"))
    run([one], tmp_path)()
    before = plain(tmp_path)
    changed = replace(one, task=replace(Greys(3), seed=5))
    with pytest.raises(RunError, match="3 samples changed under the same id"):
        run([changed], tmp_path)()
    assert plain(tmp_path) == before


def test_a_corrected_key_counts_for_old_records(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Corrected(Greys):
        def __iter__(self) -> Iterator[Item]:
            return (Item(item.sample, "A") for item in super().__iter__())

    one = point("a", Greys(4), {"ask": Ask()}, model := Scripted("(A)"))
    run([one], tmp_path)()
    run([replace(one, task=Corrected(4))], tmp_path)()
    assert len(model.asked) == 4
    assert [s.verdict for s in score_run(RunFolder(tmp_path)).points[0].all] == [Verdict.RIGHT] * 4


@pytest.mark.parametrize(
    ("task", "says"), [(Greys(3, twice=True), "comes twice"), (Greys(0), "empty")]
)
def test_task_faults_lose_nothing(task: Greys, says: str, tmp_path: Path) -> None:
    run([point("a", Greys(2), {"ask": Ask()}, Scripted("(A)"))], tmp_path)()
    with pytest.raises(TaskError, match=says):
        run([point("b", task, {"ask": Ask()}, Scripted("(B)"))], tmp_path)()
    assert len(records(tmp_path)) >= 2


def test_limit_and_shards(tmp_path: Path) -> None:
    one = point("a", Greys(6), {"ask": Ask()}, Scripted("(A)"))
    run([one], tmp_path / "limit", limit=2)()
    assert sorted(key[1] for key in records(tmp_path / "limit")) == ["grey_0", "grey_1"]
    parts = []
    for number in (1, 2, 3):
        run([one], tmp_path / str(number), shard=(number, 3))()
        parts.append({key[1] for key in records(tmp_path / str(number))})
    assert sorted(name for part in parts for name in part) == [f"grey_{i}" for i in range(6)]


def test_draws_are_separate_calls(tmp_path: Path) -> None:
    model = Scripted("(A)")
    run([point("a", Greys(2), {"ask": Ask()}, model, draws=3)], tmp_path)()
    assert len(model.asked) == 6
    assert sorted(key[2] for key in records(tmp_path)) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("workers", [1, 8])
def test_workers_do_not_change_the_records(workers: int, tmp_path: Path) -> None:
    def points() -> list[Arm]:
        asked: dict[str, Stage] = {"choose": MultipleChoice(), "ask": Ask()}
        return [
            point("a", Greys(), dict(asked), Scripted("(A)")),
            point("b", Greys(), {"mark": Circles(), **asked}, Scripted("(B)")),
        ]

    run(points(), tmp_path / "many", workers=workers)()
    run(points(), tmp_path / "one", workers=1)()
    assert plain(tmp_path / "many") == plain(tmp_path / "one")


def test_a_stage_that_hides_its_asking_fails_with_a_sentence(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Sly:
        asks: ClassVar[bool] = False

        def __call__(self, state: State, model: Model) -> State:
            return Ask()(state, model)

    run([point("a", Greys(1), {"sly": Sly()}, Scripted("(A)"))], tmp_path)()
    (record,) = records(tmp_path).values()
    assert "asks = False" in record.error


def test_stopping_keeps_what_was_obtained(tmp_path: Path) -> None:
    def answer(messages: Any) -> str:
        if len(model.asked) >= 3:
            study.progress.stop.set()
        return "(A)"

    model = Scripted(answer)
    study = run([point("a", Greys(40), {"ask": Ask()}, model)], tmp_path, workers=2)
    outcome = study()
    assert outcome.stopped
    assert 1 <= len(records(tmp_path)) < 40
    again = run([point("a", Greys(40), {"ask": Ask()}, Scripted("(A)"))], tmp_path)
    again.plan = study.plan
    study.progress.stop.clear()
    assert again().written + outcome.written == 40


@pytest.mark.parametrize("how", ["stop", "drain", "error"])
def test_a_run_that_was_cut_short_is_not_finished(tmp_path: Path, how: str) -> None:
    def answer(messages: Any) -> str:
        if how == "error":
            raise CacheError("the store is damaged")
        getattr(study.progress, how).set()
        return "(A)"

    study = run([point("a", Greys(40), {"ask": Ask()}, Scripted(answer))], tmp_path, workers=1)
    if how == "error":
        with pytest.raises(CacheError, match="damaged"):
            study()
    else:
        assert study().stopped
    assert RunFolder(tmp_path).facts["finished"] is False
    assert len(records(tmp_path)) < 40


@pytest.mark.parametrize(
    ("part", "number"), [({}, 18), ({"limit": 2}, 6), ({"limit": 9}, 18), ({"shard": (1, 3)}, 3)]
)
def test_how_many_records_a_run_comes_to(tmp_path: Path, part: dict[str, Any], number: int) -> None:
    points = [
        point("a", Greys(6), {"ask": Ask()}, Scripted("(A)"), draws=draws) for draws in (1, 2)
    ]
    study = run(points, tmp_path, **part)
    assert study.total() == study().written == number
    assert RunFolder(tmp_path).facts["planned"] == {points[0].task_id: number // 3}
    assert RunFolder(tmp_path).facts["arms"] == [arm.id for arm in study.plan.points]


@pytest.mark.parametrize(
    ("cores", "workers", "threads"), [(8, 2, 4), (8, 3, 2), (4, 16, 1), (None, 1, 1)]
)
def test_the_workers_share_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int | None, workers: int, threads: int
) -> None:
    """OpenCV would else start as many threads as there are cores in each of the workers."""
    told: list[int] = []
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr("cv2.setNumThreads", told.append)
    run([point("a", Greys(1), {"ask": Ask()}, Scripted("(A)"))], tmp_path, workers=workers)()
    assert told == [threads]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with RunWriter(tmp_path), pytest.raises(RunError, match="being written"), RunWriter(tmp_path):
        pass


def test_a_torn_last_line_is_cut(tmp_path: Path) -> None:
    one = point("a", Greys(2), {"ask": Ask()}, model := Scripted("(A)"))
    run([one], tmp_path)()
    lines = (tmp_path / "records.jsonl").read_bytes()
    (tmp_path / "records.jsonl").write_bytes(lines[: len(lines) - 40])
    assert len(records(tmp_path)) == 1
    assert run([one], tmp_path)().written == 1
    assert len(model.asked) == 3
    assert len(records(tmp_path)) == 2


def test_a_lost_sample_is_written_again_and_a_changed_one_still_refused(tmp_path: Path) -> None:
    one = point("a", Greys(3), {"ask": Ask()}, model := Scripted("(A)"))
    run([one], tmp_path)()
    whole = (tmp_path / "samples.jsonl").read_bytes()
    (tmp_path / "samples.jsonl").write_bytes(whole[:-40])
    assert run([one], tmp_path)().kept == 3
    assert (tmp_path / "samples.jsonl").read_bytes() == whole
    assert len(model.asked) == 3


def test_a_run_whose_points_are_lost_or_damaged(tmp_path: Path) -> None:
    one = point("a", Greys(2), {"ask": Ask()}, model := Scripted("(A)"))
    run([one], tmp_path)()
    (tmp_path / "points.yaml").write_text("[")
    with pytest.raises(
        RunError, match=r"(?s)is damaged .*; remove it and run the configuration again"
    ):
        run([one], tmp_path)()
    (tmp_path / "points.yaml").unlink()
    assert run([one], tmp_path)().kept == 2
    assert len(model.asked) == 2
    assert list(RunFolder(tmp_path).points) == [one.id]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run([point("a", Greys(1), {"ask": Ask()}, Scripted("(A)"))], tmp_path)()
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write("{broken}\n")
    with pytest.raises(RunError, match=r"records.jsonl line 2"):
        records(tmp_path)
    with pytest.raises(RunError, match="no run folder"):
        RunFolder(tmp_path / "nothing").points  # noqa: B018


def test_another_reader_reads_old_records_without_a_call(tmp_path: Path) -> None:
    one = point("a", Greys(2), {"ask": Ask()}, model := Scripted("either (A) or (B)"))
    run([one], tmp_path)()
    official = score_run(RunFolder(tmp_path), BlinkOfficial()).points[0].all
    assert [s.verdict for s in official] == [Verdict.UNREADABLE] * 2
    ours = score_run(RunFolder(tmp_path), _First()).points[0].all
    assert [s.verdict for s in ours] == [Verdict.RIGHT, Verdict.WRONG]
    assert len(model.asked) == 2


@dataclass(frozen=True)
class _First:
    """The first letter of the reply in brackets."""

    def __call__(self, state: State, model: Model) -> State:
        return state.replace(answer=state.reply[state.reply.index("(") + 1])


def test_nan_never_reaches_a_record(tmp_path: Path) -> None:
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


def test_a_second_model_is_wrapped_kept_and_named_like_the_first(tmp_path: Path) -> None:
    first, second = Scripted("(A)"), Scripted("B")
    wrapped: list[str] = []

    def wrap(model: Any) -> Any:
        wrapped.append(model.identity)
        return model

    one = point("a", Greys(2), {"two": AskTwo(second)}, first)
    run([one], tmp_path, wrap=wrap)()
    assert sorted(wrapped) == ["scripted: '(A)'", "scripted: 'B'"]
    assert (len(first.asked), len(second.asked)) == (2, 2)
    for record in records(tmp_path).values():
        assert record.answer == "B"
        assert [(call["reply"]["text"], call.get("model", "")) for call in record.calls] == [
            ("(A)", ""),
            ("B", "scripted: 'B'"),
        ]


def test_a_repaired_image_is_asked_and_lost_samples_are_refused(tmp_path: Path) -> None:
    one = point("a", Greys(3, broken=1), {"ask": Ask()}, Scripted("(A)"))
    run([one], tmp_path)()
    outcome = run([replace(one, task=Greys(3))], tmp_path)()
    assert (outcome.written, outcome.failed) == (1, 0)
    with pytest.raises(RunError, match=r"1 sample no longer in the task.*such as grey_2"):
        run([replace(one, task=Greys(2))], tmp_path)()


@pytest.mark.parametrize("part", [{"limit": 2}, {"shard": (1, 2)}])
def test_a_part_of_a_run_can_be_asked_again(tmp_path: Path, part: dict[str, Any]) -> None:
    one = point("a", Greys(6), {"ask": Ask()}, Scripted("(A)"))
    run([one], tmp_path)()
    assert run([one], tmp_path, **part)().written == 0  # the samples of the other part are not lost


def test_a_run_that_asked_only_some_samples_says_so(tmp_path: Path) -> None:
    one = point("a", Greys(6), {"ask": Ask()}, Scripted("(A)"))
    run([one], tmp_path, limit=2)()
    started = RunFolder(tmp_path).facts["started"]
    assert notes(score_run(RunFolder(tmp_path))) == [
        "asked in part (limit 2): greys: 2 of 6 samples"
    ]
    assert RunFolder(tmp_path).facts["finished"] is True
    (tmp_path / "run.yaml").write_text(
        (tmp_path / "run.yaml").read_text().replace(started, "before")
    )
    run([one], tmp_path)()
    assert (notes(score_run(RunFolder(tmp_path))), RunFolder(tmp_path).facts["started"]) == (
        [],
        "before",
    )


def test_a_failed_write_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record("p", "s", "sha")
    with RunWriter(tmp_path) as writer:
        writer.record(record)
    whole = (tmp_path / "records.jsonl").read_bytes()
    real = Path.open

    def full(self: Path, *args: Any, **kwargs: Any) -> Any:
        file = real(self, *args, **kwargs)
        if self.name == "records.jsonl" and "a" in (args[0] if args else ""):
            file.write(b'{"half')
            file.flush()
            file.write = lambda data: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        return file

    with (
        pytest.raises(OSError, match=r"No space left.*records.jsonl"),
        RunWriter(tmp_path) as writer,
    ):
        monkeypatch.setattr(Path, "open", full)
        writer.record(record)
    monkeypatch.undo()
    assert (tmp_path / "records.jsonl").read_bytes().startswith(whole)
    assert len(RunFolder(tmp_path).records()) == 1


def test_fresh_does_not_move_a_run_that_is_going_on(tmp_path: Path) -> None:
    from looktwice.eval.runs import Study

    one = point("a", Greys(1), {"ask": Ask()}, Scripted("(A)"))
    study = Study(Plan("test", (one,)), tmp_path, fresh=True)
    study()
    with RunWriter(tmp_path / "test"), pytest.raises(RunError, match="being written"):
        study()
    study()
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("test.")]) == 1


def test_a_broken_cache_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    def answer(messages: Any) -> str:
        raise CacheError("the store is damaged")

    with pytest.raises(CacheError, match="damaged"):
        run([point("a", Greys(4), {"ask": Ask()}, Scripted(answer))], tmp_path)()
    assert not records(tmp_path)


def test_nothing_is_asked_once_a_stage_has_abstained(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Doubt:
        asks: ClassVar[bool] = False

        def __call__(self, state: State, model: Model) -> State:
            return state.abstain("nothing to see")

    model = Scripted("(A)")
    points = [
        point("a", Greys(2), {"doubt": Doubt(), "ask": Ask()}, model),
        point("b", Greys(2), {"doubt": Doubt(), "ask": Ask(images="after")}, model),
    ]
    run(points, tmp_path)()
    assert model.asked == []
    assert {r.reason for r in records(tmp_path).values()} == {"abstained: nothing to see"}
    assert len(records(tmp_path)) == 4


def test_sweep_points_decode_an_image_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from looktwice.pipelines import picture, picture as decode

    decoded: list[str] = []

    def counted(data: bytes, name: str) -> Any:
        decoded.append(name)
        return real(data, name)

    real = decode.decode
    monkeypatch.setattr(picture, "decode", counted)

    @dataclass(frozen=True)
    class Encoded(Greys):
        def __iter__(self) -> Iterator[Item]:
            for item in super().__iter__():
                data = item.sample.images[0].payload.data
                image = Picture.encoded(data, item.sample.id)
                yield Item(
                    replace(item.sample, images=(image,), marks=(Point("A", 20, 15),)), item.answer
                )

    points = [
        point(f"r{r}", Encoded(3), {"mark": Circles(radius=r), "ask": Ask()}, Scripted("(A)"))
        for r in range(5, 13)
    ]
    run(points, tmp_path)()
    assert len(records(tmp_path)) == 24
    assert sorted(decoded) == ["grey_0", "grey_1", "grey_2"]
