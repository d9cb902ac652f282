"""Attention of question tokens to image tokens: compared with transformers, and planted."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.engines import LocalVLM
from looktwice.extras.features import QuestionAttention
from looktwice.extras.features.question_attention import (
    find_text_tokens,
    locate_tokens,
    spread_over_pixels,
)
from looktwice.pipelines.marks import Box
from looktwice.pipelines.model import Message, Messages
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel, Pipeline
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.turns import Ask
from looktwice.prompting.views import FixedHeight
from tests.optional import optional
from tests.planted_network import MORE, write_ink_seeker
from tests.tables import table

torch = optional("torch")
optional("transformers")

FAMILIES = ("llava", "llava_next", "qwen2_vl", "qwen2_5_vl")


def picture(height: int, width: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


def view(pixels: Pixels) -> View:
    return View.of(Picture(pixels))


def attention_of(model: LocalVLM, **settings: Any) -> QuestionAttention:
    same = {"system": model.system, "max_pixels": model.max_pixels}
    return QuestionAttention(model.model, **same, **settings)  # type: ignore[arg-type]


def tiles(values: Any, rows: int, columns: int) -> Any:
    """Spread each value (r, c) evenly over a tile of this many pixels."""
    return np.kron(values, np.full((rows, columns), 1 / (rows * columns)))


def build_map(family: str, values: Any) -> Any:
    """Return the map of a picture of 28 x 56 pixels from its image tokens in order."""
    if family == "llava":  # four tokens of the square in its centre
        return np.pad(tiles(values.reshape(2, 2), 14, 14), ((0, 0), (14, 14)))
    if family == "llava_next":  # four of the whole, then two rows of four, each with a newline
        fine = values[4:].reshape(2, 5)[:, :4]
        return tiles(values[:4].reshape(2, 2), 14, 28) + tiles(fine, 14, 14)
    raise AssertionError(family)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layer", [None, 0, -1])
def test_a_map_matches_the_attentions_of_transformers(
    family: str, layer: int | None, built: Callable[[str], str]
) -> None:
    from transformers import AutoModelForImageTextToText

    words = "how many stars"
    model = LocalVLM(built(family), system="be brief", max_pixels=100_000)
    size = (56, 112) if "qwen" in family else (28, 56)  # as their processors leave them
    messages = [Message("user", (view(picture(*size)), words))]
    inputs = model.make_inputs(model.network(), [model.make_chat(messages)])
    kind = AutoModelForImageTextToText
    eager = kind.from_pretrained(built(family), attn_implementation="eager").eval()
    with torch.inference_mode():
        given = eager(**inputs, output_attentions=True).attentions
    assert len(given) == 2
    stacked = torch.stack(given)[:, 0]
    parts = stacked.mean(1) if layer is None else stacked[layer]
    tokens = inputs["input_ids"][0].tolist()
    said = model.network().tokenizer(words, add_special_tokens=False)["input_ids"]
    (start,) = [n for n in range(len(tokens)) if tokens[n : n + len(said)] == said]
    seen = [n for n, token in enumerate(tokens) if token == eager.config.image_token_id]
    rows = parts[:, start : start + len(said)].mean(1).numpy()[:, seen]
    values = rows.mean(0)
    expected = (
        tiles(values.reshape(2, 4), 28, 28) if "qwen" in family else build_map(family, values)
    )
    looks = attention_of(model, layer=layer).predict((messages,))
    assert np.allclose(looks.make_map(0, *size), expected, atol=1e-7)
    assert np.allclose(looks.parts, rows, atol=1e-6)
    assert np.allclose(looks.values, values, atol=1e-6) and 0.01 < values.sum() < 1


# what a layer of an encoder adds to each patch of what it sees elsewhere
MIXES = r"vision_tower\..*\.(out_proj|fc2)\.|visual\.blocks\..*\.(out_proj|proj|down_proj|fc2)\."


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "size", [(60, 80), (100, 30), (56, 56), (31, 67), (84, 196), (100, 190), (190, 100), (20, 100)]
)
def test_a_token_is_located_where_pixels_change_it(
    family: str, size: tuple[int, int], built: Callable[[str], str]
) -> None:
    """Without attention in the encoder, only the pixels at its position change a token."""
    model = LocalVLM(built(family))
    network, own = model.network(), model.network().model.model
    kept = {name: tensor.clone() for name, tensor in own.state_dict().items()}
    try:
        with torch.no_grad():
            for name, tensor in own.named_parameters():
                if re.match(MIXES, name):
                    tensor.zero_()
        check_places(model, network, own, size)
    finally:
        own.load_state_dict(kept)


def check_places(model: LocalVLM, network: Any, own: Any, size: tuple[int, int]) -> None:
    rng, plain = np.random.default_rng(0), np.full((*size, 3), 128, np.uint8)
    inputs, before = features(model, network, own, plain)
    (places,) = locate_tokens(network, inputs, [size])
    assert len(places) == len(before)
    for _ in range(12):
        y, x = (int(rng.integers(edge)) for edge in size)
        spotted = plain.copy()
        spotted[y, x] = (255, 0, 0)
        changed = np.abs(features(model, network, own, spotted)[1] - before).max(1) > 1e-5
        certain, possible = (find_covering_tokens(places, size, (y, x), n) for n in (0, 1))
        assert not (changed & ~possible).any(), (size, y, x)
        assert changed[certain].all(), (size, y, x)


def find_covering_tokens(
    places: Any, size: tuple[int, int], at: tuple[int, int], reach: int
) -> Any:
    """Return which tokens certainly hold a pixel (0), or may through resampling (1)."""
    found = np.ones(len(places), bool)
    for low, high, pixels, where in ((0, 1, size[0], at[0]), (2, 3, size[1], at[1])):
        edges = places[:, (low, high)] * pixels
        more = reach * 2.5 * np.maximum(1, (edges[:, 1] - edges[:, 0]) / 14)
        found &= (edges[:, 0] - more <= where) & (where + 1 <= edges[:, 1] + more)
    return found


def features(model: LocalVLM, network: Any, own: Any, pixels: Pixels) -> tuple[Any, Any]:
    inputs = model.make_inputs(network, [model.make_chat([Message("user", (view(pixels), "x"))])])
    names = ("pixel_values", "image_sizes", "image_grid_thw")
    with torch.inference_mode():
        given = {name: inputs[name] for name in names if name in inputs}
        seen = own.get_image_features(**given).pooler_output
    return inputs, torch.cat(list(seen)).numpy().reshape(-1, 32)


def test_spreading_keeps_the_attention_of_tokens_and_drops_that_of_padding() -> None:
    places = np.array([[np.nan] * 4, [0, 1, -0.5, 0.25], [0, 1, 0.25, 1], [0, 1, 1, 1.5]])
    found = spread_over_pixels(np.array([9.0, 1.0, 3.0, 9.0]), places, 2, 4)
    assert np.allclose(found, [[0.5, 0.5, 0.5, 0.5]] * 2)
    # tokens smaller than a pixel
    assert np.allclose(spread_over_pixels(np.array([9.0, 1.0, 3.0, 9.0]), places, 1, 1), 4)


@table
def test_question_tokens_are_found_by_comparing_prompts(
    prompt: str, without: str, words: list[int]
) -> None:
    assert find_text_tokens(list(map(ord, prompt)), list(map(ord, without))) == words


@pytest.mark.slow
@pytest.mark.parametrize("corner", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_planted_attention_gives_its_known_share(corner: tuple[int, int], tmp_path: Path) -> None:
    """The dark one of four image tokens receives e^3 times the attention of another token."""
    model = LocalVLM(str(write_ink_seeker(tmp_path / "planted")))
    down, right = (28 * each for each in corner)
    pixels = np.full((56, 56, 3), 255, np.uint8)
    pixels[down : down + 28, right : right + 28] = 0
    star = Box("star 1", right, down, right + 28, down + 28)
    marks = (star, Box("circle 1", 28 - right, 0, 56 - right, 56))
    sample = Sample("s", "how many", (Picture(pixels),), marks=marks)
    attention = attention_of(model, labels=("star",), apart=True)
    measured = attention(State.start(sample), NoModel()).measures
    share = np.exp(MORE) / (np.exp(MORE) + 3)
    for part in ("", "_layer_0", "_layer_1"):
        assert measured[f"question_attention{part}"] == pytest.approx(share, rel=2e-3)
    assert measured["marked_area"] == 0.25
    inputs = model.make_inputs(model.network(), [model.make_chat(asked_of(State.start(sample)))])
    tokens = inputs["input_ids"][0].tolist()
    first, words = tokens.index(6) + 5, model.network().tokenizer(" how many")["input_ids"]
    assert tokens[first : first + len(words)] == words
    # of this many other tokens
    seen = [(np.exp(MORE) + 3) / (np.exp(MORE) + n) for n in range(first, first + len(words))]
    assert measured["image_attention"] == pytest.approx(np.mean(seen[1:]), rel=2e-3)


def test_it_uses_the_prompt_that_the_model_was_sent(built: Callable[[str], str]) -> None:
    model = LocalVLM(built("qwen2_5_vl"), max_tokens=3)
    sample = Sample("s", "how many", (Picture(picture(56, 84)),), marks=(Box("A", 0, 0, 40, 30),))
    look = attention_of(model)
    asked = Pipeline({"ask": Ask(), "look": look})(State.start(sample), model)
    assert asked.messages[-1].role == "assistant"
    # the reply is not among the question tokens
    assert asked.measures == look(State.start(sample), NoModel()).measures
    other = Pipeline({"ask": Ask(images="after"), "look": look})(State.start(sample), model)
    assert other.notes[-1] == "question attention: no word of the question follows a picture"
    assert not other.measures
    system = Pipeline({"ask": Ask(system="be brief"), "look": look})(State.start(sample), model)
    assert system.measures["image_attention"] < asked.measures["image_attention"]  # type: ignore[operator]


def test_marks_count_on_their_own_pictures(built: Callable[[str], str]) -> None:
    model = LocalVLM(built("llava_next"))
    pictures = tuple(Picture(picture(40, 60, seed)) for seed in range(2))
    marks = (Box("A", 0, 0, 60, 40, 0), Box("B", 0, 0, 30, 40, 1))
    state = State.start(Sample("s", "which", pictures, marks=marks))
    attention = attention_of(model)
    for after, size in ((state, (40, 60)), (FixedHeight(80)(state, NoModel()), (80, 120))):
        looks = attention.predict((asked_of(after),))
        first, second = (looks.make_map(number, *size) for number in (0, 1))
        measured = attention(after, NoModel()).measures
        inside = (first.sum() + second[:, : size[1] // 2].sum()) / (first.sum() + second.sum())
        assert measured["question_attention"] == pytest.approx(inside)
        assert measured["marked_area"] == 0.75
        assert first.sum() + second.sum() < looks.values.sum(), "newlines have no place"
    alone = replace(attention, labels=("C",))(state, NoModel())
    assert alone.notes == ("question attention: no view shows a mark",) and not alone.measures


def asked_of(state: State) -> Messages:
    return [Message("user", (*state.views, state.prompt))]


def test_families_without_known_token_positions_are_refused(built: Callable[[str], str]) -> None:
    messages = [Message("user", (view(picture(56, 56)), "x"))]
    sentence = "known for llava, llava_next, qwen2_vl, qwen2_5_vl, not for 'idefics3'"
    with pytest.raises(WeightsError, match=sentence):
        QuestionAttention(built("idefics3")).predict((messages,))
