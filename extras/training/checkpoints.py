"""Certificates for the checkpoints of a model in training: a study with its placebo arms is run
with each checkpoint, and the tool's contribution is reported together with the accuracies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from looktwice.eval.display.table import score_table
from looktwice.eval.records.records import RunError
from looktwice.eval.runs.options import RunOptions
from looktwice.eval.runs.study import Study
from looktwice.extras.looking.contribution import find_certificates, format_certificates
from looktwice.pipelines.config.plan import load_plan
from looktwice.pipelines.config.shipped import find_config
from looktwice.pipelines.disk import write_file

PAGE_NAME = "certificate.md"


@dataclass(frozen=True)
class Checkpoint:
    """The run of a study with one checkpoint: the run's folder, the accuracies and gains by name,
    and the sentences of the certificates."""

    run: Path
    figures: Mapping[str, float]
    verdict: Sequence[str]


def certify_checkpoint(
    study: str | Path,
    overrides: Sequence[str],
    out: Path,
    name: str,
    options: RunOptions | None = None,
) -> Checkpoint:
    """Run all arms of a study in the folder `out/name`, and write the certificate there.

    `overrides` set the checkpoint, such as `models.policy.model=FOLDER`. A study with contestants
    named `without`, `full` and a control, as in `tool_contribution`, gets a certificate; for other
    contestants only accuracies are reported. A repeated call resumes a run that was stopped. Raises
    ConfigError, TaskError and RunError.
    """
    plan = load_plan(find_config(study), [*overrides, f"name={name}"])
    summary = Study(plan, out, options or RunOptions())()
    if summary.why or summary.is_stopped:
        why = summary.why or "it was stopped"
        raise RunError(f"{out / name}: {why}; the same call resumes it")
    table = score_table([out / name], plan=plan)
    scored, figures = table.scores[0], dict[str, float]()
    for row in table.rows:
        if row.metric == "accuracy" and row.point and not row.slice:
            values = {"": row.value, " low": row.low, " high": row.high}
            _add_estimate(figures, f"{row.task}/{row.contestant}", values)
    found, verdict = find_certificates(scored), list[str]()
    for certificate in found:
        task, gain = certificate.arms["full"].task, certificate.gain
        estimates = {"gain": gain}
        for role in certificate.arms:
            if role not in ("full", "without"):
                estimates[f"full over {role}"] = certificate.compute_difference("full", role)
        for label, estimate in estimates.items():
            values = {"": estimate.value, " low": estimate.low, " high": estimate.high}
            _add_estimate(figures, f"{task}/{label}", values)
        verdict += certificate.verdict
    if found:
        write_file(out / name / PAGE_NAME, format_certificates(scored, found))
    return Checkpoint(out / name, figures, verdict)


def _add_estimate(figures: dict[str, float], name: str, values: Mapping[str, float | None]) -> None:
    """Add a value and the ends of its 95 % interval to `figures`, unless they are None."""
    figures |= {f"{name}{end}": float(v) for end, v in values.items() if v is not None}
