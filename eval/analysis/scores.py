"""The analyses whose tables are those of the scores themselves."""

from __future__ import annotations

from looktwice.eval.analysis.analyses import Analysis
from looktwice.eval.display.score_tables import (
    benchmark_metric_table,
    failure_table,
    reason_table,
    task_table,
    token_table,
)
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable

METRICS_ANALYSIS = Analysis(
    "metrics",
    "The benchmark's own metrics",
    lambda scored: benchmark_metric_table(scored.rows),
    wrap=False,
)
SLICES_ANALYSIS = Analysis(
    "slices",
    "Slices",
    lambda scored: task_table([row for row in scored.rows if row.slice], full=True),
    wrap=False,
)
UNREADABLE_ANALYSIS = Analysis(
    "unreadable",
    "Why answers are unreadable",
    lambda scored: reason_table(scored.scores),
    wrap=False,
)
FAILURES_ANALYSIS = Analysis("failures", "What failed", lambda scored: failure_table(scored.scores))
COST_ANALYSIS = Analysis(
    "cost", "Tokens and cost", lambda scored: token_table(scored.rows), wrap=False
)


def _judge_table(scored: Table) -> TextTable:
    from looktwice.eval.judging.summary import judge_table

    return judge_table(scored.scores)


JUDGES_ANALYSIS = Analysis("judges", "Verdicts of judges", _judge_table)
