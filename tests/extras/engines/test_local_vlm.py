"""Models in this process: tiny networks of four families, alone, in batches, and the same ones over
HTTP."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from looktwice.eval.records import RunFolder
from looktwice.extras.engines import LocalVLM
from looktwice.extras.engines.chat_template import build_chat, split_reply
from looktwice.extras.engines.local_vlm import _VLMRequest
from looktwice.pipelines import ChatAPI, Picture, View
from looktwice.pipelines.model import CallOptions, Message, ModelError, Tool
from looktwice.pipelines.models.cache import Store
from looktwice.prompting.agent import TaggedCalls
from tests.first_day.studies import looktwice, write_study
from tests.optional import optional
from tests.tiny import tiny

optional("torch")
optional("transformers")

FAMILIES = ("llava", "llava_next", "idefics3", "qwen2_5_vl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The folder of a family's tiny network, built once."""
    built: dict[str, str] = {}
    root = tmp_path_factory.mktemp("networks")

    def of(family: str) -> str:
        if family not in built:
            built[family] = str(tiny(family, root / family))
        return built[family]

    return of


def view(height: int, width: int, seed: int = 0) -> View:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return View.of(Picture(pixels), 0)


QUESTIONS = (
    [Message("user", (view(60, 80), view(50, 40, 1), "how many"))],
    [Message("user", (view(100, 30, 2), "yes or no?"))],
    [Message("user", ("look", view(50, 40, 1)))],
)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_batched_replies_equal_single_ones(family: str, folder: Callable[[str], str]) -> None:
    model = LocalVLM(folder(family), max_tokens=8)
    alone = [model(question) for question in QUESTIONS]
    options = CallOptions(temperature=0.0, max_tokens=8)
    asked = [_VLMRequest(build_chat(question), options, None) for question in QUESTIONS]
    together = model._forward(asked)
    assert [(r.text, r.usage) for r in together] == [(r.text, r.usage) for r in alone]
    assert len({r.text for r in alone}) == 3, "another question or picture must give another reply"
    assert all(r.served_by["engine"] == "transformers" for r in alone)
    said = {model([Message("user", (view(56, 56, seed), "what"))]).text for seed in range(4)}
    assert len(said) > 1, "pictures are looked at"


@pytest.mark.slow
def test_a_missing_video_processor_is_noted(folder: Callable[[str], str]) -> None:
    said = LocalVLM(folder("qwen2_5_vl"), max_tokens=2)(QUESTIONS[1]).served_by
    assert "no videos" in said["processor"]
    assert "processor" not in LocalVLM(folder("llava"), max_tokens=2)(QUESTIONS[1]).served_by


@pytest.mark.parametrize("family", FAMILIES)
def test_choices_are_scored_by_likelihood(family: str, folder: Callable[[str], str]) -> None:
    model = LocalVLM(folder(family))
    reply = model(QUESTIONS[0], options=CallOptions(choices=("yes", "no")))
    (scored,) = reply.logprobs
    assert set(scored) == {"yes", "no"} and reply.text == max(scored, key=lambda text: scored[text])
    # A choice of one token is as likely as that token is in the first step of a greedy reply.
    one = model(QUESTIONS[0], options=CallOptions(choices=("y", "n"))).logprobs[0]
    whole = CallOptions(logprobs=len(model.network().tokenizer), max_tokens=1)
    step = model(QUESTIONS[0], options=whole).logprobs[0]
    assert one == pytest.approx({"y": step["y"], "n": step["n"]}, abs=1e-4)


def test_sampled_replies_follow_seed_and_draw(folder: Callable[[str], str]) -> None:
    model = LocalVLM(folder("llava"), temperature=1.0, max_tokens=12)
    other = LocalVLM(folder("llava"), temperature=1.0, max_tokens=12, seed=7)
    first = model(QUESTIONS[0]).text
    assert model(QUESTIONS[0]).text == first
    assert first not in (model(QUESTIONS[0], draw=1).text, other(QUESTIONS[0]).text)
    surest = model(QUESTIONS[0], options=CallOptions(top_k=1)).text
    assert surest == model(QUESTIONS[0], options=CallOptions(temperature=0.0)).text != first


def test_stop_texts_and_length_limits_end_a_reply(folder: Callable[[str], str]) -> None:
    model = LocalVLM(folder("llava"), max_tokens=8)
    whole = model(QUESTIONS[0])
    assert whole.finish == "length" and whole.usage.tokens_out == 8
    stop = whole.text[3:5]
    cut = model(QUESTIONS[0], options=CallOptions(stop=(stop,)))
    assert cut.text == whole.text[: whole.text.index(stop)] and cut.finish == "stop"


def test_a_large_picture_is_shrunk_to_max_pixels() -> None:
    chat = build_chat([Message("user", (view(100, 200), view(10, 10), "x"))], max_pixels=5000)
    (height, width, _), small = (image.shape for image in chat.images)
    assert height * width <= 5000 and width / height == pytest.approx(2, abs=0.05)
    assert small == (10, 10, 3)


@pytest.mark.slow
def test_different_weights_make_a_different_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("looktwice.pipelines.runtime.weights.MIN_CACHED_DIGEST_BYTES", 1000)
    place = tmp_path / "network"
    tiny("llava", place)
    config = write_study(tmp_path, "http://127.0.0.1:9/v1")
    model = f"model={{use: pipelines.models.LocalVLM, model: {place}, max_tokens: 2}}"
    run = ("run", config, model, "--out", tmp_path)

    def asked(*words: str) -> int:
        """Return the number of replies after another command."""
        ended = looktwice(*run, *words)
        assert ended.exit_code == 0 and " 0 failed" in ended.output, ended.output
        return len(Store(tmp_path / ".cache"))

    assert [asked(), asked("--again=all")] == [4, 4]
    assert list((tmp_path / "home/looktwice/digests").iterdir())
    import torch
    from safetensors.torch import load_file, save_file

    (file,) = place.glob("*.safetensors")
    other = {name: tensor + torch.ones_like(tensor) for name, tensor in load_file(file).items()}
    save_file(other, file, {"format": "pt"})
    assert [asked("--again=all"), asked()] == [8, 8]
    with (place / "tokenizer_config.json").open("a") as config_file:
        config_file.write("\n")
    assert asked() == 12, "another processor, in a run that was there"
    assert len(RunFolder(tmp_path / "study").records()) == 8


def test_check_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write_study(tmp_path, "http://127.0.0.1:9/v1")

    def check(folder: object) -> str:
        model = f"model={{use: pipelines.models.LocalVLM, model: {folder}}}"
        result = looktwice("check", config, model)
        assert result.exit_code == 2, result.output
        return " ".join(result.output.split())

    assert f"no folder '{tmp_path / 'none'}'" in check(tmp_path / "none")
    assert f"'{tmp_path}' has no config.json" in check(tmp_path)
    monkeypatch.setattr("looktwice.extras.engines.local_vlm.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "pip install -e '.[hf]'" in check("some/model")
    monkeypatch.setitem(sys.modules, "torch", None)
    said = check("some/model")
    assert all(each in said for each in ("torch", "'.[hf]'", "no folder 'some/model'"))


def test_unsupported_features_of_a_local_model_are_reported(
    folder: Callable[[str], str], tmp_path: Path
) -> None:
    model, none, bare = (
        LocalVLM(path) for path in (folder("llava"), f"{tmp_path}/0", f"{tmp_path}")
    )
    for asked, options, said in (
        (model, CallOptions(schema={}, tool_choice="zoom"), "schema or tool_choice"),
        (model, CallOptions(tools=(Tool("zoom", "look closer"),)), "not support tools"),
        (none, CallOptions(), "no folder"),
        (bare, CallOptions(), "could not be opened"),
    ):
        with pytest.raises(ModelError, match=said):
            asked(QUESTIONS[0], options=options)
    with pytest.raises(ValueError, match="max_pixels must be at least 1, got 0"):
        LocalVLM("x", max_pixels=0)


CALL = '<tool_call>{"name": "zoom", "arguments": {"x": 1}}</tool_call>'


def test_a_reply_is_split_into_its_parts() -> None:
    for said, *expected in (
        ("(A)", "(A)", "", []),
        ("<think>hm</think>\n\n(B)", "(B)", "hm", []),
        (f"go {CALL}", "go", "", [("zoom", '{"x": 1}')]),
        ("<tool_call>zoom please</tool_call>", "<tool_call>zoom please</tool_call>", "", []),
        ("<tool_call>[1, 2]</tool_call>", "<tool_call>[1, 2]</tool_call>", "", []),
    ):
        text, reasoning, calls = split_reply(said)[:3]
        assert [text, reasoning, [(call.name, call.arguments) for call in calls]] == expected


def test_tagged_tool_calls_can_be_plain_text(folder: Callable[[str], str]) -> None:
    network = LocalVLM(folder("llava"), device="cpu").network()
    said = CALL.replace(" ", "")
    tokens = network.tokenizer(said, add_special_tokens=False)["input_ids"]
    plain = network.decode_reply(tokens, 0, CallOptions())
    assert (plain.text, plain.tool_calls) == (said, ())
    assert TaggedCalls().read_calls(plain, 8)[0][0].name == "zoom"
    native = network.decode_reply(tokens, 0, CallOptions(tools=(Tool("zoom", "look closer"),)))
    assert (native.text, native.finish, native.tool_calls[0].name) == ("", "tool", "zoom")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`transformers serve` on a free port of this machine."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path_factory.mktemp("home")
    there = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home)}
    program = Path(sys.executable).with_name("transformers")
    command = [str(program), "serve", "--host", "127.0.0.1", "--port", str(port)]
    log = (home / "log").open("w")
    process = subprocess.Popen(command, env=there, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, home / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(10)
        log.close()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["llava", "llava_next", "idefics3"])
def test_http_replies_are_parsed_in_the_same_way(
    family: str, folder: Callable[[str], str], server: str
) -> None:
    here = LocalVLM(folder(family), max_tokens=8)
    there = ChatAPI(folder(family), url=server, max_tokens=8, temperature=0)
    for question in QUESTIONS[:2]:
        local, remote = here(question), there(question)
        assert (remote.text, remote.finish) == (local.text, local.finish)
        assert remote.usage.tokens_in == local.usage.tokens_in
