"""VLM2-style questions from folders of objects: is it the same one, how many are there, which
belong together?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence as Many
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Literal

from numpy.random import Generator

from looktwice.eval.make.files import (
    MadeAtOnce,
    keep_readable,
    list_images,
    make_facts,
    make_item,
    require_folder,
)
from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.tasks.base import Facts, TaskError
from looktwice.eval.tasks.photographs import deal_evenly, seeded_rng
from looktwice.eval.tasks.row_errors import RowErrors
from looktwice.eval.tasks.vlm2.metrics import CountScorer, GroupScorer, PairScorer
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.sample import Item


@dataclass(frozen=True, eq=False)
class ObjectKind:
    """Things of one kind, such as cups: what one is called, and the photographs of each by its
    name."""

    name: str
    things: dict[str, tuple[Path, ...]]

    def fits(self, pattern: str) -> bool:
        """Whether there are things and photographs enough for a pattern, each letter being another
        thing."""
        needed = sorted(Counter(pattern).values(), reverse=True)
        held = sorted((len(files) for files in self.things.values()), reverse=True)
        return len(held) >= len(needed) and all(
            have >= need for have, need in zip(held, needed, strict=False)
        )


@dataclass(frozen=True)
class DrawnSequence:
    """A shuffled sequence: its photographs, and for each the letter of the thing that it shows; A
    is the main one."""

    files: tuple[Path, ...]
    letters: str

    @property
    def same(self) -> tuple[int, ...]:
        """The numbers, from 1, of the images of the main thing."""
        return tuple(number for number, letter in enumerate(self.letters, 1) if letter == "A")


def find_kinds(root: Path, thing: str, skipped: RowErrors) -> list[ObjectKind]:
    """`root/THING/*.jpg` as one kind called `thing`, or `root/KIND/THING/*.jpg` as one for each
    folder."""
    flat = _find_things(root, skipped)
    if flat:
        return [ObjectKind(thing, flat)]
    places = sorted(entry for entry in root.iterdir() if entry.is_dir())
    found = [
        ObjectKind(place.name.replace("_", " "), _find_things(place, skipped)) for place in places
    ]
    return [kind for kind in found if kind.things]


def _find_things(place: Path, skipped: RowErrors) -> dict[str, tuple[Path, ...]]:
    folders = sorted(entry for entry in place.iterdir() if entry.is_dir())
    found = {entry.name: tuple(keep_readable(list_images(entry), skipped)) for entry in folders}
    return {name: files for name, files in found.items() if files}


def draw_sequence(rng: Generator, kind: ObjectKind, pattern: str) -> DrawnSequence:
    """A sequence of a pattern: several photographs of the main thing, and others of the same kind
    beside it."""
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
    return DrawnSequence(tuple(pairs[i][1] for i in order), "".join(pairs[i][0] for i in order))


PATTERNS = ("AA", "AB", "AAA", "AAB", "ABC", "AAAA", "AAAB", "AABC", "ABCD")
GROUPED = ("AAB", "ABC", "AAAB", "AABC", "ABCD")
SUBTASKS = {"compare": "OC-Cpr", "count": "OC-Cnt", "group": "OC-Grp"}
TRIES = 50


@dataclass(frozen=True)
class Sequences(MadeAtOnce):
    """`each` sequences of every pattern, and a question on each (VLM2-Bench, section 2 and appendix
    on OC).

    Equal `seed`s give equal questions.

    `path` holds a folder for each thing with its photographs, or for each kind a folder with its
    things (cup/mine, cup/yours ...), named in the singular; without kinds `thing` is the word. In
    AAB the main thing is seen twice and another of the same kind once; the order is shuffled. `ask`
    "compare" gives two statements on each sequence, a true one and its negation, which count as a
    pair; "count" asks how many different things there are; "group" which images show the same
    thing, with `None` among four choices. `patterns` None is what VLM2-Bench has: all nine, and for
    groups AAB, ABC, AAAB, AABC, ABCD. No sequence comes twice: where a pattern has fewer than
    `each`, the rest is counted as left out. Scores are VLM2-Bench's own. Raises TaskError.
    """

    path: Path
    ask: Literal["compare", "count", "group"]
    each: int = 40
    seed: int = 0
    patterns: tuple[str, ...] | None = None
    thing: str = "object"

    units: ClassVar[str] = "images and sequences"

    def __post_init__(self) -> None:
        for pattern in self.patterns or ():
            if not 2 <= len(pattern) <= 4 or not re.fullmatch(r"A+(?:BC?D?)?", pattern):
                raise TaskError(
                    f"a pattern is two to four letters such as AA, AAB or ABCD, found {pattern!r}"
                )
        if self.each < 1:
            raise TaskError(
                f"each is how many sequences of a pattern are made, 1 or more; found {self.each}"
            )

    @property
    def facts(self) -> Facts:
        """What was made and left out, with VLM2-Bench's scorer."""
        self._items  # noqa: B018  what is left out is known only then
        sources = (f"{item.sample.id} {item.sample.meta['sources']}" for item in self._items)
        scorers = {"compare": PairScorer, "count": CountScorer, "group": GroupScorer}
        scorer: Scorer = scorers[self.ask](self._subtask)
        things = sum(len(kind.things) for kind in self._kinds)
        note = (
            f"{things} things of {len(self._kinds)} kinds: sequences of one thing are not"
            " independent"
        )
        return make_facts(note, self._skipped, sources, spec(scorer))

    @property
    def _subtask(self) -> str:
        return SUBTASKS[self.ask]

    @cached_property
    def _kinds(self) -> list[ObjectKind]:
        root = require_folder(self.path, "a folder of photographs for each thing")
        self._skipped.clear()
        found = find_kinds(root, self.thing, self._skipped)
        if not found:
            raise self._skipped.nothing_left(
                root, "it holds no folder with photographs; expected THING/*.jpg"
            )
        return found

    @cached_property
    def _items(self) -> list[Item]:
        chosen = self.patterns or (GROUPED if self.ask == "group" else PATTERNS)
        found = [item for pattern in chosen for item in self._of(pattern)]
        return found

    def _of(self, pattern: str) -> Iterator[Item]:
        fitting = [kind for kind in self._kinds if kind.fits(pattern)]
        if not fitting:
            sizes = ", ".join(f"{k.name} has {len(k.things)}" for k in self._kinds)
            shots = max(pattern.count(letter) for letter in pattern)
            raise TaskError(
                f"{self.path}: {pattern} needs {len(set(pattern))} things of one kind, one of them"
                f" on {shots} or more photographs ({sizes}); add photographs, or leave the pattern"
                " out of `patterns`"
            )
        seen: set[frozenset[Path]] = set()
        for number in range(self.each):
            kind = fitting[deal_evenly(number, range(len(fitting)), "kind", pattern, self.seed)]
            rng = seeded_rng("sequence", pattern, self.seed, number)
            drawn = next(
                (
                    d
                    for d in (draw_sequence(rng, kind, pattern) for _ in range(TRIES))
                    if frozenset(d.files) not in seen
                ),
                None,
            )
            if drawn is None:
                self._skipped.add(
                    pattern, f"{self.each - number} of {self.each} sequences; no others were found"
                )
                return
            seen.add(frozenset(drawn.files))
            yield from self._asked(
                f"{self.ask}_{pattern}_{number:03}", kind.name, drawn, rng, number
            )

    def _asked(
        self, base: str, name: str, drawn: DrawnSequence, rng: Generator, number: int
    ) -> Iterator[Item]:
        meta: dict[str, Any] = {
            "subtask": self._subtask,
            "type": name,
            "pattern": "".join(sorted(drawn.letters)),
            "order": drawn.letters,
            "sources": [f"{file.parent.name}/{file.name}" for file in drawn.files],
        }
        if self.ask == "compare":
            yield from _compare_items(base, name, drawn, meta)
        elif self.ask == "count":
            words = f"How many different {name}s are there in these images? Answer with one number."
            meta["image_len"] = len(drawn.files)
            yield make_item(base, words, drawn.files, (), str(len(set(drawn.letters))), **meta)
        else:
            letter = deal_evenly(number, "ABCD", "letter", meta["pattern"], self.seed)
            words = (
                f"Which of these images show the same {name}? Choose all that do, or None where no"
                " two do."
            )
            choices = _group_choices(drawn, rng, "ABCD".index(letter))
            yield make_item(base, words, drawn.files, choices, letter, **meta)


def _compare_items(
    base: str, name: str, drawn: DrawnSequence, meta: dict[str, Any]
) -> Iterator[Item]:
    """The statement that holds, whose key is T, and its negation."""
    statements = {
        True: f"All these images show the same {name}.",
        False: f"Not all these images show the same {name}.",
    }
    same = len(set(drawn.letters)) == 1
    for side, key, said in (("p", "T", statements[same]), ("n", "F", statements[not same])):
        words = (
            f"Is this statement about the images right? '{said}' Answer with T (right) or F (wrong)"
            " only."
        )
        yield make_item(f"{base}_{side}", words, drawn.files, (), key, **meta, pair=base)


def _group_choices(drawn: DrawnSequence, rng: Generator, place: int) -> tuple[str, ...]:
    """Four choices with the right group at `place`: `None` and groups of other images are the
    others."""
    numbers = range(1, len(drawn.files) + 1)
    right = _join_numbers(drawn.same) if len(drawn.same) > 1 else "None"
    groups = [
        _join_numbers(group)
        for count in range(2, len(numbers))
        for group in combinations(numbers, count)
    ]
    others = [group for group in groups if group != right]
    wrong = [others[int(i)] for i in rng.permutation(len(others))]
    wrong = (wrong if right == "None" else ["None", *wrong])[:3]
    if len(wrong) < 3:
        raise TaskError(
            f"a sequence of {len(drawn.files)} images has no four groups to choose from; leave"
            " it out"
        )
    wrong = [wrong[int(i)] for i in rng.permutation(3)]
    return (*wrong[:place], right, *wrong[place:])


def _join_numbers(group: tuple[int, ...]) -> str:
    *first, last = group
    return f"{', '.join(map(str, first))} and {last}"
