"""Specialists and MLLMs on the same samples: who is right where the other is not, and what an
oracle would reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from looktwice.eval.analysis.contestants import right_on_first_draw
from looktwice.eval.display.text_tables import TextTable, percent
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import share_interval
from looktwice.pipelines.config.spec import public_path
from looktwice.specialists.answers import Chance, Guess


@dataclass(frozen=True)
class SpecialistPair:
    """A specialist and an MLLM on the samples of one task that have a key and that neither failed.

    Only the first draw counts. Unreadable and abstained answers are not right.
    """

    specialist: PointScores
    mllm: PointScores

    @cached_property
    def hits(self) -> Mapping[str, tuple[bool, bool]]:
        """Sample -> whether the specialist and whether the MLLM is right."""
        mine, theirs = right_on_first_draw(self.specialist), right_on_first_draw(self.mllm)
        return {name: (mine[name], theirs[name]) for name in mine if name in theirs}

    def where(self, specialist: bool, mllm: bool) -> list[str]:
        """The samples, in the task's order, on which the two are right (True) or not (False) as
        given."""
        return [name for name, hit in self.hits.items() if hit == (specialist, mllm)]

    @property
    def n(self) -> int:
        """How many samples both have."""
        return len(self.hits)

    @property
    def shares(self) -> tuple[float, float, float]:
        """The shares of these samples on which the specialist, the MLLM, and either of them (the
        oracle) is right."""
        mine, theirs = ([hit[side] for hit in self.hits.values()] for side in (0, 1))
        either = sum(map(any, self.hits.values()))
        return sum(mine) / self.n, sum(theirs) / self.n, either / self.n

    @property
    def excluded(self) -> int:
        """Samples with a key that failed or are missing for one of them."""
        return len(self.specialist.keyed) - self.n


def specialist_pairs(run: RunScores) -> Iterator[SpecialistPair]:
    """Every pair of a specialist and an MLLM on the same task."""
    for specialist in run.points:
        if is_specialist(specialist):
            for mllm in run.points:
                if mllm.point.task_id == specialist.point.task_id and any(
                    entry.calls for entry in mllm.all
                ):
                    pair = SpecialistPair(specialist, mllm)
                    if pair.n:
                        yield pair


def is_specialist(scores: PointScores) -> bool:
    """Whether the arm answered without a single call, and never at random: what it did counts, not
    what it declares."""
    answered = any(entry.answer is not None or entry.reason == "abstained" for entry in scores.all)
    random = {public_path(Chance), public_path(Guess)}
    called = any(entry.calls for entry in scores.all)
    return answered and not called and random.isdisjoint(_uses(scores.point.spec.get("stages")))


def complementarity_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each pair of specialist and MLLM: the four counts, the three shares, and what the
    oracle gains.

    "By chance" is the accuracy of the oracle if the two were right independently of each other.
    """
    header = (
        "task",
        "specialist",
        "MLLM",
        "n",
        "both\nright",
        "only\nspecialist",
        "only\nMLLM",
        "neither",
        "specialist\n%",
        "MLLM\n%",
        "either %\n(oracle)",
        "gain on\nthe better",
        "either %\nby chance",
        "excluded",
    )
    return TextTable(
        header, tuple(_line(pair) for run in runs for pair in specialist_pairs(run)), text_columns=3
    )


def _line(pair: SpecialistPair) -> tuple[str, ...]:
    mine, theirs, either = pair.shares
    clusters = [pair.specialist.clusters[name] for name in pair.hits]
    oracle = share_interval([float(any(hit)) for hit in pair.hits.values()], clusters)
    counts = (
        len(pair.where(*sides))
        for sides in ((True, True), (True, False), (False, True), (False, False))
    )
    return (
        pair.specialist.task,
        pair.specialist.contestant,
        pair.mllm.contestant,
        str(pair.n),
        *map(str, counts),
        percent(mine),
        percent(theirs),
        f"{percent(either)}\n{percent(oracle.low)}–{percent(oracle.high)}",
        percent(either - max(mine, theirs), sign=True),
        percent(1 - (1 - mine) * (1 - theirs)),
        str(pair.excluded) if pair.excluded else "",
    )


def _uses(node: Any) -> Iterator[str]:
    """Every `use` in a spec, at any depth."""
    if isinstance(node, Mapping):
        if "use" in node:
            yield str(node["use"])
        for inner in node.values():
            yield from _uses(inner)
    elif isinstance(node, list | tuple):
        for inner in node:
            yield from _uses(inner)
