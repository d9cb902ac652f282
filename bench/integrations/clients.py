"""The programs: how to install, configure and run each one by its own command, and how to read the
score that it computes."""

from __future__ import annotations

import base64
import csv
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from bench.integrations.questions import Question

HERE = Path(__file__).parent
DECLARE = str(HERE / "without_operators.py")


class Command(NamedTuple):
    """A command in the program's environment, and the environment variables that it needs."""

    words: Sequence[str]
    variables: Mapping[str, str] = {}


@dataclass(frozen=True)
class Client:
    """A program from the registry. `write` puts the questions into a folder in its own format and
    returns the command; `read` returns the accuracy by its own score."""

    package: str
    write: Callable[[Path, Sequence[Question], str, str], Command]
    read: Callable[[Path], float]
    beside: tuple[str, ...] = ()


def _get_only_file(folder: Path, pattern: str) -> Path:
    """Return the only matching file in a folder. Raises ValueError unless there is exactly one."""
    (path,) = folder.rglob(pattern)
    return path


def write_inspect(
    folder: Path, questions: Sequence[Question], url: str, contestant: str
) -> Command:
    """Write questions for inspect_ai: `multiple_choice`, and its scorer `pattern`."""
    shutil.copy(HERE / "scenes_inspect.py", folder / "scenes.py")
    address = {"LOOKTWICE_BASE_URL": url, "LOOKTWICE_API_KEY": "none"}
    model = ["--model", f"openai-api/looktwice/{contestant}"]
    quiet = ["--display", "none", "--log-format", "json", "--log-dir", str(folder)]
    return Command(["inspect", "eval", "scenes.py", *model, *quiet], address)


def read_inspect(folder: Path) -> float:
    """Return inspect_ai's accuracy."""
    log = json.loads(_get_only_file(folder, "*scenes*.json").read_text(encoding="utf-8"))
    return float(log["results"]["scores"][0]["metrics"]["accuracy"]["value"])


def write_evalscope(
    folder: Path, questions: Sequence[Question], url: str, contestant: str
) -> Command:
    """Write questions for evalscope: `general_vmcq`, with streaming, which is its default."""
    rows = [
        {
            "question": f"<image 1> {question.question}",
            "options": question.choices,
            "image_1": question.image,
            "answer": question.answer,
        }
        for question in questions
    ]
    (folder / "scenes_val.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    where = {"general_vmcq": {"local_path": str(folder), "subset_list": ["scenes"]}}
    server = ["--model", contestant, "--api-url", url, "--api-key", "none"]
    data = ["--datasets", "general_vmcq", "--dataset-args", json.dumps(where)]
    kind = ["--eval-type", "openai_api", "--work-dir", str(folder / "out")]
    return Command(["evalscope", "eval", *server, *kind, *data])


def read_evalscope(folder: Path) -> float:
    """Return evalscope's score."""
    report = json.loads(_get_only_file(folder, "general_vmcq.json").read_text(encoding="utf-8"))
    return float(report["metrics"][0]["score"])


def write_vlmeval(
    folder: Path, questions: Sequence[Question], url: str, contestant: str
) -> Command:
    """Write questions for VLMEvalKit: `run.py --base-url`, a custom table, letters read without a
    judge."""
    with (folder / "Scenes.tsv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t")
        table.writerow(["index", "image", "question", *"ABCD", "answer"])
        for number, question in enumerate(questions):
            image = base64.b64encode(Path(question.image).read_bytes()).decode()
            row = [number, image, question.question, *question.choices, question.answer]
            table.writerow(row)
    asked = ["--data", "Scenes", "--model", contestant, "--base-url", url]
    read = ["--judge", "exact_matching", "--work-dir", str(folder / "out"), "--api-nproc", "4"]
    words = ["python", DECLARE, "vlmeval.run", *asked, *read]
    return Command(words, {"LMUData": str(folder)})


def read_vlmeval(folder: Path) -> float:
    """Return VLMEvalKit's overall accuracy."""
    path = _get_only_file(folder, "*_acc.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return float(next(csv.DictReader(file))["Overall"])


LMMS_TASK = """\
task: scenes
dataset_path: json
dataset_kwargs: {{data_files: {{val: {rows}}}}}
test_split: val
output_type: generate_until
doc_to_visual: !function words.look
doc_to_text: !function words.blink_doc_to_text
doc_to_target: answer
process_results: !function words.blink_process_results
generation_kwargs: {{max_new_tokens: 16}}
lmms_eval_specific_kwargs:
  default: {{pre_prompt: "Note: You only need to respond with {{}} without providing any\\
    \\ additional information.\\n"}}
metric_list:
  - metric: blink_acc
    aggregation: !function words.blink_aggregate_results
    higher_is_better: true
"""
LMMS_WORDS = """\
from PIL import Image
from lmms_eval.tasks.blink.utils import *

def look(doc):
    return [Image.open(doc["image"]).convert("RGB")]
"""


def write_lmms(folder: Path, questions: Sequence[Question], url: str, contestant: str) -> Command:
    """Write questions for lmms-eval: `async_openai`, with the prompt and the score of its task
    BLINK."""
    rows = [
        {
            "idx": question.id,
            "sub_task": "scenes",
            "image": question.image,
            "prompt": question.lettered,
            "choices": question.choices,
            "answer": f"({question.answer})",
        }
        for question in questions
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "words.py").write_text(LMMS_WORDS, encoding="utf-8")
    task = LMMS_TASK.format(rows=json.dumps(str(folder / "rows.jsonl")))
    (folder / "scenes.yaml").write_text(task, encoding="utf-8")
    model = ["--model", "async_openai", "--model_args", f"model={contestant},base_url={url}"]
    tasks = ["--tasks", "scenes", "--include_path", str(folder)]
    words = ["python", DECLARE, "lmms_eval", *model, *tasks, "--output_path", str(folder / "out")]
    return Command(words, {"OPENAI_API_KEY": "none", "HF_HOME": str(folder / "hub")})


def read_lmms(folder: Path) -> float:
    """Return lmms-eval's accuracy on BLINK."""
    results = json.loads(_get_only_file(folder, "*_results.json").read_text(encoding="utf-8"))
    return float(results["results"]["scenes"]["blink_acc,none"])


def write_verifiers(
    folder: Path, questions: Sequence[Question], url: str, contestant: str
) -> Command:
    """Write questions for verifiers: `vf-eval` of a taskset, with its chat harness in a local
    process."""
    shutil.copy(HERE / "scenes_verifiers.py", folder)
    server = ["--model", contestant, "--client.base-url", url, "--client.api-key-var", "NO_KEY"]
    where = ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
    kept = ["--push", "False", "--output-dir", str(folder / "out")]
    words = ["vf-eval", "scenes_verifiers", *server, *where, *kept]
    return Command(words, {"NO_KEY": "none", "PYTHONPATH": str(folder)})


def read_verifiers(folder: Path) -> float:
    """Return the mean reward of verifiers."""
    lines = _get_only_file(folder, "traces.jsonl").read_text(encoding="utf-8").splitlines()
    rewards = [json.loads(line)["traces"][0]["rewards"]["right"]["score"] for line in lines]
    return fmean(rewards)


def run_library(module: str) -> Callable[[Path, Sequence[Question], str, str], Command]:
    """Return a writer for a program that is a library, whose command calls the module's function
    `ask`."""

    def write(folder: Path, questions: Sequence[Question], url: str, contestant: str) -> Command:
        return Command(["python", str(HERE / "ask_all.py"), module, url, contestant])

    return write


def read_share(folder: Path) -> float:
    """Return the accuracy that `ask_all.py` wrote."""
    return float(json.loads(_get_only_file(folder, "share.json").read_text(encoding="utf-8")))


CLIENTS = (
    Client("inspect-ai", write_inspect, read_inspect, ("openai",)),
    Client("evalscope", write_evalscope, read_evalscope),
    Client("ms-vlmeval", write_vlmeval, read_vlmeval),
    # its file lock uses internals of filelock before version 4
    Client("lmms-eval", write_lmms, read_lmms, ("filelock<4",)),
    Client("verifiers", write_verifiers, read_verifiers, ("uv",)),
    Client("litellm", run_library("ask_litellm"), read_share),
    Client(
        "langgraph", run_library("ask_langgraph"), read_share, ("langchain", "langchain-openai")
    ),
    Client("pydantic-ai-slim", run_library("ask_pydantic_ai"), read_share, ("openai",)),
    Client("smolagents", run_library("ask_smolagents"), read_share, ("openai",)),
)
