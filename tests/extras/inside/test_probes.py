"""Probes: planted information is found where it was planted, and nothing where there is none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval import MarkedScenes, RunFolder, evaluate
from looktwice.eval.readers import WholeReply
from looktwice.eval.records.records import SampleRow, StoredMessage
from looktwice.eval.scoring.score import score_run
from looktwice.extras.engines import LocalVLM
from looktwice.extras.inside.arms import (
    AnswerLoss,
    ArmProbe,
    Question,
    collect_questions,
    describe_probe,
    get_true_answer,
    is_held_out,
    list_choice_texts,
    probe_arm,
    probe_run,
)
from looktwice.extras.inside.internals import Layer, States, read_states
from looktwice.extras.inside.linear import fit_probe
from looktwice.pipelines import Pipeline, Scripted
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import Model
from looktwice.pipelines.models import Pocket
from looktwice.prompting import Ask
from tests.first_day.studies import looktwice
from tests.made_run import MadeRun
from tests.questions_in_memory import Questions
from tests.tiny import tiny

KINDS = 4
PLACES = [Layer("tower", 1), Layer("projector", 1)]
PLACES += [Layer("decoder", 1, over) for over in ("image", "last")]


@pytest.fixture(scope="module")
def known() -> dict[str, States]:
    return {}


@pytest.fixture
def states_once(known: dict[str, States], monkeypatch: pytest.MonkeyPatch) -> None:
    """Show each question to the model only once for all tests that request this."""

    def once(model: Model, messages: Sequence[StoredMessage]) -> States:
        name = " ".join(message._stored[1] for message in messages)
        if name not in known:
            known[name] = read_states(model, messages)
        return known[name]

    monkeypatch.setattr("looktwice.extras.inside.arms.read_states", once)


def run_probe(code: int, *words: object) -> str:
    """Run the command, check its exit code, and return its output."""
    result = looktwice("analyse", words[0], "probe", *words[1:])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def asked_pocket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 120 questions, asked once."""
    run = tmp_path_factory.mktemp("asked") / "run"
    task = {"count": MarkedScenes("count", n=120, controls={"overlap": 0})}
    evaluate(task, {"pocket": Ask()}, Pocket(), out=run, reader=WholeReply(), workers=2)
    return run


@pytest.fixture
def run(asked_pocket: Path, tmp_path: Path) -> Path:
    """A copy of this run that can be changed."""
    return Path(shutil.copytree(asked_pocket, tmp_path / "run"))


Labels = np.ndarray[Any, Any]


def question(number: int, label: object, **more: Any) -> Question:
    """Return a question on its own picture, unless `cluster` names another."""
    plain: dict[str, Any] = {"cluster": f"picture {number}", "right": 0.0, "message_digests": ()}
    plain["text"] = "how many?"
    return Question(f"q{number}", label=str(label), **(plain | more))


def make_planted_arm(strength: Sequence[float]) -> ArmProbe:
    """Return the probes of an arm with this label strength per layer, whose model always picks the
    first choice."""
    random, width = np.random.default_rng(1), 12
    signs = random.normal(size=(KINDS, width))
    states: list[States] = []
    for label in labels():
        noise = random.normal(size=(len(PLACES), width))
        vectors = (noise + np.outer(strength, signs[label])).astype(np.float32)
        states.append(dict(zip(PLACES, vectors, strict=True)))
    questions = [question(n, label, right=float(label == 0)) for n, label in enumerate(labels())]
    return probe_arm("model", "task", questions, states, 0.4)


def labels(n: int = 600) -> Labels:
    return np.random.default_rng(0).integers(0, KINDS, n)


def describe(arm: ArmProbe, **changed: Any) -> str:
    """Return the description of an arm after these changes; it has lost nothing."""
    arm = replace(arm, **changed)
    assert arm.loss is None
    return " ".join(describe_probe(arm))


def test_a_planted_label_is_decodable_from_its_layer_on() -> None:
    arm = make_planted_arm((0, 0, 4, 4))
    for probe, right in zip(arm.layers, (0.25, 0.25, 1, 1), strict=True):
        assert probe.right.mean() == pytest.approx(right, abs=0.08 if right < 1 else 0.02)
        assert probe.shuffled_accuracy == pytest.approx(0.25, abs=0.04)
    assert len(arm.model_right) + arm.training_count == 600
    assert len(arm.model_right) == pytest.approx(240, abs=40)


@pytest.mark.parametrize(
    ("strength", "loss"),
    [
        ((4, 0, 0, 0), AnswerLoss("tower 1", "projector")),
        ((4, 4, 0.2, 0), AnswerLoss("projector", "decoder 1, image tokens")),
        ((3, 3, 3, 3), AnswerLoss("decoder 1, last token", "the reply")),
        ((0, 0, 0, 0), None),
    ],
)
def test_the_layer_of_the_loss_is_named(strength: Sequence[float], loss: AnswerLoss | None) -> None:
    arm = make_planted_arm(strength)
    words = (
        f"lost between {loss.last_found} and {loss.first_lost}" if loss else "No answer is found"
    )
    assert arm.loss == loss and words in " ".join(describe_probe(arm))


def test_a_model_that_says_what_is_decodable_has_lost_nothing() -> None:
    arm = make_planted_arm((0, 0, 0, 1.2))
    best = arm.layers[-1].right
    same = describe(arm, model_right=best, wording_count=3)
    assert "No loss is found" in same and "+0.0 points" in same and "there are 3" in same
    more = describe(arm, model_right=np.ones(len(best)))
    assert "uses more than a linear probe" in more
    assert "not read the question" not in more, "one wording"
    none = make_planted_arm((0, 0, 0, 0))
    assert "No answer is found" in describe(none, model_right=0 * none.model_right), (
        "no question was answered"
    )


def test_an_answer_without_training_examples_is_not_decodable() -> None:
    states, questions = dict.fromkeys(PLACES, np.ones(4, np.float32)), list[Question]()
    for n, label in enumerate(labels(200)):
        is_new = is_held_out(f"picture {n}", 0.4)
        questions.append(question(n, "new" if is_new else label))
    arm = probe_arm("m", "t", questions, [states] * len(questions), 0.4)
    assert (
        not arm.layers[0].right.any()
        and not arm.layers[0].shuffled_accuracy
        and not arm.majority_right.any()
    )


def test_a_picture_is_never_in_both_parts_of_the_split() -> None:
    random = np.random.default_rng(2)
    pictures, answers = np.repeat(np.arange(100), 6), random.integers(0, KINDS, 100)
    vectors, asked = random.normal(size=(100, 200)).astype(np.float32), enumerate(pictures)
    questions = [question(n, answers[p], cluster=f"picture {p}") for n, p in asked]
    arm = probe_arm("m", "t", questions, [{PLACES[0]: vectors[each]} for each in pictures], 0.4)
    (probe,) = arm.layers
    assert probe.right.mean() < 0.45 and probe.training_accuracy < 0.45
    assert len(arm.model_right) == 6 * len(set(arm.clusters)) == 600 - arm.training_count


def test_the_penalty_is_chosen_on_the_training_part_only() -> None:
    random, known = np.random.default_rng(3), labels(300)
    vectors = random.normal(size=(300, 190)) + 1.5 * np.eye(KINDS, 190)[known]
    names, free = list(range(200)), np.ones((300, KINDS), bool)
    whole = fit_probe(vectors[:200], known[:200], names, vectors[200:], free[:200], free[200:])
    part = fit_probe(vectors[:200], known[:200], names, vectors[250:], free[:200], free[250:])
    assert (whole.predictions[50:] == part.predictions).all() and (
        whole.shuffled_predictions[:, 50:] == part.shuffled_predictions
    ).all()
    assert whole.training_accuracy > 0.42  # the best penalty of this grid; the worst gives 0.29
    ones = np.ones((20, 3))
    alike = fit_probe(ones, known[:20], names[:20], ones[:5], free[:20], free[:5])
    assert (alike.predictions == np.bincount(known[:20]).argmax()).all()


def test_a_probe_picks_one_of_the_offered_choices() -> None:
    known, random = labels(), np.random.default_rng(4)
    questions = []
    for n, label in enumerate(known):
        other = (label + random.integers(1, KINDS)) % KINDS
        questions.append(question(n, label, choice_texts=(str(label), str(other))))
    states = [{PLACES[0]: random.normal(size=8).astype(np.float32)} for _ in known]
    arm = probe_arm("m", "t", questions, states, 0.4)
    (probe,) = arm.layers
    for share in (probe.right.mean(), probe.shuffled_accuracy, arm.majority_right.mean()):
        assert share == pytest.approx(0.5, abs=0.08)


@pytest.mark.slow
@pytest.mark.usefixtures("states_once")
def test_only_questions_that_the_model_answered_are_probed(run: Path) -> None:
    scored = score_run(RunFolder(run))
    (arm,) = probe_run(scored).arms
    (scores,) = scored.points
    out = [name for name in scores.samples if is_held_out(scores.clusters[name], 0.4)]
    assert sorted(arm.model_right) == sorted(scores.comparable_values[name] for name in out)
    assert arm.training_count == 120 - len(out)
    asked = collect_questions(scored)[scores.point.id]
    assert {entry.sample for entry in asked} == set(scores.samples)
    assert all(len(entry.message_digests) == 1 for entry in asked)


def test_the_correct_choice_is_identified_by_its_text() -> None:
    def row(key: str, *choices: object) -> SampleRow:
        return SampleRow("t", "sha", key, {"id": "s", "question": "?", "choices": [*choices]})

    words = row("B", "Circle", "two  Stars")
    assert get_true_answer(words) == "two stars" and list_choice_texts(words) == (
        "circle",
        "two stars",
    )
    assert get_true_answer(row(" 7 ")) == "7"
    assert get_true_answer(row("B", {"picture": "1"}, {"picture": "2"})) == "b"


def test_the_probed_request_is_the_last_one_of_the_model_of_the_arm(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "run")
    run.task("t", ["A", "B", "A", None, "A"])
    point = run.point("model", "t")

    def call(words: str, **more: Any) -> dict[str, Any]:
        sha = run.blobs.put(write_canonical({"role": "user", "parts": [words]}).encode())
        return {"messages": [sha], "draw": 0, "reply": {"text": "(A)"}, **more}

    tools = call("say it", options={"tools": [{"name": "zoom"}]})
    lost, judge = call("lost", reply=None, error="gone"), call("judge", model="another")
    for sample, calls, more in (
        ("s0", [call("first"), lost, call("second"), lost, judge], {}),
        ("s1", [call("look with a tool", options={"tools": []}), tools], {}),
        ("s2", [judge], {"answer": "A"}),
        ("s3", [call("no key")], {}),
        ("s4", [call("failed")], {"error": "ValueError: "}),
        ("s0", [call("second draw")], {"draw": 1}),
    ):
        run.record(point, sample, calls=tuple(calls), **more)
    folder = run.write()
    (asked,) = collect_questions(score_run(folder)).values()
    texts = [StoredMessage(folder.blobs, entry.message_digests[0]).text for entry in asked]
    assert texts == ["second", "look with a tool"]
    assert [(entry.sample, entry.right) for entry in asked] == [("s0", 1.0), ("s1", 0.0)]


@pytest.mark.slow
def test_a_label_planted_in_a_network_is_found_from_its_layer_on(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    keys = tuple(np.random.default_rng(0).choice(["one", "two", "three"], 45).tolist())
    model = LocalVLM(str(tiny("llava", tmp_path / "llava")), max_tokens=2)
    settings: Any = {"out": tmp_path / "run", "reader": WholeReply(), "workers": 1}
    evaluate(Questions(keys, 0), {"tiny": Ask()}, model, **settings)
    scored = score_run(RunFolder(tmp_path / "run"))
    layers = model.network().model.model.language_model.layers
    (asked,) = collect_questions(scored).values()
    order = iter([("one", "two", "three").index(entry.label) for entry in asked])

    def plant(module: Any, given: Any, output: Any) -> Any:
        state = output[0] if isinstance(output, tuple) else output
        more = 100 * torch.nn.functional.one_hot(torch.tensor(next(order)), state.shape[-1])
        return (state + more, *output[1:]) if isinstance(output, tuple) else state + more

    with_it = layers[1].register_forward_hook(plant)
    (arm,) = probe_run(scored).arms
    with_it.remove()
    right = {str(probe.layer): probe.right.mean() for probe in arm.layers}
    assert right.pop("decoder 2, last token") == right.pop("decoder 2, image tokens") == 1.0
    assert len(right) == 5 and max(right.values()) < 0.6
    assert arm.loss == AnswerLoss("decoder 2, last token", "the reply")


@pytest.mark.slow
@pytest.mark.usefixtures("states_once")
def test_the_command_writes_a_page(run: Path, tmp_path: Path) -> None:
    assert "on 59 held-out questions" in run_probe(0, run)
    page = (run / "probes.md").read_text(encoding="utf-8")
    assert page.count("| tower ") == 6 and page.count("last token |") == 5
    run_probe(2, run, "--out", run / "records.jsonl")
    assert "of 59 held-out" not in run_probe(0, run, "limit=80", "--out", tmp_path / "other.md")
    assert (tmp_path / "other.md").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("states_once")
def test_a_killed_run_is_probed_as_far_as_it_got(run: Path) -> None:
    lines = (run / "records.jsonl").read_bytes().splitlines(keepends=True)
    (run / "records.jsonl").write_bytes(b"".join(lines[:90]) + lines[90][:100])
    (run / "run.yaml").unlink()
    run_probe(0, run)
    (run / "records.jsonl").write_bytes(b"".join(lines[:10]))
    few = run_probe(2, run)
    assert "10 of its questions were answered" in few and "finish the run" in few
    (run / "records.jsonl").unlink()
    run_probe(2, run)


def test_a_run_with_missing_pictures_is_reported(run: Path) -> None:
    for record in RunFolder(run).last_records():
        for sha in record.pictures:
            RunFolder(run).blobs.get_path(sha).unlink(missing_ok=True)
    assert "from the run's blobs/" in run_probe(2, run)
    shutil.rmtree(run / "blobs")
    assert "message" in run_probe(2, run)


def test_runs_that_cannot_be_probed_are_refused_with_the_reason(tmp_path: Path) -> None:
    keys, stages = tuple("AB" * 30), {"scripted": Pipeline({"ask": Ask()})}
    again = {"again": Pipeline({"ask": Ask(images="after")})}
    evaluate(Questions(keys), stages | again, Scripted("(A)"), out=tmp_path / "run")
    output = run_probe(2, tmp_path / "run")
    assert "no arm to probe; `looktwice run probes`" in output
    assert re.search(r"not probed: scripted on \w+; again on \w+ \(", output), output
    numbers = Questions(tuple(map(str, range(60))), 0)
    evaluate(numbers, stages, Pocket(), out=tmp_path / "open", workers=1)
    assert "different answers" in run_probe(2, tmp_path / "open")
