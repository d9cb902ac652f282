"""Every analysis of scored runs, in the order of the report; another one is a line of ANALYSES.

The report shows all that have something to say, `looktwice analyse RUN NAME` one of them, and so
does Python: `analysis("pairs").tables(score_table(run))[0].table.markdown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from looktwice.eval.adaptive.tables import saved_races
from looktwice.eval.analysis.agent_looks import (
    LookSummary,
    look_table,
    summarize_looks,
    turn_count_table,
)
from looktwice.eval.analysis.contestants import (
    COMPARISON_NOTE,
    ORACLE_NOTE,
    PAIR_NOTE,
    comparison_table,
    oracle_table,
    pair_table,
)
from looktwice.eval.analysis.factors import factor_table
from looktwice.eval.analysis.fragility_tables import (
    NOTE as FRAGILITY_NOTE,
    flip_table,
    fragility_table,
    rank_table,
    style_table,
)
from looktwice.eval.analysis.looking.contribution import contribution_tables
from looktwice.eval.analysis.looking.measured_and_right import measurement_table
from looktwice.eval.analysis.looking.routing import risk_table, route_table
from looktwice.eval.analysis.looking.turns import stopping_table, turn_table
from looktwice.eval.analysis.references import complementarity_table, guess_table, published_table
from looktwice.eval.analysis.steadiness import (
    DRAW_NOTE,
    ORDER_NOTE,
    POSITION_NOTE,
    draw_table,
    order_table,
    position_table,
    spread_table,
)
from looktwice.eval.analysis.sweeps import effect_note, sweep_table
from looktwice.eval.display.score_tables import (
    benchmark_metric_table,
    failure_table,
    reason_table,
    task_table,
    token_table,
)
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.judging.summary import judge_table
from looktwice.eval.psychometrics.thresholds import (
    NOTE as THRESHOLD_NOTE,
    crossed_tables,
    threshold_table,
)
from looktwice.eval.records.schema import RunError
from looktwice.eval.scoring.measurements import TurnsOfArm, read_turns
from looktwice.pipelines.config.classes import did_you_mean


@dataclass(frozen=True)
class ReportTable:
    """A table under its own heading, `facts` and a `note` above it; `wrap` allows line breaks
    inside long words."""

    title: str
    table: TextTable
    wrap: bool = False
    note: str = ""
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Analysis:
    """One analysis: its name on the command line, its title, and the note above its table.

    `find` gives the table, or several under titles of their own. `unchanged` names above it the
    stages that changed no request, which explain a difference of zero.
    """

    name: str
    title: str
    find: Callable[[Table], TextTable | Iterable[ReportTable]]
    note: str | Callable[[Table], str] = ""
    wrap: bool = True
    unchanged: bool = False

    def tables(self, scored: Table) -> list[ReportTable]:
        """The tables that have lines."""
        found = self.find(scored)
        if not isinstance(found, TextTable):
            return [part for part in found if part.table.rows]
        if not found.rows:
            return []
        note = self.note if isinstance(self.note, str) else self.note(scored)
        zeros = [line.partition(": ") for line in scored.unchanged if self.unchanged]
        facts = tuple((kind, line) for kind, _, line in zeros)
        return [ReportTable(self.title, found, self.wrap, note, facts)]


def _looks(scored: Table) -> list[LookSummary]:
    return [arm for run in scored.scores for arm in summarize_looks(run)]


def _turns(scored: Table) -> list[TurnsOfArm]:
    return [arm for run in scored.scores for arm in read_turns(run)]


def _crossed(scored: Table) -> Iterator[ReportTable]:
    for title, table in crossed_tables(scored.scores, scored.by):
        yield ReportTable(title, table)


def _contribution(scored: Table) -> Iterator[ReportTable]:
    for run in scored.scores:
        for title, note, table in contribution_tables(run):
            yield ReportTable(title, table, True, note)


ANALYSES = (
    Analysis(
        "baseline",
        "Against the baseline",
        lambda scored: comparison_table(scored.rows),
        COMPARISON_NOTE,
        unchanged=True,
    ),
    Analysis("effects", "Effect of each factor", sweep_table, effect_note, unchanged=True),
    Analysis("gap", "Why the numbers differ", factor_table),
    Analysis(
        "fragility",
        "How fragile the marker makes it",
        lambda scored: fragility_table(scored.scores),
        FRAGILITY_NOTE,
    ),
    Analysis(
        "flips", "Who would lead under another style", lambda scored: flip_table(scored.scores)
    ),
    Analysis("ranks", "Ranks under other styles", lambda scored: rank_table(scored.scores)),
    Analysis("styles", "Every style and codec", lambda scored: style_table(scored.scores)),
    Analysis(
        "race",
        "The race",
        lambda scored: saved_races(scored.scores)[0],
        lambda scored: saved_races(scored.scores)[1],
    ),
    Analysis(
        "thresholds", "Thresholds", lambda scored: threshold_table(scored.scores), THRESHOLD_NOTE
    ),
    Analysis("crossed", "Two fields crossed, of --by A,B", _crossed),
    Analysis(
        "metrics",
        "The benchmark's own metrics",
        lambda scored: benchmark_metric_table(scored.rows),
        wrap=False,
    ),
    Analysis("looks", "What an agent's looks changed", lambda scored: look_table(_looks(scored))),
    Analysis("tool", "What the tool contributes", _contribution),
    Analysis(
        "look_turns",
        "Accuracy by turns that looked",
        lambda scored: turn_count_table(_looks(scored)),
        wrap=False,
    ),
    Analysis("turns", "What further turns changed", lambda scored: turn_table(_turns(scored))),
    Analysis("stopping", "When to stop", lambda scored: stopping_table(_turns(scored))),
    Analysis(
        "risk",
        "Right of what is answered at all",
        lambda scored: risk_table(scored.scores),
        wrap=False,
    ),
    Analysis("routing", "Sent on by confidence", lambda scored: route_table(scored.scores)),
    Analysis(
        "measured",
        "What was measured, and being right",
        lambda scored: measurement_table(scored.scores),
    ),
    Analysis("spread", "Spread over variants", spread_table),
    Analysis(
        "pairs",
        "Contestants with one another",
        lambda scored: pair_table(scored.scores),
        PAIR_NOTE,
        wrap=False,
    ),
    Analysis(
        "oracle",
        "All contestants together",
        lambda scored: oracle_table(scored.scores),
        ORACLE_NOTE,
        wrap=False,
    ),
    Analysis(
        "order",
        "Would the order hold",
        lambda scored: order_table(scored.scores),
        ORDER_NOTE,
        wrap=False,
    ),
    Analysis("draws", "Draws", lambda scored: draw_table(scored.scores), DRAW_NOTE),
    Analysis(
        "letters",
        "Letters chosen",
        lambda scored: position_table(scored.scores),
        POSITION_NOTE,
        wrap=False,
    ),
    Analysis(
        "slices",
        "Slices",
        lambda scored: task_table([row for row in scored.rows if row.slice], full=True),
        wrap=False,
    ),
    Analysis(
        "unreadable",
        "Why answers are unreadable",
        lambda scored: reason_table(scored.scores),
        wrap=False,
    ),
    Analysis("failures", "What failed", lambda scored: failure_table(scored.scores)),
    Analysis("guesses", "Guesses", lambda scored: guess_table(scored.scores), wrap=False),
    Analysis("judges", "Verdicts of judges", lambda scored: judge_table(scored.scores)),
    Analysis(
        "specialists",
        "Specialists and MLLMs",
        lambda scored: complementarity_table(scored.scores),
        wrap=False,
    ),
    Analysis(
        "published",
        "Beside what was published",
        lambda scored: published_table(scored.scores, scored.rows),
        wrap=False,
    ),
    Analysis("cost", "Tokens and cost", lambda scored: token_table(scored.rows), wrap=False),
)


def analysis(name: str) -> Analysis:
    """The analysis of this name. Raises RunError, which says what there is."""
    named = {each.name: each for each in ANALYSES}
    if name not in named:
        hint = did_you_mean(name, named) or f"; there are {', '.join(named)}"
        raise RunError(f"no analysis is named {name!r}{hint}")
    return named[name]
