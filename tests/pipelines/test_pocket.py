"""Pocket: its words, numpy inference equal to torch, its replies, and what it refuses."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from looktwice.eval import MarkedScenes, Robust
from looktwice.pipelines import Message, Pipeline, Stage, State, View
from looktwice.pipelines.model import CallOptions, ModelError, Tool
from looktwice.pipelines.models import Pocket
from looktwice.pipelines.models.pocket import network
from looktwice.pipelines.models.pocket.network import (
    INPUT_SIDE,
    TOKEN_IDS,
    VOCABULARY,
    Conversation,
    detokenize,
    fit_pixels,
    load_bundled_weights,
    tokenize_reply,
    tokenize_text,
)
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.runtime.stores import MemoryCache
from looktwice.prompting import Ask, Circles, MultipleChoice, Reperceive, Vote
from looktwice.prompting.turns import CaptionThenAnswer

PROMPT = "What shape is the marked thing?\n(A) star\n(B) heart\nAnswer with the letter."


def noise(seed: int = 0, width: int = 200, height: int = 120) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def make_messages(*seeds: int, text: str = PROMPT) -> list[Message]:
    views = tuple(View.of(Picture(noise(seed), "noise")) for seed in seeds)
    return [Message("user", (*views, text))]


def test_text_and_words_convert_both_ways() -> None:
    words = [VOCABULARY[n] for n in tokenize_text("What's  a Star?!\n\n\n(A) a RED star")]
    assert words == ["<unknown>", "a", "star", "<line>", "A", "a", "red", "star"]
    assert len(set(VOCABULARY)) == len(VOCABULARY)
    assert detokenize([*tokenize_reply("row 2, column 3")]) == "row 2, column 3"
    assert tokenize_reply("37, 52") == [
        TOKEN_IDS["37"],
        TOKEN_IDS[","],
        TOKEN_IDS["52"],
        network.END,
    ]
    assert tokenize_reply("a zebra") == []
    red = TOKEN_IDS["red"]
    assert tokenize_text("xylophone quartz \n \n red") == [network.UNKNOWN, network.LINE, red]
    long = tokenize_text("red " * 500 + "star")
    assert len(long) == network.MAX_TEXT_TOKENS and long[-1] == TOKEN_IDS["star"]


def test_a_picture_is_resized_to_the_input_keeping_its_proportions() -> None:
    pixels = np.full((50, 100, 3), 200, np.uint8)
    whole, scale, corner = fit_pixels(pixels)
    assert (whole.shape, scale, corner) == ((INPUT_SIDE, INPUT_SIDE, 3), INPUT_SIDE / 100, (0, 32))
    assert (whole[32:96] == 200).all() and (whole[:32] == 128).all() and (whole[96:] == 128).all()


def test_numpy_and_torch_compute_the_same(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from bench.pocket.export import export
    from bench.pocket.network import Network

    torch.manual_seed(0)
    trained = Network()
    for module in trained.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 2)
    export(trained.eval(), tmp_path / "weights.npz")
    weights = network.Weights((tmp_path / "weights.npz").read_bytes())
    inputs = [fit_pixels(noise(seed))[0] for seed in (1, 2)]
    text, reply = tokenize_text(PROMPT), [network.ANSWER, TOKEN_IDS["star"], TOKEN_IDS["7"]]
    with torch.no_grad():
        shown = torch.from_numpy(np.stack(inputs))[None]
        places, there, _ = trained.places(shown, torch.ones(1, 2, dtype=torch.bool))
        logits = trained.logits(torch.tensor([[text + reply]]), len(text), places, there)[0][0]
    seen = [weights.encode_view(str(number), pixels) for number, pixels in enumerate(inputs)]
    talk = Conversation(weights, text, seen)
    mine = np.stack([talk.write(token) for token in reply])
    # half precision of the weights
    assert np.abs(mine - logits.log_softmax(-1).numpy()).max() < 5e-3
    turned = np.stack([Conversation(weights, text, seen[::-1]).write(token) for token in reply])
    assert np.abs(mine - turned).max() > 1e-3


def test_a_reply_does_not_depend_on_its_batch() -> None:
    model = Pocket()
    requests = [make_messages(seed) for seed in range(8)]
    options = CallOptions(logprobs=3)
    alone = [model(each, options=options) for each in requests]
    load_bundled_weights().encoded_views = MemoryCache()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda each: model(each, options=options), requests * 3))
    for one, many in zip(alone * 3, together, strict=True):
        assert (one.text, one.logprobs, one.usage) == (many.text, many.logprobs, many.usage)


def test_choices_are_scored_as_continuations() -> None:
    reply = Pocket()(make_messages(1), options=CallOptions(choices=("red star", "A", "37")))
    scored = reply.logprobs[0]
    assert set(scored) == {"red star", "A", "37"}
    assert reply.text == max(scored, key=lambda text: scored[text])
    places = load_bundled_weights().encode_view("noise", fit_pixels(noise(1))[0])
    talk = Conversation(load_bundled_weights(), tokenize_text(PROMPT), [places])
    tokens = [network.ANSWER, TOKEN_IDS["red"], TOKEN_IDS["star"], network.END]
    total = sum(float(talk.write(before)[token]) for before, token in pairwise(tokens))
    assert scored["red star"] == pytest.approx(total, abs=2e-5)
    told = Pocket()(make_messages(1), options=CallOptions(logprobs=382))
    for step in told.logprobs:
        assert sum(map(math.exp, set(step.values()))) == pytest.approx(1, abs=0.05)
    assert len(told.logprobs) == told.usage.tokens_out


def test_sampling_depends_only_on_seed_and_draw() -> None:
    model, weights = Pocket(temperature=3.0), load_bundled_weights().sha
    assert weights in Pocket().identity != model.identity and len(weights) == 64
    first = [model(make_messages(1), draw).text for draw in range(12)]
    assert first == [model(make_messages(1), draw).text for draw in range(12)]
    assert len(set(first)) > 1
    assert first != [
        Pocket(temperature=3.0, seed=1)(make_messages(1), draw).text for draw in range(12)
    ]
    for surest in (CallOptions(top_p=1e-6), CallOptions(top_k=1)):
        texts = {model(make_messages(1), draw, surest).text for draw in range(6)}
        assert texts == {Pocket()(make_messages(1)).text}


def test_equal_pictures_are_encoded_once() -> None:
    model = Pocket()
    assert model(make_messages(1, 1, 1)).text == model(make_messages(1)).text
    assert model(make_messages(1, 1)).usage == model(make_messages(1)).usage


def test_unknown_words_are_refused() -> None:
    five = make_messages(1, 2, 3, 4, 5)
    for messages, options, words in (
        (five, CallOptions(), "4 different .* 5"),
        (make_messages(1, text="?!"), CallOptions(), "was sent no text"),
        (make_messages(1), CallOptions(tools=(Tool("zoom", "zooms"),)), "not support tools"),
        (make_messages(1), CallOptions(schema={}, effort="low"), "schema or effort"),
        (make_messages(1), CallOptions(choices=("zebra",)), "'zebra'"),
    ):
        with pytest.raises(ModelError, match=words):
            Pocket()(messages, options=options)


def test_it_works_in_votes_and_turns_and_learns_nothing_from_a_caption() -> None:
    items = list(MarkedScenes("shape", n=8, controls={"size": 56, "things": 3}))

    def right(stage: Stage, temperature: float = 0.0) -> int:
        mark = Circles(radius=28, color="red")
        pipeline = Pipeline({"mark": mark, "choose": MultipleChoice(), "ask": stage})
        states = [pipeline(State.start(item.sample), Pocket(temperature)) for item in items]
        answers = [state.answer or Robust()(state, NoModel()).answer for state in states]
        return sum(answer == item.answer for answer, item in zip(answers, items, strict=True))

    assert right(Ask()) >= 7
    assert right(Vote(Robust(), n=3), temperature=0.5) >= 7
    assert right(Reperceive()) >= 7
    assert right(CaptionThenAnswer()) <= 5  # its replies about an image carry no information
