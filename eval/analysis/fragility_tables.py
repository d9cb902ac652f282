"""The tables of marker fragility: contestants, styles, pairs that change places, and published rows
beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from looktwice.eval.analysis.fragility import (
    Bounded,
    Flip,
    Fragility,
    Variants,
    find_variants,
    measure_fragility,
    rank_flips,
)
from looktwice.eval.display.text_tables import TextTable, estimate_cell, format_p, percent
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.settings import reordering

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


def fragility_table(runs: Sequence[RunScores], published: bool = True) -> TextTable:
    """A line per contestant and task: the default, how much moves it, R, and best minus worst; then
    published ones."""
    measured = [fragility for run in runs for fragility in _measured(run)]
    lines: list[tuple[str, ...]] = [
        (
            line.contestant,
            line.task,
            str(line.n),
            percent(line.accuracy),
            f"{sum(shift.significant for shift in line.shifts)} of {len(line.shifts)}",
            _shown(line.ratio, 1),
            "" if line.floor is None else f"{line.floor:.2f}",
            _shown(line.above, 1),
            _shown(line.spread, 100),
            f"{percent(line.chance.mean)}\np {format_p(line.chance.p)}",
            line.worst,
            line.best,
        )
        for line in measured
    ]
    header = (
        "contestant",
        "task",
        "n",
        "default %",
        "differ from\nthe default",
        "R",
        "floor\nof R",
        "above\nthe floor",
        "best minus\nworst",
        "identical\nstyles",
        "worst",
        "best",
    )
    if measured and published:
        lines += [line for run in runs for line in _published_spreads(read_published(run))]
    return TextTable(header, lines, text_columns=2).without_empty()


def style_table(runs: Sequence[RunScores]) -> TextTable:
    """A line per contestant, task, style and codec: accuracy, difference, and how many samples
    change."""
    lines = [
        (
            one.contestant,
            one.task,
            shift.name,
            percent(shift.accuracy),
            estimate_cell(shift.delta),
            str(shift.delta.better),
            str(shift.delta.worse),
            format_p(shift.delta.p),
            format_p(shift.p_holm),
            "yes" if shift.significant else "",
        )
        for run in runs
        for one in _measured(run)
        for shift in one.shifts
    ]
    header = (
        "contestant",
        "task",
        "style",
        "accuracy %",
        "difference",
        "wrong\nto right",
        "right\nto wrong",
        "p",
        "p\n(Holm)",
        "differs",
    )
    return TextTable(header, lines, text_columns=3)


def flip_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for every two contestants on a task: who leads under the default, and how often that
    turns round."""
    lines = [
        (
            flip.task,
            flip.first,
            flip.second,
            percent(flip.lead),
            f"{flip.styles} of {flip.of}",
            percent(flip.chance),
            percent(flip.flipped),
        )
        for run in runs
        for flip in _flips(run)
    ]
    header = (
        "task",
        "leads",
        "over",
        "by, points",
        "styles that\nflip them",
        "by samples\nalone %",
        "in all %",
    )
    return TextTable(header, lines, text_columns=3)


def rank_table(runs: Sequence[RunScores]) -> TextTable:
    """A line per task and style: how the ranks of the models differ from those under the default.

    Those of the run, where it has three or more, and the published ones.
    """
    lines: list[tuple[str, ...]] = []
    for run in runs:
        own: Published = defaultdict(lambda: defaultdict(dict))
        for each in find_variants(run):
            for name, accuracy in zip(each.names, each.values.mean(axis=1), strict=True):
                own[each.task][name][each.contestant] = 100 * float(accuracy)
        if own:
            lines += [*_rank_lines(own, "this run"), *_rank_lines(read_published(run), "published")]
    header = (
        "whose",
        "task",
        "style",
        "models",
        "pairs\nflipped",
        "pairs\ntied",
        "models\nmoved",
        "largest\nmove",
        "tau-b",
    )
    return TextTable(header, lines, text_columns=3)


def read_published(run: RunScores) -> Published:
    """The rows of `published:` that are named like variants, "MODEL [STYLE]", by task, style and
    model."""
    found: Published = defaultdict(lambda: defaultdict(dict))
    for name, row in (run.config.get("published") or {}).items():
        model, bracket, style = str(name).partition(" [")
        for task, value in (row.get("accuracy") or {}).items() if bracket else ():
            found[task][style.removesuffix("]")][model] = float(value)
    return found


def _published_spreads(published: Published) -> list[tuple[str, ...]]:
    """A line per task and model, and after those of a task their mean and the largest."""
    lines: list[tuple[str, ...]] = []
    for task, styles in published.items():
        models = dict.fromkeys(model for each in styles.values() for model in each)
        spreads = list[float]()
        for model in models if not task.endswith(" rank") else ():
            mine = {style: each[model] for style, each in styles.items() if model in each}
            worst, best = min(mine, key=mine.__getitem__), max(mine, key=mine.__getitem__)
            default = f"{mine['default']:.1f}" if "default" in mine else ""
            spreads.append(mine[best] - mine[worst])
            lines.append(
                (
                    f"{model}, published",
                    task,
                    "",
                    default,
                    *[""] * 4,
                    f"{spreads[-1]:.1f}",
                    "",
                    worst,
                    best,
                )
            )
        if len(spreads) > 1:
            said = f"{fmean(spreads):.1f}\nlargest {max(spreads):.1f}"
            lines.append((f"{len(spreads)} models, published", task, *[""] * 6, said, "", "", ""))
    return lines


def _rank_lines(found: Published, whose: str) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for task, styles in found.items():
        sign = -1 if task.endswith(" rank") else 1  # of ranks the smaller is better
        signed = {
            name: {m: sign * value for m, value in each.items()} for name, each in styles.items()
        }
        first, *others = signed
        for name in others if len(signed[first]) > 2 else ():
            change = reordering(signed[first], signed[name])
            counts = (len(signed[first]), *change[:-1])
            lines.append(
                (
                    whose,
                    task,
                    name,
                    *map(str, counts),
                    f"{change.tau:.2f}" if change.tau == change.tau else "",
                )
            )
    return lines


def _measured(run: RunScores) -> list[Fragility]:
    return list(map(measure_fragility, find_variants(run)))


def _flips(run: RunScores) -> list[Flip]:
    tasks: dict[str, list[Variants]] = defaultdict(list)
    for each in find_variants(run):
        tasks[each.task].append(each)
    return [flip for each in tasks.values() for flip in rank_flips(each)]


def _shown(found: Bounded | None, scale: float) -> str:
    """A number above its interval; points without, R with two decimals."""
    if found is None:
        return ""
    digits = 1 if scale == 100 else 2
    value, low, high = (f"{scale * number:.{digits}f}" for number in found)
    return f"{value}\n{low} to {high}"
