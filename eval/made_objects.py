"""Photographs of things, sorted into a folder a thing, and sequences drawn from them: AA, AB ... ABCD."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Many
from dataclasses import dataclass
from pathlib import Path

from numpy.random import Generator

from looktwice.eval.made_files import Skipped, images_in, readable
from looktwice.eval.task import TaskError

__all__ = ["Drawn", "Kind", "draw_sequence", "kinds"]


@dataclass(frozen=True, eq=False)
class Kind:
    """Things of one kind, such as cups: what one is called, and the photographs of each by its name."""

    name: str
    things: dict[str, tuple[Path, ...]]

    def fits(self, pattern: str) -> bool:
        """Whether there are things and photographs enough for a pattern, each letter being another thing."""
        needed = sorted(Counter(pattern).values(), reverse=True)
        held = sorted((len(files) for files in self.things.values()), reverse=True)
        return len(held) >= len(needed) and all(have >= need for have, need in zip(held, needed, strict=False))


@dataclass(frozen=True)
class Drawn:
    """A shuffled sequence: its photographs, and for each the letter of the thing that it shows; A is the main one."""

    files: tuple[Path, ...]
    letters: str

    @property
    def same(self) -> tuple[int, ...]:
        """The numbers, from 1, of the images of the main thing."""
        return tuple(number for number, letter in enumerate(self.letters, 1) if letter == "A")


def kinds(root: Path, thing: str, skipped: Skipped) -> list[Kind]:
    """`root/THING/*.jpg` as one kind called `thing`, or `root/KIND/THING/*.jpg` as one for each folder."""
    flat = _things(root, skipped)
    if flat:
        return [Kind(thing, flat)]
    places = sorted(entry for entry in root.iterdir() if entry.is_dir())
    found = [Kind(place.name.replace("_", " "), _things(place, skipped)) for place in places]
    return [kind for kind in found if kind.things]


def _things(place: Path, skipped: Skipped) -> dict[str, tuple[Path, ...]]:
    folders = sorted(entry for entry in place.iterdir() if entry.is_dir())
    found = {entry.name: tuple(readable(images_in(entry), skipped)) for entry in folders}
    return {name: files for name, files in found.items() if files}


def draw_sequence(rng: Generator, kind: Kind, pattern: str) -> Drawn:
    """A sequence of a pattern: several photographs of the main thing, and others of the same kind beside it."""
    chosen: dict[str, Many[Path]] = {}
    free = list(kind.things)
    for letter, count in Counter(pattern).most_common():
        fitting = [name for name in free if len(kind.things[name]) >= count]
        if not fitting:
            raise TaskError(f"{kind.name!r} has too few things for {pattern}")
        name = fitting[int(rng.integers(len(fitting)))]
        free.remove(name)
        files = kind.things[name]
        chosen[letter] = [files[int(place)] for place in rng.permutation(len(files))[:count]]
    pairs = [(letter, file) for letter, files in chosen.items() for file in files]
    order = rng.permutation(len(pairs))
    return Drawn(tuple(pairs[i][1] for i in order), "".join(pairs[i][0] for i in order))
