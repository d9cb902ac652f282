"""Probes of the arms of a run, place by place, beside the model's own answers on the same held-out
questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from looktwice.eval.probes.linear import FOLDS, Floats, fit_probe
from looktwice.eval.probes.questions import Question, is_held_out, questions_of
from looktwice.eval.records.records import RunError, StoredMessage
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import compare_paired, holm
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.model import Model, ModelError
from looktwice.pipelines.models.internals.layers import Layer, States
from looktwice.pipelines.models.internals.read import read_states
from looktwice.pipelines.picture import PictureError

FEWEST = 2 * FOLDS  # clusters on either side
EACH = 5  # questions to learn from for each different answer
LEVEL = 0.05
ORDER = ("tower", "projector", "decoder, image tokens", "decoder, last token")
ANSWER = "the words of the answer"


@dataclass(frozen=True, eq=False)
class LayerProbe:
    """What was read in one layer: whether right on each held-out question, and how often with
    shuffled labels.

    `inner` is the accuracy by cross-validation within the training part, by which layers are
    chosen.
    """

    layer: Layer
    inner: float
    right: Floats
    shuffled: float


class Loss(NamedTuple):
    """The places between which the answer is lost: the last in which it is read, and the first with
    less of it."""

    last: str
    first: str


@dataclass(frozen=True, eq=False)
class ArmProbe:
    """The probes of one arm; all values are of the same held-out questions, in one order.

    `answered` says whether the model was right, `commonest` whether the commonest answer of the
    training part is; `trained` counts the questions learnt from, `wordings` the different
    questions.
    """

    contestant: str
    task: str
    layers: Sequence[LayerProbe]
    answered: Floats
    commonest: Floats
    clusters: Sequence[str]
    trained: int
    wordings: int

    def compare(self, right: Floats, baseline: Floats) -> Estimate:
        """The paired difference on the same questions, tested by clusters."""
        return compare_paired(right, baseline, self.clusters)

    @cached_property
    def best(self) -> Mapping[str, LayerProbe]:
        """By place, in the order in which the model comes there, the layer that is best in the
        training part."""
        best = {}
        for place in ORDER:
            if probes := [probe for probe in self.layers if probe.layer.place == place]:
                best[place] = max(probes, key=lambda probe: probe.inner)
        return best

    @cached_property
    def peak(self) -> LayerProbe:
        """The layer in which most is read, chosen in the training part."""
        return max(self.best.values(), key=lambda probe: probe.inner)

    @cached_property
    def gap(self) -> Estimate:
        """The model's answers against what is read at the peak."""
        return self.compare(self.answered, self.peak.right)

    @cached_property
    def is_found(self) -> bool:
        """Whether at the peak more is read than the commonest answer gives."""
        test = self.compare(self.peak.right, self.commonest)
        return test.p <= LEVEL and test.value > 0

    @cached_property
    def loss(self) -> Loss | None:
        """Where the answer is lost; None where the model says as much as is read anywhere, or
        nothing is read.

        Behind the peak, the first place in which less is read (Holm over these) has lost it, else
        the words have.
        """
        if not self.is_found or self.gap.p > LEVEL or self.gap.value >= 0:
            return None
        places = list(self.best.values())
        later = places[places.index(self.peak) + 1 :]
        tests = [self.compare(probe.right, self.peak.right) for probe in later]
        before = self.peak
        for probe, test, p in zip(later, tests, holm([test.p for test in tests]), strict=True):
            if p <= LEVEL and test.value < 0:
                return Loss(str(before.layer), str(probe.layer))
            before = probe
        return Loss(str(before.layer), ANSWER)


class ProbedRun(NamedTuple):
    """The probes of a run's arms, and why the others have none, by contestant and task."""

    arms: Sequence[ArmProbe]
    left_out: Mapping[str, str]


def probe_run(
    run: RunScores,
    plugins: Sequence[str] = (),
    held_out: float = 0.4,
    limit: int | None = None,
    tell: Callable[[str], None] = lambda said: None,
) -> ProbedRun:
    """Probe every arm whose model shows its layers, on at most `limit` questions of each; `tell`
    hears of each arm.

    Raises RunError where what was sent is gone.
    """
    asked, binder = questions_of(run), Binder(Scope.of_records(run.folder.path, plugins))
    arms, left_out = list[ArmProbe](), dict[str, str]()
    for scores in run.points:
        name, questions = f"{scores.contestant} on {scores.task}", asked[scores.point.id][:limit]
        try:
            model = _model_of(scores, binder)
            if why := _too_few(questions, held_out):
                raise ModelError(why)
            tell(f"{name}: reading the layers over {len(questions)} questions")
            blobs = run.folder.blobs
            states = [
                read_states(model, [StoredMessage(blobs, sha) for sha in q.sent]) for q in questions
            ]
        except ModelError as exc:
            left_out[name] = str(exc)
        except PictureError as exc:
            raise RunError(
                f"{run.folder.path}: {exc}; a probe shows the model again what was sent, so a run"
                " needs the pictures in its blobs/: copy them back, or run the configuration again"
            ) from exc
        else:
            arms.append(probe_arm(scores.contestant, scores.task, questions, states, held_out))
    return ProbedRun(arms, left_out)


def probe_arm(
    contestant: str,
    task: str,
    questions: Sequence[Question],
    states: Sequence[States],
    held_out: float,
) -> ArmProbe:
    """The probes of one arm from the states of its questions; layers that some question lacks are
    left out."""
    out = np.array([is_held_out(question.cluster, held_out) for question in questions])
    trained_labels = dict.fromkeys(
        question.label for question, is_held in zip(questions, out, strict=True) if not is_held
    )
    code = {label: number for number, label in enumerate(trained_labels)}
    labels = np.array([code.get(question.label, -1) for question in questions])
    allowed = np.array([[not q.offered or label in q.offered for label in code] for q in questions])
    allowed[~allowed.any(1)] = True
    clusters = [question.cluster for question in questions]
    trained = [cluster for cluster, is_held in zip(clusters, out, strict=True) if not is_held]
    layers = []
    for layer in (name for name in states[0] if all(name in state for state in states)):
        vectors = np.stack([state[layer] for state in states]).astype(float)
        probed = fit_probe(
            vectors[~out], labels[~out], trained, vectors[out], allowed[~out], allowed[out]
        )
        shuffled = float(np.mean(probed.shuffled == labels[out]))
        layers.append(
            LayerProbe(layer, probed.inner, (probed.said == labels[out]).astype(float), shuffled)
        )
    common = (np.bincount(labels[~out]) * allowed[out]).argmax(1)
    answered = np.array([question.right for question in questions], float)[out]
    return ArmProbe(
        contestant,
        task,
        layers,
        answered,
        (labels[out] == common).astype(float),
        [cluster for cluster, is_held in zip(clusters, out, strict=True) if is_held],
        len(trained),
        len({question.words for question in questions}),
    )


def _model_of(scores: PointScores, binder: Binder) -> Model:
    """The arm's model as points.yaml describes it. Raises ModelError where there is none."""
    node: Any = scores.point.spec.get("model")
    if not node or not scores.all:
        raise ModelError("no model was asked")
    binder.faults.clear()
    model: Model | None = binder.node(node, "model")
    if model is None:
        raise ModelError(f"its model cannot be built again: {'; '.join(map(str, binder.faults))}")
    return model


def _too_few(questions: Sequence[Question], held_out: float) -> str:
    """Why so many questions and different answers cannot be probed; empty where they can."""
    out = [is_held_out(question.cluster, held_out) for question in questions]
    sides = [
        {q.cluster for q, held in zip(questions, out, strict=True) if held is side}
        for side in (False, True)
    ]
    labels = {question.label for question in questions}
    learnt = out.count(False)
    if min(map(len, sides)) < FEWEST:
        return (
            f"{len(questions)} of its questions were answered, over {len(sides[0])} different"
            f" pictures to learn from and {len(sides[1])} held out; a probe needs {FEWEST} of each"
            " and does well with hundreds: ask more, or finish the run"
        )
    if not 1 < len(labels) <= learnt / EACH:
        return (
            f"its {learnt} questions to learn from have {len(labels)} different answers; a probe"
            f" needs 2 or more, and {EACH} questions for each"
        )
    return ""
