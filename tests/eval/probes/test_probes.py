"""Probes: planted information is found where it was planted, and nothing where there is none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from looktwice.eval import MarkedScenes, evaluate
from looktwice.eval.cli import app
from looktwice.eval.probes.arms import ArmProbe, Loss, probe_arm, probe_run
from looktwice.eval.probes.linear import fit_probe
from looktwice.eval.probes.page import probe_sentences
from looktwice.eval.probes.questions import (
    Question,
    choice_texts,
    is_held_out,
    questions_of,
    true_answer,
)
from looktwice.eval.readers import WholeReply
from looktwice.eval.records import RunFolder
from looktwice.eval.records.records import SampleRow, StoredMessage
from looktwice.eval.scoring.score_run import score_run
from looktwice.pipelines import Pipeline, Pocket
from looktwice.pipelines.model import Model, canonical
from looktwice.pipelines.models import LocalVLM, Scripted
from looktwice.pipelines.models.internals.layers import Layer, States
from looktwice.pipelines.models.internals.read import read_states
from looktwice.prompting import Ask
from tests import tiny_networks
from tests.made_run import MadeRun
from tests.questions_in_memory import Questions

KINDS = 4
PLACES = [
    Layer("tower", 1),
    Layer("projector", 1),
    Layer("decoder", 1, "image"),
    Layer("decoder", 1, "last"),
]


@pytest.fixture(scope="module")
def known() -> dict[str, States]:
    return {}


@pytest.fixture
def states_once(known: dict[str, States], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is shown to the model in one of the tests alone that ask for this: they are
    about what follows."""

    def once(model: Model, messages: Sequence[StoredMessage]) -> States:
        name = " ".join(message._stored[1] for message in messages)
        if name not in known:
            known[name] = read_states(model, messages)
        return known[name]

    monkeypatch.setattr("looktwice.eval.probes.arms.read_states", once)


def run_probe(*words: object) -> Result:
    return CliRunner().invoke(app, ["probe", *map(str, words)])


@pytest.fixture(scope="module")
def asked_pocket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 120 questions, asked once."""
    run, task = (
        tmp_path_factory.mktemp("asked") / "run",
        MarkedScenes("count", n=120, controls={"overlap": 0}),
    )
    evaluate({"count": task}, {"pocket": Ask()}, Pocket(), out=run, reader=WholeReply(), workers=2)
    return run


@pytest.fixture
def run(asked_pocket: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(asked_pocket, tmp_path / "run"))


def planted(
    labels: np.ndarray[Any, Any], strength: Sequence[float], clusters: Sequence[str] = ()
) -> ArmProbe:
    """The probes of an arm whose layers hold the label this strongly, and whose model always says
    the first."""
    random, width = np.random.default_rng(1), 12
    signs = random.normal(size=(KINDS, width))
    states: list[States] = []
    for label in labels:
        noise = random.normal(size=(len(PLACES), width))
        held = (noise[n] + much * signs[label] for n, much in enumerate(strength))
        states.append(
            dict(zip(PLACES, (np.asarray(each, np.float32) for each in held), strict=True))
        )
    names = clusters or [f"picture {number}" for number in range(len(labels))]
    questions = [
        Question(f"q{n}", names[n], str(label), "how many?", float(label == 0), ())
        for n, label in enumerate(labels)
    ]
    return probe_arm("model", "task", questions, states, 0.4)


def labels(n: int = 600) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, KINDS, n)


def test_a_planted_label_is_found_in_its_layer_and_not_before() -> None:
    arm = planted(labels(), (0, 0, 4, 4))
    tower, projector, image, last = arm.layers
    for probe in (tower, projector):
        assert probe.right.mean() == pytest.approx(0.25, abs=0.08)
    assert image.right.mean() > 0.98 and last.right.mean() > 0.98
    for probe in arm.layers:
        assert probe.shuffled == pytest.approx(0.25, abs=0.04)
    assert len(arm.answered) + arm.trained == 600 and len(arm.answered) == pytest.approx(
        240, abs=40
    )


@pytest.mark.parametrize(
    ("strength", "loss"),
    [
        ((4, 0, 0, 0), Loss("tower 1", "projector")),
        ((4, 4, 0.2, 0), Loss("projector", "decoder 1, image tokens")),
        ((3, 3, 3, 3), Loss("decoder 1, last token", "the words of the answer")),
        ((0, 0, 0, 0), None),
    ],
)
def test_the_place_of_the_loss_is_named(strength: Sequence[float], loss: Loss | None) -> None:
    arm = planted(labels(), strength)
    assert arm.loss == loss
    said = " ".join(probe_sentences(arm))
    assert (f"lost between {loss.last} and {loss.first}" if loss else "Nothing is found") in said


def test_a_model_that_says_what_is_read_has_lost_nothing() -> None:
    arm = planted(labels(), (0, 0, 0, 1.2))
    best = arm.layers[-1].right
    same = ArmProbe("m", "t", arm.layers, best, arm.commonest, arm.clusters, arm.trained, 3)
    assert same.loss is None and "No loss is found: the model is +0.0 points" in " ".join(
        probe_sentences(same)
    )
    more = ArmProbe(
        "m", "t", arm.layers, np.ones(len(best)), arm.commonest, arm.clusters, arm.trained, 3
    )
    assert more.loss is None and "knows more than is linear" in " ".join(probe_sentences(more))
    assert "of which there are 3 here" in " ".join(probe_sentences(more))
    assert "not read the question" not in " ".join(probe_sentences(arm)), "one wording"


def test_an_answer_that_stands_among_none_to_learn_from_is_read_nowhere() -> None:
    """Of held-out questions with another label each probe says one of those that it has learnt, and
    is wrong."""
    known, states = labels(200), dict.fromkeys(PLACES, np.ones(4, np.float32))
    questions = [
        Question(
            f"q{n}",
            f"picture {n}",
            "new" if is_held_out(f"picture {n}", 0.4) else str(label),
            "?",
            0.0,
            (),
        )
        for n, label in enumerate(known)
    ]
    arm = probe_arm("m", "t", questions, [states] * len(questions), 0.4)
    assert not arm.layers[0].right.any() and not arm.layers[0].shuffled and not arm.commonest.any()


def test_what_nobody_read_is_not_lost() -> None:
    arm = planted(labels(), (0, 0, 0, 0))
    wrong = ArmProbe(
        "m", "t", arm.layers, 0 * arm.answered, arm.commonest, arm.clusters, arm.trained, 1
    )
    assert (
        wrong.gap.p < 0.001
        and wrong.loss is None
        and "Nothing is found" in " ".join(probe_sentences(wrong))
    )


def test_pictures_do_not_stand_on_both_sides() -> None:
    """A layer tells the pictures apart and nothing else: who has learnt a picture's answer would
    know it again."""
    random = np.random.default_rng(2)
    pictures, answers = np.repeat(np.arange(100), 6), random.integers(0, KINDS, 100)
    vectors = random.normal(size=(100, 200)).astype(np.float32)
    questions = [
        Question(f"q{n}", f"picture {picture}", str(answers[picture]), "how many?", 0.0, ())
        for n, picture in enumerate(pictures)
    ]
    arm = probe_arm("m", "t", questions, [{PLACES[0]: vectors[each]} for each in pictures], 0.4)
    (probe,) = arm.layers
    assert probe.right.mean() < 0.45 and probe.inner < 0.45
    assert len(arm.answered) == 6 * len(set(arm.clusters)) and arm.trained == 600 - len(
        arm.answered
    )


def test_the_penalty_is_chosen_by_the_training_part_alone() -> None:
    """What a probe says of a question does not hang on the other held-out ones."""
    random, known = np.random.default_rng(3), labels(300)
    vectors = random.normal(size=(300, 190)) + 1.5 * np.eye(KINDS, 190)[known]
    names, free = list(range(200)), np.ones((300, KINDS), bool)
    whole = fit_probe(vectors[:200], known[:200], names, vectors[200:], free[:200], free[200:])
    part = fit_probe(vectors[:200], known[:200], names, vectors[250:], free[:200], free[250:])
    assert (whole.said[50:] == part.said).all() and (whole.shuffled[:, 50:] == part.shuffled).all()
    assert whole.inner > 0.42  # the best penalty of this grid; the worst gives 0.29
    alike = fit_probe(
        np.ones((20, 3)), known[:20], names[:20], np.ones((5, 3)), free[:20], free[:5]
    )
    assert (alike.said == np.bincount(known[:20]).argmax()).all()


def test_of_offered_choices_a_probe_says_one() -> None:
    """As the model does: with two choices, one of which is right, what reads nothing is right on
    half of them."""
    known, random = labels(), np.random.default_rng(4)
    questions = []
    for n, label in enumerate(known):
        other = (label + random.integers(1, KINDS)) % KINDS
        questions.append(
            Question(
                f"q{n}", f"picture {n}", str(label), "how many?", 0.0, (), (str(label), str(other))
            )
        )
    states = [{PLACES[0]: random.normal(size=8).astype(np.float32)} for _ in known]
    arm = probe_arm("m", "t", questions, states, 0.4)
    assert arm.layers[0].right.mean() == pytest.approx(0.5, abs=0.08)
    assert arm.layers[0].shuffled == pytest.approx(0.5, abs=0.04)
    assert arm.commonest.mean() == pytest.approx(0.5, abs=0.08)


@pytest.mark.usefixtures("states_once")
def test_the_questions_are_those_of_the_models_answers(run: Path) -> None:
    scored = score_run(RunFolder(run))
    (arm,) = probe_run(scored).arms
    (scores,) = scored.points
    out = [name for name in scores.samples if is_held_out(scores.clusters[name], 0.4)]
    assert sorted(arm.answered) == sorted(
        scores.comparable[name] for name in out
    ) and arm.trained == 120 - len(out)
    asked = questions_of(scored)[scores.point.id]
    assert {question.sample for question in asked} == set(scores.samples) and all(
        len(q.sent) == 1 for q in asked
    )


def test_the_right_choice_counts_by_its_text() -> None:
    sample = {
        "id": "s",
        "question": "?",
        "images": [],
        "choices": ["Circle", "two  Stars"],
        "marks": [],
        "meta": {},
    }
    row = SampleRow("t", "sha", "B", sample)
    assert true_answer(row) == "two stars" and choice_texts(row) == ("circle", "two stars")
    assert true_answer(SampleRow("t", "sha", " 7 ", {**sample, "choices": []})) == "7"
    assert (
        true_answer(
            SampleRow("t", "sha", "B", {**sample, "choices": [{"picture": "1"}, {"picture": "2"}]})
        )
        == "b"
    )


def test_the_request_is_the_last_that_the_arms_own_model_answered(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "run")
    run.task("t", ["A", "B", "A", None, "A"])
    point = run.point("model", "t")

    def call(words: str, reply: bool = True, **more: Any) -> dict[str, Any]:
        sha = run.blobs.put(canonical({"role": "user", "parts": [words]}).encode())
        return {
            "messages": [sha],
            "draw": 0,
            **({"reply": {"text": "(A)"}} if reply else {"error": "gone"}),
            **more,
        }

    looked = (
        call("look with a tool", options={"tools": []}),
        call("say it", options={"tools": [{"name": "zoom"}]}),
    )
    lost = call("lost", reply=False)
    run.record(
        point,
        "s0",
        calls=(call("first"), lost, call("second"), lost, call("judge", model="another")),
    )
    run.record(point, "s1", calls=looked)
    run.record(point, "s2", calls=(call("judge", model="another"),), answer="A")
    run.record(point, "s3", calls=(call("no key"),))
    run.record(point, "s4", calls=(call("failed"),), error="ValueError: ")
    run.record(point, "s0", calls=(call("second draw"),), draw=1)
    folder = run.write()
    (asked,) = questions_of(score_run(folder)).values()
    assert [
        (each.sample, StoredMessage(folder.blobs, each.sent[0]).text, each.right) for each in asked
    ] == [("s0", "second", 1.0), ("s1", "look with a tool", 0.0)]


def test_a_label_planted_in_a_network_is_found_from_its_layer_on(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    keys = tuple(np.random.default_rng(0).choice(["one", "two", "three"], 75).tolist())
    model = LocalVLM(str(tiny_networks.llava(tmp_path / "llava")), max_tokens=2)
    evaluate(
        Questions(keys, 0),
        {"tiny": Ask()},
        model,
        out=tmp_path / "run",
        reader=WholeReply(),
        workers=1,
    )
    scored, layers = (
        score_run(RunFolder(tmp_path / "run")),
        model.network().model.model.language_model.layers,
    )
    (asked,) = questions_of(scored).values()
    order = iter([("one", "two", "three").index(question.label) for question in asked])

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
    assert arm.loss == Loss("decoder 2, last token", "the words of the answer")


@pytest.mark.usefixtures("states_once")
def test_the_command_writes_a_page(run: Path, tmp_path: Path) -> None:
    done = run_probe(run)
    assert done.exit_code == 0 and "of 59 held-out questions" in done.output, done.output
    page = (run / "probes.md").read_text(encoding="utf-8")
    assert page.count("| tower ") == 6 and page.count("last token |") == 5
    assert run_probe(run, "--out", run / "records.jsonl").exit_code == 2
    limited = run_probe(run, "--limit", 80, "--out", tmp_path / "other.md")
    assert (
        limited.exit_code == 0
        and "of 43 held-out" not in limited.output
        and (tmp_path / "other.md").exists()
    )


@pytest.mark.usefixtures("states_once")
def test_a_run_that_was_killed_is_probed_as_far_as_it_goes(run: Path) -> None:
    lines = (run / "records.jsonl").read_bytes().splitlines(keepends=True)
    (run / "records.jsonl").write_bytes(b"".join(lines[:90]) + lines[90][:100])
    (run / "run.yaml").unlink()
    assert run_probe(run).exit_code == 0
    (run / "records.jsonl").write_bytes(b"".join(lines[:10]))
    few = run_probe(run)
    assert (
        few.exit_code == 2
        and "10 of its questions were answered" in few.output
        and "finish the run" in few.output
    )
    (run / "records.jsonl").unlink()
    assert run_probe(run).exit_code == 2


def test_a_run_whose_pictures_are_gone_says_so(run: Path) -> None:
    for record in RunFolder(run).last_records():
        for sha in record.pictures:
            RunFolder(run).blobs.path(sha).unlink(missing_ok=True)
    gone = run_probe(run)
    assert gone.exit_code == 2 and "a run needs the pictures in its blobs/" in gone.output, (
        gone.output
    )
    shutil.rmtree(run / "blobs")
    assert "message" in run_probe(run).output


def test_what_cannot_be_probed_says_why(tmp_path: Path) -> None:
    keys = tuple("AB"[n % 2] for n in range(60))
    stages = {"scripted": Pipeline({"ask": Ask()})}
    evaluate(
        Questions(keys),
        stages | {"again": Pipeline({"ask": Ask(images="after")})},
        Scripted("(A)"),
        out=tmp_path / "run",
    )
    told = run_probe(tmp_path / "run")
    assert (
        told.exit_code == 2 and "has no arm to probe; `looktwice run probes` makes" in told.output
    )
    assert re.search(r"not probed: scripted on \w+; again on \w+ \(", told.output), told.output
    evaluate(
        Questions(tuple(str(n) for n in range(60)), 0),
        stages,
        Pocket(),
        out=tmp_path / "open",
        workers=1,
    )
    assert "different answers; a probe needs 2 or more" in run_probe(tmp_path / "open").output
