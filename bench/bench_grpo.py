"""GRPO on the CPU: a tiny network learns to call its tool, because it gets more rewards once the
tool has shown it a picture.

    pip install -e '.[trl]'
    python -m bench.bench_grpo [STEPS [FOLDER]]

The network is no pretrained language model, but a Qwen2-VL of two layers and 160,000 random
weights, whose vocabulary has the call of its tool as one token. A supervised warm-up teaches it to
name the colour of the marked thing once the tool has shown it, but to call the tool in only one of
five questions; in the others it names any colour. GRPO then trains with the reward alone. The tool
shows the relevant region (OracleZoom), because a network of this size does not learn to point as
well. Answers are sampled, in training and in the certificates.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest

from looktwice.eval.records import RunFolder
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics.intervals import mean_interval
from looktwice.extras.engines.chat_template import open_processor
from looktwice.extras.request_diff.trajectories import read_trajectories, write_trajectories
from looktwice.extras.training import Checkpoint, Rollouts, certify_checkpoint
from looktwice.extras.training.environment import make_environment, make_rows
from looktwice.extras.training.rollouts import STEP_MEASURE

RewardFunction = Callable[..., list[float]]
ENDS = ("", " low", " high")

COLORS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")
CALL_WEIGHT = 0.25  # a call in one of five questions
BOX = [400, 400, 600, 600]
CALL = '<tool_call>\n{"name": "zoom", "arguments": {"box": [400, 400, 600, 600]}}\n</tool_call>'
SPECIAL = ("<pad>", "<unk>", "<|im_start|>", "<|im_end|>")
PICTURE = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
WORDS = (
    "system",
    "user",
    "assistant",
    "tool",
    "What",
    "color",
    "is",
    "the",
    "marked",
    "thing",
    "?",
)
TEMPLATE = """{%- for turn in messages -%}
<|im_start|>{{ turn.role }}
{%- if turn.content is string %} {{ turn.content }}{% else -%}
{%- for part in turn.content -%}
{%- if part.type == 'image' %} <|vision_start|><|image_pad|><|vision_end|>
{%- else %} {{ part.text }}{% endif -%}
{%- endfor -%}
{%- endif -%}
{%- for call in turn.tool_calls or [] -%}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant{% endif -%}
{#- tools are not described: the network has no words for them -#}
"""
RESPONSES = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|> assistant",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}
"""The format in which TRL parses replies: Qwen's tool calls."""
STUDY = """
task: {use: eval.tasks.MarkedScenes, kind: color, n: %(n)d, seed: %(seed)d, ground: plain,
  controls: {size: 56, things: 3}, mark: box}
models:
  policy: {use: pipelines.models.LocalVLM, model: "%(model)s", max_tokens: 4, temperature: 1.0,
    device: cpu}
model: policy
stages:
  agent:
    use: prompting.agent.Agent
    tools: {zoom: {use: prompting.agent.OracleZoom, label: A}}
    bounds: {steps: 2}
    coordinates: 0-1000
    fit: {use: prompting.views.LongestSide, pixels: 56, grow: true}
    protocol: {use: prompting.agent.NativeCalls, pictures: tool}
    system: "system"
    final: "?"
    label: ""
contestants:
  without:
    replace: true
    stages:
      fit: {use: prompting.views.LongestSide, pixels: 56, grow: true}
      ask: {use: prompting.turns.Ask}
  full: {}
  black: {stages: {agent: {results: {use: prompting.agent.BlackImages}}}}
  random:
    stages: {agent: {tools: {zoom: {use: prompting.agent.Zoom, elsewhere: true, tries: 1}}}}
"""


def write_network(folder: Path, seed: int = 0) -> None:
    """Write the network with random weights, its tokenizer and its image processor."""
    import torch
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import (
        PreTrainedTokenizerFast,
        Qwen2VLConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessorPil,
    )

    torch.manual_seed(seed)
    words = [*SPECIAL, *PICTURE, CALL, *WORDS, *COLORS]
    numbers = {word: number for number, word in enumerate(words)}
    inner = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.add_special_tokens([AddedToken(word) for word in (*SPECIAL, *PICTURE)])
    inner.add_tokens([AddedToken(CALL)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<|im_end|>",
        padding_side="left",
        extra_special_tokens={"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"},
    )
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, RESPONSES
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    text = {
        **size,
        "num_key_value_heads": 4,
        "vocab_size": len(words),
        "intermediate_size": 128,
        "max_position_embeddings": 512,
        "rope_parameters": rope,
        "pad_token_id": numbers["<pad>"],
        "eos_token_id": numbers["<|im_end|>"],
        "bos_token_id": None,
    }
    eye = {"depth": 1, "hidden_size": 64, "embed_dim": 32, "num_heads": 2, "mlp_ratio": 2}
    config = Qwen2VLConfig(
        text_config=text,
        vision_config={**eye, "patch_size": 14},
        image_token_id=numbers["<|image_pad|>"],
        video_token_id=numbers["<|video_pad|>"],
        vision_start_token_id=numbers["<|vision_start|>"],
        vision_end_token_id=numbers["<|vision_end|>"],
    )
    Qwen2VLForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(size={"shortest_edge": 3136, "longest_edge": 3136}).save_pretrained(
        folder
    )


def write_study(folder: Path, name: str, n: int, seed: int) -> Path:
    """Write the study with its own questions."""
    path = folder / f"{name}.yaml"
    path.write_text(STUDY % {"n": n, "seed": seed, "model": folder / "network"}, encoding="utf-8")
    return path


def open_network(folder: Path) -> tuple[Any, Any]:
    """Return the network and its processor."""
    from transformers import Qwen2VLForConditionalGeneration

    network = Qwen2VLForConditionalGeneration.from_pretrained(folder)
    processor, _ = open_processor(str(folder), None)

    def save_pretrained(folder: str | Path, **options: Any) -> None:
        """Save the processor without its video processor, which needs torchvision."""
        processor.tokenizer.save_pretrained(folder)
        processor.image_processor.save_pretrained(folder)

    processor.save_pretrained = save_pretrained
    return network, processor


def warm_up(network: Any, processor: Any, rollouts: Rollouts, steps: int) -> None:
    """Teach the network to name the colour that its tool shows, and to call the tool rarely."""
    import torch

    rng, environment = random.Random(0), make_environment(rollouts)()
    looking, guessing, truths = list[Any](), list[Any](), list[int]()
    numbers = processor.tokenizer.convert_tokens_to_ids([*COLORS])
    call = {"type": "function", "function": {"name": "zoom", "arguments": {"box": BOX}}}
    answer = {"role": "assistant", "content": [{"type": "text", "text": COLORS[0]}]}
    for row in make_rows(rollouts):
        asked = [*row["prompt"][:-1], {"role": "user", "content": environment.reset(**row)}]
        called = {"role": "assistant", "content": [], "tool_calls": [call]}
        shown = {"role": "tool", "content": environment.zoom(box=BOX)}
        looking.append([*asked, called, shown, answer])
        guessing.append([*asked, answer])
        item = rollouts.items[row["sample"]]
        truths.append(numbers[COLORS.index(item.sample.choices["ABCD".index(item.answer or "")])])
    look, guess = (Lessons.make(processor, turns, numbers) for turns in (looking, guessing))
    learner = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = rng.sample(range(len(truths)), 16)
        loss = look.loss(network, rows, [truths[row] for row in rows], CALL_WEIGHT)
        loss = loss + guess.loss(network, rows, rng.choices(numbers, k=16), 1.0)
        loss.backward()
        learner.step()
        learner.zero_grad()


@dataclass(frozen=True)
class Lessons:
    """Conversations of equal length as tensors. `own` masks the tokens that the network generates,
    `answers` the colours among them."""

    inputs: Mapping[str, Any]
    own: Any
    answers: Any
    call: int

    @classmethod
    def make(cls, processor: Any, turns: list[Any], numbers: list[int]) -> Lessons:
        """Tokenize conversations that all end in the first colour."""
        import torch

        options = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
        inputs = processor.apply_chat_template(turns, **options)
        tokens = inputs["input_ids"]
        (call,) = processor.tokenizer.convert_tokens_to_ids([CALL])
        own = torch.isin(tokens, torch.tensor([call, numbers[0]]))
        own[:, 1:] |= own[:, :-1].clone()  # the end of the turn
        return cls(inputs, own, tokens == numbers[0], call)

    def loss(self, network: Any, rows: list[int], named: list[int], call_weight: float) -> Any:
        """Return the mean loss of the generated tokens, with these colours as the targets."""
        import torch

        tokens = self.inputs["input_ids"][rows].clone()
        tokens[self.answers[rows]] = torch.tensor(named)
        count = len(self.inputs["image_grid_thw"]) // len(self.own)
        pixels = self.inputs["pixel_values"]
        pixels = pixels.reshape(len(self.own), -1, pixels.shape[-1])[rows].flatten(0, 1)
        output = network(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            pixel_values=pixels,
            image_grid_thw=self.inputs["image_grid_thw"][: count * len(rows)],
            mm_token_type_ids=self.inputs["mm_token_type_ids"][rows],
        )
        likely = output.logits[:, :-1].log_softmax(-1)
        lost = -likely.gather(2, tokens[:, 1:, None])[..., 0]
        weights = self.own[rows][:, 1:] * 1.0
        weights[tokens[:, 1:] == self.call] = call_weight
        return (lost * weights).sum() / len(rows)


@dataclass(frozen=True)
class Sizes:
    """The size of an experiment: optimizer steps, steps between checkpoints, rollouts per step,
    questions of the training and of the certificates, and steps of the warm-up."""

    steps: int = 60
    every: int = 30
    rollouts: int = 64
    questions: int = 200
    held_out: int = 80
    lessons: int = 300


def train(folder: Path, sizes: Sizes, reward: RewardFunction | None = None) -> list[Checkpoint]:
    """Warm up and train the network, and return its certificates before and at every
    checkpoint. `reward` replaces the study's."""
    from trl import GRPOTrainer

    from looktwice.extras.training.trl import (
        make_certifier,
        make_dataset,
        make_environment,
        study_reward,
    )

    write_network(folder / "network")
    held_out = write_study(folder, "held_out", sizes.held_out, 1)
    study = write_study(folder, "train", sizes.questions, 0)
    network, processor = open_network(folder / "network")
    with Rollouts.load(study, "full", folder / "rollouts") as rollouts:
        warm_up(network, processor, rollouts, sizes.lessons)
        for part in (network, processor):
            part.save_pretrained(folder / "warm")
        place, runs = "models.policy.model={}", folder / "checkpoints"
        warm = [place.replace("{}", str(folder / "warm"))]
        before = certify_checkpoint(held_out, warm, runs, "step-0")
        certify = make_certifier(held_out, place, runs)
        trainer = GRPOTrainer(
            network,
            args=make_settings(folder, sizes, processor),
            processing_class=processor,
            train_dataset=make_dataset(rollouts),
            environment_factory=make_environment(rollouts),
            reward_funcs=reward or study_reward,
            callbacks=[certify],
        )
        trainer.train()
    return [before, *certify.checkpoints]


def make_settings(folder: Path, sizes: Sizes, processor: Any) -> Any:
    """Return the settings of TRL. The network may not generate picture tokens: a single one would
    remove all pictures from its training step."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=str(folder / "trainer"),
        use_cpu=True,
        bf16=False,
        learning_rate=5e-4,
        lr_scheduler_type="constant",
        num_iterations=2,
        max_steps=sizes.steps,
        save_steps=sizes.every,
        logging_steps=10,
        per_device_train_batch_size=sizes.rollouts,
        num_generations=8,
        max_completion_length=24,
        max_tool_calling_iterations=2,
        beta=0.0,
        report_to=[],
        disable_tqdm=True,
        generation_kwargs={
            "suppress_tokens": processor.tokenizer.convert_tokens_to_ids([*PICTURE])
        },
    )


class Reward(NamedTuple):
    """The mean reward of some steps, with its 95 % interval over questions."""

    steps: range
    mean: float
    low: float
    high: float


def measure_rewards(folder: Path, parts: int = 5) -> list[Reward]:
    """Measure the rewards of equal parts of a training."""
    (arm,) = score_run(RunFolder(folder / "rollouts")).points
    entries = [entry for entry in arm.all_records if STEP_MEASURE in entry.measured]
    steps = [int(str(entry.measured[STEP_MEASURE])) for entry in entries]
    ends, rewards = [part * (max(steps) + 1) // parts for part in range(parts + 1)], []
    for begin, end in pairwise(ends):
        chosen = [e for e, step in zip(entries, steps, strict=True) if begin <= step < end]
        values = [entry.score.value for entry in chosen]
        low, high = mean_interval(values, [entry.sample for entry in chosen])
        mean = fmean(values)
        rewards.append(Reward(range(begin, end), mean, low or mean, high or mean))
    return rewards


def describe_rollout(line: Mapping[str, Any]) -> str:
    """Format a conversation with a line for each turn; pictures are named by their files."""
    pictures, lines = iter(line["images"]), [f"{line['sample']}: {line['verdict']}"]
    for turn in line["messages"]:
        parts = turn["content"]
        said = [part["text"] if part["type"] == "text" else next(pictures) for part in parts]
        said += [
            f"{call['function']['name']}({call['function']['arguments']})"
            for call in turn["tool_calls"] or ()
        ]
        lines.append(f"  {turn['role']}: {' '.join(said)}")
    return "\n".join(lines)


def run(folder: Path, sizes: Sizes) -> None:
    """Train, and print rewards, certificates and the last rollout."""
    for checkpoint in train(folder, sizes):
        print(checkpoint.run.name)
        for name in ("without", "full", "black", "random", "gain", "full over black"):
            value, low, high = (100 * checkpoint.figures[f"color/{name}{e}"] for e in ENDS)
            print(f"  {name}: {value:.1f} [{low:.1f}, {high:.1f}]")
        print(*(f"  {sentence}" for sentence in checkpoint.verdict), sep="\n")
    for part in measure_rewards(folder):
        name = f"reward in steps {part.steps.start} to {part.steps.stop - 1}"
        print(f"{name}: {part.mean:.3f} [{part.low:.3f}, {part.high:.3f}]")
    out = folder / "rollouts.jsonl"
    print(*write_trajectories(out, read_trajectories(folder / "rollouts")))
    print(describe_rollout(json.loads(out.read_text(encoding="utf-8").splitlines()[-1])))


def test_reward_rises(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    run(tmp_path, Sizes())
    first, *_, last = measure_rewards(tmp_path)
    assert last.low > first.high


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else Sizes.steps
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp(prefix="grpo-"))
    run(place.resolve(), Sizes(steps, max(1, steps // 2)))
