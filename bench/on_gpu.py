"""In-process models compared with the bare libraries on a GPU: vLLM, SGLang and transformers.

`python -m bench.on_gpu vllm MODEL` (or sglang, transformers) opens the model twice, one after the
other, each time in a process of its own: by the library alone, and by looktwice. It prints replies
a second at batch 1, 8 and 32, the median of the rounds, and whether the greedy replies are equal.
Then it repeats on looktwice's side the checks that tests make with stand-ins. It exits with 1 if a
check fails. It has not been run on a GPU yet.

The library answers `batch` questions in one call; looktwice is asked by as many threads. Each
question shows its own picture of 640 x 480.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from looktwice.extras.engines import VLLM, LocalVLM, SGLang
from looktwice.extras.networks import close_networks
from looktwice.pipelines import Message, Picture, View
from looktwice.pipelines.model import CallOptions, Messages, Model, ModelError, Reply
from looktwice.pipelines.picture import Pixels

BATCHES, ROUNDS, TOKENS, LONG = (1, 8, 32), 5, 64, 10**6
BLOCK = 80  # pixels; a picture has 8 x 6 blocks
QUESTION = "Describe the picture in one sentence."
MODELS: Mapping[str, type[Any]] = {"vllm": VLLM, "sglang": SGLang, "transformers": LocalVLM}
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "maxLength": 20}},
    "required": ["colour"],
    "additionalProperties": False,
}
Ask = Callable[[Sequence[int]], list[str]]


def make_pixels(number: int) -> Pixels:
    """Return a picture of coloured blocks that depends on the number."""
    blocks = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
    return np.ascontiguousarray(blocks.repeat(BLOCK, 0).repeat(BLOCK, 1))


def make_messages(number: int) -> Messages:
    """Return the question about a picture."""
    return [Message("user", (View.of(Picture(make_pixels(number))), QUESTION))]


def open_bare_vllm(name: str) -> tuple[Ask, Callable[[], None]]:
    """Return a function that asks vLLM alone, and the function that closes it."""
    import vllm

    llm = vllm.LLM(name, disable_log_stats=True, interleave_mm_strings=True)
    params = vllm.SamplingParams(temperature=0.0, max_tokens=TOKENS)

    def ask(numbers: Sequence[int]) -> list[str]:
        conversations = [[make_turn("image_pil", number)] for number in numbers]
        outputs = llm.chat(conversations, params, use_tqdm=False)
        return [output.outputs[0].text for output in outputs]

    return ask, llm.llm_engine.engine_core.shutdown


def make_turn(kind: str, number: int) -> dict[str, Any]:
    """Return the question as a turn of a chat template, with the picture if `kind` names its
    field."""
    shown: dict[str, Any] = {"type": kind}
    if kind != "image":
        shown[kind] = Image.fromarray(make_pixels(number))
    return {"role": "user", "content": [shown, {"type": "text", "text": QUESTION}]}


def render(processor: Any) -> str:
    """Return the prompt of the question."""
    turns = [make_turn("image", 0)]
    given = {"add_generation_prompt": True, "tokenize": False}
    return str(processor.apply_chat_template(turns, chat_template=processor.chat_template, **given))


def open_bare_sglang(name: str) -> tuple[Ask, Callable[[], None]]:
    """Return a function that asks SGLang alone, and the function that closes it."""
    import sglang

    engine = sglang.Engine(model_path=name, log_level="error")
    prompt = render(engine.tokenizer_manager.processor)
    params = {"temperature": 0.0, "max_new_tokens": TOKENS}

    def ask(numbers: Sequence[int]) -> list[str]:
        shown = [[Image.fromarray(make_pixels(number))] for number in numbers]
        found = engine.generate([prompt] * len(shown), params, image_data=shown)
        return [each["text"] for each in found]

    return ask, engine.shutdown


def open_bare_transformers(name: str) -> tuple[Ask, Callable[[], None]]:
    """Return a function that asks transformers alone, and the function that closes it."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    is_gpu = torch.cuda.is_available()
    dtype = torch.bfloat16 if is_gpu else torch.float32
    processor = AutoProcessor.from_pretrained(name, backend="pil")
    processor.tokenizer.padding_side = "left"
    model = AutoModelForImageTextToText.from_pretrained(name, dtype=dtype).eval()
    model = model.to("cuda" if is_gpu else "cpu")
    prompt = render(processor)

    def ask(numbers: Sequence[int]) -> list[str]:
        shown = [[make_pixels(number)] for number in numbers]
        inputs = processor(
            text=[prompt] * len(shown), images=shown, return_tensors="pt", padding=True
        )
        inputs = inputs.to(model.device, dtype)
        with torch.inference_mode():
            made = model.generate(**inputs, do_sample=False, max_new_tokens=TOKENS)
        tokens = made[:, inputs["input_ids"].shape[1] :]
        return list(processor.batch_decode(tokens, skip_special_tokens=True))

    return ask, lambda: None


BARE: Mapping[str, Callable[[str], tuple[Ask, Callable[[], None]]]] = {
    "vllm": open_bare_vllm,
    "sglang": open_bare_sglang,
    "transformers": open_bare_transformers,
}


def ask_model(model: Model, threads: int, numbers: Sequence[int]) -> list[str]:
    """Ask looktwice's model in as many threads."""
    with ThreadPoolExecutor(threads) as pool:
        return [reply.text for reply in pool.map(model, map(make_messages, numbers))]


def measure(ask: Callable[[int], Ask]) -> dict[str, Any]:
    """Return replies a second and the last replies by batch."""
    found: dict[str, Any] = {}
    for batch in BATCHES:
        asking, seconds, texts = ask(batch), list[float](), list[str]()
        for turn in range(ROUNDS + 1):
            numbers = range(turn * batch, (turn + 1) * batch)
            start = time.perf_counter()
            texts += asking(numbers)
            seconds.append(time.perf_counter() - start)
        # the first round is a warm-up
        found[str(batch)] = {"rate": batch / statistics.median(seconds[1:]), "texts": texts}
    return found


def run_side(engine: str, name: str, side: str) -> dict[str, Any]:
    """Return the measurements of one side, and the failed checks of looktwice's."""
    if side == "bare":
        ask, end = BARE[engine](name)
        try:
            return measure(lambda batch: ask)
        finally:
            end()
    own = {"batch": max(BATCHES)} if engine == "transformers" else {}
    model = MODELS[engine](name, max_tokens=TOKENS, **own)
    try:
        found = measure(lambda batch: lambda numbers: ask_model(model, batch, numbers))
        return found | {"faults": list_faults(engine, name, model)}
    finally:
        close_networks()


def list_faults(engine: str, name: str, model: Model) -> list[str]:
    """Return the names of the checks that looktwice's model fails."""
    asked, whole = make_messages(0), model(make_messages(0))

    def call(**options: Any) -> Reply:
        return model(asked, options=CallOptions(**options))

    short, likely = call(max_tokens=2), call(logprobs=5, max_tokens=4)
    stop = whole.text[4:7]
    ended = call(stop=(stop,))
    sums = [sum(map(np.exp, token.values())) for token in likely.logprobs]
    first, second = (View.of(Picture(make_pixels(n))) for n in (1, 2))
    orders = [
        model([Message("user", ("First:", one, "Second:", two, QUESTION))])
        for one, two in ((first, second), (second, first))
    ]
    holds = {
        "a reply has tokens": whole.usage.tokens_in > 0 < whole.usage.tokens_out,
        "a picture has tokens": whole.usage.tokens_in > 50,
        "max_tokens ends a reply": (short.finish, short.usage.tokens_out) == ("length", 2),
        "a text of `stop` ends a reply": ended.text == whole.text.partition(stop)[0],
        "log-probabilities are at most 1 in sum": all(0 < each <= 1.001 for each in sums),
        "each token has log-probabilities": len(sums) == likely.usage.tokens_out,
        "one of the choices is the reply": call(choices=("red", "blue")).text in ("red", "blue"),
        "two pictures have more tokens": orders[0].usage.tokens_in > whole.usage.tokens_in,
        "two pictures have equal tokens in both orders": orders[0].usage.tokens_in
        == orders[1].usage.tokens_in,
    }
    if engine != "transformers":
        made = call(schema=SCHEMA, max_tokens=TOKENS)
        long = [Message("user", ("word " * LONG,))]
        holds["too long a request fails in a sentence"] = fails(lambda: model(long))
        holds["a schema is followed"] = follows_schema(made.text)
    close_networks()  # a GPU may hold one engine at a time, and a seed may need another
    sampled = MODELS[engine](name, temperature=1.0, max_tokens=TOKENS, seed=1)
    drawn = [sampled(asked, draw).text for draw in (0, 0, 1, 2)]
    holds |= {"a seed repeats a draw": drawn[0] == drawn[1], "draws differ": len({*drawn}) > 1}
    return [what for what, so in holds.items() if not so]


def follows_schema(text: str) -> bool:
    """Return whether a text is JSON that follows the schema."""
    try:
        return bool(json.loads(text).keys() == {"colour"})
    except (ValueError, AttributeError):
        return False


def fails(call: Callable[[], object]) -> bool:
    """Return whether a call fails with a sentence."""
    try:
        call()
    except ModelError as exc:
        return "\n" not in str(exc)
    return False


def report(bare: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Print the table and the failed checks; return whether all is well."""
    print("batch    bare    ours   ours/bare   equal replies")
    for batch in map(str, BATCHES):
        one, two = bare[batch], ours[batch]
        pairs = zip(one["texts"], two["texts"], strict=True)
        same = statistics.mean(first.strip() == second.strip() for first, second in pairs)
        rates = f"{one['rate']:7.2f} {two['rate']:7.2f}   {two['rate'] / one['rate']:9.0%}"
        print(f"{batch:>5} {rates}   {same:13.0%}", flush=True)
    for fault in ours["faults"]:
        print("does not hold:", fault)
    return not ours["faults"]


def main(words: Sequence[str]) -> int:
    """Run both sides of an engine in processes of their own, or one of them here."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engine", choices=MODELS)
    parser.add_argument("model", help="a hub id or a folder of a model with vision")
    parser.add_argument("--side", choices=("bare", "ours"))
    parser.add_argument("--to", help="the file for the results of one side")
    given = parser.parse_args(words)
    if given.side:
        found = run_side(given.engine, given.model, given.side)
        Path(given.to).write_text(json.dumps(found), encoding="utf-8")
        return 0
    with TemporaryDirectory() as folder:
        sides = [run_apart(given.engine, given.model, side, folder) for side in ("bare", "ours")]
    return 0 if report(*sides) else 1


def run_apart(engine: str, name: str, side: str, folder: str) -> dict[str, Any]:
    """Return the results of one side, which a process of its own measures."""
    file = Path(folder) / f"{side}.json"
    command = [
        sys.executable,
        "-m",
        "bench.on_gpu",
        engine,
        name,
        "--side",
        side,
        "--to",
        str(file),
    ]
    subprocess.run(command, check=True)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
