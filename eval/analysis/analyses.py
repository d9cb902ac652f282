"""Every analysis of scored runs, in the order of the report; another one is a line of ANALYSES.

The report shows all that have something to say, `looktwice analyse RUN NAME` one of them, and so
does Python: `analysis("pairs").tables(score_table(run))[0].table.markdown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import TypeVar

from looktwice.eval.adaptive.race import saved_races
from looktwice.eval.analysis import contestants, fragility, gap, ranks, steadiness
from looktwice.eval.analysis.agent_looks import LOOKS, TURNS, summarize_looks, turn_counts
from looktwice.eval.analysis.factors import effect_note, sweep_table
from looktwice.eval.analysis.looking import measured, turns
from looktwice.eval.analysis.looking.contribution import certificates, contribution_table
from looktwice.eval.display.score_tables import (
    benchmark_metric_table,
    failure_table,
    reason_table,
    task_table,
    token_table,
)
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import Columns, TextTable, table
from looktwice.eval.judging.summary import judge_table
from looktwice.eval.psychometrics import thresholds
from looktwice.eval.records.schema import RunError
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.config.classes import did_you_mean

Line = TypeVar("Line")


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

    `find` gives the table, or several under titles of their own. `facts` stand above it, such as
    what all its lines have in common; then, if `unchanged`, the stages that changed no request,
    which explain a difference of zero. `needs` says what a run must have, where that is more than
    some answers.
    """

    name: str
    title: str
    find: Callable[[Table], TextTable | Iterable[ReportTable]]
    note: str | Callable[[Table], str] = ""
    wrap: bool = True
    unchanged: bool = False
    needs: str = ""
    facts: Callable[[Table], Iterable[tuple[str, str]]] = lambda _: ()

    def tables(self, scored: Table) -> list[ReportTable]:
        """The tables that have lines."""
        shown = self.find(scored)
        if not isinstance(shown, TextTable):
            return [part for part in shown if part.table.rows]
        if not shown.rows:
            return []
        note = self.note if isinstance(self.note, str) else self.note(scored)
        facts = [*self.facts(scored)]
        for line in scored.unchanged if self.unchanged else ():
            kind, _, sentence = line.partition(": ")
            facts.append((kind, sentence))
        return [ReportTable(self.title, shown, self.wrap, note, tuple(facts))]


def lines(
    columns: Columns[Line],
    measure: Callable[[RunScores], Iterable[Line]],
    *,
    empty: bool = True,
    same: str = "",
) -> Callable[[Table], TextTable]:
    """Makes the table of the lines that `measure` finds in each run: without empty columns unless
    `empty`, and without the column `same` where it says the same in every line."""

    def find(scored: Table) -> TextTable:
        shown = table(columns, [line for run in scored.scores for line in measure(run)])
        shown = shown if empty else shown.without_empty()
        return shown.without_same(same) if same else shown

    return find


def _contribution(scored: Table) -> Iterator[ReportTable]:
    for run in scored.scores:
        for certificate in certificates(run):
            title = f"What the tool contributes on {certificate.arms['full'].task}"
            shown, note = contribution_table(certificate, run), " ".join(certificate.verdict)
            yield ReportTable(title, shown, True, note)


ANALYSES = (
    Analysis(
        "baseline",
        "Against the baseline",
        contestants.comparison_table,
        contestants.COMPARISON_NOTE,
        unchanged=True,
        facts=contestants.comparison_facts,
    ),
    Analysis("effects", "Effect of each factor", sweep_table, effect_note, unchanged=True),
    Analysis("gap", "Why the numbers differ", gap.factor_table),
    Analysis(
        "fragility",
        "How fragile the marker makes it",
        fragility.fragility_table,
        fragility.NOTE,
        needs="a study with `fragility:`",
    ),
    Analysis(
        "flips",
        "Who would lead under another style",
        ranks.flip_table,
        needs="a study with `fragility:` and two models",
    ),
    Analysis(
        "ranks",
        "Ranks under other styles",
        lines(ranks.RANKS, ranks.rank_moves),
        needs="a study with `fragility:` and three models",
    ),
    Analysis(
        "styles",
        "Every style and codec",
        lines(fragility.STYLES, fragility.style_shifts),
        needs="a study with `fragility:`",
    ),
    Analysis(
        "race",
        "The race",
        lambda scored: saved_races(scored.scores)[0],
        lambda scored: saved_races(scored.scores)[1],
    ),
    Analysis(
        "thresholds",
        "Thresholds",
        lambda scored: thresholds.threshold_table(scored.scores),
        thresholds.NOTE,
    ),
    Analysis(
        "crossed",
        "Two fields crossed, of --by A,B",
        lambda scored: starmap(ReportTable, thresholds.crossed_tables(scored.scores, scored.by)),
    ),
    Analysis(
        "metrics",
        "The benchmark's own metrics",
        lambda scored: benchmark_metric_table(scored.rows),
        wrap=False,
    ),
    Analysis(
        "looks",
        "What an agent's looks changed",
        lines(LOOKS, summarize_looks, empty=False, same="task"),
    ),
    Analysis("tool", "What the tool contributes", _contribution),
    Analysis(
        "look_turns",
        "Accuracy by turns that looked",
        lines(TURNS, turn_counts, same="task"),
        wrap=False,
    ),
    Analysis(
        "turns",
        "What further turns changed",
        lines(turns.TURN_COLUMNS, turns.turn_lines, empty=False, same="task"),
    ),
    Analysis(
        "stopping", "When to stop", lines(turns.STOPPING_COLUMNS, turns.stopping_rules, same="task")
    ),
    Analysis(
        "risk",
        "Right of what is answered at all",
        lines(measured.RISK_COLUMNS, measured.risks),
        wrap=False,
    ),
    Analysis("routing", "Sent on by confidence", lines(measured.ROUTE_COLUMNS, measured.routes)),
    Analysis("measured", "What was measured, and being right", measured.measurement_table),
    Analysis(
        "seen",
        "Was the mark seen",
        lines(turns.SEEN_COLUMNS, turns.seen_marks, empty=False),
        turns.SEEN_NOTE,
        needs="a task and `MarkQuestions` of it",
    ),
    Analysis("spread", "Spread over variants", steadiness.spread_table),
    Analysis(
        "pairs",
        "Contestants with one another",
        contestants.pair_table,
        contestants.PAIR_NOTE,
        wrap=False,
    ),
    Analysis(
        "oracle",
        "All contestants together",
        contestants.oracle_table,
        contestants.ORACLE_NOTE,
        wrap=False,
    ),
    Analysis(
        "order",
        "Would the order hold",
        lines(ranks.ORDERS, ranks.find_orders, empty=False),
        ranks.ORDER_NOTE,
        wrap=False,
    ),
    Analysis(
        "draws",
        "Draws",
        lines(steadiness.DRAWS, steadiness.find_draws, empty=False),
        steadiness.DRAW_NOTE,
    ),
    Analysis(
        "letters", "Letters chosen", steadiness.position_table, steadiness.POSITION_NOTE, wrap=False
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
    Analysis(
        "guesses", "Guesses", lines(contestants.GUESSES, contestants.find_guesses), wrap=False
    ),
    Analysis("judges", "Verdicts of judges", lambda scored: judge_table(scored.scores)),
    Analysis(
        "specialists",
        "Specialists and MLLMs",
        lines(contestants.SPECIALISTS, contestants.specialist_pairs),
        wrap=False,
    ),
    Analysis("people", "Beside people on the same items", gap.ceiling_table, wrap=False),
    Analysis("published", "Beside what was published", gap.published_table, wrap=False),
    Analysis("published-gaps", "Less what was published, points", gap.published_gaps, wrap=False),
    Analysis("cost", "Tokens and cost", lambda scored: token_table(scored.rows), wrap=False),
)


def analysis(name: str) -> Analysis:
    """The analysis of this name. Raises RunError, which says what there is."""
    named = {part.name: part for part in ANALYSES}
    if name not in named:
        hint = did_you_mean(name, named) or f"; there are {', '.join(named)}"
        raise RunError(f"no analysis is named {name!r}{hint}")
    return named[name]
