"""The trainer of Pocket: correct scenes and batches, learning, resuming, two workers."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from bench.pocket import store
from bench.pocket.scenes import SIZES, make_example, more_questions
from bench.pocket.wording import write_prompt
from looktwice.eval.tasks.marked_scenes.kinds import Question
from looktwice.eval.tasks.marked_scenes.scene import COLORS, SHAPES, SYMBOLS
from looktwice.pipelines.models.pocket.network import (
    END,
    PLACE_SIDE,
    PLACES_PER_SIDE,
    UNKNOWN,
    VOCABULARY,
    detokenize,
    tokenize_text,
)
from tests.optional import LazyModule, optional

torch = optional("torch")
train, networks = LazyModule("bench.pocket.train"), LazyModule("bench.pocket.network")
pointing = LazyModule("bench.pocket.pointing")
SCENES = 12


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dozen scenes."""
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "SHARD", SCENES)
        store.write_shard(folder, train.Plan(folder).seed, 0)
    return folder


@pytest.fixture
def plan(tmp_path: Path, drawn: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Three parts of two steps each, on a dozen scenes."""
    for module in (store, import_module("bench.pocket.train")):
        monkeypatch.setattr(module, "SHARD", SCENES)
    copytree(drawn, tmp_path / "scenes")
    return train.Plan(tmp_path, scenes=SCENES, batch=4, look=2, read=2, both=1, count=1, workers=1)


def test_the_encoder_is_trained_on_the_positions_of_objects() -> None:
    for example in (make_example(3, number) for number in range(6)):
        for thing in example.things if example.whole else ():
            row, column = (int(at * 128 / 320 // PLACE_SIDE) for at in (thing.y, thing.x))
            shape, color, symbol, _, size, middle = example.grids[0][row, column]
            if any(
                np.hypot(other.x - thing.x, other.y - thing.y) < other.size / 3 + 8
                for other in example.things
                if other is not thing
            ):
                continue  # another one covers it
            assert middle == 1 and list(COLORS)[color - 1] == thing.color and 1 <= size <= SIZES
            if thing.symbol:
                assert SYMBOLS[symbol - 1] == thing.symbol
            else:
                assert SHAPES[shape - 1] == thing.shape


def test_scenes_are_stored_as_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SHARD", 2)
    facts, arrays = attrgetter("things", "marked", "question"), attrgetter("inputs", "grids")
    for number, kept in enumerate(store.read_shard(store.write_shard(tmp_path, 5, 1)), 2):
        drawn = make_example(5, number)
        assert facts(kept) == facts(drawn)
        for mine, theirs in zip(arrays(kept), arrays(drawn), strict=True):
            assert all(np.array_equal(*pair) for pair in zip(mine, theirs, strict=True))


def test_every_taught_word_is_known_and_the_correct_choice_is_marked() -> None:
    rng, told = np.random.default_rng(0), 0
    for number in range(8):
        example = make_example(4, number)
        for with_choices in (True, False):
            for question in more_questions(rng, example, 3, with_choices):
                prompt, _ = write_prompt(rng, question, with_choices)
                assert UNKNOWN not in tokenize_text(prompt), prompt
        batch = train.make_batch(rng, [example])
        for words in batch.words:
            for tokens, targets, right in zip(
                words.tokens[0], words.targets[0], words.right[0], strict=True
            ):
                reply = detokenize(int(token) for token in targets[targets >= 0])
                assert int(targets[targets >= 0][-1]) == END
                chosen = [VOCABULARY[int(token)] for token in tokens[right == 1]]
                assert not chosen or chosen[0] == reply
                told += bool(chosen)
    assert told > 20


def test_words_attend_to_what_they_name_and_to_nothing_if_absent() -> None:
    grids = np.zeros((1, PLACES_PER_SIDE, PLACES_PER_SIDE, 6), np.uint8)
    for row, column, color, size, middle in (
        *((3, 4, "red", 2, 1), (9, 9, "blue", 3, 1), (9, 10, "blue", 3, 0)),
    ):
        star = SHAPES.index("star") + 1, list(COLORS).index(color) + 1
        grids[0, row, column] = *star, 0, size, 5, middle
    first, second = 3 * PLACES_PER_SIDE + 4, 9 * PLACES_PER_SIDE + 9
    red, blue, both = {first}, {second, second + 1}, {first, second}
    sinks = set(range(PLACES_PER_SIDE * PLACES_PER_SIDE, PLACES_PER_SIDE * PLACES_PER_SIDE + 4))
    place = Question("Where is the blue star? Give its place.", "1.0 2.0 3.0 4.0")
    which = Question("Which of these is in the image?", "a red star", ("a red star", "a red heart"))
    larger = "Which of the two marked things is larger, A or B?"
    pair = Question(larger, "B", ("A", "B", "equally large"))
    count = Question("How many stars are in the image?", "2")
    for question, text, expected in [
        (place, "Find the blue star.", {"star": blue, "": blue}),
        (which, "Which one?\nA. a red star\nB. a red heart", {"star": red, "heart": sinks}),
        (pair, "Is A larger, or B?\nA) A\nB) B", {"A": red, "B": blue}),
        (count, "Count the stars.", {"stars": both | sinks, "": both | sinks}),
    ]:
        words = [*tokenize_text(text)]
        names = [*(VOCABULARY[word] for word in words), ""]
        pointers = list(pointing.list_pointers(words, question, grids))
        found = {names[p.token]: set(np.flatnonzero(p.shares).tolist()) for p in pointers}
        assert found == expected, text
        assert all(p.shares.sum() == pytest.approx(1) for p in pointers)
    # two things and as much on the sinks
    assert pointers[0].shares[PLACES_PER_SIDE * PLACES_PER_SIDE :].sum() == pytest.approx(0.5)


@pytest.mark.slow
def test_training_stops_and_resumes(plan: Any, tmp_path: Path) -> None:
    def trained(until: int | None = None) -> dict[str, Any]:
        train.train(plan, until=until)
        state: dict[str, Any] = torch.load(tmp_path / "state.pt", weights_only=True)
        return state

    whole = trained()
    (tmp_path / "state.pt").unlink()
    looked, read, both = (trained(until) for until in (2, 4, 6))
    assert whole["step"] == both["step"] == 6
    first = networks.Network().state_dict()
    for name, value in whole["network"].items():
        assert torch.equal(value, both["network"][name]), name
    assert any(not torch.equal(value, first[name]) for name, value in whole["network"].items())
    for name in ("encoder.layers.0.0.weight", "look.bias"):
        assert torch.equal(looked["network"][name], read["network"][name])
        assert not torch.equal(read["network"][name], both["network"][name])


@pytest.mark.slow
def test_the_loss_on_a_few_scenes_decreases(plan: Any) -> None:
    torch.manual_seed(0)
    network, batch = networks.Network(), next(train.batches(plan, 0, plan.look))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    losses = []
    for _ in range(12):
        reply, seen = network(batch)
        optimizer.zero_grad()
        (reply + seen).backward()
        optimizer.step()
        losses.append((reply.item(), seen.item()))
    assert losses[-1][0] < 0.6 * losses[0][0] and losses[-1][1] < 0.8 * losses[0][1]
