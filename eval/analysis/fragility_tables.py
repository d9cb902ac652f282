"""The tables of marker fragility: contestants, styles, pairs that change places, and published rows
beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import isnan
from statistics import fmean
from typing import NamedTuple

from looktwice.eval.analysis.fragility import (
    Flip,
    Fragility,
    StyleShift,
    Variants,
    find_variants,
    fragilities,
    rank_flips,
)
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    estimate_cell,
    format_p,
    number_cell,
    percent,
    table,
    text,
)
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.settings import Reordering, reordering

NOTE = (
    "Every style and codec is compared with the first one on the same samples. Differences have the"
    " interval and p of every paired comparison; a style differs where p is below 0.05 after Holm's"
    " correction over the styles and codecs of the line. The intervals of R and of the best minus"
    " the worst are of a bootstrap that draws the same clusters, samples that share a group or a"
    " picture, for all of them. R is the mean variance of these differences over that of the"
    " default's accuracy (VPBench, 2512.17875): at 1 or more, another marker moves the score as"
    " much as other samples do. `floor` is R of the default against another draw of itself, so"
    " `draws: 2` tells what an unsteady model alone makes; both are those of one draw, which"
    " further draws tell more exactly, and `above the floor` is R less its floor. The best minus"
    " the worst of many styles is above 0 by chance alone, and so is its interval: `identical"
    " styles` is its mean where every cluster's answers are dealt to the styles at random, and p"
    " how often that comes as far. A pair flips where the other one leads; `by samples alone` is"
    " the share of resamples that do that under the default, `in all` that over styles, codecs and"
    " resamples."
)
Published = dict[str, dict[str, dict[str, float]]]
"""Accuracies in percent by task, variant and model."""

FLOOR, ABOVE, ALIKE = "floor\nof R", "above\nthe floor", "identical\nstyles"


def fragility_table(runs: Sequence[RunScores], whole: bool = True) -> TextTable:
    """A line per contestant and task: the default, how much moves it, R, and best minus worst; then
    published ones.

    Without `whole`, as on a terminal: the run's own, without what chance makes.
    """
    columns: tuple[Column[Fragility], ...] = (
        Column("contestant", "contestant", text),
        Column("task", "task", text),
        Column("n", "n"),
        Column("default %", "accuracy", percent),
        Column(
            "differ from\nthe default",
            lambda line: f"{sum(s.significant for s in line.shifts)} of {len(line.shifts)}",
        ),
        Column("R", "ratio", number_cell),
        Column(FLOOR, "floor", "{:.2f}".format),
        Column(ABOVE, "above", number_cell),
        Column("best minus\nworst", "spread", estimate_cell),
        Column(ALIKE, lambda line: f"{percent(line.chance.mean)}\np {format_p(line.chance.p)}"),
        Column("worst", "worst"),
        Column("best", "best"),
    )
    own = table(columns, [line for run in runs for line in fragilities(run)])
    if not whole:
        return own.without(FLOOR, ABOVE, ALIKE)
    spreads = [line for run in runs for line in _published_spreads(read_published(run))]
    return own.above(table(PUBLISHED, spreads)).without_empty() if own.rows else own


class _Spread(NamedTuple):
    """Published accuracies of a model under several styles, in percent."""

    model: str
    task: str
    spread: str
    default: str = ""
    worst: str = ""
    best: str = ""


PUBLISHED: tuple[Column[_Spread], ...] = (
    Column("contestant", lambda line: f"{line.model}, published", text),
    Column("task", "task", text),
    Column("default %", "default"),
    Column("best minus\nworst", "spread"),
    Column("worst", "worst"),
    Column("best", "best"),
)


def style_table(runs: Sequence[RunScores]) -> TextTable:
    """A line per contestant, task, style and codec: accuracy, difference, and how many samples
    change."""
    columns: tuple[Column[tuple[Fragility, StyleShift]], ...] = (
        Column("contestant", lambda line: line[0].contestant, text),
        Column("task", lambda line: line[0].task, text),
        Column("style", lambda line: line[1].name, text),
        Column("accuracy %", lambda line: line[1].accuracy, percent),
        Column("difference", lambda line: line[1].delta, estimate_cell),
        Column("wrong\nto right", lambda line: line[1].delta.better),
        Column("right\nto wrong", lambda line: line[1].delta.worse),
        Column("p", lambda line: line[1].delta.p, format_p),
        Column("p\n(Holm)", lambda line: line[1].p_holm, format_p),
        Column("differs", lambda line: "yes" if line[1].significant else ""),
    )
    measured = [line for run in runs for line in fragilities(run)]
    return table(columns, [(line, shift) for line in measured for shift in line.shifts])


FLIPS: tuple[Column[Flip], ...] = (
    Column("task", "task", text),
    Column("leads", "first", text),
    Column("over", "second", text),
    Column("by, points", "lead", percent),
    Column("styles that\nflip them", lambda flip: f"{flip.styles} of {flip.of}"),
    Column("by samples\nalone %", "chance", percent),
    Column("in all %", "flipped", percent),
)


def flip_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for every two contestants on a task: who leads under the default, and how often that
    turns round."""
    flips = list[Flip]()
    for run in runs:
        tasks: dict[str, list[Variants]] = defaultdict(list)
        for variants in find_variants(run):
            tasks[variants.task].append(variants)
        for contestants in tasks.values():
            flips += rank_flips(contestants)
    return table(FLIPS, flips)


class _Moves(NamedTuple):
    """How the ranks of models under a style differ from those under the default."""

    whose: str
    task: str
    style: str
    models: int
    change: Reordering


RANKS: tuple[Column[_Moves], ...] = (
    Column("whose", "whose", text),
    Column("task", "task", text),
    Column("style", "style", text),
    Column("models", "models"),
    Column("pairs\nflipped", "change.flipped"),
    Column("pairs\ntied", "change.tied"),
    Column("models\nmoved", "change.moved"),
    Column("largest\nmove", "change.furthest"),
    Column("tau-b", lambda line: None if isnan(line.change.tau) else f"{line.change.tau:.2f}"),
)


def rank_table(runs: Sequence[RunScores]) -> TextTable:
    """A line per task and style: how the ranks of the models differ from those under the default.

    Those of the run, where it has three or more, and the published ones.
    """
    lines = list[_Moves]()
    for run in runs:
        own: Published = defaultdict(lambda: defaultdict(dict))
        for variants in find_variants(run):
            means = 100 * variants.values.mean(axis=1)
            for name, accuracy in zip(variants.names, means.tolist(), strict=True):
                own[variants.task][name][variants.contestant] = accuracy
        if own:
            lines += [*_moves(own, "this run"), *_moves(read_published(run), "published")]
    return table(RANKS, lines)


def read_published(run: RunScores) -> Published:
    """The rows of `published:` that are named like variants, "MODEL [STYLE]", by task, style and
    model."""
    published: Published = defaultdict(lambda: defaultdict(dict))
    for name, row in (run.config.get("published") or {}).items():
        model, bracket, style = str(name).partition(" [")
        for task, value in (row.get("accuracy") or {}).items() if bracket else ():
            published[task][style.removesuffix("]")][model] = float(value)
    return published


def _published_spreads(published: Published) -> Iterator[_Spread]:
    """A line per task and model, and after those of a task their mean and the largest."""
    for task, styles in published.items():
        models = dict.fromkeys(model for accuracies in styles.values() for model in accuracies)
        spreads = list[float]()
        for model in models if not task.endswith(" rank") else ():
            mine = {style: each[model] for style, each in styles.items() if model in each}
            worst, best = min(mine, key=mine.__getitem__), max(mine, key=mine.__getitem__)
            default = f"{mine['default']:.1f}" if "default" in mine else ""
            spreads.append(mine[best] - mine[worst])
            yield _Spread(model, task, f"{spreads[-1]:.1f}", default, worst, best)
        if len(spreads) > 1:
            mean = f"{fmean(spreads):.1f}\nlargest {max(spreads):.1f}"
            yield _Spread(f"{len(spreads)} models", task, mean)


def _moves(accuracies: Published, whose: str) -> Iterator[_Moves]:
    for task, styles in accuracies.items():
        sign = -1 if task.endswith(" rank") else 1  # of ranks the smaller is better
        first, *others = (
            {model: sign * value for model, value in mine.items()} for mine in styles.values()
        )
        for name, other in zip([*styles][1:], others, strict=True):
            if len(first) > 2:
                yield _Moves(whose, task, name, len(first), reordering(first, other))
