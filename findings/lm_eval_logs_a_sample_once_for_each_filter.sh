#!/bin/bash
# Guess: the samples that lm-evaluation-harness logs are one line for each question, or for each reply.
# What happens: they are one line for each question and filter. A task with a strict and a flexible
#   filter writes every question twice, with the same doc_id, reply and name of the metric; only the
#   field `filter` differs. A mean over the lines is the mean of two metrics, and neither of the two that
#   the harness reports; and the two lines look like two draws of one question.
# Why it matters: paired tests over such a file count each question twice, or average a rule that reads
#   a reply with one that does not. Choose one filter before anything is paired.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lm-eval==0.4.13
cd "$folder"
cat > shapes.yaml <<YAML
task: shapes
dataset_path: json
dataset_kwargs: {data_files: {test: $folder/shapes.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\n\n"], do_sample: false}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: "ANSWER: ([A-D])"}, {function: take_first}]}
  - {name: flexible, filter: [{function: regex, regex_pattern: "([A-D])", group_select: -1}, {function: take_first}]}
YAML
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME="$folder/cache"
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import json
import sys
from collections import Counter
from importlib.metadata import version

with open("shapes.jsonl", "w") as file:
    for number in range(8):
        file.write(json.dumps({"question": f"Which shape is {number}?", "answer": "A"}) + "\n")

import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager


class Fixed(LM):
    """Answers every second question in the form that the strict filter asks for."""

    def generate_until(self, requests):
        return ["ANSWER: A" if number % 2 else "It is A" for number, _ in enumerate(requests)]

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


done = lm_eval.simple_evaluate(
    model=Fixed(), tasks=["shapes.yaml"], task_manager=TaskManager(), bootstrap_iters=0
)
lines, results = done["samples"]["shapes"], done["results"]["shapes"]
mean = sum(line["exact_match"] for line in lines) / len(lines)
told = [float(results[f"exact_match,{name}"]) for name in ("strict", "flexible")]
print(f"lm-eval {version('lm-eval')}: 8 questions, {len(lines)} lines")
print(f"  lines of a doc_id: {sorted(Counter(line['doc_id'] for line in lines).values())}")
print(f"  reported: strict {told[0]}, flexible {told[1]}; mean over the lines: {mean}")
if (len(lines), told, mean) != (16, [0.5, 1.0], 0.75):
    sys.exit("no longer so")
PYTHON
