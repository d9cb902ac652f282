"""vLLM and SGLang in this process: their inputs, the replies made from their results, and a message
of one sentence for every failure."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval.records import RunFolder
from looktwice.extras.engines import VLLM, SGLang
from looktwice.extras.engines.model import EngineModel, count_tokens_through
from looktwice.extras.engines.sglang_engine import catch_crashes
from looktwice.extras.networks import close_networks
from looktwice.pipelines import Message, Picture, View
from looktwice.pipelines.model import CallOptions, ModelError, Tool, ToolCall, Usage
from tests.extras.engines.network import THOUGHT_END, Network, Seen
from tests.extras.engines.upstream import FACTS, list_names, read_signature
from tests.first_day.studies import looktwice
from tests.tables import table

PACKAGES = Path(__file__).with_name("packages")
MODELS: dict[str, type[EngineModel]] = {"vllm": VLLM, "sglang": SGLang}
OWN_PLACES = {
    "vllm/entrypoints/llm.py": "vllm/llm.py",
    "vllm/v1/engine/llm_engine.py": "vllm/llm.py",
    "vllm/v1/engine/core_client.py": "vllm/llm.py",
    "vllm/renderers/base.py": "vllm/llm.py",
    "vllm/platforms/interface.py": "vllm/platforms.py",
    "vllm/logprobs.py": "vllm/outputs.py",
    "sglang/srt/entrypoints/engine.py": "sglang/engine.py",
    "sglang/srt/utils/common.py": "sglang/srt/utils.py",
    "sglang/srt/sampling/sampling_params.py": "sglang/sampling_params.py",
}
PLACES = [(name, place) for name in FACTS for place in FACTS[name]["signatures"]]
every = pytest.mark.parametrize("name", MODELS)


def make_view(seed: int = 0, height: int = 9, width: int = 7) -> View:
    """Return a picture of noise."""
    shape = height, width, 3
    return View.of(Picture(np.random.default_rng(seed).integers(0, 255, shape, np.uint8)))


def ask(text: str = "Which?", *views: View) -> list[Message]:
    """Return a conversation of one turn."""
    return [Message("user", (*views, text))]


def say(text: str) -> Callable[[Seen], str]:
    """Return a network that always replies with this text."""
    return lambda seen: text


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, which another thread brings about."""
    while not condition():
        threading.Event().wait(0.001)


def name_pixels(pixels: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(pixels.tobytes()).hexdigest()[:8]


@pytest.mark.parametrize(("name", "place"), PLACES)
def test_stand_ins_have_the_signatures_of_the_packages(name: str, place: str) -> None:
    file, _, what = place.partition(":")
    own = f"{OWN_PLACES.get(file, file)}:{what}"
    assert read_signature(PACKAGES, own) == FACTS[name]["signatures"][place]


@every
def test_installed_packages_have_these_signatures(name: str) -> None:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"needs {name}")
    root, facts = Path(spec.origin).parents[1], FACTS[name]
    read = {place: read_signature(root, place) for place in facts["signatures"]}
    assert read == facts["signatures"]
    known = {*facts["arguments"].split()}
    assert known <= {*list_names(root, facts["arguments_in"].removesuffix(".py"))}


@every
def test_engines_get_our_pixels_in_order(name: str, network: Network) -> None:
    one, two, three = (make_view(seed, 20 + seed, 30) for seed in range(3))
    turns = [
        Message("user", ("First", one, "then", two)),
        Message("assistant", ("A",), attached={"reasoning_content": "hm"}),
        Message("user", (three, "now?")),
    ]
    reply = MODELS[name]("m", system="Be brief.", template={"deep": False})(turns)
    assert reply.text == " ".join(name_pixels(view.pixels) for view in (one, two, three))
    shown = "[deep=False]\nsystem: Be brief.\nuser: First<image>then<image>\nassistant: hmA\n"
    assert network.seen[0].prompt == f"{shown}user: <image>now?\nassistant: "


@every
def test_a_jpeg_is_passed_as_the_pixels_that_stages_see(name: str, network: Network) -> None:
    view = make_view(3, 32, 48)
    data = cv2.imencode(".jpg", view.pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 60])[1]
    picture = Picture.encoded(data.tobytes())
    assert MODELS[name]("m")(ask("?", View.of(picture))).text == name_pixels(picture.pixels)
    assert name_pixels(picture.pixels) != name_pixels(view.pixels)


@every
def test_large_pictures_are_shrunk_to_max_pixels(name: str, network: Network) -> None:
    MODELS[name]("m", max_pixels=5000)(ask("?", make_view(0, 100, 200), make_view(1, 10, 10)))
    large, small = (image.shape for image in network.seen[0].images)
    assert large[0] * large[1] <= 5000 and small == (10, 10, 3)


NEUTRAL: dict[str, Any] = {"temperature": 0.0, "top_p": 1.0, "stop": [], "seed": None}
OWN_NAMES: dict[str, dict[str, Any]] = {
    "vllm": {"top_k": 0, "max_tokens": 512, "logprobs": None},
    "sglang": {"top_k": -1, "max_new_tokens": 512},
}


def read_sampling(network: Network) -> dict[str, Any]:
    """Return the sampling of the last request, with SGLang's name of a seed in ours."""
    found = dict(vars(network.seen[-1].sampling))
    return {"seed": found.pop("sampling_seed", None), **found}


@every
def test_no_default_of_an_engine_applies(name: str, network: Network) -> None:
    model = MODELS[name]("m")
    model(ask())
    expected = NEUTRAL | OWN_NAMES[name]
    found = read_sampling(network)
    assert {key: found[key] for key in expected} == expected
    changes: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop": ("x",)}
    length = "max_tokens" if name == "vllm" else "max_new_tokens"
    model(ask(), options=CallOptions(max_tokens=3, **changes))
    found = read_sampling(network)
    expected = changes | {"stop": ["x"], length: 3}
    assert {key: found[key] for key in expected} == expected


@every
def test_sampled_requests_have_their_own_seeds(name: str, network: Network) -> None:
    model = MODELS[name]("m", temperature=1.0, seed=7)
    seeds = list[Any]()
    for draw in (0, 1, 0):
        model(ask(), draw)
        seeds.append(read_sampling(network)["seed"])
    assert seeds[0] == seeds[2] != seeds[1] and 0 <= max(seeds) < 2**63
    model(ask(), options=CallOptions(temperature=0.0))
    assert read_sampling(network)["seed"] is None


def test_sglang_obeys_seeds_only_in_deterministic_inference(network: Network) -> None:
    SGLang("m", temperature=1.0, seed=0)(ask())
    assert network.arguments[-1]["enable_deterministic_inference"] is True
    free = SGLang("m", temperature=1.0)
    free(ask())
    assert "enable_deterministic_inference" not in network.arguments[-1]
    assert read_sampling(network)["seed"] is None
    with pytest.raises(ModelError, match="`seed` in the model's node"):
        free(ask(), options=CallOptions(seed=3))


@every
def test_requests_of_threads_run_together_and_end_apart(name: str, network: Network) -> None:
    def reply(seen: Seen) -> str:
        return "word " * (400 if "long" in seen.prompt else 1)

    network.reply = reply
    model = MODELS[name]("m", max_tokens=5000)
    engine: Any = model.open()
    network.gate.clear()
    with ThreadPoolExecutor(9) as threads:
        asked = [threads.submit(model, ask("long"))]
        wait_until(lambda: bool(network.seen))  # the long request is in the batch first
        asked += [threads.submit(model, ask(f"short {n}")) for n in range(8)]
        wait_until(lambda: len(network.seen) + len(getattr(engine, "queue", ())) == 9)
        network.gate.set()
        for each in asked:
            each.result()
    over = ["long" in seen.prompt for seen in network.over]
    assert over == [False] * 8 + [True], "the first request ends last"
    assert network.most > 1 and len(network.arguments) == 1


@every
def test_usage_and_reasons_for_the_end(name: str, network: Network) -> None:
    network.reply = say("abcdefgh")
    model = MODELS[name]("m")
    whole = model(ask("?", make_view()))
    assert (whole.text, whole.finish) == ("abcdefgh", "stop")
    assert whole.usage.tokens_in > 5 and whole.usage == Usage(whole.usage.tokens_in, 8, 0, 7)
    short = model(ask(), options=CallOptions(max_tokens=3))
    assert (short.text, short.finish, short.usage.tokens_out) == ("abc", "length", 3)
    ended = model(ask(), options=CallOptions(stop=("zz", "ef")))
    assert (ended.text, ended.finish, ended.usage.tokens_out) == ("abcd", "stop", 6)
    assert whole.served_by == {"model": "m", "engine": name, "version": FACTS[name]["version"]}
    network.reason = "abort"
    with pytest.raises(ModelError, match="abort") as failure:
        model(ask())
    assert failure.value.retryable


@every
@pytest.mark.parametrize("start", ["<think>", ""])
def test_thoughts_are_split_off_and_counted(name: str, start: str, network: Network) -> None:
    network.reply = say(f"{start}so many{THOUGHT_END}two")
    reply = MODELS[name]("m")(ask())
    assert (reply.text, reply.reasoning) == ("two", "so many")
    assert reply.usage.reasoning_tokens == len(start) + len("so many") + 1
    assert reply.as_message().attached == {"reasoning_content": "so many"}


def test_a_thought_ends_with_the_tokens_of_its_end() -> None:
    assert [count_tokens_through((1, 2, 3, 4), end) for end in ((2, 3), (4,), (9,), ())] == [
        3,
        4,
        0,
        0,
    ]


@every
def test_log_probabilities_begin_with_the_chosen_token(name: str, network: Network) -> None:
    network.reply = say("ab")
    model = MODELS[name]("m", logprobs=3)
    assert model(ask()).logprobs == ({"a": -1.0, "z": -0.5}, {"b": -1.0, "z": -0.5})
    assert next(iter(model(ask()).logprobs[0])) == "a"
    chosen = model(ask(), options=CallOptions(logprobs=0)).logprobs
    assert chosen == ({"a": -1.0}, {"b": -1.0})
    assert MODELS[name]("m")(ask()).logprobs == ()


@every
def test_choices_and_schemas_constrain_decoding(name: str, network: Network) -> None:
    model = MODELS[name]("m")
    assert model(ask(), options=CallOptions(choices=("yes", "no"))).text == "no"
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    model(ask(), options=CallOptions(schema=schema))
    model(ask(), options=CallOptions(schema={}))
    chosen, given, any_object = (seen.sampling for seen in network.seen)
    if name == "vllm":
        found = [each.structured_outputs for each in (chosen, given, any_object)]
        assert found[0].choice == ["yes", "no"] and found[1].json == schema
        assert found[2].json_object is True
    else:
        assert chosen.regex == "(yes|no)" and '"answer"' in given.json_schema
        assert any_object.json_schema == '{"type": "object"}'


@every
def test_tools_are_offered_and_their_results_hold_pictures(name: str, network: Network) -> None:
    zoom = Tool("zoom", "Look closer.", {"type": "object"})
    network.reply = say('Look. <tool_call>{"name": "zoom", "arguments": {"x": 1}}</tool_call>')
    model, options = MODELS[name]("m"), CallOptions(tools=(zoom,))
    first, second = make_view(1), make_view(2)
    reply = model(ask("?", first), options=options)
    assert reply.finish == "tool" and reply.tool_calls[0].name == "zoom"
    call = ToolCall("call_0", "zoom", '{"x": 1}')
    result = Message("tool", ("closer", second), call_id="call_0")
    model([*ask("?", first), Message("assistant", ("",), (call,)), result], options=options)
    seen = network.seen[-1]
    assert [name_pixels(image) for image in seen.images] == [
        name_pixels(view.pixels) for view in (first, second)
    ]
    assert seen.prompt.startswith("[zoom]\n") and "tool: closer<image>" in seen.prompt


@every
def test_videos_are_passed_as_bytes(name: str, network: Network) -> None:
    pytest.importorskip("av")
    from looktwice.extras.video.native import Clip, encode_mp4, make_payload

    frames = [make_view(seed, 16, 16).pixels for seed in range(3)]
    data = encode_mp4(frames, (0.0, 0.5, 1.0), 18)
    clip = Clip.from_frames(frames, make_payload(data, "video/mp4", ""))
    MODELS[name]("m")(ask("?", make_view(9), View.of(clip)))
    seen = network.seen[0]
    assert seen.videos[0].startswith("data:video/mp4;base64,") and len(seen.images) == 1
    assert "<image><video>?" in seen.prompt


def open_text_model(network: Network) -> None:
    network.sees = False


def lose_gpu(network: Network) -> None:
    network.has_gpu = False


def fill_memory(network: Network) -> None:
    network.opening_fault = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def fail_core(network: Network) -> None:
    network.opening_fault = RuntimeError("Engine core initialization failed. See root cause above.")


def miss_weights(network: Network) -> None:
    network.opening_fault = OSError("x/y is not a valid model identifier\nmore")


def shorten_context(network: Network) -> None:
    network.context = 5


def change_nothing(network: Network) -> None:
    """Leave the network as it is."""


CHANGES: dict[str, Callable[[Network], None]] = {
    change.__name__: change
    for change in (
        open_text_model,
        lose_gpu,
        fill_memory,
        fail_core,
        miss_weights,
        shorten_context,
        change_nothing,
    )
}


@table
def test_each_failure_is_one_sentence(
    name: str,
    change: str,
    settings: dict[str, Any],
    options: dict[str, Any],
    words: Sequence[str],
    network: Network,
) -> None:
    CHANGES[change](network)
    with pytest.raises(ModelError) as failure:
        MODELS[name]("m", **settings)(ask("?", make_view()), options=CallOptions(**options))
    message = str(failure.value)
    assert "\n" not in message and not failure.value.retryable
    assert [word for word in words if word not in message] == [], message


@every
def test_a_missing_package_is_named_with_the_install_command(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("looktwice.extras.engines.faults.find_spec", lambda package: None)
    for call in (MODELS[name]("m").check, lambda: MODELS[name]("m")(ask())):
        with pytest.raises(ModelError, match=rf"{name} is not installed; type: pip install"):
            call()


@every
def test_check_opens_nothing(name: str, network: Network) -> None:
    MODELS[name]("m").check()
    with pytest.raises(ModelError, match="no folder"):
        MODELS[name]("/nowhere/m").check()
    network.has_gpu = False
    with pytest.raises(ModelError, match="no GPU"):
        MODELS[name]("m").check()
    assert not network.arguments


@every
def test_settings_of_the_engine_have_one_place(name: str, network: Network) -> None:
    model = MODELS[name]("m", memory=0.4, gpus=2, dtype="half", engine={"download_dir": "d"})
    model(ask())
    given = dict(network.arguments[0])
    share = given.get("memory", given.get("mem_fraction_static"))
    assert (share, given.get("gpus", given.get("tp_size")), given["dtype"]) == (0.4, 2, "half")
    assert given["download_dir"] == "d"
    with pytest.raises(ValueError, match="`memory`"):
        argument = "gpu_memory_utilization" if name == "vllm" else "mem_fraction_static"
        MODELS[name]("m", engine={argument: 0.4})
    same, other = MODELS[name]("m", memory=0.3, in_flight=2), MODELS[name]("m", top_k=3)
    assert same.identity == MODELS[name]("m").identity != other.identity


@every
def test_contestants_of_one_engine_share_it(name: str, network: Network) -> None:
    MODELS[name]("m")(ask())
    MODELS[name]("m", max_tokens=9, system="s", top_p=0.9)(ask())
    assert len(network.arguments) == 1
    MODELS[name]("m", engine={"download_dir": "d"})(ask())
    assert len(network.arguments) == 2


@every
def test_closing_frees_the_engine_and_fails_waiting_requests(name: str, network: Network) -> None:
    network.reply = say("a")
    model = MODELS[name]("m")
    model(ask())
    close_networks()
    assert network.closed == 1
    assert model(ask()).text == "a" and len(network.arguments) == 2, "it opens again"
    engine = model.open()
    network.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(model, ask("wait"))
        wait_until(lambda: len(network.seen) == 3)
        closing = threading.Thread(target=engine.close)
        closing.start()
        if name == "vllm":
            network.gate.set()  # its thread is inside a step until then
        closing.join()
        assert network.closed == 2
        network.gate.set()
        with pytest.raises(ModelError, match="has ended"):
            waiting.result()
            model(ask())
    with pytest.raises(ModelError, match="has ended"):
        model(ask())


def test_a_dead_vllm_fails_every_request(network: Network) -> None:
    model = VLLM("m")
    model.open()
    network.dies_of = RuntimeError("EngineCore encountered an issue.\nStack trace")
    for _ in range(2):
        with pytest.raises(ModelError, match=r"has ended \(EngineCore encountered an issue\.\)"):
            model(ask())
    assert len(network.arguments) == 1, "it is not opened again for each sample"


def test_a_dead_process_of_sglang_fails_its_requests_and_not_the_run(network: Network) -> None:
    before = signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    try:
        catch_crashes()
        model = SGLang("m")
        model.open()
        network.reply = say("abc")
        network.gate.clear()
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(model, ask())
            wait_until(lambda: bool(network.seen))
            os.kill(os.getpid(), signal.SIGQUIT)
            with pytest.raises(ModelError, match="SGLang has ended"):
                waiting.result()
        with pytest.raises(ModelError, match="SGLang has ended"):
            model(ask())
    finally:
        signal.signal(signal.SIGQUIT, before)


def test_a_handler_of_the_user_stays() -> None:
    def own(number: int, frame: object) -> None:
        """Do nothing."""

    before = signal.signal(signal.SIGQUIT, own)
    try:
        catch_crashes()
        assert signal.getsignal(signal.SIGQUIT) is own
    finally:
        signal.signal(signal.SIGQUIT, before)


STUDY = """
tasks: {{jigsaw: {{use: eval.tasks.Photos, kind: jigsaw, n: 3}}}}
model: {{use: pipelines.models.{path}, model: tiny}}
stages:
  choose: {{use: prompting.wording.MultipleChoice}}
  ask: {{use: prompting.turns.Ask}}
"""


@every
def test_a_study_names_an_engine_by_its_path(name: str, network: Network, tmp_path: Path) -> None:
    network.reply = say("(A)")
    study = tmp_path / "study.yaml"
    study.write_text(STUDY.format(path=MODELS[name].__name__))
    result = looktwice("run", study, "--out", tmp_path / "run", "--cache", tmp_path / "cache")
    assert result.exit_code == 0, result.output
    records = list(RunFolder(next((tmp_path / "run").iterdir())).records())
    assert len(records) == 3 and len(network.seen) == 3 and network.closed == 1
    assert all(seen.images for seen in network.seen)
    network.seen.clear()
    again = looktwice("run", study, "--out", tmp_path / "two", "--cache", tmp_path / "cache")
    assert again.exit_code == 0 and not network.seen, "replies are kept"
