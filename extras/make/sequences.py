"""Questions in the style of VLM2-Bench from folders of photographs: do they show the same object,
how many different objects are there, and which photographs show the same one?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence as Many
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from operator import ge
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import RowErrors, TaskError
from looktwice.eval.tasks.photographs import deal_evenly, make_rng
from looktwice.extras.make.files import (
    FileTask,
    Source,
    list_images,
    make_item,
    require_folder,
    select_readable,
)
from looktwice.extras.vlm2.metrics import CountScorer, GroupScorer, PairScorer
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item
from looktwice.specialists.features.similarity import compute_cosines
from looktwice.specialists.protocols import FeatureExtractor
from looktwice.specialists.results import Floats
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True, eq=False)
class ObjectKind:
    """Objects of one kind, such as cups: `name` is the singular noun, `objects` the photographs of
    each object by its name."""

    name: str
    objects: dict[str, tuple[Path, ...]]

    def fits(self, pattern: str) -> bool:
        """Return whether there are enough objects and photographs for a pattern such as AAB, in
        which each letter stands for a different object."""
        needed = sorted(Counter(pattern).values(), reverse=True)
        shots = sorted(map(len, self.objects.values()), reverse=True)
        return len(shots) >= len(needed) and all(map(ge, shots, needed))


class DrawnSequence(NamedTuple):
    """A shuffled sequence: its photographs, and the letter of the object on each (A is the main
    object)."""

    files: tuple[Path, ...]
    letters: str


def find_kinds(root: Path, thing: str, skipped: RowErrors) -> list[ObjectKind]:
    """Find the kinds of objects: `root/OBJECT/*.jpg` gives a single kind called `thing`,
    `root/KIND/OBJECT/*.jpg` one kind for each folder."""
    folders = _list_folders(root)
    if objects := _find_objects(folders, skipped):
        return [ObjectKind(thing, objects)]
    kinds = []
    for folder in folders:
        if objects := _find_objects(_list_folders(folder), skipped):
            kinds.append(ObjectKind(folder.name.replace("_", " "), objects))
    return kinds


def _list_folders(folder: Path) -> list[Path]:
    return sorted(filter(Path.is_dir, folder.iterdir()))


def _find_objects(folders: Many[Path], skipped: RowErrors) -> dict[str, tuple[Path, ...]]:
    files = {
        folder.name: tuple(select_readable(list_images(folder), skipped)) for folder in folders
    }
    return {name: shots for name, shots in files.items() if shots}


def draw_sequence(
    rng: Generator, kind: ObjectKind, pattern: str, vectors: Mapping[Path, Floats] | None = None
) -> DrawnSequence:
    """Draw a sequence with the given pattern: several photographs of the main object, and some of
    other objects of its kind.

    The other objects are random or, with `vectors`, those whose photographs are most similar to the
    main object's first one by the cosine of the vectors.
    """
    pairs: list[tuple[str, Path]] = []
    free = list(kind.objects)
    for letter, count in Counter(pattern).most_common():
        fitting = [name for name in free if len(kind.objects[name]) >= count]
        if not fitting:
            raise TaskError(f"{kind.name!r} has too few objects for {pattern}")
        name = fitting[int(rng.integers(len(fitting)))]
        files = kind.objects[name]
        if vectors and pairs:
            others = [(name, file) for name in free for file in kind.objects[name]]
            rows = np.stack([vectors[file] for _, file in others])
            similarities = compute_cosines(vectors[pairs[0][1]][None], rows)
            name, file = others[int(similarities.argmax())]
            files = (file,)
        free.remove(name)
        for number in rng.permutation(len(files))[:count].tolist():
            pairs.append((letter, files[number]))
    letters, shown = zip(*(pairs[n] for n in rng.permutation(len(pairs)).tolist()), strict=True)
    return DrawnSequence(shown, "".join(letters))


PATTERNS = ("AA", "AB", "AAA", "AAB", "ABC", "AAAA", "AAAB", "AABC", "ABCD")
GROUP_PATTERNS = ("AAB", "ABC", "AAAB", "AABC", "ABCD")
SUBTASKS: Mapping[str, tuple[str, Callable[[str], Scorer]]] = {
    "compare": ("OC-Cpr", PairScorer),
    "count": ("OC-Cnt", CountScorer),
    "group": ("OC-Grp", GroupScorer),
}
MAX_TRIES = 50


@dataclass(frozen=True)
class Sequences(FileTask):
    """Questions on sequences of photographs, with `each` sequences of every pattern (VLM2-Bench,
    section 2 and appendix on OC).

    `each` is one number for all patterns, or a number for each: `{AA: 50, AB: 50, AAA: 20}`.

    Equal `seed`s give equal questions.

    `path` holds a folder of photographs for each object, or a folder of objects for each kind
    (cup/mine, cup/yours ...), named in the singular; without kinds, `thing` is the noun for all
    objects. In AAB the main object is shown twice and another of the same kind once; the order is
    shuffled. `ask` "compare" gives two statements on each sequence, a true one and its negation,
    which are scored as a pair; "count" asks how many different objects there are; "group" asks
    which images show the same object, with `None` among four choices. If `patterns` is None, they
    are those of VLM2-Bench: all nine, or AAB, ABC, AAAB, AABC and ABCD for "group". No sequence is
    repeated: if a pattern has fewer than `each`, the missing ones are counted as left out. The
    scores are VLM2-Bench's own.

    By default the other objects are drawn at random. With features in `nearest`, such as CLIP's
    embedding, each other photograph is the one most similar to the main object's first photograph
    (by the cosine of mean features) among the objects not yet in the sequence, as VLM2-Bench chose
    distractors for people. Raises TaskError, and whatever the features raise.
    """

    path: Path
    ask: Literal["compare", "count", "group"]
    each: int | Mapping[str, int] = 40
    seed: int = 0
    patterns: tuple[str, ...] | None = None
    thing: str = "object"
    nearest: FeatureExtractor | None = None

    units = "images and sequences"

    def __post_init__(self) -> None:
        counts = self.each if isinstance(self.each, Mapping) else {"": self.each}
        for pattern in (*(self.patterns or ()), *filter(None, counts)):
            if not 2 <= len(pattern) <= 4 or not re.fullmatch(r"A+(?:BC?D?)?", pattern):
                raise TaskError(
                    f"a pattern must be two to four letters such as AAB or ABCD, got {pattern!r}"
                )
        if not counts or min(counts.values()) < 1:
            raise TaskError(
                f"`each`, the number of sequences of a pattern, must be at least 1, got {self.each}"
            )
        if missing := [p for p in self.patterns or () if "" not in counts and p not in counts]:
            raise TaskError(f"`each` has no number for the pattern {missing[0]}, got {self.each}")

    @property
    def _source(self) -> Source:
        sources = [f"{item.sample.id} {item.sample.meta['sources']}" for item in self._items]
        objects = sum(len(kind.objects) for kind in self._kinds)
        note = f"{objects} objects of {len(self._kinds)} kinds"
        return f"{note}: sequences of one object are not independent", sources

    @property
    def scorer(self) -> Scorer:
        """VLM2-Bench's own scoring rules."""
        subtask, scorer = SUBTASKS[self.ask]
        return scorer(subtask)

    @cached_property
    def _kinds(self) -> list[ObjectKind]:
        root = require_folder(self.path, "a folder of photographs for each object")
        self._skipped.clear()
        kinds = find_kinds(root, self.thing, self._skipped)
        if not kinds:
            raise self._skipped.make_empty_error(
                root, "it holds no folder with photographs; expected OBJECT/*.jpg"
            )
        return kinds

    @cached_property
    def _vectors(self) -> Mapping[Path, Floats] | None:
        """The mean features of each photograph."""
        if self.nearest is None:
            return None
        vectors = {}
        for file in chain(*(files for kind in self._kinds for files in kind.objects.values())):
            grid = look_once(self.nearest, Picture.open(file).pixels)
            vectors[file] = grid.values.mean((0, 1), dtype=np.float64)
        return vectors

    @cached_property
    def _items(self) -> list[Item]:
        usual = self.each if isinstance(self.each, Mapping) else PATTERNS
        patterns = self.patterns or (GROUP_PATTERNS if self.ask == "group" else usual)
        if isinstance(self.each, Mapping):
            counts = [(p, self.each[p]) for p in patterns if p in self.each]
            if not counts:
                raise TaskError(f"`each` has none of the patterns {', '.join(patterns)}")
        else:
            counts = [(p, self.each) for p in patterns]
        return [item for pattern, count in counts for item in self._make_items(pattern, count)]

    def _make_items(self, pattern: str, count: int) -> Iterator[Item]:
        kinds = [kind for kind in self._kinds if kind.fits(pattern)]
        if not kinds:
            sizes = ", ".join(f"{k.name} has {len(k.objects)}" for k in self._kinds)
            shots = max(map(pattern.count, pattern))
            raise TaskError(
                f"{self.path}: {pattern} needs {len(set(pattern))} objects of one kind, one of them"
                f" with at least {shots} photographs ({sizes}); add photographs, or remove the"
                " pattern from `patterns`"
            )
        seen: set[frozenset[Path]] = set()
        for number in range(count):
            kind = kinds[deal_evenly(number, range(len(kinds)), "kind", pattern, self.seed)]
            rng = make_rng("sequence", pattern, self.seed, number)
            for _ in range(MAX_TRIES):
                drawn = draw_sequence(rng, kind, pattern, self._vectors)
                if frozenset(drawn.files) not in seen:
                    break
            else:
                self._skipped.add(
                    pattern, f"{count - number} of {count} sequences; no others were found"
                )
                return
            seen.add(frozenset(drawn.files))
            yield from self._make_questions(number, pattern, kind.name, drawn, rng)

    def _make_questions(
        self, number: int, pattern: str, name: str, drawn: DrawnSequence, rng: Generator
    ) -> Iterator[Item]:
        base, letters = f"{self.ask}_{pattern}_{number:03}", drawn.letters
        ordered = "".join(sorted(letters))
        meta: dict[str, Any] = {
            "subtask": SUBTASKS[self.ask][0],
            "type": name,
            "pattern": ordered,
            "order": letters,
            "sources": [f"{file.parent.name}/{file.name}" for file in drawn.files],
        }
        if self.ask == "compare":  # the statement that holds, and its negation
            statements = [
                f"{word} these images show the same {name}." for word in ("All", "Not all")
            ]
            if len(set(letters)) > 1:
                statements.reverse()
            for side, key, statement in zip("pn", "TF", statements, strict=True):
                question = (
                    f"Is this statement about the images right? '{statement}' Answer with T (right)"
                    " or F (wrong) only."
                )
                yield make_item(f"{base}_{side}", question, drawn.files, (), key, **meta, pair=base)
        elif self.ask == "count":
            question = (
                f"How many different {name}s are there in these images? Answer with one number."
            )
            meta["image_len"] = len(letters)
            yield make_item(base, question, drawn.files, (), str(len(set(letters))), **meta)
        else:
            letter = deal_evenly(number, "ABCD", "letter", ordered, self.seed)
            question = (
                f"Which of these images show the same {name}? Choose all that do, or None where no"
                " two do."
            )
            choices = _make_group_choices(drawn, rng, "ABCD".index(letter))
            yield make_item(base, question, drawn.files, choices, letter, **meta)


def _shuffle(rng: Generator, choices: Many[str]) -> list[str]:
    return [choices[number] for number in rng.permutation(len(choices))]


def _make_group_choices(drawn: DrawnSequence, rng: Generator, index: int) -> tuple[str, ...]:
    """Return four choices, the correct one at the position `index`; one of the four is `None`, and
    the others are groups of images."""
    count = len(drawn.files)
    numbers = range(1, count + 1)
    same = [number for number in numbers if drawn.letters[number - 1] == "A"]
    right = _join_numbers(same) if len(same) > 1 else "None"
    wrong = list[str]()
    for size in range(2, count):
        wrong += map(_join_numbers, combinations(numbers, size))
    if right in wrong:
        wrong.remove(right)
    wrong = _shuffle(rng, wrong)
    wrong = (wrong if right == "None" else ["None", *wrong])[:3]
    if len(wrong) < 3:
        raise TaskError(
            f"a sequence of {count} images has fewer than four groups to choose from; leave it out"
        )
    choices = _shuffle(rng, wrong)
    choices.insert(index, right)
    return tuple(choices)


def _join_numbers(group: Many[int]) -> str:
    *first, last = group
    return f"{', '.join(map(str, first))} and {last}"
