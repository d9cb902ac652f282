"""GRPO on the CPU: a tiny network with random weights learns the colour of the marked thing from
the pictures that its tool returns.

    pip install -e '.[trl]'
    python -m bench.bench_grpo [STEPS [FOLDER]]

The network is no language model: a Qwen2-VL of two layers and 160,000 weights, whose vocabulary has
the call of its tool as one token. A supervised warm-up teaches it to call the tool, and to name
four of the eight colours; for the others it learns to name any. Those it learns from the reward
alone. The tool shows the region that matters (OracleZoom): a network of this size does not learn to
point as well.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

COLORS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")
TAUGHT = COLORS[:4]
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
"""How TRL reads a reply: Qwen's format of calls."""
STUDY = """
task: {use: eval.tasks.MarkedScenes, kind: color, n: %(n)d, seed: %(seed)d, ground: plain,
  controls: {size: 56, things: 3}, mark: box}
models:
  policy: {use: pipelines.models.LocalVLM, model: "%(model)s", max_tokens: 4, device: cpu}
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

    from looktwice.pipelines.models.chat_template import open_processor

    network = Qwen2VLForConditionalGeneration.from_pretrained(folder)
    processor, _ = open_processor(str(folder), None)

    def save_pretrained(folder: str | Path, **options: Any) -> None:
        """Save the processor without its video half, which needs torchvision."""
        processor.tokenizer.save_pretrained(folder)
        processor.image_processor.save_pretrained(folder)

    processor.save_pretrained = save_pretrained
    return network, processor


def warm_up(network: Any, processor: Any, rollouts: Any, steps: int) -> None:
    """Teach the network to call its tool, and then to name a colour: the right one for those of
    `TAUGHT`, any for others."""
    import torch

    from looktwice.extras.training.environment import make_environment, make_rows

    rng, environment = random.Random(0), make_environment(rollouts)()
    conversations, truths = list[Any](), list[str]()
    for row in make_rows(rollouts):
        asked = environment.reset(**row)
        call = {"type": "function", "function": {"name": "zoom", "arguments": {"box": BOX}}}
        turns = [
            *row["prompt"][:-1],
            {"role": "user", "content": asked},
            {"role": "assistant", "content": [], "tool_calls": [call]},
            {"role": "tool", "content": environment.zoom(box=BOX)},
        ]
        conversations.append(turns)
        sample = rollouts.items[row["sample"]]
        truths.append(sample.sample.choices["ABCD".index(sample.answer)])
    answer = {"role": "assistant", "content": [{"type": "text", "text": COLORS[0]}]}
    inputs = processor.apply_chat_template(
        [[*turns, answer] for turns in conversations],
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    numbers = dict(zip(COLORS, processor.tokenizer.convert_tokens_to_ids([*COLORS]), strict=True))
    tokens, grids = inputs["input_ids"], inputs["image_grid_thw"]
    pixels = inputs["pixel_values"].reshape(len(tokens), -1, inputs["pixel_values"].shape[-1])
    learner = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for _ in range(steps):
        chosen = rng.sample(range(len(tokens)), 16)
        named = [truths[n] if truths[n] in TAUGHT else rng.choice(COLORS) for n in chosen]
        rows = torch.tensor(chosen)
        said = tokens[rows].clone()
        said[said == numbers[COLORS[0]]] = torch.tensor([numbers[name] for name in named])
        likely = (
            network(
                input_ids=said,
                attention_mask=torch.ones_like(said),
                pixel_values=pixels[rows].flatten(0, 1),
                image_grid_thw=grids[: 2 * 16],
                mm_token_type_ids=inputs["mm_token_type_ids"][rows],
            )
            .logits[:, :-1]
            .log_softmax(-1)
        )
        taken = -likely.gather(2, said[:, 1:, None])[..., 0]
        taken[is_own(said[:, 1:], processor)].mean().backward()
        learner.step()
        learner.zero_grad()


def is_own(tokens: Any, processor: Any) -> Any:
    """Return which tokens the network wrote: calls, colours, and the end of its turns."""
    import torch

    numbers = processor.tokenizer.convert_tokens_to_ids([CALL, *COLORS])
    said = torch.isin(tokens, torch.tensor(numbers))
    said[:, 1:] |= said[:, :-1].clone()
    return said


def train(folder: Path, steps: int, every: int, rows: int = 64, n: int = 200) -> list[Any]:
    """Warm up and train the network, and return its certificates before and at every
    checkpoint."""
    from trl import GRPOConfig, GRPOTrainer

    from looktwice.extras.training import Rollouts, certify_checkpoint
    from looktwice.extras.training.trl import (
        CertifyCheckpoints,
        make_dataset,
        make_environment,
        study_reward,
    )

    write_network(folder / "network")
    held_out = write_study(folder, "held_out", 120, 1)
    network, processor = open_network(folder / "network")
    with Rollouts.load(write_study(folder, "train", n, 0), "full", folder / "rollouts") as rollouts:
        warm_up(network, processor, rollouts, 350)
        network.save_pretrained(folder / "warm")
        processor.save_pretrained(folder / "warm")
        place = "models.policy.model={}"
        runs = folder / "checkpoints"
        overrides = [place.replace("{}", str(folder / "warm"))]
        before = certify_checkpoint(held_out, overrides, runs, "step-0")
        certify = CertifyCheckpoints(held_out, place, runs)
        settings = GRPOConfig(
            output_dir=str(folder / "trainer"),
            use_cpu=True,
            bf16=False,
            learning_rate=3e-4,
            num_iterations=4,
            lr_scheduler_type="constant",
            max_steps=steps,
            save_steps=every,
            logging_steps=8,
            per_device_train_batch_size=rows,
            num_generations=16,
            max_completion_length=24,
            max_tool_calling_iterations=2,
            beta=0.0,
            report_to=[],
            disable_tqdm=True,
            generation_kwargs={
                "suppress_tokens": processor.tokenizer.convert_tokens_to_ids([*PICTURE])
            },
        )
        trainer = GRPOTrainer(
            network,
            args=settings,
            processing_class=processor,
            train_dataset=make_dataset(rollouts),
            environment_factory=make_environment(rollouts),
            reward_funcs=study_reward,
            callbacks=[certify],
        )
        trainer.train()
    return [before, *certify.checkpoints]


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp(prefix="grpo-"))
    for checkpoint in train(place.resolve(), steps, max(1, steps // 3)):
        print(checkpoint.run.name)
        for name, value in checkpoint.figures.items():
            print(f"  {name} {value:.3f}")
        print(*checkpoint.verdict, sep="\n")
