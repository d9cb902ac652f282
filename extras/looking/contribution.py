"""The contribution of an agent's tool: arms that each differ in one factor, and a verdict in
sentences with intervals.

The roles of the arms are the names of their contestants in `configs/tool_contribution.yaml`:
`without` any tool, `full`, and control arms in which calls still run. The difference between `full`
and a control is the part of the gain that depends on what the control lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

import numpy as np

from looktwice.eval.analysis.analyses import Analysis, ReportTable
from looktwice.eval.analysis.requested import AnalysisOnRequest, AnalysisRequest
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    format_p,
    percent,
    share_cell,
    table,
    text,
)
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.labels import find_closest, get_contestant_changes
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import ValueMatrix, compare_paired
from looktwice.extras.looking.agent_looks import summarize_looks
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.json_input import write_canonical

ROLE_DESCRIPTIONS: Mapping[str, str] = {
    "without": "no tool",
    "full": "tools and their results",
    "black": "black images of the same size",
    "format": "calls without results",
    "result": "results shown up front, without a tool turn",
    "random": "a random region of the same size",
    "oracle": "the relevant region",
    "words": "the results in words",
}
"""The roles of the arms, with descriptions. A contestant whose name is a role has that role, unless
the user assigns roles."""
CONTROL_PHRASES = {
    "black": "need the pixels",
    "random": "need the right region",
    "words": "need more than words",
    "format": "need a result",
}
"""The phrase for the difference between `full` and each control; it names what the control
lacks."""
SIGNIFICANCE_LEVEL = 0.05
BLIND_ROLES = ("without", "black", "format")
"""The arms in which a look returns no picture."""


@dataclass(frozen=True)
class Certificate:
    """The arms of one agent on one task, by role; they are compared on the samples that every arm
    answered."""

    arms: Mapping[str, PointScores]

    @cached_property
    def values(self) -> ValueMatrix[str, str]:
        """The values of every arm, by role, on the samples that every arm answered."""
        arms = {role: scores.comparable_values for role, scores in self.arms.items()}
        values = ValueMatrix.of(arms, self.arms["full"].clusters)
        return values.where(values.valid_mask())

    @property
    def excluded_count(self) -> int:
        """The number of samples with a correct answer that failed or are missing in one of the
        arms."""
        return len(self.arms["full"].keyed_samples) - len(self.values.units)

    def compute_difference(self, role: str, other: str) -> Estimate:
        """Return the accuracy of one arm minus that of another; samples that share a picture or a
        group form one cluster."""
        return compare_paired(self.values[role], self.values[other], self.values.clusters)

    @property
    def gain(self) -> Estimate:
        """The total gain of tool use."""
        return self.compute_difference("full", "without")

    @property
    def verdict(self) -> list[str]:
        """The sentences of the certificate, the first one about the gain.

        The exact test decides what is significant; with very few samples, the interval may exclude
        zero although the test is not significant.
        """
        gain = self.gain
        gained = gain.p < SIGNIFICANCE_LEVEL and gain.value > 0
        change = f"Tool use {'gains' if gained else 'loses'}"
        if gain.p >= SIGNIFICANCE_LEVEL:
            change = "No significant gain: tool use changes accuracy by"
        sentences = [f"{change} {_format_points(gain)} points (n = {gain.n})."]
        of = f"Of {100 * gain.value:.1f} points gained" if gained else "Separately"
        for role, needs in CONTROL_PHRASES.items():
            if role in self.arms:
                part = self.compute_difference("full", role)
                shown = (
                    "" if part.p < SIGNIFICANCE_LEVEL and part.value > 0 else " (not significant)"
                )
                pair = f"{ROLE_DESCRIPTIONS['full']} against {ROLE_DESCRIPTIONS[role]}"
                sentences.append(f"{of}, {_format_points(part)} {needs}{shown}: {pair}.")
        if "result" in self.arms:
            rest = _format_points(self.compute_difference("full", "result"))
            sentences.append(f"Tool turns add {rest} points over {ROLE_DESCRIPTIONS['result']}.")
        if "oracle" in self.arms:
            more = _format_points(self.compute_difference("oracle", "full"))
            sentences.append(f"{ROLE_DESCRIPTIONS['oracle'].capitalize()} would add {more} points.")
        return sentences

    @property
    def solved_shares(self) -> Mapping[str, float]:
        """For each role, the share of the samples solved by `full` that its arm also solves;
        "blind" is the share solved by any of `BLIND_ROLES`."""
        hits = {role: self.values[role] > 0.5 for role in self.arms}
        solved = hits.pop("full")
        if not solved.any():
            return {}
        hits["blind"] = np.any([hits[role] for role in BLIND_ROLES if role in hits], axis=0)
        return {role: float(hit[solved].mean()) for role, hit in hits.items()}

    @property
    def gains_by_call(self) -> Mapping[str, float]:
        """The gains and harms of tool use on the samples on which the agent called a tool, and on
        the other samples, on which only the tool descriptions differ (Med, 2602.01334).

        If answers are right or wrong, call gain + schema gain - call harm - schema harm is the
        total gain.
        """
        parts = dict.fromkeys(("call gain", "schema gain", "call harm", "schema harm"), 0.0)
        gaps = self.values["full"] - self.values["without"]
        for name, gap in zip(self.values.units, gaps.tolist(), strict=True):
            called = any(
                entry.measured.get("looks") for entry in self.arms["full"].get_recorded_draws(name)
            )
            part = f"{'call' if called else 'schema'} {'gain' if gap > 0 else 'harm'}"
            parts[part] += abs(gap) / len(gaps)
        return parts

    @property
    def setting_differences(self) -> list[str]:
        """Sentences about arms that differ from `full` in settings that should be the same: seed,
        draws, model, and the settings in `SHARED_SETTINGS`."""
        conditions, sentences = dict[str, dict[str, str]](), list[str]()
        for role, scores in self.arms.items():
            point = scores.point
            shared = {"seed": point.seed, "draws": point.draws, "model": point.spec.get("model")}
            for node in (point.spec.get("stages") or {}).values():
                if isinstance(node, Mapping) and str(node.get("use", "")).endswith(".Agent"):
                    shared |= {name: node.get(name) for name in SHARED_SETTINGS}
            conditions[role] = dict(zip(shared, map(write_canonical, shared.values()), strict=True))
        for role, mine in conditions.items():
            differing = [name for name in mine if mine[name] != conditions["full"].get(name)]
            sentences += (
                [f"{role} differs from full in {', '.join(differing)}"] if differing else []
            )
        return sentences


def find_certificates(run: RunScores, roles: Mapping[str, str] | None = None) -> list[Certificate]:
    """Return a certificate for every task and setting of a sweep with the arms `without`, `full`
    and a control.

    `roles` maps roles to contestants with other names, such as {"black": "placebo"}.
    """
    names = dict(zip(ROLE_DESCRIPTIONS, ROLE_DESCRIPTIONS, strict=True)) | dict(roles or {})
    certificates = []
    points = [scores.point for scores in run.points]
    for full in points:
        if full.contestant != names["full"]:
            continue
        arms: dict[str, PointScores] = {}
        for role, name in names.items():
            own = [p for p in points if (p.task_id, p.contestant) == (full.task_id, name)]
            point = full if role == "full" else find_closest(get_contestant_changes(full), own)
            if point and len(run.by_id[point.id].columns):  # an arm without records does not count
                arms[role] = run.by_id[point.id]
        certificate = Certificate(arms)
        if "without" in arms and len(arms) > 2 and certificate.values.units:
            certificates.append(certificate)
    return certificates


def make_contribution_table(certificate: Certificate, run: RunScores) -> TextTable:
    """Return a line for each arm: its description, its accuracy, the difference of `full` from it,
    and the overlap of its looks with the evidence."""
    arms, solved = certificate.arms, certificate.solved_shares
    samples = certificate.values.units
    looks = {(arm.contestant, arm.task): arm for arm in summarize_looks(run)}

    def compare_roles(role: str, other: str) -> Estimate | None:
        return certificate.compute_difference(role, other) if role != other else None

    def get_p(role: str) -> float | None:
        more = compare_roles("full", role)
        return more.p if more else None

    def get_iou(role: str) -> float | None:
        look = looks.get((arms[role].contestant, arms[role].task))
        return look.iou if look else None

    def count_tokens(role: str) -> float:
        entries = [*chain.from_iterable(map(arms[role].get_recorded_draws, samples))]
        return sum(entry.tokens_in + entry.tokens_out for entry in entries) / len(entries)

    columns: Columns[str] = (
        Column("arm", lambda role: role, text),
        Column("what it gets", ROLE_DESCRIPTIONS.get, text),
        Column("n", lambda role: len(samples)),
        Column("accuracy\n%", certificate.values.mean, share_cell),
        Column("over\nwithout", lambda role: compare_roles(role, "without"), _format_points),
        Column("full over\nthis arm", partial(compare_roles, "full"), _format_points),
        Column("p", get_p, format_p),
        Column("also solves,\n% of full's", solved.get, percent),
        Column("IoU of look\nwith evidence", get_iou, "{:.2f}"),
        Column("tokens\nper sample", count_tokens, "{:,.0f}"),
    )
    return table(columns, arms).without_empty()


def format_certificates(run: RunScores, found: Sequence[Certificate]) -> str:
    """Return the page of the certificates as Markdown."""
    parts = [f"# What the tool contributes: {run.name}"]
    for certificate in found:
        full = certificate.arms["full"]
        parts += [f"## {full.contestant} on {full.task}", *certificate.verdict]
        parts.append(make_contribution_table(certificate, run).markdown)
        calls = certificate.gains_by_call.items()
        split = ", ".join(f"{name} {100 * value:.1f}" for name, value in calls)
        parts.append(f"Points gained and lost, by whether a tool was called: {split}.")
        if (blind := certificate.solved_shares.get("blind")) is not None:
            parts.append(
                f"Arms whose looks return no picture also solve {100 * blind:.1f} % of the samples"
                " that the full agent solves."
            )
        if count := certificate.excluded_count:
            parts.append(
                f"{count} samples failed or are missing in an arm, and are excluded from all arms."
            )
        unequal = "; ".join(certificate.setting_differences)
        same = "Seed, model, sizes and budgets are the same in all arms."
        parts.append(f"Settings differ between arms: {unequal}." if unequal else same)
    return "\n\n".join(parts) + "\n"


def _format_points(gap: Estimate) -> str:
    """Return a difference in points with its interval: "1.1 [0.2, 3.0]"."""
    shown = f"{100 * gap.value:.1f} [{100 * gap.low:.1f}, {100 * gap.high:.1f}]"
    return shown.replace("-", "\u2212")


SHARED_SETTINGS = ("bounds", "fit", "coordinates", "protocol", "options", "history", "corrections")
"""The settings of an agent that all arms of a certificate should share."""


def _describe_contribution(scored: Table) -> Iterator[ReportTable]:
    for run in scored.scores:
        for certificate in find_certificates(run):
            title = f"What the tool contributes on {certificate.arms['full'].task}"
            shown, note = make_contribution_table(certificate, run), " ".join(certificate.verdict)
            yield ReportTable(title, shown, True, note)


TOOL_ANALYSIS = Analysis("tool", "What the tool contributes", _describe_contribution)


def report_certificates(asked: AnalysisRequest) -> None:
    """Print the contribution of a tool and write it to a page, from the arms of `tool_contribution`
    or from the contestants that the settings `role.ROLE` name."""
    roles = asked.settings.get("role", {})
    if unknown := set(roles) - set(ROLE_DESCRIPTIONS):
        raise RunError(
            f"role.{min(unknown)} does not exist; the roles are {', '.join(ROLE_DESCRIPTIONS)}"
        )
    certified = find_certificates(asked.run, roles)
    if not certified:
        controls = ", ".join(name for name in ROLE_DESCRIPTIONS if name not in ("without", "full"))
        asked.refuse(
            f"without, full and one of {controls}",
            "run tool_contribution, or name the contestants: role.without=NAME",
        )
    page = asked.get_page_path("certificate.md")
    write_file(page, format_certificates(asked.run, certified))
    for certificate in certified:
        arm = certificate.arms["full"]
        for line in (f"{arm.contestant} on {arm.task}:", *certificate.verdict):
            asked.say(line)
    asked.say(f"certificate: {page}")


CERTIFICATE_ANALYSIS = AnalysisOnRequest(
    "What a tool contributes, part by part", ("role",), report_certificates
)
