"""Hidden states of layers match those of the networks, for four families and Pocket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.engines import LocalVLM
from looktwice.extras.engines.chat_template import build_chat
from looktwice.extras.inside.internals import Layer, read_states
from looktwice.pipelines import Picture, Scripted, View
from looktwice.pipelines.model import Message, Messages, ModelError
from looktwice.pipelines.models import Pocket
from looktwice.pipelines.models.pocket.model import make_network_inputs
from looktwice.pipelines.models.pocket.network import ANSWER, Conversation, load_bundled_weights
from tests.tiny import tiny

FAMILIES = ("llava", "llava_next", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")
DECODER = [Layer("decoder", number, over) for number in (1, 2) for over in ("image", "last")]
WHOLE = [Layer("tower", 1), Layer("tower", 2), Layer("projector", 1), *DECODER]


def make_messages(*shapes: tuple[int, int]) -> Messages:
    random = np.random.default_rng(0)
    pictures = [Picture(random.integers(0, 255, (*s, 3), dtype=np.uint8)) for s in shapes]
    views = [View.of(picture) for picture in pictures]
    return [Message("user", (*views, "how many circles are there?"))]


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("transformers")
    return pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_the_network(family: str, tmp_path: Path, torch: Any) -> None:
    model = LocalVLM(str(tiny(family, tmp_path / family)))
    said, question = (
        model(make_messages((60, 80), (50, 40))).text,
        make_messages((60, 80), (50, 40)),
    )
    network = model.network()
    states = read_states(model, question)
    assert list(states) == WHOLE
    ours = [hook for module in network.model.modules() for hook in module._forward_hooks.values()]
    assert not any("internals" in hook.__module__ for hook in ours)
    inputs = model.make_inputs(network, [build_chat(question)])
    with torch.inference_mode():
        whole = network.model(**inputs, output_hidden_states=True)
        names = {"pixel_values", "image_sizes", "image_grid_thw"} & inputs.keys()
        pixels = {name: inputs[name] for name in names}
        seen = network.model.model.get_image_features(**pixels, output_hidden_states=True)
    first = whole.hidden_states[1][0].numpy()
    image = inputs["input_ids"][0].numpy() == 3 + 3 * ("qwen" in family)
    np.testing.assert_allclose(states[Layer("decoder", 1, "last")], first[-1], atol=1e-4)
    np.testing.assert_allclose(
        states[Layer("decoder", 1, "image")], first[image].mean(0), atol=1e-4
    )
    if family != "llava_next":  # it adds newline tokens to the output of its projector
        projected = torch.cat(list(seen.pooler_output)).numpy()
        np.testing.assert_allclose(states[Layer("projector", 1)], projected.mean(0), atol=1e-4)
    if "llava" in family:
        tower = seen.hidden_states[1][:, 1:].flatten(0, 1).numpy()
        np.testing.assert_allclose(states[Layer("tower", 1)], tower.mean(0), atol=1e-4)
    assert model(question).text == said


@pytest.mark.slow
def test_only_the_layers_used_by_the_projector_are_read_from_a_tower(
    tmp_path: Path, torch: Any
) -> None:
    model = LocalVLM(str(tiny("llava", tmp_path / "llava")))
    model.network().model.config.vision_feature_layer = -2
    layers = [
        layer for layer in read_states(model, make_messages((60, 80))) if layer.part == "tower"
    ]
    assert layers == [Layer("tower", 1)]
    assert list(read_states(model, make_messages())) == [
        Layer("decoder", n, "last") for n in (1, 2)
    ]


def test_layers_that_cannot_be_read_are_reported(tmp_path: Path, torch: Any) -> None:
    other = LocalVLM(str(tiny("idefics3", tmp_path / "idefics3")))
    for model, words in ((other, "qwen3_vl.*idefics3"), (Scripted("A"), "Scripted")):
        with pytest.raises(ModelError, match=words):
            read_states(model, make_messages((60, 80)))


def test_the_reply_of_pocket_follows_from_its_last_state() -> None:
    question, weights = make_messages((60, 80), (50, 40)), load_bundled_weights()
    states = read_states(Pocket(), question)
    parts = [layer.part for layer in states]
    decoders = [layer for layer in states if layer.part == "decoder"]
    assert (parts.count("tower"), len(decoders)) == (6, weights.layers)
    assert {layer.pooling for layer in decoders} == {"last"}
    logits = weights.apply_norm("before_end", states[decoders[-1]]) @ weights["embed"].T
    tokens, inputs = make_network_inputs(question)
    places = [weights.encode_view(sha, pixels) for sha, pixels in inputs.items()]
    likely = Conversation(weights, tokens, places).write(ANSWER)
    assert Pocket()(question).text and logits.argmax() == likely.argmax()
    np.testing.assert_allclose(logits - logits.max(), likely - likely.max(), atol=1e-3)
    projected = np.concatenate(places).mean(0)
    np.testing.assert_allclose(states[Layer("projector", 1)], projected, atol=1e-5)
