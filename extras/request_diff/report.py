"""The output of a comparison of requests: sentences, a table, and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from looktwice.eval.display.text_tables import Column, Columns, TextTable, table, text
from looktwice.extras.logs.report import list_some_names, write_csv
from looktwice.extras.request_diff.effects import SwapEffects
from looktwice.extras.request_diff.factors import FACTORS, Difference, RequestComparison
from looktwice.pipelines.counted import format_count, shorten_text
from looktwice.pipelines.disk import write_file

MAX_CELL_LENGTH, MAX_LISTED_CHANGES, COMMON_CHANGE_SHARE = 60, 6, 0.5
METHOD_NOTE = (
    "Requests are paired by what their pictures show (perceptual hash and thumbnail) and by the"
    " words that distinguish the questions of one side; a request that is equally near to two is"
    " left out. Each line gives a factor and the number of pairs in which it differs; the values"
    " are the most frequent ones. The quality of a JPEG is read from its quantisation tables. If a"
    " sample has several calls, the first is compared."
)


def make_request_table(comparison: RequestComparison) -> TextTable:
    """Build a table with a row for each factor that differs: the number of pairs, and the most
    frequent values on both sides."""
    base, rival = comparison.base.name, comparison.rival.name
    columns: Columns[Difference] = (
        Column("what differs", "factor", text),
        Column(base, lambda d: shorten_text(d.most_frequent[0][0], MAX_CELL_LENGTH), text),
        Column(rival, lambda d: shorten_text(d.most_frequent[0][1], MAX_CELL_LENGTH), text),
        Column("pairs", lambda d: f"{len(d.examples)} of {d.pair_count}"),
        Column(
            "with these",
            lambda d: None if d.most_frequent[1] == len(d.examples) else d.most_frequent[1],
        ),
        Column("example", lambda d: d.examples[0].sample),
    )
    return table(columns, comparison.differences).without_empty()


def describe_requests(comparison: RequestComparison) -> Iterator[str]:
    """Yield lines that state how many requests ask the same question, which factors differ, which
    never differ, and which requests have no partner and why."""
    base, rival = comparison.base, comparison.rival
    for side in (base, rival):
        if side.repeat_count:
            repeated = format_count(side.repeat_count, "request")
            yield f"{side.name}: ignoring {repeated} that repeat an earlier one exactly"
    pairs = len(comparison.pairing.pairs)
    yield (
        f"{rival.name} against {base.name}: {format_count(pairs, 'pair')} among"
        f" {len(base.requests)} and"
        f" {len(rival.requests)} requests"
    )
    differences = comparison.differences
    if pairs and not differences:
        yield f"  no differences in {format_count(pairs, 'pair')}"
    elif pairs:
        names = ", ".join(f"{d.factor} ({len(d.examples)})" for d in differences)
        yield f"  differs: {names}"
        differing = {difference.factor for difference in differences}
        same = filter(lambda factor: factor not in differing, FACTORS)
        yield f"  the same in all pairs: {', '.join(same)}"
    constant, rare = 0, 0
    for (before, after), count in comparison.changed_words:
        if constant < MAX_LISTED_CHANGES and count >= COMMON_CHANGE_SHARE * pairs:
            constant += 1
            old, new = (repr(shorten_text(words, 4 * MAX_CELL_LENGTH)) for words in (before, after))
            change = f"{old} became {new}" if after else f"{old} is missing"
            change = f"in {rival.name}, {change if before else f'{new} was added'}"
            yield f"  template, in {count} of {pairs}: {change}"
        else:
            rare += count
    if rare:
        yield f"  other words differ in {format_count(rare, 'place')}; see {DIFFERENCES_FILE}"
    for side, other, samples in comparison.unpaired_samples:
        for why, count in Counter(why for _, why in samples).most_common():
            names = list_some_names(sample for sample, reason in samples if reason == why)
            yield f"  only in {side.name}, not in {other.name}: {count} ({names}); {why}"


DIFFERENCES_FILE = "differences.csv"


def write_request_diff(comparisons: list[RequestComparison], folder: Path) -> list[Path]:
    """Write sent.md, differences.csv and unmatched.csv; return their paths. Raises OSError."""
    parts, rows, alone = ["# Requests compared"], list[dict[str, str]](), []
    for comparison in comparisons:
        sides = {"log": comparison.base.name, "against": comparison.rival.name}
        bullets = "\n".join(f"- {line.strip()}" for line in describe_requests(comparison))
        parts += [bullets, make_request_table(comparison).markdown]
        for difference in comparison.differences:
            rows += [
                sides | {"factor": difference.factor} | e._asdict() for e in difference.examples
            ]
        for side, against, samples in comparison.unpaired_samples:
            for sample, why in samples:
                names = {"log": side.name, "against": against.name}
                alone.append(names | {"sample": sample, "why": why})
    write_file(folder / "sent.md", "\n\n".join([*filter(None, parts), METHOD_NOTE]) + "\n")
    columns = ("log", "against", "factor", "sample", "partner", "value", "other")
    return [
        folder / "sent.md",
        write_csv(folder / DIFFERENCES_FILE, rows, columns),
        write_csv(folder / "unmatched.csv", alone, ("log", "against", "sample", "why")),
    ]


def describe_effects(effects: SwapEffects) -> Iterator[str]:
    """Yield lines that state which answers count as right, and which differences could not be
    tested on their own."""
    if not effects.has_correct_answers:
        yield (
            "no correct answer is known, so the first side's answers count as right; give --labels"
            " FILE, a log or a run with correct answers"
        )
    for factor, why in effects.skipped_factors.items():
        yield f"{factor} could not be tested on its own: {why}"
