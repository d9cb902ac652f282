"""The registry of analyses of scored runs, in the order of the report; add one as a line of
FIRST_ANALYSES or FURTHER_ANALYSES, or in an extension.

The report shows all analyses that have a result; `looktwice analyse RUN NAME` shows one, as does
`get_analysis("pairs").tables(score_table(run))[0].table.markdown` in Python. An analysis is
imported only if the runs have the traits that it needs (`find_traits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from looktwice.eval.display.score_tables import (
    benchmark_metric_table,
    failure_table,
    reason_table,
    task_table,
    token_table,
)
from looktwice.eval.display.table import Table, cache_measure
from looktwice.eval.display.text_tables import Columns, TextTable, table
from looktwice.eval.page.data import PageGrid, PageLines
from looktwice.eval.records.schema import RunError
from looktwice.eval.scoring.columns import parse_values
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.config.classes import suggest_names
from looktwice.pipelines.extensions import Extension, list_extensions

if TYPE_CHECKING:
    from looktwice.eval.analysis.requested import AnalysisRequest

Line = TypeVar("Line")
ON_REQUEST_NEED = "asked"
"""The need that marks an analysis as run on request only, never for a report."""


@dataclass(frozen=True)
class ReportTable:
    """A table under its own heading, with `facts` and a `note` above it; `wrap` allows line breaks
    inside long words."""

    title: str
    table: TextTable
    wrap: bool = False
    note: str = ""
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Analysis:
    """One analysis: its name on the command line, its title, and the note above its table.

    `find_tables` returns the table, or several with titles of their own. `facts` are shown above
    it, for example the columns that are equal in all lines; then, if `lists_unchanged`, the stages
    that changed no request, which explain a difference of zero. `needs` describes what a run must
    have beyond answers. `ending` returns the tables and sentences that are printed at the end of a
    run, `curves` and `maps` the charts of the page, and `sentences` the findings of a run that
    chose its questions. `ask` handles a request with `settings`."""

    name: str
    title: str
    find_tables: Callable[[Table], TextTable | Iterable[ReportTable]]
    note: str | Callable[[Table], str] = ""
    wrap: bool = True
    lists_unchanged: bool = False
    needs: str = ""
    facts: Callable[[Table], Iterable[tuple[str, str]]] = lambda _: ()
    ending: Callable[[Table], TextTable | Iterable[ReportTable | str]] | None = None
    curves: Callable[[Table], Iterable[PageLines]] = lambda _: ()
    maps: Callable[[Table], Iterable[PageGrid]] = lambda _: ()
    sentences: Callable[[RunScores], Iterable[str]] = lambda _: ()
    settings: tuple[str, ...] = ()
    ask: Callable[[AnalysisRequest], None] | None = None

    def answer(self, request: AnalysisRequest) -> None:
        """Show the tables, or call `ask` if the request has settings or there are no tables."""
        tables = [shown for shown in self.tables(request.scored) if shown.table.rows]
        if self.ask is not None and (request.settings or not tables):
            self.ask(request)
            return
        if not tables:
            needs = f"; it needs {self.needs}" if self.needs else ""
            request.say(f"{self.name}: nothing to show for these runs{needs}")
        for shown in tables:
            facts = (f"{name}: {value}" for name, value in shown.facts)
            request.show(shown.table, shown.title, "\n".join((*facts, shown.note)))

    def tables(self, scored: Table) -> list[ReportTable]:
        """Return the tables that have lines."""
        shown = self.find_tables(scored)
        if not isinstance(shown, TextTable):
            return [part for part in shown if part.table.rows]
        if not shown.rows:
            return []
        note = self.note if isinstance(self.note, str) else self.note(scored)
        facts = [*self.facts(scored)]
        for line in scored.unchanged if self.lists_unchanged else ():
            kind, _, sentence = line.partition(": ")
            facts.append((kind, sentence))
        return [ReportTable(self.title, shown, self.wrap, note, tuple(facts))]


def make_table_builder(
    columns: Columns[Line],
    measure: Callable[[RunScores], Iterable[Line]],
    *,
    keep_empty: bool = True,
    omit_constant: str = "",
) -> Callable[[Table], TextTable]:
    """Return a function that makes a table with a line for each result of `measure` on each run.
    Columns without values are left out unless `keep_empty`; the column titled `omit_constant` is
    left out if all its values are equal."""

    def find(scored: Table) -> TextTable:
        shown = table(columns, [line for run in scored.scores for line in measure(run)])
        shown = shown if keep_empty else shown.without_empty()
        return shown.without_constant(omit_constant) if omit_constant else shown

    return find


MEASURED_NEED, ARMS_NEED, SPECIALISTS_NEED = "measured", "arms", "specialists"
NON_SPECIALIST_ROOMS = ("pipelines.", "prompting.", "eval.")
"""The rooms whose classes are not specialists; a class of a plugin may be a specialist."""


def make_curve_builder(*curve_makers: Callable[[RunScores, str], Iterable[PageLines]]) -> Any:
    """Return a function that yields, for each run and task, the curves that each function in
    `curve_makers` yields."""

    def make_all_curves(scored: Table) -> Iterator[PageLines]:
        for make_curves in curve_makers:
            for run in scored.scores:
                for task in dict.fromkeys(arm.point.task for arm in run.points):
                    yield from make_curves(run, task)

    return make_all_curves


def _make_entry(place: str, title: str, *needs: str) -> Extension:
    return Extension(f"looktwice.eval.analysis.{place}", title, needs)


FIRST_ANALYSES = {
    "baseline": _make_entry("contestants:BASELINE_ANALYSIS", "Against the baseline", ARMS_NEED),
    "effects": _make_entry(
        "factors:EFFECTS_ANALYSIS", "Effect of each factor", "key:sweep|key:each"
    ),
    "metrics": _make_entry("analyses:METRICS_ANALYSIS", "The benchmark's own metrics"),
}
"""The analyses that the report shows before those of extensions."""

FURTHER_ANALYSES = {
    "pairs": _make_entry("contestants:PAIRS_ANALYSIS", "Pairs of contestants", ARMS_NEED),
    "oracle": _make_entry("contestants:ORACLE_ANALYSIS", "All contestants together", ARMS_NEED),
    "letters": _make_entry("letters:LETTERS_ANALYSIS", "Letters chosen"),
    "slices": _make_entry("analyses:SLICES_ANALYSIS", "Slices"),
    "unreadable": _make_entry("analyses:UNREADABLE_ANALYSIS", "Why answers are unreadable"),
    "failures": _make_entry("analyses:FAILURES_ANALYSIS", "What failed"),
    "guesses": _make_entry("contestants:GUESSED_ANALYSIS", "Guesses", SPECIALISTS_NEED),
    "judges": _make_entry("judges:JUDGES_ANALYSIS", "Verdicts of judges", "judges"),
    "specialists": _make_entry(
        "contestants:AGAINST_SPECIALISTS_ANALYSIS", "Specialists and MLLMs", ARMS_NEED
    ),
    "cost": _make_entry("analyses:COST_ANALYSIS", "Tokens and cost"),
}


def list_analyses() -> dict[str, Extension]:
    """Return every analysis by name, in the order of the report."""
    return FIRST_ANALYSES | list_extensions("analyses") | FURTHER_ANALYSES


def find_traits(scored: Table) -> set[str]:
    """Return the traits of the runs that analyses may need: "key:K" for each key of the studies,
    "class:C" and "room:R" for each class of a task or stage and its room, "arms" for several,
    "specialists", "turns", "measured", "draws", "variants", "judges" and "by"."""
    return set[str]({"by"} if scored.by else ()).union(*map(_collect_traits, scored.scores))


@cache_measure
def _collect_traits(run: RunScores) -> set[str]:
    traits = {f"key:{key}" for key, value in run.config.items() if value is not None}
    traits |= {"judges"} if run.judged.lines else set()
    traits |= {MEASURED_NEED} if _is_measured(run) else set()
    traits |= {ARMS_NEED} if len(run.points) > 1 else set()
    for arm in run.points:
        traits |= {"draws"} if arm.point.draws > 1 else set()
        traits |= {"variants"} if " [" in arm.contestant else set()
        traits |= {"turns"} if (arm.columns["calls"] > 1).any() else set()
        for use in _list_classes(arm.point.spec):
            traits |= {f"class:{use}", f"room:{use.rpartition('.')[0]}"}
            traits |= set() if use.startswith(NON_SPECIALIST_ROOMS) else {SPECIALISTS_NEED}
    return traits


def _is_measured(run: RunScores) -> bool:
    """Return whether any measurement differs between the answers of the run."""
    first = dict[str, Any]()
    texts = (text for arm in run.points for text in arm.columns.count_by_measurements())
    measured = (pair for text in texts for pair in parse_values(text).items())
    return any(first.setdefault(name, value) != value for name, value in measured)


def _list_classes(node: object) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(node.get("use"), str):
            yield node["use"]
        node = [*node.values()]
    for inner in node if isinstance(node, list) else ():
        yield from _list_classes(inner)


def find_analyses(scored: Table) -> Iterator[Analysis]:
    """Yield the analyses that may have results for these runs, in the order of the report.

    Their needs are traits of the runs, or "file:PATTERN", a file in a run folder.
    """
    traits = find_traits(scored)

    def is_met(need: str) -> bool:
        kind, _, pattern = need.partition(":")
        if kind == "file":
            return any(any(run.folder.path.glob(pattern)) for run in scored.scores)
        return need in traits

    for extension in list_analyses().values():
        if extension.meets_needs(is_met):
            yield extension.open()


def get_analysis(name: str) -> Analysis:
    """Return the analysis of this name. Raises RunError, which lists the names, for an unknown
    one."""
    named = list_analyses()
    if name not in named:
        hint = suggest_names(name, named) or f"; the analyses are: {', '.join(named)}"
        raise RunError(f"no analysis is named {name!r}{hint}")
    found: Analysis = named[name].open()
    return found


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
