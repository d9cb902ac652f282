"""What the probes of a run found: in words, as a table, and as a page."""

from __future__ import annotations

from statistics import fmean

from looktwice.eval.display.text_tables import TextTable, estimate_cell, format_p, percent
from looktwice.eval.probes.arms import LEVEL, ArmProbe, ProbedRun
from looktwice.eval.probes.linear import SHUFFLES
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.intervals import bootstrap_mean
from looktwice.eval.statistics.paired import holm

NOTE = (
    "Right: the share of held-out questions, with the 95 % interval of a cluster bootstrap."
    f" Shuffled: the same probe that learnt from labels in a random order, the mean of {SHUFFLES}."
    " Against the model: the paired difference to the model's own answers on the same questions, p"
    " corrected over an arm's layers (Holm)."
)


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
