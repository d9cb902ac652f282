"""Probes of the arms of a run, place by place, beside the model's own answers on the same held-out
questions: what was sent, the true answer, and whether the model was right."""

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

from looktwice.eval.analysis.asked import Asked, Finding
from looktwice.eval.display.text_tables import TextTable, estimate_cell, format_p, percent
from looktwice.eval.records.records import Record, RunError, SampleRow, StoredMessage
from looktwice.eval.scoring.verdict import RunScores, Verdict
from looktwice.eval.statistics.intervals import Estimate, Floats, bootstrap_mean
from looktwice.eval.statistics.paired import compare_paired, holm
from looktwice.extras.inside.internals import Layer, States, read_states
from looktwice.extras.inside.linear import FOLDS, SHUFFLES, fit_probe
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.picture import PictureError

FEWEST = 2 * FOLDS  # clusters on either side
EACH = 5  # questions to learn from for each different answer
LEVEL = 0.05
ORDER = ("tower", "projector", "decoder, image tokens", "decoder, last token")
ANSWER = "the words of the answer"
NOTE = (
    "Right: the share of held-out questions, with the 95 % interval of a cluster bootstrap."
    f" Shuffled: the same probe that learnt from labels in a random order, the mean of {SHUFFLES}."
    " Against the model: the paired difference to the model's own answers on the same questions, p"
    " corrected over an arm's layers (Holm)."
)


class Question(NamedTuple):
    """A question that was asked: `label` is the true answer in words, `words` are those in which it
    was asked.

    `offered` are the choices in words, none of an open question. Questions of one `cluster` share
    their picture, or a group. `sent` are the messages by sha256: read, each would hold its pixels.
    """

    sample: str
    cluster: str
    label: str
    words: str
    right: float
    sent: Sequence[str]
    offered: Sequence[str] = ()


def questions_of(run: RunScores) -> Mapping[str, Sequence[Question]]:
    """The questions of every arm by the id of its point, in the order of their records.

    Of several draws the first counts. Left out are samples without a key, those that failed, and
    those whose answer no request of the arm's own model brought; requests that offered tools are
    not among these.
    """
    by_arm: dict[str, dict[str, Question]] = {scores.point.id: {} for scores in run.points}
    for scores, record in run.records():
        row, scored = scores.samples.get(record.sample), scores.result_of(record)
        sent = _answered(record)
        if row is None or row.answer is None or scored is None or sent is None or record.draw > 0:
            continue
        if scored.verdict is not Verdict.FAILED:
            by_arm[scores.point.id][record.sample] = Question(
                record.sample,
                scores.clusters[record.sample],
                true_answer(row),
                row.sample["question"],
                scored.score.value,
                sent,
                choice_texts(row),
            )
    return {name: list(questions.values()) for name, questions in by_arm.items()}


def choice_texts(row: SampleRow) -> tuple[str, ...]:
    """The choices of a question in words; none where there are no choices, or where some are
    pictures."""
    choices = row.sample["choices"]
    return tuple(map(_plain, choices)) if all(isinstance(choice, str) for choice in choices) else ()


def true_answer(row: SampleRow) -> str:
    """The text of the right choice, so that its place among the choices is no part of it; without
    texts, the key."""
    key, texts = (row.answer or "").strip(), choice_texts(row)
    number = ord(key) - ord("A") if len(key) == 1 else -1
    return texts[number] if 0 <= number < len(texts) else _plain(key)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def is_held_out(cluster: str, share: float) -> bool:
    """Whether a cluster is among the share that a probe is tried on: the same in every arm and
    run."""
    drawn = int.from_bytes(hashlib.sha256(f"held out\n{cluster}".encode()).digest()[:8])
    return drawn < share * 2**64


def _answered(record: Record) -> Sequence[str] | None:
    """The messages of the last request that the arm's own model answered with words."""
    for call in reversed(record.calls):
        offers_tools = (call.get("options") or {}).get("tools")
        if call.get("reply") and not call.get("model") and not offers_tools:
            return tuple(call["messages"])
    return None


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
        best: dict[str, LayerProbe] = {}
        for probe in sorted(self.layers, key=lambda probe: ORDER.index(probe.layer.place)):
            rival = best.setdefault(probe.layer.place, probe)
            best[probe.layer.place] = probe if probe.inner > rival.inner else rival
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
    asked, binder = questions_of(run), Binder.of_run(run.folder.path, plugins)
    arms, left_out = list[ArmProbe](), dict[str, str]()
    for scores in run.points:
        name, questions = f"{scores.contestant} on {scores.task}", asked[scores.point.id][:limit]
        node = scores.point.spec.get("model")
        binder.faults.clear()
        model = binder.node(node, "model") if node and scores.all else None
        if binder.faults:
            faults = "; ".join(map(str, binder.faults))
            left_out[name] = f"its model cannot be built again: {faults}"
            continue
        why = "no model was asked" if model is None else _too_few(questions, held_out)
        if model is None or why:
            left_out[name] = why
            continue
        tell(f"{name}: reading the layers over {len(questions)} questions")
        states = list[States]()
        try:
            for question in questions:
                sent = [StoredMessage(run.folder.blobs, sha) for sha in question.sent]
                states.append(read_states(model, sent))
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
        right = (probed.said == labels[out]).astype(float)
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
        len({question.words for question in questions}),
    )


def _too_few(questions: Sequence[Question], held_out: float) -> str:
    """Why so many questions and different answers cannot be probed; empty where they can."""
    kept = Counter(question.cluster for question in questions)
    out = [kept.pop(cluster) for cluster in [*kept] if is_held_out(cluster, held_out)]
    labels, learnt = set(map(attrgetter("label"), questions)), kept.total()
    if min(len(out), len(kept)) < FEWEST:
        return (
            f"{len(questions)} of its questions were answered, over {len(kept)} different"
            f" pictures to learn from and {len(out)} held out; a probe needs {FEWEST} of each"
            " and does well with hundreds: ask more, or finish the run"
        )
    if not 1 < len(labels) <= learnt / EACH:
        return (
            f"its {learnt} questions to learn from have {len(labels)} different answers; a probe"
            f" needs 2 or more, and {EACH} questions for each"
        )
    return ""


# ---- what was found, in words, as a table, and as a page


def probe_table(probed: ProbedRun, whole: bool = True) -> TextTable:
    """A line for each layer, or only for the best of each place, and for the model's own and the
    commonest answer."""
    header = ("contestant", "task", "read in", "right %", "shuffled %", "against the model", "p")
    rows: list[tuple[str, ...]] = []
    for arm in probed.arms:
        gaps = [arm.compare(probe.right, arm.answered) for probe in arm.layers]
        shown = arm.layers if whole else arm.best.values()
        lines = {
            probe: (percent(probe.shuffled), estimate_cell(gap, sign=True), format_p(p))
            for probe, gap, p in zip(arm.layers, gaps, holm([gap.p for gap in gaps]), strict=True)
        }
        answers = [(str(probe.layer), probe.right, lines[probe]) for probe in shown]
        answers.append(("the model", arm.answered, ("", "", "")))
        answers.append(("commonest", arm.commonest, ("", "", "")))
        for name, right, cells in answers:
            share = estimate_cell(bootstrap_mean(right, arm.clusters))
            rows.append((arm.contestant, arm.task, name, share, *cells))
    return TextTable(header, rows, text_columns=3)


def probe_sentences(arm: ArmProbe) -> list[str]:
    """What was found of an arm, with intervals, and where the answer is lost."""
    read = ", ".join(
        f"{percent(fmean(probe.right))} % in {probe.layer}" for probe in arm.best.values()
    )
    sentences = [
        f"{arm.contestant} on {arm.task}: of {len(arm.answered)} held-out questions a linear probe"
        f" reads the answer to {read}; the model itself answers {percent(fmean(arm.answered))} %,"
        f" and the commonest answer is right on {percent(fmean(arm.commonest))} %."
    ]
    low, high = (percent(end, sign=True) for end in (arm.gap.low, arm.gap.high))
    p = format_p(arm.gap.p)
    p = p.replace("<", "< ") if p.startswith("<") else f"= {p}"
    beside = (
        f"the model is {percent(arm.gap.value, sign=True)} points [{low}, {high}] against what is"
        f" read in {arm.peak.layer}, p {p}"
    )
    if not arm.is_found:
        sentences.append(
            f"Nothing is found: in {arm.peak.layer}, the best, no more is read than by the"
            " commonest answer."
        )
    elif arm.loss:
        sentences.append(f"It is lost between {arm.loss.last} and {arm.loss.first}: {beside}.")
    elif arm.gap.p <= LEVEL:
        sentences.append(f"The model knows more than is linear in one vector of it: {beside}.")
    else:
        sentences.append(f"No loss is found: {beside}.")
    if arm.wordings > 1 and "tower" in arm.best:
        sentences.append(
            f"Tower and projector have not read the question, of which there are {arm.wordings}"
            " here: what is not read there may lack the question alone."
        )
    return sentences


def probe_page(run: RunScores, probed: ProbedRun) -> str:
    """All of it as Markdown."""
    parts = [f"# What the layers hold in {run.name}"]
    parts += [" ".join(probe_sentences(arm)) for arm in probed.arms]
    parts += ["## Layers", NOTE, probe_table(probed).markdown]
    if probed.left_out:
        reasons = "\n".join(f"- {name}: {why}" for name, why in probed.left_out.items())
        parts += ["## Not probed", reasons]
    return "\n\n".join(parts) + "\n"


def tell_probes(asked: Asked) -> None:
    """Where in a model the answer is lost, by linear probes on every layer, tried on the share
    `held_out` of the pictures of at most `limit` questions of each arm."""
    page, share = asked.page("probes.md"), asked.settings.get("held_out", 0.4)
    if not isinstance(share, float) or not 0.1 <= share <= 0.9:
        raise RunError(f"held_out is a share from 0.1 to 0.9, found {share}")
    limit, tell = asked.settings.get("limit"), partial(print, file=sys.stderr)
    if not isinstance(limit, int | None):
        raise RunError(f"limit is a number of questions, found {limit!r}")
    probed = probe_run(asked.run, asked.plugins, share, limit, tell)
    for why in dict.fromkeys(probed.left_out.values()):
        names = "; ".join(name for name, reason in probed.left_out.items() if reason == why)
        asked.say(f"not probed: {names} ({why})")
    if not probed.arms:
        raise RunError(
            f"{asked.run.folder.path} has no arm to probe; `looktwice run probes` makes a run that"
            " has"
        )
    asked.show(probe_table(probed, whole=False), "read in the layers", NOTE)
    for arm in probed.arms:
        asked.say(" ".join(probe_sentences(arm)))
    write_file(page, probe_page(asked.run, probed))
    asked.say(f"probes: {page}")


PROBE = Finding("Where in a model the answer is lost", ("held_out", "limit"), tell_probes)
