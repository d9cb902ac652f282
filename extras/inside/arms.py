"""Probes of the layers behind each arm of a run, compared with the model's own answers to the same
held-out questions. A question holds the messages that were sent, the correct answer, and whether
the model was right."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

import numpy as np

from looktwice.eval.analysis.requested import AnalysisOnRequest, AnalysisRequest
from looktwice.eval.display.text_tables import TextTable, estimate_cell, format_p, percent
from looktwice.eval.records.records import Record, RunError, SampleRow, StoredMessage
from looktwice.eval.scoring.verdict import RunScores, Verdict
from looktwice.eval.statistics.intervals import Estimate, Floats, bootstrap_mean
from looktwice.eval.statistics.paired import compare_paired, holm
from looktwice.extras.inside.internals import Layer, States, read_states
from looktwice.extras.inside.linear import FOLD_COUNT, SHUFFLE_COUNT, fit_probe
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.picture import PictureError

MIN_CLUSTERS = 2 * FOLD_COUNT  # minimum clusters in the training and in the held-out part
MIN_QUESTIONS_PER_ANSWER = 5  # minimum training questions for each different answer
SIGNIFICANCE_LEVEL = 0.05
PLACE_ORDER = ("tower", "projector", "decoder, image tokens", "decoder, last token")
ANSWER_PLACE = "the reply"
PROBE_NOTE = (
    "Right: accuracy on held-out questions, with the 95 % interval of a cluster bootstrap."
    f" Shuffled: mean accuracy of {SHUFFLE_COUNT} probes trained on shuffled labels. Against"
    " the model:"
    " the paired difference from the model's own answers to the same questions, with p corrected"
    " over an arm's layers (Holm)."
)


class Question(NamedTuple):
    """A question that a run asked: `label` is the text of the correct answer, `text` the text of
    the question.

    `choice_texts` is empty for an open question. Questions of one `cluster` share a picture or a
    group. `message_digests` holds the sha256 of each message that was sent, because loaded messages
    would hold all pixels. `right` is the score of the model's own answer.
    """

    sample: str
    cluster: str
    label: str
    text: str
    right: float
    message_digests: Sequence[str]
    choice_texts: Sequence[str] = ()


def collect_questions(run: RunScores) -> Mapping[str, Sequence[Question]]:
    """Return the questions of every arm by the id of its point, in the order of their records.

    Only the first draw counts. Samples without a correct answer are left out, and so are failures
    and samples that the arm's own model did not answer in a request without tools.
    """
    by_arm: dict[str, dict[str, Question]] = {scores.point.id: {} for scores in run.points}
    for scores, record in run.records():
        row, scored = scores.samples.get(record.sample), scores.result_of(record)
        sent = _find_answered_messages(record)
        if row is None or row.answer is None or scored is None or sent is None or record.draw > 0:
            continue
        if scored.verdict is not Verdict.FAILED:
            by_arm[scores.point.id][record.sample] = Question(
                record.sample,
                scores.clusters[record.sample],
                get_true_answer(row),
                row.sample["question"],
                scored.score.value,
                sent,
                list_choice_texts(row),
            )
    return {name: list(questions.values()) for name, questions in by_arm.items()}


def list_choice_texts(row: SampleRow) -> tuple[str, ...]:
    """Return the normalized texts of a question's choices; empty if there are no choices, or if
    some are pictures."""
    choices = row.sample["choices"]
    return (
        tuple(map(_normalize_text, choices))
        if all(isinstance(choice, str) for choice in choices)
        else ()
    )


def get_true_answer(row: SampleRow) -> str:
    """Return the text of the correct choice, so that its position does not matter; if the choices
    have no texts, return the correct answer that the sample gives."""
    key, texts = (row.answer or "").strip(), list_choice_texts(row)
    number = ord(key) - ord("A") if len(key) == 1 else -1
    return texts[number] if 0 <= number < len(texts) else _normalize_text(key)


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split())


def is_held_out(cluster: str, share: float) -> bool:
    """Return whether a cluster belongs to the held-out share, which is the same in every arm and
    run."""
    drawn = int.from_bytes(hashlib.sha256(f"held out\n{cluster}".encode()).digest()[:8])
    return drawn < share * 2**64


def _find_answered_messages(record: Record) -> Sequence[str] | None:
    """Return the messages of the last request that the arm's own model answered with text."""
    for call in reversed(record.calls):
        offers_tools = (call.get("options") or {}).get("tools")
        if call.get("reply") and not call.get("model") and not offers_tools:
            return tuple(call["messages"])
    return None


@dataclass(frozen=True, eq=False)
class LayerProbe:
    """The result of probing one layer: whether the probe is right on each held-out question, and
    its accuracy with shuffled labels.

    `training_accuracy` is the accuracy by cross-validation within the training questions; layers
    are chosen by it.
    """

    layer: Layer
    training_accuracy: float
    right: Floats
    shuffled_accuracy: float


class AnswerLoss(NamedTuple):
    """The two places between which the answer is lost: the last one at which a probe still finds
    it, and the first one at which a probe finds it significantly less often."""

    last_found: str
    first_lost: str


@dataclass(frozen=True, eq=False)
class ArmProbe:
    """The probes of one arm; all arrays cover the same held-out questions, in the same order.

    `model_right` is 1 where the model was right, `majority_right` where the most common answer
    among the training questions is right; `training_count` is the number of training questions,
    `wording_count` the number of different question texts.
    """

    contestant: str
    task: str
    layers: Sequence[LayerProbe]
    model_right: Floats
    majority_right: Floats
    clusters: Sequence[str]
    training_count: int
    wording_count: int

    def compare(self, right: Floats, baseline: Floats) -> Estimate:
        """Return the mean difference of `right` from `baseline` on the same questions, tested by
        clusters."""
        return compare_paired(right, baseline, self.clusters)

    @cached_property
    def best_layers(self) -> Mapping[str, LayerProbe]:
        """The best layer for each part and pooling by accuracy within the training questions, in
        the order in which the model computes them."""
        best: dict[str, LayerProbe] = {}
        for probe in sorted(self.layers, key=lambda probe: PLACE_ORDER.index(probe.layer.place)):
            rival = best.setdefault(probe.layer.place, probe)
            best[probe.layer.place] = (
                probe if probe.training_accuracy > rival.training_accuracy else rival
            )
        return best

    @cached_property
    def best_layer(self) -> LayerProbe:
        """The layer with the highest accuracy within the training questions."""
        return max(self.best_layers.values(), key=lambda probe: probe.training_accuracy)

    @cached_property
    def accuracy_gap(self) -> Estimate:
        """The difference between the accuracy of the model and that of the best layer's probe."""
        return self.compare(self.model_right, self.best_layer.right)

    @cached_property
    def is_found(self) -> bool:
        """True if the best layer's probe is significantly better than the most common answer."""
        test = self.compare(self.best_layer.right, self.majority_right)
        return test.p <= SIGNIFICANCE_LEVEL and test.value > 0

    @cached_property
    def loss(self) -> AnswerLoss | None:
        """The place at which the answer is lost; None if the model answers as well as the best
        probe, or no probe finds the answer.

        The answer is lost at the first place after the best layer whose probe is significantly
        worse (Holm over these places), otherwise between the last place and the model's reply.
        """
        if (
            not self.is_found
            or self.accuracy_gap.p > SIGNIFICANCE_LEVEL
            or self.accuracy_gap.value >= 0
        ):
            return None
        places = list(self.best_layers.values())
        later = places[places.index(self.best_layer) + 1 :]
        tests = [self.compare(probe.right, self.best_layer.right) for probe in later]
        before = self.best_layer
        for probe, test, p in zip(later, tests, holm([test.p for test in tests]), strict=True):
            if p <= SIGNIFICANCE_LEVEL and test.value < 0:
                return AnswerLoss(str(before.layer), str(probe.layer))
            before = probe
        return AnswerLoss(str(before.layer), ANSWER_PLACE)


class ProbedRun(NamedTuple):
    """The probes of a run's arms, and the reasons why other arms have no probe, by contestant and
    task."""

    arms: Sequence[ArmProbe]
    missing_reasons: Mapping[str, str]


def probe_run(
    run: RunScores,
    plugins: Sequence[str] = (),
    held_out: float = 0.4,
    limit: int | None = None,
    tell: Callable[[str], None] = lambda said: None,
) -> ProbedRun:
    """Probe every arm whose model gives access to its layers, on at most `limit` questions each;
    `tell` reports each arm.

    Raises RunError if the pictures that were sent are missing.
    """
    asked, binder = collect_questions(run), Binder.for_run(run.folder.path, plugins)
    arms, missing_reasons = list[ArmProbe](), dict[str, str]()
    for scores in run.points:
        name, questions = f"{scores.contestant} on {scores.task}", asked[scores.point.id][:limit]
        node = scores.point.spec.get("model")
        binder.faults.clear()
        model = binder.build_node(node, "model") if node and len(scores.columns) else None
        if binder.faults:
            faults = "; ".join(map(str, binder.faults))
            missing_reasons[name] = f"its model cannot be rebuilt: {faults}"
            continue
        why = "no model was asked" if model is None else _explain_too_few(questions, held_out)
        if model is None or why:
            missing_reasons[name] = why
            continue
        tell(f"{name}: reading the layers on {len(questions)} questions")
        states = list[States]()
        try:
            for question in questions:
                sent = [StoredMessage(run.folder.blobs, sha) for sha in question.message_digests]
                states.append(read_states(model, sent))
        except ModelError as exc:
            missing_reasons[name] = str(exc)
        except PictureError as exc:
            raise RunError(
                f"{run.folder.path}: {exc}; a probe sends the model the same pictures again, from"
                " the run's blobs/: copy them back, or run the study again"
            ) from exc
        else:
            arms.append(probe_arm(scores.contestant, scores.task, questions, states, held_out))
    return ProbedRun(arms, missing_reasons)


def probe_arm(
    contestant: str,
    task: str,
    questions: Sequence[Question],
    states: Sequence[States],
    held_out: float,
) -> ArmProbe:
    """Probe one arm, given the layers' states for each of its questions; a layer without a state
    for every question is left out."""
    out = np.array([is_held_out(question.cluster, held_out) for question in questions])
    learnt, tried = (list(compress(questions, side)) for side in (~out, out))
    code = {label: n for n, label in enumerate(dict.fromkeys(q.label for q in learnt))}
    labels = np.array([code.get(question.label, -1) for question in questions])
    allowed = np.array([[label in (q.choice_texts or code) for label in code] for q in questions])
    allowed[~allowed.any(1)] = True
    clusters = [question.cluster for question in learnt]
    layers = []
    for layer in states[0]:
        if any(layer not in state for state in states):
            continue
        vectors = np.stack([state[layer] for state in states]).astype(float)
        probed = fit_probe(
            vectors[~out], labels[~out], clusters, vectors[out], allowed[~out], allowed[out]
        )
        right = (probed.predictions == labels[out]).astype(float)
        shuffled = float(np.mean(probed.shuffled_predictions == labels[out]))
        layers.append(LayerProbe(layer, probed.training_accuracy, right, shuffled))
    common = (np.bincount(labels[~out]) * allowed[out]).argmax(1)
    return ArmProbe(
        contestant,
        task,
        layers,
        np.array([question.right for question in tried], float),
        (labels[out] == common).astype(float),
        [question.cluster for question in tried],
        len(learnt),
        len({question.text for question in questions}),
    )


def _explain_too_few(questions: Sequence[Question], held_out: float) -> str:
    """Return the reason why a probe cannot be trained, if there are too few questions or too few
    with each answer; empty if there are enough."""
    kept = Counter(question.cluster for question in questions)
    out = [kept.pop(cluster) for cluster in [*kept] if is_held_out(cluster, held_out)]
    labels, learnt = set(map(attrgetter("label"), questions)), kept.total()
    if min(len(out), len(kept)) < MIN_CLUSTERS:
        return (
            f"{len(questions)} of its questions were answered, on {len(kept)} different"
            f" pictures for training and {len(out)} held out; a probe needs {MIN_CLUSTERS} of each,"
            " and preferably hundreds; ask more questions, or finish the run"
        )
    if not 1 < len(labels) <= learnt / MIN_QUESTIONS_PER_ANSWER:
        return (
            f"its {learnt} training questions have {len(labels)} different answers; a probe"
            f" needs 2 or more, and {MIN_QUESTIONS_PER_ANSWER} questions for each"
        )
    return ""


# ---- results as sentences, as a table, and as a page


def build_probe_table(probed: ProbedRun, whole: bool = True) -> TextTable:
    """Return a table with a line for every layer or, unless `whole`, for the best layer of each
    place, and with lines for the model's own answer and the most common answer."""
    header = ("contestant", "task", "read in", "right %", "shuffled %", "against the model", "p")
    rows: list[tuple[str, ...]] = []
    for arm in probed.arms:
        gaps = [arm.compare(probe.right, arm.model_right) for probe in arm.layers]
        shown = arm.layers if whole else arm.best_layers.values()
        lines = {
            probe: (percent(probe.shuffled_accuracy), estimate_cell(gap, sign=True), format_p(p))
            for probe, gap, p in zip(arm.layers, gaps, holm([gap.p for gap in gaps]), strict=True)
        }
        answers = [(str(probe.layer), probe.right, lines[probe]) for probe in shown]
        answers.append(("the model", arm.model_right, ("", "", "")))
        answers.append(("most common", arm.majority_right, ("", "", "")))
        for name, right, cells in answers:
            share = estimate_cell(bootstrap_mean(right, arm.clusters))
            rows.append((arm.contestant, arm.task, name, share, *cells))
    return TextTable(header, rows, text_column_count=3)


def describe_probe(arm: ArmProbe) -> list[str]:
    """Describe in sentences how accurate an arm's probes and its model are, and where the answer is
    lost."""
    read = ", ".join(
        f"{percent(fmean(probe.right))} % in {probe.layer}" for probe in arm.best_layers.values()
    )
    sentences = [
        f"{arm.contestant} on {arm.task}: on {len(arm.model_right)} held-out questions, a linear"
        f" probe is right on {read}; the model itself is right on"
        f" {percent(fmean(arm.model_right))} %, and the most common answer on"
        f" {percent(fmean(arm.majority_right))} %."
    ]
    low, high = (percent(end, sign=True) for end in (arm.accuracy_gap.low, arm.accuracy_gap.high))
    p = format_p(arm.accuracy_gap.p)
    p = p.replace("<", "< ") if p.startswith("<") else f"= {p}"
    beside = (
        f"the model differs from the probe of {arm.best_layer.layer} by"
        f" {percent(arm.accuracy_gap.value, sign=True)} points [{low}, {high}], p {p}"
    )
    if not arm.is_found:
        sentences.append(
            f"No answer is found: the best probe, in {arm.best_layer.layer}, is not significantly"
            " better than the most common answer."
        )
    elif arm.loss:
        lost = f"The answer is lost between {arm.loss.last_found} and {arm.loss.first_lost}"
        sentences.append(f"{lost}: {beside}.")
    elif arm.accuracy_gap.p <= SIGNIFICANCE_LEVEL:
        sentences.append(
            f"The model uses more than a linear probe can read from one vector: {beside}."
        )
    else:
        sentences.append(f"No loss is found: {beside}.")
    if arm.wording_count > 1 and "tower" in arm.best_layers:
        sentences.append(
            "The tower and the projector do not receive the question, and there are"
            f" {arm.wording_count} different questions: probes may fail there only because the"
            " question is missing."
        )
    return sentences


def format_probe_page(run: RunScores, probed: ProbedRun) -> str:
    """Return the results of all arms as Markdown."""
    parts = [f"# Layer probes of {run.name}"]
    parts += [" ".join(describe_probe(arm)) for arm in probed.arms]
    parts += ["## Layers", PROBE_NOTE, build_probe_table(probed).markdown]
    if probed.missing_reasons:
        reasons = "\n".join(f"- {name}: {why}" for name, why in probed.missing_reasons.items())
        parts += ["## Not probed", reasons]
    return "\n\n".join(parts) + "\n"


def show_probes(asked: AnalysisRequest) -> None:
    """Show where in a model the answer is lost, with linear probes of every layer on at most
    `limit` questions of each arm; a share `held_out` of the pictures is kept for testing."""
    page, share = asked.get_page_path("probes.md"), asked.settings.get("held_out", 0.4)
    if not isinstance(share, float) or not 0.1 <= share <= 0.9:
        raise RunError(f"held_out must be a share from 0.1 to 0.9, got {share}")
    limit, tell = asked.settings.get("limit"), partial(print, file=sys.stderr)
    if not isinstance(limit, int | None):
        raise RunError(f"limit must be a number of questions, got {limit!r}")
    probed = probe_run(asked.run, asked.plugins, share, limit, tell)
    for why in dict.fromkeys(probed.missing_reasons.values()):
        names = "; ".join(name for name, reason in probed.missing_reasons.items() if reason == why)
        asked.say(f"not probed: {names} ({why})")
    if not probed.arms:
        raise RunError(
            f"{asked.run.folder.path} has no arm to probe; `looktwice run probes` makes a run with"
            " one"
        )
    asked.show(build_probe_table(probed, whole=False), "read in the layers", PROBE_NOTE)
    for arm in probed.arms:
        asked.say(" ".join(describe_probe(arm)))
    write_file(page, format_probe_page(asked.run, probed))
    asked.say(f"probes: {page}")


PROBE_ANALYSIS = AnalysisOnRequest(
    "Where in a model the answer is lost", ("held_out", "limit"), show_probes
)
