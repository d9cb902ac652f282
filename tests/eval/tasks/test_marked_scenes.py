"""Made scenes with marked things: their keys against what is drawn, their controls, and how places
are scored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval import evaluate
from looktwice.eval.records.records import SampleRow
from looktwice.eval.tasks import MarkedScenes, SceneScorer, TaskError
from looktwice.eval.tasks.marked_scenes.kinds import KINDS, AskedScene, MarkedSceneParameters
from looktwice.eval.tasks.marked_scenes.questions import ask_where, cell_of
from looktwice.eval.tasks.marked_scenes.scene import COLORS, Thing
from looktwice.eval.tasks.marked_scenes.task import TEST_PHOTOS, TRAINING_PHOTOS
from looktwice.eval.tasks.photographs import PHOTOGRAPHS, deal_evenly, seeded_rng
from looktwice.pipelines.marks import bounding_box
from looktwice.pipelines.sample import Item
from looktwice.specialists import Chance

SIDE = 320


def things_of(item: Item) -> list[dict[str, Any]]:
    """What was drawn, by the item's truth."""
    return list(item.truth["things"])


def marked_of(item: Item) -> list[dict[str, Any]]:
    """The things that are marked, A first."""
    boxes = [[round(edge, 2) for edge in bounding_box(mark)] for mark in item.sample.marks]
    return [next(thing for thing in things_of(item) if thing["box"] == box) for box in boxes]


def said(item: Item) -> str:
    """The right choice in words, or the key of an open question."""
    letters = dict(zip(item.sample.letters, map(str, item.sample.choices), strict=True))
    return letters.get(item.answer or "", item.answer or "")


def answer_from_truth(item: Item) -> str:
    """The answer in words, found anew from the boxes and names of the truth."""
    kind, things, marked = item.sample.meta["kind"], things_of(item), marked_of(item)
    question = item.sample.question
    if kind in ("shape", "color"):
        return str(marked[0]["name"].split()[kind == "shape"])
    if kind == "symbol":
        return str(marked[0]["symbol"])
    if kind in ("larger", "higher"):
        boxes = [thing["box"] for thing in marked]
        tall = [box[3] - box[1] for box in boxes]
        gain = tall[0] - tall[1] if kind == "larger" else sum(boxes[1][1::2]) - sum(boxes[0][1::2])
        same = "they are equally large" if kind == "larger" else "they are equally high up"
        return same if abs(gain) < 0.05 else "A" if gain > 0 else "B"
    if kind == "count":
        asked = question.removeprefix("How many ").removesuffix(" are in the image?").split()
        words = {
            word.removesuffix("es") if word == "crosses" else word.removesuffix("s")
            for word in asked
        } - {"thing"}
        return str(sum(words <= set(thing["name"].split()) for thing in things))
    if kind == "present":
        names = {thing["name"] for thing in things}
        return next(str(c) for c in item.sample.choices if str(c).split(" ", 1)[1] in names)
    name = question.split("Where is the ")[1].split("?")[0]
    box = next(thing["box"] for thing in things if thing["name"] == name)
    if kind == "where":
        return " ".join(f"{100 * edge / SIDE:.1f}" for edge in box)
    return (
        f"row {1 + int(3 * (box[1] + box[3]) / 2 // SIDE)}, column"
        f" {1 + int(3 * (box[0] + box[2]) / 2 // SIDE)}"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_follows_from_what_is_drawn(kind: str) -> None:
    items = list(MarkedScenes(kind, n=24, ground="plain", mark="box"))
    for item in items:
        found, key = answer_from_truth(item), said(item)
        if kind == "where":
            assert [float(v) for v in key.split()] == pytest.approx(
                [float(v) for v in found.split()], abs=0.11
            )
        else:
            assert key == found


def test_one_choice_alone_is_present() -> None:
    for item in MarkedScenes("present", n=24, ground="plain"):
        names = {thing["name"] for thing in things_of(item)}
        assert sum(str(choice).split(" ", 1)[1] in names for choice in item.sample.choices) == 1


Guesser = Callable[[AskedScene, Mapping[str, Any]], str]
"""An answer from all that a scene shows and the levels of its controls, but not from what is marked
or asked for."""

LOOKS: dict[str, Callable[[Thing, AskedScene, Mapping[str, Any]], float]] = {
    "smallest": lambda thing, scene, levels: -thing.size,
    "largest": lambda thing, scene, levels: thing.size,
    "of the middle size": lambda thing, scene, levels: (
        -abs(thing.size - float(np.median([other.size for other in scene.things])))
    ),
    "of the size of the level": lambda thing, scene, levels: -abs(thing.size - levels["size"]),
    "in the middle": lambda thing, scene, levels: -np.hypot(thing.x - SIDE / 2, thing.y - SIDE / 2),
    "at the rim": lambda thing, scene, levels: np.hypot(thing.x - SIDE / 2, thing.y - SIDE / 2),
    "alone": lambda thing, scene, levels: min(
        (
            np.hypot(thing.x - other.x, thing.y - other.y)
            for other in scene.things
            if other is not thing
        ),
        default=0.0,
    ),
    "drawn first": lambda thing, scene, levels: -scene.things.index(thing),
    "drawn last": lambda thing, scene, levels: scene.things.index(thing),
    "of a frequent color": lambda thing, scene, levels: sum(
        other.color == thing.color for other in scene.things
    ),
    "of a rare shape": lambda thing, scene, levels: (
        -sum(other.shape == thing.shape for other in scene.things)
    ),
    "a tile": lambda thing, scene, levels: bool(thing.symbol),
}
WORDS: dict[str, Callable[[Thing], str]] = {
    "shape": lambda thing: thing.shape,
    "color": lambda thing: thing.color,
    "symbol": lambda thing: thing.symbol,
    "cell": lambda thing: cell_of(thing, SIDE),
    "where": lambda thing: ask_where(thing, SIDE).answer,
}


def guess_by(look: str, kind: str) -> Guesser:
    """Answers about the thing that looks so most, of those that a choice fits."""

    def guess(scene: AskedScene, levels: Mapping[str, Any]) -> str:
        fit = [
            t
            for t in scene.things
            if not scene.question.choices or WORDS[kind](t) in scene.question.choices
        ]
        return WORDS[kind](max(fit, key=lambda thing: LOOKS[look](thing, scene, levels)))

    return guess


def guess_relation(of: Callable[[Thing], float], closest: bool) -> Guesser:
    """Answers as if the two things were marked that differ least, or most; A where they differ."""

    def guess(scene: AskedScene, levels: Mapping[str, Any]) -> str:
        gaps = [abs(of(one) - of(other)) for one, other in combinations(scene.things, 2)]
        return scene.question.choices[0 if (min(gaps) if closest else max(gaps)) else 2]

    return guess


def guess_name(sign: int) -> Guesser:
    """The name both of whose words are there, the more or the less often; which are of one thing is
    not seen."""

    def guess(scene: AskedScene, levels: Mapping[str, Any]) -> str:
        words = Counter(word for thing in scene.things for word in thing.name.split())
        names = [
            choice
            for choice in scene.question.choices
            if all(word in words for word in choice.split()[1:])
        ]
        return max(names, key=lambda name: sign * sum(words[word] for word in name.split()[1:]))

    return guess


TAKES: dict[str, Callable[[Collection[int]], int]] = {"most": max, "least": min, "distinct": len}


def guess_number(of: Callable[[Thing], str], take: Callable[[Collection[int]], int]) -> Guesser:
    """A number of things that have a word in common: of the most frequent word, of the rarest, or
    of how many words."""
    return lambda scene, levels: str(take(Counter(map(of, scene.things)).values()))


GUESSERS: dict[str, dict[str, Guesser]] = {
    **{kind: {look: guess_by(look, kind) for look in LOOKS} for kind in WORDS},
    "larger": {
        "closest": guess_relation(lambda t: t.size, True),
        "farthest": guess_relation(lambda t: t.size, False),
    },
    "higher": {
        "closest": guess_relation(lambda t: t.y, True),
        "farthest": guess_relation(lambda t: t.y, False),
    },
    "present": {"frequent": guess_name(1), "rare": guess_name(-1)},
    "count": {
        f"{name} {word}": guess_number(of, take)
        for word, of in {
            "color": WORDS["color"],
            "shape": WORDS["shape"],
            "name": lambda t: t.name,
        }.items()
        for name, take in TAKES.items()
    },
}
LEVELS: dict[str, list[float]] = {
    "size": [10, 16, 56],
    "things": [2, 3, 6, 10],
    "drop": [4, 20, 120],
    "ratio": [1.05, 1.5, 2.0],
}


def scenes(kind: str, n: int) -> Iterator[tuple[AskedScene, Mapping[str, Any]]]:
    """Scenes of each combination of levels that is tried here, not drawn."""
    names = [control.name for control in KINDS[kind].controls if control.name in LEVELS]
    choices: list[tuple[float, ...]] = list(product(*[LEVELS[name] for name in names]))
    for values in choices:
        levels = {"overlap": 0.0, **dict(zip(names, values, strict=True))}
        for number in range(n):
            words = (kind, *map(str, values))
            deal = partial(
                lambda number, words, cards: deal_evenly(number, cards, *words), number, words
            )
            params = MarkedSceneParameters(seeded_rng("guessers", *words, number), levels, deal)
            yield KINDS[kind].make(params), levels


@pytest.mark.parametrize("kind", KINDS)
def test_no_guesser_without_the_mark_is_better_than_the_level_that_is_told(kind: str) -> None:
    right: dict[tuple[str, str, Any], list[tuple[bool, float]]] = defaultdict(list)
    for scene, levels in scenes(kind, 60):
        for name, guess in GUESSERS[kind].items():
            result = guess(scene, levels) == scene.question.answer, 1 / scene.possible
            for control in levels.items():
                right[name, *control].append(result)
    for key, results in right.items():
        hits, chances = (np.array(column, float) for column in zip(*results, strict=True))
        error = np.sqrt((chances * (1 - chances)).sum()) / len(results)
        assert hits.mean() <= chances.mean() + 3.5 * error, key


@pytest.mark.parametrize("kind", ["shape", "color", "symbol", "cell", "where", "present"])
def test_as_many_others_are_smaller_as_are_larger(kind: str) -> None:
    gaps: dict[float, list[float]] = defaultdict(list)
    for scene, levels in scenes(kind, 30):
        sizes = np.array([thing.size for thing in scene.things])
        gaps[levels["size"]].append(float(np.sign(sizes - levels["size"]).sum()))
        assert sizes.max() <= 1.5 * levels["size"] and sizes.min() >= levels["size"] / 1.5
        if levels["things"] >= 6:
            assert sizes.max() > levels["size"] > sizes.min()
    assert all(
        abs(np.mean(signs)) <= 3.5 * np.std(signs) / np.sqrt(len(signs)) for signs in gaps.values()
    )


@pytest.mark.parametrize("kind", ["shape", "color", "symbol", "cell"])
def test_choices_are_words_of_what_is_in_the_picture(kind: str) -> None:
    for scene, levels in scenes(kind, 5):
        there = {WORDS[kind](thing) for thing in scene.things}
        assert len(there & {*scene.question.choices}) == min(4, levels["things"]) == scene.possible


def test_every_number_that_is_asked_for_is_in_every_picture() -> None:
    for item in MarkedScenes("count", n=24, ground="plain"):
        words = [Counter(t["name"].split()[part] for t in things_of(item)) for part in (0, 1)]
        words.append(Counter(t["name"] for t in things_of(item)))
        most = item.truth["possible"] - 1
        assert any({*range(1, most + 1)} <= {*counts.values()} for counts in words)
        assert int(item.answer or "") <= most


def test_the_level_of_the_best_guesser_stands_in_the_table(tmp_path: Path) -> None:
    tasks = {
        "few": MarkedScenes("shape", n=4, controls={"things": 2}),
        "more": MarkedScenes("higher", n=3),
    }
    table = evaluate(tasks, {"lot": Chance()}, out=tmp_path / "run")
    levels = [row for row in table.where(contestant="guesser (level)").rows if not row.slice]
    assert {row.task: row.value for row in levels} == pytest.approx(
        {"few": 1 / 2, "more": 1 / 3, "macro": 5 / 12, "micro": 3 / 7}
    )
    assert not any(row.low or row.p for row in levels)


def test_runs_on_earlier_scenes_have_no_such_level() -> None:
    old = SampleRow("t", "sha", "A", {"id": "a", "meta": {}, "choices": ["x", "y"]}, {"things": []})
    assert SceneScorer("shape").guesser({"a": old}) is None


@pytest.mark.parametrize("kind", ["shape", "symbol", "larger", "cell", "present"])
def test_right_choices_are_dealt(kind: str) -> None:
    choices = len(MarkedScenes(kind, n=1)._item(0).sample.choices)
    counts = Counter(item.answer for item in MarkedScenes(kind, n=12 * choices, ground="plain"))
    assert set(counts.values()) == {12}


def test_a_thing_is_where_its_mark_says_and_has_its_color() -> None:
    for item in MarkedScenes("color", n=24, ground="plain", controls={"size": 40}):
        x, y = (round(value) for value in item.sample.marks[0].center)
        seen = np.median(
            item.sample.images[0].pixels[y - 1 : y + 2, x - 3 : x + 4].reshape(-1, 3), axis=0
        )
        name = min(COLORS, key=lambda color: float(np.abs(seen - np.array(COLORS[color])).sum()))
        shape = next(
            t["name"].split()[1]
            for t in things_of(item)
            if abs(sum(t["box"][::2]) / 2 - x - 0.5) < 1
        )
        assert shape == "crescent" or name == said(item)  # the middle of a crescent may be open


def test_a_question_depends_on_its_number_and_the_settings_alone() -> None:
    few, many = MarkedScenes("shape", n=3), MarkedScenes("shape", n=30, mark="box")
    for one, other in zip(few, many, strict=False):
        assert one.sample.images[0].sha == other.sample.images[0].sha
        assert (one.sample.question, one.answer) == (other.sample.question, other.answer)
    assert (
        next(iter(MarkedScenes("shape", n=1, seed=1))).sample.images[0].sha
        != next(iter(few)).sample.images[0].sha
    )


def test_levels_are_dealt_and_sizes_are_kept() -> None:
    task = MarkedScenes(
        "shape", n=24, ground="plain", mark="box", controls={"size": [16, 50], "things": 4}
    )
    items = list(task)
    assert Counter(item.sample.meta["size"] for item in items) == {16: 12, 50: 12}
    for item in items:
        box = marked_of(item)[0]["box"]
        assert box[3] - box[1] == pytest.approx(item.sample.meta["size"], abs=0.02)
        assert len(things_of(item)) == 4


def test_things_cover_each_other_in_pairs_by_the_overlap_that_is_asked_for() -> None:
    def nearest(overlap: float) -> list[list[float]]:
        """Of each scene, how far things lie from each other, in sums of their sizes, nearest
        first."""
        found = []
        for item in MarkedScenes(
            "count", n=12, ground="plain", controls={"things": 9, "overlap": overlap}
        ):
            boxes = [thing["box"] for thing in things_of(item)]
            apart = [
                np.hypot(
                    one[0] + one[2] - other[0] - other[2], one[1] + one[3] - other[1] - other[3]
                )
                / (2 * (one[2] - one[0] + other[2] - other[0]))
                for one, other in combinations(boxes, 2)
            ]
            found.append(sorted(float(each) for each in apart))
        return found

    assert all(distances[0] >= 0.62 for distances in nearest(0.0))
    for overlap in (0.3, 0.6):
        for distances in nearest(overlap):
            assert distances[:4] == pytest.approx([(1 - overlap) / 2] * 4, abs=0.01)
            assert distances[4] >= 0.62, "nine things are four pairs, and one is alone"


def test_of_two_things_the_smaller_lies_in_front() -> None:
    for item in MarkedScenes("count", n=6, controls={"things": 6, "overlap": 0.6}):
        sizes = [round(thing["box"][3] - thing["box"][1], 3) for thing in things_of(item)]
        assert sizes == sorted(sizes, reverse=True), "they are drawn in this order"


def test_a_scene_is_begun_anew_where_its_last_things_find_no_room() -> None:
    assert len(list(MarkedScenes("shape", n=40, controls={"size": 28, "things": 21}))) == 40
    with pytest.raises(TaskError, match="no room for 40 things"):
        list(MarkedScenes("shape", n=1, controls={"size": 100, "things": 40}))


def test_the_photographs_of_training_are_others() -> None:
    assert not set(TEST_PHOTOS) & set(TRAINING_PHOTOS)
    assert set(TEST_PHOTOS) | set(TRAINING_PHOTOS) == set(PHOTOGRAPHS)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("(50, 40)", 1.0),
        ("50 40", 1.0),
        ("x=1, y=2, so 45.0, 35.5", 1.0),
        ("44.9, 40", 0.0),
        ("50, 45.1", 0.0),
    ],
)
def test_a_place_is_right_within_the_box(answer: str, value: float) -> None:
    row = SampleRow("t", "sha", "45.0 35.0 55.0 45.0", {"id": "a", "meta": {}})
    score = SceneScorer("where").compare(answer, row)
    assert score is not None
    assert score.value == value


def test_a_place_without_two_numbers_is_no_answer() -> None:
    row = SampleRow("t", "sha", "45.0 35.0 55.0 45.0", {"id": "a", "meta": {}})
    assert str(SceneScorer("where").compare("in the middle", row).verdict) == "unreadable"  # type: ignore[union-attr]
    assert SceneScorer("shape").compare("A", row) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "shapes"}, "no kind of question is named 'shapes'"),
        ({"kind": "shape", "n": 0}, "1 or more"),
        ({"kind": "shape", "controls": {"sizes": 3}}, "shape has no control 'sizes'"),
        ({"kind": "shape", "controls": {"things": 2.5}}, "things is a whole number"),
        ({"kind": "shape", "controls": {"size": []}}, "size has no level"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        MarkedScenes(**settings)
