"""What an agent's tool contributes: arms that differ in one thing each, and a verdict in words with
its interval.

The arms go by the names of their contestants, those of `configs/tool_contribution.yaml`: `without`
any tool, `full`, and control arms in which the call runs all the same. Each of these says what part
of the gain needs more than it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from looktwice.eval.analysis.agent_looks import summarize_looks
from looktwice.eval.display.text_tables import TextTable, format_p, percent, share_cell
from looktwice.eval.scoring.labels import contestant_changes
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.eval.statistics.paired import compare_paired
from looktwice.pipelines.model import canonical

ARMS: Mapping[str, str] = {
    "without": "no tool",
    "full": "tools and their results",
    "black": "black images of the same size",
    "format": "calls without results",
    "result": "results at once, no tool turn",
    "random": "a random place of the same size",
    "oracle": "the place that matters",
    "words": "the results in words",
}
"""The roles of the arms, which are the names of their contestants unless others are given."""
NEEDS = {
    "black": "need the pixels",
    "random": "need the place",
    "words": "need more than words",
    "format": "need a result",
}
"""What the difference of `full` to an arm needs, where the arm lacks just that."""
LEVEL = 0.05
BLIND = ("without", "black", "format")
"""The arms in which a look brings no picture."""


@dataclass(frozen=True)
class Certificate:
    """The arms of one agent on one task by role, on the samples that none of them failed or
    lacks."""

    arms: Mapping[str, PointScores]

    @cached_property
    def samples(self) -> list[str]:
        """The samples that every arm answered."""
        first, *others = (scores.comparable for scores in self.arms.values())
        return [name for name in first if all(name in other for other in others)]

    @property
    def excluded(self) -> int:
        """Samples with a key that failed or are missing in one of the arms."""
        return len(self.arms["full"].keyed) - len(self.samples)

    def values(self, role: str) -> list[float]:
        """The values of an arm on the shared samples."""
        return [self.arms[role].comparable[name] for name in self.samples]

    def difference(self, role: str, other: str) -> Estimate:
        """One arm minus another; samples that share a picture or a group are one cluster."""
        return compare_paired(self.values(role), self.values(other), self.clusters)

    @cached_property
    def clusters(self) -> list[str]:
        """The cluster of each of `samples`."""
        return [self.arms["full"].clusters[name] for name in self.samples]

    @property
    def gain(self) -> Estimate:
        """What tool use gains in all."""
        return self.difference("full", "without")

    @property
    def verdict(self) -> list[str]:
        """The sentences of the certificate, the first one about the gain and the pixels.

        Whether something is shown says the exact test; of very few samples the interval may exclude
        zero beside it.
        """
        gain = self.gain
        if gain.p >= LEVEL:
            said = [
                f"No gain is shown: tool use changes accuracy by {_points(gain)} points (n ="
                f" {gain.n})."
            ]
        else:
            said = [
                f"Tool use {'gains' if gain.value > 0 else 'loses'} {_points(gain)} points (n ="
                f" {gain.n})."
            ]
        gained = gain.p < LEVEL and gain.value > 0
        of = f"Of {100 * gain.value:.1f} points gained" if gained else "Beside that"
        for role, needs in NEEDS.items():
            if role in self.arms:
                part = self.difference("full", role)
                shown = "" if part.p < LEVEL and part.value > 0 else ", which is not shown"
                said.append(
                    f"{of}, {_points(part)} {needs}{shown}: {ARMS['full']} against {ARMS[role]}."
                )
        if "result" in self.arms:
            rest = self.difference("full", "result")
            said.append(f"Tool turns are worth {_points(rest)} points beyond {ARMS['result']}.")
        if "oracle" in self.arms:
            said.append(
                f"{ARMS['oracle'].capitalize()} would bring"
                f" {_points(self.difference('oracle', 'full'))} more."
            )
        return said

    @property
    def solved_elsewhere(self) -> Mapping[str, float]:
        """Of what `full` solves, the share that an arm solves too, and that any arm without
        pictures does ("blind")."""
        solved = [
            name
            for name, value in zip(self.samples, self.values("full"), strict=True)
            if value > 0.5
        ]
        if not solved:
            return {}
        shares = {
            role: sum(scores.comparable[name] > 0.5 for name in solved) / len(solved)
            for role, scores in self.arms.items()
            if role != "full"
        }
        blind = [self.arms[role].comparable for role in BLIND if role in self.arms]
        return shares | {
            "blind": sum(any(arm[name] > 0.5 for arm in blind) for name in solved) / len(solved)
        }

    @property
    def by_call(self) -> Mapping[str, float]:
        """Gains and harms where the agent called a tool, and where only the words about tools
        differ (Med, 2602.01334).

        call gain + schema gain - call harm - schema harm is the gain, on right or wrong answers.
        """
        out = dict.fromkeys(("call gain", "schema gain", "call harm", "schema harm"), 0.0)
        for name, full, plain in zip(
            self.samples, self.values("full"), self.values("without"), strict=True
        ):
            called = any(entry.measured.get("looks") for entry in self.arms["full"].asked(name))
            what = f"{'call' if called else 'schema'} {'gain' if full > plain else 'harm'}"
            out[what] += abs(full - plain) / len(self.samples)
        return out

    @property
    def unequal(self) -> list[str]:
        """Where arms differ in what should be the same: seed, model, and the agent's bounds, sizes
        and frame."""
        full, out = _conditions(self.arms["full"]), list[str]()
        for role, scores in self.arms.items():
            other = [name for name, value in _conditions(scores).items() if value != full.get(name)]
            out += [f"{role} differs from full in {', '.join(other)}"] if other else []
        return out


def certificates(run: RunScores, roles: Mapping[str, str] | None = None) -> list[Certificate]:
    """The certificate of every task and setting of a sweep that has the arms `without` and `full`
    and a control.

    `roles` gives the contestants of roles that have other names, {"black": "placebo"}.
    """
    named = {role: role for role in ARMS} | dict(roles or {})
    out = []
    for full in (scores for scores in run.points if scores.point.contestant == named["full"]):
        changes = contestant_changes(full.point)
        arms = {"without": None, "full": full} | {
            role: _fitting(run, full, name, changes)
            for role, name in named.items()
            if role != "full"
        }
        found = {role: scores for role, scores in arms.items() if scores is not None}
        certificate = Certificate(found)
        if "without" in found and len(found) > 2 and certificate.samples:
            out.append(certificate)
    return out


def contribution_table(certificate: Certificate, run: RunScores) -> TextTable:
    """A line for each arm: what it has, accuracy, what `full` has more, and where its looks
    went."""
    header = (
        "arm",
        "what it gets",
        "n",
        "accuracy\n%",
        "over without",
        "full over it",
        "p",
        "of what full\nsolves %",
        "IoU of look\nwith evidence",
        "tokens\nper sample",
    )
    solved, looks = (
        certificate.solved_elsewhere,
        {(s.contestant, s.task): s for s in summarize_looks(run)},
    )
    rows = []
    for role, scores in certificate.arms.items():
        values = certificate.values(role)
        share = share_interval(values, certificate.clusters)
        more, over = certificate.difference("full", role), certificate.difference(role, "without")
        look = looks.get((scores.contestant, scores.task))
        entries = [entry for name in certificate.samples for entry in scores.asked(name)]
        tokens = sum(entry.tokens_in + entry.tokens_out for entry in entries)
        rows.append(
            (
                role,
                ARMS[role],
                str(len(values)),
                share_cell(share),
                "" if role == "without" else _points(over),
                "" if role == "full" else _points(more),
                "" if role == "full" else format_p(more.p),
                percent(solved.get(role)),
                "" if look is None or look.iou is None else f"{look.iou:.2f}",
                f"{tokens / len(entries):,.0f}",
            )
        )
    return TextTable(header, rows, text_columns=2).without_empty()


def contribution_tables(run: RunScores) -> Iterator[tuple[str, str, TextTable]]:
    """Title, sentences and table of every certificate of a run."""
    for one in certificates(run):
        task = f" on {one.arms['full'].task}"
        yield (
            f"What the tool contributes{task}",
            " ".join(one.verdict),
            contribution_table(one, run),
        )


def certificate_page(run: RunScores, found: Sequence[Certificate]) -> str:
    """The page of the certificates as Markdown."""
    parts = [f"# What the tool contributes: {run.name}"]
    for one in found:
        parts += [f"## {one.arms['full'].contestant} on {one.arms['full'].task}", *one.verdict]
        parts += [contribution_table(one, run).markdown, *_remarks(one)]
    return "\n\n".join(parts) + "\n"


def _points(found: Estimate) -> str:
    """A difference in points: "1.1 [-0.9, 3.0]"."""
    return f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _remarks(one: Certificate) -> Iterator[str]:
    split = ", ".join(f"{name} {100 * value:.1f}" for name, value in one.by_call.items())
    yield f"By whether a tool was called, in points: {split}."
    if (blind := one.solved_elsewhere.get("blind")) is not None:
        yield (
            f"Of what the full agent solves, {100 * blind:.1f} % is solved in an arm without"
            " pictures of looks too."
        )
    if one.excluded:
        yield f"{one.excluded} samples failed or are missing in an arm, and are left out of all."
    conditions = "; ".join(one.unequal)
    yield (
        f"Not the same in all arms: {conditions}."
        if conditions
        else "Seed, model, sizes and budgets are the same."
    )


def _fitting(
    run: RunScores, full: PointScores, name: str, changes: Mapping[str, Any]
) -> PointScores | None:
    """The arm of a contestant on the same samples at the same setting, as far as it has this
    setting."""
    arms = [
        s
        for s in run.points
        if s.point.contestant == name and s.point.task_id == full.point.task_id
    ]
    alike = [s for s in arms if contestant_changes(s.point).items() <= changes.items()]
    return max(alike, key=lambda s: len(contestant_changes(s.point)), default=None)


def _conditions(scores: PointScores) -> dict[str, str]:
    """What the arms of a certificate have in common, of an arm with an agent its settings too."""
    spec = scores.point.spec
    found: dict[str, Any] = {
        "seed": scores.point.seed,
        "draws": scores.point.draws,
        "model": spec.get("model"),
    }
    for node in (spec.get("stages") or {}).values():
        if isinstance(node, Mapping) and str(node.get("use", "")).endswith(".Agent"):
            for name in (
                "bounds",
                "fit",
                "coordinates",
                "protocol",
                "options",
                "history",
                "corrections",
            ):
                found[name] = node.get(name)
    return {name: canonical(value) for name, value in found.items()}
