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

    `offered` are the texts of the choices, empty for an open question. Questions of one `cluster`
    share a picture or a group. `sent` holds the sha256 of each message, because loaded messages
    would hold all pixels.
    """

    sample: str
    cluster: str
    label: str
    text: str
    right: float
    sent: Sequence[str]
    offered: Sequence[str] = ()


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
    have no texts, return the correct answer as the sample has it."""
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
    """The result of probing one layer: whether each held-out question is right, and the accuracy
    with shuffled labels.

    `inner` is the accuracy by cross-validation within the training questions; layers are chosen by
    it.
    """

    layer: Layer
    inner: float
    right: Floats
    shuffled: float


class AnswerLoss(NamedTuple):
    """The two places between which the answer is lost: the `last` place at which a probe still
    finds it, and the `first` place at which a probe finds it significantly less often."""

    last: str
    first: str


@dataclass(frozen=True, eq=False)
class ArmProbe:
    """The probes of one arm; all arrays cover the same held-out questions, in the same order.

    `model_right` is 1 where the model was right, `majority_right` where the most common answer
    among the training questions is right; `trained` is the number of training questions, `wordings`
    the number of different question texts.
    """

    contestant: str
    task: str
    layers: Sequence[LayerProbe]
    model_right: Floats
    majority_right: Floats
    clusters: Sequence[str]
    trained: int
    wordings: int

    def compare(self, right: Floats, baseline: Floats) -> Estimate:
        """Return the mean difference of `right` from `baseline` on the same questions, tested by
        clusters."""
        return compare_paired(right, baseline, self.clusters)

    @cached_property
    def best(self) -> Mapping[str, LayerProbe]:
        """The best layer of each place by accuracy within the training questions, in the order in
        which the model computes the places."""
        best: dict[str, LayerProbe] = {}
        for probe in sorted(self.layers, key=lambda probe: PLACE_ORDER.index(probe.layer.place)):
            rival = best.setdefault(probe.layer.place, probe)
            best[probe.layer.place] = probe if probe.inner > rival.inner else rival
        return best

    @cached_property
    def peak(self) -> LayerProbe:
        """The layer with the highest accuracy within the training questions."""
        return max(self.best.values(), key=lambda probe: probe.inner)

    @cached_property
    def gap(self) -> Estimate:
        """The difference between the accuracy of the model and that of the probe at the peak."""
        return self.compare(self.model_right, self.peak.right)

    @cached_property
    def is_found(self) -> bool:
        """True if the probe at the peak is significantly better than the most common answer."""
        test = self.compare(self.peak.right, self.majority_right)
        return test.p <= SIGNIFICANCE_LEVEL and test.value > 0

    @cached_property
    def loss(self) -> AnswerLoss | None:
        """The place at which the answer is lost; None if the model answers as well as the best
        probe, or no probe finds the answer.

        The answer is lost at the first place after the peak whose probe is significantly worse
        (Holm over these places), otherwise between the last place and the model's reply.
        """
        if not self.is_found or self.gap.p > SIGNIFICANCE_LEVEL or self.gap.value >= 0:
            return None
        places = list(self.best.values())
        later = places[places.index(self.peak) + 1 :]
        tests = [self.compare(probe.right, self.peak.right) for probe in later]
        before = self.peak
        for probe, test, p in zip(later, tests, holm([test.p for test in tests]), strict=True):
            if p <= SIGNIFICANCE_LEVEL and test.value < 0:
                return AnswerLoss(str(before.layer), str(probe.layer))
            before = probe
        return AnswerLoss(str(before.layer), ANSWER_PLACE)


class ProbedRun(NamedTuple):
    """The probes of a run's arms, and the reasons why other arms have no probe, by contestant and
    task."""

    arms: Sequence[ArmProbe]
    left_out: Mapping[str, str]


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
    arms, left_out = list[ArmProbe](), dict[str, str]()
    for scores in run.points:
        name, questions = f"{scores.contestant} on {scores.task}", asked[scores.point.id][:limit]
        node = scores.point.spec.get("model")
        binder.faults.clear()
        model = binder.build_node(node, "model") if node and len(scores.columns) else None
        if binder.faults:
            faults = "; ".join(map(str, binder.faults))
            left_out[name] = f"its model cannot be rebuilt: {faults}"
            continue
        why = "no model was asked" if model is None else _explain_too_few(questions, held_out)
        if model is None or why:
            left_out[name] = why
            continue
        tell(f"{name}: reading the layers on {len(questions)} questions")
        states = list[States]()
        try:
            for question in questions:
                sent = [StoredMessage(run.folder.blobs, sha) for sha in question.sent]
                states.append(read_states(model, sent))
        except ModelError as exc:
            left_out[name] = str(exc)
        except PictureError as exc:
            raise RunError(
                f"{run.folder.path}: {exc}; a probe sends the model the same pictures again, from"
                " the run's blobs/: copy them back, or run the study again"
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
    """Probe one arm, given the layers' states for each of its questions; a layer that is missing
    for some question is left out."""
    out = np.array([is_held_out(question.cluster, held_out) for question in questions])
    learnt, tried = (list(compress(questions, side)) for side in (~out, out))
    code = {label: n for n, label in enumerate(dict.fromkeys(q.label for q in learnt))}
    labels = np.array([code.get(question.label, -1) for question in questions])
    allowed = np.array([[label in (q.offered or code) for label in code] for q in questions])
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
        shuffled = float(np.mean(probed.shuffled == labels[out]))
        layers.append(LayerProbe(layer, probed.inner, right, shuffled))
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
    """Return the reason why there are too few questions, or too few of each answer, to train a
    probe; empty if there are enough."""
    kept = Counter(question.cluster for question in questions)
    out = [kept.pop(cluster) for cluster in [*kept] if is_held_out(cluster, held_out)]
    labels, learnt = set(map(attrgetter("label"), questions)), kept.total()
    if min(len(out), len(kept)) < MIN_CLUSTERS:
        return (
            f"{len(questions)} of its questions were answered, on {len(kept)} different"
            f" pictures for training and {len(out)} held out; a probe needs {MIN_CLUSTERS} of each,"
            " better hundreds; ask more questions, or finish the run"
        )
    if not 1 < len(labels) <= learnt / MIN_QUESTIONS_PER_ANSWER:
        return (
            f"its {learnt} training questions have {len(labels)} different answers; a probe"
            f" needs 2 or more, and {MIN_QUESTIONS_PER_ANSWER} questions for each"
        )
    return ""


# ---- results as sentences, as a table, and as a page


def probe_table(probed: ProbedRun, whole: bool = True) -> TextTable:
    """Return a table with a line for every layer or, unless `whole`, for the best layer of each
    place, and with lines for the model's own answer and the most common answer."""
    header = ("contestant", "task", "read in", "right %", "shuffled %", "against the model", "p")
    rows: list[tuple[str, ...]] = []
    for arm in probed.arms:
        gaps = [arm.compare(probe.right, arm.model_right) for probe in arm.layers]
        shown = arm.layers if whole else arm.best.values()
        lines = {
            probe: (percent(probe.shuffled), estimate_cell(gap, sign=True), format_p(p))
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
        f"{percent(fmean(probe.right))} % in {probe.layer}" for probe in arm.best.values()
    )
    sentences = [
        f"{arm.contestant} on {arm.task}: on {len(arm.model_right)} held-out questions, a linear"
        f" probe is right on {read}; the model itself is right on"
        f" {percent(fmean(arm.model_right))} %, and the most common answer on"
        f" {percent(fmean(arm.majority_right))} %."
    ]
    low, high = (percent(end, sign=True) for end in (arm.gap.low, arm.gap.high))
    p = format_p(arm.gap.p)
    p = p.replace("<", "< ") if p.startswith("<") else f"= {p}"
    beside = (
        f"the model differs from the probe of {arm.peak.layer} by"
        f" {percent(arm.gap.value, sign=True)} points [{low}, {high}], p {p}"
    )
    if not arm.is_found:
        sentences.append(
            f"No answer is found: the best probe, in {arm.peak.layer}, is not significantly better"
            " than the most common answer."
        )
    elif arm.loss:
        lost = f"The answer is lost between {arm.loss.last} and {arm.loss.first}"
        sentences.append(f"{lost}: {beside}.")
    elif arm.gap.p <= SIGNIFICANCE_LEVEL:
        sentences.append(f"The model uses more than a linear probe of one vector: {beside}.")
    else:
        sentences.append(f"No loss is found: {beside}.")
    if arm.wordings > 1 and "tower" in arm.best:
        sentences.append(
            f"Tower and projector do not receive the question, and there are {arm.wordings}"
            " different questions: probes may fail there only because the question is missing."
        )
    return sentences


def probe_page(run: RunScores, probed: ProbedRun) -> str:
    """Return the results of all arms as Markdown."""
    parts = [f"# Layer probes of {run.name}"]
    parts += [" ".join(describe_probe(arm)) for arm in probed.arms]
    parts += ["## Layers", PROBE_NOTE, probe_table(probed).markdown]
    if probed.left_out:
        reasons = "\n".join(f"- {name}: {why}" for name, why in probed.left_out.items())
        parts += ["## Not probed", reasons]
    return "\n\n".join(parts) + "\n"


def show_probes(asked: AnalysisRequest) -> None:
    """Show where in a model the answer is lost, with linear probes of every layer on at most
    `limit` questions of each arm; the share `held_out` of the pictures tests the probes."""
    page, share = asked.get_page_path("probes.md"), asked.settings.get("held_out", 0.4)
    if not isinstance(share, float) or not 0.1 <= share <= 0.9:
        raise RunError(f"held_out must be a share from 0.1 to 0.9, got {share}")
    limit, tell = asked.settings.get("limit"), partial(print, file=sys.stderr)
    if not isinstance(limit, int | None):
        raise RunError(f"limit must be a number of questions, got {limit!r}")
    probed = probe_run(asked.run, asked.plugins, share, limit, tell)
    for why in dict.fromkeys(probed.left_out.values()):
        names = "; ".join(name for name, reason in probed.left_out.items() if reason == why)
        asked.say(f"not probed: {names} ({why})")
    if not probed.arms:
        raise RunError(
            f"{asked.run.folder.path} has no arm to probe; `looktwice run probes` makes a run with"
            " one"
        )
    asked.show(probe_table(probed, whole=False), "read in the layers", PROBE_NOTE)
    for arm in probed.arms:
        asked.say(" ".join(describe_probe(arm)))
    write_file(page, probe_page(asked.run, probed))
    asked.say(f"probes: {page}")


PROBE = AnalysisOnRequest("Where in a model the answer is lost", ("held_out", "limit"), show_probes)
