"""Names that other programs use for our entries, settings, classes and commands, and hints for
entries that do not exist."""

from __future__ import annotations

from collections.abc import Mapping

__all__: list[str] = []

FOREIGN_NAME_TABLE = """\
tasks: dataset datasets benchmark benchmarks data evals
models: llm llms mllm mllms provider providers
stages: pipeline steps solver solvers prompts prompting transforms chain
contestants: variants arms systems conditions experiments methods
sweep: grid search matrix hyperparameters params product
each: ablate ablation ablations one_at_a_time changes
read: reader parser extractor extract postprocess
readers: parsers extractors
draws: repeats epochs trials
baseline: reference control
scorer: metric metrics scoring scorers
Scorer: metric metrics scoring scorers
subset: n limit samples max_samples num_samples
path: folder dir directory root data_dir data_path dataset_path file_path
columns: question answer choices options id fields
images: image_dir image_folder img_dir image_root image_path
id: question_id qid uid index idx doc_id
question: text query prompt instruction
image: img image_path filename file_name picture
choices: options candidates answers
answer: label gt gt_answer ground_truth target gold correct
url: base_url api_base endpoint host server api_url
model: model_name model_id name_or_path pretrained checkpoint deployment engine
max_tokens: max_new_tokens max_completion_tokens max_output_tokens max_length
in_flight: concurrency max_connections num_concurrent workers parallel batch_size
per_minute: rpm rate_limit requests_per_minute
system: system_prompt system_message
bounds: steps max_steps max_turns max_iterations
views: image images picture pictures
radius: size r diameter
thickness: width line_width linewidth stroke_width
ChatAPI: openai openaimodel gpt vllm ollama openrouter litellm anthropic gemini claude
LocalVLM: hf huggingface transformers hfmodel
Columns: csv table jsonl parquet dataframe
Tsv: mmbench mmstar mmmu vstar hallusionbench pope mme vlmevalkit
MultipleChoice: mcq choice options letters
ChainOfThought: cot stepbystep think
Ask: generate query call
Agent: react tooluse toolcalling
Contours: box boxes boundingbox rectangle
Robust: regex pattern letter
Zoom: crop
Template: prompt prompttemplate jinja
text: template content
out: output output_dir outdir o save_dir
limit: n max_samples samples num_samples
budget: max_cost cost
workers: jobs j concurrency max_connections num_workers
again: overwrite force restart
paper: latex pdf tex figures
to: format
export: format
only: contestant contestants arm task tasks
help: h
run: eval evaluate start resume exec continue demo
list: models tasks stages info ls
init: new create
view: open ui dashboard
"""
FOREIGN_NAMES: Mapping[str, str] = dict(
    line.split(": ") for line in FOREIGN_NAME_TABLE.splitlines()
)
"""Our names of entries, settings, classes, options and commands, with the names that other programs
use, separated by spaces."""

HINT_TABLE = """\
api_key: keys stay in the environment, such as OPENAI_API_KEY, or LOOKTWICE_KEYS=HOST:PORT=NAME
retries: transient errors are retried automatically
max_retries: transient errors are retried automatically
temperature: it is a setting of the model, models.NAME.temperature
output: use the option --out of `run`
limit: use the option --limit of `run`
judge: run `looktwice judge`
scorer: it is a setting of the task
metrics: set `scorer` of the task
specialists: put them into the `stages:` of a contestant, with `replace: true`
extend: a contestant's stages are overlaid on the file's; `replace: true` replaces them
"""
HINTS: Mapping[str, str] = dict(line.split(": ", 1) for line in HINT_TABLE.splitlines())
"""Advice for entries and settings that do not exist."""
