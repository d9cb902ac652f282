"""Generated scenes with marked objects: keys against what is drawn, controls, and how places are
scored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import combinations, product, starmap
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval import evaluate
from looktwice.eval.records.records import SampleRow
from looktwice.eval.tasks import MarkedScenes, SceneScorer, TaskError
from looktwice.eval.tasks.marked_scenes.kinds import (
    KINDS,
    AskedScene,
    MarkedSceneParameters,
    ask_where,
    get_cell,
)
from looktwice.eval.tasks.marked_scenes.scene import COLORS, Thing
from looktwice.eval.tasks.marked_scenes.task import TEST_PHOTOS, TRAINING_PHOTOS
from looktwice.eval.tasks.photographs import PHOTOGRAPHS, deal_evenly, make_rng
from looktwice.pipelines.marks import bounding_box
from looktwice.pipelines.sample import Item
from looktwice.specialists import Chance
from tests.tables import table

SIDE = 320


def get_things(item: Item) -> list[dict[str, Any]]:
    """Return the drawn things from the truth of the item."""
    return list(item.truth["things"])


def get_marked_things(item: Item) -> list[dict[str, Any]]:
    """Return the marked things, A first."""
    boxes = [[round(edge, 2) for edge in bounding_box(mark)] for mark in item.sample.marks]
    return [next(thing for thing in get_things(item) if thing["box"] == box) for box in boxes]


def spell_out(item: Item) -> str:
    """Return the text of the correct choice, or the key of an open question."""
    letters = dict(zip(item.sample.letters, map(str, item.sample.choices), strict=True))
    return letters.get(item.answer or "", item.answer or "")


def answer_from_truth(item: Item) -> str:
    """Return the answer in words, derived again from the boxes and names of the truth."""
    kind, things, marked = item.sample.meta["kind"], get_things(item), get_marked_things(item)
    question = item.sample.question
    if kind in ("shape", "color"):
        return str(marked[0]["name"].split()[kind == "shape"])
    if kind == "symbol":
        return str(marked[0]["symbol"])
    if kind in ("larger", "higher"):
        a, b = (thing["box"] for thing in marked)
        gain = a[3] - a[1] - b[3] + b[1] if kind == "larger" else b[1] + b[3] - a[1] - a[3]
        same = "they are equally large" if kind == "larger" else "they are equally high up"
        return same if abs(gain) < 0.05 else "A" if gain > 0 else "B"
    if kind == "count":
        asked = question.removeprefix("How many ").removesuffix(" are in the image?")
        words = {word.removesuffix("s") for word in asked.replace("crosses", "cross_").split()}
        words = {word.replace("_", "") for word in words} - {"thing"}
        return str(sum(words <= {*thing["name"].split()} for thing in things))
    if kind == "present":
        names = {thing["name"] for thing in things}
        (present,) = (c for c in map(str, item.sample.choices) if c.split(" ", 1)[1] in names)
        return present
    name = question.split("Where is the ")[1].split("?")[0]
    box = next(thing["box"] for thing in things if thing["name"] == name)
    if kind == "where":
        return " ".join(f"{100 * edge / SIDE:.1f}" for edge in box)
    row, column = (1 + int(3 * (box[n] + box[n + 2]) / 2 // SIDE) for n in (1, 0))
    return f"row {row}, column {column}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_correct_answer_follows_from_the_scene(kind: str) -> None:
    for item in MarkedScenes(kind, n=24, ground="plain", mark="box"):
        found, key = answer_from_truth(item), spell_out(item)
        if kind == "where":
            edges = [float(edge) for edge in found.split()]
            assert [float(edge) for edge in key.split()] == pytest.approx(edges, abs=0.11)
        else:
            assert key == found


Guesser = Callable[[AskedScene, Mapping[str, Any]], str]
"""An answer from all that a scene shows and the levels of its controls, but not from what is marked
or asked for."""


Look = Callable[[Thing, AskedScene, Mapping[str, Any]], float]


def count_like(word: str) -> Look:
    """Count the things of the scene with the same word."""
    of = attrgetter(word)
    return lambda thing, scene, levels: [*map(of, scene.things)].count(of(thing))


def measure_isolation(thing: Thing, scene: AskedScene, levels: Mapping[str, Any]) -> float:
    gaps = (np.hypot(thing.x - t.x, thing.y - t.y) for t in scene.things if t is not thing)
    return min(gaps, default=0.0)


LOOKS: tuple[Look, ...] = (
    lambda thing, scene, levels: thing.size,
    lambda thing, scene, levels: abs(thing.size - np.median([t.size for t in scene.things])),
    lambda thing, scene, levels: abs(thing.size - levels["size"]),
    lambda thing, scene, levels: np.hypot(thing.x - SIDE / 2, thing.y - SIDE / 2),
    measure_isolation,
    lambda thing, scene, levels: scene.things.index(thing),
    count_like("color"),
    count_like("shape"),
    lambda thing, scene, levels: bool(thing.symbol),
)
"""Properties by which a guesser may pick the thing with the largest or smallest value."""
WORDS: dict[str, Callable[[Thing], str]] = {
    "shape": lambda thing: thing.shape,
    "color": lambda thing: thing.color,
    "symbol": lambda thing: thing.symbol,
    "cell": lambda thing: get_cell(thing, SIDE),
    "where": lambda thing: ask_where(thing, SIDE).answer,
}


def guess_by(look: int, sign: int, kind: str) -> Guesser:
    """Answer about the thing with the largest or smallest value among those that match a choice."""

    def guess(scene: AskedScene, levels: Mapping[str, Any]) -> str:
        offered = scene.question.choices
        fit = [t for t in scene.things if not offered or WORDS[kind](t) in offered]
        return WORDS[kind](max(fit, key=lambda thing: sign * LOOKS[look](thing, scene, levels)))

    return guess


def guess_relation(axis: str, closest: bool) -> Guesser:
    """Answer as if the two things that differ least, or most, were marked; A if that fails."""

    def guess(scene: AskedScene, levels: Mapping[str, Any]) -> str:
        values = [getattr(thing, axis) for thing in scene.things]
        gaps = [abs(a - b) for a, b in combinations(values, 2)]
        return scene.question.choices[0 if (min(gaps) if closest else max(gaps)) else 2]

    return guess


def guess_name(sign: int) -> Guesser:
    """Return the name whose two words are both most, or least, frequent in the scene."""

    def guess(scene: AskedScene, levels: Mapping[str, Any]) -> str:
        words = Counter(word for thing in scene.things for word in thing.name.split())
        names = {name: [words[w] for w in name.split()[1:]] for name in scene.question.choices}
        there = [name for name in names if all(names[name])]
        return max(there, key=lambda name: sign * sum(names[name]))

    return guess


TAKES: tuple[Callable[[Collection[int]], int], ...] = (max, min, len)


def guess_number(word: str, take: Callable[[Collection[int]], int]) -> Guesser:
    """Return the count of the most frequent word, of the rarest, or the number of words."""
    of = attrgetter(word)
    return lambda scene, levels: str(take(Counter(map(of, scene.things)).values()))


SIGNS = (1, -1)
GUESSERS: dict[str, list[Guesser]] = {
    kind: [guess_by(look, sign, kind) for look in range(len(LOOKS)) for sign in SIGNS]
    for kind in WORDS
}
GUESSERS["larger"] = [guess_relation("size", closest) for closest in (True, False)]
GUESSERS["higher"] = [guess_relation("y", closest) for closest in (True, False)]
GUESSERS["present"] = list(map(guess_name, SIGNS))
GUESSERS["count"] = list(starmap(guess_number, product(("color", "shape", "name"), TAKES)))
LEVELS: dict[str, list[float]] = {
    "size": [10, 16, 56],
    "things": [2, 3, 6, 10],
    "drop": [4, 20, 120],
    "ratio": [1.05, 1.5, 2.0],
}


def scenes(kind: str, n: int) -> Iterator[tuple[AskedScene, Mapping[str, Any]]]:
    """Return undrawn scenes for each tested combination of levels."""
    names = [control.name for control in KINDS[kind].controls if control.name in LEVELS]
    choices: list[tuple[float, ...]] = list(product(*[LEVELS[name] for name in names]))
    for values, number in product(choices, range(n)):
        words = (kind, *map(str, values))
        levels = {"overlap": 0.0, **dict(zip(names, values, strict=True))}
        deal = partial(
            lambda number, words, cards: deal_evenly(number, cards, *words), number, words
        )
        rng = make_rng("guessers", *words, number)
        yield KINDS[kind].make(MarkedSceneParameters(rng, levels, deal)), levels


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_blind_guesser_beats_the_reported_level(kind: str) -> None:
    right: dict[tuple[int, str, Any], list[tuple[bool, float]]] = defaultdict(list)
    for scene, levels in scenes(kind, 60):
        for number, guess in enumerate(GUESSERS[kind]):
            result = guess(scene, levels) == scene.question.answer, 1 / scene.possible_answer_count
            for control in levels.items():
                right[number, *control].append(result)
    for key, results in right.items():
        hits, chances = (np.array(column, float) for column in zip(*results, strict=True))
        error = np.sqrt((chances * (1 - chances)).sum()) / len(results)
        assert hits.mean() <= chances.mean() + 3.5 * error, key


@pytest.mark.parametrize("kind", ["shape", "color", "symbol", "cell", "where", "present"])
def test_smaller_and_larger_distractors_are_balanced(kind: str) -> None:
    gaps: dict[float, list[float]] = defaultdict(list)
    for scene, levels in scenes(kind, 30):
        sizes = np.array([thing.size for thing in scene.things]) / levels["size"]
        gaps[levels["size"]].append(float(np.sign(sizes - 1).sum()))
        assert sizes.max() <= 1.5 and sizes.min() >= 1 / 1.5
        assert levels["things"] < 6 or sizes.max() > 1 > sizes.min()
    for signs in gaps.values():
        assert abs(np.mean(signs)) <= 3.5 * np.std(signs) / np.sqrt(len(signs))


@pytest.mark.parametrize("kind", ["shape", "color", "symbol", "cell"])
def test_choices_name_things_in_the_picture(kind: str) -> None:
    for scene, levels in scenes(kind, 5):
        there = {WORDS[kind](thing) for thing in scene.things}
        assert (
            len(there & {*scene.question.choices})
            == min(4, levels["things"])
            == scene.possible_answer_count
        )


def test_every_requested_number_is_in_every_picture() -> None:
    for item in MarkedScenes("count", n=24, ground="plain"):
        words = [Counter(t["name"].split()[part] for t in get_things(item)) for part in (0, 1)]
        words.append(Counter(t["name"] for t in get_things(item)))
        most = item.truth["possible"] - 1
        assert any({*range(1, most + 1)} <= {*counts.values()} for counts in words)
        assert int(item.answer or "") <= most


def test_the_table_shows_the_level_of_the_best_guesser(tmp_path: Path) -> None:
    few, more = MarkedScenes("shape", n=4, controls={"things": 2}), MarkedScenes("higher", n=3)
    table = evaluate({"few": few, "more": more}, {"lot": Chance()}, out=tmp_path / "run")
    levels = [row for row in table.where(contestant="guesser (level)").rows if not row.slice]
    shares = {"few": 1 / 2, "more": 1 / 3, "macro": 5 / 12, "micro": 3 / 7}
    assert {row.task: row.value for row in levels} == pytest.approx(shares)
    assert not any(row.low or row.p for row in levels)


def test_runs_on_earlier_scenes_have_no_such_level() -> None:
    old = SampleRow("t", "sha", "A", {"id": "a", "meta": {}, "choices": ["x", "y"]}, {"things": []})
    assert SceneScorer("shape").guesser({"a": old}) is None


@pytest.mark.parametrize("kind", ["shape", "symbol", "larger", "cell", "present"])
def test_correct_choices_are_balanced(kind: str) -> None:
    choices = len(MarkedScenes(kind, n=1)._item(0).sample.choices)
    counts = Counter(item.answer for item in MarkedScenes(kind, n=12 * choices, ground="plain"))
    assert set(counts.values()) == {12}


def test_a_thing_is_at_its_mark_and_has_its_color() -> None:
    for item in MarkedScenes("color", n=24, ground="plain", controls={"size": 40}):
        (mark,) = item.sample.marks
        x, y = (round(value) for value in mark.center)
        part = item.sample.images[0].pixels[y - 1 : y + 2, x - 3 : x + 4].reshape(-1, 3)
        seen = np.median(part, axis=0)
        name = min(COLORS, key=lambda color: float(np.abs(seen - np.array(COLORS[color])).sum()))
        near = [t["name"] for t in get_things(item) if abs(sum(t["box"][::2]) / 2 - x - 0.5) < 1]
        assert "crescent" in near[0] or name == spell_out(item)  # its middle may be open


def test_a_question_depends_only_on_its_number_and_the_settings() -> None:
    few, many = list(MarkedScenes("shape", n=3)), MarkedScenes("shape", n=30, mark="box")
    for first, second in zip(few, many, strict=False):
        assert first.sample.images[0].sha == second.sample.images[0].sha
        assert (first.sample.question, first.answer) == (second.sample.question, second.answer)
    (seeded,) = MarkedScenes("shape", n=1, seed=1)
    assert seeded.sample.images[0].sha != few[0].sample.images[0].sha


def test_levels_are_balanced_and_sizes_are_kept() -> None:
    controls = {"size": [16, 50], "things": 4}
    items = list(MarkedScenes("shape", n=24, ground="plain", mark="box", controls=controls))
    assert Counter(item.sample.meta["size"] for item in items) == {16: 12, 50: 12}
    for item in items:
        box = get_marked_things(item)[0]["box"]
        assert box[3] - box[1] == pytest.approx(item.sample.meta["size"], abs=0.02)
        assert len(get_things(item)) == 4


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.6])
def test_things_overlap_in_pairs_by_the_requested_amount(overlap: float) -> None:
    """How far things lie from each other is counted in sums of their sizes; nine things are four
    pairs, and one is alone."""
    controls = {"things": 9, "overlap": overlap}
    for item in MarkedScenes("count", n=12, ground="plain", controls=controls):
        boxes = np.array([thing["box"] for thing in get_things(item)])
        sizes, middles = boxes[:, 2] - boxes[:, 0], boxes[:, :2] + boxes[:, 2:]
        apart = []
        for a, b in combinations(range(len(boxes)), 2):
            apart.append(np.hypot(*(middles[a] - middles[b])) / (2 * (sizes[a] + sizes[b])))
        pairs, rest = sorted(apart)[: 4 * bool(overlap)], sorted(apart)[4 * bool(overlap) :]
        assert pairs == pytest.approx([(1 - overlap) / 2] * len(pairs), abs=0.01)
        assert rest[0] >= 0.62


def test_the_smaller_of_two_things_is_in_front() -> None:
    for item in MarkedScenes("count", n=6, controls={"things": 6, "overlap": 0.6}):
        sizes = [round(thing["box"][3] - thing["box"][1], 3) for thing in get_things(item)]
        assert sizes == sorted(sizes, reverse=True), "they are drawn in this order"


def test_a_scene_is_restarted_if_its_last_things_do_not_fit() -> None:
    assert len(list(MarkedScenes("shape", n=40, controls={"size": 28, "things": 21}))) == 40
    with pytest.raises(TaskError, match="no room for 40 objects"):
        list(MarkedScenes("shape", n=1, controls={"size": 100, "things": 40}))


def test_training_uses_other_photographs() -> None:
    assert not set(TEST_PHOTOS) & set(TRAINING_PHOTOS)
    assert set(TEST_PHOTOS) | set(TRAINING_PHOTOS) == set(PHOTOGRAPHS)


@table
def test_an_answered_place_is_correct_inside_the_box(answer: str, value: float | None) -> None:
    row = SampleRow("t", "sha", "45.0 35.0 55.0 45.0", {"id": "a", "meta": {}})
    score = SceneScorer("where").compare(answer, row)
    assert score is not None
    assert score.value == value if value is not None else str(score.verdict) == "unreadable"
    assert SceneScorer("shape").compare("A", row) is None
