"""The salience of an edit: compared with transformers, planted, and from VLM2-Bench's files."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.records import RunFolder
from looktwice.extras.engines import LocalVLM
from looktwice.extras.features import EditSalience
from looktwice.extras.networks import close_networks
from looktwice.pipelines.model import Message
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.optional import optional
from tests.tiny import tiny

torch = optional("torch")
optional("transformers")


def edit(words: str, images: int = 2) -> State:
    pictures = (Picture(np.full((28, 28, 3), 80 * n, np.uint8)) for n in range(images))
    return State.start(Sample("7", words, tuple(pictures)))


def say(messages: Sequence[Message]) -> str:
    """Describe a picture by its grey level; expects one picture."""
    ((view,), words) = messages[-1].views, messages[-1].text
    assert words == "say it"
    return f"grey {view.pixels[0, 0, 0]}"


def test_the_score_is_the_mean_log_probability_of_the_edited_words(
    built: Callable[[str], str],
) -> None:
    scorer, words = LocalVLM(built("llava")), "no yes cat"
    salience = EditSalience(scorer.model, describe="say it")
    measured = salience(edit(words), Scripted(say)).measures
    frame = """Here is what two images show.
Image 1: grey 0
Image 2: grey 80
From image 1 to image 2, what changed is in short:"""
    network = scorer.network()
    inputs = scorer.make_inputs(network, [scorer.make_chat([Message("user", (frame,))])])[
        "input_ids"
    ]
    tokens = network.tokenizer(words, add_special_tokens=False, return_tensors="pt")["input_ids"]
    likely = []
    for token in tokens[0]:
        with torch.inference_mode():
            logits = network.model(input_ids=inputs).logits[0, -1]
        likely.append(float(logits.log_softmax(-1)[token]))
        inputs = torch.cat((inputs, token[None, None]), 1)
    assert len(likely) > 3 and np.ptp(likely) > 0.1
    assert measured["salience"] == pytest.approx(np.mean(likely), rel=1e-4)
    assert measured["kept"] == "yes" and np.mean(likely) < -2
    plain = replace(salience, threshold=float(np.mean(likely)) - 0.1)
    assert plain(edit(words), Scripted(say)).measures["kept"] == "no"
    with pytest.raises(ValueError, match="sample 7 has 3 views; show the image before"):
        salience(edit(words, images=3), Scripted(say))


def write_uniform_network(folder: Path) -> Path:
    """Write a network to which each of 116 tokens is equally likely."""
    from safetensors.torch import load_file, save_file

    tiny("llava", folder)
    tensors = load_file(folder / "model.safetensors")
    for tensor in tensors.values():
        tensor.zero_()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_the_configuration_scores_the_edits_of_the_official_files(tmp_path: Path) -> None:
    """Each edit is scored once; a uniform network gives every token the same score."""
    table, media = tmp_path / "jsonl/gc/vanilla/gc_mat.jsonl", tmp_path / "data/gc/processed"
    media.mkdir(parents=True)
    table.parent.mkdir(parents=True)
    lines = []
    for number, words in enumerate(("add a cat", "swap the red mug")):
        images = [f"{number}_{side}.png" for side in "ab"]
        for side, name in enumerate(images):
            grey = np.full((28, 28, 3), 90 * side + number, np.uint8)
            (media / name).write_bytes(Picture(grey).payload.data)
        for key in "TF":
            row = {"q_id": str(number), "task": "mat", "question": "Is it?", "gt_answer": key}
            lines.append(json.dumps(row | {"edited_prompt": words, "images": images}))
    table.write_text("\n".join(lines) + "\n")
    network = write_uniform_network(tmp_path / "network")
    changes = [f"data={tmp_path}", f"models.eyes.model={network}", "models.eyes.max_tokens=3"]
    result = CliRunner().invoke(app, ["run", "vlm2_curation", *changes, "--out", str(tmp_path)])
    close_networks()
    assert result.exit_code == 0, result.output
    records = RunFolder(tmp_path / "vlm2_curation").records().values()
    measured = [dict(record.measured or {}) for record in records]
    assert [node["salience"] for node in measured] == pytest.approx([-math.log(116)] * 2)
    assert [node["kept"] for node in measured] == ["yes"] * 2
