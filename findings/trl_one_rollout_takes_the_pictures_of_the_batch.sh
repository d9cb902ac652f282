#!/usr/bin/env bash
# TRL's GRPO with pictures in tool results, and one rollout that writes an image token.
#
# Guess: if the image tokens of a rollout do not match its pictures, because the policy itself wrote
#   an image token, this rollout is masked, or an error stops the training.
# What happens: nothing is reported, and the training forward gets no picture at all. All rollouts of
#   the batch are trained on image tokens without image features, although they were generated with
#   the pictures. Their log-probabilities and gradients are those of a model without images.
# Why it matters: a policy that samples at temperature 1 writes an image token now and then, most of
#   all early in a training. A curve of a model that "learns to look" then contains steps in which it
#   could not see; `generation_kwargs={"suppress_tokens": [...]}` prevents them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'torch==2.13.0' 'transformers==5.24.0' \
  'trl==1.16.0' 'datasets==5.2.0' 'pillow==12.0.0' 'numpy==2.3.5'
cd "$folder"
TRL_EXPERIMENTAL_SILENCE=1 "$folder/venv/bin/python" - <<'PYTHON' 2>errors.txt || { cat errors.txt >&2; exit 1; }
import torch
import transformers
import trl
from datasets import Dataset
from PIL import Image
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
    Qwen2VLProcessor,
)
from trl import GRPOConfig, GRPOTrainer

CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
SPECIAL = ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "<|video_pad|>"]
WORDS = [*SPECIAL, "<|vision_start|>", "<|vision_end|>", CALL, "user", "assistant", "tool", "red"]
ID = {word: number for number, word in enumerate(WORDS)}
TEMPLATE = """{%- for turn in messages -%}<|im_start|>{{ turn.role }}
{%- for part in turn.content -%}
{%- if part.type == 'image' %} <|vision_start|><|image_pad|><|vision_end|>
{%- else %} {{ part.text }}{% endif -%}
{%- endfor -%}
{%- for call in turn.tool_calls or [] -%}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}<|im_end|>{%- endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant{% endif -%}"""
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


class Processor(Qwen2VLProcessor):  # without the video half, which needs torchvision
    @classmethod
    def get_attributes(cls):
        return ["image_processor", "tokenizer"]

    def check_argument_for_proper_class(self, name, argument):
        return type(argument)


inner = Tokenizer(models.WordLevel(ID, unk_token="<unk>"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
inner.add_special_tokens([AddedToken(word) for word in WORDS[:8]])
inner.add_tokens([AddedToken(CALL)])
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=inner,
    pad_token="<pad>",
    unk_token="<unk>",
    eos_token="<|im_end|>",
    padding_side="left",
    extra_special_tokens={"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"},
)
tokenizer.response_template = RESPONSES
pictures = Qwen2VLImageProcessorPil(size={"shortest_edge": 3136, "longest_edge": 3136})


class Policy(Qwen2VLForConditionalGeneration):
    """Writes what `answers` says, and notes how many pictures it is given."""

    answers, generated_with, trained_with = [], [], []

    def generate(self, input_ids, **inputs):
        turn = len(self.generated_with)
        grid = inputs.get("image_grid_thw")
        self.generated_with.append(0 if grid is None else len(grid))
        said = [[CALL, "<|im_end|>", "<pad>"]] * 4 if turn == 0 else self.answers
        return torch.cat([input_ids, torch.tensor([[ID[word] for word in row] for row in said])], 1)


def note_pictures(network, arguments, inputs):
    """Note how many pictures a training forward gets."""
    if torch.is_grad_enabled():
        grid = inputs.get("image_grid_thw")
        Policy.trained_with.append(0 if grid is None else len(grid))


class Room:
    """An environment whose tool returns a picture."""

    def reset(self, **row):
        return None

    def look(self) -> list:
        """Look at the picture."""
        return [{"type": "image", "image": Image.new("RGB", (56, 56), "red")}]


def train(answers):
    """Train for one step on four rollouts; return the pictures of generation and of training."""
    torch.manual_seed(0)
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    size = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    text = {**size, "num_key_value_heads": 4, "vocab_size": len(WORDS), "intermediate_size": 64}
    ends = {"pad_token_id": 0, "eos_token_id": 3, "bos_token_id": None}
    eye = {"depth": 1, "hidden_size": 64, "embed_dim": 32, "num_heads": 2, "patch_size": 14}
    config = Qwen2VLConfig(
        text_config={**text, **ends, "rope_parameters": rope, "max_position_embeddings": 256},
        vision_config=eye,
        image_token_id=ID["<|image_pad|>"],
        video_token_id=ID["<|video_pad|>"],
        vision_start_token_id=ID["<|vision_start|>"],
        vision_end_token_id=ID["<|vision_end|>"],
    )
    policy = Policy(config)
    Policy.answers, Policy.generated_with, Policy.trained_with = answers, [], []
    policy.model.register_forward_pre_hook(note_pictures, with_kwargs=True)
    trainer = GRPOTrainer(
        policy,
        args=GRPOConfig(
            output_dir="out", use_cpu=True, bf16=False, max_steps=1, num_generations=4,
            per_device_train_batch_size=4, max_completion_length=32, report_to=[],
            save_strategy="no", disable_tqdm=True, max_tool_calling_iterations=1,
        ),
        processing_class=Processor(pictures, tokenizer, chat_template=TEMPLATE),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "red"}]}] * 4),
        environment_factory=Room,
        reward_funcs=lambda completions, **columns: [0.0, 1.0, 0.0, 1.0],
    )
    trainer.train()
    return Policy.generated_with, Policy.trained_with


plain = ["red", "<|im_end|>", "<pad>"]
clean = train([plain, plain, plain, plain])
mixed = train([plain, plain, plain, ["<|image_pad|>", "red", "<|im_end|>"]])
print("trl", trl.__version__, "transformers", transformers.__version__)
print("pictures while generating (two turns), and in the training forward, of four rollouts:")
print("  every rollout writes words:             ", clean)
print("  one of the four writes an image token:  ", mixed)
assert clean == ([0, 4], [4]), clean
assert mixed == ([0, 4], [0]), mixed
PYTHON
grep -i "image" "$folder/errors.txt" && exit 1
echo "standard error says nothing about images"
