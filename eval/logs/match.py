"""Finds which samples of two logs are the same: by id, or by the pictures and the words of the
question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from looktwice.eval.logs.log import Log, letter_or_text
from looktwice.eval.tasks.base import TaskError

if TYPE_CHECKING:
    import pandas

BY_ID, BY_PICTURES, BY_WORDS = "id", "pictures and question", "question"


@dataclass(frozen=True)
class Matching:
    """The rows of two logs' units that are one sample: a frame with `one`, `other` (positions) and
    `by`.

    `left` and `right` are the positions that are without a partner in the first and the second log,
    `why` says why a pair of one id was not taken, by its position in the first.
    """

    pairs: pandas.DataFrame
    left: pandas.Index
    right: pandas.Index
    why: Mapping[int, str]

    @property
    def counts(self) -> dict[str, int]:
        """How many pairs were found in which way."""
        return {str(by): int(count) for by, count in self.pairs["by"].value_counts().items()}


def match(one: Log, other: Log) -> Matching:
    """Which units of two logs are the same sample.

    First by id, within a task where ids come twice; where ids are bare numbers and both logs hold
    the questions, the words must agree too. The rest by the hashes of the pictures and the words of
    the question and its choices, and where one log holds no pictures by the words alone; what comes
    twice is left out. A pair whose keys differ is none: the labels, or the order of the choices,
    are others. Raises TaskError where nothing matches.
    """
    pairs = _match_ids(one, other)
    if len(pairs) < min(len(one.units), len(other.units)):
        one, other = one.whole, other.whole
        pairs = _add_by_content(one.units, other.units, pairs)
    same = _same_key(one.units, other.units, pairs)
    refused = {int(place): "the keys differ" for place in pairs["one"][~same]}
    pairs = pairs[same].sort_values("one").reset_index(drop=True)
    if not len(pairs):
        raise TaskError(
            f"{one.name} and {other.name} share no sample ({len(refused)} have one id and another"
            f" key); ids are like {one.units['sample'].iloc[0]!r} and"
            f" {other.units['sample'].iloc[0]!r}. Name the column of ids with --column"
            " sample=COLUMN"
        )
    left, right = (
        one.units.index.difference(pairs["one"]),
        other.units.index.difference(pairs["other"]),
    )
    return Matching(pairs, left, right, refused)


def _match_ids(one: Log, other: Log) -> pandas.DataFrame:
    import pandas

    found: list[pandas.DataFrame] = []
    for names in (["sample"], ["task", "sample"]):
        mine, theirs = one.units[names], other.units[names]
        if not (mine.duplicated().any() or theirs.duplicated().any()):
            found.append(
                _join(one.units, other.units, lambda units, names=names: _joined(units, names))
            )
    pairs = found[0] if found else pandas.DataFrame({"one": [], "other": []}, dtype=int)
    numbers = one.units["sample"].iloc[pairs["one"]].str.fullmatch(r"\d+").to_numpy()
    if numbers.any():
        pairs = pairs[~numbers | _same_words(one.whole.units, other.whole.units, pairs)]
    return pairs.assign(by=BY_ID)


def _joined(units: pandas.DataFrame, names: Sequence[str]) -> pandas.Series:
    first, *rest = (units[name] for name in names)
    for column in rest:
        first = first + "\0" + column
    return first


def _join(
    one: pandas.DataFrame, other: pandas.DataFrame, key: Callable[..., pandas.Series]
) -> pandas.DataFrame:
    """The positions in both frames of every key that comes once in each."""
    import pandas

    mine, theirs = key(one), key(other)
    mine = mine[(mine != "") & ~mine.duplicated(keep=False)]
    theirs = theirs[(theirs != "") & ~theirs.duplicated(keep=False)]
    sides = [
        pandas.DataFrame({"key": keys.to_numpy(), name: keys.index})
        for name, keys in (("one", mine), ("other", theirs))
    ]
    return sides[0].merge(sides[1], on="key").drop(columns="key")


def _same_words(
    one: pandas.DataFrame, other: pandas.DataFrame, pairs: pandas.DataFrame
) -> list[bool]:
    """Whether the questions of each pair agree: one holds the other, or one log does not tell
    it."""
    mine, theirs = (
        _words(frame["question"].iloc[pairs[name]])
        for name, frame in (("one", one), ("other", other))
    )
    return [
        a in b or b in a for a, b in zip(mine, theirs, strict=True)
    ]  # an empty text is in every other


def _words(texts: pandas.Series) -> pandas.Series:
    return texts.str.casefold().str.split().str.join(" ")


def _add_by_content(
    one: pandas.DataFrame, other: pandas.DataFrame, pairs: pandas.DataFrame
) -> pandas.DataFrame:
    import pandas

    for by in (BY_PICTURES, BY_WORDS):
        mine, theirs = one.drop(index=pairs["one"]), other.drop(index=pairs["other"])
        if by == BY_WORDS and (mine["pictures"] != "").any() and (theirs["pictures"] != "").any():
            break  # both hold pictures, and these differ
        if len(mine) and len(theirs):
            with_pictures = by == BY_PICTURES
            found = _join(
                mine,
                theirs,
                lambda units, with_pictures=with_pictures: _content(units, with_pictures),
            )
            pairs = pandas.concat([pairs, found.assign(by=by)], ignore_index=True)
    return pairs


def _content(units: pandas.DataFrame, with_pictures: bool) -> pandas.Series:
    """The words of the question and its choices, after the pictures; empty where the question or a
    picture lacks."""
    words = _words(units["question"])
    told = words + units["choices"].map(
        lambda choices: "\0" + "\0".join(" ".join(c.casefold().split()) for c in choices)
    )
    known = (words != "") & ((units["pictures"] != "") | (not with_pictures))
    return ((units["pictures"] if with_pictures else "") + "\0" + told).where(known, "")


def _same_key(
    one: pandas.DataFrame, other: pandas.DataFrame, pairs: pandas.DataFrame
) -> pandas.Series:
    """Whether the keys of each pair agree; a key that is not told, or told as a letter here and in
    words there, may."""
    import pandas

    mine, theirs = (
        frame["key"]
        .iloc[pairs[name]]
        .map({key: letter_or_text(key) for key in frame["key"].unique()})
        .to_numpy(object)
        for name, frame in (("one", one), ("other", other))
    )
    same = [
        not a or not b or a == b or (len(a) == 1) != (len(b) == 1)
        for a, b in zip(mine, theirs, strict=True)
    ]
    return pandas.Series(same, index=pairs.index, dtype=bool)
